"""Honest flows beside senders that ignore congestion keep what they have without ACK control.

Source: postack, ledger R001-9 (packets of others do not close the gate); RFC 2914, section 3.2;
Savage and others, doi 10.1145/505696.505704 (ACK division, optimistic ACKs).
Differs: see `_network.py`. Four honest flows share 10 Mbit/s with one to eight aggressors: TCP that
sends 12.5 Mbit/s each whatever its window is, UDP of that rate, receivers that acknowledge 100
bytes at a time to a sender that counts ACKs, and receivers that acknowledge four segments which
have not arrived. The paper has no aggressors. The queue is `per-flow` with its defaults. Of 20 s,
12 count, by what arrives.
"""

import numpy as np

from tidegate import plots
from tidegate.experiment import Experiment

from ._network import FLOWS, bulk, network

aggressors = Experiment(__file__, seeds=5)

ATTACKS = {
    "blind": {"ignores_window": True,
              "congestion": {"kind": "constant", "rate": "12.5 Mbit/s"}},
    "udp": None,
    "division": {"ack_step": 100, "counting": "acks"},
    "optimistic": {"acks_ahead": 4},
}  # fmt: skip

COUNTS = [1, 4, 8]
ROUND_TRIPS = {"1 ms": "400 us", "10 ms": "4900 us", "100 ms": "49900 us"}
"""And the delay of the receivers' link, one way."""

LENDING = ["logical-partitions", "drr", "fcfs", "lru", "partitioned"]
ALLOCATIONS = [*LENDING, "sequential"]
RULES = ["gate", "bucket", "virtual-queue"]


@aggressors.run(
    attack=list(ATTACKS), count=COUNTS, rtt=list(ROUND_TRIPS), way=["up", "down"],
    allocation=ALLOCATIONS, signal=["none", *RULES],
)  # fmt: skip
def measure(seed, attack, count, rtt, way, allocation, signal):
    net = network(
        signal, way=way, window=None, flows=FLOWS + count, far=ROUND_TRIPS[rtt],
        policy={"allocation": allocation, "queue": "per-flow"}, duration="20 s", warmup="8 s",
    )  # fmt: skip
    bulk(net, way)
    near, far = [[f"{side}{n}" for n in range(FLOWS, FLOWS + count)] for side in "lw"]
    ends = (near, far) if way == "up" else (far, near)
    start = {"uniform": ["0 s", "500 ms"]}
    if attack == "udp":
        net.traffic("attack", "cbr", *ends, protocol="udp", start=start, rate="12.5 Mbit/s",
                    packet="1514 B")  # fmt: skip
    else:
        tcp = {"profile": "linux", **ATTACKS[attack]}
        net.traffic("attack", "greedy", *ends, start=start, tcp=tcp)
    groups = net.run(seed).groups
    return {name: groups.where(group=name)["throughput_bps"][0] for name in ("bulk", "attack")}


def parts(runs, rule, skip=lambda cell: False, **chosen):
    """Of each seed, the least that honest flows have of what they have without ACK control."""
    cells = [
        {"attack": attack, "count": count, "rtt": rtt, "way": way, "allocation": allocation}
        for attack in ATTACKS for count in COUNTS for rtt in ROUND_TRIPS
        for way in ("up", "down") for allocation in ALLOCATIONS
    ]  # fmt: skip
    cells = [cell for cell in cells if not skip(cell)]
    cells = [cell for cell in cells if all(cell[name] in chosen[name] for name in chosen)]
    columns = []
    for cell in cells:
        turn = runs.where(**cell)
        columns.append(turn.where(signal=rule)["bulk"] / turn.where(signal="none")["bulk"])
    return np.min(np.array(columns), axis=0)


def crowded(cell):
    """Eight receivers that divide their ACKs."""
    return cell["attack"] == "division" and cell["count"] == 8


@aggressors.claim("honest flows protected",
                  "gate, least of all cells but one kind: honest flows' part",
                  paper="all of it", at_least=0.95)  # fmt: skip
def gate(runs):
    return parts(runs, "gate", crowded, allocation=LENDING)


@aggressors.claim("honest flows protected", "gate, eight receivers divide ACKs: honest flows' part",
                  paper="all of it", at_least=0.95,
                  why="an ACK of less than a segment asks for nothing until a window that is made "
                  "smaller leaves room for a segment, and then for as much as it acknowledges",
)  # fmt: skip
def divided(runs):
    return parts(
        runs, "gate", attack=["division"], count=[8], allocation=LENDING,
    )  # fmt: skip


@aggressors.claim("honest flows protected",
                  "bucket, least of all cells: honest flows' part",
                  paper="all of it",
                  at_least=0.95)  # fmt: skip
def bucket(runs):
    return parts(runs, "bucket", allocation=LENDING)


def unheld(cell):
    """Receivers that acknowledge early, or a policy in which no flow has the tokens of another."""
    return cell["attack"] == "optimistic" or cell["allocation"] == "partitioned"


@aggressors.claim("honest flows protected",
                  "virtual queue, least of all cells but two kinds: honest flows' part",
                  paper="all of it", at_least=0.95)  # fmt: skip
def virtual_queue(runs):
    return parts(runs, "virtual-queue", unheld, allocation=LENDING)


@aggressors.claim("honest flows protected", "virtual queue, ACKs are early: honest flows' part",
                  paper="all of it", at_least=0.95,
                  why="an ACK that is ahead of its data has no time by this rule and goes on at "
                  "once")  # fmt: skip
def early(runs):
    return parts(runs, "virtual-queue", attack=["optimistic"], allocation=LENDING)


@aggressors.claim("honest flows protected", "virtual queue, partitioned: honest flows' part",
                  paper="all of it", at_least=0.95,
                  why="the rule keeps no data waiting for a flow that its rate does not fill, and "
                  "a flow that has nothing waiting lends its tokens to nobody")  # fmt: skip
def partitioned(runs):
    return parts(runs, "virtual-queue", allocation=["partitioned"])


@aggressors.claim("honest flows protected",
                  "sequential, all rules: honest flows' part",
                  paper="all of it",
                  at_least=0.95,
                  why="data of a flow that joined after an aggressor waits for ever, and counts in "
                  "the queue by which ACKs of the flows before it are held")  # fmt: skip
def sequential(runs):
    return np.min([parts(runs, rule, allocation=["sequential"]) for rule in RULES], axis=0)


@aggressors.figure
def figure(runs):
    titles = [f"{attack}: of what honest flows have without" for attack in ATTACKS]
    figure, panels = plots.panels(titles)
    for axes, attack in zip(panels, ATTACKS, strict=True):
        for rule in RULES:
            cells = [parts(runs, rule, attack=[attack], allocation=[it]) for it in ALLOCATIONS]
            lows = [cell.mean() for cell in cells]
            axes.plot(ALLOCATIONS, lows, marker="o", linestyle="", label=rule)
        axes.axhline(0.95, color="grey", linewidth=0.5)
        axes.set_ylim(bottom=0)
        axes.tick_params(axis="x", rotation=90)
        axes.legend()
    return figure
