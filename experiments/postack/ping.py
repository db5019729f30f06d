"""A ping in the same class waits hardly longer than with a queue for each flow.

Source: postack; docs/ledger.md, A001-5 (a ping beside downloads).
Differs: `_network.py` describes the network. The ping is a packet of 64 bytes every 100 ms from a
host of its own, in one direction. FIFO is one queue of 256 KiB for all packets at a link of the
policy's rate, without a policy.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import RATE, WINDOWS, bulk, network

ping = Experiment(__file__)

LINE = {"kind": "drop-tail", "limit": "256 KiB"}
RATES = {"up": f"{RATE} bit/s", "down": "1 Gbit/s"}
FIFO = {"gateway": {"rate": RATES, "queue": LINE}, "policy": []}
CASES = {"fifo": ("none", FIFO), "per flow": ("none", None), "gate": ("gate", None)}


@ping.run(case=list(CASES), window=list(WINDOWS))
def measure(seed: int, case: str, window: str) -> dict[str, float]:
    ack_control, file = CASES[case]
    net = network(ack_control, window=WINDOWS[window], file=file)
    bulk(net)
    net.host("pinger")
    net.link("pinger", "lan", rate="1 Gbit/s", delay="100 us")
    net.traffic(
        "ping", "cbr", "pinger", "w0", protocol="udp", rate="5120 bit/s", packet="64 B", start="1 s"
    )
    delays = net.run(seed).groups.where(group="ping")
    return {"mean": delays["delay_mean_seconds"][0], "p99": delays["delay_p99_seconds"][0]}


def of(runs: Table, case: str, column: str = "mean", window: str = "64 KiB") -> np.ndarray:
    return runs.where(case=case, window=window)[column]


@ping.claim(
    "A001-5", "64 KiB: mean one-way delay, gate minus a queue for each flow, s", at_most=0.010
)
def beyond(runs: Table) -> Numbers:
    return of(runs, "gate") - of(runs, "per flow")


@ping.claim("A001-5", "unlimited windows: mean one-way delay, gate minus a queue for each flow, s",
            at_most=0.010)  # fmt: skip
def beyond_grown(runs: Table) -> Numbers:
    return of(runs, "gate", window="grown") - of(runs, "per flow", window="grown")


@ping.claim("A001-5", "64 KiB: 99th percentile, gate minus a queue for each flow, s", at_most=0.010)
def late(runs: Table) -> Numbers:
    return of(runs, "gate", "p99") - of(runs, "per flow", "p99")


WAY = 0.0261
"""One-way delay without any queue, in seconds."""


@ping.claim("A001-5", "64 KiB: queueing delay over that of a FIFO", at_most=0.25)
def of_fifo(runs: Table) -> Numbers:
    return (of(runs, "gate") - WAY) / (of(runs, "fifo") - WAY)


@ping.claim("A001-5", "unlimited windows: queueing delay over that of a FIFO", at_most=0.25)
def of_fifo_grown(runs: Table) -> Numbers:
    added = [of(runs, case, window="grown") - WAY for case in ("gate", "fifo")]
    return added[0] / added[1]


@ping.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels([f"windows of {window}" for window in WINDOWS])
    for axes, window in zip(panels, WINDOWS, strict=True):
        for column in ("mean", "p99"):
            means = [of(runs, case, column, window).mean() * 1e3 for case in CASES]
            axes.plot(list(CASES), means, marker="o", linestyle="", label=column)
        axes.set_yscale("log")
        axes.set_ylabel("one-way delay, ms")
        axes.legend()
    return figure
