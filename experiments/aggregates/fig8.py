"""Policed together, connections send more, in profile and in all, than policed one by one.

Source: aggregates, section 4.2.2, figure 8, against figure 6.
Differs: see `_server.py` and figure 6. The paper's network has a source of background traffic, of
which it says nothing: without any, and with four endless downloads of others on the access link.
"""

from tidegate.experiment import Experiment

from ._server import draw, measured, server

fig8 = Experiment(__file__, seeds=20)

ALLOCATIONS = {"one by one": {"kind": "partitioned", "depth": "rtt"}, "together": "fcfs"}


@fig8.run(policed=list(ALLOCATIONS), cross=[0, 4])
def measure(seed, policed, cross):
    return measured(server(ALLOCATIONS[policed], action="police-mark", cross=cross).run(seed))


def gain(runs, column, cross=0):
    runs = runs.where(cross=cross)
    return runs.where(policed="together")[column] / runs.where(policed="one by one")[column]


@fig8.claim(
    "A000-10",
    "total throughput, together over one by one",
    paper="> 1",
    at_least=1,
    why="alone, the four fill the access link either way (93 % of it), and there is nothing to "
    "gain: over 60 seeds 1.001, from 0.998 to 1.003. Where others compete for the link, more "
    "packets in profile do gain: see `#total-cross`",
)
def total(runs):
    return gain(runs, "total_bps")


@fig8.claim("A000-10", "compliant throughput, together over one by one", paper="> 1", at_least=1)
def compliant(runs):
    return gain(runs, "compliant_bps")


@fig8.claim(
    "A000-10, four others on the access link",
    "total throughput, together over one by one",
    paper="> 1",
    at_least=1,
)
def total_cross(runs):
    return gain(runs, "total_bps", cross=4)


@fig8.claim(
    "A000-10, four others on the access link",
    "compliant throughput, together over one by one",
    paper="> 1",
    at_least=1,
)
def compliant_cross(runs):
    return gain(runs, "compliant_bps", cross=4)


@fig8.figure
def figure(runs):
    kinds = ALLOCATIONS.values()
    return draw(list(ALLOCATIONS), [server(kind, action="police-mark").run(1) for kind in kinds])
