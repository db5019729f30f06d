"""Tests of scenarios and results."""

import pickle
import signal
import tomllib

import numpy as np
import pytest

import tidegate
from tidegate import Scenario, ScenarioError, Table


def telephony(rate: str = "64 kbit/s") -> Scenario:
    """One direction of a telephone call."""
    net = Scenario(duration="10 s", warmup="2 s", sample="1 s")
    net.hosts("alice", "bob")
    net.link("alice", "bob", rate="10 Mbit/s", delay="10 ms")
    net.traffic(
        "call", "cbr", "alice", "bob", rate=rate, packet="200 B", start={"uniform": ["0 s", "1 s"]}
    )
    return net


def test_a_run_measures_what_was_sent():
    run = telephony().run(seed=1)
    assert run.flows["throughput_bps"] == pytest.approx([64_000], rel=0.01)
    assert run.groups.where(group="call")["delay_p50_seconds"] == pytest.approx([0.01], rel=0.1)
    assert len(run["groups over time"]["time_seconds"]) == 11


def test_windows_of_a_series_add_up_to_the_arrived_bytes():
    net = telephony()
    net.traffic("answer", "cbr", "bob", "alice", rate="32 kbit/s", packet="200 B", flows=2)
    net.probe("throughput", traffic="answer")
    run = net.run(seed=1)
    groups = run.windowed()
    assert groups["time_seconds"].tolist() == list(range(1, 11))
    assert groups["answer_bps"][5] == pytest.approx(64_000, rel=0.06)
    assert groups["total_bps"] == pytest.approx(groups["answer_bps"] + groups["call_bps"])
    flows = run.windowed("flows of answer", step=2)
    assert flows["time_seconds"].tolist() == [2, 4, 6, 8, 10]
    both = flows["flow_0_bps"] + flows["flow_1_bps"]
    assert both.sum() * 2 / 8 == run["groups over time"]["answer_bytes"][-1]
    assert flows["jain"] == pytest.approx([1] * 5, rel=0.01)
    with pytest.raises(ValueError, match="step: 0"):
        run.windowed(step=0)


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    once, again, other = (telephony().run(seed) for seed in (1, 1, 2))
    assert once.flows["start_seconds"] == again.flows["start_seconds"]
    assert once.flows["start_seconds"] != other.flows["start_seconds"]


def test_a_scenario_and_its_file_are_equal():
    net = telephony()
    again = Scenario.from_toml(net.to_toml())
    assert again.to_toml() == net.to_toml()
    assert tomllib.loads(net.to_toml())["traffic"][0]["from"] == ["alice"]


def test_tables_without_a_python_method_are_kept():
    net = Scenario.from_toml('seed = 7\n[run]\ncolour = "red"\n[[host]]\nname = "a"\n')
    assert tomllib.loads(net.to_toml())["seed"] == 7
    with pytest.raises(ScenarioError) as caught:
        net.check()
    assert "colour" in str(caught.value) and "duration" in str(caught.value)


def test_scenarios_and_results_can_be_sent_to_other_processes():
    net = pickle.loads(pickle.dumps(telephony()))
    run = pickle.loads(pickle.dumps(net.run()))
    assert run.flows["group"].tolist() == ["call"]


def test_a_gateway_takes_policies_as_a_mapping():
    net = Scenario(duration="5 s", warmup="1 s")
    net.host("alice", gateway="edge")
    net.host("bob")
    net.gateway(
        "edge",
        {"policy": [{"name": "calls", "action": "shape", "profile": {"mean": "1 Mbit/s"}}]},
    )
    net.link("edge.wan", "bob", rate="10 Mbit/s", delay="10 ms")
    net.traffic("flood", "cbr", "alice", "bob", rate="2 Mbit/s")
    aggregates = net.run().aggregates
    assert aggregates["policy"].tolist() == ["calls"]
    assert aggregates["conforming_bps"] == pytest.approx([1e6], rel=0.02)


@pytest.mark.parametrize(
    ("mend", "message"),
    [
        (dict(rate="0 bit/s"), r"link\[1\]\.rate: .*zero.*TG\d+"),
        (dict(rate="10"), r"link\[1\]\.rate: .*unit"),
        (dict(delay="-3 ms"), r"link\[1\]\.delay: "),
        (dict(colour="red"), r"link\[1\]\.?\w*: .*colour"),
    ],
)
def test_an_error_names_the_field_and_a_correction(mend, message):
    net = telephony()
    net.host("carol")
    net.link("bob", "carol", **mend)
    with pytest.raises(ScenarioError, match=message):
        net.run()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), r'link\[1\]\.rate: nan .*write .*"10 Mbit/s"'),
        (float("inf"), r'link\[1\]\.rate: inf .*write .*"10 Mbit/s"'),
        (np.float64("-inf"), r"link\[1\]\.rate: .*inf.*write"),
        (2**63, r"link\[1\]\.rate: 9223372036854775808 is too large; write at most"),
        (None, r"link\[1\]\.rate: None .*leave the field out"),
        (b"10 Mbit/s", r"link\[1\]\.rate: b'10 Mbit/s' .*write"),
        ({"kind": [1, None]}, r"link\[1\]\.rate\.kind\[1\]: None"),
    ],
)
def test_a_value_that_no_file_can_hold_is_named_with_its_field(value, message):
    """Catches: an error of the JSON or TOML writer, which does not name a field."""
    net = telephony()
    net.host("carol")
    net.link("bob", "carol", rate=value)
    for refused in (net.run, net.check, net.to_toml):
        with pytest.raises(ScenarioError, match=message):
            refused()


def test_a_value_in_a_policy_is_named_with_its_field():
    net = telephony()
    with pytest.raises(ScenarioError, match=r"gateway\[0\]\.policy\.policy\[0\]\.weight: None"):
        net.gateway("edge", {"policy": [{"name": "calls", "weight": None}]})


@pytest.mark.parametrize("seed", [None, -1, 2**64, 1.5, float("nan"), "1", True])
def test_an_invalid_seed_is_reported(seed):
    with pytest.raises(ScenarioError, match=r"seed: .* write a whole number"):
        telephony().run(seed=seed)


def test_numbers_of_numpy_are_numbers():
    net = telephony()
    net.traffic("more", "greedy", "bob", "alice", flows=np.int64(2))
    assert len(net.run(seed=np.uint8(3)).flows) == 3


def test_an_exception_of_a_signal_handler_keeps_its_type():
    """Catches: KeyboardInterrupt in place of the handler's own exception."""

    def late(*_):
        raise TimeoutError("a budget of processor time")

    before = signal.signal(signal.SIGVTALRM, late)
    net = telephony()
    net.duration = "100000 s"
    net.traffic("bulk", "greedy", "alice", "bob")
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.05)
        with pytest.raises(TimeoutError, match="a budget of processor time"):
            net.run()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_the_error_about_an_unknown_node_lists_the_nodes():
    net = telephony()
    net.link("bob", "charles")
    with pytest.raises(ScenarioError, match=r"link\[1\]\.to: there is no .*charles.*alice, bob"):
        net.check()


def test_every_error_is_reported_at_once():
    net = telephony()
    net.link("alice", "nobody")
    net.link("somebody", "bob")
    with pytest.raises(ScenarioError) as caught:
        net.check()
    assert len(str(caught.value).splitlines()) == 2


def test_tables_become_frames_and_files(tmp_path):
    flows = telephony().run().flows
    assert flows.to_pandas()["group"].tolist() == ["call"]
    assert flows.to_polars()["received_packets"].to_list() == flows["received_packets"].tolist()
    assert flows.to_arrow().num_rows == 1
    flows.to_parquet(tmp_path / "flows.parquet")
    flows.to_csv(tmp_path / "flows.csv")
    assert (tmp_path / "flows.csv").read_text().startswith("group,from,to,")


def test_the_error_about_a_missing_column_lists_the_columns():
    with pytest.raises(KeyError, match=r"no column 'rate'; there are a_bps"):
        tidegate.Table({"a_bps": np.array([1.0])})["rate"]


def test_a_change_names_a_time_and_one_way_of_a_link():
    net = Scenario(duration="10 s")
    net.change("5 s", "middle", "client", delay="20 ms")
    change = {"at": "5 s", "from": "middle", "to": "client", "delay": "20 ms"}
    assert net.tables["change"] == [change]


def test_a_probe_is_between_the_two_ends_of_a_link():
    net = Scenario(duration="1 s")
    net.probe("queue", "middle", "client")
    assert net.tables["probe"] == [{"kind": "queue", "from": "middle", "to": "client"}]
    with pytest.raises(TypeError, match="two ends"):
        net.probe("queue", "middle")


def test_a_long_table_is_printed_in_part():
    table = Table({"rate_bps": [1.5, 300.0], "flow": ["a", "b"]})
    assert str(table) == "rate_bps  flow\n     1.5     a\n     300     b"
    lines = str(Table({"n": range(30)})).split("\n")
    assert (lines[0], lines[1], lines[10], lines[11], lines[-1]) == (
        " n",
        " 0",
        " 9",
        "… 10 more rows",
        "29",
    )
