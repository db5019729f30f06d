"""When BBR measures the path (ProbeRTT), held ACKs do not leave the line idle for longer.

Source: BBR (draft-ietf-ccwg-bbr), section 5.3.4.3 (ProbeRTT): every 10 s a sender reduces its data
in flight for 200 ms to measure the path; the time for which ACKs are held is part of the path.
Differs: `_line.py` describes the access line. One BBR download is alone, or runs beside one CUBIC
download. Time from 10 s to 60 s is divided into steps of 20 ms. A step is idle if the client gets
less than a tenth of the policy's rate, and slow if it gets less than nine tenths. The bounds are
goals, set before the code was changed to reach them.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._line import LINE, PART, line

probe_rtt = Experiment(__file__)

ROUND_TRIPS = [10, 40, 100]
"""Round-trip times, milliseconds."""

SHOWN = ["none", "gate"]
BESIDE = ["alone", "beside one with CUBIC"]
STEP = 0.02
BEGINS: dict[str, Any] = {"start": {"uniform": ["0 s", "500 ms"]}}

WHY = (
    "a sender in ProbeRTT sends nothing until all but four segments are acknowledged, and held "
    "ACKs delay this by their hold. Without ACK control, queued data fills the line meanwhile, "
    "also while the sender drains its queue between two such phases"
)


@probe_rtt.run(ack_control=SHOWN, round_trip=ROUND_TRIPS, beside=BESIDE)
def measure(seed: int, ack_control: str, round_trip: int, beside: str) -> dict[str, float]:
    net = line(ack_control, {"server": round_trip / 1e3}, seconds=60)
    net.sample = f"{round(STEP * 1000)} ms"
    net.traffic("bbr", "greedy", "server", "client", tcp={"congestion": "bbr"}, **BEGINS)
    if beside != BESIDE[0]:
        net.traffic("cubic", "greedy", "server", "client", port=5002, **BEGINS)
    rates = net.run(seed).windowed()
    part = rates["total_bps"][rates["time_seconds"] > 10] / (LINE * PART)
    return {
        "rate": part.mean(),
        "idle": (part < 0.1).sum() * STEP,
        "slow": (part < 0.9).sum() * STEP,
    }


def compared(runs: Table, column: str, beside: str) -> np.ndarray:
    """With ACKs held minus without: a row for each round trip, a column for each seed."""
    cells = [runs.where(round_trip=it, beside=beside) for it in ROUND_TRIPS]
    gate, none = ([cell.where(ack_control=it)[column] for cell in cells] for it in ("gate", "none"))
    return np.array(gate) - np.array(none)


@probe_rtt.claim("BBR", "alone: idle seconds of 50, with ACKs held minus without",
                 at_most=0.1, why=WHY)  # fmt: skip
def idle(runs: Table) -> Numbers:
    return compared(runs, "idle", BESIDE[0]).max(axis=0)


@probe_rtt.claim("BBR", "alone: slow seconds of 50, with ACKs held minus without",
                 at_most=0.5)  # fmt: skip
def slow(runs: Table) -> Numbers:
    return compared(runs, "slow", BESIDE[0]).max(axis=0)


@probe_rtt.claim("BBR", "alone: use of the rate, with ACKs held minus without", at_least=-0.01)
def rate(runs: Table) -> Numbers:
    return compared(runs, "rate", BESIDE[0]).min(axis=0)


@probe_rtt.claim("BBR", "beside CUBIC: use of the rate with ACKs held", at_least=0.99)
def full(runs: Table) -> Numbers:
    cell = runs.where(beside=BESIDE[1], ack_control="gate")
    return np.min([cell.where(round_trip=it)["rate"] for it in ROUND_TRIPS], axis=0)


@probe_rtt.claim("BBR", "beside CUBIC: use of the rate without ACKs held", kind="context")
def full_without(runs: Table) -> Numbers:
    cell = runs.where(beside=BESIDE[1], ack_control="none")
    return np.min([cell.where(round_trip=it)["rate"] for it in ROUND_TRIPS], axis=0)


@probe_rtt.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(BESIDE)
    for axes, beside in zip(panels, BESIDE, strict=True):
        for ack_control in SHOWN:
            cell = runs.where(ack_control=ack_control, beside=beside)
            means = [cell.where(round_trip=it)["slow"].mean() for it in ROUND_TRIPS]
            axes.plot(ROUND_TRIPS, means, marker="o", label=ack_control)
        axes.set_xlabel("round trip, ms")
        axes.set_ylabel("seconds below nine tenths of the rate")
        axes.legend()
    return figure
