"""Sweeps of the adjusters' parameters: eps or margin, beta, length of a round, initial weight.

Source: integrated TCP, section 3.2; docs/ledger.md, A002-11 (sweeps of parameters).
Differs: `_network.py` describes the network. Runs use the two subnets E1 and last 4,000 s. "until"
is the time until both shares exceed their loads for the first time. If this never happens, a run
counts as 4,000 s.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import MEDIAN_RATIO, Numbers, quantile

from ._load import E1
from ._modes import key
from ._network import Setup, measured, network

sweeps = Experiment(__file__, seeds=6)

SECONDS = 4_000

MODES = ("literal", "measured")

VALUES: dict[str, tuple[float, ...]] = {
    "eps": (0.05, 0.2), "beta": (0.1, 0.4), "samples": (60, 360), "initial": (1,)
}  # fmt: skip
"""Values in addition to the paper's own."""

CASES: dict[str, tuple[str, Setup]] = {"fixed": ("fixed", Setup(seconds=SECONDS))}


ENOUGH = (
    "with a margin of 0.2 the gateway of class 1 keeps its weight, so both shares exceed the loads"
)


def setup(mode: str, name: str, value: float) -> Setup:
    """A setup with one parameter changed.

    "eps" is `epsilon` for `literal`, and `margin` otherwise.
    """
    if name == "samples":
        return Setup(seconds=SECONDS, samples=round(value))
    if name == "initial":
        return Setup(seconds=SECONDS, weight=value)
    field = {"eps": "epsilon" if mode == "literal" else "margin"}.get(name, name)
    return Setup(seconds=SECONDS, adjuster={field: value})


for mode in MODES:
    CASES[mode] = (mode, Setup(seconds=SECONDS))
    for name, values in VALUES.items():
        for value in values:
            CASES[f"{mode}, {name} {value:g}"] = (mode, setup(mode, name, value))


@sweeps.run(case=list(CASES))
def measure(seed: int, case: str) -> dict[str, float]:
    mode, own = CASES[case]
    return measured(network(E1, mode, own).run(seed), E1, mode)


def of(runs: Table, case: str, column: str) -> np.ndarray:
    values: np.ndarray = runs.where(case=case)[column]
    return values


def claim(case: str, column: str, text: str, statistic: Any = None, **bounds: Any) -> None:
    """Adds a claim of A002-11 about one case."""

    def number(runs: Table) -> Numbers:
        return of(runs, case, column)

    number.__name__ = f"{column}_{key(case)}"
    more = {"statistic": statistic} if statistic else {}
    sweeps.claim("A002-11", f"{case}: {text}", **more, **bounds)(number)


def claim_over(case: str, column: str, text: str, **bounds: Any) -> None:
    """Adds a claim about the ratio of one case to fixed weights."""

    def ratio(runs: Table) -> Numbers:
        count = min(len(of(runs, case, column)), len(of(runs, "fixed", column)))
        return of(runs, case, column)[:count] / of(runs, "fixed", column)[:count]

    ratio.__name__ = f"{column}_over_{key(case)}"
    sweeps.claim("A002-11", f"{case} over fixed: {text}", statistic=MEDIAN_RATIO, **bounds)(ratio)


for case in CASES:
    if case == "fixed":
        continue
    claim(case, "all_above", "part of the time with phi_i > rho_i for both", kind="shown otherwise",
          at_most=0.9, why=ENOUGH if case == "measured, eps 0.2" else None)  # fmt: skip
    if case.startswith("measured"):
        claim_over(case, "median_2", "median sojourn of class 2", at_most=1.5)
for mode in MODES:
    claim(mode, "until", "seconds until both shares are above the loads", quantile(0.5),
          kind="context")  # fmt: skip


@sweeps.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["part of the time with phi_i > rho_i for both",
                                   "p99 sojourn of class 1, over fixed"])  # fmt: skip
    names = [case for case in CASES if case != "fixed"]
    place = np.arange(len(names))
    above = [of(runs, it, "all_above").mean() for it in names]
    late = [np.median(of(runs, it, "p99_1") / of(runs, "fixed", "p99_1")) for it in names]
    for axes, values in zip(panels, (above, late), strict=True):
        axes.barh(place, values)
        axes.set_yticks(place, names, fontsize="x-small")
        axes.invert_yaxis()
    panels[1].axvline(1, color="gray", linewidth=1)
    return figure
