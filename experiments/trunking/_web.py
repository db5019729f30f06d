"""Small transfers of 8 KB, each over its own connection, and the duration of a transfer.

Source: trunking, sections 7.3 and 7.4 (experiments TT3 and TT4).
Differs: hosts behave like the paper's FreeBSD 2.2.8 where its behaviour is known. They have NewReno
without SACK and a first window of one segment. ACKs are delayed by 100 ms on average (TT3) or 200
ms at most (TT4). Timeouts are at least a second. The paper does not print the number of
simultaneous transfers. Throughput times mean delay gives 20 in figure 10 (a) and 21 in table 1 (a).
Here a client begins its next transfer when its sender has received the last ACK of the previous
one, half a round trip later.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidegate import Result, Scenario, Table

SIZE = 8192
KB = 1024
"""Bytes of a KB in the paper: with 1024, 20 simultaneous transfers give the paper's throughput."""

SETTLED = 5
"""Seconds at the beginning that do not count."""

BSD = {
    "profile": "rfc",
    "initial_window": 1,
    "recovery": "new-reno",
    "limited_transmit": "off",
}


def transfers(net: Scenario, sender: str, receiver: str, clients: int) -> None:
    """Adds clients that fetch one file after the other."""
    start = {"uniform": ["0 s", "0.5 s"]}
    kind: dict[str, Any] = {"size": f"{SIZE} B", "off": "0 s", "reconnect": True}
    net.traffic("web", "on-off", sender, receiver, flows=clients, start=start, **kind)


def measured(run: Result, seconds: float) -> dict[str, float]:
    """Throughput of all transfers in KB/s, and mean, deviation and maximum of their time in ms."""
    all_of_them = run["transfers"].where(group="web")
    took = 1000 * all_of_them["took_seconds"][all_of_them["began_seconds"] > SETTLED]
    rate = len(took) * SIZE / KB / (seconds - SETTLED)
    return {"rate": rate, "mean": took.mean(), "deviation": took.std(), "most": took.max()}


def ratio(runs: Table, column: str, over: str, under: str) -> np.ndarray:
    """A column in one case, divided by the same column in another case, for each seed."""
    return runs.where(case=over)[column] / runs.where(case=under)[column]


def steps(axes: Any, runs: Sequence[Result], cases: Sequence[str], seconds: int) -> None:
    """Draws for each case the fraction of transfers that were complete after a time."""
    for case, run in zip(cases, runs, strict=True):
        took = sorted(run["transfers"].where(group="web")["took_seconds"])
        axes.plot(took, [n / len(took) for n in range(1, len(took) + 1)], label=case)
    axes.set_xlabel("s")
    axes.set_xlim(0, seconds)
    axes.set_ylabel("fraction of all transfers")
    axes.legend()
