"""Round robin between flows alone does not keep the TCP of users from timeouts where rates halve.

Source: trunking, section 6; ledger, R003-7. When a trunk halves its rate, its queue overflows, and
flows that lose several packets at once time out. Round robin alone does not prevent it, the rule of
U/2 does.
Differs: see `_network.py` and `sender.py`. The paper prints no numbers. Two sites of 4 or 16 greedy
TCP connections each lose packets in a queue of 100 packets. It is one line, a line for each flow
with the same room together, or one line with the rule. Users are TCP as the RFCs have it, which
recovers with SACK, as NewReno, or as Reno, which the paper's FreeBSD 2.2.8 has. With SACK and 4 a
site one line has no timeout (`#sack-fifo-4`), so the rule has none to avoid and no claim
there. `#sack-16` has the bound of `#sack-4`, and was added after it had been measured.
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
    """Claims the number of timeouts in 100 s with round robin alone."""

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
    "the rule may hit a flow again after U/2 packets, while it still recovers from the first hit. "
    "Two losses in a window are a timeout for Reno. They are all in which NewReno differs, which "
    "has few timeouts here (`#new-reno-spared-4`, `#new-reno-spared-16`)"
)


def claim_spared(recovery: str, flows: int, why: str | None = None) -> None:
    """Claims that the rule of U/2 leaves at most a third of the timeouts of one FIFO."""

    def spared(runs: Table) -> Numbers:
        fifo, sparing = (of(runs, line, flows, recovery) for line in ("fifo", "sparing"))
        return sparing - fifo / 3

    spared.__name__ = f"{recovery}_spared_{flows}"
    text = f"rule of U/2, {recovery}, {flows} a site: timeouts less a third of one line's"
    round_robin.claim("R003-7", text, paper="avoided", at_most=0, why=why)(spared)


OFTEN = (
    "the rule keeps the line short, for which it hits 2.7 times as often as one line drops. Of its "
    "losses a sixth as many are followed by a timeout (`#per-loss`)"
)

for flows in FLOWS:
    claim_spared("reno", flows, SHORT)
    claim_spared("new-reno", flows, OFTEN if flows == FLOWS[0] else None)
claim_spared("sack", 16)


@round_robin.claim("R003-7", "one line, sack, 4 a site: timeouts in 100 s", kind="context")
def sack_fifo_4(runs: Table) -> Numbers:
    return of(runs, "fifo", 4, "sack")


@round_robin.claim(
    "R003-7", "rule of U/2, new-reno, 4 a site: timeouts for each loss, of one line's",
    at_most=1 / 3,
)  # fmt: skip
def per_loss(runs: Table) -> Numbers:
    fifo, sparing = (
        of(runs, line, 4, "new-reno") / of(runs, line, 4, "new-reno", "lost")
        for line in ("fifo", "sparing")
    )
    return sparing / fifo


@round_robin.claim("R003-7", "use of the link, least of all lines and senders", at_least=0.9)
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
