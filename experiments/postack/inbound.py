"""Held ACKs keep downloads at their rate if the bottleneck is upstream of the gateway.

Source: postack; docs/ledger.md, R001-10 (placement D: the gateway is downstream of the bottleneck)
and A001-5 (a ping beside downloads); `tidegate demo` shows the same with real hosts.
Differs: docs/ledger.md has no numbers for this case. Four clients request endless downloads from
servers with round trips of 50, 300, 300 and 600 ms. The downloads share the provider's 8 Mbit/s
with one buffer of 256 KiB. The gateway downstream of it has a policy of 7.6 Mbit/s. A ping of 64
bytes in the same class comes every 100 ms. Shares, delays and throughput count for 30 s after the
first 10 s; losses count from the start. `queue` is a queue for each flow at the gateway that never
overflows.
"""

from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import rules

inbound = Experiment(__file__, seeds=30)

LINE, PROFILE = 8_000_000, 7_600_000
"""Rates of the provider's line, and of the policy downstream of it, bit/s."""

NEAR = 0.025
"""One-way delay between provider and client with empty queues, in seconds."""

BEYOND = ["0 ms", "125 ms", "125 ms", "275 ms"]
"""One-way delays of the servers' links."""

BURST = {"profile": {"mean": f"{PROFILE} bit/s", "burst": "32 KiB"}}
POLICED = {"name": "all", "match": {"direction": "down"}, "action": "police-drop", **BURST}
CASES = {
    "unmanaged": [],
    "policed": [POLICED],
    "queue": [rules("none", "down", **BURST)],
    "postack": [rules("gate", "down", **BURST)],
}
"""The gateway's policies in each case."""


ENDLESS = {"request": "200 B", "size": "1000 MB", "think": "1 s"}
"""A download that does not end within the run, on a connection that the client opens."""


def access(case: str, warmup: str) -> Scenario:
    net = Scenario(duration="40 s", warmup=warmup, tcp={"profile": "linux"})
    net.router("provider")
    net.gateway("gateway", {"policy": CASES[case]})
    net.hosts("client", "pinger")
    net.link("client", "gateway.lan", rate="1 Gbit/s", delay="0 ms")
    line: dict[str, Any] = {
        "rate": f"{LINE} bit/s",
        "queue": {"kind": "drop-tail", "limit": "256 KiB"},
    }
    back = {"rate": "1 Gbit/s", "queue": "drop-tail"}
    net.link("provider", "gateway.wan", delay=f"{NEAR} s", **line, back=back)
    net.link("pinger", "provider", rate="1 Gbit/s", delay="0 ms")
    start = {"uniform": ["0 s", "500 ms"]}
    for n, delay in enumerate(BEYOND):
        net.host(f"w{n}")
        net.link(f"w{n}", "provider", rate="1 Gbit/s", delay=delay)
        net.traffic(f"download-{n}", "web", f"w{n}", "client", start=start, **ENDLESS)
    ping = {"protocol": "udp", "rate": "5120 bit/s", "packet": "64 B", "start": "1 s"}
    net.traffic("ping", "cbr", "pinger", "client", **ping)
    return net


@inbound.run(case=list(CASES))
def measure(seed: int, case: str) -> dict[str, float]:
    later, whole = (access(case, warmup).run(seed) for warmup in ("10 s", "0 s"))
    downloads = later.groups["goodput_bps"][:-1]
    ping = later.groups.where(group="ping")
    ours = whole.drops.where(place="gateway")["dropped_packets"].sum()
    return {
        "throughput": later.groups["throughput_bps"][:-1].sum(),
        "jain": downloads.sum() ** 2 / len(downloads) / (downloads**2).sum(),
        "ping": ping["delay_mean_seconds"][0] - NEAR,
        "ping_p99": ping["delay_p99_seconds"][0] - NEAR,
        "ours": float(ours),
        "theirs": float(whole.drops["dropped_packets"].sum() - ours),
        "later": float(later.drops["dropped_packets"].sum()),
    }


def of(runs: Table, column: str, case: str = "postack") -> np.ndarray:
    return runs.where(case=case)[column]


@inbound.claim("R001-10", "throughput over the profile's rate", at_least=0.95)
def throughput(runs: Table) -> Numbers:
    return of(runs, "throughput") / PROFILE


@inbound.claim("R001-10", "throughput over that with a policer", at_least=1)
def over_policed(runs: Table) -> Numbers:
    return of(runs, "throughput") / of(runs, "throughput", "policed")


@inbound.claim("R001-10", "Jain index of the downloads", at_least=0.95)
def jain(runs: Table) -> Numbers:
    return of(runs, "jain")


@inbound.claim("A001-5", "added delay of the ping, over that without a gateway", at_most=0.25)
def ping(runs: Table) -> Numbers:
    return of(runs, "ping") / of(runs, "ping", "unmanaged")


@inbound.claim("A001-5", "99th percentile of the added delay, over the same", at_most=0.25)
def ping_p99(runs: Table) -> Numbers:
    return of(runs, "ping_p99") / of(runs, "ping_p99", "unmanaged")


@inbound.claim("R001-10", "packets dropped by the gateway", at_most=0)
def ours(runs: Table) -> Numbers:
    return of(runs, "ours")


@inbound.claim("R001-10", "packets lost anywhere after the first 10 s", at_most=0)
def later(runs: Table) -> Numbers:
    return of(runs, "later")


@inbound.claim(
    "R001-10", "packets dropped by the provider in 40 s, over those without a gateway", at_most=0.5
)
def theirs(runs: Table) -> Numbers:
    return of(runs, "theirs") / of(runs, "theirs", "unmanaged")


@inbound.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["added delay of the ping, ms", "provider's drops, packets"])
    for axes, column, scale in zip(panels, ("ping", "theirs"), (1e3, 1), strict=True):
        axes.bar(list(CASES), [np.mean(of(runs, column, case)) * scale for case in CASES])
    return figure
