"""A path whose delay changes during the run.

Source: integrated TCP, section 3 (equation 8) and section 5 (open questions); docs/ledger.md,
A002-12 (a path that changes).
Differs: `_network.py` describes the network. The run has 2,000 s. At 1,000 s the delay between the
gateway of subnet 1 and the router changes: the round-trip time of the aggregate connection rises
from 41 to 81 ms ("longer") or falls from 81 to 41 ms ("shorter"). Packets on the link arrive at
their old time.

Vegas stores the least round-trip time d that it ever measured. When the path's round-trip time
rises to D, Vegas mistakes the difference for queueing delay. It then keeps `w alpha D / (D - d)`
packets in flight, so it sends at most `w alpha / (D - d)` packets a second. For weight 10, alpha 1
and 40 ms these are 250 packets a second, 0.21 of the bottleneck. This is less than the load rho_1
for any weight up to 10. The queue of the other aggregate adds to D, so the rate is even lower while
that aggregate sends. When the round-trip time falls, Vegas measures it immediately.

"carried" is the data that aggregate 1 sent in the last quarter of the run, divided by the data that
its files brought in. "weighted-vegas" is another weighted Vegas; it forgets d after an idle time.
"""

from typing import Any

import numpy as np

from tidegate import Result, Table, plots
from tidegate.experiment import Experiment

from ._adjust import MOST
from ._cases import Cases
from ._load import E1, PACKET
from ._network import Setup, network

path = Experiment(__file__, seeds=6)

SECONDS, CHANGE = 2_000, 1_000

NEAR, FAR = "10 ms", "30 ms"
"""Delays between gateway and router; the round-trip times differ by 40 ms."""

LONGER = Setup(seconds=SECONDS, paths=((CHANGE, 1, FAR),))

SHORTER = Setup(seconds=SECONDS, paths=((0, 1, FAR), (CHANGE, 1, NEAR)))

FORGETS = Setup(seconds=SECONDS, paths=LONGER.paths, control={"kind": "weighted-vegas"})

CASES: dict[str, tuple[str, Setup]] = {
    **{f"longer, {mode}": (mode, LONGER) for mode in ("fixed", "measured", "proportional")},
    "shorter, fixed": ("fixed", SHORTER),
    "longer, weighted-vegas": ("fixed", FORGETS),
}

STALE = MOST / 0.040 * PACKET
"""Greatest rate, bytes per second, of a connection that mistakes the new 40 ms for queueing
delay."""


def spans(run: Result, column: str, number: int = 1) -> tuple[float, float]:
    """Increase of an aggregate's counter in the second and in the last quarter of the run."""
    series = run[f"aggregate long{number}"]
    at = [int(np.searchsorted(series["time_seconds"], part * SECONDS / 4)) for part in (1, 2, 3)]
    total = series[column].astype(float)
    return total[at[1]] - total[at[0]], total[-1] - total[at[2]]


@path.run(case=list(CASES))
def measure(seed: int, case: str) -> dict[str, float]:
    run = network(E1, *CASES[case]).run(seed)
    arrived, sent, busy, busily = (
        spans(run, it) for it in ("arrived_bytes", "sent_bytes", "busy_seconds", "busy_sent_bytes")
    )
    share = run["aggregate long1"]["weight_share"].astype(float)
    return {
        "before": sent[0] / arrived[0],
        "carried": sent[1] / arrived[1],
        "busily": busily[1] / busy[1] / STALE,
        "share": float(share[-len(share) // 4 :].mean()),
        "queue": float(run["aggregate long1"]["queue_bytes"][-1]),
    }


about = Cases(path, "A002-12")
CARRIED = "data carried by aggregate 1 in the last quarter, relative to its arrivals"
about.claim("longer, fixed", "busily", "rate of aggregate 1 while busy, over w alpha / (D - d)",
      at_most=1.1)  # fmt: skip
for mode in ("fixed", "measured", "proportional"):
    about.claim(f"longer, {mode}", "carried", CARRIED, kind="shown otherwise", at_most=0.6)
about.claim("longer, fixed", "before", "carried in the second quarter", at_least=0.9, at_most=1.1)
about.claim("shorter, fixed", "carried", CARRIED, at_least=0.9, at_most=1.1)
about.claim("longer, weighted-vegas", "carried", CARRIED, kind="context")


@path.figure
def figure(_runs: Table) -> Any:
    cases = ("longer, fixed", "longer, weighted-vegas", "shorter, fixed")
    figure, panels = plots.panels(list(cases), columns=3)
    for axes, case in zip(panels, cases, strict=True):
        run = network(E1, *CASES[case]).run(1)
        for number in (1, 2):
            series = run[f"aggregate long{number}"]
            axes.plot(series["time_seconds"], series["queue_bytes"] / 1e6, label=f"site {number}")
        axes.axvline(CHANGE, color="gray", linestyle=":")
        axes.set_xlabel("time (s)")
        axes.set_ylabel("queue (MB)")
        axes.legend()
    return figure
