"""The paper's server and its four clients, the network of figures 3 to 11.

Source: aggregates, section 4.1 and figure 1b.
Differs: the paper controls rates inside the sending host. Here a gateway next to the host does.
The gateway's queues hold one window for each connection, so that shaping loses no packet, like a
host that holds back packets. The paper prints neither rate, burst and peak of the aggregate nor
packet size, buffers and cross traffic. The rate here is the one at which unequal partitions leave
12.5 % unused (the paper: 13 %). The burst carries this rate for the mean round-trip time. All other
values are defaults of ns-2: packets of 1000 bytes, windows of 20 packets, buffers of 50 packets.
There is no cross traffic. Connections begin at random times within 5 s. If the order in which they
begin decides a claim, the experiment also shows the reverse order.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate import Result, Scenario, Table, jain, max_min_index, max_min_shares, plots

RATE = 800_000
"""Mean rate of the aggregate, bit/s."""

CLIENTS = ["n2", "n3", "n4", "n5"]
ROUND_TRIPS = [0.050, 0.300, 0.300, 0.600]
"""Round-trip times of the clients in seconds, while all queues are empty."""

NAMES = [f"{name}: {rtt * 1000:.0f} ms" for name, rtt in zip(CLIENTS, ROUND_TRIPS, strict=True)]

LINKS = {"equal": [500_000] * 4, "unequal": [1_000_000, 500_000, 500_000, 100_000]}
"""Rates of the clients' own links, bit/s."""

PACKET = 1000
"""Length of a full packet with its headers, bytes."""

BURST = 32
"""Depth of the aggregate's bucket, kB: its rate times the mean round-trip time."""

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
"""ns-2's RED at the time of the paper, with the paper's thresholds and weight."""

QUEUE = {"kind": "per-flow", "limit": "4 MiB", "flow_limit": "256 KiB"}
"""Queue of the aggregate; it holds more than the windows of all connections."""


def server(
    allocation: str | Mapping[str, Any] | None = None,
    links: str = "equal",
    action: str = "shape",
    triggers: str = "timer",
    interval: str = "15 ms",
    packet: int = PACKET,
    burst: int = BURST,
    order: Sequence[str] = (),
    cross: int = 0,
    jitter: str | None = None,
    scale: int = 1,
    peak: bool = True,
) -> Scenario:
    """Four endless downloads from one server. With an allocation, a gateway controls their rates.

    Args:
        allocation: the rule that gives tokens to flows. With None, the gateway has no policy.
        links: rates of the clients' own links: ``"equal"`` or ``"unequal"``.
        action: ``"shape"``, ``"police-mark"`` or ``"police-drop"``.
        triggers: events after which the gateway looks for packets that conform.
        interval: period of the shaping timer.
        packet: length of a full packet, bytes.
        burst: depth of the bucket, kB.
        order: clients in the order of their beginning; at random if empty.
        cross: number of endless downloads from ``nb`` that share the access link.
        jitter: variation of the delay of each packet on the clients' links.
        scale: multiplies connections, rates, bursts and buffers.
        peak: gives the profile a peak rate, the rate of the access link.
    """
    net = Scenario(
        duration="300 s",
        warmup="50 s",
        sample="1 s",
        link_header="0 B",
        tcp={
            "profile": "ns2-2003",
            "congestion": "newreno",
            "mss": f"{packet - 40} B",
            "receive_window": f"{20 * (packet - 40)} B",
        },
    )
    net.host("n0", gateway="qosmgr")
    net.gateway("qosmgr", policies(allocation, action, triggers, interval, scale, burst, peak))
    net.router("n1")
    line = {"kind": "drop-tail", "limit": f"{50 * PACKET * scale} B"}
    access(net, ERED if action == "police-mark" else line, cross, scale)
    for client, rate, rtt in zip(CLIENTS, LINKS[links], ROUND_TRIPS, strict=True):
        net.host(client)
        link: dict[str, Any] = {
            "rate": f"{rate * scale} bit/s",
            "delay": f"{rtt * 500 - 10:.0f} ms",
        }
        link |= {"jitter": jitter} if jitter else {}
        net.link("n1", client, queue=line, **link)
    if not order:
        start = {"uniform": ["0 s", "5 s"]}
        net.traffic("downloads", "greedy", "n0", CLIENTS, flows=scale, start=start)
    for place, client in enumerate(order):
        start = {"uniform": [f"{place} s", f"{place}.9 s"]}
        net.traffic(f"download-{client}", "greedy", "n0", client, start=start)
    for traffic in [each["name"] for each in net.tables["traffic"]]:
        net.probe("throughput", traffic=traffic)
    return net


def access(net: Scenario, queue: Mapping[str, Any], cross: int, scale: int) -> None:
    """Adds the access link, with ``cross`` downloads from ``nb`` that share it."""
    link: dict[str, Any] = {"rate": f"{1500 * scale} kbit/s", "delay": "10 ms", "queue": queue}
    if not cross:
        net.link("qosmgr.wan", "n1", **link)
        return
    net.router("edge")
    net.hosts("nb", "others")
    net.link("qosmgr.wan", "edge")
    net.link("nb", "edge", rate="10 Mbit/s", delay="10 ms")
    net.link("edge", "n1", **link)
    net.link("n1", "others", rate="10 Mbit/s", delay="10 ms")
    start = {"uniform": ["0 s", "5 s"]}
    net.traffic("cross", "greedy", "nb", "others", flows=cross, start=start)


def policies(
    allocation: str | Mapping[str, Any] | None,
    action: str,
    triggers: str,
    interval: str,
    scale: int,
    burst: int,
    peak: bool = True,
) -> Mapping[str, Any]:
    """The policy file of the server's gateway."""
    if allocation is None:
        return {}
    policy: dict[str, Any] = {
        "name": "downloads",
        "match": {"protocol": "tcp", "direction": "up"},
        "profile": {
            "mean": f"{RATE * scale} bit/s",
            **({"peak": f"{1500 * scale} kbit/s"} if peak else {}),
            "burst": f"{burst * scale} kB",
        },
        "action": action,
        "allocation": allocation,
    }
    if action == "police-mark":
        policy["mark"] = {"in": "AF11", "out": "DF"}
    elif action == "shape":
        policy["queue"] = QUEUE
    timer = {"shaping_interval": interval, "shaping_triggers": triggers}
    return {"gateway": timer, "policy": [policy]}


def measured(run: Result, links: str = "equal") -> dict[str, float]:
    """Rates at the receivers in bit/s, fairness, and the used fraction of the aggregate's rate."""
    flows = run.flows.where(**{"from": "n0"})
    order = [flows["to"].tolist().index(client) for client in CLIENTS]
    rates = flows["throughput_bps"][order]
    shares = max_min_shares(RATE, LINKS[links])
    values = {f"{client}_bps": float(rate) for client, rate in zip(CLIENTS, rates, strict=True)}
    values["total_bps"] = float(rates.sum())
    values["utilisation"] = float(rates.sum()) / RATE
    values["jain"] = jain(rates)
    values["max_min"] = max_min_index(rates, shares)
    ours = run.aggregates.where(policy="downloads", direction="up")
    if len(ours):
        values["compliant_bps"] = float(ours["conforming_bps"][0])
        arrived = float(flows["received_packets"].sum() / flows["sent_packets"].sum())
        values["loss"] = 1 - arrived
    return values


def draw(titles: Sequence[str], runs: Sequence[Result]) -> Any:
    """One panel for each run with the throughput of every client over time."""
    figure, axes = plots.panels(titles)
    for each, run in zip(axes, runs, strict=True):
        plots.mean_throughput(each, downloads(run), NAMES)
    return figure


def downloads(run: Result) -> Table:
    """The series of the four downloads in the order of the clients."""
    if "flows of downloads" in run.tables:
        return run["flows of downloads"]
    series = [run[f"flows of download-{client}"] for client in CLIENTS]
    columns = {f"flow_{number}_bytes": each["flow_0_bytes"] for number, each in enumerate(series)}
    return Table({"time_seconds": series[0]["time_seconds"], **columns})
