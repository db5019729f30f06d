"""Between real hosts too, 2 % of loss leave the gate more goodput than TCR.

Source: postack, abstract ("10 % more goodput than TCR"), ledger A001-3: at least 1.12 at 2 %.
Differs: see `_live.py`, and `loss.py` and `reach.py` for the same in the simulator. Four flows of
Reno or CUBIC go up through 10 Mbit/s, with windows as large as they grow.
"""

import numpy as np

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._live import bulk, hosts, missing, side_by_side

live_loss = Experiment(__file__, seeds=10, needs=missing)

CONTROLS = ["reno", "cubic"]
SHOWN = ["none", "gate", "tcr"]
LOSS = 2
"""Loss in percent."""
SECONDS = (5, 20)
"""Of slow start, and that count."""

MARGIN = 0.05
"""Live figures and the simulator's may differ by as much (A001-12)."""

LIMITED = (
    "it is losses and not windows that hold senders below their part, as in the simulator "
    "(`postack/loss#two-reno`): a queue for each flow leaves them as little (`#fair`)"
)


@live_loss.run(congestion=CONTROLS)
def measure(seed: int, congestion: str) -> dict[str, float]:
    def run(ack_control: str) -> dict[str, float]:
        net = hosts(ack_control, loss=LOSS, tcp={"congestion": congestion}, seconds=SECONDS)
        net.tables["seed"] = seed
        return bulk(net, congestion=congestion)

    return side_by_side(run, SHOWN)


def over(runs: Table, ack_control: str, congestion: str) -> np.ndarray:
    """Goodput with ACKs held, divided by that with another ACK control."""
    cell = runs.where(congestion=congestion)
    return cell["gate goodput"] / cell[f"{ack_control} goodput"]


@live_loss.claim(
    "A001-3", "live, 2 %, Reno: goodput, gate over TCR", paper="> 1", at_least=1.12,
    margin=MARGIN, why=LIMITED,
)  # fmt: skip
def reno(runs: Table) -> Numbers:
    return over(runs, "tcr", "reno")


@live_loss.claim(
    "A001-3", "live, 2 %, CUBIC: goodput, gate over TCR", paper="> 1", at_least=1.12,
    margin=MARGIN, why=LIMITED,
)  # fmt: skip
def cubic(runs: Table) -> Numbers:
    return over(runs, "tcr", "cubic")


@live_loss.claim(
    "A001-4", "live, 2 %: goodput of a queue for each flow's, least of both", at_least=0.97
)
def fair(runs: Table) -> Numbers:
    return np.min([over(runs, "none", it) for it in CONTROLS], axis=0)
