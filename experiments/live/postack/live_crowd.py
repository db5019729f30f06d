"""A hundred real flows share a rate, with hardly more queued data than four flows.

Source: postack; docs/ledger.md, A001-1 (rate and fairness), A001-2 (buffer), A001-4 (goodput) and
A001-7 (timeouts).
Differs: `_live.py` describes labs of real hosts. CUBIC connections with autotuned windows share 10
Mbit/s at 52 ms, up and down. They are compared with a queue for each flow. All flows begin within a
tenth of a second. The warm-up of 10 s counts for timeouts only.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._live import bulk, hosts, missing, side_by_side

live_crowd = Experiment(__file__, seeds=10, needs=missing)

FLOWS = 100
WAYS = ["up", "down"]
SHOWN = ["none", "gate"]


@live_crowd.run(way=WAYS)
def measure(seed: int, way: str) -> dict[str, float]:
    def one(ack_control: str) -> dict[str, float]:
        return bulk(hosts(ack_control, way=way, seconds=(10, 15)), way=way, flows=FLOWS)

    return side_by_side(one, SHOWN)


def least(runs: Table, column: str) -> Numbers:
    """For each seed, the smaller value of the two directions."""
    return [min(both) for both in zip(*(runs.where(way=it)[column] for it in WAYS), strict=True)]


def over_queue(runs: Table, way: str, column: str, base: str) -> np.ndarray:
    """A column with ACKs held, divided by the column ``base`` with a queue for each flow."""
    chosen = runs.where(way=way)
    return chosen[f"gate {column}"] / chosen[f"none {base}"]


@live_crowd.claim("A001-4", "live: 100 flows up: goodput over that of a queue for each flow",
                  at_least=0.97)  # fmt: skip
def up(runs: Table) -> Numbers:
    return over_queue(runs, "up", "goodput", "goodput")


@live_crowd.claim("A001-4", "live: 100 flows down: goodput over that of a queue for each flow",
                  at_least=0.97)  # fmt: skip
def down(runs: Table) -> Numbers:
    return over_queue(runs, "down", "goodput", "goodput")


@live_crowd.claim("A001-1", "live: 100 flows: Jain index, lower of both directions", at_least=0.97)
def jain(runs: Table) -> Numbers:
    return least(runs, "gate jain")


@live_crowd.claim("A001-2", "live: 100 flows up: queued data over that of a queue for each flow",
                  paper=0.04, at_most=0.03)  # fmt: skip
def data(runs: Table) -> Numbers:
    return over_queue(runs, "up", "data", "data")


@live_crowd.claim("A001-2", "live: 100 flows up: queued data and held ACKs, over the same queue",
                  paper=0.04, at_most=0.04)  # fmt: skip
def memory(runs: Table) -> Numbers:
    return over_queue(runs, "up", "memory", "data")


@live_crowd.claim(
    "A001-7", "live: 100 flows up: timeouts, gate minus a queue for each flow", at_most=0
)
def timeouts(runs: Table) -> Numbers:
    chosen = runs.where(way="up")
    return chosen["gate timeouts"] - chosen["none timeouts"]


@live_crowd.claim(
    "A001-7",
    "live: 100 flows down: timeouts, gate minus a queue for each flow",
    at_most=0,
    why="in ten runs of a hundred downloads there was one timeout more than with a queue for each "
    "flow, so the interval reaches above 0. Before overdue ACKs of downloads departed one at a "
    "time, each run had 58. In the simulator (`postack/together`) there is none",
)
def timeouts_down(runs: Table) -> Numbers:
    chosen = runs.where(way="down")
    return chosen["gate timeouts"] - chosen["none timeouts"]


@live_crowd.figure
def figure(runs: Table) -> Any:
    figure, (goodput, waits) = plots.panels(["goodput, Mbit/s", "queued data, kB, mean"])
    for ack_control in SHOWN:
        for axes, column, unit in ((goodput, "goodput", 1e6), (waits, "data", 1e3)):
            means = [runs.where(way=it)[f"{ack_control} {column}"].mean() / unit for it in WAYS]
            axes.plot(WAYS, [max(mean, 0.1) for mean in means], marker="o", linestyle="",
                      label=ack_control)  # fmt: skip
    goodput.set_ylim(bottom=0)
    waits.set_yscale("log")
    for axes in (goodput, waits):
        axes.legend()
    return figure
