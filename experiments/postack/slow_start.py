"""With ACKs held, the largest queue of a gateway after slow start is a small fraction as well.

Source: postack, abstract ("a buffer smaller by 96 %"), ledger A001-2: at most a quarter of the peak
in slow start, and 6 % of it afterwards.
Differs: see `_network.py`. A probe of the gateway counts the queued bytes every 10 ms. The peak
over the whole run is exact. Slow start counts as over after 10 s of 40. The peak with held ACKs
adds the greatest number of records in the whole run, slow start included, and a packet of each
flow, so it is too high rather than too low. Reno and CUBIC give the same numbers to every digit,
because the receivers' windows limit both. So the twelve claims are six numbers.
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
    """A column with ACKs held, over the data in a queue for each flow in the same phase."""
    cell = runs.where(window=window, congestion=congestion)
    base = "peak" if column == "peak" else "after"
    return cell.where(ack_control="gate")[column] / cell.where(ack_control="none")[base]


def claim_cell(window: str, congestion: str) -> None:
    """Adds the ledger's bounds for one case: in slow start, afterwards, afterwards with ACKs."""
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
