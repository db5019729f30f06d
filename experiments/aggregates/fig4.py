"""With equal links, a part of the bucket for each connection makes their rates equal.

Source: aggregates, section 4.2.1, figure 4.
Differs: `_server.py` describes the network. In the paper, depths in proportion to the round-trip
time are a little fairer than equal depths: a Jain index of 0.996 instead of 0.99. With windows of
20 packets our queue never empties. Each partition then always has a waiting packet. Its depth has
no effect, because it only limits saved tokens. Depths have an effect in a bucket of 8 kB. There,
depths by round trip are less fair, in ns-2 as well (0.9976). The depth of the 50 ms connection is
then less than its share of the 15 ms between two expiries of the timer, and tokens are lost.
"""

from typing import Any

import numpy as np

from tidegate import Scenario, Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._server import BURST, draw, measured, server

fig4 = Experiment(__file__)

DEPTHS = ["equal", "rtt"]
SHALLOW = 8
"""Depth of a bucket that empties at times, kB."""


def partitioned(depth: str, burst: int = BURST) -> Scenario:
    return server({"kind": "partitioned", "depth": depth}, burst=burst)


@fig4.run(depth=DEPTHS, burst=[BURST, SHALLOW])
def measure(seed: int, depth: str, burst: int) -> dict[str, float]:
    return measured(partitioned(depth, burst).run(seed))


def jain(runs: Table, depth: str, burst: int = BURST) -> np.ndarray:
    return runs.where(depth=depth, burst=burst)["jain"]


@fig4.claim("A000-2", "equal depths: Jain index", paper=0.99, at_least=0.98)
def jain_equal(runs: Table) -> Numbers:
    return jain(runs, "equal")


@fig4.claim("A000-2", "equal depths: use of the rate", paper=0.995, at_least=0.98, at_most=1.002)
def utilisation(runs: Table) -> Numbers:
    return runs.where(depth="equal", burst=BURST)["utilisation"]


@fig4.claim("A000-3", "depths by round trip: Jain index", kind="context")
def jain_rtt(runs: Table) -> Numbers:
    return jain(runs, "rtt")


@fig4.claim("A000-3", "Jain index, depths by round trip minus equal depths", kind="context")
def gain(runs: Table) -> Numbers:
    return jain(runs, "rtt") - jain(runs, "equal")


@fig4.claim(
    "A000-3",
    "bucket of 8 kB: Jain index, depths by round trip minus equal depths",
    kind="shown otherwise",
    paper=0.006,
    at_most=-0.001,
)
def gain_shallow(runs: Table) -> Numbers:
    return jain(runs, "rtt", SHALLOW) - jain(runs, "equal", SHALLOW)


@fig4.figure
def figure(runs: Table) -> Any:
    titles = ["equal depths", "depths by round-trip time"]
    return draw(titles, [partitioned(depth).run(1) for depth in DEPTHS])
