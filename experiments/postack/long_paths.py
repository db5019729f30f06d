"""On long paths the release rule "gate" gets the rate of "bucket", and drops no more packets.

Source: postack; docs/ledger.md, R001-9: both rules for held ACKs release the same data, `gate`
without an estimate of rates.
Differs: `_line.py` describes the access line. docs/ledger.md has no numbers for this case. 1, 4 and
32 downloads have the same round trip of 1 ms to 1 s, and windows of 64 MiB. Runs last 60 s, and 120
s with a round trip of one second. Rates count in the last 40 s; packets dropped by the provider or
the gateway count in the whole run. Both rules have the same seeds. A claim judges the worst of the
three numbers of downloads. The bounds are goals, set before the code was changed to reach them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._line import dropped, line, rate_of

long_paths = Experiment(__file__)

ROUND_TRIPS = [1, 30, 100, 300, 600, 1000]
"""Round-trip times, milliseconds."""

DOWNLOADS = [1, 4, 32]
RULES = ["gate", "bucket"]
COUNTED = 40
"""Seconds at the end of a run that count for the rate."""

LATE = 1000
"""The longest round trip, at which a window needs a minute to grow after a loss."""


FIRST = (
    "with 4 and 32 downloads both rules lose some packets while all are in slow start, and the "
    "numbers vary by some hundred from seed to seed"
)


@long_paths.run(rule=RULES, round_trip=ROUND_TRIPS, downloads=DOWNLOADS)
def measure(seed: int, rule: str, round_trip: int, downloads: int) -> dict[str, float]:
    lasts = 120 if round_trip == LATE else 60
    net = line(rule, {"server": round_trip / 1e3}, seconds=lasts, receive_window="64 MiB")
    start = {"uniform": ["0 s", "500 ms"]}
    net.traffic("bulk", "greedy", "server", "client", flows=downloads, start=start)
    run = net.run(seed)
    return {
        "rate": rate_of(run, "bulk", lasts - COUNTED),
        "dropped": dropped(run),
        "timeouts": float(run.flows["timeouts"].sum()),
        "peak_acks": run.aggregates.where(direction="down")["peak_held_acks"][0],
    }


def compare(
    runs: Table, round_trip: int, column: str, with_bucket: Callable[[Any, Any], Any]
) -> np.ndarray:
    """The gate compared with the bucket: a row per number of downloads, a column per seed."""
    cells = [runs.where(round_trip=round_trip, downloads=it) for it in DOWNLOADS]
    pairs = [[cell.where(rule=rule)[column] for rule in RULES] for cell in cells]
    return np.array([with_bucket(gate, bucket) for gate, bucket in pairs])


def claim_path(round_trip: int) -> None:
    """Adds the claims about rate and drops for a round trip."""

    def rate(runs: Table) -> Numbers:
        return compare(runs, round_trip, "rate", np.divide).min(axis=0)

    def drops(runs: Table) -> Numbers:
        return compare(runs, round_trip, "dropped", np.subtract).max(axis=0)

    rate.__name__, drops.__name__ = f"rate_{round_trip}", f"drops_{round_trip}"
    path = f"round trip of {round_trip} ms, 1 to 32 downloads"
    long_paths.claim(
        "R001-9", f"{path}: rate of the gate over the bucket's", at_least=0.99, why=FIRST
    )(rate)
    long_paths.claim("R001-9", f"{path}: packets dropped, gate minus bucket",
                     at_most=0, why=FIRST)(drops)  # fmt: skip


for each in ROUND_TRIPS:
    claim_path(each)


@long_paths.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["rate of the gate over the bucket's", "packets dropped"])
    for n, flows in enumerate(DOWNLOADS):
        rates = [compare(runs, it, "rate", np.divide)[n].mean() for it in ROUND_TRIPS]
        panels[0].plot(ROUND_TRIPS, rates, marker="o", label=f"{flows} downloads")
        for rule, style in zip(RULES, ("-", "--"), strict=True):
            cells = [runs.where(round_trip=it, downloads=flows, rule=rule) for it in ROUND_TRIPS]
            means = [cell["dropped"].mean() for cell in cells]
            panels[1].plot(ROUND_TRIPS, means, style, marker="o", label=f"{rule}, {flows}")
    panels[1].set_yscale("symlog")
    for axes in panels:
        axes.set_xscale("log")
        axes.set_xlabel("round trip, ms")
        axes.legend()
    return figure
