"""The paper's equation 2 also sizes a router's buffer for other alpha than eight packets.

Source: trunking, section 5, equations 1 and 2. A trunk finds its rate by TCP connections of its
gateways, which send small management packets; alpha is the number of these that may wait per
connection. The paper uses 8, because a window of eight packets survives a loss without a timeout;
docs/ledger.md, R003-5, R003-6 (equations) and A003-3 (no loss).
Differs: `_network.py` describes the network. The paper runs alpha = 8 only. Here alpha is 2, 4, 8
and 16, in the paper's experiment TT1 (c), with the buffer of equation 2 for each; flows start at
random in the first 0.2 s. Further runs with eight times this buffer show the greatest occupancy,
which may then exceed equation 2. The first slow start of a management connection ends at alpha
packets. If it ended at the default of eight, runs with alpha 2 and 4 would lose user packets, but
only in this slow start. Routers drop by equation 1, as in `fig6.py`. Runs take 200 s, start
included.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import BOTTLENECK, GUARANTEES, KB, RATE, network, required_buffer, user_loss

alpha = Experiment(__file__)

ALPHAS = [2, 4, 8, 16]
VMSS = (1500, 1500)
SECONDS = 200

EXACT, AMPLE = 1, 8
"""Factors on the buffer of equation 2. The ample buffer does not limit the occupancy."""


@alpha.run(alpha=ALPHAS, room=[EXACT, AMPLE])
def measure(seed: int, alpha: int, room: int) -> dict[str, float]:
    net = network(
        vmss=VMSS, guarantee=GUARANTEES["a"], buffer=room, duration=SECONDS, warmup=0,
        sample="5 ms", early=False, spread=True, alpha=alpha, begins=alpha,
    )  # fmt: skip
    run = net.run(seed)
    occupied = run["queue of " + " > ".join(BOTTLENECK)]["bytes"]
    table = run.windowed(step=200)
    counted = (table["time_seconds"] > 20) & (table["time_seconds"] <= SECONDS - 2)
    rate = table["flow1_bps"][counted]
    guaranteed = KB * sum(GUARANTEES["a"]) / RATE
    return {
        "lost": user_loss(run),
        "most": occupied.max() / required_buffer(4, list(VMSS), guaranteed, alpha=alpha),
        "mean": occupied.mean(),
        "use": table["total_bps"][counted].mean() / 8 / RATE,
        "deviation": rate.std() / rate.mean(),
    }


def of(runs: Table, alpha: int, column: str, room: int = EXACT) -> np.ndarray:
    return runs.where(alpha=alpha, room=room)[column]


def claim_room(alpha_: int) -> None:
    """Adds claims that no user packet is lost with equation 2's buffer, and that it is needed."""

    def lost(runs: Table) -> Numbers:
        return of(runs, alpha_, "lost")

    def most(runs: Table) -> Numbers:
        return of(runs, alpha_, "most", AMPLE)

    lost.__name__, most.__name__ = f"lost_{alpha_}", f"most_{alpha_}"
    text = f"alpha = {alpha_}: user packets lost in {SECONDS} s"
    alpha.claim("A003-3", text, paper=0, at_most=0)(lost)
    text = f"alpha = {alpha_}: greatest occupancy of an ample buffer, over equation 2"
    alpha.claim("A003-3", text, at_least=0.8, at_most=1.05)(most)


for each in ALPHAS:
    claim_room(each)


@alpha.claim("R003-5", "alpha = 8: use of the link", at_least=0.97)
def use(runs: Table) -> Numbers:
    return of(runs, 8, "use")


@alpha.claim("R003-5", "deviation of one second's rate, alpha = 2 over alpha = 8", at_least=1.2)
def uneven(runs: Table) -> Numbers:
    return of(runs, 2, "deviation") / of(runs, 8, "deviation")


@alpha.claim("R003-5", "deviation of one second's rate, alpha = 16 over alpha = 8", kind="context")
def more_even(runs: Table) -> Numbers:
    return of(runs, 16, "deviation") / of(runs, 8, "deviation")


@alpha.claim("R003-6", "mean backlog, alpha = 16 over alpha = 8", at_least=1.5)
def waits(runs: Table) -> Numbers:
    return of(runs, 16, "mean") / of(runs, 8, "mean")


@alpha.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["deviation of one second's rate", "buffer"])
    for axes, column, room in zip(panels, ("deviation", "most"), (EXACT, AMPLE), strict=True):
        means = [of(runs, each, column, room).mean() for each in ALPHAS]
        axes.plot(ALPHAS, means, marker="o")
        axes.set_xlabel("alpha")
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel("over the mean rate of trunk 1")
    panels[1].set_ylabel("greatest occupancy over equation 2")
    return figure
