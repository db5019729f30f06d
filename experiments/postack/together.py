"""When up to 100 downloads begin together, none times out, although their first windows wait.

Source: postack; docs/ledger.md, A001-7 (no timeouts) and R001-11 (b) (the hold is limited).
Differs: `_network.py` describes the network. CUBIC downloads with unlimited windows begin within a
tenth of a second. The first windows of a hundred senders take 1.2 s at 10 Mbit/s. All of 10 s
count, the start included. `live_crowd` runs such downloads between real hosts.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import bulk, measured, network

together = Experiment(__file__, seeds=20)

FLOWS = [10, 50, 100, 200]
SHOWN = ["none", "gate"]


@together.run(ack_control=SHOWN, flows=FLOWS)
def measure(seed: int, ack_control: str, flows: int) -> dict[str, float]:
    net = network(
        ack_control, way="down", window=None, flows=flows, duration="10 s", warmup="0 s",
    )  # fmt: skip
    bulk(net, way="down", flows=flows, start={"uniform": ["0 s", "100 ms"]})
    return measured(net.run(seed), "down")


def over_queue(runs: Table, flows: int) -> np.ndarray:
    """Goodput with ACKs held over that with a queue for each flow."""
    chosen = runs.where(flows=flows)
    return chosen.where(ack_control="gate")["goodput"] / chosen.where(ack_control="none")["goodput"]


def more(runs: Table, flows: int) -> np.ndarray:
    """Timeouts with ACKs held minus those of a queue for each flow."""
    chosen = runs.where(flows=flows)
    return (
        chosen.where(ack_control="gate")["timeouts"] - chosen.where(ack_control="none")["timeouts"]
    )


@together.claim("A001-7", "10 to 100 downloads, all together: timeouts", at_most=0)
def timeouts(runs: Table) -> Numbers:
    chosen = (runs.where(ack_control="gate", flows=flows) for flows in FLOWS if flows <= 100)
    return np.sum([each["timeouts"] for each in chosen], axis=0)


@together.claim("A001-7", "200 downloads: timeouts, gate minus a queue for each flow", at_most=0)
def timeouts_most(runs: Table) -> Numbers:
    return more(runs, 200)


@together.claim("A001-7", "200 downloads: timeouts in a run", kind="context")
def left(runs: Table) -> Numbers:
    return runs.where(ack_control="gate", flows=200)["timeouts"]


@together.claim("A001-4", "worst case: goodput over that of a queue for each flow", at_least=0.97)
def goodput(runs: Table) -> Numbers:
    return np.min([over_queue(runs, flows) for flows in FLOWS], axis=0)


@together.figure
def figure(runs: Table) -> Any:
    figure, (expired, waits) = plots.panels(["timeouts in a run", "queued data, kB, mean"])
    for ack_control in SHOWN:
        for axes, column, unit in ((expired, "timeouts", 1), (waits, "data", 1e3)):
            means = [
                runs.where(ack_control=ack_control, flows=n)[column].mean() / unit for n in FLOWS
            ]
            axes.plot(FLOWS, means, marker="o", label=ack_control)
    for axes in (expired, waits):
        axes.set_xlabel("downloads")
        axes.legend()
    return figure
