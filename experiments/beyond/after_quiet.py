"""After an idle period, requests between two sites fill the path within seconds.

Source: Copa (NSDI 2018), section 2.1; RFC 5681, section 4.2, for delayed ACKs.
Differs: `_site.py` describes the sites and their requests. For 5 s, the first site sends 3 Mbit/s
to the second site, which sends back 100 kbit/s. Each management packet of the second site is then
acknowledged alone, and 40 ms late. Then requests begin. Their data goes to the second site, so
their ACKs go through the trunk that had sent little. A small request has less than 100 kB. The
bound of 4 s was chosen when the results were known: 2.6 s, and 11.2 s if Copa's target queue is one
segment in place of two.
"""

import numpy as np

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import SHARE, Numbers

from ._site import PARTS, RATE, network, requests

after_quiet = Experiment(__file__, seeds=20)

QUIET, DURATION = 5, 24
"""Length of the idle period and of a run, in seconds."""

SMALL = 100_000
"""Size below which a request is small, bytes."""

FULL = 0.9
"""The path counts as full if this fraction of its rate is used."""


@after_quiet.run()
def measure(seed: int) -> dict[str, float]:
    net = network("copa", duration=DURATION, warmup=0)
    net.sample = "1 s"
    stop = f"{QUIET} s"
    seldom = {"packet": "1500 B", "stop": stop}
    net.traffic("back", "cbr", "client", "server", rate="100 kbit/s", **seldom)
    net.traffic("ahead", "cbr", "server", "client", rate="3 Mbit/s", **seldom)
    requests(net, start=stop)
    run = net.run(seed)
    table, done, drops = run.windowed(), run["transfers"], run.drops
    rates = [table[f"web{n}_bps"] for n in range(len(PARTS))]
    full = np.flatnonzero(np.sum(rates, axis=0) >= FULL * RATE)
    return {
        "longest": done["took_seconds"][done["bytes"] < SMALL].max(),
        "full": table["time_seconds"][full[0]] - QUIET if len(full) else np.inf,
        "lost": drops["dropped_packets"][drops["reason"] != "aqm"].sum(),
    }


@after_quiet.claim(
    "beyond", "Copa: share of seeds in which no small request takes longer than a second",
    at_least=0.8, statistic=SHARE,
)  # fmt: skip
def short(runs: Table) -> Numbers:
    return (runs["longest"] <= 1).astype(float)


@after_quiet.claim("beyond", "Copa: seconds until the path is full", at_most=4)
def full(runs: Table) -> Numbers:
    return runs["full"]


@after_quiet.claim("beyond", "Copa: user packets lost", at_most=0)
def lost(runs: Table) -> Numbers:
    return runs["lost"]
