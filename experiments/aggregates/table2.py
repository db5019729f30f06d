"""A timer costs the same however many flows there are.

Source: aggregates, section 6.2 and Table 2: microseconds to set, handle and cancel a timer.
Differs: see `_cost.py`. What the paper wants to show by its table, that few timers are affordable
and one for each flow is not, is here: what one operation takes does not grow with the timers that
are set, and how often the one shaping timer looks does not grow with the flows. Seeds make no
difference to instructions: there is one.
"""

from tidegate import Scenario, plots
from tidegate.experiment import Experiment

from ._cost import instructions
from ._server import QUEUE

table2 = Experiment(__file__, seeds=1)

SIZES = [1, 1_000, 100_000]


def flood(flows: int) -> Scenario:
    """So many flows that offer 12 Mbit/s together, shaped to 10."""
    net = Scenario(duration="4 s", warmup="1 s")
    net.host("n0", gateway="qosmgr")
    net.host("n1")
    policy = {
        "name": "all",
        "match": {"direction": "up"},
        "profile": {"mean": "10 Mbit/s", "burst": "32 kB"},
        "action": "shape",
        "queue": QUEUE,
    }
    net.gateway("qosmgr", {"gateway": {"shaping_interval": "15 ms"}, "policy": [policy]})
    net.link("qosmgr.wan", "n1", rate="100 Mbit/s", delay="10 ms")
    start = {"uniform": ["0 s", "1 s"]}
    rate = f"{12_000_000 // flows} bit/s"
    net.traffic("flood", "cbr", "n0", "n1", flows=flows, rate=rate, packet="500 B", start=start)
    return net


@table2.run(size=SIZES)
def measure(seed, size):
    aggregate = flood(size).run(seed).aggregates
    return {
        "set_cancel": instructions("timer/set-cancel", 20_000, size),
        "set_handle": instructions("timer/set-fire", 20_000, size),
        "looks_per_MB": aggregate["timer_looks"][0] / (aggregate["conforming_bytes"][0] / 1e6),
    }


def growth(runs, column):
    return runs.where(size=SIZES[-1])[column] / runs.where(size=SIZES[0])[column]


@table2.claim("T2", "set and cancel: 100,000 timers over one", paper="flat", at_most=1.3)
def set_cancel(runs):
    return growth(runs, "set_cancel")


@table2.claim("T2", "set and handle: 100,000 timers over one", paper="flat", at_most=1.3)
def set_handle(runs):
    return growth(runs, "set_handle")


@table2.claim("A000-16", "looks per MB: 100,000 flows over one", paper="1", at_most=1.3)
def looks(runs):
    return growth(runs, "looks_per_MB")


@table2.figure
def figure(runs):
    figure, axes = plots.panels(["set and cancel", "set and handle"])
    for each, column in zip(axes, ["set_cancel", "set_handle"], strict=True):
        each.semilogx(runs["size"], runs[column], marker="o")
        each.set_xlabel("timers")
        each.set_ylabel("instructions")
        each.set_ylim(bottom=0)
    return figure
