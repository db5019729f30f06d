"""Holding ACKs costs no goodput, and shares it as fairly as a queue for each flow.

Source: postack, abstract ("emulates per-flow queuing"); docs/ledger.md, A001-1 (rate) and A001-4
(goodput).
Differs: `_network.py` describes the network. Goodput must be within 1 % of that of a queue for each
flow, which is stricter than the 3 % of A001-4. Data goes up, through the queue of the policy, or
down. Downward data has already crossed the path when it reaches the gateway, and its ACKs go up.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import ACK_CONTROLS, RATE, WINDOWS, bulk, measured, network

goodput = Experiment(__file__)

WAYS = ["up", "down"]


@goodput.run(ack_control=list(ACK_CONTROLS), way=WAYS, window=list(WINDOWS))
def measure(seed: int, ack_control: str, way: str, window: str) -> dict[str, float]:
    net = network(ack_control, way=way, window=WINDOWS[window])
    bulk(net, way)
    return measured(net.run(seed), way)


def ratio(runs: Table, way: str, window: str, ack_control: str = "gate") -> np.ndarray:
    """Goodput with ACK control over goodput with a queue for each flow."""
    cell = runs.where(way=way, window=window)
    return (
        cell.where(ack_control=ack_control)["goodput"] / cell.where(ack_control="none")["goodput"]
    )


@goodput.claim(
    "A001-4", "up, 64 KiB: goodput over that of a queue for each flow", at_least=0.99, at_most=1.01
)
def up(runs: Table) -> Numbers:
    return ratio(runs, "up", "64 KiB")


@goodput.claim("A001-4", "up, unlimited windows: goodput", at_least=0.99, at_most=1.01)
def up_grown(runs: Table) -> Numbers:
    return ratio(runs, "up", "grown")


@goodput.claim("A001-4", "down, 64 KiB: goodput", at_least=0.99, at_most=1.01)
def down(runs: Table) -> Numbers:
    return ratio(runs, "down", "64 KiB")


@goodput.claim("A001-4", "down, unlimited windows: goodput", at_least=0.99, at_most=1.01)
def down_grown(runs: Table) -> Numbers:
    return ratio(runs, "down", "grown")


@goodput.claim("A001-4", "up, 64 KiB, bucket (P1): goodput", at_least=0.97)
def up_bucket(runs: Table) -> Numbers:
    return ratio(runs, "up", "64 KiB", "bucket")


@goodput.claim("A001-4", "up, 64 KiB, virtual queue (P2): goodput", at_least=0.97)
def up_virtual(runs: Table) -> Numbers:
    return ratio(runs, "up", "64 KiB", "virtual-queue")


CONTROLS = ["none", "gate", "tcr"]
"""ACK controls of A001-1: none with a queue for each flow, ACKs held, and TCR."""


def every(runs: Table, column: str, ack_control: str) -> list[np.ndarray]:
    """A column for each direction and window, with one number per seed."""
    return [
        runs.where(ack_control=ack_control, way=way, window=it)[column]
        for way in WAYS
        for it in WINDOWS
    ]


def claim_share(ack_control: str, name: str) -> None:
    """Adds claims that flows use the policy's rate and share it evenly in all cases."""

    def rate(runs: Table) -> Numbers:
        rates = np.array(every(runs, "rate", ack_control)) / RATE
        return rates[np.abs(rates - 1).argmax(axis=0), np.arange(rates.shape[1])]

    def jain(runs: Table) -> Numbers:
        return np.min(every(runs, "jain", ack_control), axis=0)

    rate.__name__, jain.__name__ = f"rate_{ack_control}", f"jain_{ack_control}"
    where = f"{name}, both directions and windows"
    text = f"{where}: throughput over the policy's rate, farthest from 1"
    goodput.claim("A001-1", text, at_least=0.98, at_most=1.02)(rate)
    goodput.claim("A001-1", f"{where}: Jain index, worst case", at_least=0.98)(jain)


for ack_control, name in zip(CONTROLS, ("a queue for each flow", "gate", "TCR"), strict=True):
    claim_share(ack_control, name)


@goodput.claim("A001-7", "retransmission timeouts, all runs with the gate", at_most=0)
def timeouts(runs: Table) -> Numbers:
    return runs.where(ack_control="gate")["timeouts"]


@goodput.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels([f"{way}, windows of {it}" for way in WAYS for it in WINDOWS])
    cells = [(way, window) for way in WAYS for window in WINDOWS]
    for axes, (way, window) in zip(panels, cells, strict=True):
        for ack_control in ACK_CONTROLS:
            values = runs.where(way=way, window=window, ack_control=ack_control)
            axes.plot(
                values["seed"], values["goodput"] / 1e6, marker="o", linestyle="", label=ack_control
            )
        axes.set_xlabel("seed")
        axes.set_ylabel("goodput, Mbit/s")
        axes.legend()
    return figure
