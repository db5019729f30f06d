"""ACK-controlled senders fill a trunk with any congestion control, with hardly any queue.

Source: postack, section 5, R001-9 (the rule `gate`) and R001-11 (rules for held ACKs); trunking,
section 4; docs/ledger.md, goal G4 ("PostACK towards the local senders").
Differs: neither paper combines the two. One site sends to another over 10 Mbit/s with 10 ms each
way, or with 100 ms. The profile of the site's policy would permit ten times this rate, so the trunk
limits it. The credit of a trunk rises and falls with the windows of its management connections. The
windows of ACK-controlled senders follow the average of this credit. Senders are greedy, with TCP as
in the RFCs. Runs take 60 s. The first 20 s do not count, because slow start must find the path's
rate.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

told = Experiment(__file__)

RATE = 10_000_000
SECONDS, WARMUP = 60, 20

TRUNKS: dict[str, dict[str, Any]] = {
    "cubic": {},
    "reno": {"tcp": {"congestion": "reno"}},
    "one connection": {"connections": 1},
    "epochs": {"probing": "epochs"},
    "far": {},
}
"""Settings of each trunk; ``far`` is a trunk between distant sites."""

DELAYS = {"far": 100}
NEAR = 10
"""Delay between near sites in milliseconds."""

FLOWS = [1, 4, 16]


def sites(ack_control: str, trunk: str, flows: int) -> Scenario:
    """Two sites, a trunk from one to the other, and the links between them."""
    net = Scenario(duration=f"{SECONDS} s", warmup=f"{WARMUP} s")
    there = {"name": "trunk", "local": "10.73.9.1", "peer": "10.73.9.2", **TRUNKS[trunk]}
    back = {**there, "local": there["peer"], "peer": there["local"]}
    policy = {"name": "all", "action": "shape", "profile": {"mean": f"{10 * RATE} bit/s"}}
    policy |= {"trunk": "trunk", "ack_control": ack_control}
    net.gateway("north", {"trunk": [there], "policy": [policy]})
    net.gateway("south", {"trunk": [back]})
    net.host("a", address=["10.73.0.1", there["local"]], gateway="north")
    net.host("b", address=["10.73.0.2", there["peer"]], gateway="south")
    queue = {"kind": "trunk-fifo", "limit": "256 kB", "threshold": 32}
    delay = f"{DELAYS.get(trunk, NEAR)} ms"
    net.route(to="b", rate=f"{RATE} bit/s", delay=delay, queue=queue)
    net.route(delay=delay)
    start = {"uniform": ["0 s", "1 s"]}
    net.traffic("bulk", "greedy", "a", "b", flows=flows, start=start)
    return net


@told.run(ack_control=["none", "postack"], trunk=list(TRUNKS), flows=FLOWS)
def measure(seed: int, ack_control: str, trunk: str, flows: int) -> dict[str, float]:
    run = sites(ack_control, trunk, flows).run(seed)
    group, drops = run.groups.columns, run.drops
    early_drops = drops.where(place="cloud", reason="aqm")["dropped_packets"].sum()
    return {
        "throughput": group["throughput_bps"][0],
        "waits": group["delay_mean_seconds"][0] - DELAYS.get(trunk, NEAR) / 1e3,
        "waits_p99": group["delay_p99_seconds"][0] - DELAYS.get(trunk, NEAR) / 1e3,
        "lost": float(drops["dropped_packets"].sum() - early_drops),
    }


def ratios(runs: Table, column: str, trunks: Iterable[str] = TRUNKS) -> Iterator[np.ndarray]:
    """A column with PostACK over that without ACK control, for each trunk and number of senders."""
    for trunk in trunks:
        for flows in FLOWS:
            cell = runs.where(trunk=trunk, flows=flows)
            with_it, without = (cell.where(ack_control=it)[column] for it in ("postack", "none"))
            yield with_it / without


def extremes(
    columns: Iterable[np.ndarray], choose: Callable[[Iterable[float]], float]
) -> list[float]:
    """The largest or smallest of several numbers, for each seed."""
    return [choose(turn) for turn in zip(*columns, strict=True)]


@told.claim("G4", "20 ms: throughput over that without ACK control, worst case", at_least=0.97)
def full(runs: Table) -> Numbers:
    return extremes(ratios(runs, "throughput", TRUNKS.keys() - DELAYS), min)


@told.claim("G4", "200 ms: throughput over that without ACK control, worst case", at_least=0.95)
def far(runs: Table) -> Numbers:
    return extremes(ratios(runs, "throughput", DELAYS), min)


@told.claim("G4", "mean queueing delay over that without ACK control, worst case", at_most=0.5)
def waits(runs: Table) -> Numbers:
    return extremes(ratios(runs, "waits"), max)


@told.claim("G4", "99th percentile of queueing delay over the same, worst case", at_most=0.5)
def waits_p99(runs: Table) -> Numbers:
    return extremes(ratios(runs, "waits_p99"), max)


@told.claim("G4", "user packets lost at gateways and on the path", at_most=0)
def lost(runs: Table) -> Numbers:
    each = [runs.where(ack_control="postack", trunk=trunk, flows=it)["lost"]
            for trunk in TRUNKS for it in FLOWS]  # fmt: skip
    return extremes(each, max)


@told.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["throughput, Mbit/s", "queueing delay, ms"])
    for axes, column, unit in zip(panels, ("throughput", "waits"), (1e6, 1e-3), strict=True):
        for n, ack_control in enumerate(("none", "postack")):
            bars = [runs.where(ack_control=ack_control, trunk=trunk, flows=4)[column].mean() / unit
                    for trunk in TRUNKS]  # fmt: skip
            axes.bar(
                [at + 0.4 * n - 0.2 for at in range(len(TRUNKS))], bars, 0.4, label=ack_control
            )
        axes.set_xticks(range(len(TRUNKS)), list(TRUNKS), rotation=20)
        axes.legend()
    return figure
