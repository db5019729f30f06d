"""Policed by logical partitions, more goes out in profile and less is lost than one by one.

Source: aggregates, section 4.2.3, figure 11.
Differs: see `_server.py` and figure 6. Links are unequal, as the caption says.
"""

from tidegate.experiment import Experiment

from ._server import draw, measured, server

fig11 = Experiment(__file__)

ALLOCATIONS = {
    "one by one": {"kind": "partitioned", "depth": "rtt"},
    "logical partitions": "logical-partitions",
}


@fig11.run(policed=list(ALLOCATIONS))
def measure(seed, policed):
    net = server(ALLOCATIONS[policed], "unequal", action="police-mark")
    return measured(net.run(seed), "unequal")


def ratio(runs, column):
    return (
        runs.where(policed="logical partitions")[column] / runs.where(policed="one by one")[column]
    )


@fig11.claim(
    "A000-13",
    "total throughput, logical over one by one",
    paper="> 1",
    at_least=1,
    why="the access link is as good as full either way, and loses what its buffer cannot hold; "
    "which of it is in profile changes, not how much there is",
)
def total(runs):
    return ratio(runs, "total_bps")


@fig11.claim("A000-13", "compliant throughput, logical over one by one", paper="> 1", at_least=1)
def compliant(runs):
    return ratio(runs, "compliant_bps")


@fig11.claim(
    "A000-13",
    "packets lost, logical over one by one",
    paper="< 1",
    at_most=1,
    why="the access link is as good as full either way, and loses what its buffer cannot hold; "
    "which of it is in profile changes, not how much there is",
)
def loss(runs):
    return ratio(runs, "loss")


@fig11.figure
def figure(runs):
    nets = [server(it, "unequal", action="police-mark") for it in ALLOCATIONS.values()]
    return draw(list(ALLOCATIONS), [net.run(1) for net in nets])
