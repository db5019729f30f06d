"""A policer that drops uses more of the rate if connections share tokens than if each has its own.

Source: aggregates, section 4: the paper shows a policer that marks packets out of profile. It says
that its results also apply to a policer that drops them. See docs/ledger.md, A000-5 (one policer
per flow), A000-6 (one bucket in order), A000-10 (one bucket) and A000-13 (logical partitions).
Differs: `_server.py` describes the network. Packets out of profile are dropped before the access
link, so that all departing packets conform. The profile has no peak rate: hosts send several
packets at once, and a peak rate drops all but the first with every allocation (`#peak`).
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment, paired
from tidegate.statistics import Numbers

from ._compare import ONE_BY_ONE
from ._server import LINKS, RATE, measured, server

# `tidegate-repro plan` computed this number from the margin of a claim.
police_drop = Experiment(__file__, seeds=75)

ALLOCATIONS: dict[str, Any] = {
    "one by one": ONE_BY_ONE,
    "together": "fcfs",
    "logical partitions": "logical-partitions",
}


@police_drop.run(policed=list(ALLOCATIONS), links=list(LINKS), peak=[False, True])
def measure(seed: int, policed: str, links: str, peak: bool) -> dict[str, float]:
    net = server(ALLOCATIONS[policed], links, action="police-drop", peak=peak)
    return measured(net.run(seed), links)


def of(runs: Table, policed: str, links: str = "equal") -> Table:
    return runs.where(policed=policed, links=links, peak=False)


def gain(runs: Table, policed: str, links: str, column: str) -> np.ndarray:
    """A column divided by its value with a policer for each flow."""
    return paired(of(runs, policed, links), of(runs, "one by one", links), column)


@police_drop.claim(
    "A000-5", "one policer per flow: throughput over the rate", paper="< 1", at_most=0.97
)
def compliant(runs: Table) -> Numbers:
    return of(runs, "one by one")["total_bps"] / RATE


@police_drop.claim(
    "A000-5",
    "all three policers, both kinds of links: most throughput over the rate",
    at_most=1.002,
)
def never_more(runs: Table) -> Numbers:
    return np.max([of(runs, it, on)["total_bps"] for it in ALLOCATIONS for on in LINKS], 0) / RATE


@police_drop.claim(
    "A000-10",
    "equal links: throughput, one bucket over one policer per flow",
    paper="> 1",
    at_least=1,
)
def together(runs: Table) -> Numbers:
    return gain(runs, "together", "equal", "total_bps")


@police_drop.claim(
    "A000-13", "unequal links: throughput, logical partitions over one policer each", paper="> 1",
    at_least=1,
)  # fmt: skip
def logical(runs: Table) -> Numbers:
    return gain(runs, "logical partitions", "unequal", "total_bps")


@police_drop.claim(
    "A000-13", "unequal links: packets lost, logical partitions over one policer each", paper="< 1",
    at_most=1, margin=0.02,
    why="the fraction of lost packets is the same, while 1.55 times as many arrive (`#logical`). "
    "The paper's policer marks: a router downstream then drops fewer packets in profile, and more "
    "are in profile. Here the policer itself drops, and every dropped packet is out of profile",
)  # fmt: skip
def lost(runs: Table) -> Numbers:
    return gain(runs, "logical partitions", "unequal", "loss")


@police_drop.claim(
    "A000-11", "equal links: Jain index, logical partitions minus one common bucket (FCFS)",
    paper="fairer", at_least=0,
)  # fmt: skip
def fairer(runs: Table) -> Numbers:
    return of(runs, "logical partitions")["jain"] - of(runs, "together")["jain"]


@police_drop.claim(
    "A000-11", "equal links: Jain index, logical partitions", at_least=0.95,
    why="no packet waits for tokens. A connection takes tokens as fast as its window recovers "
    "from drops; the 50 ms connection recovers first and takes the tokens that others do not use. "
    "One common bucket (FCFS) is far less fair (`#fairer`)",
)  # fmt: skip
def fair(runs: Table) -> Numbers:
    return of(runs, "logical partitions")["jain"]


@police_drop.claim(
    "A000-5", "with a peak rate: most throughput over the rate, all policers",
    kind="shown otherwise", at_most=0.3,
)  # fmt: skip
def peak(runs: Table) -> Numbers:
    cells = [runs.where(policed=it, links="equal", peak=True) for it in ALLOCATIONS]
    return np.max([cell["total_bps"] for cell in cells], axis=0) / RATE


@police_drop.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels([f"{links} links" for links in LINKS])
    for axes, links in zip(panels, LINKS, strict=True):
        for column, label in (("utilisation", "use of the rate"), ("jain", "Jain index")):
            means = [of(runs, it, links)[column].mean() for it in ALLOCATIONS]
            axes.plot(list(ALLOCATIONS), means, marker="o", linestyle="", label=label)
        axes.set_ylim(0, 1.05)
        axes.legend()
    return figure
