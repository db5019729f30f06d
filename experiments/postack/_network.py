"""Senders and receivers 52 ms apart, and a gateway between them with a policy of 10 Mbit/s.

Source: postack; docs/ledger.md, A001-1 to A001-10 (the expectations of the paper).
Differs: only the paper's abstract is available, and it prints no parameters. The parameters are
ours: 10 Mbit/s, 52 ms, four flows, windows of 64 KiB or without a limit. Hosts are like Linux 6.
ACK control has three release rules: "gate" (the default, also P3), "bucket" (P1) and
"virtual-queue" (P2). The baseline is "none", a queue for each flow (`per-flow`, deficit round
robin) that holds 8 MiB per flow, so that it never drops. Runs take 40 s, of which 30 s count.
"""

from collections.abc import Mapping
from typing import Any

from tidegate import Result, Scenario

RATE = 10_000_000
"""Rate of the policy, bit/s."""

FLOWS = 4
NEAR, FAR = "100 us", "26 ms"
"""One-way delays of the links to the senders and to the receivers."""

ACK_CONTROLS: dict[str, Any] = {
    "none": None,
    "gate": "postack",
    "bucket": {"kind": "postack", "release": "bucket"},
    "virtual-queue": {"kind": "postack", "release": "virtual-queue"},
    "tcr": "tcr",
}

RECORD, KEPT = 20, 128 + 66
"""Memory in bytes: the record of a held ACK, and the packet that is kept for each flow."""

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
    """Pairs of hosts with a gateway between them, whose policy has this ACK control.

    Hosts ``l0``, ``l1``, … are on the LAN side, and ``w0``, ``w1``, … on the WAN side.

    Args:
        ack_control: a name of :data:`ACK_CONTROLS`, or the fields of an ACK control.
        way: direction of the data, ``"up"`` or ``"down"``.
        window: receive window of all hosts; None for no limit.
        loss: fraction of the data that the link on the WAN side loses.
        tcp: settings of all hosts.
        policy: fields that replace fields of the policy.
        file: policy file to use instead.
        flows: number of pairs of hosts.
        duration: length of the run.
        warmup: time at its beginning that does not count.
        far: delay of the link on the WAN side.
        varies: greatest random addition to this delay.
        back: settings of the links towards ``l0``, ``l1``, … only.
        relays: adds hosts ``r0``, ``r1``, … between the gateway and the link on the WAN side.
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
    """The policy, with an ACK control of :data:`ACK_CONTROLS` or with its fields."""
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
    """Adds an endless transfer for each pair of hosts; all begin within half a second."""
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
