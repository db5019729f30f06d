"""At a router that drops small and large packets alike, a trunk takes the rate of as many TCPs.

Source: trunking, section 8 ("100% TCP-friendly"); docs/ledger.md, A003-8 (a trunk beside TCP).
Differs: the paper makes no such experiment. A trunk full of UDP has a VMSS of one TCP segment. It
shares 9.6 Mbit/s and 20 ms each way with as many TCP connections as it has management connections,
all NewReno. The router is RED, or Drop-Tail by bytes, as in most simulators. Drop-Tail by bytes
accepts a management packet of 52 bytes when the queue has no room for a user packet, so the trunk
loses few packets. RED, PIE, CoDel and queues counted in packets drop management packets like
others.
"""

from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import BOTTLENECK_RATE, reverse, trunk

friendly = Experiment(__file__)

ROUTERS = {
    "red": {"kind": "red", "limit": "150 kB", "min": "15 kB", "max": "60 kB"},
    "drop-tail": {"kind": "drop-tail", "limit": "75 kB"},
}


def rivals(router: str, connections: int) -> Scenario:
    """A trunk and TCP share a router, with ``connections`` connections each."""
    tcp = {"recovery": "new-reno", "receive_window": "1 MiB"}
    net = Scenario(
        duration="300 s",
        warmup="50 s",
        sample="1 s",
        link_header="0 B",
        tcp={"profile": "rfc", **tcp},
    )
    it = trunk("t", "192.0.2.1", 1500, 0, connections) | {"tcp": tcp}
    user = {"name": "user", "action": "pass", "trunk": "t"}
    net.gateway("near", {"trunk": [it], "policy": [user]})
    net.gateway("far", {"trunk": [reverse(it)]})
    net.router("middle")
    net.host("a", gateway="near")
    net.host("b", gateway="far")
    net.hosts("c", "d")
    net.link("near.wan", "middle", rate="100 Mbit/s")
    net.link("c", "middle", rate="100 Mbit/s")
    net.link("middle", "east", rate=BOTTLENECK_RATE, delay="20 ms", queue=ROUTERS[router])
    net.router("east")
    net.link("east", "far.wan", rate="100 Mbit/s")
    net.link("east", "d", rate="100 Mbit/s")
    net.traffic("trunk", "cbr", "a", "b", rate=BOTTLENECK_RATE, packet="1500 B")
    start = {"uniform": ["0 s", "1 s"]}
    net.traffic("tcp", "greedy", "c", "d", flows=connections, start=start)
    return net


@friendly.run(router=list(ROUTERS), connections=[1, 4])
def measure(seed: int, router: str, connections: int) -> dict[str, float]:
    trunk, tcp = rivals(router, connections).run(seed).groups["throughput_bps"]
    return {"part": trunk / (trunk + tcp)}


def part(runs: Table, router: str, connections: int) -> np.ndarray:
    return runs.where(router=router, connections=connections)["part"]


@friendly.claim("A003-8", "RED: share of one connection beside one TCP", paper=0.5, within=0.1)
def one(runs: Table) -> Numbers:
    return part(runs, "red", 1)


@friendly.claim("A003-8", "RED: share of four connections beside four TCP", paper=0.5, within=0.1)
def four(runs: Table) -> Numbers:
    return part(runs, "red", 4)


@friendly.claim(
    "A003-8", "Drop-Tail by bytes: share of one connection beside one TCP", paper=0.5, within=0.1,
    why="the queue has room for a management packet of 52 bytes when it drops user and TCP packets",
)  # fmt: skip
def one_drop_tail(runs: Table) -> Numbers:
    return part(runs, "drop-tail", 1)


@friendly.figure
def figure(runs: Table) -> Any:
    routers = {"red": "RED", "drop-tail": "Drop-Tail by bytes"}
    figure, panels = plots.panels(list(routers.values()))
    for axes, router in zip(panels, routers, strict=True):
        table = rivals(router, 4).run(1).windowed()
        for name in ("trunk", "tcp"):
            axes.plot(table["time_seconds"], table[f"{name}_bps"] / 8e3, label=name)
        axes.set_xlabel("s")
        axes.set_ylabel("KB/s")
        axes.set_ylim(0)
        axes.legend()
    return figure
