"""Trunks share a link in proportion to their guarantees.

Source: trunking, section 7.1, experiment TT1 (a), figure 4; docs/ledger.md, A003-1 (average rates)
and A003-2 (rates of each second).
Differs: `_network.py` describes the network. The paper's prediction leaves out management packets,
which take 1.2 %.
"""

from typing import Any

from tidegate import Result, Table
from tidegate.experiment import Experiment

from ._network import GUARANTEES, VMSS, claim_shares, draw, measured, network

fig4 = Experiment(__file__)


def run(seed: int) -> Result:
    return network(vmss=VMSS, guarantee=GUARANTEES["a"]).run(seed)


@fig4.run()
def measure(seed: int) -> dict[str, float]:
    return measured(run(seed))


claim_shares(fig4, "a", paper=(800, 400))


@fig4.figure
def figure(runs: Table) -> Any:
    return draw(run(1))
