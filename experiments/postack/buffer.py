"""With ACKs held instead of data, the gateway needs a fraction of a per-flow queue's memory.

Source: postack, abstract ("a buffer smaller by 96 %"); docs/ledger.md, A001-2 (the buffer).
Differs: `_network.py` describes the network. A held ACK counts with the bytes of its record, and
each flow with the bytes of one kept packet. The mean is over 30 s after slow start. The peak is
over the whole run, slow start included. All claims divide by the data in a queue for each flow.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import ACK_CONTROLS, WINDOWS, bulk, measured, network

buffer = Experiment(__file__)

CONTROLS = ["reno", "cubic"]


@buffer.run(ack_control=list(ACK_CONTROLS), window=list(WINDOWS), congestion=CONTROLS)
def measure(seed: int, ack_control: str, window: str, congestion: str) -> dict[str, float]:
    net = network(ack_control, window=WINDOWS[window], tcp={"congestion": congestion})
    bulk(net)
    return measured(net.run(seed))


def ratio(
    runs: Table, column: str, window: str, ack_control: str = "gate", congestion: str = "cubic"
) -> np.ndarray:
    """A column with ACK control, over the data in a queue for each flow."""
    cell = runs.where(window=window, congestion=congestion)
    return cell.where(ack_control=ack_control)[column] / cell.where(ack_control="none")["data"]


def peak(runs: Table, window: str, congestion: str) -> np.ndarray:
    cell = runs.where(window=window, congestion=congestion)
    return cell.where(ack_control="gate")["peak"] / cell.where(ack_control="none")["peak"]


@buffer.claim("A001-2", "64 KiB, CUBIC: queued data over that of a queue for each flow", paper=0.04,
              at_most=0.03)  # fmt: skip
def data(runs: Table) -> Numbers:
    return ratio(runs, "data", "64 KiB")


@buffer.claim("A001-2", "64 KiB, Reno: queued data", paper=0.04, at_most=0.03)
def data_reno(runs: Table) -> Numbers:
    return ratio(runs, "data", "64 KiB", congestion="reno")


@buffer.claim("A001-2", "64 KiB, CUBIC: queued data and held ACKs", paper=0.04, at_most=0.04)
def memory(runs: Table) -> Numbers:
    return ratio(runs, "memory", "64 KiB")


@buffer.claim("A001-2", "64 KiB, Reno: queued data and held ACKs", paper=0.04, at_most=0.04)
def memory_reno(runs: Table) -> Numbers:
    return ratio(runs, "memory", "64 KiB", congestion="reno")


@buffer.claim("A001-2", "unlimited windows, CUBIC: queued data", paper=0.04, at_most=0.03)
def data_grown(runs: Table) -> Numbers:
    return ratio(runs, "data", "grown")


@buffer.claim("A001-2", "unlimited windows, Reno: queued data", paper=0.04, at_most=0.03)
def data_grown_reno(runs: Table) -> Numbers:
    return ratio(runs, "data", "grown", congestion="reno")


@buffer.claim("A001-2", "unlimited windows, CUBIC: queued data and held ACKs", paper=0.04,
              at_most=0.04)  # fmt: skip
def memory_grown(runs: Table) -> Numbers:
    return ratio(runs, "memory", "grown")


@buffer.claim("A001-2", "unlimited windows, Reno: queued data and held ACKs", paper=0.04,
              at_most=0.04)  # fmt: skip
def memory_grown_reno(runs: Table) -> Numbers:
    return ratio(runs, "memory", "grown", congestion="reno")


@buffer.claim("A001-2", "64 KiB, CUBIC: most queued data, slow start included", paper=0.04,
              at_most=0.25)  # fmt: skip
def peak_data(runs: Table) -> Numbers:
    return peak(runs, "64 KiB", "cubic")


@buffer.claim("A001-2", "unlimited windows, CUBIC: most queued data", paper=0.04, at_most=0.25)
def peak_data_grown(runs: Table) -> Numbers:
    return peak(runs, "grown", "cubic")


@buffer.claim("A001-2", "64 KiB, CUBIC, bucket (P1): queued data", at_most=0.06)
def data_bucket(runs: Table) -> Numbers:
    return ratio(runs, "data", "64 KiB", "bucket")


@buffer.claim("A001-2", "64 KiB, CUBIC, virtual queue (P2): queued data", at_most=0.06)
def data_virtual(runs: Table) -> Numbers:
    return ratio(runs, "data", "64 KiB", "virtual-queue")


@buffer.claim("A001-2", "packets dropped by the baseline and by the gate", at_most=0)
def dropped(runs: Table) -> Numbers:
    ack_controls = [
        runs.where(ack_control=ack_control)["dropped"] for ack_control in ("none", "gate")
    ]
    return ack_controls[0] + ack_controls[1]


@buffer.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels([f"CUBIC, windows of {window}" for window in WINDOWS])
    for axes, window in zip(panels, WINDOWS, strict=True):
        cell = runs.where(window=window, congestion="cubic")
        names = list(ACK_CONTROLS)
        for column, label in (("data", "queued data"), ("memory", "with held ACKs")):
            means = [cell.where(ack_control=name)[column].mean() / 1e3 for name in names]
            axes.plot(names, means, marker="o", linestyle="", label=label)
        axes.set_yscale("log")
        axes.set_ylabel("kB, mean")
        axes.legend()
    return figure
