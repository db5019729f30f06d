"""Weights of trunks: two trunks carry E1's load, and user connections stay end to end.

Source: ours; integrated TCP, sections 3 and 4, and trunking, section 4.
Differs: `_network.py` describes the network. Each site has a gateway, and so has the server. The
clients' connections go from client to server, with Vegas. The tunnel queue of a site (where user
packets wait for the trunk) has a queue for each flow and the size of E1's buffer. The weight `w` of
a trunk is 1 to 10. In the cases "vegas" it is `theta` of the trunk's one management connection. In
the cases "connections" the trunk has `M = round(w)` management connections. VMSS is one packet of
1,040 B. The router is `trunk-fifo`, with the capacity that equation 2 of trunking gives for 16
connections of each trunk.

"fixed" weights are 10. Adjusters begin with weight 10, and their rounds have 60 samples, because
runs last only 2,000 s. "aggregates" are the aggregate connections of `_network.py`, which carry the
same files over the same bottleneck. "separate" has no gateways.

The cases "beside" add one greedy NewReno connection, the rival. The router is then the RED of
`trunking/friendly`, which drops all packets alike. Users have NewReno as well: Vegas would back off
from the queue of the rival, and the trunks would have no load. A trunk of weight w counts as w
connections, so the fair share of the rival is `1 / (1 + w_1 + w_2)` of the link. The rival may have
more, because the trunks are not always backlogged. The lost user packets of these cases are all
drops at the router minus the packets that the trunks and the rival retransmitted.
"""

from typing import Any

import numpy as np

from tidegate import Result, Scenario, Table, plots
from tidegate.experiment import Experiment

from ..trunking._network import ALPHA, required_buffer, reverse
from ..trunking.friendly import ROUTERS
from ._adjust import MOST
from ._cases import Cases, of
from ._load import E1, PACKET, RATE, ccdf
from ._modes import DRIFT
from ._network import BUFFER, FIRST_FILE, HEADER, TAIL_X, TCP, VEGAS, Setup, sojourns
from ._network import network as aggregates

trunks = Experiment(__file__, seeds=6)

SECONDS, SAMPLES = 2_000, 60
"""Length of a run in seconds, and samples in a round of 30 s."""

BESIDE_SECONDS = 500
"""Length in seconds of a run beside one TCP connection.

The rate of this connection soon settles.
"""

VMSS = PACKET + HEADER
"""Bytes of user packets for each management packet."""

SIZED_FOR = 16
"""The router's capacity is sized for this number of management connections per trunk."""

LAWS = ("fixed", "measured", "proportional")

PROBING = {"vegas": "vegas", "connections": "management"}
"""The quantity that the weight of a trunk sets, and the trunk's `probing` for it."""

TRUNKS = {f"{kind}, {law}": (kind, law) for kind in PROBING for law in ("fixed", "measured")}
"""Cases of trunks: the quantity that the weight sets, and the law of the weight."""

BASES = {**{f"aggregates, {law}": law for law in LAWS}, "separate": "separate"}
"""Cases of `_network.py`, with their modes."""

BESIDE = {f"{case}, beside": it for case, it in TRUNKS.items()}
"""Cases with one TCP connection beside the trunks."""

BESIDE["one connection, beside"] = ("connections", "one")
"""A case of trunks with weight 1."""


def weight(law: str) -> Any:
    """The weight of a trunk in a policy file."""
    if law in ("fixed", "one"):
        return round(MOST) if law == "fixed" else 1
    return {"kind": law, "samples": SAMPLES, "every": "500 ms", "weight": MOST, "most": round(MOST)}


def trunk(site: int, kind: str, law: str) -> dict[str, Any]:
    """A site's end of a trunk, as in a policy file."""
    return {
        "name": f"t{site}", "local": f"192.0.2.{site}", "peer": "192.0.2.9",
        "probing": PROBING[kind], "weight": weight(law), "vmss": f"{VMSS} B",
        "queue": {"kind": "per-flow", "limit": f"{BUFFER} B", "flow_limit": f"{BUFFER} B"},
    }  # fmt: skip


def network(kind: str, law: str, beside: bool, seconds: int = SECONDS) -> Scenario:
    """E1's sites with trunks to the server's gateway `far`; the bottleneck is from `r` to `e`."""
    net = Scenario(duration=f"{seconds} s", sample="10 s", link_header="0 B",
                   tcp={**TCP, "congestion": "newreno" if beside else VEGAS})  # fmt: skip
    net.router("r", "e")
    room = required_buffer(SIZED_FOR, [VMSS] * len(E1), 0)
    threshold = len(E1) * SIZED_FOR * ALPHA
    queue = {"kind": "trunk-fifo", "limit": f"{room} B", "threshold": threshold}
    net.link("r", "e", rate=f"{RATE * 8:.0f} bit/s", delay="10 ms",
             queue=dict(ROUTERS["red"]) if beside else queue,
             back={"queue": {"kind": "drop-tail", "limit": f"{BUFFER} B"}})  # fmt: skip
    ends = [trunk(number, kind, law) for number in range(1, len(E1) + 1)]
    net.gateway("far", {"trunk": [reverse(it) for it in ends]})
    net.link("e", "far.wan")
    net.host("server", gateway="far")
    for number, (own, end) in enumerate(zip(E1, ends, strict=True), 1):
        gateway, clients = f"gw{number}", [f"c{number}-{it}" for it in range(Setup().clients)]
        user = {"name": "user", "action": "pass", "trunk": end["name"]}
        net.gateway(gateway, {"trunk": [end], "policy": [user]})
        net.link(f"{gateway}.wan", "r", rate="100 Mbit/s", delay="10 ms")
        net.router(f"lan{number}")
        net.link(f"lan{number}", f"{gateway}.lan")
        net.hosts(*clients)
        for client in clients:
            net.link(client, f"lan{number}", rate="100 Mbit/s", delay="1 ms")
        net.traffic(f"files{number}", "arrivals", clients, "server",
                    every=f"{round(len(clients) / own.arrivals * 1e6)} us", start=f"{FIRST_FILE} s",
                    size={"pareto": {"mean": f"{own.mean:.0f} B", "shape": own.index}})  # fmt: skip
    if beside:
        net.hosts("cross", "sink")
        net.link("cross", "r", rate="100 Mbit/s", delay="10 ms")
        net.link("e", "sink", rate="100 Mbit/s")
        net.traffic("cross", "greedy", "cross", "sink", start=f"{2 * FIRST_FILE} s")
    return net


def times(run: Result) -> dict[str, float]:
    """Sojourns of both classes, and points of their tails."""
    row: dict[str, float] = {}
    for number, _ in enumerate(E1, 1):
        took = sojourns(run, number)
        row |= {
            f"mean_{number}": float(took.mean()), f"median_{number}": float(np.median(took)),
            f"p99_{number}": float(np.quantile(took, 0.99)),
            f"p999_{number}": float(np.quantile(took, 0.999)), f"files_{number}": float(len(took)),
        }  # fmt: skip
        tail = ccdf(took, TAIL_X)
        row |= {f"tail_{number}_{at}": float(it) for at, it in enumerate(tail)}
    return row


def path(run: Result) -> dict[str, float]:
    """Drops of user packets on the path and in gateways, final weights, and the rival's share."""
    flows, drops = run.flows, run.drops
    users = np.array([str(it).startswith("files") for it in flows["group"]])
    weights = run["trunks"]
    tunnel = sum(drops.where(place=f"gw{it}")["dropped_packets"].sum() for it in (1, 2))
    link = drops.where(place="r > e")
    management = link.where(reason="aqm")["dropped_packets"].sum()
    again = weights["repeated_packets"].sum() + flows["retransmitted_segments"][~users].sum()
    others = max(float(link["dropped_packets"].sum()) - float(again), 0.0)
    row = {
        "tunnel": float(tunnel), "management": float(management),
        "lost": float(link["dropped_packets"].sum() - management),
        "users_part": float(others / flows["sent_packets"][users].sum()),
        "carried": float(flows["goodput_bps"][users].sum() / 8 / RATE),
    }  # fmt: skip
    for number in (1, 2):
        row[f"weight_{number}"] = float(weights.where(gateway=f"gw{number}")["weight"][0])
    if not users.all():
        part = float(flows["throughput_bps"][~users].sum() / 8 / RATE)
        fair = 1 / (1 + row["weight_1"] + row["weight_2"])
        row |= {"cross": part, "cross_over_fair": part / fair}
    return row


@trunks.run(case=[*BASES, *BESIDE, *TRUNKS])
def measure(seed: int, case: str) -> dict[str, float]:
    if case in BASES:
        return times(aggregates(E1, BASES[case], Setup(seconds=SECONDS, samples=SAMPLES)).run(seed))
    kind, law = {**TRUNKS, **BESIDE}[case]
    beside = case in BESIDE
    run = network(kind, law, beside, BESIDE_SECONDS if beside else SECONDS).run(seed)
    return times(run) | path(run)


about = Cases(trunks, "beyond")
LATE, MEAN = "99 % quantile of class 1's sojourns", "mean sojourn of class 1"
OTHER = "99 % quantile of class 2's sojourns"
for case, (kind, law) in TRUNKS.items():
    if law != "fixed":
        about.claim_over(case, f"{kind}, fixed", "p99_1", LATE, at_most=1, why=DRIFT)
        about.claim_over(case, f"{kind}, fixed", "p99_2", OTHER, at_most=1.5)
    about.claim_over(case, f"aggregates, {law}", "p99_1", LATE, at_most=1)
    why = DRIFT if law == "measured" else None
    about.claim_over(case, "separate", "p99_1", LATE, at_most=1.5, why=why)
    about.claim_over(case, "aggregates, proportional", "p99_1", LATE, kind="context")
    about.claim(case, "lost", "user packets lost on the path", at_most=0)
FAIR = "rate of one TCP over its fair share"
for case in BESIDE:
    about.claim(case, "cross_over_fair", FAIR, at_least=0.9)
    about.claim(case, "users_part", "part of the user packets that the path lost", kind="context")
for case in ("separate", *TRUNKS):
    about.claim(case, "p99_1", f"{LATE} (s)", kind="context")


@trunks.figure
def figure(runs: Table) -> Any:
    titles = ["sojourns of class 1", "sojourns of class 2", "rival's part of the link"]
    figure, panels = plots.panels(titles, columns=3)
    for number, axes in enumerate(panels[:2], 1):
        for case in ("separate", "aggregates, fixed", *TRUNKS):
            tail = np.mean([of(runs, case, f"tail_{number}_{at}") for at in range(len(TAIL_X))], 1)
            axes.loglog(TAIL_X[tail > 0], tail[tail > 0], label=case)
        axes.set_xlabel("seconds")
        axes.set_ylabel("part of the files above")
        axes.legend(fontsize="x-small")
    parts = [np.mean(of(runs, case, "cross")) for case in BESIDE]
    panels[2].barh(range(len(BESIDE)), parts)
    panels[2].set_yticks(range(len(BESIDE)), [it.removesuffix(", beside") for it in BESIDE])
    panels[2].invert_yaxis()
    return figure
