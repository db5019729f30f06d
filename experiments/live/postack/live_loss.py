"""Between real hosts with 2 % of loss, the gate has more goodput than TCR.

Source: postack, abstract ("10 % more goodput than TCR"); docs/ledger.md, A001-3 (at 2 %
loss, at least 1.12 times the goodput of TCR).
Differs: `_live.py` describes labs of real hosts; `loss.py` and `reach.py` simulate the same. Four
flows of Reno or CUBIC go up through 10 Mbit/s. Their windows have no limit.
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
"""Seconds that do not count (slow start), and seconds that count."""

MARGIN = 0.05
"""Allowed difference between live and simulated numbers (A001-12)."""

LIMITED = (
    "losses, not windows, keep senders below their share, as in the simulator "
    "(`postack/loss#two-reno`): with a queue for each flow they have as little (`#fair`)"
)


@live_loss.run(congestion=CONTROLS)
def measure(seed: int, congestion: str) -> dict[str, float]:
    def run(ack_control: str) -> dict[str, float]:
        net = hosts(ack_control, loss=LOSS, tcp={"congestion": congestion}, seconds=SECONDS)
        net.tables["seed"] = seed
        return bulk(net, congestion=congestion)

    return side_by_side(run, SHOWN)


def over(runs: Table, ack_control: str, congestion: str) -> np.ndarray:
    """Goodput with ACKs held, divided by the goodput with another ACK control."""
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
    "A001-4", "live, 2 %: goodput over that of a queue for each flow, lower of both", at_least=0.97
)
def fair(runs: Table) -> Numbers:
    return np.min([over(runs, "none", it) for it in CONTROLS], axis=0)
