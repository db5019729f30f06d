"""Functions that name mechanisms."""

import tidegate
from tidegate.mechanisms import congestion, queue


def test_a_mechanism_is_the_table_that_a_file_has() -> None:
    assert queue.red(limit="20 kB", ecn=False) == {"kind": "red", "limit": "20 kB", "ecn": False}
    assert congestion.increase_by_k(from_="80 ms") == {"kind": "increase-by-k", "from": "80 ms"}


def test_a_scenario_accepts_mechanisms() -> None:
    net = tidegate.Scenario(duration="2 s")
    net.hosts("a", "b")
    net.link("a", "b", rate="1 Mbit/s", queue=queue.codel(target="10 ms"))
    net.traffic("bulk", "greedy", "a", "b", tcp={"congestion": congestion.cubic(beta=0.8)})
    assert net.run(seed=1).flows["goodput_bps"][0] > 0
