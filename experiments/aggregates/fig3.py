"""Without rate control, connections with long round trips get least.

Source: aggregates, section 4.2, figure 3.
Differs: `_server.py` describes the network.
"""

from typing import Any

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._server import draw, measured, server

fig3 = Experiment(__file__)


@fig3.run(links=["equal", "unequal"])
def measure(seed: int, links: str) -> dict[str, float]:
    return measured(server(links=links).run(seed), links)


@fig3.claim("A000-1", "equal links: 300 ms gets at most what 50 ms gets", paper="less", at_most=1)
def medium_to_short(runs: Table) -> Numbers:
    equal = runs.where(links="equal")
    return (equal["n3_bps"] + equal["n4_bps"]) / 2 / equal["n2_bps"]


@fig3.claim("A000-1", "equal links: 600 ms gets less than 300 ms", paper="less", at_most=0.99)
def long_to_medium(runs: Table) -> Numbers:
    equal = runs.where(links="equal")
    return equal["n5_bps"] / ((equal["n3_bps"] + equal["n4_bps"]) / 2)


@fig3.claim("A000-1", "equal links: Jain index", paper="unfair", at_most=0.95)
def jain_equal(runs: Table) -> Numbers:
    return runs.where(links="equal")["jain"]


@fig3.claim("A000-1", "unequal links: Jain index", paper="unfair", at_most=0.95)
def jain_unequal(runs: Table) -> Numbers:
    return runs.where(links="unequal")["jain"]


@fig3.figure
def figure(runs: Table) -> Any:
    kinds = ["equal", "unequal"]
    return draw([f"{kind} links" for kind in kinds], [server(links=it).run(1) for it in kinds])
