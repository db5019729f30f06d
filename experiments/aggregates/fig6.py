"""With one policer per flow, connections exceed their rate, but use less of it in profile.

Source: aggregates, section 4.2.1, figure 6.
Differs: `_server.py` describes the network. ERED's parameters are ns-2's for RED, with the paper's
factor of 1.5.
"""

from typing import Any

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._server import RATE, draw, measured, server

fig6 = Experiment(__file__)

PARTITIONS = {"kind": "partitioned", "depth": "rtt"}


@fig6.run()
def measure(seed: int) -> dict[str, float]:
    return measured(server(PARTITIONS, action="police-mark").run(seed))


@fig6.claim("A000-5", "total throughput over the aggregate's rate", paper="≫ 1", at_least=1.2)
def total(runs: Table) -> Numbers:
    return runs["total_bps"] / RATE


@fig6.claim("A000-5", "compliant throughput over the aggregate's rate", paper="< 1", at_most=0.97)
def compliant(runs: Table) -> Numbers:
    return runs["compliant_bps"] / RATE


@fig6.figure
def figure(runs: Table) -> Any:
    return draw(["policed one by one"], [server(PARTITIONS, action="police-mark").run(1)])
