"""Senders and receivers 52 ms from each other, and a policy of 10 Mbit/s between them.

Source: postack, ledger section 7 (the testbed's defaults) and section 9 (its own measurements).
Differs: only the paper's abstract is known, and it prints no parameters. These are the ledger's:
10 Mbit/s, 52 ms, four flows, windows of 64 KiB or as large as they grow. Hosts are like Linux 6.
The baseline is a queue for each flow (`per-flow`, deficit round robin), which holds 8 MiB of
each: no claim rests on what it drops, for it drops nothing. Runs take 40 s, of which 30 s count.
"""

from collections.abc import Mapping
from typing import Any

from tidegate import Result, Scenario

RATE = 10_000_000
"""Rate of the policy, bit/s."""

FLOWS = 4
NEAR, FAR = "100 us", "26 ms"
"""One-way delay of the senders' links, and of the receivers'."""

ACK_CONTROLS: dict[str, Any] = {
    "none": None,
    "gate": "postack",
    "bucket": {"kind": "postack", "release": "bucket"},
    "virtual-queue": {"kind": "postack", "release": "virtual-queue"},
    "tcr": "tcr",
}

RECORD, KEPT = 20, 128 + 66
"""Bytes of the record of a held ACK, and of the packet that the gateway keeps for each flow."""

WINDOWS = {"64 KiB": "64 KiB", "grown": None}


def network(
    ack_control: str | Mapping[str, Any],
    *,
    way: str = "up",
    window: str | None = "64 KiB",
    loss: str | None = None,
    tcp: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
    file: Mapping[str, Any] | None = None,
    flows: int = FLOWS,
    duration: str = "40 s",
    warmup: str = "10 s",
    far: str = FAR,
    varies: str | None = None,
    back: Mapping[str, Any] | None = None,
    relays: bool = False,
) -> Scenario:
    """Pairs of hosts with a gateway between them. Its policy has the ACK control ``ack_control``.

    The hosts ``l0``, ``l1``, … are on its LAN side, and ``w0``, ``w1``, … on its WAN side. Data
    goes ``up`` or ``down``. The link from the gateway to the WAN side has the delay ``far``, which
    ``varies`` at random by up to this time, and it loses ``loss`` of the data. The gateway has the
    one ``policy``, or the policy file ``file``. ``back`` has settings for the links towards the
    hosts ``l0``, ``l1``, … only. With ``relays`` there are hosts ``r0``, ``r1``, … between the
    gateway and the link to the WAN side.
    """
    settings: dict[str, Any] = {"profile": "linux", **(tcp or {})}
    if window is not None:
        settings.setdefault("receive_window", window)
    net = Scenario(duration=duration, warmup=warmup, tcp=settings)
    net.router("lan", "wan")
    net.gateway("gateway", file or {"policy": [rules(ack_control, way, **(policy or {}))]})
    for n in range(flows):
        net.hosts(f"l{n}", f"w{n}")
        net.link(f"l{n}", "lan", rate="1 Gbit/s", delay=NEAR, **({"back": back} if back else {}))
        net.link("wan", f"w{n}", rate="1 Gbit/s", delay="0 ms")
        if relays:
            net.hosts(f"r{n}")
            net.link("edge", f"r{n}", rate="1 Gbit/s", delay="0 ms")
    net.link("lan", "gateway.lan", rate="1 Gbit/s", delay="0 ms")
    beyond: dict[str, Any] = {"rate": "1 Gbit/s", "delay": far}
    if varies:
        beyond["jitter"] = {"uniform": varies}
    if loss:
        beyond |= {"loss": loss, "back": {"loss": "0 %"}}
    near = "gateway.wan"
    if relays:
        net.router("edge")
        net.link(near, "edge", rate="1 Gbit/s", delay="0 ms")
        near = "edge"
    ends = (near, "wan") if way == "up" else ("wan", near)
    net.link(*ends, **beyond)
    return net


def rules(ack_control: str | Mapping[str, Any], way: str, **fields: Any) -> dict[str, Any]:
    """The policy with an ACK control: one of :data:`ACK_CONTROLS`, or another."""
    spec = ACK_CONTROLS[ack_control] if isinstance(ack_control, str) else ack_control
    policy: dict[str, Any] = {
        "name": "all",
        "match": {"direction": way},
        "profile": {"mean": f"{RATE} bit/s", "burst": "15140 B"},
        "action": "shape",
        "allocation": "drr",
        "queue": {"kind": "per-flow", "limit": "32 MiB", "flow_limit": "8 MiB"},
        **fields,
    }
    if spec is not None:
        policy["ack_control"] = spec
    return policy


def bulk(
    net: Scenario, way: str = "up", flows: int = FLOWS, sides: str = "lw", **fields: Any
) -> None:
    """Endless transfers, one for each pair of hosts, that begin within half a second."""
    near, far = [[f"{side}{n}" for n in range(flows)] for side in sides]
    ends = (near, far) if way == "up" else (far, near)
    net.traffic("bulk", "greedy", *ends, **{"start": {"uniform": ["0 s", "500 ms"]}, **fields})


def measured(run: Result, way: str = "up") -> dict[str, float]:
    """Goodput in bit/s, fairness, mean and greatest queues in bytes, and losses."""
    group = run.groups.where(group="bulk")
    table = run.aggregates.where(policy="all", direction=way)
    aggregate = {name: column[0] for name, column in table.columns.items()}
    data = aggregate["waited_mean_seconds"] * aggregate["conforming_bps"] / 8
    flows = run.flows.where(group="bulk")
    return {
        "goodput": group["goodput_bps"][0],
        "jain": group["jain"][0],
        "rate": aggregate["conforming_bps"],
        "data": data,
        "acks": aggregate["held_acks"],
        "memory": data + aggregate["held_acks"] * RECORD + len(flows) * KEPT,
        "peak": aggregate["peak_waiting_bytes"],
        "peak_acks": aggregate["peak_held_acks"],
        "dropped": aggregate["dropped_packets"],
        "timeouts": float(flows["timeouts"].sum()),
        "retransmitted": float(flows["retransmitted_segments"].sum()),
    }
