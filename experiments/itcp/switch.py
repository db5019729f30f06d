"""Gain and cost of a switch from Vegas to Reno, beside a greedy connection and without it.

Source: integrated TCP, section 5 (coexistence with Reno); docs/ledger.md, A002-7 (other traffic at
the bottleneck). Bundler (doi 10.1145/3447786.3456260) and Nimbus switch between such modes.
Differs: `_network.py` describes the network, and `beside.py` the other traffic. No algorithm
detects the greedy connection (the rival). "off" is Vegas of weight 10, and "on" is weighted Reno of
weight 10, each for a whole run of 500 s with the same files. For each rival, the runs "off" and
"on" show the greatest gain of any switch. The two runs without a rival show the cost of a switch
that stays on after the rival has ended. The buffer holds 100 packets. "carried" is the goodput of
both aggregates divided by their offered load.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import MEDIAN_RATIO, Numbers

from ._load import E1
from ._modes import key
from ._network import FIRST_FILE, VEGAS, Setup, network, sojourns
from .beside import QUEUES, RENO

switch = Experiment(__file__, seeds=6)

SECONDS = 500

RIVALS = {"Reno": "newreno", "CUBIC": "cubic", "BBR": "bbr", "alone": None}
"""The congestion control of the greedy connection beside the aggregates."""

MODES = {"off": VEGAS, "on": RENO}


def setup(rival: str, mode: str, seconds: int = SECONDS) -> Setup:
    """A network with this congestion control for both aggregates, and with a rival."""
    kind = RIVALS[rival]
    cross = {"kind": kind} if kind else None
    return Setup(seconds=seconds, queue=QUEUES["small"], cross=cross, control=MODES[mode])


@switch.run(rival=list(RIVALS), mode=list(MODES))
def measure(seed: int, rival: str, mode: str) -> dict[str, float]:
    run = network(E1, "fixed", setup(rival, mode)).run(seed)
    groups = run.groups
    carriers = np.array([str(it).startswith("long") for it in groups["group"]])
    offered = sum(each.mean * each.arrivals for each in E1) * (SECONDS - FIRST_FILE) * 8
    row = {"carried": float(groups["goodput_bps"][carriers].sum()) * SECONDS / offered}
    for number in (1, 2):
        took = sojourns(run, number)
        row[f"median_{number}"] = float(np.median(took)) if len(took) else float(SECONDS)
    return row


def of(runs: Table, rival: str, mode: str, column: str) -> np.ndarray:
    values: np.ndarray = runs.where(rival=rival, mode=mode)[column]
    return values


def claim_over(rival: str, column: str, text: str, **bounds: Any) -> None:
    """Adds a claim of A002-7 about the ratio of mode `on` to mode `off`, for each seed."""

    def ratio(runs: Table) -> Numbers:
        return of(runs, rival, "on", column) / of(runs, rival, "off", column)

    ratio.__name__ = f"{column}_{key(rival)}"
    switch.claim("A002-7", f"{rival}: on over off: {text}", statistic=MEDIAN_RATIO, **bounds)(ratio)


def claim(rival: str, mode: str, text: str, **bounds: Any) -> None:
    """Adds a claim of A002-7 about the load that the aggregates carry."""

    def number(runs: Table) -> Numbers:
        return of(runs, rival, mode, "carried")

    number.__name__ = f"carried_{key(rival)}_{mode}"
    switch.claim("A002-7", f"{rival}, {mode}: {text}", **bounds)(number)


for rival in RIVALS:
    if rival != "alone":
        claim_over(rival, "carried", "goodput of both aggregates", at_least=1)
        for mode in MODES:
            claim(rival, mode, "goodput of both aggregates over their load", kind="context")
claim_over("alone", "median_1", "median sojourn of class 1, no rival", kind="context")
claim_over("alone", "carried", "goodput of both aggregates, no rival", at_least=0.95)


@switch.figure
def figure(runs: Table) -> Any:
    figure, (axes,) = plots.panels(["load carried beside one greedy connection"])
    places = np.arange(len(RIVALS))
    for at, mode in enumerate(MODES):
        height = [np.median(of(runs, it, mode, "carried")) for it in RIVALS]
        axes.bar(places + 0.4 * at, height, width=0.4, label=f"switch {mode}")
    axes.set_xticks(places + 0.2, list(RIVALS))
    axes.axhline(1, color="gray", linewidth=1)
    axes.legend()
    return figure
