"""A packet of a known flow needs one look-up, whatever the number of policies and flows.

Source: aggregates, section 6.1 (the QoS handle).
Differs: as `_cost.py` explains, instructions are counted. The paper tags sockets; a gateway finds
the flow of a packet in its flow table. `crates/gateway/tests/gateway.rs` and, with real TCP,
`tests/tests/swap.rs` test that new policies apply to a live flow from its next packet on. The
number of instructions is the same with every seed, so one seed is run.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._cost import instructions

handle = Experiment(__file__, seeds=1)

MOST = {
    "known-flow/fields": 100_000,
    "gateway/unmanaged": 100_000,
    "gateway/shaped": 100_000,
    "logical-partitions/backlog": 100_000,
}
"""Greatest number of policies or flows for each operation."""


@handle.run(case=list(MOST))
def measure(seed: int, case: str) -> dict[str, float]:
    one, most = (instructions(case, 20_000, size) for size in (1, MOST[case]))
    return {"one": one, "most": most}


def growth(runs: Table, case: str) -> np.ndarray:
    these = runs.where(case=case)
    return these["most"] / these["one"]


@handle.claim(
    "A000-17",
    "a packet of a known flow: 100,000 policies over one",
    paper="one look-up",
    at_most=1.05,
)
def policies(runs: Table) -> Numbers:
    return growth(runs, "known-flow/fields")


@handle.claim(
    "A000-17", "a packet of a known flow: 100,000 flows over one", paper="one look-up", at_most=1.05
)
def flows(runs: Table) -> Numbers:
    return growth(runs, "gateway/unmanaged")


@handle.claim(
    "A000-17",
    "a shaped packet, with its queue and allocation: 100,000 flows over one",
    at_most=1.05,
    why="the paper's claim about classification holds (`#flows`). If ten flows send alternately, "
    "shaping costs no more either. It costs more if a flow was idle before its packet: the flow "
    "then joins its queue and the scheduler's round again (1.23 times among 300 and 1,000 flows). "
    "For a flow that was idle for longer, the allocation also has to bring its saved tokens up to "
    "date (1.41 times among 10,000; the same among 50,000 and 100,000). With backlogged flows the "
    "allocation costs no more: see `#shaped-backlog`",
)
def shaped(runs: Table) -> Numbers:
    return growth(runs, "gateway/shaped")


@handle.claim(
    "A000-17, flows that all wait",
    "the allocation's part of a shaped packet: 100,000 flows over one",
    at_most=1.05,
)
def shaped_backlog(runs: Table) -> Numbers:
    return growth(runs, "logical-partitions/backlog")


@handle.figure
def figure(runs: Table) -> Any:
    figure, (axes,) = plots.panels(["a packet among one, and among many"])
    for case in MOST:
        these = runs.where(case=case)
        axes.semilogx([1, MOST[case]], [these["one"][0], these["most"][0]], marker="o", label=case)
    axes.set_xlabel("policies or flows")
    axes.set_ylabel("instructions")
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure
