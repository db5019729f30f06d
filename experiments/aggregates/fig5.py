"""With partitions, tokens that a slow link cannot use are lost.

Source: aggregates, section 4.2.1, figure 5.
Differs: `_server.py` describes the network. The paper does not print the depths. Depths in
proportion to the measured round-trip time use less of the rate: packets that wait at the slow link
raise this time to seconds. The 50 ms connection then gets too little of the burst for a timer of 15
ms, and 3 % more tokens are lost.
"""

from typing import Any

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._server import LINKS, RATE, draw, measured, server

fig5 = Experiment(__file__)

PARTITIONS = {"kind": "partitioned", "depth": "equal"}
PREDICTED = sum(min(RATE / 4, link) for link in LINKS["unequal"]) / RATE


@fig5.run()
def measure(seed: int) -> dict[str, float]:
    return measured(server(PARTITIONS, "unequal").run(seed), "unequal")


@fig5.claim("A000-4", "use of the rate", paper=0.87, at_least=0.85, at_most=0.89)
def utilisation(runs: Table) -> Numbers:
    return runs["utilisation"]


@fig5.claim(
    "A000-4", "use of the rate minus the most that partitions can use", at_least=-0.02, at_most=0.02
)
def beyond_prediction(runs: Table) -> Numbers:
    return runs["utilisation"] - PREDICTED


@fig5.figure
def figure(runs: Table) -> Any:
    return draw(["partitioned, unequal links"], [server(PARTITIONS, "unequal").run(1)])
