"""The window that losses allow limits the possible gain over TCR.

Source: postack; docs/ledger.md, A001-3 (gate over TCR at 2 % loss).
Differs: `_network.py` and `loss.py` describe the network. The path loses 2 % of the packets at
every rate. At 200 Mbit/s no policy limits a sender. Reno then has windows of about eight packets.
At 10 Mbit/s a flow needs a window of 10.8 packets for its share, and 7.6 at 7 Mbit/s. At 7 Mbit/s,
p W^2 has the same value as at 1 % of loss and 10 Mbit/s.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import bulk, measured, network

RATES = [5, 6, 7, 8, 10]
UNLIMITED = 200
CONTROLS = ["reno", "cubic"]

SEEDS = 72
"""Number of seeds at 10 Mbit/s and without a limit, from `tidegate-repro plan`."""

reach = Experiment(__file__, more={"mbps": {10: SEEDS, UNLIMITED: SEEDS}})


@reach.run(ack_control=["none", "gate", "tcr"], congestion=CONTROLS, mbps=[*RATES, UNLIMITED])
def measure(seed: int, ack_control: str, congestion: str, mbps: int) -> dict[str, float]:
    policy = {"profile": {"mean": f"{mbps} Mbit/s", "burst": "15140 B"}}
    tcp = {"congestion": congestion}
    net = network(ack_control, window=None, loss="2 %", tcp=tcp, policy=policy)
    bulk(net)
    return {"goodput": measured(net.run(seed))["goodput"]}


def goodput(runs: Table, ack_control: str, congestion: str, mbps: int = 10) -> np.ndarray:
    return runs.where(ack_control=ack_control, congestion=congestion, mbps=mbps)["goodput"]


def unlimited(runs: Table, congestion: str) -> np.ndarray:
    """Goodput without an effective policy over that with TCR at 10 Mbit/s."""
    return goodput(runs, "none", congestion, UNLIMITED) / goodput(runs, "tcr", congestion)


def over_tcr(runs: Table, congestion: str, mbps: int) -> np.ndarray:
    return goodput(runs, "gate", congestion, mbps) / goodput(runs, "tcr", congestion, mbps)


@reach.claim(
    "A001-3, out of reach",
    "2 %, Reno: goodput without any limit over TCR's",
    at_most=1.12,
    margin=0.02,
)
def unlimited_reno(runs: Table) -> Numbers:
    return unlimited(runs, "reno")


@reach.claim(
    "A001-3, out of reach",
    "2 %, CUBIC: goodput without any limit over TCR's",
    at_most=1.12,
    margin=0.02,
)
def unlimited_cubic(runs: Table) -> Numbers:
    return unlimited(runs, "cubic")


@reach.claim("A001-3, 7 Mbit/s", "2 %, Reno: goodput, gate over TCR", paper="> 1", at_least=1.12)
def seven_reno(runs: Table) -> Numbers:
    return over_tcr(runs, "reno", 7)


@reach.claim("A001-3, 7 Mbit/s", "2 %, CUBIC: goodput, gate over TCR", paper="> 1", at_least=1.12)
def seven_cubic(runs: Table) -> Numbers:
    return over_tcr(runs, "cubic", 7)


@reach.figure
def figure(runs: Table) -> Any:
    figure, (axes,) = plots.panels(["2 % lost: goodput, gate over TCR"])
    for congestion in CONTROLS:
        means = [over_tcr(runs, congestion, mbps).mean() for mbps in RATES]
        axes.plot(RATES, means, marker="o", label=congestion.upper())
    axes.set_xlabel("rate, Mbit/s")
    axes.set_ylim(bottom=1)
    axes.legend()
    return figure
