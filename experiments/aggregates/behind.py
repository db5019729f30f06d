"""Downstream of a shaper, a narrower link decides how its connections share the rate.

Source: aggregates, sections 4 and 5: the rate of an aggregate is controlled where it begins, and
section 5 begins with bottlenecks elsewhere; docs/ledger.md, A000-1 (without control, long round
trips get least), A000-11 (logical partitions) and R000-12 (aggregate-fair growth).
Differs: `_server.py` describes the network. The access link leads to a core link, which all four
connections share before their own links. The paper shows no such network. The core link has a RED
queue as in `section5.py`. A core of 1 Mbit/s has room for the aggregate's 800 kbit/s, a core of 600
kbit/s has not. The connections have windows of 50 packets, which fill this queue. The shaper uses
logical partitions.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidegate import Scenario, Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._server import PACKET, RATE, draw, measured, server
from .section5 import GROWTHS, RED

behind = Experiment(__file__, seeds=20)

CORES = {"wide": 1_000_000, "narrow": 600_000}
"""Rates of the core link, bit/s."""

CONTROLS: dict[str, tuple[str | None, str]] = {
    "none": (None, "newreno"),
    "shaped": ("logical-partitions", "newreno"),
    "aggregate-fair": (None, "aggregate-fair"),
    "both": ("logical-partitions", "aggregate-fair"),
}
"""Allocation of the shaper, and congestion control of the connections."""

WINDOW = 50
"""Greatest congestion window, in packets."""


def network(control: str, core: str) -> Scenario:
    """The server's network with a core link behind the access link."""
    allocation, growth = CONTROLS[control]
    net = server(allocation)
    assert isinstance(net.tcp, Mapping)
    window = f"{WINDOW * (PACKET - 40)} B"
    net.tcp = {**net.tcp, "congestion": GROWTHS[growth], "receive_window": window}
    net.router("core")
    for link in net.tables["link"]:
        if link["to"] == "n1":
            link["to"] = "core"
    net.link("core", "n1", rate=f"{CORES[core]} bit/s", delay="0 ms", queue=RED)
    return net


@behind.run(control=list(CONTROLS), core=list(CORES))
def measure(seed: int, control: str, core: str) -> dict[str, float]:
    return measured(network(control, core).run(seed))


def values(runs: Table, control: str, core: str, column: str = "jain") -> np.ndarray:
    return runs.where(control=control, core=core)[column]


@behind.claim("A000-11", "core of 1 Mbit/s: Jain index, shaped", at_least=0.99)
def wide(runs: Table) -> Numbers:
    return values(runs, "shaped", "wide")


@behind.claim("A000-11", "core of 1 Mbit/s: use of the rate, shaped", at_least=0.985)
def wide_use(runs: Table) -> Numbers:
    return values(runs, "shaped", "wide", "total_bps") / RATE


@behind.claim(
    "A000-11", "core of 600 kbit/s: Jain index, shaped", kind="shown otherwise", at_most=0.95
)
def narrow(runs: Table) -> Numbers:
    return values(runs, "shaped", "narrow")


@behind.claim(
    "A000-11", "core of 600 kbit/s: Jain index, with shaper minus without any control",
    kind="shown otherwise", at_least=-0.03, at_most=0.03,
)  # fmt: skip
def narrow_gain(runs: Table) -> Numbers:
    return values(runs, "shaped", "narrow") - values(runs, "none", "narrow")


@behind.claim(
    "R000-12", "core of 600 kbit/s: Jain index, aggregate-fair minus NewReno", at_least=0.02
)
def growth(runs: Table) -> Numbers:
    return values(runs, "aggregate-fair", "narrow") - values(runs, "none", "narrow")


@behind.claim("R000-12", "core of 600 kbit/s: Jain index, shaped and aggregate-fair", at_least=0.95)
def both(runs: Table) -> Numbers:
    return values(runs, "both", "narrow")


@behind.claim("R000-12", "core of 600 kbit/s: use of the core, least of all cases", at_least=0.9)
def use(runs: Table) -> Numbers:
    each = [values(runs, control, "narrow", "total_bps") for control in CONTROLS]
    return np.min(each, axis=0) / CORES["narrow"]


@behind.figure
def figure(runs: Table) -> Any:
    titles = [f"core of 600 kbit/s: {control}" for control in CONTROLS]
    return draw(titles, [network(control, "narrow").run(1) for control in CONTROLS])
