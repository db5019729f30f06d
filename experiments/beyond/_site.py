"""Web requests from one site to another over a path that only they use.

Source: Bundler (EuroSys 2021, doi 10.1145/3447786.3456260), its base scenario, and the
published configuration of its figure 7: 96 Mbit/s, a round-trip time of 50 ms, a queue of three
bandwidth-delay products, CUBIC, requests at the times of a Poisson process that offer 7/8 of the
rate, their sizes from a trace of a core router: six points of a distribution, in between each size
equally likely.
Differs: each request has a connection of its own, which begins with a handshake, and there are not
200 that take turns; the access links of sites carry 1 Gbit/s; what is offered is counted without
headers.
"""

import functools
import itertools
from typing import Any

import numpy as np

from tidegate import Result, Scenario

RATE = 96_000_000
"""Of the bottleneck, bit/s."""

LOAD = 7 / 8
"""What is offered, of that."""

POINTS = [(1, 0.0), (10_000, 0.976), (100_000, 0.995), (1_000_000, 0.999), (5_000_000, 0.9998),
          (100_000_000, 1.0)]  # fmt: skip
"""Sizes of requests in bytes, and which part is no larger."""

PARTS = [(low, high, until - since) for (low, since), (high, until) in itertools.pairwise(POINTS)]
"""The distribution as a mixture: from, to, and which part of all requests."""

MEAN = sum((low + high) / 2 * part for low, high, part in PARTS)

BUFFER = 3 * RATE // 8 * 50 // 1000
"""Room at the bottleneck in bytes."""

TUNNEL = {"kind": "per-flow", "limit": "128 MB", "flow_limit": "16 MB"}
FIRST = {
    "kind": "fq-codel",
    "limit": "128 MB",
    "packets": 131_072,
    "target": "10 s",
    "interval": "20 s",
}
"""Flows apart, and new ones first: FQ-CoDel, whose CoDel has nothing to do."""

BUFFERS = {"packets": 131_072}
"""Room for what the receive window of a user lets be under way, so that none need be lost, and as
many packet buffers (with half the room two seeds of ten lost packets of one flow each, with the
default of 16,384 buffers one seed had none left)."""

MANAGEMENT: dict[str, Any] = {"connections": 8, "tcp": {"congestion": "cubic"}}
"""The best of what was tried with seeds 101 to 103, which are not judged."""

COPA: dict[str, Any] = {
    "connections": 1,
    "vmss": "3000 B",
    "tcp": {"profile": "linux", "congestion": {"kind": "copa", "target": 1}},
}
"""One connection, of which as many bytes of users are meant to wait as of epochs: what a management
packet stands for. Found with seeds 101 to 103."""

THRESHOLD = 64
"""Management packets that may wait: 8 of each connection."""

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
"""No trunk; how a trunk probes, its tunnel queue, and how senders are told."""


def network(control: str, *, duration: int, warmup: int) -> Scenario:
    """Two sites, without their traffic."""
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
    """What the gateway of a site does: its trunk to the other."""
    how = CONTROLS[control]
    if how is None:
        return {"policy": [{"name": "all", "action": "pass"}]}
    probing, queue, signal = how
    trunk = {"name": "site", "local": local, "peer": peer, "queue": queue, **probing}
    rule: dict[str, Any] = {"name": "all", "action": "pass", "trunk": "site"}
    if signal:
        rule |= {"action": "shape", "profile": {"mean": "1 Gbit/s"}, "queue": queue}
        rule["signal"] = signal
    return {"gateway": BUFFERS, "trunk": [trunk], "policy": [rule]}


def requests(net: Scenario) -> None:
    """The Poisson process of requests, as one for each part of the distribution."""
    every = 8 * MEAN / (LOAD * RATE)
    for n, (low, high, part) in enumerate(PARTS):
        size = {"uniform": [f"{low} B", f"{high} B"]}
        gap = f"{round(every / part * 1e9)} ns"
        net.traffic(f"web{n}", "arrivals", "server", "client", size=size, every=gap)


@functools.cache
def alone() -> tuple[np.ndarray, np.ndarray]:
    """Sizes, and how long a request of each takes where nobody else sends."""
    sizes = np.unique(np.geomspace(100, 100_000_000, 49).round().astype(int))
    net = network("none", duration=20 * len(sizes), warmup=0)
    for n, size in enumerate(sizes):
        net.traffic(f"f{n}", "file", "server", "client", size=f"{size} B", start=f"{20 * n} s")
    times = net.run(1)["transfers"]
    order = np.argsort(times["bytes"])
    return times["bytes"][order], times["took_seconds"][order]


def slowdowns(run: Result, warmup: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each request that began after the warm-up: size, and how often longer it took."""
    done = run["transfers"]
    counts = done["began_seconds"] >= warmup
    size, took = done["bytes"][counts], done["took_seconds"][counts]
    sizes, times = alone()
    return size, took / np.exp(np.interp(np.log(size), np.log(sizes), np.log(times)))
