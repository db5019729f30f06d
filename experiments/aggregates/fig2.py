"""A policed TCP window swings above and below the rate window, so that part of the rate is lost.

Source: aggregates, figure 2; docs/ledger.md, R000-5: the rate window is W = r rtt. A window of W
sends exactly the rate r: all packets conform, and no tokens are lost.
Differs: `_server.py` describes the network. Each of the four connections has a policer, as in
figure 6. Four downloads in the background share the access link. Without them, a window of 20
packets rarely falls below W when it is halved. The profile has no peak rate, because a packet may
exceed a peak rate with any window. W is computed from the smoothed round-trip time of each
connection, queues included, and counts payload, as windows do. Samples are 0.1 s apart. A window
counts as halved if it is at most 0.7 of the previous sample. The paper draws one connection and
prints no number. In the first measurement, the connection with 600 ms was above W for 0.1 % of the
time. Since then it has its own claim. In further runs, the window of each connection is at most its
W without queues, with and without the background downloads.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidegate import Result, Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._compare import ONE_BY_ONE
from ._server import CLIENTS, NAMES, PACKET, RATE, ROUND_TRIPS, server

fig2 = Experiment(__file__)

SHARE = RATE / len(CLIENTS) / 8
"""Rate of a connection, bytes per second, headers included."""
PAYLOAD = (PACKET - 40) / PACKET
"""Fraction of a packet that is payload."""

OTHERS = [0, 4]
"""Number of downloads in the background."""

WARMUP = 50
"""Length of the warm-up in seconds, the same as in the network."""
HALVED = 0.7
"""A sample below this fraction of the previous one was halved: growth between samples is small."""

WINDOWS = ["20 packets", "rate window"]


def network(window: str, others: int) -> Scenario:
    """Four connections, each with a policer. Their windows are 20 packets, or at most W."""
    net = server(ONE_BY_ONE, action="police-mark", order=CLIENTS, cross=others, peak=False)
    net.sample = "100 ms"
    downloads = [it for it in net.tables["traffic"] if it["name"] != "cross"]
    for client, rtt, traffic in zip(CLIENTS, ROUND_TRIPS, downloads, strict=True):
        net.probe("window", traffic=f"download-{client}")
        if window == "rate window":
            packets = -int(-SHARE * rtt // PACKET)
            traffic["tcp"] = {"receive_window": f"{packets * (PACKET - 40)} B"}
    return net


def series(run: Result, client: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, the congestion window and the rate window of a connection, in payload bytes."""
    table = run[f"windows of download-{client}"]
    counted = table["time_seconds"] > WARMUP
    window, rtt = (
        table[column][counted] for column in ("flow_0_window_bytes", "flow_0_rtt_seconds")
    )
    return table["time_seconds"][counted], window, SHARE * PAYLOAD * rtt


def parts(window: np.ndarray, rates: np.ndarray) -> Mapping[str, float]:
    """Fractions of time above and below W, number of halvings, usable fraction of the rate."""
    (halved,) = np.nonzero(window[1:] <= HALVED * window[:-1])
    return {
        "above": float((window > rates).mean()),
        "below": float((window < rates).mean()),
        "halvings": float(len(halved)),
        "low": float((window[1:] < rates[1:])[halved].sum()),
        "usable": float(np.minimum(window / rates, 1).mean()),
    }


@fig2.run(window=WINDOWS, others=OTHERS)
def measure(seed: int, window: str, others: int) -> dict[str, float]:
    run = network(window, others).run(seed)
    each = [parts(*series(run, client)[1:]) for client in CLIENTS]
    row = {name: [float(it[name]) for it in each] for name in each[0]}
    halvings = sum(row["halvings"])
    policed = run.aggregates.where(policy="downloads", direction="up")
    return {
        "above": min(row["above"][:3]),
        "above_longest": row["above"][3],
        "below": min(row["below"]),
        "halvings": halvings,
        "low": sum(row["low"]) / max(halvings, 1),
        "usable": float(np.mean(row["usable"])),
        "compliant": policed["conforming_bps"][0] / RATE,
        "in_profile": policed["conforming_bytes"][0] / policed["offered_bytes"][0],
    }


def free(runs: Table, column: str, others: int = 4) -> np.ndarray:
    return runs.where(window="20 packets", others=others)[column]


def limited(runs: Table, column: str, others: int = 0) -> np.ndarray:
    return runs.where(window="rate window", others=others)[column]


@fig2.claim(
    "R000-5",
    "part of the time above W, least of the connections of 50 to 300 ms",
    paper="above W",
    at_least=0.05,
)
def above(runs: Table) -> Numbers:
    return free(runs, "above")


@fig2.claim(
    "R000-5", "600 ms: part of the time above W", paper="above W", at_least=0.05,
    why="W of 600 ms is 17 packets, queues included. The window is 6 packets on average and is "
    "halved before it has grown to 17",
)  # fmt: skip
def above_longest(runs: Table) -> Numbers:
    return free(runs, "above_longest")


@fig2.claim("R000-5", "part of the time below W, least of four", paper="below W", at_least=0.1)
def below(runs: Table) -> Numbers:
    return free(runs, "below")


@fig2.claim("R000-5", "halvings that leave the window below W", paper="below W", at_least=0.5)
def low(runs: Table) -> Numbers:
    return free(runs, "low")


@fig2.claim("R000-5", "mean of min(window / W, 1)", paper="< 1", at_most=0.97)
def usable(runs: Table) -> Numbers:
    return free(runs, "usable")


@fig2.claim(
    "R000-5", "compliant throughput over the rate, minus mean of min(window / W, 1)",
    at_least=-0.1, at_most=0.1,
)  # fmt: skip
def explained(runs: Table) -> Numbers:
    return free(runs, "compliant") - free(runs, "usable")


@fig2.claim(
    "R000-5, windows of W at most, no others",
    "part of the packets in profile, minus that with 20 packets", at_least=0.1,
)  # fmt: skip
def in_profile(runs: Table) -> Numbers:
    return limited(runs, "in_profile") - free(runs, "in_profile", 0)


@fig2.claim(
    "R000-5, windows of W at most, no others", "compliant throughput over that with 20 packets",
    at_least=1,
)  # fmt: skip
def compliant(runs: Table) -> Numbers:
    return limited(runs, "compliant") / free(runs, "compliant", 0)


@fig2.claim(
    "R000-5, windows of W at most, four others",
    "compliant throughput over that with 20",
    kind="shown otherwise",
    at_most=1,
)
def compliant_beside(runs: Table) -> Numbers:
    return limited(runs, "compliant", 4) / free(runs, "compliant")


@fig2.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(NAMES)
    run = network(WINDOWS[0], 4).run(1)
    for axes, client in zip(panels, CLIENTS, strict=True):
        time, window, rates = series(run, client)
        shown = time < WARMUP + 60
        axes.plot(time[shown], window[shown] / 1e3, label="congestion window")
        axes.plot(time[shown], rates[shown] / 1e3, label="rate window")
        axes.set_xlabel("time (s)")
        axes.set_ylabel("kB")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize="small")
    return figure
