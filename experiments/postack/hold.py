"""The hold is short: a sender measures little more than its path while nothing is lost.

Source: postack, ledger R001-11 (b), which bounds each hold; this project's goal for the default.
Differs: see `_line.py`. 1, 4 and 32 endless downloads have a round trip of 50 ms, with CUBIC, and
nothing is lost on the way. A sender's smoothed round-trip time counts from 20 s to 40 s; the worst
sender is judged. The bound is 30 ms beyond the path, or two segments of each download at the
policy's rate if this is more. What a longer hold earns after losses is judged by `loss`.
The bounds are goals, set before any repair.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._line import LINE, PART, line, rate_of

hold = Experiment(__file__)

DOWNLOADS = [1, 4, 32]
SHOWN = ["none", "gate", "bucket"]
PATH = 0.05
"""Round-trip time without a queue and without a hold, in seconds."""

FRAME = 1514
"""Bytes of a full segment on the line."""

WHY = (
    "a window is reduced only where ACKs would be held for more than half of `max_hold`, so that a "
    "sender that loses nothing has its ACKs held for about 0.5 s"
)


@hold.run(ack_control=SHOWN, downloads=DOWNLOADS)
def measure(seed: int, ack_control: str, downloads: int) -> dict[str, float]:
    net = line(ack_control, {"server": PATH}, seconds=40)
    start = {"uniform": ["0 s", "500 ms"]}
    net.traffic("bulk", "greedy", "server", "client", flows=downloads, start=start)
    net.sample = "200 ms"
    net.probe("window", traffic="bulk")
    run = net.run(seed)
    table = run["windows of bulk"]
    late = table["time_seconds"] > 20
    times = [table[f"flow_{n}_rtt_seconds"][late].mean() for n in range(downloads)]
    return {"more": max(times) - PATH, "rate": rate_of(run, "bulk", 20) / (LINE * PART)}


def bound(downloads: int) -> float:
    """Seconds that a sender may measure beyond its path."""
    return max(0.03, 2 * downloads * FRAME * 8 / (LINE * PART))


def claim_hold(downloads: int) -> None:
    """Claims the bound for so many downloads."""

    def more(runs: Table) -> Numbers:
        return runs.where(ack_control="gate", downloads=downloads)["more"]

    more.__name__ = f"more_{downloads}"
    text = f"{downloads} downloads: round-trip time of the worst beyond the path, s"
    hold.claim("beyond", text, at_most=bound(downloads), why=WHY)(more)


for each in DOWNLOADS:
    claim_hold(each)


@hold.claim("beyond", "rate, of that of a queue for each flow", at_least=0.99)
def rate(runs: Table) -> Numbers:
    cells = [runs.where(downloads=it) for it in DOWNLOADS]
    ratios = [cell.where(ack_control="gate")["rate"] / cell.where(ack_control="none")["rate"]
              for cell in cells]  # fmt: skip
    return np.min(ratios, axis=0)


@hold.figure
def figure(runs: Table) -> Any:
    figure, (axes,) = plots.panels(["the worst sender"])
    for ack_control in SHOWN:
        cell = runs.where(ack_control=ack_control)
        means = [cell.where(downloads=it)["more"].mean() * 1e3 for it in DOWNLOADS]
        axes.plot(DOWNLOADS, means, marker="o", label=ack_control)
    axes.plot(DOWNLOADS, [bound(it) * 1e3 for it in DOWNLOADS], linestyle="--", label="bound")
    axes.set_xscale("log")
    axes.set_xlabel("downloads")
    axes.set_ylabel("round trip beyond the path, ms")
    axes.legend()
    return figure
