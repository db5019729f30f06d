"""The predicted packets of a flow's next round, compared with the packets that then arrive.

Source: marking, section 2.1, figure 1, equations (4) to (6) and (9); docs/ledger.md, A004-11 (error
of predicted arrivals).
Differs: `_network.py` describes the network. The paper's figure is a drawing; this one is measured.
The tracker `paper` predicts a round at the end of the previous round. There is one greedy flow of
100 ms, or there are the 60 greedy flows of experiment 1, on the link of experiment 1 with the
marking `reference`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tidegate import Result, Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import PACKET, STEP, WARMUP, flows, scenario, total, uniform
from .exp1 import ALGORITHMS, LONGEST, RATE, SHORTEST

fig1 = Experiment(__file__)

ALONE = 0.1
"""Base round-trip time of the single flow in seconds."""

RTTS = (SHORTEST, LONGEST)

COUNTED = round(WARMUP / STEP)
"""Index of the first sample after the warm-up."""


def network(count: int, seed: int, **times: Any) -> Scenario:
    """A number of greedy flows on the link of experiment 1."""
    gateway = {"rate": {"up": f"{RATE} bit/s"}, **ALGORITHMS["reference"]}
    net = scenario({"gateway": gateway}, rounds=True, **times)
    rtts = [ALONE] if count == 1 else uniform(seed, "greedy", count, *RTTS)
    flows(net, "greedy", "greedy", rtts, start={"uniform": ["0 s", "5 s"]})
    return net


def rounds(run: Result) -> dict[str, np.ndarray]:
    """The rounds after the warm-up: arrived bytes, predicted bytes, and starts in seconds.

    ``late`` is the start minus the predicted start, divided by the time since the previous start.
    """
    table = run["rounds edge up"]
    columns: dict[str, list[np.ndarray]] = {"arrived": [], "projected": [], "late": [], "began": []}
    for flow in np.unique(table["flow"]):
        own = table.where(flow=flow)
        began = own["began_seconds"]
        counted = began[1:] > WARMUP
        took = np.maximum(np.diff(began), 1e-9)
        columns["late"].append(((began - own["projected_seconds"])[1:] / took)[counted])
        columns["arrived"].append(own["arrived_bytes"][1:][counted].astype(float))
        columns["projected"].append(own["projected_bytes"][1:][counted].astype(float))
        columns["began"].append(began[1:][counted])
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def span(run: Result, rtts: list[float]) -> float:
    """Mean time between the rounds of a flow, over its round-trip time including the mean queue."""
    table = run["rounds edge up"]
    queued = float(np.nanmean(run["passage edge up"]["greedy_delay_mean_seconds"][COUNTED:]))
    took = []
    for flow, rtt in zip(np.unique(table["flow"]), rtts, strict=True):
        began = table.where(flow=flow)["began_seconds"]
        began = began[began > WARMUP]
        took.append((began[-1] - began[0]) / (len(began) - 1) / (rtt + queued))
    return float(np.mean(took))


@fig1.run(flows=[1, 60])
def measure(seed: int, flows: int) -> dict[str, float]:
    run = network(flows, seed).run(seed)
    own = rounds(run)
    arrived, projected = own["arrived"], own["projected"]
    return {
        "span": span(run, [ALONE] if flows == 1 else uniform(seed, "greedy", flows, *RTTS)),
        "packets": float(arrived.mean() / PACKET),
        "rounds": float(len(arrived)),
        "bytes": float(projected.sum() / arrived.sum()),
        "error": float(np.abs(projected - arrived).sum() / arrived.sum()),
        "below": float((arrived > projected).mean()),
        "late": float(np.median(np.abs(own["late"]))),
    }


WHY = {
    1: (
        "the packets of a flow that fills the link alone are evenly spaced, so no gap ends a "
        "round. The tracker then mistakes packets beyond the expected ones for new rounds, and "
        "its round-trip time shrinks. `two-way` uses the ACKs and finds the rounds "
        "(docs/understand/marking.md)"
    ),
    60: (
        "a round has two to three packets, so a prediction with one packet too many is wrong by a "
        "third or more. Packets of other flows between those of a round look like gaps, so the "
        "tracker splits some rounds and joins others"
    ),
}


def packets_of(count: int) -> Callable[[Table], Numbers]:
    """A function that computes the mean number of packets in a round."""

    def packets(runs: Table) -> Numbers:
        values: np.ndarray = runs.where(flows=count)["packets"]
        return values

    packets.__name__ = f"packets_{count}"
    return packets


def claim_flows(count: int, name: str) -> None:
    """Adds the claims for one number of flows."""

    def claim(key: str, text: str, column: str, **bounds: Any) -> None:
        def measured(runs: Table) -> Numbers:
            values: np.ndarray = runs.where(flows=count)[column]
            return values

        measured.__name__ = f"{key}_{count}"
        fig1.claim("A004-11", f"{name}: {text}", why=WHY[count], **bounds)(measured)

    claim("bytes", "predicted bytes of all rounds, over the arrived bytes", "bytes",
          at_least=0.75, at_most=1.25)  # fmt: skip
    claim("error", "mean error of a round's bytes, over the arrived bytes", "error",
          at_most=0.25)  # fmt: skip
    claim("late", "median error of a round's start, over the round's length", "late", at_most=0.25)
    claim("below", "rounds with more bytes than predicted", "below", at_most=0.05)
    claim("span", "time between rounds, over the true round-trip time", "span",
          at_least=0.75, at_most=1.25)  # fmt: skip
    fig1.claim("A004-11", f"{name}: packets of a round", kind="context")(packets_of(count))


claim_flows(1, "one flow")
claim_flows(60, "60 flows")


SHOWN = (30.0, 31.0)
"""Range of the figure in seconds."""


@fig1.figure
def figure(_runs: Table) -> Any:
    figure, panels = plots.panels(["one flow", "60 flows"])
    for axes, count in zip(panels, (1, 60), strict=True):
        run = network(count, 1, seconds=SHOWN[1] + 1, step=0.002).run(1)
        series = run["passage edge up"]
        time, arrived = series["time_seconds"], total(run, "arrived_bytes")
        shown = (time >= SHOWN[0]) & (time <= SHOWN[1])
        zero = arrived[shown][0]
        axes.plot(time[shown], (arrived[shown] - zero) / 1e3, label="arrived")
        table = run["rounds edge up"]
        starts, sizes = table["projected_seconds"], table["projected_bytes"]
        within = (starts >= SHOWN[0]) & (starts <= SHOWN[1])
        order = np.argsort(starts[within])
        steps = np.cumsum(sizes[within][order]) / 1e3
        axes.step(starts[within][order], steps, where="post", label="predicted rounds")
        axes.set_xlabel("time (s)")
        axes.set_ylabel("kB")
        axes.legend()
    return figure
