"""Adjusters when the number of connections changes, and when a load halves.

Source: integrated TCP, section 5 (open questions); docs/ledger.md, A002-12 (a changed path, and a
changing number of connections).
Differs: `_network.py` describes the network. In the cases "connections" the largest weight is the
number n_i of open local connections, the other reading of the paper's text. In the cases "half",
half of the clients of subnet 1 stop at 2,000 s, so that its load falls to 0.27.

`path.py` simulates paths that become longer or shorter; here is a formula for them. A Vegas
connection of weight w remembers the base round-trip time d. When the path's round-trip time rises
to D, the connection keeps `w alpha D / (D - d)` packets in flight. So it sends at most `w alpha /
(D - d)` packets a second. From 40 ms to 80 ms, with weight 10 and alpha 1, that is 250 packets a
second, or 0.21 of the bottleneck. This is less than the load rho_1, so no adjuster can help.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import MEDIAN_RATIO, Numbers

from ._adjust import MOST
from ._cases import Cases, of
from ._load import E1, PACKET, RATE
from ._modes import DRIFT, WHY
from ._network import PAYLOAD, Setup, loads, network

changes = Experiment(__file__, seeds=6)

SECONDS, STOP = 4_000, 2_000

CONNECTIONS = Setup(seconds=SECONDS, adjuster={"most": "connections"})

HALF = Setup(seconds=SECONDS, stop={1: STOP})

CASES: dict[str, tuple[str, Setup]] = {
    "fixed": ("fixed", Setup(seconds=SECONDS)),
    "fixed, half": ("fixed", HALF),
    **{f"{mode}, connections": (mode, CONNECTIONS) for mode in ("literal", "measured")},
    **{f"{mode}, half": (mode, HALF) for mode in ("literal", "measured")},
}

BEFORE, AFTER = 0.040, 0.080
"""Round-trip times in seconds before and after the path becomes longer."""


@changes.run(case=list(CASES))
def measure(seed: int, case: str) -> dict[str, float]:
    mode, own = CASES[case]
    run = network(E1, mode, own).run(seed)
    series = [run[f"aggregate long{number}"] for number in (1, 2)]
    load = loads(E1) * np.array([0.5 if own.stop else 1.0, 1.0])
    late = series[0]["time_seconds"] > 1.5 * STOP
    above = np.ones(late.sum(), dtype=bool)
    row: dict[str, float] = {}
    for number, (it, least) in enumerate(zip(series, load, strict=True), 1):
        share = it["weight_share"].astype(float)[late]
        above &= share > least
        took = run["transfers"].where(group=f"files{number}")["took_seconds"].astype(float)
        row |= {
            f"share_{number}": float(share.mean()),
            f"weight_{number}": float(it["weight"][late].mean()),
            f"p99_{number}": float(np.quantile(took, 0.99)),
        }
    return row | {"all_above": float(above.mean())}


about = Cases(changes, "A002-12")
ABOVE = "part of the last quarter of the run with phi_i > rho_i for both"
for mode in ("literal", "measured"):
    about.claim(f"{mode}, connections", "all_above", ABOVE, at_least=0.9, why=WHY[mode])
    about.claim(
        f"{mode}, half",
        "all_above",
        f"load of class 1 halves: {ABOVE}",
        at_least=0.9,
        why=WHY[mode],
    )


@changes.claim("A002-12", "measured, connections over fixed: 99 % quantile of class 1",
               statistic=MEDIAN_RATIO, at_most=1, why=DRIFT)  # fmt: skip
def late(runs: Table) -> Numbers:
    count = min(len(of(runs, it, "p99_1")) for it in ("fixed", "measured, connections"))
    return of(runs, "measured, connections", "p99_1")[:count] / of(runs, "fixed", "p99_1")[:count]


@changes.claim(
    "A002-12", "path from 40 ms to 80 ms: most load that weight 10 carries, minus rho_1 (formula)",
    kind="shown otherwise", at_most=0,
)  # fmt: skip
def path(runs: Table) -> Numbers:
    most = MOST / (AFTER - BEFORE) * PACKET / (RATE * PAYLOAD)
    return np.full(len(runs.where(case="fixed")), most - loads(E1)[0])


@changes.figure
def figure(_runs: Table) -> Any:
    cases = ("literal, half", "measured, half", "measured, connections")
    figure, panels = plots.panels(list(cases), columns=3)
    for axes, case in zip(panels, cases, strict=True):
        mode, own = CASES[case]
        run = network(E1, mode, own).run(1)
        for number in (1, 2):
            series = run[f"aggregate long{number}"]
            axes.plot(series["time_seconds"], series["weight_share"], label=f"subnet {number}")
        if own.stop:
            axes.axvline(STOP, color="gray", linestyle=":")
        axes.set_ylim(0, 1)
        axes.set_xlabel("time (s)")
        axes.set_ylabel("share")
        axes.legend()
    return figure
