"""One bucket in common: who is served first decides how fair it is.

Source: aggregates, section 4.2.2, figure 7.
Differs: see `_server.py`. As in the paper before its section 6, only the timer serves those that
wait, and what arrives when there are tokens takes them (`shaping_triggers = "timer"`); with all
triggers, which a gateway has, FCFS and LRU are as fair as partitions.
"""

from tidegate.experiment import Experiment

from ._server import RATE, draw, measured, server

fig7 = Experiment(__file__)

ORDERS = ["sequential", "fcfs", "lru"]


@fig7.run(allocation=ORDERS, links=["equal", "unequal"])
def measure(seed, allocation, links):
    return measured(server(allocation, links).run(seed), links)


def equal(runs, allocation):
    return runs.where(allocation=allocation, links="equal")


@fig7.claim("A000-6", "sequential: Jain index", paper=0.43, at_most=0.70)
def sequential(runs):
    return equal(runs, "sequential")["jain"]


@fig7.claim(
    "A000-6",
    "sequential: the 50 ms connection takes most, over its share",
    paper="most",
    at_least=1,
)
def sequential_takes(runs):
    return equal(runs, "sequential")["n2_bps"] / (RATE / 4)


@fig7.claim("A000-6", "sequential: the poorest connection, over its share", paper="<", at_most=0.5)
def sequential_starves(runs):
    rates = [equal(runs, "sequential")[f"n{client}_bps"] for client in range(2, 6)]
    return [min(each) / (RATE / 4) for each in zip(*rates, strict=True)]


@fig7.claim(
    "A000-7",
    "FCFS: Jain index",
    paper=0.95,
    at_least=0.90,
    at_most=0.995,
    why="the order is the paper's (below partitions, far above sequential), the distance is "
    "not: see LRU",
)
def fcfs(runs):
    return equal(runs, "fcfs")["jain"]


@fig7.claim(
    "A000-8",
    "LRU: Jain index",
    paper=0.95,
    at_least=0.90,
    at_most=0.995,
    why="it is a little fairer: what arrives between two looks of the timer is all that LRU "
    "cannot order, and without the cross traffic, which the paper does not print, nothing is "
    "lost and every connection keeps its window full",
)
def lru(runs):
    return equal(runs, "lru")["jain"]


@fig7.claim(
    "A000-8",
    "LRU over FCFS: the 50 ms connection",
    paper="less",
    at_most=1,
    why="the difference is within what starting times make: the interval holds 1",
)
def lru_penalises(runs):
    return equal(runs, "lru")["n2_bps"] / equal(runs, "fcfs")["n2_bps"]


@fig7.claim("A000-9", "FCFS, unequal links: use of the rate", paper=0.995, at_least=0.985)
def utilisation(runs):
    return runs.where(allocation="fcfs", links="unequal")["utilisation"]


@fig7.figure
def figure(runs):
    kinds = [(order, "equal") for order in ORDERS] + [("fcfs", "unequal")]
    titles = [f"{order}, {links} links" for order, links in kinds]
    return draw(titles, [server(*kind).run(1) for kind in kinds])
