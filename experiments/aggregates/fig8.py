"""Policed together, connections send more, in profile and in all, than policed one by one.

Source: aggregates, section 4.2.2, figure 8, against figure 6.
Differs: see `_server.py` and figure 6.
"""

from tidegate.experiment import Experiment

from ._server import draw, measured, server

fig8 = Experiment(__file__)

ALLOCATIONS = {"one by one": {"kind": "partitioned", "depth": "rtt"}, "together": "fcfs"}


@fig8.run(policed=list(ALLOCATIONS))
def measure(seed, policed):
    return measured(server(ALLOCATIONS[policed], action="police-mark").run(seed))


def gain(runs, column):
    return runs.where(policed="together")[column] / runs.where(policed="one by one")[column]


@fig8.claim(
    "A000-10",
    "total throughput, together over one by one",
    paper="> 1",
    at_least=1,
    why="the access link is as good as full either way: what is lost there decides the total, and "
    "with 1.5 Mbit/s for 0.8 Mbit/s of profile nearly half of it is out of profile",
)
def total(runs):
    return gain(runs, "total_bps")


@fig8.claim("A000-10", "compliant throughput, together over one by one", paper="> 1", at_least=1)
def compliant(runs):
    return gain(runs, "compliant_bps")


@fig8.figure
def figure(runs):
    kinds = ALLOCATIONS.values()
    return draw(list(ALLOCATIONS), [server(kind, action="police-mark").run(1) for kind in kinds])
