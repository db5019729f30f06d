"""The paper's server and its four clients: what figures 3 to 11 have in common.

Source: aggregates, section 4.1 and figure 1b.
Differs: the paper controls rates inside the sending host; ours stands right behind it, as a
gateway. What waits there is no more than a window of each connection, and its queues hold that
much, so that shaping loses nothing, as a host that holds its own packets back loses nothing. The
paper prints neither the aggregate's rate nor its burst and peak, the packet size, the buffers or
the cross traffic: the rate is the one at which unequal partitions leave 12.5 % unused (the paper:
13 %), the burst is the mean round-trip time's worth of it, the rest are ns-2's defaults (packets of
1000 bytes, windows of 20 packets, buffers of 50), and there is no cross traffic.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate import Result, Scenario, jain, max_min_index, max_min_shares, plots

RATE = 800_000
"""Mean rate of the aggregate, bit/s."""

CLIENTS = ["n2", "n3", "n4", "n5"]
ROUND_TRIPS = [0.050, 0.300, 0.300, 0.600]
"""Of the clients, in s, when nothing waits."""

NAMES = [f"{name}: {rtt * 1000:.0f} ms" for name, rtt in zip(CLIENTS, ROUND_TRIPS, strict=True)]

LINKS = {"equal": [500_000] * 4, "unequal": [1_000_000, 500_000, 500_000, 100_000]}
"""Rates of the clients' own links, bit/s."""

PACKET = 1000
"""Length of a full packet with its headers, bytes."""

BUFFER = f"{50 * PACKET} B"

ERED = {
    "kind": "ered",
    "k": 1.5,
    "red": {
        "limit": BUFFER,
        "min": f"{5 * PACKET} B",
        "max": f"{15 * PACKET} B",
        "max_p": "10 %",
        "weight": "0.2 %",
        "gentle": False,
        "packet": f"{PACKET} B",
    },
}
"""The paper's router: thresholds and weight are ns-2's of its time for RED."""


def server(
    allocation: str | Mapping[str, Any] | None = None,
    links: str = "equal",
    action: str = "shape",
    triggers: str = "timer",
) -> Scenario:
    """Four endless downloads from one server; with an allocation, one controlled aggregate."""
    net = Scenario(
        duration="300 s",
        warmup="50 s",
        sample="1 s",
        link_header="0 B",
        tcp={
            "profile": "ns2-2003",
            "congestion": "newreno",
            "mss": f"{PACKET - 40} B",
            "receive_window": f"{20 * (PACKET - 40)} B",
        },
    )
    router = ERED if action == "police-mark" else {"kind": "drop-tail", "limit": BUFFER}
    net.host("n0", gateway="qosmgr")
    net.gateway("qosmgr", policies(allocation, action, triggers))
    net.router("n1")
    net.link("qosmgr.wan", "n1", rate="1500 kbit/s", delay="10 ms", queue=router)
    for client, rate, rtt in zip(CLIENTS, LINKS[links], ROUND_TRIPS, strict=True):
        net.host(client)
        delay = f"{rtt * 500 - 10:.0f} ms"
        queue = {"kind": "drop-tail", "limit": BUFFER}
        net.link("n1", client, rate=f"{rate} bit/s", delay=delay, queue=queue)
    net.traffic("downloads", "greedy", "n0", CLIENTS, start={"uniform": ["0 s", "5 s"]})
    net.probe("throughput", traffic="downloads")
    return net


def policies(
    allocation: str | Mapping[str, Any] | None, action: str, triggers: str
) -> Mapping[str, Any]:
    """The policy file of the server's gateway."""
    if allocation is None:
        return {}
    policy: dict[str, Any] = {
        "name": "downloads",
        "match": {"protocol": "tcp", "direction": "up"},
        "profile": {"mean": f"{RATE} bit/s", "peak": "1500 kbit/s", "burst": "32 kB"},
        "action": action,
        "allocation": allocation,
    }
    if action == "police-mark":
        policy["mark"] = {"in": "AF11", "out": "DF"}
    timer = {"shaping_interval": "15 ms", "shaping_triggers": triggers}
    return {"gateway": timer, "policy": [policy]}


def measured(run: Result, links: str = "equal") -> dict[str, float]:
    """What the claims are about: rates in bit/s at the receivers, fairness, use of the rate."""
    rates = run.flows["throughput_bps"]
    shares = max_min_shares(RATE, LINKS[links])
    values = {f"{client}_bps": float(rate) for client, rate in zip(CLIENTS, rates, strict=True)}
    values["total_bps"] = float(rates.sum())
    values["utilisation"] = float(rates.sum()) / RATE
    values["jain"] = jain(rates)
    values["max_min"] = max_min_index(rates, shares)
    ours = run.aggregates.where(policy="downloads", direction="up")
    if len(ours):
        values["compliant_bps"] = float(ours["conforming_bps"][0])
        values["loss"] = float(run.links["dropped_packets"].sum()) / float(
            run.flows["sent_packets"].sum()
        )
    return values


def draw(titles: Sequence[str], runs: Sequence[Result]) -> Any:
    """A panel for each run: every client's throughput so far."""
    figure, axes = plots.panels(titles)
    for each, run in zip(axes, runs, strict=True):
        plots.mean_throughput(each, run["flows of downloads"], NAMES)
    return figure
