"""Weighted Reno, the paper's "minor adjustment", shares by weight if losses are independent.

Source: integrated TCP, section 3 (first paragraph); MulTCP (doi 10.1145/293927.293930);
docs/ledger.md, A002-10 (shares of weighted Reno).
Differs: the law assumes independent losses. Only the path "independent" has them: 100 Mbit/s, no
queue, and one packet of 200 lost. On the two other paths, greedy connections share a bottleneck of
10 Mbit/s, 42 ms and 100 packets. RED drops at random, and Drop-Tail in bursts. With the weights 1,
2, 5, 10, four packets are in flight for each unit of weight. So a connection of weight 1 has
timeouts.
"""

from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._load import RATE
from ._modes import key
from ._network import TCP
from .beside import QUEUES

reno = Experiment(__file__)

SECONDS, WARMUP = 620, 20

WEIGHTS = {"1:3": (1, 3), "grid": (1, 2, 5, 10)}

PATHS: dict[str, dict[str, Any]] = {
    "independent": {"rate": "100 Mbit/s", "loss": "0.5 %",
                    "queue": {"kind": "drop-tail", "limit": "1 MB"}},
    "RED": {"rate": f"{RATE * 8:.0f} bit/s", "queue": QUEUES["RED"]},
    "Drop-Tail": {"rate": f"{RATE * 8:.0f} bit/s", "queue": QUEUES["small"]},
}  # fmt: skip
"""The link that all connections share."""

CASES = {f"{name}, {path}": (weights, path) for name, weights in WEIGHTS.items() for path in PATHS}


def network(case: str) -> Scenario:
    """Greedy connections of weighted Reno through the bottleneck."""
    weights, path = CASES[case]
    net = Scenario(duration=f"{SECONDS} s", warmup=f"{WARMUP} s", sample="100 ms",
                   link_header="0 B", tcp=TCP)  # fmt: skip
    net.router("r")
    net.host("server")
    net.link("r", "server", delay="10 ms", **PATHS[path],
             back={"loss": "0 %", "queue": {"kind": "drop-tail", "limit": "1 MB"}})  # fmt: skip
    for number, weight in enumerate(weights):
        net.host(f"gw{number}")
        net.link(f"gw{number}", "r", rate="100 Mbit/s", delay="10 ms")
        net.traffic(f"flow{number}", "greedy", f"gw{number}", "server",
                    start={"uniform": ["0 s", "1 s"]},
                    tcp={"recovery": "sack",
                         "congestion": {"kind": "weighted-reno", "theta": weight}})  # fmt: skip
        net.probe("window", traffic=f"flow{number}")
    return net


@reno.run(case=list(CASES))
def measure(seed: int, case: str) -> dict[str, float]:
    weights = np.array(CASES[case][0], dtype=float)
    rates = network(case).run(seed).groups["goodput_bps"].astype(float)
    errors = rates / rates.sum() / (weights / weights.sum()) - 1
    return {"error": float(np.abs(errors).max()), "ratio": float(rates[-1] / rates[0])}


def claim(text: str, case: str, column: str, **bounds: Any) -> None:
    """Adds a claim of A002-10 about one case."""

    def number(runs: Table) -> Numbers:
        values: np.ndarray = runs.where(case=case)[column]
        return values

    number.__name__ = f"{column}_{key(case)}"
    reno.claim("A002-10", f"{case}: {text}", **bounds)(number)


ERROR = "largest relative error of a share"
claim("rate of weight 3 over that of weight 1", "1:3, independent", "ratio", paper=3, within=0.15)
claim(ERROR, "grid, independent", "error", paper="minor adjustments", at_most=0.15)
claim("rate of weight 3 over that of weight 1", "1:3, RED", "ratio", paper=3, within=0.15)
claim(ERROR, "grid, RED", "error", kind="shown otherwise", at_least=0.15)
claim("rate of weight 3 over that of weight 1", "1:3, Drop-Tail", "ratio", kind="shown otherwise",
      at_least=3.45)  # fmt: skip


@reno.figure
def figure(_runs: Table) -> Any:
    figure, panels = plots.panels(list(CASES), columns=3)
    for axes, (case, (weights, _)) in zip(panels, CASES.items(), strict=True):
        run = network(case).run(1)
        for number, weight in enumerate(weights):
            window = run[f"windows of flow{number}"]
            axes.plot(window["time_seconds"][:600], window["flow_0_window_bytes"][:600] / 1_000,
                      linewidth=1, label=f"weight {weight}")  # fmt: skip
        axes.set_xlabel("time (s)")
        axes.set_ylabel("window (packets)")
        axes.legend(fontsize="small")
    return figure
