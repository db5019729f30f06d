"""With ACKs held, senders get the same rates as with per-flow queues, for any load and path.

Source: postack; docs/ledger.md, A001-1 (rate), A001-2 (buffer) and A001-4 (goodput).
Differs: `_network.py` describes the network and its differences from the paper. The cases have 2
and 10 Mbit/s, round-trip times of 10 to 300 ms, 1 to 100 flows, and jitter of up to 10 ms. Losses
and jitter are on the WAN side of the gateway. Windows are 64 KiB. Without ACK control, 100 such
windows make the per-flow queues long. One flow with a round-trip time of 52 ms makes hardly any
queue: its window carries about 10 Mbit/s, the rate of the policy. The cases `few` have two greedy
flows with unlimited windows, beside fifty flows that send 500 bytes five times a second.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import FLOWS, bulk, measured, network

crowd = Experiment(__file__)

CELLS: dict[str, dict[str, Any]] = {
    "one": {"flows": 1},
    "near": {"far": "5 ms"},
    "far": {"far": "150 ms"},
    "slow": {"mbps": 2},
    "jitter": {"varies": "10 ms"},
    "20": {"flows": 20},
    "20, slow": {"flows": 20, "mbps": 2},
    "100": {"flows": 100},
    "100, slow": {"flows": 100, "mbps": 2},
    "100, near": {"flows": 100, "far": "5 ms"},
    "100, far": {"flows": 100, "far": "150 ms"},
    "100, 1 %": {"flows": 100, "loss": "1 %"},
}
"""Differences of each case from four flows at 10 Mbit/s and 52 ms without loss."""

LOSSLESS = [cell for cell, fields in CELLS.items() if "loss" not in fields]
SLOWEST = "100, slow"
CROWDS = [cell for cell in CELLS if CELLS[cell].get("flows", 1) > FLOWS and cell != SLOWEST]
FEW, CHATTER = 2, 50
FEW_CELLS = {"few": "26 ms", "few, far": "100 ms"}
SHOWN = ["none", "gate", "tcr"]


def crowded(ack_control: str, mbps: int = 10, flows: int = FLOWS, **fields: Any) -> Scenario:
    policy = {"profile": {"mean": f"{mbps} Mbit/s", "burst": "15140 B"}}
    net = network(
        ack_control, policy=policy, flows=flows, duration="60 s", warmup="20 s", **fields,
    )  # fmt: skip
    bulk(net, flows=flows)
    return net


def few(ack_control: str, far: str) -> Scenario:
    net = network(ack_control, window=None, flows=FEW + CHATTER, far=far, warmup="20 s")
    bulk(net, flows=FEW)
    ends = ([f"{side}{n}" for n in range(FEW, FEW + CHATTER)] for side in "lw")
    net.traffic("chatter", "on-off", *ends, size="500 B", off={"uniform": ["100 ms", "300 ms"]})
    return net


@crowd.run(ack_control=SHOWN, cell=[*CELLS, *FEW_CELLS])
def measure(seed: int, ack_control: str, cell: str) -> dict[str, float]:
    net = (
        few(ack_control, FEW_CELLS[cell])
        if cell in FEW_CELLS
        else crowded(ack_control, **CELLS[cell])
    )
    return measured(net.run(seed))


def over_queue(runs: Table, column: str, cell: str, base: str = "goodput") -> np.ndarray:
    """``column`` of runs with ACKs held, divided by ``base`` of runs without ACK control."""
    chosen = runs.where(cell=cell)
    return chosen.where(ack_control="gate")[column] / chosen.where(ack_control="none")[base]


def worst(columns: Iterable[np.ndarray], choose: Callable[..., np.ndarray]) -> np.ndarray:
    return choose(np.array([np.asarray(column) for column in columns]), axis=0)


def gate(runs: Table, column: str, cells: Iterable[str]) -> list[np.ndarray]:
    return [runs.where(ack_control="gate", cell=cell)[column] for cell in cells]


@crowd.claim("A001-4", "no loss, worst case: goodput over that of a queue for each flow",
             at_least=0.97)  # fmt: skip
def goodput(runs: Table) -> Numbers:
    return worst([over_queue(runs, "goodput", cell) for cell in LOSSLESS], np.min)


@crowd.claim("A001-4", "100 flows, 1 % loss: goodput over that of a queue for each flow",
             at_least=0.97)  # fmt: skip
def goodput_lossy(runs: Table) -> Numbers:
    return over_queue(runs, "goodput", "100, 1 %")


@crowd.claim("A001-1", "no loss, worst case: Jain index", at_least=0.98)
def jain(runs: Table) -> Numbers:
    return worst(gate(runs, "jain", LOSSLESS), np.min)


@crowd.claim("A001-1", "100 flows, 1 % loss: Jain index", at_least=0.97)
def jain_lossy(runs: Table) -> Numbers:
    return runs.where(ack_control="gate", cell="100, 1 %")["jain"]


@crowd.claim("A001-2", "20 or 100 flows, worst case but one: queued data over that of a queue",
             paper=0.04, at_most=0.03)  # fmt: skip
def data(runs: Table) -> Numbers:
    return worst([over_queue(runs, "data", cell, "data") for cell in CROWDS], np.max)


@crowd.claim("A001-2", "20 or 100 flows, worst case but one: queued data and held ACKs", paper=0.04,
             at_most=0.04)  # fmt: skip
def memory(runs: Table) -> Numbers:
    return worst([over_queue(runs, "memory", cell, "data") for cell in CROWDS], np.max)


@crowd.claim("A001-2", "100 flows, 2 Mbit/s: queued data over that of a queue", paper=0.04,
             at_most=0.03,
             why="each flow needs four segments in flight, so that a loss causes three duplicate "
             "ACKs. At 2 Mbit/s these segments take 2.4 s, and ACKs are held for one second at "
             "most")  # fmt: skip
def data_slowest(runs: Table) -> Numbers:
    return over_queue(runs, "data", SLOWEST, "data")


@crowd.claim("A001-7", "no loss, all cases: timeouts", at_most=0)
def timeouts(runs: Table) -> Numbers:
    return np.sum(gate(runs, "timeouts", LOSSLESS), axis=0)


@crowd.claim("A001-7", "no loss, all cases: retransmitted segments", at_most=0)
def again(runs: Table) -> Numbers:
    return np.sum(gate(runs, "retransmitted", LOSSLESS), axis=0)


@crowd.claim("A001-4", "two flows beside fifty that send little: goodput over that of a queue",
             at_least=0.97)  # fmt: skip
def among_few(runs: Table) -> Numbers:
    return over_queue(runs, "goodput", "few")


@crowd.claim("A001-4", "two beside fifty, 200 ms: goodput over that of a queue", at_least=0.97)
def among_few_far(runs: Table) -> Numbers:
    return over_queue(runs, "goodput", "few, far")


@crowd.figure
def figure(runs: Table) -> Any:
    cells = [*CELLS, *FEW_CELLS]
    titles = ["goodput over that of a queue for each flow", "queued data, kB, mean"]
    figure, (share, waits) = plots.panels(titles)
    for ack_control in SHOWN:
        chosen = [runs.where(ack_control=ack_control, cell=cell) for cell in cells]
        bases = [runs.where(ack_control="none", cell=cell)["goodput"].mean() for cell in cells]
        parts = [it["goodput"].mean() / base for it, base in zip(chosen, bases, strict=True)]
        share.plot(cells, parts, marker="o", linestyle="", label=ack_control)
        means = [max(it["data"].mean() / 1e3, 0.1) for it in chosen]
        waits.plot(cells, means, marker="o", linestyle="", label=ack_control)
    waits.set_yscale("log")
    for axes in (share, waits):
        axes.tick_params(axis="x", rotation=90)
        axes.legend()
    return figure
