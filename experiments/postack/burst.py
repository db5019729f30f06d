"""A profile with a burst also holds for downloads: the burst passes at the peak rate at once.

Source: postack; docs/ledger.md, R001-9 (the release of held ACKs follows the rate of the policy),
with a profile of two rates.
Differs: `_line.py` describes the access line. docs/ledger.md has no numbers for this case. The
profile has a mean of 5 Mbit/s, a peak of 20 Mbit/s and a burst of 10 MB, all of it unused when a
download of 5 MB begins. The queueing delay is the delay of data packets minus the one-way delay
from server to client. It is compared with the queueing delay of a profile whose mean is the peak
rate. The bounds are goals, set before the code was changed to reach them: 1.05, and 1.1 for delays.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment, paired
from tidegate.statistics import Numbers

from ._line import line, policy

burst = Experiment(__file__)

PEAK = "20 Mbit/s"
PROFILES: dict[str, dict[str, str]] = {
    "burst": {"mean": "5 Mbit/s", "peak": PEAK, "burst": "10 MB"},
    "mean = peak": {"mean": PEAK},
}
ROUND_TRIPS = [4, 30, 100]
"""Round-trip times, milliseconds."""

SHOWN = ["none", "gate"]
DOWNLOAD: dict[str, Any] = {"size": "5 MB", "request": "200 B", "think": "100 s"}

WHY = (
    "the gate requests data at the mean rate, as if the bucket were empty: its rate is the "
    "profile's mean even while tokens are left"
)


@burst.run(ack_control=SHOWN, profile=list(PROFILES), round_trip=ROUND_TRIPS)
def measure(seed: int, ack_control: str, profile: str, round_trip: int) -> dict[str, float]:
    file = {"policy": [policy(ack_control, 0, profile=PROFILES[profile])]}
    net = line(ack_control, {"server": round_trip / 1e3}, seconds=20, file=file)
    start = {"uniform": ["0 s", "500 ms"]}
    net.traffic("download", "web", "server", "client", start=start, **DOWNLOAD)
    run = net.run(seed)
    took, late = run.transfers["took_seconds"][0], run.groups["delay_p99_seconds"][0]
    return {"took": took, "late": late - round_trip / 2e3}


def claim_path(round_trip: int) -> None:
    """Adds the claims about time and delay for a round trip."""

    def time(runs: Table) -> Numbers:
        cell = runs.where(profile="burst", round_trip=round_trip)
        return paired(cell.where(ack_control="gate"), cell.where(ack_control="none"), "took")

    def late(runs: Table) -> Numbers:
        cell = runs.where(ack_control="gate", round_trip=round_trip)
        return paired(cell.where(profile="burst"), cell.where(profile="mean = peak"), "late")

    time.__name__, late.__name__ = f"time_{round_trip}", f"late_{round_trip}"
    path = f"round trip of {round_trip} ms"
    burst.claim("R001-9", f"{path}: time of 5 MB with ACKs held, over that without",
                at_most=1.05, why=WHY)(time)  # fmt: skip
    burst.claim("R001-9", f"{path}: 99th percentile of queueing delay, over that of mean = peak",
                at_most=1.1)(late)  # fmt: skip


for each in ROUND_TRIPS:
    claim_path(each)


@burst.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(list(PROFILES))
    for axes, profile in zip(panels, PROFILES, strict=True):
        for ack_control in SHOWN:
            cell = runs.where(profile=profile, ack_control=ack_control)
            means = [np.mean(cell.where(round_trip=it)["took"]) for it in ROUND_TRIPS]
            axes.plot(ROUND_TRIPS, means, marker="o", label=ack_control)
        axes.set_xlabel("round trip, ms")
        axes.set_ylabel("time of 5 MB, s")
        axes.set_ylim(bottom=0)
        axes.legend()
    return figure
