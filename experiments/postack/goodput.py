"""Holding ACKs costs no goodput, and shares it as fairly as a queue for each flow.

Source: postack, abstract ("emulates per-flow queuing"), ledger A001-1 and A001-4.
Differs: see `_network.py`. Goodput must be within 1 % of a queue for each flow, which is stricter
than the ledger's 3 %; data goes up, through the queue of the policy, and down, where it has
crossed the bottleneck and passes.
"""

from tidegate import plots
from tidegate.experiment import Experiment

from ._network import RATE, SIGNALS, WINDOWS, bulk, measured, network

goodput = Experiment(__file__)

WAYS = ["up", "down"]


@goodput.run(signal=list(SIGNALS), way=WAYS, window=list(WINDOWS))
def measure(seed, signal, way, window):
    net = network(signal, way=way, window=WINDOWS[window])
    bulk(net, way)
    return measured(net.run(seed), way)


def ratio(runs, way, window, signal="gate"):
    """Goodput with a signal over that of a queue for each flow."""
    cell = runs.where(way=way, window=window)
    return cell.where(signal=signal)["goodput"] / cell.where(signal="none")["goodput"]


@goodput.claim("A001-4", "up, 64 KiB: goodput of a queue for each flow's", paper=1, within=0.01)
def up(runs):
    return ratio(runs, "up", "64 KiB")


@goodput.claim("A001-4", "up, grown windows: goodput", paper=1, within=0.01)
def up_grown(runs):
    return ratio(runs, "up", "grown")


@goodput.claim("A001-4", "down, 64 KiB: goodput", paper=1, within=0.01)
def down(runs):
    return ratio(runs, "down", "64 KiB")


@goodput.claim("A001-4", "down, grown windows: goodput", paper=1, within=0.01)
def down_grown(runs):
    return ratio(runs, "down", "grown")


@goodput.claim("A001-4", "up, 64 KiB, P1: goodput", paper="not said", at_least=0.97)
def up_bucket(runs):
    return ratio(runs, "up", "64 KiB", "bucket")


@goodput.claim("A001-4", "up, 64 KiB, P2: goodput", paper="not said", at_least=0.97)
def up_virtual(runs):
    return ratio(runs, "up", "64 KiB", "virtual-queue")


@goodput.claim("A001-1", "up: throughput over the policy's rate", paper=1, within=0.02)
def rate(runs):
    return runs.where(signal="gate", way="up", window="64 KiB")["rate"] / RATE


@goodput.claim("A001-1", "TCR, up: throughput over the policy's rate", paper=1, within=0.02)
def rate_tcr(runs):
    return runs.where(signal="tcr", way="up", window="64 KiB")["rate"] / RATE


@goodput.claim("A001-1", "up, 64 KiB: Jain index", paper="fair", at_least=0.98)
def jain(runs):
    return runs.where(signal="gate", way="up", window="64 KiB")["jain"]


@goodput.claim("A001-1", "down, grown windows: Jain index", paper="fair", at_least=0.98)
def jain_down(runs):
    return runs.where(signal="gate", way="down", window="grown")["jain"]


@goodput.claim("A001-7", "retransmission timeouts, all runs with the gate", paper=0, at_most=0)
def timeouts(runs):
    return runs.where(signal="gate")["timeouts"]


@goodput.figure
def figure(runs):
    figure, panels = plots.panels([f"{way}, windows of {it}" for way in WAYS for it in WINDOWS])
    cells = [(way, window) for way in WAYS for window in WINDOWS]
    for axes, (way, window) in zip(panels, cells, strict=True):
        for signal in SIGNALS:
            values = runs.where(way=way, window=window, signal=signal)
            axes.plot(
                values["seed"], values["goodput"] / 1e6, marker="o", linestyle="", label=signal
            )
        axes.set_xlabel("seed")
        axes.set_ylabel("goodput, Mbit/s")
        axes.legend()
    return figure
