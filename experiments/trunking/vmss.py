"""Without guarantees, the ratio of two trunks' rates is 2 to 15 % below the ratio of their VMSS.

Source: trunking, section 4 (VMSS gives any proportion); docs/ledger.md, R003-2.
Differs: the paper prints no run without guarantees. Two trunks share the link of figure 3. The
ratio of their rates is divided by the ratio of their VMSS. `trunks` are those of figure 4, with
NewReno like systems of that time. `today` are trunks with today's TCP: CUBIC, SACK and RACK, paced.
`tcp` has plain TCP instead of trunks, four NewReno connections each. Its segments are as long as a
VMSS, and the router treats them like management packets. A trunk should get the rate of such
connections, so `tcp` shows the ratio of the paper's own algorithm. ns-2 agrees
(docs/understand/trunking-measured.md).
"""

from typing import Any

import numpy as np

from tidegate import Scenario, Table
from tidegate.experiment import Experiment
from tidegate.statistics import MEDIAN_RATIO, Numbers

from ._network import ALPHA, BOTTLENECK_RATE, CONNECTIONS, required_buffer, reverse, trunk

vmss = Experiment(__file__)

PAIRS = {"3000:1500": (3000, 1500), "1500:500": (1500, 500), "6000:1500": (6000, 1500)}
"""VMSS of both trunks, bytes."""

SECONDS, WARMUP = 400, 20

OLD = {"recovery": "new-reno", "receive_window": "1 MiB"}
TODAY = {"profile": "linux", "pacing": True, "receive_window": "1 MiB"}
"""TCP of management connections. Their receivers do not limit the window."""

WITHIN = 0.05
"""Permitted relative distance of the ratio of rates from the ratio of VMSS."""

MANAGEMENT = "AF13"
"""The codepoint that the router reads as a management packet of a trunk of class 1."""


@vmss.run(pair=list(PAIRS), what=["trunks", "today", "tcp"])
def measure(seed: int, pair: str, what: str) -> dict[str, float]:
    sizes = PAIRS[pair]
    net = segments(sizes) if what == "tcp" else trunks(sizes, TODAY if what == "today" else OLD)
    first, second = net.run(seed).groups["throughput_bps"]
    return {"ratio": first / second / (sizes[0] / sizes[1])}


def bottleneck(sizes: tuple[int, int]) -> tuple[Scenario, dict[str, Any]]:
    """A scenario with the router of figure 3, and the fields of its bottleneck link."""
    net = Scenario(duration=f"{SECONDS} s", warmup=f"{WARMUP} s", link_header="0 B")
    net.router("e")
    queue = {
        "kind": "trunk-fifo",
        "limit": f"{required_buffer(CONNECTIONS, list(sizes), 0)} B",
        "threshold": len(sizes) * CONNECTIONS * ALPHA,
    }
    return net, {"rate": BOTTLENECK_RATE, "delay": "10 ms", "queue": queue}


def trunks(sizes: tuple[int, int], tcp: dict[str, Any]) -> Scenario:
    """Two trunks with these VMSS, full of UDP packets."""
    net, link = bottleneck(sizes)
    both = [trunk(f"t{n}", f"192.0.2.{n + 1}", size, 0, CONNECTIONS) | {"tcp": tcp}
            for n, size in enumerate(sizes)]  # fmt: skip
    net.gateway("f", {"trunk": [reverse(it) for it in both]})
    net.link("e", "f.wan", **link)
    for n, it in enumerate(both):
        user = {"name": "user", "action": "pass", "trunk": it["name"]}
        net.gateway(f"g{n}", {"trunk": [it], "policy": [user]})
        net.link(f"g{n}.wan", "e", rate=BOTTLENECK_RATE)
        net.host(f"s{n}", gateway=f"g{n}")
        net.host(f"r{n}", gateway="f")
        start = {"uniform": ["0 s", "0.2 s"]}
        udp: dict[str, Any] = {"rate": BOTTLENECK_RATE, "packet": "1500 B", "start": start}
        net.traffic(f"flow{n}", "cbr", f"s{n}", f"r{n}", **udp)
    return net


def segments(sizes: tuple[int, int]) -> Scenario:
    """Two groups of TCP connections with segments of these sizes."""
    net, link = bottleneck(sizes)
    net.router("f")
    net.link("e", "f", **link)
    for n, size in enumerate(sizes):
        net.hosts(f"s{n}", f"r{n}")
        net.link(f"s{n}", "e", rate=BOTTLENECK_RATE)
        net.link("f", f"r{n}", rate=BOTTLENECK_RATE)
        how: dict[str, Any] = {"tcp": {"profile": "rfc", "mss": f"{size} B", **OLD}}
        how |= {"dscp": MANAGEMENT, "start": {"uniform": ["0 s", "0.2 s"]}}
        net.traffic(f"flow{n}", "greedy", f"s{n}", f"r{n}", flows=CONNECTIONS, **how)
    return net


def ratio(runs: Table, pair: str, what: str) -> np.ndarray:
    return runs.where(pair=pair, what=what)["ratio"]


ROUTER = (
    "plain TCP with segments of these sizes has an even smaller ratio (`tcp`), in ns-2 too: the "
    "router drops by its average queue, which spares packets in quick succession while the queue "
    "grows"
)
NEAR = (
    "the ratio is 3.0 to 5.5 % too small, so ten runs cannot decide whether it is within the "
    "bound of 5 %"
)


def claim_pair(pair: str) -> None:
    """Adds the claims for one pair of VMSS."""
    name = pair.replace(":", "_")

    def trunks(runs: Table) -> Numbers:
        return ratio(runs, pair, "trunks")

    def tcp(runs: Table) -> Numbers:
        return ratio(runs, pair, "trunks") / ratio(runs, pair, "tcp")

    def today(runs: Table) -> Numbers:
        return ratio(runs, pair, "today")

    for measure in (trunks, tcp, today):
        measure.__name__ = f"{measure.__name__}_{name}"
    text = f"{pair}: ratio of rates over ratio of VMSS"
    vmss.claim("R003-2", text, paper=1, within=WITHIN, why=ROUTER)(trunks)
    text = f"{pair}: the same number over that of TCP with such segments"
    vmss.claim("R003-2", text, at_least=1, statistic=MEDIAN_RATIO)(tcp)
    text = f"{pair}, today's TCP in management connections, paced: ratio of rates over that of VMSS"
    vmss.claim("R003-2", text, at_least=1 - WITHIN, at_most=1 + WITHIN, why=NEAR)(today)


for pair in PAIRS:
    claim_pair(pair)
