"""On long paths the gate has the rate of the bucket, and loses no more packets.

Source: postack, ledger R001-9: P1 and P3 release the same data, P3 without an estimate of rates.
Differs: see `_line.py`. The ledger has no numbers for this. 1, 4 and 32 downloads have the same
round trip of 1 ms to 1 s, and windows of 64 MiB. Runs last 60 s, with a second of round trip 120 s.
The last 40 s count for the rate, and all of the run for packets that the provider or the gateway
drops. Both release rules meet the same seed. A claim takes the worst of the three numbers of
downloads.
The bounds are goals, set before any repair.
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
"""In milliseconds."""

DOWNLOADS = [1, 4, 32]
RULES = ["gate", "bucket"]
COUNTED = 40
"""Seconds at the end of a run that count for the rate."""

LATE = 1000
"""The longest round trip: after a loss its window needs a minute to grow."""


FIRST = (
    "they are lost while downloads begin: in the first three seconds, and at 600 ms, with 32 "
    "downloads, in more than ten. An ACK of two segments lets a sender in slow start send four"
)

CAPPED = "with either rule packets are lost in slow start; which part lumps have was not measured"


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
    """A row for each number of downloads, a column for each seed: the gate beside the bucket."""
    cells = [runs.where(round_trip=round_trip, downloads=it) for it in DOWNLOADS]
    pairs = [[cell.where(rule=rule)[column] for rule in RULES] for cell in cells]
    return np.array([with_bucket(gate, bucket) for gate, bucket in pairs])


def claim_path(round_trip: int) -> None:
    """Claims the goals for a round trip: the rate and the drops."""

    def rate(runs: Table) -> Numbers:
        return compare(runs, round_trip, "rate", np.divide).min(axis=0)

    def drops(runs: Table) -> Numbers:
        return compare(runs, round_trip, "dropped", np.subtract).max(axis=0)

    rate.__name__, drops.__name__ = f"rate_{round_trip}", f"drops_{round_trip}"
    why = CAPPED if round_trip == LATE else FIRST
    path = f"round trip of {round_trip} ms, 1 to 32 downloads"
    long_paths.claim(
        "R001-9", f"{path}: rate of the gate, of the bucket's", at_least=0.99, why=why
    )(rate)
    long_paths.claim("R001-9", f"{path}: packets dropped with the gate, less those with the bucket",
                     at_most=0, why=why)(drops)  # fmt: skip


for each in ROUND_TRIPS:
    claim_path(each)


@long_paths.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["rate of the gate, of the bucket's", "packets dropped"])
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
