"""VMSS of 1500 and 1499 bytes give equal rates: chance has more effect than the ratio of VMSS.

Source: trunking, section 4: VMSS of 1500 and 1499 give rates in the ratio of 100.0667 %. The paper
prints "1.000667 %", which docs/ledger.md (R003-2) treats as a misprint.
Differs: `_network.py` describes the network. The paper makes no such run; it derives the ratio from
the formula. Trunks have no guarantees, runs take 400 s, and flows start at random in the first 0.2
s.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import measured, network

nearly_equal = Experiment(__file__, seeds=20, more={"vmss": {"1500:1499": 60}})

RATIO = 1500 / 1499
BEYOND = 667
"""The ratio minus 1, in millionths."""

TRUNKS = {"1500:1499": (1500, 1499), "1500:1500": (1500, 1500)}


@nearly_equal.run(vmss=list(TRUNKS))
def measure(seed: int, vmss: str) -> dict[str, float]:
    run = network(vmss=TRUNKS[vmss], guarantee=(0, 0), spread=True).run(seed)
    senders = [run["trunks"].where(trunk=f"t{n}", gateway=it) for n, it in ((1, "b"), (2, "d"))]
    credits = [it["elastic_bytes"][0] / it["management_packets"][0] for it in senders]
    return {**measured(run), "credit": credits[0] / credits[1]}


def ratio(runs: Table, vmss: str) -> np.ndarray:
    cell = runs.where(vmss=vmss)
    return cell["mean_1"] / cell["mean_2"]


@nearly_equal.claim(
    "R003-2", "1500:1499: user bytes for each management packet, ratio minus 1, 10^-6",
    paper=BEYOND, within=0.2,
)  # fmt: skip
def credit(runs: Table) -> Numbers:
    return (runs.where(vmss="1500:1499")["credit"] - 1) * 1e6


@nearly_equal.claim(
    "R003-2", "1500:1499: ratio of rates over 400 s", paper=round(RATIO, 6), within=0.02,
)  # fmt: skip
def rates(runs: Table) -> Numbers:
    return ratio(runs, "1500:1499")


@nearly_equal.claim(
    "R003-2", "1500:1499: rates over 400 s, ratio minus 1, 10^-6", paper=BEYOND, within=0.2,
    why="the ratio of a run of 400 s deviates by more than that (`#deviation`). Some hundred "
    "thousand runs would be needed to distinguish a ratio so near to 1 from 1",
)  # fmt: skip
def exactly(runs: Table) -> Numbers:
    return (ratio(runs, "1500:1499") - 1) * 1e6


@nearly_equal.claim("R003-2", "1500:1500: distance of a run's ratio from 1", kind="context")
def deviation(runs: Table) -> Numbers:
    return np.abs(ratio(runs, "1500:1500") - 1)


@nearly_equal.figure
def figure(runs: Table) -> Any:
    figure, (axes,) = plots.panels(["rate of trunk 1 over that of trunk 2, 400 s"])
    for vmss in TRUNKS:
        cell = runs.where(vmss=vmss)
        axes.plot(cell["seed"], ratio(runs, vmss), marker="o", linestyle="", label=vmss)
    axes.axhline(RATIO, label="1500 / 1499")
    axes.set_xlabel("seed")
    axes.legend()
    return figure
