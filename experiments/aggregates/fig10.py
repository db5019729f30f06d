"""Logical partitions are as fair as partitions, and waste no tokens.

Source: aggregates, section 4.2.3, figure 10, and abstract.
Differs: `_server.py` describes the network. The caption of figure 10 says that links are equal; the
text says that they differ in part (b). Here they differ in part (b).
"""

from typing import Any

import numpy as np

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._server import draw, measured, server

fig10 = Experiment(__file__)

ALLOCATIONS: dict[str, Any] = {
    "sequential": "sequential",
    "fcfs": "fcfs",
    "lru": "lru",
    "partitioned": {"kind": "partitioned", "depth": "rtt"},
    "logical-partitions": "logical-partitions",
}


@fig10.run(allocation=list(ALLOCATIONS), links=["equal", "unequal"])
def measure(seed: int, allocation: str, links: str) -> dict[str, float]:
    return measured(server(ALLOCATIONS[allocation], links).run(seed), links)


def jains(runs: Table, allocation: str) -> np.ndarray:
    return runs.where(allocation=allocation, links="equal")["jain"]


@fig10.claim("A000-11", "equal links: Jain index", paper=0.996, at_least=0.99)
def jain(runs: Table) -> Numbers:
    return jains(runs, "logical-partitions")


@fig10.claim("A000-11", "fairer than FCFS", paper=0.046, at_least=0)
def over_fcfs(runs: Table) -> Numbers:
    return jains(runs, "logical-partitions") - jains(runs, "fcfs")


@fig10.claim("A000-11", "fairer than LRU", paper=0.046, at_least=0)
def over_lru(runs: Table) -> Numbers:
    return jains(runs, "logical-partitions") - jains(runs, "lru")


@fig10.claim("A000-12", "unequal links: use of the rate", paper="full", at_least=0.985)
def utilisation(runs: Table) -> Numbers:
    return runs.where(allocation="logical-partitions", links="unequal")["utilisation"]


@fig10.claim("A000-12", "unequal links: max-min index F'", paper="fair", at_least=0.97)
def max_min(runs: Table) -> Numbers:
    return runs.where(allocation="logical-partitions", links="unequal")["max_min"]


@fig10.claim("A000-9", "unequal links: FCFS uses more than partitions", paper=0.125, at_least=0.08)
def fcfs_over_partitions(runs: Table) -> Numbers:
    unequal = runs.where(links="unequal")
    used = {name: unequal.where(allocation=name)["utilisation"] for name in ALLOCATIONS}
    return used["fcfs"] - used["partitioned"]


def claim_order(below: str, above: str, **fields: Any) -> None:
    """Claims one pair of the order sequential << FCFS ~ LRU < partitions ~ logical partitions."""
    text = f"order: {NAMES[above]} minus {NAMES[below]}"

    def measured(runs: Table) -> Numbers:
        return jains(runs, above) - jains(runs, below)

    measured.__name__ = f"{below}_below_{above}".replace("-", "_")
    fig10.claim("A000-14", text, **fields)(measured)


NAMES = {
    "sequential": "sequential",
    "fcfs": "FCFS",
    "lru": "LRU",
    "partitioned": "partitions",
    "logical-partitions": "logical partitions",
}

for above, paper in (("fcfs", 0.52), ("lru", 0.52), ("partitioned", 0.56)):
    claim_order("sequential", above, paper=paper, at_least=0.2)
claim_order("sequential", "logical-partitions", paper=0.566, at_least=0.2)
for below in ("fcfs", "lru"):
    claim_order(below, "partitioned", paper=0.046, at_least=0)
# The paper finds the two connections of each of these pairs about equal. Two claims above (A000-11)
# compare logical partitions with FCFS and LRU.
claim_order("fcfs", "lru", paper="about equal", at_least=-0.01, at_most=0.01)
claim_order("partitioned", "logical-partitions", paper=0, at_least=-0.01, at_most=0.01)


@fig10.figure
def figure(runs: Table) -> Any:
    kinds = ["equal", "unequal"]
    titles = [f"logical partitions, {links} links" for links in kinds]
    return draw(titles, [server("logical-partitions", links).run(1) for links in kinds])
