"""Figures in the style of the papers, with matplotlib (``pip install tidegate[plot]``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.result import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def panels(titles: Sequence[str], columns: int = 2) -> tuple[Figure, list[Axes]]:
    """A figure with a panel for each title."""
    from matplotlib.figure import Figure

    columns = min(columns, len(titles))
    rows = -(-len(titles) // columns)
    figure = Figure(figsize=(5 * columns, 3.4 * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for each, title in zip(axes, titles, strict=False):
        each.set_title(title, fontsize="medium")
    for each in axes[len(titles) :]:
        each.remove()
    return figure, axes[: len(titles)]


def mean_throughput(axes: Axes, flows: Table, names: Sequence[str], **line: Any) -> None:
    """Draws the mean throughput of each flow since the start, in kbit/s, over time.

    ``flows`` is the series of a ``throughput`` probe; ``names`` are those of its flows.
    """
    seconds = flows["time_seconds"][1:]
    for number, name in enumerate(names):
        arrived = flows[f"flow_{number}_bytes"][1:]
        axes.plot(seconds, arrived * 8 / 1_000 / seconds, label=name, **line)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("throughput (kbit/s)")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")


def total_throughput(axes: Axes, flows: Table, name: str, **line: Any) -> None:
    """Like :func:`mean_throughput`, but draws the sum of all flows."""
    seconds = flows["time_seconds"][1:]
    columns = [column for column in flows.columns if column.startswith("flow_")]
    arrived = np.sum([flows[column][1:] for column in columns], axis=0)
    axes.plot(seconds, arrived * 8 / 1_000 / seconds, label=name, **line)
    axes.legend(fontsize="small")
