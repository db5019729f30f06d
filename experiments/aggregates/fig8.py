"""One policer for all connections passes more, in profile and in total, than one policer per flow.

Source: aggregates, section 4.2.2, figure 8, against figure 6.
Differs: `_server.py` describes the network, `_compare.py` the comparison, and `fig6.py` ERED.
Without background traffic the four connections fill the access link with either policer (93 % of
it), and the total rate does not gain 1 %. Beside background traffic the total rate gains too,
because more packets are in profile.
"""

from typing import Any

from tidegate import Table
from tidegate.experiment import Experiment

from ._compare import ONE_BY_ONE, OTHERS, claim_gains
from ._server import draw, measured, server

fig8 = Experiment(__file__, seeds=70)

ALLOCATIONS: dict[str, Any] = {"one by one": ONE_BY_ONE, "together": "fcfs"}


@fig8.run(policed=list(ALLOCATIONS), cross=list(OTHERS))
def measure(seed: int, policed: str, cross: int) -> dict[str, float]:
    return measured(server(ALLOCATIONS[policed], action="police-mark", cross=cross).run(seed))


claim_gains(fig8, "A000-10", "together")


@fig8.figure
def figure(runs: Table) -> Any:
    kinds = ALLOCATIONS.values()
    return draw(list(ALLOCATIONS), [server(kind, action="police-mark").run(1) for kind in kinds])
