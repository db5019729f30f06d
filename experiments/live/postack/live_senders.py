"""With held ACKs, no kind of real sender stalls or times out.

Source: postack; docs/ledger.md, A001-7 (compatibility), R001-15 (ACKs of much data) and R001-18
(packets that cannot be parsed).
Differs: `_live.py` describes labs of real hosts. Senders use CUBIC of this kernel. Each kind of
sender has one changed TCP setting. Two flows go up and, for some kinds, two down. Each kind runs
without offloads, and then with those of the kernel (TSO, GRO). There is no loss, so every timeout
is the gateway's fault.

Segments of 256 and 536 bytes get a quarter and a half of the rate, because two cores with eight
labs cannot forward four times the packets. At the full rate, gateways hung for 50 ms and more with
most seeds, also with a queue for each flow, and frames bypassed them; 0 to 470 segments of a run
were then rejected as old. Window scales are those that hosts choose for windows of up to 32 KiB, 64
KiB, ... 512 MiB. Segments of 8960 bytes fit no buffer of AF_XDP, so the gateway uses AF_PACKET for
them. This kernel has no VLAN devices; `tests/tests/senders.rs` tests frames in a VLAN, with hosts
that tag the frames themselves.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ...postack._network import rules
from ._live import HOSTS, bulk, hosts, missing, side_by_side

live_senders = Experiment(__file__, seeds=3, needs=missing)

V6 = {"near": "[fd73::1]", "far": "[fd73::2]"}
IPV4 = "/proc/sys/net/ipv4"
PATH = 'path="$(ip -4 route show dev eth0 | head -n 1) dev eth0"'
ROUTE = f"{PATH}; ip route replace $path"


def scale(bits: int) -> str:
    """A shell command for a receive window whose scale has this many bits."""
    return f"echo 4096 131072 {1 << 15 + bits} > {IPV4}/tcp_rmem; {ROUTE} window {1 << 15 + bits}"


KINDS = {
    "linux": "",
    "IPv6": "",
    "not scaled": f"echo 0 > {IPV4}/tcp_window_scaling",
    **{f"scale {bits}": scale(bits) for bits in range(15)},
    "no SACK": f"echo 0 > {IPV4}/tcp_sack",
    "no timestamps": f"echo 0 > {IPV4}/tcp_timestamps",
    "an ACK for each": f"{ROUTE} quickack 1",
    **{f"mss {mss}": f"{ROUTE} advmss {mss}" for mss in (256, 536, 1220)},
    "mss 8960": "ip link set eth0 mtu 9000",
}
DOWN = ["linux", "IPv6", "not scaled", "scale 0", "no SACK", "no timestamps", "mss 536"]
KINDS |= {f"{kind}, down": KINDS[kind] for kind in DOWN}
LONG = {"edge": ["lan", "wan"], "the-network-between-all-the-hosts": ["p0", "p1"]}
"""Ports between the hosts that need an MTU of 9000 for the longest segments."""

SMALL = {"mss 256": "2500 kbit/s", "mss 536": "5 Mbit/s"}
"""Rates for small segments; at the usual rate there would be too many packets."""

CASES = [
    f"{ack_control} {offload}"
    for ack_control in ("none", "gate")
    for offload in ("wire", "default")
]


@live_senders.run(kind=list(KINDS))
def measure(seed: int, kind: str) -> dict[str, float]:
    name, _, down = kind.partition(", ")
    way = down or "up"

    def run(case: str) -> dict[str, float]:
        ack_control, offload = case.split()
        long = name == "mss 8960"
        sockets = {"gateway": {"backend": "af-packet"}, "policy": [rules(ack_control, way)]}
        less = {"profile": {"mean": SMALL[name], "burst": "15140 B"}} if name in SMALL else {}
        file = sockets if long else None
        return bulk(
            hosts(ack_control, way=way, seconds=(3, 5), policy=less, file=file),
            way=way,
            setup=KINDS[kind],
            flows=2,
            offload=offload,
            hosts=V6 if name == "IPv6" else HOSTS,
            mtu=LONG if long else {},
        )

    return side_by_side(run, CASES)


def ratios(runs: Table) -> list[np.ndarray]:
    """Goodput with ACKs held over that with a queue for each flow, for both offload settings."""
    return [runs[f"gate {it} goodput"] / runs[f"none {it} goodput"] for it in ("wire", "default")]


def worst(runs: Table) -> Numbers:
    each = [ratio for kind in KINDS for ratio in ratios(runs.where(kind=kind))]
    return [min(turn) for turn in zip(*each, strict=True)]


def more(runs: Table, *names: str) -> Numbers:
    """Counters with ACKs held minus those with a queue for each flow, summed over all kinds."""
    sides = [(f"gate {it}", f"none {it}") for it in ("wire", "default")]
    cells = [runs.where(kind=kind) for kind in KINDS]
    return sum(
        cell[f"{gate} {name}"] - cell[f"{none} {name}"]
        for cell in cells
        for gate, none in sides
        for name in names
    )


@live_senders.claim(
    "A001-7", "live, worst of all kinds: goodput over that of a queue for each flow", at_least=0.97
)
def goodput(runs: Table) -> Numbers:
    return worst(runs)


@live_senders.claim(
    "A001-7", "live, all kinds: timeouts minus those of a queue for each flow", at_most=0
)
def timeouts(runs: Table) -> Numbers:
    return more(runs, "timeouts", "spurious")


@live_senders.claim(
    "A001-7",
    "live, all kinds: segments that arrived twice, minus those of a queue for each flow",
    at_most=0,
    margin=2,
    why="one segment arrived twice, in one of 192 runs with ACKs held; the reason for its "
    "retransmission is not known",
)
def twice(runs: Table) -> Numbers:
    return more(runs, "twice")


@live_senders.claim("A001-7", "live, all kinds: segments rejected as old (PAWS)", at_most=0)
def old(runs: Table) -> Numbers:
    cells = [runs.where(kind=kind) for kind in KINDS]
    each = [cell[f"gate {it} old"] for cell in cells for it in ("wire", "default")]
    return np.sum(each, axis=0)


@live_senders.figure
def figure(runs: Table) -> Any:
    figure, (axes,) = plots.panels(["goodput over that of a queue for each flow"])
    figure.set_size_inches(10, 4)
    for number, label in enumerate(("on the wire", "with offloads")):
        means = [ratios(runs.where(kind=kind))[number].mean() for kind in KINDS]
        axes.plot(list(KINDS), means, marker="o", linestyle="", label=label)
    axes.tick_params(axis="x", rotation=60)
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure
