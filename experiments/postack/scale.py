"""The cost of a segment and its ACK does not grow with the number of flows whose ACKs are held.

Source: postack; docs/ledger.md, A001-9 (processor time per packet within 30 % from few flows to
10,000).
Differs: callgrind counts instructions of the gateway without its ports, which are the same on a
busy machine. Another benchmark measures on live ports whether one core forwards 750 Mbit/s. Two
segments of each flow are in flight at 2 Gbit/s, or the gate holds their ACKs. The number of
instructions is the same with every seed, so one seed is run.
"""

from typing import Any

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ..aggregates._cost import instructions

scale = Experiment(__file__, seeds=1)

FLOWS = [10, 100, 1_000, 10_000]


@scale.run(flows=FLOWS)
def measure(seed: int, flows: int) -> dict[str, float]:
    return {"instructions": instructions("gateway/postack", 20_000, flows)}


@scale.claim("A001-9", "a segment and its ACK: 10,000 flows over 10", at_most=1.3)
def growth(runs: Table) -> Numbers:
    of = [runs.where(flows=flows)["instructions"] for flows in (FLOWS[-1], FLOWS[0])]
    return of[0] / of[1]


@scale.figure
def figure(runs: Table) -> Any:
    figure, (axes,) = plots.panels(["a segment and its ACK"])
    axes.semilogx(runs["flows"], runs["instructions"], marker="o")
    axes.set_xlabel("flows")
    axes.set_ylabel("instructions")
    axes.set_ylim(bottom=0)
    return figure
