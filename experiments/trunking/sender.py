"""At the entry of a trunk, PostACK keeps the queue short without loss. Other queues delay or drop.

Source: trunking, section 6, for the FIFO that protects a flow after a loss; postack, section 5, for
ACKs held in place of data; docs/ledger.md, R003-7 (drops at the trunk sender) and goal G4 (no user
packet lost in routers).
Differs: `_network.py` describes the network. The paper shows no such comparison, and does not
combine trunks with ACK control of senders. Two sites share the link of figure 3 with one trunk
each, without guarantees. Each site has four greedy TCP connections as in the RFCs. The FIFO holds
100 packets, as in the paper. `sparing` has the same size and uses a third of it. The queue for each
flow is `per-flow` with its defaults. PostACK uses this queue too, and the rate of its policy is the
rate of the port.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import BOTTLENECK_RATE, RATE, required_buffer, reverse, trunk

sender = Experiment(__file__)

FIFO = {"kind": "drop-tail", "limit": "150 kB"}
SPARING = {"kind": "sparing", "limit": "150 kB", "threshold": "50 kB"}
QUEUES: dict[str, Any] = {
    "fifo": FIFO,
    "sparing": SPARING,
    "per-flow": "per-flow",
    "postack": "per-flow",
}

PASS: dict[str, Any] = {"action": "pass"}
POSTACK = {"action": "shape", "profile": {"mean": BOTTLENECK_RATE}, "ack_control": "postack"}

SITES = (1, 2)
SECONDS, WARMUP = 120, 20


def sites(
    queue: str | Mapping[str, Any],
    action: Mapping[str, Any] = PASS,
    flows: int = 4,
    tcp: Mapping[str, Any] | None = None,
) -> Scenario:
    """Two sites with ``flows`` TCP flows each to a third, over trunks with this ``queue``."""
    net = Scenario(
        duration=f"{SECONDS} s", warmup=f"{WARMUP} s", link_header="0 B", tcp=dict(tcp or {})
    )
    trunks = [trunk(f"t{n}", f"192.0.2.{n}", 1500, 0, 4) | {"queue": queue} for n in SITES]
    net.router("middle")
    for n, it in zip(SITES, trunks, strict=True):
        user = {"name": "user", **action, "trunk": it["name"]}
        net.gateway(f"site{n}", {"trunk": [it], "policy": [user]})
        net.host(f"host{n}", gateway=f"site{n}")
        net.link(f"site{n}.wan", "middle", rate=BOTTLENECK_RATE)
    net.gateway("end", {"trunk": [reverse(it) for it in trunks]})
    net.host("server", gateway="end")
    room = round(4.5 * required_buffer(4, [1500, 1500], 0))
    line = {"kind": "trunk-fifo", "limit": f"{room} B", "threshold": 64}
    net.link("middle", "end.wan", rate=BOTTLENECK_RATE, delay="10 ms", queue=line)
    for n in SITES:
        start = {"uniform": ["0 s", "1 s"]}
        net.traffic(f"site{n}", "greedy", f"host{n}", "server", flows=flows, start=start)
    return net


@sender.run(queue=list(QUEUES))
def measure(seed: int, queue: str) -> dict[str, float]:
    run = sites(QUEUES[queue], POSTACK if queue == "postack" else PASS).run(seed)
    groups, drops = run.groups, run.drops
    lost = (
        drops["dropped_packets"].sum()
        - drops.where(reason="aqm", place="middle > end.wan")["dropped_packets"].sum()
    )
    return {
        "use": groups["throughput_bps"].sum() / 8 / RATE,
        "delay": groups["delay_mean_seconds"].mean(),
        "late": groups["delay_p99_seconds"].max(),
        "lost": float(lost),
        "timeouts": float(run.flows["timeouts"].sum()),
        "jain": groups["jain"].min(),
    }


def over(runs: Table, column: str, queue: str) -> np.ndarray:
    """A column, divided by the same column with the FIFO."""
    return runs.where(queue=queue)[column] / runs.where(queue="fifo")[column]


@sender.claim("G4", "FIFO: user packets lost in 100 s", at_least=1, kind="shown otherwise")
def fifo_lost(runs: Table) -> Numbers:
    return runs.where(queue="fifo")["lost"]


@sender.claim("G4", "PostACK: user packets lost at gateways and the router", at_most=0)
def postack_lost(runs: Table) -> Numbers:
    return runs.where(queue="postack")["lost"]


@sender.claim("beyond", "PostACK: mean delay of data over the FIFO's", at_most=0.4)
def postack_delay(runs: Table) -> Numbers:
    return over(runs, "delay", "postack")


@sender.claim("beyond", "PostACK: 99th percentile of delay over the FIFO's", at_most=0.5)
def postack_late(runs: Table) -> Numbers:
    return over(runs, "late", "postack")


@sender.claim("beyond", "PostACK: use of the link over the FIFO's", at_least=0.98)
def postack_use(runs: Table) -> Numbers:
    return over(runs, "use", "postack")


@sender.claim("beyond", "PostACK: Jain index of a site's senders, lower of both", at_least=0.98)
def postack_fair(runs: Table) -> Numbers:
    return runs.where(queue="postack")["jain"]


@sender.claim(
    "beyond", "PostACK: mean delay of data over that of a queue for each flow alone", at_most=0.1
)
def postack_alone(runs: Table) -> Numbers:
    return runs.where(queue="postack")["delay"] / runs.where(queue="per-flow")["delay"]


@sender.claim("R003-7", "sparing: mean delay of data over the FIFO's", paper="low occupancy",
              at_most=0.5)  # fmt: skip
def sparing_delay(runs: Table) -> Numbers:
    return over(runs, "delay", "sparing")


@sender.claim("R003-7", "sparing: timeouts", paper="avoided", at_most=0)
def sparing_timeouts(runs: Table) -> Numbers:
    return runs.where(queue="sparing")["timeouts"]


@sender.claim("R003-7", "sparing: use of the link over the FIFO's", at_least=0.98)
def sparing_use(runs: Table) -> Numbers:
    return over(runs, "use", "sparing")


@sender.figure
def figure(runs: Table) -> Any:
    figure, (axes,) = plots.panels(["mean delay of data and its 99th percentile"])
    for n, queue in enumerate(QUEUES):
        case = runs.where(queue=queue)
        axes.bar(n - 0.2, case["delay"].mean() * 1000, 0.4, color="C0")
        axes.bar(n + 0.2, case["late"].mean() * 1000, 0.4, color="C1")
    axes.set_xticks(range(len(QUEUES)), list(QUEUES))
    axes.set_yscale("log")
    axes.set_ylabel("ms")
    return figure
