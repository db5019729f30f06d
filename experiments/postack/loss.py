"""If packets are lost on the path, holding ACKs gives more goodput than TCR's small windows.

Source: postack, abstract ("10 % more goodput than TCR"); docs/ledger.md, A001-1, A001-3 and A001-4.
Differs: `_network.py` describes the network. Windows are unlimited, so that only TCR's windows are
small. To show that our TCR is a fair rival, its goodput is compared with the ledger's formula, 1/(1
+ p W^2/8) with W = 10.8 packets, and with a model of Reno in whole packets (`_reno.py`). Under the
formula's own assumptions, the model agrees with the formula.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import bulk, measured, network
from ._reno import ASSUMED, formula, reno

loss = Experiment(__file__)

LOSSES = [0.0, 0.5, 1.0, 2.0]
SHOWN = ["none", "gate", "tcr"]
CONTROLS = ["reno", "cubic"]


@loss.run(ack_control=SHOWN, congestion=CONTROLS, loss=LOSSES)
def measure(seed: int, ack_control: str, congestion: str, loss: float) -> dict[str, float]:
    tcp = {"congestion": congestion}
    net = network(ack_control, window=None, loss=f"{loss} %" if loss else None, tcp=tcp)
    bulk(net)
    return measured(net.run(seed))


def ratio(
    runs: Table, over: str, congestion: str, percent: float, column: str = "goodput"
) -> np.ndarray:
    cell = runs.where(congestion=congestion, loss=percent)
    return cell.where(ack_control="gate")[column] / cell.where(ack_control=over)[column]


def straw(runs: Table, percent: float, expected: Callable[[float], float] = formula) -> np.ndarray:
    """Ratio of TCR's goodput to that without loss, minus the expected ratio; negative is worse."""
    tcr = runs.where(ack_control="tcr", congestion="reno")
    ratio = tcr.where(loss=percent)["goodput"] / tcr.where(loss=0.0)["goodput"]
    return ratio - expected(percent)


def simulated(runs: Table, percent: float) -> np.ndarray:
    """The same ratio, minus the ratio of Reno in whole packets."""
    seeds = runs.where(ack_control="tcr", congestion="reno", loss=percent)["seed"]
    mean = float(np.mean([reno(percent, seed=int(it)) for it in seeds]))
    return straw(runs, percent, lambda _: mean)


@loss.claim("A001-3", "0.5 %, Reno: goodput, gate over TCR", paper="> 1", at_least=1.04)
def half_reno(runs: Table) -> Numbers:
    return ratio(runs, "tcr", "reno", 0.5)


@loss.claim("A001-3", "0.5 %, CUBIC: goodput, gate over TCR", paper="> 1", at_least=1.04)
def half_cubic(runs: Table) -> Numbers:
    return ratio(runs, "tcr", "cubic", 0.5)


@loss.claim("A001-3", "1 %, Reno: goodput, gate over TCR", paper=1.1, at_least=1.08)
def one_reno(runs: Table) -> Numbers:
    return ratio(runs, "tcr", "reno", 1.0)


@loss.claim("A001-3", "1 %, CUBIC: goodput, gate over TCR", paper=1.1, at_least=1.08)
def one_cubic(runs: Table) -> Numbers:
    return ratio(runs, "tcr", "cubic", 1.0)


LIMITED = (
    "at 2 % losses, not windows, keep senders below their share. A queue for each flow gives as "
    "little goodput (`#fair-two`), and without any limit it is less than 1.12 times TCR's "
    "(`postack/reach#unlimited-reno`, `#unlimited-cubic`). If a flow's share needs no more than "
    "the window that 2 % allow, the gate has more than 1.12 times TCR's goodput "
    "(`postack/reach#seven-reno`, `#seven-cubic`)"
)


@loss.claim("A001-3", "2 %, Reno: goodput, gate over TCR", paper="> 1", at_least=1.12, why=LIMITED)
def two_reno(runs: Table) -> Numbers:
    return ratio(runs, "tcr", "reno", 2.0)


@loss.claim("A001-3", "2 %, CUBIC: goodput, gate over TCR", paper="> 1", at_least=1.12, why=LIMITED)
def two_cubic(runs: Table) -> Numbers:
    return ratio(runs, "tcr", "cubic", 2.0)


ABOVE = (
    "the formula exceeds the goodput of a Reno that sends whole packets, loses random ones and "
    "needs a round trip to repair a loss (`#whole-one`, `#whole-two`). TCR has the goodput of that "
    "Reno (`#packets-one`, `#packets-two`). Under the formula's assumptions, that Reno agrees with "
    "the formula (`#assumed-one`, `#assumed-two`). The assumption that repairs take no time "
    "matters most (`#at-once-two`)"
)


@loss.claim("A001-3", "TCR, 0.5 %: goodput minus the formula's, Reno", at_least=-0.05, at_most=0.05)
def straw_half(runs: Table) -> Numbers:
    return straw(runs, 0.5)


@loss.claim(
    "A001-3", "TCR, 1 %: goodput minus the formula's, Reno", at_least=-0.05, at_most=0.05, why=ABOVE
)
def straw_one(runs: Table) -> Numbers:
    return straw(runs, 1.0)


@loss.claim(
    "A001-3", "TCR, 2 %: goodput minus the formula's, Reno", at_least=-0.05, at_most=0.05, why=ABOVE
)
def straw_two(runs: Table) -> Numbers:
    return straw(runs, 2.0)


@loss.claim(
    "A001-3, Reno in whole packets",
    "TCR, 0.5 %: goodput minus Reno's",
    at_least=-0.05,
    at_most=0.05,
)
def packets_half(runs: Table) -> Numbers:
    return simulated(runs, 0.5)


@loss.claim(
    "A001-3, Reno in whole packets", "TCR, 1 %: goodput minus Reno's", at_least=-0.05, at_most=0.05
)
def packets_one(runs: Table) -> Numbers:
    return simulated(runs, 1.0)


@loss.claim(
    "A001-3, Reno in whole packets", "TCR, 2 %: goodput minus Reno's", at_least=-0.05, at_most=0.05
)
def packets_two(runs: Table) -> Numbers:
    return simulated(runs, 2.0)


def beyond(runs: Table, percent: float, **assumed: Any) -> Numbers:
    """Goodput ratio of Reno in whole packets minus the formula's, for each seed."""
    seeds = runs.where(ack_control="tcr", congestion="reno", loss=percent)["seed"]
    return [reno(percent, seed=int(it), **assumed) - formula(percent) for it in seeds]


@loss.claim(
    "A001-3, Reno in whole packets", "1 %: Reno's goodput minus the formula's", kind="context"
)
def whole_one(runs: Table) -> Numbers:
    return beyond(runs, 1.0)


@loss.claim(
    "A001-3, Reno in whole packets", "2 %: Reno's goodput minus the formula's", kind="context"
)
def whole_two(runs: Table) -> Numbers:
    return beyond(runs, 2.0)


@loss.claim(
    "A001-3, Reno as the formula assumes", "1 %: goodput minus the formula's", kind="context"
)
def assumed_one(runs: Table) -> Numbers:
    return beyond(runs, 1.0, **ASSUMED)


@loss.claim(
    "A001-3, Reno as the formula assumes", "2 %: goodput minus the formula's", kind="context"
)
def assumed_two(runs: Table) -> Numbers:
    return beyond(runs, 2.0, **ASSUMED)


@loss.claim(
    "A001-3, Reno as the formula assumes",
    "2 %, but repairs take a round trip: goodput minus the formula's",
    kind="context",
)
def at_once_two(runs: Table) -> Numbers:
    return beyond(runs, 2.0, **ASSUMED | {"at_once": False})


@loss.claim("A001-4", "0.5 %, Reno: goodput, gate over a queue for each flow", at_least=0.97)
def fair_half_reno(runs: Table) -> Numbers:
    return ratio(runs, "none", "reno", 0.5)


@loss.claim("A001-4", "0.5 %, CUBIC: goodput, gate over a queue for each flow", at_least=0.97)
def fair_half_cubic(runs: Table) -> Numbers:
    return ratio(runs, "none", "cubic", 0.5)


@loss.claim("A001-4", "1 %, Reno: goodput, gate over a queue for each flow", at_least=0.97)
def fair_reno(runs: Table) -> Numbers:
    return ratio(runs, "none", "reno", 1.0)


@loss.claim("A001-4", "1 %, CUBIC: goodput, gate over a queue for each flow", at_least=0.97)
def fair_cubic(runs: Table) -> Numbers:
    return ratio(runs, "none", "cubic", 1.0)


@loss.claim("A001-4", "2 %, Reno: goodput, gate over a queue for each flow", at_least=0.97)
def fair_two(runs: Table) -> Numbers:
    return ratio(runs, "none", "reno", 2.0)


@loss.claim("A001-4", "2 %, CUBIC: goodput, gate over a queue for each flow", at_least=0.97)
def fair_two_cubic(runs: Table) -> Numbers:
    return ratio(runs, "none", "cubic", 2.0)


def claim_jain(ack_control: str, name: str) -> None:
    """Adds a claim that flows share the rate evenly at 1 % of loss."""

    def jain(runs: Table) -> Numbers:
        lossy = runs.where(ack_control=ack_control, loss=1.0)
        return np.min([lossy.where(congestion=it)["jain"] for it in CONTROLS], axis=0)

    jain.__name__ = f"jain_{ack_control}"
    text = f"1 %, {name}, Reno and CUBIC: Jain index, lower of both"
    loss.claim("A001-1", text, at_least=0.97)(jain)


for ack_control, name in zip(SHOWN, ("a queue for each flow", "gate", "TCR"), strict=True):
    claim_jain(ack_control, name)


@loss.claim("A001-7", "1 %: timeouts in a run, gate minus a queue for each flow", at_most=2)
def timeouts(runs: Table) -> Numbers:
    cell = runs.where(congestion="cubic", loss=1.0)
    return cell.where(ack_control="gate")["timeouts"] - cell.where(ack_control="none")["timeouts"]


@loss.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels([control.upper() for control in CONTROLS])
    for axes, congestion in zip(panels, CONTROLS, strict=True):
        for ack_control in SHOWN:
            cell = runs.where(ack_control=ack_control, congestion=congestion)
            means = [cell.where(loss=percent)["goodput"].mean() / 1e6 for percent in LOSSES]
            axes.plot(LOSSES, means, marker="o", label=ack_control)
        top = runs.where(ack_control="tcr", congestion=congestion, loss=0.0)["goodput"].mean() / 1e6
        percents = np.linspace(0, 2, 41)
        axes.plot(
            percents,
            top * np.array([formula(it) for it in percents]),
            linestyle="--",
            label="formula of TCR",
        )
        axes.set_xlabel("loss, %")
        axes.set_ylabel("goodput, Mbit/s")
        axes.set_ylim(bottom=0)
        axes.legend()
    return figure
