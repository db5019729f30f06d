"""ACKs are held for a short time: without losses a sender measures little more than its path.

Source: postack; docs/ledger.md, R001-11 (b), which bounds each hold; the bounds are goals of this
project.
Differs: `_line.py` describes the access line. 1, 4 and 32 endless downloads with CUBIC have a round
trip of 50 ms, and the path loses nothing. The smoothed round-trip time of the slowest sender
counts, from 20 s to 40 s. It may exceed the path by 30 ms, or by two segments of each download at
the policy's rate if this is more. `loss` judges the benefit of a longer hold after losses. The
bounds were set before the code was changed to reach them.
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
"""Length of a full frame on the line, bytes."""

WHY = (
    "a window has room for 20 ms of held ACKs and for an ACK. An ACK of two segments is 33 ms of "
    "the rate of each sender. With less room, receivers that divide their ACKs would take part of "
    "the rate of the others"
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
    """Permitted excess of the measured round-trip time over the path's, in seconds."""
    return max(0.03, 2 * downloads * FRAME * 8 / (LINE * PART))


def claim_hold(downloads: int) -> None:
    """Adds the claim for this number of downloads."""

    def more(runs: Table) -> Numbers:
        return runs.where(ack_control="gate", downloads=downloads)["more"]

    more.__name__ = f"more_{downloads}"
    text = f"{downloads} downloads: worst excess of the round-trip time over the path's, s"
    why = WHY if downloads == DOWNLOADS[-1] else None
    hold.claim("beyond", text, at_most=bound(downloads), why=why)(more)


for each in DOWNLOADS:
    claim_hold(each)


@hold.claim("beyond", "rate over that of a queue for each flow, worst case", at_least=0.99)
def rate(runs: Table) -> Numbers:
    cells = [runs.where(downloads=it) for it in DOWNLOADS]
    ratios = [cell.where(ack_control="gate")["rate"] / cell.where(ack_control="none")["rate"]
              for cell in cells]  # fmt: skip
    return np.min(ratios, axis=0)


@hold.figure
def figure(runs: Table) -> Any:
    figure, (axes,) = plots.panels(["the sender with the longest round-trip time"])
    for ack_control in SHOWN:
        cell = runs.where(ack_control=ack_control)
        means = [cell.where(downloads=it)["more"].mean() * 1e3 for it in DOWNLOADS]
        axes.plot(DOWNLOADS, means, marker="o", label=ack_control)
    axes.plot(DOWNLOADS, [bound(it) * 1e3 for it in DOWNLOADS], linestyle="--", label="bound")
    axes.set_xscale("log")
    axes.set_xlabel("downloads")
    axes.set_ylabel("round-trip time minus the path's, ms")
    axes.legend()
    return figure
