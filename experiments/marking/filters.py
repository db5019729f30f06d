"""The filter decides the quality of the heuristic: the paper's passes nearly all flows.

Source: marking, section 3.1 (trade-off of Delta and M); ledger sections 5 and 10, A004-12.
Differs: see `_network.py`. The network of experiment 1 has 240 flows. That of 10,000 flows has 41.7
times its rate and buffer, and runs for 12 s of which 4 count. Filters are the paper's of 3 stages
of 8 counters, one of 3 stages of 256, and `coverage`, which is parallel and follows the traffic.
`make bench` measures the cost of a packet in instructions.
"""

from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import PAPER, SECONDS, STEP, WARMUP, flows, scenario, total, uniform
from .exp1 import BUFFER, GREEDY, LONGEST, ON_OFF, RATE, SHORTEST

filters = Experiment(__file__, seeds=5)

INTERVALS, THRESHOLDS = (0.1, 0.25, 1.0, 4.0), (25, 100, 400)
"""Delta in seconds, and M in kbit."""


def heuristic(interval: float = 1.0, threshold: int = 100, buckets: int = 8) -> dict[str, Any]:
    """The heuristic with Delta in s, M in kbit, and so many counters in each of three stages."""
    return {
        "kind": "heuristic", **PAPER, "interval": f"{round(interval * 1e3)} ms",
        "threshold": f"{threshold * 125} B", "stages": 3, "buckets": buckets,
    }  # fmt: skip


def swept(interval: float, threshold: int) -> str:
    """The name of a case of the sweep."""
    return f"{interval:g} s, {threshold} kbit"


MARKINGS: dict[str, Any] = {
    "3 x 8": heuristic(),
    "3 x 256": heuristic(buckets=256),
    "coverage, paper": {"kind": "coverage", **PAPER},
    "coverage": {"kind": "coverage"},
    **{swept(d, m): heuristic(d, m) for d in INTERVALS for m in THRESHOLDS},
}

MANY = 10_000
FEW = GREEDY + ON_OFF

CASES = {
    **{name: (name, FEW) for name in MARKINGS},
    **{f"{name}, {MANY} flows": (name, MANY) for name in ("3 x 8", "3 x 256", "coverage")},
}
"""The marking and the number of flows."""

TIMES = {FEW: (SECONDS, WARMUP), MANY: (12, 8)}
"""Seconds of a run, and of its beginning that is left out, by the number of flows."""


def network(case: str, seed: int) -> Scenario:
    """Experiment 1's network, or a larger one with as much rate and buffer for each flow."""
    marking, count = CASES[case]
    rate, buffer = RATE * count // FEW, BUFFER * count // FEW
    fifo = {"kind": "drop-tail", "limit": f"{buffer} B"}
    gateway = {"rate": {"up": f"{rate} bit/s"}, "queue": fifo, "marking": MARKINGS[marking]}
    if count > FEW:
        gateway["packets"] = 65_536
    seconds, warmup = TIMES[count]
    net = scenario({"gateway": gateway}, seconds=seconds, warmup=warmup)
    for name, kind, own in (("greedy", "greedy", GREEDY), ("bursts", "on-off", ON_OFF)):
        own = own * count // FEW
        rtts = uniform(seed, name, own, SHORTEST, LONGEST)
        flows(net, name, kind, rtts, start={"uniform": ["0 s", "5 s"]})
    return net


@filters.run(case=list(CASES))
def measure(seed: int, case: str) -> dict[str, float]:
    run = network(case, seed).run(seed)
    passed = run["passages"]
    count = CASES[case][1]
    queue = total(run, "waiting_bytes")[round(TIMES[count][1] / STEP) :]
    buffer = BUFFER * count // FEW
    return {
        "loss": float(passed["dropped_packets"].sum() / passed["arrived_packets"].sum()),
        "queue": float(passed["waiting_mean_bytes"].sum() / buffer),
        "deviation": float(queue.std() / buffer),
    }


def of(runs: Table, case: str, column: str) -> np.ndarray:
    """A column of one case, a number for each seed."""
    values: np.ndarray = runs.where(case=case)[column]
    return values


@filters.claim(
    "A004-12", "deviation of the queue, mean over M: Delta of 0.1 s over 4 s",
    paper="obsolete data with larger Delta", at_most=1,
)  # fmt: skip
def steadier(runs: Table) -> Numbers:
    short, long = (
        np.mean([of(runs, swept(d, m), "deviation") for m in THRESHOLDS], axis=0)
        for d in (INTERVALS[0], INTERVALS[-1])
    )
    ratio: np.ndarray = short / long
    return ratio


@filters.claim(
    "A004-12", "loss, mean over Delta: M of 25 kbit less M of 400 kbit",
    paper="poor accuracy with larger M", at_most=0,
)  # fmt: skip
def accurate(runs: Table) -> Numbers:
    small, large = (
        np.mean([of(runs, swept(d, m), "loss") for d in INTERVALS], axis=0)
        for m in (THRESHOLDS[0], THRESHOLDS[-1])
    )
    difference: np.ndarray = small - large
    return difference


def claim_loss(name: str, count: int) -> None:
    """The loss of one filter."""
    case = name if count == FEW else f"{name}, {count} flows"

    def loss(runs: Table) -> Numbers:
        return of(runs, case, "loss")

    key = name.replace(" ", "").replace(",", "_")
    loss.__name__ = f"loss_{key}_{count}"
    filters.claim("A004-12", f"{name}, {count} flows: loss", kind="context")(loss)


for each, number in CASES.values():
    if each not in {swept(d, m) for d in INTERVALS for m in THRESHOLDS}:
        claim_loss(each, number)


@filters.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["deviation of the queue, of the buffer", "loss, %"])
    for axes, column, unit in zip(panels, ("deviation", "loss"), (1, 0.01), strict=True):
        for m in THRESHOLDS:
            means = [of(runs, swept(d, m), column).mean() / unit for d in INTERVALS]
            axes.plot(INTERVALS, means, marker="o", label=f"M = {m} kbit")
        axes.set_xscale("log")
        axes.set_xlabel("Delta (s)")
        axes.set_ylim(bottom=0)
        axes.legend()
    return figure
