"""With logical partitions, more packets are in profile than with one policer per flow.

Source: aggregates, section 4.2.3, figure 11.
Differs: `_server.py` describes the network, `_compare.py` the comparison, and `fig6.py` ERED. Links
are unequal, as the caption says. Without background traffic, the four connections use 95 % of the
access link with either policer. The rate in profile grows, the total rate stays the same, and 1 %
fewer packets are lost.
"""

from typing import Any

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._compare import ONE_BY_ONE, OTHERS, claim_gains, gain
from ._server import draw, measured, server

fig11 = Experiment(__file__, seeds=130)

ALLOCATIONS: dict[str, Any] = {"one by one": ONE_BY_ONE, "logical partitions": "logical-partitions"}


@fig11.run(policed=list(ALLOCATIONS), cross=list(OTHERS))
def measure(seed: int, policed: str, cross: int) -> dict[str, float]:
    net = server(ALLOCATIONS[policed], "unequal", action="police-mark", cross=cross)
    return measured(net.run(seed), "unequal")


claim_gains(fig11, "A000-13", "logical partitions")


@fig11.claim(
    "A000-13",
    "packets lost, logical partitions over one policer per flow",
    paper="< 1",
    at_most=1,
    margin=0.02,
)
def loss(runs: Table) -> Numbers:
    return gain(runs, "logical partitions", "loss", cross=0)


@fig11.claim(
    "A000-13, four others on the access link",
    "packets lost, logical partitions over one policer per flow",
    paper="< 1",
    at_most=1,
    margin=0.02,
)
def loss_cross(runs: Table) -> Numbers:
    return gain(runs, "logical partitions", "loss", cross=4)


@fig11.figure
def figure(runs: Table) -> Any:
    nets = [server(it, "unequal", action="police-mark") for it in ALLOCATIONS.values()]
    return draw(list(ALLOCATIONS), [net.run(1) for net in nets])
