"""With several management connections the rate of a trunk is steadier than with one.

Source: trunking, section 7.1, whose end mentions "much larger bandwidth variations" with one
connection; docs/ledger.md, A003-4 (variation with one connection).
Differs: `_network.py` describes the network. The paper shows no run with one connection.
"""

import numpy as np

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import GUARANTEES, VMSS, measured, network

connections = Experiment(__file__)


@connections.run(connections=[1, 4])
def measure(seed: int, connections: int) -> dict[str, float]:
    net = network(vmss=VMSS, guarantee=GUARANTEES["a"], connections=connections)
    return measured(net.run(seed))


def ratio(runs: Table, trunk: int) -> np.ndarray:
    one, four = (runs.where(connections=number) for number in (1, 4))
    return one[f"deviation_{trunk}"] / four[f"deviation_{trunk}"]


@connections.claim(
    "A003-4", "trunk 1: deviation of the rate, one connection over four", paper="much larger",
    at_least=1.5,
)  # fmt: skip
def trunk_1(runs: Table) -> Numbers:
    return ratio(runs, 1)


@connections.claim(
    "A003-4", "trunk 2: deviation of the rate, one connection over four", paper="much larger",
    at_least=1.5,
)  # fmt: skip
def trunk_2(runs: Table) -> Numbers:
    return ratio(runs, 2)
