"""Trunks share the rate beyond the guarantees in proportion to their VMSS.

Source: trunking, section 7.1, experiment TT1 (b), figure 5; docs/ledger.md, A003-1 (average rates)
and A003-2 (rates of each second).
Differs: `_network.py` describes the network. The paper's prediction leaves out management packets,
which take 1.2 %.
"""

from typing import Any

from tidegate import Result, Table
from tidegate.experiment import Experiment

from ._network import GUARANTEES, VMSS, claim_shares, draw, measured, network

fig5 = Experiment(__file__)


def run(seed: int) -> Result:
    return network(vmss=VMSS, guarantee=GUARANTEES["b"]).run(seed)


@fig5.run()
def measure(seed: int) -> dict[str, float]:
    return measured(run(seed))


claim_shares(fig5, "b", paper=(600, 600))


@fig5.figure
def figure(runs: Table) -> Any:
    return draw(run(1))
