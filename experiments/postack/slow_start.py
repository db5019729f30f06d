"""With ACKs held, the largest queue of a gateway is a small fraction of that without ACK control.

Source: postack, abstract ("a buffer smaller by 96 %"); docs/ledger.md, A001-2: with ACKs held, the
largest queue is at most 25 % of the largest queue without ACK control. After slow start it is at
most 6 %.
Differs: `_network.py` describes the network. A probe of the gateway counts the queued bytes every
10 ms. The largest queue of the whole run is exact. Slow start counts as over after 10 s of 40. The
claims "queued data and held ACKs" count three things: the queued data after slow start, 20 bytes
for each held ACK, and a kept packet for each flow. They use the largest number of held ACKs of the
whole run, slow start included, so the sum is too large rather than too small.

"Unlimited windows" are receive windows of 4 MiB, the default. No packet is lost. Without ACK
control the receive windows limit the queue, and with ACKs held the gateway does. Neither depends on
the congestion control, so Reno and CUBIC give equal numbers: the twelve claims have six different
numbers.
"""

from typing import Any

import numpy as np

from tidegate import Result, Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import FLOWS, KEPT, RECORD, WINDOWS, bulk, measured, network

slow_start = Experiment(__file__)

CONTROLS = ["reno", "cubic"]
SHOWN = ["none", "gate"]
OVER = 10
"""Time in seconds from which on slow start counts as over."""


def watched(ack_control: str, window: str, congestion: str) -> Scenario:
    """The network of the testbed, with a probe of the gateway."""
    net = network(ack_control, window=WINDOWS[window], tcp={"congestion": congestion})
    net.sample = "10 ms"
    bulk(net)
    net.probe("passage", gateway="gateway", direction="up")
    return net


def waiting(run: Result) -> tuple[np.ndarray, np.ndarray]:
    """Times, and bytes of data queued in the gateway."""
    table = run["passage gateway up"]
    return table["time_seconds"], table["bulk_waiting_bytes"]


@slow_start.run(ack_control=SHOWN, window=list(WINDOWS), congestion=CONTROLS)
def measure(seed: int, ack_control: str, window: str, congestion: str) -> dict[str, float]:
    run = watched(ack_control, window, congestion).run(seed)
    time, data = waiting(run)
    figures = measured(run)
    after = data[time > OVER].max()
    return {
        "peak": figures["peak"],
        "after": after,
        "memory": after + figures["peak_acks"] * RECORD + FLOWS * KEPT,
        "seen": data.max() / figures["peak"],
    }


def of(runs: Table, column: str, window: str, congestion: str) -> np.ndarray:
    """A column with ACKs held, divided by the queued bytes without ACK control in that phase."""
    cell = runs.where(window=window, congestion=congestion)
    base = "peak" if column == "peak" else "after"
    return cell.where(ack_control="gate")[column] / cell.where(ack_control="none")[base]


def claim_cell(window: str, congestion: str) -> None:
    """Adds the three claims of A001-2 for these receive windows and this congestion control."""
    name = f"{congestion}{'_grown' if window == 'grown' else ''}"
    where = f"windows of {window}, {congestion}"
    if window == "grown":
        where = f"unlimited windows, {congestion}"
    for column, what, most in (
        ("peak", "most queued data, slow start included", 0.25),
        ("after", "most queued data after slow start", 0.06),
        ("memory", "most queued data and held ACKs after slow start", 0.06),
    ):

        def ratio(runs: Table, column: str = column) -> Numbers:
            return of(runs, column, window, congestion)

        ratio.__name__ = f"{column}_{name}"
        slow_start.claim("A001-2", f"{where}: {what}", paper=0.04, at_most=most)(ratio)


for window in WINDOWS:
    for congestion in CONTROLS:
        claim_cell(window, congestion)


@slow_start.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels([f"CUBIC, windows: {window}" for window in WINDOWS])
    for axes, window in zip(panels, WINDOWS, strict=True):
        for ack_control in SHOWN:
            time, data = waiting(watched(ack_control, window, "cubic").run(1))
            shown = time <= 2 * OVER
            axes.plot(time[shown][::5], data[shown][::5] / 1e3, label=ack_control)
        axes.set_yscale("symlog")
        axes.set_xlabel("s")
        axes.set_ylabel("kB of data in the gateway")
        axes.legend()
    return figure
