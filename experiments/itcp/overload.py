"""Growth of queues beside one giant file, and under a load above the bottleneck.

Source: integrated TCP, section 2; docs/ledger.md, A002-3 (a giant file) and A002-9 (overload).
Differs: `_network.py` describes the network. The giant file has 400 MB and arrives at subnet 2 at
600 s. In the overload, class 1 offers 0.85 of the bottleneck's rate and class 2 offers 0.25.
"""

from typing import Any

import numpy as np

from tidegate import Result, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import MEDIAN_RATIO, Numbers

from ._load import E1, RATE, Class
from ._modes import DRIFT, key
from ._network import GIANT_START, PAYLOAD, Setup, network
from .theory import growth

overload = Experiment(__file__)

GIANT = Setup(seconds=2_000, giant=400_000_000)

ENDED = 1_200
"""Time in seconds at which the measurement of growth ends, before the giant file is complete."""

ABOVE = (Class(E1[0].mean * 0.85 / 0.52 * PAYLOAD, E1[0].index),
         Class(E1[1].mean * 0.25 / 0.24 * PAYLOAD, E1[1].index))  # fmt: skip
"""Classes whose loads add up to more than the bottleneck."""

SECONDS = 4_000
QUARTER = SECONDS / 4

MODES = ("fixed", "literal", "measured", "separate")

CASES = {
    **{f"giant, {mode}": mode for mode in MODES[:3]},
    **{f"overload, {mode}": mode for mode in MODES},
}


def giant(run: Result) -> dict[str, float]:
    """Growth of class 1 while the giant file keeps class 2 busy."""
    first, second = run["aggregate long1"], run["aggregate long2"]
    rows = np.searchsorted(first["time_seconds"], [GIANT_START, ENDED])

    def gained(series: Table, column: str) -> float:
        values = series[column].astype(float)[rows]
        return float(values[1] - values[0])

    sent = [gained(it, "together_sent_bytes") for it in (first, second)]
    share = sent[0] / max(sum(sent), 1)
    seconds = ENDED - GIANT_START
    capacity = share * RATE * PAYLOAD * seconds
    return {
        "share": share,
        "backlog": gained(first, "queue_bytes"),
        "expected": gained(first, "arrived_bytes") - capacity,
        "error": (gained(first, "queue_bytes") - gained(first, "arrived_bytes") + capacity)
        / capacity,
        "growth": gained(first, "files") / seconds,
        "gamma": growth(E1[0], min(share * PAYLOAD, 0.99 * E1[0].load)),
        "peak": float(first["queue_bytes"].max()),
    }


def stability(run: Result) -> dict[str, float]:
    """Median sojourn of files that end in the last quarter, over that in the first quarter."""
    row = {}
    for number in (1, 2):
        own = run["transfers"].where(group=f"files{number}")
        took = own["took_seconds"].astype(float)
        ended = own["began_seconds"].astype(float) + took
        early, late = took[ended < QUARTER], took[ended > SECONDS - QUARTER]
        row[f"grows_{number}"] = float(np.median(late) / np.median(early))
    return row


@overload.run(case=list(CASES))
def measure(seed: int, case: str) -> dict[str, float]:
    if case.startswith("giant"):
        return giant(network(E1, CASES[case], GIANT).run(seed))
    return stability(network(ABOVE, CASES[case], Setup(seconds=SECONDS)).run(seed))


@overload.claim(
    "A002-3",
    "giant, fixed: growth of class 1's queue minus (arrivals minus phi_1 C t), over phi_1 C t",
    at_least=-0.05, at_most=0.05,
)  # fmt: skip
def backlog(runs: Table) -> Numbers:
    return runs.where(case="giant, fixed")["error"]


@overload.claim("A002-3", "giant, fixed: growth of class 1's files a second", kind="context")
def files(runs: Table) -> Numbers:
    return runs.where(case="giant, fixed")["growth"]


@overload.claim(
    "A002-3", "giant, fixed: growth of files minus gamma for the measured phi_1, files a second",
    paper="0 after long", at_least=-0.5, at_most=0.5,
)  # fmt: skip
def gamma(runs: Table) -> Numbers:
    own = runs.where(case="giant, fixed")
    return own["growth"] - own["gamma"]


BUSY = (
    "class 2 is always busy, so its weight never falls, and the weight of class 1 is at its limit n"
)


def claim_peak(mode: str, **bounds: Any) -> None:
    """Adds a claim about the largest queue of class 1 beside the giant file."""

    def peak(runs: Table) -> Numbers:
        own = [runs.where(case=f"giant, {it}") for it in (mode, "fixed")]
        count = min(map(len, own))
        return own[0]["peak"][:count] / own[1]["peak"][:count]

    peak.__name__ = f"peak_{mode}"
    text = f"giant, {mode} over fixed: largest queue of class 1"
    overload.claim("A002-3", text, statistic=MEDIAN_RATIO, **bounds)(peak)


claim_peak("literal", kind="shown otherwise", at_least=0.5)
claim_peak("measured", paper="bounded", at_most=0.5, why=BUSY)


def claim_stable(mode: str, number: int, **bounds: Any) -> None:
    """Claims a bound on the growth of a class's sojourns under overload."""

    def grows(runs: Table) -> Numbers:
        return runs.where(case=f"overload, {mode}")[f"grows_{number}"]

    grows.__name__ = f"grows_{key(mode)}_{number}"
    text = f"load 1.1, {mode}: median sojourn of class {number}, last quarter over first"
    overload.claim("A002-9", text, statistic=MEDIAN_RATIO, **bounds)(grows)


for number in (1, 2):
    claim_stable("separate", number, paper="all classes unstable", at_least=2)
claim_stable("fixed", 1, paper="unstable above its share", at_least=2)
claim_stable("fixed", 2, paper="stable", at_most=1.5)
claim_stable("measured", 1, at_least=2)
claim_stable("measured", 2, at_most=1.5, why=DRIFT)
claim_stable("literal", 2, at_most=1.5,
             why="weight 1 rises to n, and the share of class 2 falls below its load")  # fmt: skip


@overload.figure
def figure(_runs: Table) -> Any:
    figure, panels = plots.panels(["queue of class 1 beside a giant file", "weights, measured"])
    for mode in MODES[:3]:
        run = network(E1, mode, GIANT).run(1)
        first, second = run["aggregate long1"], run["aggregate long2"]
        panels[0].plot(first["time_seconds"], first["queue_bytes"] / 1e6, label=mode)
        if mode == "measured":
            for name, own in (("subnet 1", first), ("subnet 2", second)):
                panels[1].step(own["time_seconds"], own["weight"], where="post", label=name)
    panels[0].set_ylabel("MB")
    for axes in panels:
        axes.set_xlabel("time (s)")
        axes.legend()
    return figure
