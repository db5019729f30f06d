"""A home's access line with a provider's buffer, and a gateway that sends at 95 % of its rate.

Source: postack; docs/ledger.md, R001-10 (placement D: the gateway is downstream of the bottleneck).
The gateway's `rate` is a little below the line's rate, and one policy with this rate holds the ACKs
of all downloads.
Differs: docs/ledger.md has no numbers for this case. The line has 25 Mbit/s and a buffer of 100 ms.
Hosts are like Linux 6 with CUBIC, and each server has its own round-trip time.
"""

from collections.abc import Mapping
from typing import Any

from tidegate import Result, Scenario

from ._network import ACK_CONTROLS

LINE = 25_000_000
"""Rate of the provider's line, bit/s."""

PART = 0.95
"""Rate of the gateway, as a fraction of the line's rate."""

BUFFER = 0.1
"""Capacity of the provider's buffer, in seconds at the line's rate."""

NEAR = 200e-6
"""One-way delay from the provider to the client, in seconds."""


def policy(ack_control: str | Mapping[str, Any], rate: float, **fields: Any) -> dict[str, Any]:
    """A policy for TCP downloads that holds ACKs, or only shapes with the ACK control `none`."""
    spec = ACK_CONTROLS[ack_control] if isinstance(ack_control, str) else ack_control
    rule: dict[str, Any] = {
        "name": "downloads",
        "match": {"direction": "down", "protocol": "tcp"},
        "profile": {"mean": f"{round(rate)} bit/s"},
        "action": "shape",
        **fields,
    }
    if spec is not None:
        rule["ack_control"] = spec
    return rule


def line(
    ack_control: str | Mapping[str, Any],
    servers: Mapping[str, float],
    *,
    rate: int = LINE,
    file: Mapping[str, Any] | None = None,
    seconds: int = 60,
    **tcp: Any,
) -> Scenario:
    """A client on the gateway's LAN side, and servers by name with round-trip times in seconds.

    ``file`` replaces parts of the policy file, and ``tcp`` has settings of all hosts. There is no
    warm-up, so that all drops count; :func:`rate_of` takes the time from which a rate counts.
    """
    net = Scenario(duration=f"{seconds} s", sample="1 s", tcp={"profile": "linux", **tcp})
    kept = rate * PART
    rates = {"up": "1 Gbit/s", "down": f"{round(kept)} bit/s"}
    whole = {"gateway": {"rate": rates}, "policy": [policy(ack_control, kept)], **(file or {})}
    net.router("provider")
    net.gateway("gateway", whole)
    net.host("client")
    net.link("client", "gateway.lan", rate="1 Gbit/s", delay=_delay(NEAR / 2))
    net.link(
        "provider", "gateway.wan", rate=f"{rate} bit/s", delay=_delay(NEAR / 2),
        queue={"kind": "drop-tail", "limit": f"{round(rate * BUFFER / 8)} B"},
        back={"rate": "1 Gbit/s", "queue": "drop-tail"},
    )  # fmt: skip
    for name, round_trip in servers.items():
        net.host(name)
        net.link(name, "provider", rate="1 Gbit/s", delay=_delay(round_trip / 2 - NEAR))
    return net


def rate_of(run: Result, group: str, since: float) -> float:
    """Goodput of a group from ``since`` on, in bit/s."""
    table = run.windowed("goodput over time")
    return float(table[f"{group}_bps"][table["time_seconds"] > since].mean())


def dropped(run: Result) -> float:
    """Packets dropped by the provider and by the gateway."""
    return float(run.drops["dropped_packets"].sum())


def _delay(seconds: float) -> str:
    return f"{round(seconds * 1e6)} us"
