"""When a class borrows rate or returns it, real senders follow within a fraction of a second.

Source: postack; docs/ledger.md, R001-9 (trees of classes) and A001-6 (new rates within 200 ms and
three near round trips).
Differs: `_live.py` describes labs of real hosts. The policy file is that of `borrow.py`. Four CUBIC
flows have windows of 64 KiB, as in `borrow.py`: with larger windows, a queue for each flow at the
class needs seconds to drain. UDP of 12 Mbit/s starts after 6 s and lasts 6 s. Rates are those at
which the policy passes TCP's packets to the class, over 150 ms. Levels are means of the last 3 s
before each change.
"""

import sys
import time

import numpy as np

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ...postack._network import FLOWS
from ...postack.borrow import file
from ._live import HOSTS, NOT_SCALED, Lab, hosts, missing, side_by_side

live_borrow = Experiment(__file__, seeds=5, needs=missing)

SPAN, LEVEL, WINDOW, STEP = 6, 3, 0.15, 0.03
LAG = 0.2 + 3 * 0.0002 + WINDOW
"""Seconds: 0.2, three round trips to the senders, and the window over which a rate is measured."""

FLOOD = """
import socket, sys, time
flood, start, sent = socket.socket(type=socket.SOCK_DGRAM), time.monotonic(), 0
while True:
    while sent < (time.monotonic() - start) * 1_250:
        flood.sendto(bytes(1158), (sys.argv[1], 9000))
        sent += 1
    time.sleep(0.002)
"""


class Watch:
    """Samples over time of the bytes that TCP has sent."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.looks: list[tuple[float, int]] = []

    def until(self, end: float) -> None:
        """Samples the counter until this time."""
        while (now := time.monotonic()) < end:
            self.looks.append((now, self.lab.aggregate("up")["conforming"]["bytes"]))
            time.sleep(STEP)

    def rate(self, at: float, span: float) -> float:
        """Rate in the ``span`` seconds before the time ``at``, bit/s."""
        times, sent = np.array(self.looks).T
        before, after = np.interp([at - span, at], times, sent)
        return 8 * (after - before) / span

    def settles(self, since: float, level: float) -> float:
        """Seconds after ``since`` until the rate is within a tenth of ``level``."""
        steps = np.arange(STEP, SPAN - LEVEL, STEP)
        near = [abs(self.rate(since + it, WINDOW) / level - 1) < 0.1 for it in steps]
        return float(steps[near.index(True)]) if any(near) else SPAN


@live_borrow.run()
def measure(seed: int) -> dict[str, float]:
    def run(ack_control: str) -> dict[str, float]:
        with Lab(hosts(ack_control, file=file(ack_control))) as lab:
            for host in HOSTS:
                lab.shell(host, NOT_SCALED)
            lab.serve("near", "cubic")
            for _ in range(FLOWS):
                lab.fetch("far", HOSTS["near"], "--time", f"{4 * SPAN} s")
            watch, begin = Watch(lab), time.monotonic() + SPAN
            watch.until(begin)
            flood = lab.start("near", sys.executable, "-c", FLOOD, HOSTS["far"])
            watch.until(begin + SPAN)
            flood.kill()
            watch.until(begin + 2 * SPAN)
            hangs = lab.hangs()
        ends = {"alone": begin, "shared": begin + SPAN, "again": begin + 2 * SPAN}
        levels = {name: watch.rate(at - STEP, LEVEL) for name, at in ends.items()}
        takes = watch.settles(begin + SPAN, levels["again"])
        gives = watch.settles(begin, levels["shared"])
        return {**levels, "takes": takes, "gives": gives, "hangs": hangs}

    return side_by_side(run, ["none", "gate"])


def ratio(runs: Table, level: str) -> np.ndarray:
    return runs[f"gate {level}"] / runs[f"none {level}"]


@live_borrow.claim(
    "A001-6", "live, alone: rate over that of a queue for each flow", at_least=0.98, at_most=1.02
)
def alone(runs: Table) -> Numbers:
    return ratio(runs, "alone")


@live_borrow.claim(
    "A001-6", "live, beside its sibling: rate over that of a queue for each flow", at_least=0.98,
    at_most=1.02,
)  # fmt: skip
def shared(runs: Table) -> Numbers:
    return ratio(runs, "shared")


@live_borrow.claim(
    "A001-6", "live, alone again: rate over that of a queue for each flow", at_least=0.98,
    at_most=1.02,
)  # fmt: skip
def again(runs: Table) -> Numbers:
    return ratio(runs, "again")


@live_borrow.claim(
    "A001-6", "live: time from the sibling's end until the rate is borrowed, s", at_most=LAG
)
def takes(runs: Table) -> Numbers:
    return runs["gate takes"]


@live_borrow.claim(
    "A001-6",
    "live: time from the sibling's start until the rate is returned, minus a queue per flow's, s",
    at_most=LAG,
)
def gives(runs: Table) -> Numbers:
    return runs["gate gives"] - runs["none gives"]
