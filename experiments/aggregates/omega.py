"""With omega = 1 in place of n, an aggregate of n connections is less aggressive.

Source: aggregates, section 5; docs/ledger.md, R000-12. Omega is the number of TCP connections that
bounds an aggregate: its rate is at most that of omega connections. The paper's prose names one
connection of mean round-trip time (omega = 1). Its formula uses n connections (omega = n).
Differs: the network is that of `section5.py`. The four downloads of an aggregate share the
bottleneck with four NewReno connections of the mean round-trip time, or with one.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from .section5 import GROWTHS, compared

omega = Experiment(__file__, seeds=40)

ALL = 4
"""Connections of the aggregate."""

OMEGAS: dict[str, str | dict[str, Any]] = {
    "newreno": "newreno",
    "omega = n": GROWTHS["aggregate-fair"],
    "omega = 1": {"kind": "aggregate-fair", "omega": 1},
}


def network(growth: str, peers: int) -> Scenario:
    """Four connections of the aggregate beside ``peers`` with the mean round-trip time."""
    net = compared("newreno")
    assert isinstance(net.tcp, Mapping)
    net.tcp = {**net.tcp, "congestion": OMEGAS[growth]}
    (beside,) = (it for it in net.tables["traffic"] if it["name"] == "peers")
    beside["flows"] = peers
    return net


@omega.run(growth=list(OMEGAS), peers=[1, ALL])
def measure(seed: int, growth: str, peers: int) -> dict[str, float]:
    groups = network(growth, peers).run(seed).groups
    ours, theirs = (groups.where(group=name) for name in ("long", "peers"))
    return {
        "over": ours["throughput_bps"][0] / theirs["throughput_bps"][0],
        "jain": ours["jain"][0],
    }


def values(runs: Table, growth: str, peers: int, column: str = "over") -> np.ndarray:
    return runs.where(growth=growth, peers=peers)[column]


@omega.claim(
    "R000-12", "omega = n: the aggregate over n connections of mean round trip", paper="≤ 1",
    at_most=1.1,
)  # fmt: skip
def of_all(runs: Table) -> Numbers:
    return values(runs, "omega = n", ALL)


@omega.claim(
    "R000-12", "omega = 1: the aggregate over one connection of mean round trip", paper="≤ 1",
    at_most=1.1,
    why="the derivation takes the time between losses as given, so that rates grow in proportion "
    "to g. Here each packet is lost with the same probability p. A window that grows by g from "
    "W/2 to W sends 3 W^2 / (8 g) = 1/p packets, so W grows with the square root of g. With a "
    "quarter of the growth each of four downloads has half the rate of one connection, so together "
    "they have twice its rate",
)  # fmt: skip
def of_one(runs: Table) -> Numbers:
    return values(runs, "omega = 1", 1)


@omega.claim(
    "R000-12", "omega = 1: the aggregate over one connection, relative to omega = n", at_most=0.75
)
def less(runs: Table) -> Numbers:
    return values(runs, "omega = 1", 1) / values(runs, "omega = n", 1)


@omega.claim("R000-12", "omega = 1: Jain index, minus that with NewReno", at_least=0)
def fairer(runs: Table) -> Numbers:
    return values(runs, "omega = 1", ALL, "jain") - values(runs, "newreno", ALL, "jain")


@omega.claim("R000-12", "Jain index, omega = 1 minus omega = n", kind="context")
def as_fair(runs: Table) -> Numbers:
    return values(runs, "omega = 1", ALL, "jain") - values(runs, "omega = n", ALL, "jain")


@omega.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels([f"{peers} beside the aggregate" for peers in (1, ALL)])
    for axes, peers in zip(panels, (1, ALL), strict=True):
        for growth in OMEGAS:
            these = runs.where(growth=growth, peers=peers)
            axes.plot(these["jain"], these["over"], marker="o", linestyle="", label=growth)
        axes.set_xlabel("Jain index of the aggregate")
        axes.set_ylabel("throughput over that of the peers")
        axes.set_ylim(bottom=0)
        axes.legend()
    return figure
