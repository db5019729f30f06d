"""When trunks halve their rate, round robin alone does not prevent timeouts of users' TCP.

Source: trunking, section 6; docs/ledger.md, R003-7 (drops at the trunk sender). When a trunk halves
its rate, its queue overflows, and flows that lose several packets at once time out. Round robin
alone does not prevent this. The rule of U/2 does: after a flow loses a packet, the queue drops none
of its next U/2 packets.
Differs: `_network.py` describes the network, and `sender.py` the sites. The paper prints no
numbers. Two sites of 4 or 16 greedy TCP connections each lose packets in a queue of 100 packets.
The queue is one FIFO, a queue for each flow with the same total size, or one FIFO with the rule.
Users have TCP as in the RFCs, with SACK, NewReno, or Reno (the TCP of the paper's FreeBSD 2.2.8).
With SACK and 4 connections a site, the FIFO has no timeouts (`#sack-fifo-4`). So the rule has none
to avoid, and no claim. `#sack-16` has the bound of `#sack-4`, and was added after it had been
measured.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import RATE
from .sender import FIFO, SPARING, sites

round_robin = Experiment(__file__, more={"recovery": {"new-reno": 30, "sack": 30}})

LINES: dict[str, Any] = {
    "fifo": FIFO,
    "round robin": {"kind": "per-flow", "limit": FIFO["limit"], "flow_limit": FIFO["limit"]},
    "sparing": SPARING,
}
FLOWS = [4, 16]
RECOVERIES = ["reno", "new-reno", "sack"]


@round_robin.run(line=list(LINES), flows=FLOWS, recovery=RECOVERIES)
def measure(seed: int, line: str, flows: int, recovery: str) -> dict[str, float]:
    run = sites(LINES[line], flows=flows, tcp={"recovery": recovery}).run(seed)
    lost = sum(run.drops.where(place=f"site{n}")["dropped_packets"].sum() for n in (1, 2))
    return {
        "timeouts": float(run.flows["timeouts"].sum()),
        "retransmitted": float(run.flows["retransmitted_segments"].sum()),
        "lost": float(lost),
        "use": run.groups["goodput_bps"].sum() / 8 / RATE,
    }


def of(runs: Table, line: str, flows: int, recovery: str, column: str = "timeouts") -> np.ndarray:
    return runs.where(line=line, flows=flows, recovery=recovery)[column]


def claim_timeouts(recovery: str, flows: int, **bounds: Any) -> None:
    """Adds a claim about the number of timeouts in 100 s with round robin alone."""

    def timeouts(runs: Table) -> Numbers:
        return of(runs, "round robin", flows, recovery)

    timeouts.__name__ = f"{recovery}_{flows}"
    text = f"round robin alone, {recovery}, {flows} connections a site: timeouts in 100 s"
    round_robin.claim("R003-7", text, **bounds)(timeouts)


for recovery in RECOVERIES[:2]:
    for flows in FLOWS:
        claim_timeouts(recovery, flows, paper="timeouts", at_least=1)
for flows in FLOWS:
    claim_timeouts("sack", flows, kind="shown otherwise", at_most=0.5)

SHORT = (
    "the rule may drop from a flow again after U/2 packets, while it still recovers from the first "
    "drop. Reno times out after two losses in a window. NewReno differs only in this, and has few "
    "timeouts here (`#new-reno-spared-4`, `#new-reno-spared-16`)"
)


def claim_spared(recovery: str, flows: int, why: str | None = None) -> None:
    """Adds a claim that the rule of U/2 leaves at most a third of the timeouts of one FIFO."""

    def spared(runs: Table) -> Numbers:
        fifo, sparing = (of(runs, line, flows, recovery) for line in ("fifo", "sparing"))
        return sparing - fifo / 3

    spared.__name__ = f"{recovery}_spared_{flows}"
    text = f"rule of U/2, {recovery}, {flows} a site: timeouts minus a third of the FIFO's"
    round_robin.claim("R003-7", text, paper="avoided", at_most=0, why=why)(spared)


OFTEN = (
    "the rule keeps the queue short, and to this end drops 2.7 times as often as the FIFO. A loss "
    "leads to a timeout a sixth as often (`#per-loss`)"
)

for flows in FLOWS:
    claim_spared("reno", flows, SHORT)
    claim_spared("new-reno", flows, OFTEN if flows == FLOWS[0] else None)
claim_spared("sack", 16)


@round_robin.claim("R003-7", "FIFO, sack, 4 a site: timeouts in 100 s", kind="context")
def sack_fifo_4(runs: Table) -> Numbers:
    return of(runs, "fifo", 4, "sack")


@round_robin.claim(
    "R003-7", "rule of U/2, new-reno, 4 a site: timeouts per loss, over the FIFO's",
    at_most=1 / 3,
)  # fmt: skip
def per_loss(runs: Table) -> Numbers:
    fifo, sparing = (
        of(runs, line, 4, "new-reno") / of(runs, line, 4, "new-reno", "lost")
        for line in ("fifo", "sparing")
    )
    return sparing / fifo


@round_robin.claim("R003-7", "use of the link, worst of all queues and senders", at_least=0.9)
def use(runs: Table) -> Numbers:
    cells = [
        of(runs, line, flows, recovery, "use")
        for line in LINES for flows in FLOWS for recovery in RECOVERIES
    ]  # fmt: skip
    seeds = min(map(len, cells))
    return np.min([cell[:seeds] for cell in cells], axis=0)


@round_robin.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels([f"{flows} connections a site" for flows in FLOWS])
    for axes, flows in zip(panels, FLOWS, strict=True):
        for line in LINES:
            means = [of(runs, line, flows, it).mean() for it in RECOVERIES]
            axes.plot(RECOVERIES, means, marker="o", linestyle="", label=line)
        axes.set_yscale("symlog")
        axes.set_ylabel("timeouts in 100 s")
        axes.legend()
    return figure
