"""A timer costs the same for any number of flows.

Source: aggregates, section 6.2 and Table 2: microseconds to set, handle and cancel a timer.
Differs: as `_cost.py` explains, instructions are counted. The paper's table is to show that a host
can afford a few timers, but not a timer for each flow. Here the cost of an operation must not grow
with the number of timers. The one shaping timer must not expire more often with more flows. "Does
not grow" means: to at most 1.05 times, the same limit as in the experiment `handle.py`. Flows begin
at random times. The number of instructions is the same with every seed.
"""

from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._cost import instructions
from ._server import QUEUE

table2 = Experiment(__file__)

SIZES = [1, 1_000, 10_000, 100_000]


def flood(flows: int) -> Scenario:
    """A number of flows that offer 12 Mbit/s together and are shaped to 10 Mbit/s."""
    net = Scenario(duration="4 s", warmup="1 s")
    net.host("n0", gateway="qosmgr")
    net.host("n1")
    policy = {
        "name": "all",
        "match": {"direction": "up"},
        "profile": {"mean": "10 Mbit/s", "burst": "32 kB"},
        "action": "shape",
        "queue": QUEUE,
    }
    net.gateway("qosmgr", {"gateway": {"shaping_interval": "15 ms"}, "policy": [policy]})
    net.link("qosmgr.wan", "n1", rate="100 Mbit/s", delay="10 ms")
    start = {"uniform": ["0 s", "1 s"]}
    rate = f"{12_000_000 // flows} bit/s"
    net.traffic("flood", "cbr", "n0", "n1", flows=flows, rate=rate, packet="500 B", start=start)
    return net


@table2.run(size=SIZES)
def measure(seed: int, size: int) -> dict[str, float]:
    aggregate = flood(size).run(seed).aggregates
    return {
        "set_cancel": instructions("timer/set-cancel", 20_000, size),
        "set_handle": instructions("timer/set-fire", 20_000, size),
        "looks_per_MB": aggregate["timer_looks"][0] / (aggregate["conforming_bytes"][0] / 1e6),
    }


def growth(runs: Table, column: str, under: int = SIZES[0]) -> np.ndarray:
    """The greatest value of all sizes above ``under``, divided by the value of ``under``."""
    larger = [runs.where(size=it)[column] for it in SIZES if it > under]
    return np.max(larger, axis=0) / runs.where(size=under)[column]


@table2.claim("T2", "set and cancel: most of 1,000 to 100,000 timers over one", at_most=1.05)
def set_cancel(runs: Table) -> Numbers:
    return growth(runs, "set_cancel")


@table2.claim(
    "T2",
    "set and handle: most of 1,000 to 100,000 timers over one",
    at_most=1.05,
    why="a single timer fires from the slot in which it was set. Among others, a timer is first "
    "sorted into finer slots, at most once for each level of the timer wheel. From 1,000 timers on "
    "the cost does not grow (`#set-handle-many`)",
)
def set_handle(runs: Table) -> Numbers:
    return growth(runs, "set_handle")


@table2.claim("T2", "set and handle: most of 10,000 and 100,000 timers over 1,000", at_most=1.05)
def set_handle_many(runs: Table) -> Numbers:
    return growth(runs, "set_handle", under=1_000)


@table2.claim(
    "A000-16",
    "expiries of the shaping timer per MB: most of 1,000 to 100,000 flows over one",
    at_most=1.05,
)
def looks(runs: Table) -> Numbers:
    return growth(runs, "looks_per_MB")


@table2.figure
def figure(runs: Table) -> Any:
    figure, axes = plots.panels(["set and cancel", "set and handle"])
    for each, column in zip(axes, ["set_cancel", "set_handle"], strict=True):
        means = [runs.where(size=it)[column].mean() for it in SIZES]
        each.semilogx(SIZES, means, marker="o")
        each.set_xlabel("timers")
        each.set_ylabel("instructions")
        each.set_ylim(bottom=0)
    return figure
