"""Web requests from one site to another over a path that only the two sites use.

Source: Bundler (EuroSys 2021, doi 10.1145/3447786.3456260), its base scenario, and the published
configuration of its figure 7. The path has 96 Mbit/s, a round-trip time of 50 ms and a queue of
three bandwidth-delay products. Senders use CUBIC. Requests begin at the times of a Poisson process
and offer 7/8 of the rate. Their sizes come from a trace of a core router: six points of a
distribution, with equally likely sizes in between.
Differs: each request opens a connection with a handshake. In the source, 200 open connections carry
the requests in rotation. The access links of sites carry 1 Gbit/s. The offered load excludes
headers.
"""

import functools
import itertools
from typing import Any

import numpy as np

from tidegate import Result, Scenario

RATE = 96_000_000
"""Rate of the bottleneck, bit/s."""

LOAD = 7 / 8
"""Offered load divided by the rate."""

POINTS = [(1, 0.0), (10_000, 0.976), (100_000, 0.995), (1_000_000, 0.999), (5_000_000, 0.9998),
          (100_000_000, 1.0)]  # fmt: skip
"""Distribution of request sizes: a size in bytes, and the fraction of requests up to this size."""

PARTS = [(low, high, until - since) for (low, since), (high, until) in itertools.pairwise(POINTS)]
"""The distribution as a mixture: smallest size, greatest size, and fraction of all requests."""

MEAN = sum((low + high) / 2 * part for low, high, part in PARTS)

BUFFER = 3 * RATE // 8 * 50 // 1000
"""Capacity of the bottleneck's queue, bytes."""

TUNNEL = {"kind": "per-flow", "limit": "128 MB", "flow_limit": "16 MB"}
FIRST = {
    "kind": "fq-codel",
    "limit": "128 MB",
    "packets": 131_072,
    "target": "10 s",
    "interval": "20 s",
}
"""FQ-CoDel serves new flows first. Its target is so high that CoDel never drops."""

BUFFERS = {"packets": 131_072}
"""Number of packet buffers of a gateway.

The receive window of a single user allows this number of packets in flight. With the default of
16,384 buffers, one seed of ten ran out of buffers.
"""

MANAGEMENT: dict[str, Any] = {"connections": 8, "tcp": {"congestion": "cubic"}}
"""Settings of a trunk that probes with management packets (small TCP segments without user data).

They are the best of the settings that were tried with seeds 101 to 103. Claims use other seeds.
"""

COPA: dict[str, Any] = {
    "connections": 1,
    "vmss": "3000 B",
    "tcp": {"profile": "linux", "congestion": {"kind": "copa", "target": 1}},
}
"""Settings of a trunk with Copa: one connection, and a management packet for 3000 user bytes.

They were found with seeds 101 to 103. Copa keeps one management packet in the path's queue. Beside
it wait about as many user bytes as with the probing method `epochs`, which has no such packets.
"""

THRESHOLD = 64
"""Capacity of the path's queue in management packets: 8 for each connection of a trunk."""

EPOCHS = {"probing": "epochs"}

CONTROLS: dict[str, tuple[dict[str, Any], dict[str, Any], str | None] | None] = {
    "none": None,
    "epochs": (EPOCHS, TUNNEL, None),
    "trunk": (MANAGEMENT, TUNNEL, None),
    "postack": (MANAGEMENT, TUNNEL, "postack"),
    "copa": (COPA, TUNNEL, None),
    "copa-postack": (COPA, TUNNEL, "postack"),
    "epochs-first": (EPOCHS, FIRST, None),
    "copa-first": (COPA, FIRST, None),
}
"""For each control: the trunk's settings, its tunnel queue, and the senders' ACK control.

With ``None`` there is no trunk.
"""


def network(control: str, *, duration: int, warmup: int) -> Scenario:
    """Two sites and the path between them, without traffic."""
    net = Scenario(duration=f"{duration} s", warmup=f"{warmup} s", tcp={"profile": "linux"})
    ends = [("192.0.2.1", "192.0.2.2"), ("192.0.2.2", "192.0.2.1")]
    for gateway, (local, peer) in zip(("left", "right"), ends, strict=True):
        net.gateway(gateway, policy(control, local, peer))
    net.host("server", gateway="left")
    net.host("client", gateway="right")
    net.router("path")
    net.link("left.wan", "path", rate="1 Gbit/s")
    how = CONTROLS[control]
    kind = "drop-tail" if how is None or how[0] is EPOCHS else "trunk-fifo"
    queue: dict[str, Any] = {"kind": kind, "limit": f"{BUFFER} B"}
    if kind == "trunk-fifo":
        queue["threshold"] = THRESHOLD
    net.link("path", "right.wan", rate=f"{RATE} bit/s", delay="25 ms", queue=queue)
    return net


def policy(control: str, local: str, peer: str) -> dict[str, Any]:
    """The policy file for the gateway of a site. It sends everything through the trunk."""
    how = CONTROLS[control]
    if how is None:
        return {"policy": [{"name": "all", "action": "pass"}]}
    probing, queue, ack_control = how
    trunk = {"name": "site", "local": local, "peer": peer, "queue": queue, **probing}
    rule: dict[str, Any] = {"name": "all", "action": "pass", "trunk": "site"}
    if ack_control:
        rule |= {"action": "shape", "profile": {"mean": "1 Gbit/s"}, "queue": queue}
        rule["ack_control"] = ack_control
    return {"gateway": BUFFERS, "trunk": [trunk], "policy": [rule]}


def requests(net: Scenario, start: str = "0 s") -> None:
    """Adds the Poisson process of requests, as one process for each part of the distribution."""
    every = 8 * MEAN / (LOAD * RATE)
    for n, (low, high, part) in enumerate(PARTS):
        size = {"uniform": [f"{low} B", f"{high} B"]}
        gap = f"{round(every / part * 1e9)} ns"
        net.traffic(f"web{n}", "arrivals", "server", "client", size=size, every=gap, start=start)


@functools.cache
def alone() -> tuple[np.ndarray, np.ndarray]:
    """Sizes of requests, and the time that each takes on an empty network."""
    sizes = np.unique(np.geomspace(100, 100_000_000, 49).round().astype(int))
    net = network("none", duration=20 * len(sizes), warmup=0)
    for n, size in enumerate(sizes):
        net.traffic(f"f{n}", "file", "server", "client", size=f"{size} B", start=f"{20 * n} s")
    times = net.run(1)["transfers"]
    order = np.argsort(times["bytes"])
    return times["bytes"][order], times["took_seconds"][order]


def slowdowns(run: Result, warmup: int) -> tuple[np.ndarray, np.ndarray]:
    """Size and slowdown of each request that began after the warm-up."""
    done = run["transfers"]
    counts = done["began_seconds"] >= warmup
    size, took = done["bytes"][counts], done["took_seconds"][counts]
    sizes, times = alone()
    return size, took / np.exp(np.interp(np.log(size), np.log(sizes), np.log(times)))
