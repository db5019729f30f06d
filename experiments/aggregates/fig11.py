"""Policed by logical partitions, more goes out in profile and less is lost than one by one.

Source: aggregates, section 4.2.3, figure 11.
Differs: see `_server.py` and figure 6. Links are unequal, as the caption says. Without
other traffic, and with four endless downloads of others on the access link, as in figure 8.
"""

from tidegate.experiment import Experiment

from ._server import draw, measured, server

fig11 = Experiment(__file__, seeds=20)

ALLOCATIONS = {
    "one by one": {"kind": "partitioned", "depth": "rtt"},
    "logical partitions": "logical-partitions",
}


@fig11.run(policed=list(ALLOCATIONS), cross=[0, 4])
def measure(seed, policed, cross):
    net = server(ALLOCATIONS[policed], "unequal", action="police-mark", cross=cross)
    return measured(net.run(seed), "unequal")


def ratio(runs, column, cross=0):
    runs = runs.where(cross=cross)
    return (
        runs.where(policed="logical partitions")[column] / runs.where(policed="one by one")[column]
    )


ALONE = (
    "alone, the four fill the access link either way (95 % of it); which of it is in profile "
    "changes, not how much there is or how much is too much"
)


@fig11.claim(
    "A000-13",
    "total throughput, logical over one by one",
    paper="> 1",
    at_least=1,
    why=f"{ALONE}: see `#total-cross`",
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
    why=f"{ALONE}: see `#loss-cross`",
)
def loss(runs):
    return ratio(runs, "loss")


@fig11.claim(
    "A000-13, four others on the access link",
    "total throughput, logical over one by one",
    paper="> 1",
    at_least=1,
)
def total_cross(runs):
    return ratio(runs, "total_bps", cross=4)


@fig11.claim(
    "A000-13, four others on the access link",
    "compliant throughput, logical over one by one",
    paper="> 1",
    at_least=1,
)
def compliant_cross(runs):
    return ratio(runs, "compliant_bps", cross=4)


@fig11.claim(
    "A000-13, four others on the access link",
    "packets lost, logical over one by one",
    paper="< 1",
    at_most=1,
)
def loss_cross(runs):
    return ratio(runs, "loss", cross=4)


@fig11.figure
def figure(runs):
    nets = [server(it, "unequal", action="police-mark") for it in ALLOCATIONS.values()]
    return draw(list(ALLOCATIONS), [net.run(1) for net in nets])
