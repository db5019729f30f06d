"""With ACKs held in place of data, the gateway holds a fraction of what a queue for each flow does.

Source: postack, abstract ("a buffer smaller by 96 %"), ledger A001-2 and section 9.
Differs: see `_network.py`. Held ACKs count as the records they are kept as, and a packet of each
flow. The mean is over 30 s after slow start; the peak is that of the whole run, slow start
included.
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
    """A column with ACK control, divided by the data in a queue for each flow."""
    cell = runs.where(window=window, congestion=congestion)
    return cell.where(ack_control=ack_control)[column] / cell.where(ack_control="none")["data"]


def peak(runs: Table, window: str, congestion: str) -> np.ndarray:
    cell = runs.where(window=window, congestion=congestion)
    return cell.where(ack_control="gate")["peak"] / cell.where(ack_control="none")["peak"]


@buffer.claim("A001-2", "64 KiB, CUBIC: data that waits, of a queue for each flow's", paper=0.04,
              at_most=0.03)  # fmt: skip
def data(runs: Table) -> Numbers:
    return ratio(runs, "data", "64 KiB")


@buffer.claim("A001-2", "64 KiB, Reno: data that waits", paper=0.04, at_most=0.03)
def data_reno(runs: Table) -> Numbers:
    return ratio(runs, "data", "64 KiB", congestion="reno")


@buffer.claim("A001-2", "64 KiB, CUBIC: data and held ACKs", paper=0.04, at_most=0.04)
def memory(runs: Table) -> Numbers:
    return ratio(runs, "memory", "64 KiB")


@buffer.claim("A001-2", "64 KiB, Reno: data and held ACKs", paper=0.04, at_most=0.04)
def memory_reno(runs: Table) -> Numbers:
    return ratio(runs, "memory", "64 KiB", congestion="reno")


@buffer.claim("A001-2", "grown windows, CUBIC: data that waits", paper=0.04, at_most=0.03)
def data_grown(runs: Table) -> Numbers:
    return ratio(runs, "data", "grown")


@buffer.claim("A001-2", "grown windows, Reno: data that waits", paper=0.04, at_most=0.03)
def data_grown_reno(runs: Table) -> Numbers:
    return ratio(runs, "data", "grown", congestion="reno")


@buffer.claim("A001-2", "grown windows, CUBIC: data and held ACKs", paper=0.04, at_most=0.04)
def memory_grown(runs: Table) -> Numbers:
    return ratio(runs, "memory", "grown")


@buffer.claim("A001-2", "grown windows, Reno: data and held ACKs", paper=0.04, at_most=0.04)
def memory_grown_reno(runs: Table) -> Numbers:
    return ratio(runs, "memory", "grown", congestion="reno")


@buffer.claim("A001-2", "64 KiB, CUBIC: most data that waits, slow start included", paper=0.04,
              at_most=0.25)  # fmt: skip
def peak_data(runs: Table) -> Numbers:
    return peak(runs, "64 KiB", "cubic")


@buffer.claim("A001-2", "grown windows, CUBIC: most data that waits", paper=0.04, at_most=0.25)
def peak_data_grown(runs: Table) -> Numbers:
    return peak(runs, "grown", "cubic")


@buffer.claim("A001-2", "64 KiB, CUBIC, P1: data that waits", at_most=0.06)
def data_bucket(runs: Table) -> Numbers:
    return ratio(runs, "data", "64 KiB", "bucket")


@buffer.claim("A001-2", "64 KiB, CUBIC, P2: data that waits", at_most=0.06)
def data_virtual(runs: Table) -> Numbers:
    return ratio(runs, "data", "64 KiB", "virtual-queue")


@buffer.claim("A001-2", "the baseline loses nothing, nor does the gate: packets dropped", at_most=0)
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
        for column, label in (("data", "data that waits"), ("memory", "with held ACKs")):
            means = [cell.where(ack_control=name)[column].mean() / 1e3 for name in names]
            axes.plot(names, means, marker="o", linestyle="", label=label)
        axes.set_yscale("log")
        axes.set_ylabel("kB, mean")
        axes.legend()
    return figure
