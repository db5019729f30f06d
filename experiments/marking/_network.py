"""TCP flows with ECN share one bottleneck, the link of a gateway.

Source: marking, section 5.
Differs: the router is the gateway, whose link sends two frames of 1,514 B at once after a pause.
Senders have profile `ns2-2003`: NewReno, an ACK for each segment, and a least window of one
segment. Packets have 500 B from the IP header on, and 40 B of them are headers. Half of a flow's
delay is on its sender's link, half on its receiver's. The paper does not say when an off period
begins; here it begins when the burst is acknowledged.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from tidegate import Result, Scenario

PACKET, PAYLOAD = 500, 460
"""Packet size and payload, in bytes."""

BURST, PAUSE = 300, 1.0
"""Mean packets of a burst, and mean seconds of a pause."""

SECONDS, WARMUP = 70, 10
"""Length of a run and of its warm-up, in seconds."""

WINDOW = 0.25
"""Length in seconds of the sliding windows of figures 3, 4 and 5."""

STEP = 0.05
"""Seconds between two samples."""

ACCESS = "1 Gbit/s"

PROFILES: dict[str, dict[str, Any]] = {
    "ns2-2003": {"profile": "ns2-2003", "initial_window": 1},
    "rfc": {"profile": "rfc"},
    "linux": {"profile": "linux"},
}
"""Settings of senders and receivers; claims use `ns2-2003`."""

PAPER = {"tracker": "paper", "k": 10, "a": 0.9}
"""The paper's parameters of its flow tracker."""


def tcp(profile: str = "ns2-2003", **changed: Any) -> dict[str, Any]:
    """The settings of all hosts: segments of 460 B, and ECN."""
    return {**PROFILES[profile], "mss": f"{PAYLOAD} B", "ecn": "classic", **changed}


def scenario(
    gateway: Mapping[str, Any],
    *,
    profile: str = "ns2-2003",
    seconds: float = SECONDS,
    warmup: float = WARMUP,
    step: float = STEP,
    bound: str | None = None,
    rounds: bool = False,
    tracked: bool = False,
) -> Scenario:
    """A gateway ``edge`` with these tables of a policy file, and a probe of its upward packets."""
    net = Scenario(
        duration=f"{seconds} s", warmup=f"{warmup} s", sample=f"{round(step * 1e6)} us",
        link_header="0 B", tcp=tcp(profile),
    )  # fmt: skip
    net.router("near", "far")
    net.gateway("edge", gateway)
    net.link("near", "edge.lan")
    net.link("edge.wan", "far")
    more: dict[str, Any] = {"bound": bound} if bound else {}
    if rounds:
        more["rounds"] = True
    if tracked:
        more["tracked"] = True
    net.probe("passage", gateway="edge", direction="up", **more)
    return net


def flows(net: Scenario, name: str, kind: str, rtts: Sequence[float], **fields: Any) -> None:
    """Adds a flow for each of these base round-trip times in seconds.

    ``kind`` is ``"greedy"`` or ``"on-off"``.
    """
    if kind == "on-off":
        fields["size"] = {"exponential": f"{BURST * PAYLOAD} B"}
        fields["off"] = {"exponential": f"{PAUSE} s"}
    for number, rtt in enumerate(rtts):
        leg = f"{round(rtt / 4 * 1e9)} ns"
        source, sink = f"{name}-s{number}", f"{name}-d{number}"
        net.hosts(source, sink)
        net.link(source, "near", rate=ACCESS, delay=leg)
        net.link("far", sink, rate=ACCESS, delay=leg)
    ends = [[f"{name}-{side}{number}" for number in range(len(rtts))] for side in "sd"]
    net.traffic(name, kind, *ends, **fields)


def uniform(seed: int, what: str, count: int, least: float, most: float) -> list[float]:
    """Random numbers for ``what``.

    All algorithms get the same numbers, so that runs can be compared.
    """
    chance = Random(f"{seed} {what}")
    return [chance.uniform(least, most) for _ in range(count)]


def total(run: Result, what: str) -> np.ndarray:
    """A column of the probe `passage`, summed over all traffic, for each sample."""
    series = run["passage edge up"]
    columns = [column for name, column in series.columns.items() if name.endswith(f"_{what}")]
    return np.sum(np.array(columns, dtype=float), axis=0)
