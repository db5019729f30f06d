"""Figures 3 to 5: transfer times in two subnets, and shares with and without adjusted weights.

Source: integrated TCP, section 4.2, figures 3 to 5; docs/ledger.md, A002-2 (sojourns), A002-4
(shares above the loads) and A002-6 (limits of weights).
Differs: `_network.py` describes the network and the modes. One run serves the three figures. The
modes `measured`, `proportional` and `by load` are ours. `by load` knows the loads, which no gateway
does. It shows the best that an adjuster could reach. The transfer times of class 2 (tail index 1.2)
have no finite variance, so modes are compared by the median of ratios.
"""

from typing import Any

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import quantile

from ._load import E1
from ._modes import DRIFT, MODES, WHY, claim_of, claim_over, draw_shares, draw_tails, run
from ._network import ADJUSTED, Setup

fig3to5 = Experiment(__file__)

SETUP = Setup()


@fig3to5.run(mode=list(MODES))
def measure(seed: int, mode: str) -> dict[str, float]:
    return run(E1, mode, SETUP, seed)


MEAN, LATE = "mean sojourn of class 1", "99 % quantile of sojourns of class 1"
OTHER = "mean sojourn of class 2"
PAPER = {"paper": "significant improvement"}
GIVEN = "class 2 has a share of 0.32 instead of 0.5, even if the loads are known"
OTHERWISE: dict[str, Any] = {"kind": "shown otherwise"}
claim_over(fig3to5, "A002-2", "literal", "mean_1", MEAN, at_least=0.5, **OTHERWISE)
claim_over(fig3to5, "A002-2", "literal", "p99_1", LATE, at_least=0.5, **OTHERWISE)
claim_over(fig3to5, "A002-2", "measured", "mean_1", MEAN, at_most=0.5, why=DRIFT, **PAPER)
claim_over(fig3to5, "A002-2", "measured", "p99_1", LATE, at_most=0.5, why=DRIFT, **PAPER)
claim_over(fig3to5, "A002-2", "measured", "mean_2", OTHER, at_most=1.5,
           paper="small difference")  # fmt: skip
for mode in ("proportional", "by load"):
    claim_over(fig3to5, "A002-2", mode, "mean_1", MEAN, at_most=0.5)
    claim_over(fig3to5, "A002-2", mode, "p99_1", LATE, at_most=0.5)
    claim_over(fig3to5, "A002-2", mode, "mean_2", OTHER, at_most=1.5, why=GIVEN)
    claim_of(fig3to5, "A002-2", mode, "slope_1", "slope of class 1 from 1 s to 60 s",
             at_most=-1.6)  # fmt: skip
for mode in ("fixed", "measured", "proportional", "by load"):
    claim_of(fig3to5, "A002-2", mode, "mean_1", "mean sojourn of class 1 (s)", kind="context",
             statistic=quantile(0.5))  # fmt: skip
claim_of(fig3to5, "A002-2", "fixed", "slope_1", "slope of class 1 from 1 s to 60 s",
         paper="-0.4", at_least=-1.2)  # fmt: skip
claim_of(fig3to5, "A002-2", "measured", "slope_1", "slope of class 1 from 1 s to 60 s",
         paper=-2.5, at_most=-1.6, why=DRIFT)  # fmt: skip
for mode in ("fixed", "measured"):
    claim_of(fig3to5, "A002-2", mode, "slope_2", "slope of class 2 from 1 s to 60 s",
             paper=-1.2, at_least=-1.45, at_most=-0.95)  # fmt: skip
for mode in ADJUSTED:
    printed = {} if mode == "proportional" else {"paper": "almost from the start"}
    claim_of(fig3to5, "A002-4", mode, "all_above", "part of the time with phi_i > rho_i for both",
             at_least=0.9, why=WHY.get(mode), **printed)  # fmt: skip
for mode in ("fixed", "measured"):
    claim_of(fig3to5, "A002-4", mode, "phi_1", "share of class 1 while both are busy",
             kind="context")  # fmt: skip
claim_over(fig3to5, "A002-7", "separate", "mean_1", MEAN, at_most=1, paper="without aggregation")


@fig3to5.claim("A002-6", "weights outside 1 and n: samples of all adjusted runs", at_most=0)
def limits(runs: Table) -> Any:
    adjusted = [runs.where(mode=mode) for mode in ADJUSTED]
    return sum(it["outside_1"] + it["outside_2"] for it in adjusted)


@fig3to5.claim("A002-6", "measured: decisions of both gateways at the same sample", at_most=0.1)
def together(runs: Table) -> Any:
    return runs.where(mode="measured")["together"]


@fig3to5.figure
def figure(runs: Table) -> Any:
    titles = ["figure 5, literal", "shares, measured", "shares, proportional",
              "figure 3: sojourns of subnet 1", "figure 4: sojourns of subnet 2"]  # fmt: skip
    figure, panels = plots.panels(titles, columns=3)
    for axes, mode in zip(panels, ADJUSTED, strict=False):
        draw_shares(axes, runs, mode, E1, SETUP.seconds)
    for number, own in enumerate(E1, 1):
        draw_tails(panels[2 + number], runs, number, own, MODES)
    return figure
