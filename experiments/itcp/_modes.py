"""Adds claims and draws panels that compare modes of the same network, seed by seed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidegate import Table
from tidegate.experiment import Experiment, paired
from tidegate.statistics import MEDIAN_RATIO, Numbers

from ._load import Class
from ._network import ADJUSTED, MOMENTS, TAIL_X, Setup, curve, curves, loads, measured, network

MODES = ("fixed", *ADJUSTED, "by load", "separate")

DRIFT = (
    "all weights drift to 1, because the service rate while busy includes the share of idle "
    "aggregates"
)
NOISE = "all weights drift to 1, because the noise of the slope is negative in half of the rounds"

WHY = {"literal": NOISE, "measured": DRIFT}
"""The reason why an adjuster misses the shares, by its mode."""


def run(classes: Sequence[Class], mode: str, setup: Setup, seed: int) -> dict[str, float]:
    """Makes one run. Returns its numbers and the points of the curves in the figures."""
    result = network(classes, mode, setup).run(seed)
    return measured(result, classes, mode) | curves(result, classes, mode)


def key(text: str) -> str:
    """Converts a text to a part of a claim's id."""
    return "".join(it if it.isalnum() else "_" for it in text.lower()).strip("_")


def claim_over(
    figure: Experiment, ref: str, mode: str, column: str, text: str, base: str = "fixed",
    **bounds: Any,
) -> None:  # fmt: skip
    """Adds a claim about the ratio of two modes."""

    def ratio(runs: Table) -> Numbers:
        return paired(runs.where(mode=mode), runs.where(mode=base), column)

    ratio.__name__ = f"{column}_{key(mode)}_over_{key(base)}"
    text = f"{mode} over {base}: {text}"
    figure.claim(ref, text, statistic=MEDIAN_RATIO, **bounds)(ratio)


def claim_of(
    figure: Experiment, ref: str, mode: str, column: str, text: str, **bounds: Any
) -> None:
    """Adds a claim about a number of one mode."""

    def number(runs: Table) -> Numbers:
        values: np.ndarray = runs.where(mode=mode)[column]
        return values

    number.__name__ = f"{column}_{key(mode)}"
    figure.claim(ref, f"{mode}: {text}", **bounds)(number)


def draw_tails(axes: Any, runs: Table, number: int, own: Class, modes: Sequence[str]) -> None:
    """Draws P[V > x] of sojourns V in each mode, and P[S > x] of service times S."""
    for mode in modes:
        tail = curve(runs.where(mode=mode), "tail", number, len(TAIL_X))
        shown = tail > 0
        axes.loglog(TAIL_X[shown], tail[shown], label=mode)
    axes.loglog(TAIL_X, own.tail(TAIL_X), ":", color="gray", label="service times")
    axes.set_xlabel("seconds")
    axes.set_ylabel("part of the files above")
    axes.set_ylim(1e-6, 1.2)
    axes.legend(fontsize="x-small")


def draw_shares(
    axes: Any, runs: Table, mode: str, classes: Sequence[Class], seconds: float
) -> None:
    """Draws shares by weight over time, and the loads as dotted lines."""
    time = np.linspace(0, seconds, MOMENTS)
    for number, load in enumerate(loads(classes), 1):
        share = curve(runs.where(mode=mode), "moment", number, MOMENTS)
        (line,) = axes.plot(time, share, label=f"subnet {number}")
        axes.axhline(load, linestyle=":", color=line.get_color(), linewidth=1)
    axes.set_xlabel("time (s); dotted: loads")
    axes.set_ylabel("share")
    axes.set_ylim(0, 0.85)
    axes.legend(fontsize="small")
