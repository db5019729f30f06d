"""UDP in the same class gets its share, and TCP keeps its own.

Source: postack; docs/ledger.md, R001-9 (other packets have queues of their own, and do not delay
held ACKs).
Differs: `_network.py` describes the network. Four flows are TCP, and four are UDP. At 1.25 Mbit/s
each, UDP offers half of the rate, exactly its share; at 2.5 Mbit/s, the whole rate, twice its
share. A flow's queue holds 128 KiB here, two of TCP's windows.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import FLOWS, RATE, bulk, measured, network

udp = Experiment(__file__)

OFFERED = {"half": 1_250_000, "all": 2_500_000}
QUEUE = {"kind": "per-flow", "limit": "2 MiB", "flow_limit": "128 KiB"}
SHOWN = ["none", "gate", "tcr"]


@udp.run(ack_control=SHOWN, offered=list(OFFERED))
def measure(seed: int, ack_control: str, offered: str) -> dict[str, float]:
    net = network(ack_control, policy={"queue": QUEUE})
    bulk(net)
    hosts = [[f"{side}{n}" for n in range(FLOWS)] for side in "lw"]
    fields = {"rate": f"{OFFERED[offered]} bit/s", "packet": "1200 B"}
    start = {"uniform": ["0 s", "1 s"]}
    net.traffic("flood", "cbr", *hosts, protocol="udp", start=start, **fields)
    run = net.run(seed)
    flood = run.groups.where(group="flood")
    return {**measured(run), "udp": flood["throughput_bps"][0], "udp_jain": flood["jain"][0]}


def ratio(runs: Table, offered: str, column: str) -> np.ndarray:
    """A column with the gate over the same column with a queue for each flow."""
    cell = runs.where(offered=offered)
    return cell.where(ack_control="gate")[column] / cell.where(ack_control="none")[column]


@udp.claim(
    "gate not closed",
    "UDP offers half: TCP's goodput over that of a queue for each flow",
    at_least=0.97,
)
def tcp_half(runs: Table) -> Numbers:
    return ratio(runs, "half", "goodput")


@udp.claim(
    "gate not closed",
    "UDP offers all: TCP's goodput over that of a queue for each flow",
    at_least=0.97,
)
def tcp_all(runs: Table) -> Numbers:
    return ratio(runs, "all", "goodput")


@udp.claim("UDP not starved", "UDP offers half: its throughput over the rate", at_least=0.49)
def udp_half(runs: Table) -> Numbers:
    return runs.where(ack_control="gate", offered="half")["udp"] / RATE


@udp.claim("UDP not starved", "UDP offers all: its throughput over the rate", at_least=0.49)
def udp_all(runs: Table) -> Numbers:
    return runs.where(ack_control="gate", offered="all")["udp"] / RATE


@udp.claim("UDP not starved", "UDP offers all: Jain index of UDP", at_least=0.98)
def udp_jain(runs: Table) -> Numbers:
    return runs.where(ack_control="gate", offered="all")["udp_jain"]


@udp.claim("gate not closed", "UDP offers all: Jain index of TCP", at_least=0.98)
def tcp_jain(runs: Table) -> Numbers:
    return runs.where(ack_control="gate", offered="all")["jain"]


@udp.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels([f"UDP offers {offered} of the rate" for offered in OFFERED])
    for axes, offered in zip(panels, OFFERED, strict=True):
        for column, label in (("goodput", "TCP, goodput"), ("udp", "UDP, throughput")):
            cell = [
                runs.where(offered=offered, ack_control=ack_control)[column]
                for ack_control in SHOWN
            ]
            axes.plot(
                SHOWN, [it.mean() / 1e6 for it in cell], marker="o", linestyle="", label=label
            )
        axes.set_ylabel("Mbit/s")
        axes.set_ylim(bottom=0)
        axes.legend()
    return figure
