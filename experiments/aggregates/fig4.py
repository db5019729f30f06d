"""Partitions of one bucket are fair between equal links.

Source: aggregates, section 4.2.1, figure 4.
Differs: see `_server.py`.
"""

from tidegate.experiment import Experiment

from ._server import draw, measured, server

fig4 = Experiment(__file__)

DEPTHS = ["equal", "rtt"]


def partitioned(depth):
    return server({"kind": "partitioned", "depth": depth})


@fig4.run(depth=DEPTHS)
def measure(seed, depth):
    return measured(partitioned(depth).run(seed))


@fig4.claim("A000-2", "equal depths: Jain index", paper=0.99, at_least=0.98)
def jain_equal(runs):
    return runs.where(depth="equal")["jain"]


@fig4.claim("A000-2", "equal depths: use of the rate", paper=0.995, at_least=0.98, at_most=1.002)
def utilisation(runs):
    return runs.where(depth="equal")["utilisation"]


@fig4.claim("A000-3", "depths by round trip: Jain index", paper=0.996, at_least=0.99)
def jain_rtt(runs):
    return runs.where(depth="rtt")["jain"]


@fig4.claim(
    "A000-3", "depths by round trip are as fair as equal ones", paper=0.006, at_least=-0.0005
)
def gain(runs):
    return runs.where(depth="rtt")["jain"] - runs.where(depth="equal")["jain"]


@fig4.figure
def figure(runs):
    titles = ["equal depths", "depths by round-trip time"]
    return draw(titles, [partitioned(depth).run(1) for depth in DEPTHS])
