"""A router with the buffer of equation 2 loses management packets only, from the first packet on.

Source: trunking, section 7.1, experiment TT1 (c), figure 6; docs/ledger.md, A003-3 (no user packet
lost).
Differs: `_network.py` describes the network. The occupancy is sampled every 5 ms, the time of four
packets; the paper logged every packet. Runs take 600 s, start included, and flows start at random
in the first 0.2 s. The paper prints the drop rule of equation 1, but its experiments used a
RED-like scheme that it does not print. Both are run. The occupancy is judged with equation 1,
because our RED-like rule drops earlier.
"""

from typing import Any

import numpy as np

from tidegate import Result, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import BOTTLENECK, GUARANTEES, network, required_buffer, user_loss

fig6 = Experiment(__file__)

VMSS = (1500, 1500)
NEEDED = required_buffer(4, list(VMSS), 0.5)
SECONDS = 600


STARTS = 20
"""Number of short runs of ``START`` seconds for each seed, besides the long run."""
START = 5


def run(seed: int, buffer: float, early: bool, seconds: int = SECONDS) -> Result:
    net = network(
        vmss=VMSS, guarantee=GUARANTEES["a"], buffer=buffer, duration=seconds, warmup=0,
        sample="5 ms", early=early, spread=True,
    )  # fmt: skip
    return net.run(seed)


@fig6.run(buffer=[1, 0.5], early=[True, False])
def measure(seed: int, buffer: float, early: bool) -> dict[str, float]:
    result = run(seed, buffer, early)
    starts = [run(1_000 * seed + n, buffer, early, START) for n in range(STARTS)]
    return {
        "most": occupancy(result).max() / NEEDED,
        "lost": user_loss(result),
        "lost_at_start": sum(user_loss(start) for start in starts),
    }


def occupancy(result: Result) -> np.ndarray:
    return result["queue of " + " > ".join(BOTTLENECK)]["bytes"]


@fig6.claim("A003-3", "equation 2, bytes", kind="context")
def formula(runs: Table) -> Numbers:
    return [NEEDED] * len(runs.where(buffer=1, early=True))


def claim_lost(name: str, text: str, column: str, early: bool, **bounds: Any) -> None:
    def lost(runs: Table) -> Numbers:
        buffer = 0.5 if "at_least" in bounds else 1
        return runs.where(buffer=buffer, early=early)[column]

    lost.__name__ = name
    fig6.claim("A003-3", text, **bounds)(lost)


for early, suffix, rule in ((True, "", "RED-like"), (False, "_literal", "equation 1")):
    claim_lost(
        f"lost{suffix}", f"user packets lost in 600 s: {rule}", "lost", early, paper=0, at_most=0
    )
    claim_lost(
        f"starts{suffix}", f"user packets lost in {STARTS} starts: {rule}", "lost_at_start", early,
        paper=0, at_most=0,
    )  # fmt: skip
    claim_lost(
        f"half{suffix}", f"half of equation 2's buffer: user packets lost: {rule}", "lost", early,
        kind="shown otherwise", at_least=1,
    )  # fmt: skip


@fig6.claim(
    "A003-3", "greatest occupancy over equation 2: equation 1", paper=0.946, at_least=0.80,
    at_most=1.05,
)  # fmt: skip
def most(runs: Table) -> Numbers:
    return runs.where(buffer=1, early=False)["most"]


@fig6.claim("A003-3", "greatest occupancy over equation 2: RED-like", at_most=1)
def most_early(runs: Table) -> Numbers:
    return runs.where(buffer=1, early=True)["most"]


@fig6.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["equation 1", "RED-like"])
    for axes, early in zip(panels, (False, True), strict=True):
        result = run(1, 1, early)
        time = result["queue of " + " > ".join(BOTTLENECK)]["time_seconds"]
        axes.plot(time[::20], occupancy(result)[::20] / 1e3, ".", markersize=1)
        axes.axhline(NEEDED / 1e3, label="equation 2")
        axes.set_xlabel("s")
        axes.set_ylabel("kB in the queue of the link from E to F")
        axes.legend()
    return figure
