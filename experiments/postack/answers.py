"""Short answers beside long transfers: with ACKs held, no throughput is lost.

Source: postack; docs/ledger.md, A001-4 (no throughput is lost), for traffic that comes and goes.
Differs: `_network.py` describes the network. docs/ledger.md has endless transfers only. Here fifty
senders answer requests beside four endless transfers. An answer has 10 kB on average, and the next
request follows 0.8 s after the answer. Answers use about half of the rate, or more if they take
less time. Connections are ``kept``, or ``ended`` after each answer. Windows have no limit.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import FLOWS, bulk, measured, network

answers = Experiment(__file__)

ASKED = 50
SIZE, PAUSE = {"exponential": "10 kB"}, {"exponential": "800 ms"}
CELLS = {
    f"{name}, {way}": (way, name == "ended") for name in ("kept", "ended") for way in ("up", "down")
}
SHOWN = ["none", "gate"]


@answers.run(ack_control=SHOWN, cell=list(CELLS))
def measure(seed: int, ack_control: str, cell: str) -> dict[str, float]:
    way, ended = CELLS[cell]
    net = network(ack_control, way=way, window=None, flows=FLOWS + ASKED)
    bulk(net, way)
    ends = [[f"{side}{n}" for n in range(FLOWS, FLOWS + ASKED)] for side in "lw"]
    sends = ends if way == "up" else ends[::-1]
    net.traffic("answers", "on-off", *sends, size=SIZE, off=PAUSE, reconnect=ended)
    run = net.run(seed)
    done = run["transfers"]["took_seconds"]
    timeouts = run.flows["timeouts"].sum() + run.flows["retransmitted_segments"].sum()
    row = {"took": np.mean(done), "took_p99": np.percentile(done, 99), "again": float(timeouts)}
    return measured(run, way) | row


def over_queue(runs: Table, column: str) -> np.ndarray:
    """A column with ACKs held over the same with a queue for each flow; one row per case."""
    cells = [runs.where(cell=cell) for cell in CELLS]
    ratios = [
        it.where(ack_control="gate")[column] / it.where(ack_control="none")[column] for it in cells
    ]
    return np.array(ratios)


@answers.claim(
    "A001-4", "worst case: rate of all, over that of a queue for each flow", at_least=0.99
)
def rate(runs: Table) -> Numbers:
    return over_queue(runs, "rate").min(axis=0)


@answers.claim("A001-1", "worst case: Jain index of the long transfers", at_least=0.98)
def jain(runs: Table) -> Numbers:
    return np.min([runs.where(ack_control="gate", cell=cell)["jain"] for cell in CELLS], axis=0)


@answers.claim("A001-2", "worst case: queued data, over that of a queue for each flow", paper=0.04,
               at_most=0.03)  # fmt: skip
def data(runs: Table) -> Numbers:
    return over_queue(runs, "data").max(axis=0)


@answers.claim("R001-9", "worst case: mean time of an answer, over that of a queue for each flow",
               at_most=1.1)  # fmt: skip
def took(runs: Table) -> Numbers:
    return over_queue(runs, "took").max(axis=0)


@answers.claim("R001-9", "worst case: 99th percentile of that time, over the same", at_most=1.1)
def took_p99(runs: Table) -> Numbers:
    return over_queue(runs, "took_p99").max(axis=0)


@answers.claim("A001-7", "all cases: timeouts and retransmitted segments", at_most=0)
def again(runs: Table) -> Numbers:
    return np.sum([runs.where(ack_control="gate", cell=cell)["again"] for cell in CELLS], axis=0)


@answers.figure
def figure(runs: Table) -> Any:
    titles = ["rate of all, Mbit/s", "goodput of long transfers, Mbit/s", "time of an answer, ms"]
    figure, panels = plots.panels(titles, columns=3)
    columns = {"rate": 1e-6, "goodput": 1e-6, "took": 1e3}
    for axes, (column, scale) in zip(panels, columns.items(), strict=True):
        for ack_control in SHOWN:
            chosen = [runs.where(ack_control=ack_control, cell=cell) for cell in CELLS]
            means = [it[column].mean() * scale for it in chosen]
            axes.plot(list(CELLS), means, marker="o", linestyle="", label=ack_control)
        axes.tick_params(axis="x", rotation=90)
        axes.legend()
    return figure
