"""Ideal model: weights in proportion to the loads, known or measured, speed up class 1.

Source: integrated TCP, sections 3.1 and 4; docs/ledger.md, A002-2 (sojourns) and A002-4 (shares
above the loads).
Differs: `_fluid.py` describes the ideal model, and `_adjust.py` the laws of weights. Shares follow
the weights without delay, so no adjuster of weights can reach more. `by load` has fixed weights in
proportion to the loads, which no gateway knows. `proportional` is a law of ours: each gateway sets
its weight in proportion to its own load, averaged over many rounds. Transfer times of files with
tail index 1.2 have no finite variance. So modes are compared by the median of the ratios at equal
seeds.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment, paired
from tidegate.statistics import MEDIAN_RATIO, Numbers, quantile

from ._adjust import Adjuster, Fixed, Literal, Measured, Parameters, Proportional
from ._fluid import Shared, share_by_weight
from ._load import E1, E3, Class, ccdf, files, slope

ideal = Experiment(__file__)

SECONDS = 20_000

NETWORKS = {"E1": (E1, 180), "E3": (E3, 120)}
"""Classes, and number of samples in a round."""

MODES = ("fixed", "literal", "measured", "proportional", "by load")

SETTLED = 1_350
"""Seconds of ten update periods. Claims of A002-4 (shares exceed the loads) count later samples."""

SHORT = "its weights drift towards 1, and with equal weights all shares are equal"


def adjusters(mode: str, classes: Sequence[Class], samples: int, seed: int) -> list[Adjuster]:
    """An adjuster for each aggregate."""
    own = Parameters(samples=samples)
    count = range(len(classes))
    match mode:
        case "literal":
            return [Literal(seed, number, own) for number in count]
        case "measured":
            return [Measured(seed, number, own) for number in count]
        case "proportional":
            return [Proportional(seed, number, own) for number in count]
        case "by load":
            return [Fixed(each.load) for each in classes]
        case _:
            return [Fixed() for _ in count]


def run(network: str, mode: str, seed: int, seconds: float = SECONDS) -> tuple[Any, Shared]:
    """The files of a run, and their simulation."""
    classes, samples = NETWORKS[network]
    own = files(classes, seconds, seed)
    return own, share_by_weight(own, adjusters(mode, classes, samples, seed), seconds)


def measured(network: str, own: Any, ran: Shared) -> dict[str, float]:
    """Sojourns, share, and part of the time with a share above the load, for each class."""
    row: dict[str, float] = {}
    settled = ran.time > SETTLED
    for number, each in enumerate(NETWORKS[network][0]):
        sojourn = (ran.departed - own.time)[own.owner == number]
        sojourn = sojourn[np.isfinite(sojourn)]
        share = ran.shares[settled, number]
        row |= {
            f"mean_{number + 1}": float(sojourn.mean()),
            f"p99_{number + 1}": float(np.quantile(sojourn, 0.99)),
            f"slope_{number + 1}": slope(sojourn),
            f"share_{number + 1}": float(share.mean()),
            f"above_{number + 1}": float((share > each.load).mean()),
        }
    return row


@ideal.run(network=list(NETWORKS), mode=list(MODES))
def measure(seed: int, network: str, mode: str) -> dict[str, float]:
    return measured(network, *run(network, mode, seed))


def over(runs: Table, network: str, mode: str, column: str) -> np.ndarray:
    """A column in a mode, divided by the same column with fixed weights, for each seed."""
    own = runs.where(network=network)
    return paired(own.where(mode=mode), own.where(mode="fixed"), column)


def claim_over(network: str, mode: str, column: str, text: str, **bounds: Any) -> None:
    """Adds a claim about the ratio of a mode to fixed weights."""

    def measured(runs: Table) -> Numbers:
        return over(runs, network, mode, column)

    measured.__name__ = f"{column}_{mode.replace(' ', '_')}_{network.lower()}"
    text = f"{network}, {mode} over fixed: {text}"
    ideal.claim("A002-2, ideal", text, statistic=MEDIAN_RATIO, **bounds)(measured)


MEAN, LATE = "mean sojourn of class 1", "99 % quantile of sojourns of class 1"
OTHER = "mean sojourn of class 2"
OTHERWISE: dict[str, Any] = {"kind": "shown otherwise"}
claim_over("E1", "literal", "mean_1", MEAN, at_least=0.5, **OTHERWISE)
claim_over("E1", "literal", "p99_1", LATE, at_least=0.5, **OTHERWISE)
claim_over("E1", "measured", "mean_1", MEAN, at_most=0.5, why=SHORT)
claim_over("E1", "measured", "p99_1", LATE, at_most=0.5, why=SHORT)
claim_over("E1", "measured", "mean_2", OTHER, at_most=1.5)
for mode in ("proportional", "by load"):
    claim_over("E1", mode, "mean_1", MEAN, at_most=0.5)
    claim_over("E1", mode, "p99_1", LATE, at_most=0.5)
    claim_over("E1", mode, "mean_2", OTHER, at_most=1.5)
    claim_over("E3", mode, "mean_1", MEAN, at_most=1)
claim_over("E3", "measured", "mean_1", MEAN, at_most=1, why=SHORT)


def claim_of(ref: str, network: str, mode: str, column: str, text: str, **bounds: Any) -> None:
    """Adds a claim about one mode."""

    def measured(runs: Table) -> Numbers:
        values: np.ndarray = runs.where(network=network, mode=mode)[column]
        return values

    measured.__name__ = f"{column}_of_{mode.replace(' ', '_')}_{network.lower()}"
    ideal.claim(ref, f"{network}, {mode}: {text}", **bounds)(measured)


for mode in MODES:
    claim_of("A002-2, ideal", "E1", mode, "p99_1", "99 % quantile of class 1 (s)", kind="context",
             statistic=quantile(0.5))  # fmt: skip
claim_of("A002-4, ideal", "E1", "proportional", "above_1", "part of the time with phi_1 > rho_1",
         at_least=0.9)  # fmt: skip
claim_of("A002-2, ideal", "E1", "by load", "slope_1", "slope of class 1 from 1 s to 60 s",
         at_most=-1.6)  # fmt: skip
for mode in ("literal", "measured"):
    claim_of("A002-4, ideal", "E1", mode, "above_1", "part of the time with phi_1 > rho_1",
             kind="shown otherwise", at_most=0.9)  # fmt: skip


@ideal.figure
def figure(_runs: Table) -> Any:
    titles = ["E1: shares over time", "E1: sojourns of class 1", "E1: sojourns of class 2"]
    figure, panels = plots.panels(titles, columns=3)
    x = np.geomspace(0.03, 200, 60)
    for color, mode in enumerate(MODES):
        own, ran = run("E1", mode, 1)
        for number in range(2):
            style: Any = {"color": f"C{color}", "linestyle": "-" if number == 0 else "--"}
            label = f"{mode}, class {number + 1}"
            panels[0].plot(ran.time, ran.shares[:, number], linewidth=1, label=label, **style)
            sojourn = (ran.departed - own.time)[own.owner == number]
            tail = ccdf(sojourn[np.isfinite(sojourn)], x)
            panels[1 + number].loglog(x, tail, color=f"C{color}", label=mode)
    for number, each in enumerate(E1):
        panels[0].axhline(each.load, color="gray", linestyle=":")
        panels[1 + number].loglog(x, each.tail(x), ":", color="gray", label="service times")
        panels[1 + number].set_xlabel("seconds")
        panels[1 + number].set_ylim(1e-6, 1)
    panels[0].set_xlabel("time (s); dotted: loads")
    panels[0].set_ylim(0, 1)
    for axes in panels:
        axes.legend(fontsize="x-small")
    return figure
