"""Even if the delay to the senders varies, the gate requests as much data as the rate carries.

Source: postack; docs/ledger.md, R001-9 (the rule `gate`: a held ACK departs while the queue has
room for its data) and A001-4 (goodput).
Differs: in docs/ledger.md the path to the senders has a constant delay, and the rule `gate`
requests the data that the rate carries in the shortest round trip. Here each ACK gets a random
delay on its 0.1 ms link to the sender. Eight senders are 10 ms from their receivers and have
unlimited windows. Runs take 12 s, of which 8 s count.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import bulk, measured, network

jitter = Experiment(__file__)

RATES = {50: "15140 B", 300: "64 KiB"}
"""Rate of the policy in Mbit/s, and its burst."""

JITTER = [0, 300, 1_000, 3_000]
"""Greatest random delay of an ACK on its link to the sender, in microseconds."""

MOST = 1_000
"""Claims must hold up to this jitter, in microseconds.

For more jitter, results are only shown, but for 3 ms at 300 Mbit/s.
"""


@jitter.run(ack_control=["none", "gate"], mbps=list(RATES), varies=JITTER)
def measure(seed: int, ack_control: str, mbps: int, varies: int) -> dict[str, float]:
    profile = {"mean": f"{mbps} Mbit/s", "burst": RATES[mbps]}
    net = network(
        ack_control, window=None, policy={"profile": profile}, flows=8, duration="12 s",
        warmup="4 s", far="5 ms", back={"jitter": {"uniform": f"{varies} us"}} if varies else None,
    )  # fmt: skip
    bulk(net, flows=8)
    return measured(net.run(seed))


def ratio(runs: Table, column: str, mbps: int, varies: int) -> np.ndarray:
    """A column with ACKs held, over the same column with a queue for each flow."""
    cell = runs.where(mbps=mbps, varies=varies)
    return cell.where(ack_control="gate")[column] / cell.where(ack_control="none")[column]


def least(runs: Table, mbps: int) -> Numbers:
    each = [ratio(runs, "goodput", mbps, varies) for varies in JITTER if varies <= MOST]
    return [min(turn) for turn in zip(*each, strict=True)]


@jitter.claim("A001-4", "50 Mbit/s, up to 1 ms: goodput over that of a queue for each flow",
              at_least=0.99)  # fmt: skip
def slow(runs: Table) -> Numbers:
    return least(runs, 50)


@jitter.claim("A001-4", "300 Mbit/s, up to 1 ms: goodput over that of a queue for each flow",
              at_least=0.99)  # fmt: skip
def fast(runs: Table) -> Numbers:
    return least(runs, 300)


@jitter.claim(
    "A001-4",
    "300 Mbit/s, up to 3 ms: goodput over that of a queue for each flow",
    at_least=0.99,
)
def beyond(runs: Table) -> Numbers:
    return ratio(runs, "goodput", 300, 3_000)


@jitter.claim("A001-1", "up to 1 ms: queued data over that of a queue for each flow", at_most=0.03)
def data(runs: Table) -> Numbers:
    each = [ratio(runs, "data", mbps, varies) for mbps in RATES for varies in JITTER[:3]]
    return [max(turn) for turn in zip(*each, strict=True)]


@jitter.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["goodput over that of a queue for each flow"])
    for mbps in RATES:
        means = [ratio(runs, "goodput", mbps, varies).mean() for varies in JITTER]
        panels[0].plot([it / 1_000 for it in JITTER], means, marker="o", label=f"{mbps} Mbit/s")
    panels[0].set_xlabel("jitter to the senders, ms")
    panels[0].set_ylim(bottom=0)
    panels[0].legend()
    return figure
