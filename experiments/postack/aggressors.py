"""ACK control protects honest flows: senders that ignore congestion gain nothing from it.

Source: postack; docs/ledger.md, R001-9 (packets of other traffic do not delay held ACKs); RFC 2914,
section 3.2; Savage and others, doi 10.1145/505696.505704 (ACK division, optimistic ACKs).
Differs: `_network.py` describes the network. The paper has no aggressors. Four honest flows share
10 Mbit/s with one to eight aggressors of one kind. `blind` is TCP that sends 12.5 Mbit/s and
ignores its window. `slow` is TCP that ignores its window and sends one and a half times its share.
`udp` is UDP of 12.5 Mbit/s. With `division`, the receiver acknowledges 100 bytes at a time, and the
sender counts ACKs. With `optimistic`, the receiver acknowledges four segments that have not
arrived. The queue is `per-flow` with its defaults. Runs take 20 s. Rates count the bytes that
arrive in the last 12 s. A case is a kind and number of aggressors, a round trip, a direction and an
allocation. All cases take a quarter of an hour on two cores.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import FLOWS, RATE, bulk, network

aggressors = Experiment(__file__, seeds=10)


def blind(rate: int) -> dict[str, Any]:
    """A sender of ``rate`` bit/s that ignores its window."""
    return {
        "ignores_window": True,
        "congestion": {"kind": "constant", "rate": f"{rate} bit/s"},
    }  # fmt: skip


def slow(count: int) -> dict[str, Any]:
    """A sender of one and a half times its share of the rate."""
    return blind(RATE * 3 // (2 * (FLOWS + count)))


ATTACKS: dict[str, dict[str, Any]] = {
    "blind": blind(RATE * 5 // 4),
    "slow": {},
    "udp": {},
    "division": {"ack_step": 100, "counting": "acks"},
    "optimistic": {"acks_ahead": 4},
}  # fmt: skip

COUNTS = [1, 4, 8]
ROUND_TRIPS = {"1 ms": "400 us", "10 ms": "4900 us", "100 ms": "49900 us"}
"""Round-trip times, and the one-way delay of the receivers' link for each."""

TOGETHER = ["logical-partitions", "drr", "fcfs", "lru", "partitioned"]
ALLOCATIONS = [*TOGETHER, "sequential"]
RULES = ["gate", "bucket", "virtual-queue"]


@aggressors.run(
    attack=list(ATTACKS), count=COUNTS, rtt=list(ROUND_TRIPS), way=["up", "down"],
    allocation=ALLOCATIONS, ack_control=["none", *RULES],
)  # fmt: skip
def measure(
    seed: int, attack: str, count: int, rtt: str, way: str, allocation: str, ack_control: str
) -> dict[str, float]:
    net = network(
        ack_control, way=way, window=None, flows=FLOWS + count, far=ROUND_TRIPS[rtt],
        policy={"allocation": allocation, "queue": "per-flow"}, duration="20 s", warmup="8 s",
    )  # fmt: skip
    bulk(net, way)
    near, far = [[f"{side}{n}" for n in range(FLOWS, FLOWS + count)] for side in "lw"]
    ends = (near, far) if way == "up" else (far, near)
    start = {"uniform": ["0 s", "500 ms"]}
    if attack == "udp":
        net.traffic("attack", "cbr", *ends, protocol="udp", start=start, rate="12.5 Mbit/s",
                    packet="1514 B")  # fmt: skip
    else:
        spec = slow(count) if attack == "slow" else ATTACKS[attack]
        tcp = {"profile": "linux", **spec}
        net.traffic("attack", "greedy", *ends, start=start, tcp=tcp)
    groups = net.run(seed).groups
    return {"honest": groups.where(group="bulk")["throughput_bps"][0]}


def parts(
    runs: Table,
    rules: Sequence[str],
    attacks: Sequence[str] = tuple(ATTACKS),
    allocations: Sequence[str] = TOGETHER,
) -> Numbers:
    """The least ratio of the honest flows' rate to their rate without ACK control, for each seed.

    Cases in which honest flows get less than 1 % of the rate without ACK control are left out.
    """
    least = []
    for attack, count, rtt, way, allocation in product(
        attacks, COUNTS, ROUND_TRIPS, ("up", "down"), allocations
    ):
        cell = runs.where(attack=attack, count=count, rtt=rtt, way=way, allocation=allocation)
        none = cell.where(ack_control="none")["honest"]
        none = np.where(none < RATE / 100, np.nan, none)
        least += [cell.where(ack_control=rule)["honest"] / none for rule in rules]
    return np.nanmin(np.array(least), axis=0)


def protects(text: str, why: str | None = None) -> Callable[..., Any]:
    """Adds a claim that honest flows keep 0.95 of their rate without ACK control."""
    return aggressors.claim(
        "honest flows protected", f"{text}: honest flows' rate over that without, worst case",
        at_least=0.95, why=why,
    )  # fmt: skip


@protects("gate, TCP that ignores its ACKs and UDP, faster than the rate")
def gate(runs: Table) -> Numbers:
    return parts(runs, ["gate"], ["blind", "udp"])


@protects("gate, TCP that ignores its ACKs and sends one and a half shares")
def gate_slow(runs: Table) -> Numbers:
    return parts(runs, ["gate"], ["slow"])


@protects("gate, optimistic ACKs")
def gate_early(runs: Table) -> Numbers:
    return parts(runs, ["gate"], ["optimistic"])


@protects("gate, divided ACKs")
def gate_divided(runs: Table) -> Numbers:
    return parts(runs, ["gate"], ["division"])


@protects("bucket, all aggressors but divided ACKs")
def bucket(runs: Table) -> Numbers:
    return parts(runs, ["bucket"], ["blind", "slow", "udp", "optimistic"])


@protects("bucket, divided ACKs",
          why="such senders get a few percent more than their share. This is too little to detect "
          "them, and eight of them take it from four honest flows")  # fmt: skip
def bucket_divided(runs: Table) -> Numbers:
    return parts(runs, ["bucket"], ["division"])


@protects("virtual queue, UDP")
def virtual_queue(runs: Table) -> Numbers:
    return parts(runs, ["virtual-queue"], ["udp"])


@protects("virtual queue, TCP that ignores its ACKs, faster than the rate")
def virtual_queue_blind(runs: Table) -> Numbers:
    return parts(runs, ["virtual-queue"], ["blind"])


@protects("virtual queue, TCP that ignores its ACKs and sends one and a half shares")
def virtual_queue_slow(runs: Table) -> Numbers:
    return parts(runs, ["virtual-queue"], ["slow"])


@protects("virtual queue, optimistic or divided ACKs",
          why="with this rule an ACK before its data has no release time and departs at once. With "
          "`partitioned`, a flow that does not fill its rate has no queue")  # fmt: skip
def virtual_queue_early(runs: Table) -> Numbers:
    return parts(runs, ["virtual-queue"], ["division", "optimistic"])


@protects("sequential, all rules",
          why="data of a flow that joined after an aggressor waits forever. It counts in the queue "
          "that delays the ACKs of earlier flows")  # fmt: skip
def sequential(runs: Table) -> Numbers:
    return parts(runs, RULES, allocations=["sequential"])


@aggressors.figure
def figure(runs: Table) -> Any:
    titles = [f"{attack}: honest flows' rate over that without" for attack in ATTACKS]
    figure, panels = plots.panels(titles)
    for axes, attack in zip(panels, ATTACKS, strict=True):
        for rule in RULES:
            cells = [parts(runs, [rule], [attack], [it]) for it in ALLOCATIONS]
            lows = [np.mean(cell) for cell in cells]
            axes.plot(ALLOCATIONS, lows, marker="o", linestyle="", label=rule)
        axes.axhline(0.95, color="grey", linewidth=0.5)
        axes.set_ylim(bottom=0)
        axes.tick_params(axis="x", rotation=90)
        axes.legend()
    return figure
