"""Nested trunks share the rate of the trunk that carries them, between real hosts too.

Source: trunking, section 7.2, experiment TT2, figures 7 to 9; docs/ledger.md, A003-5 (shares of
nested trunks).
Differs: `_live.py` describes hosts and trunks; `fig9.py` lists the values that the paper does not
print. One file describes the network for the simulator and for the lab. In the lab, the gateways of
level-2 trunks are on the LAN side of those of level 1. One emulated network replaces routers and
links. Shares are computed from the bytes that real UDP sockets received. The rate of level-1 trunk
1 varies by some 5 % between spans (simulated 0.98 with a deviation of 0.06, in 80 seeds that are
not used for claims). Thirty seeds and a margin decide the claim. With twenty seeds it was
undecided.
"""

import json
import subprocess
import time
from typing import Any

import numpy as np

from tidegate import Scenario, Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ...trunking._network import ALPHA, KB, RATE, required_buffer, reverse, trunk
from ...trunking.fig9 import (
    CONNECTIONS,
    EVENTS,
    LEVELS,
    SECONDS,
    VMSS,
    claim_parts,
    parts,
    rates,
    through,
)
from ..postack._live import Lab, missing, side_by_side
from ._live import ETHERNET, MANAGEMENT, MTU, mac, script, secret, user_loss
from ._live import RATE as LINK

live_nested = Experiment(__file__, seeds=30, needs=missing)

CASES = ["simulated", "live"]
NUMBERS = (1, 2, 3, 4)
"""Numbers of the level-2 trunks. Level-1 trunk 1 carries the first two, trunk 2 the others."""

L1_END, L2_END = "10.73.9.9", "10.73.8.9"
"""Addresses where the trunks of each level end."""

SETTLED = 1
"""Seconds for which a lab stays idle before the first event."""


@live_nested.run()
def measure(seed: int) -> dict[str, float]:
    def run(case: str) -> dict[str, float]:
        with secret() as key:
            net = nested(key)
            net.tables["seed"] = seed
            return simulated(net, seed) if case == "simulated" else live(net)

    return side_by_side(run, CASES)


def simulated(net: Scenario, seed: int) -> dict[str, float]:
    run = net.run(seed)
    lost = run.drops.where(place="cloud", reason="queue-full")["dropped_packets"].sum()
    return {"lost": float(lost), "hangs": 0, **parts(rates(run), LINK / 8)}


def live(net: Scenario) -> dict[str, float]:
    with Lab(net) as lab:
        counts = [script(lab, f"sink{n}", "count") for n in NUMBERS]
        time.sleep(SETTLED)
        begin = time.monotonic()
        for n, event in zip(NUMBERS, EVENTS, strict=True):
            time.sleep(max(0, begin + event - time.monotonic()))
            script(lab, f"source{n}", "flood", sink(n), str(RATE))
        time.sleep(begin + SECONDS + SETTLED - time.monotonic())
        lost = user_loss(lab)
        hangs = lab.hangs()
        got = np.array([each_second(it, begin) for it in counts])
    return {"lost": lost, "hangs": hangs, **parts(got, LINK / 8)}


def each_second(count: subprocess.Popen[str], begin: float) -> np.ndarray:
    """Data received in each second since ``begin``, in KB."""
    count.terminate()
    said, _ = count.communicate()
    time, got = np.array([json.loads(line) for line in said.splitlines()]).T
    return np.diff(np.interp(begin + np.arange(SECONDS + 1), time, got)) / KB


def sink(n: int) -> str:
    return f"10.73.0.{10 + n}"


def nested(key: str) -> Scenario:
    """The network of `fig9.py`, for the simulator and for a lab."""
    net = Scenario(duration=f"{SECONDS} s", sample="1 s")
    line = {"kind": "trunk-fifo", "threshold": LEVELS * ALPHA}
    for n in NUMBERS:
        also = [f"10.73.9.{(n + 1) // 2}"] * (n % 2)
        net.host(f"source{n}", address=[f"10.73.0.{n}", f"10.73.8.{n}", *also], gateway=f"l2-{n}")
    for n in NUMBERS:
        net.host(f"sink{n}", address=[sink(n), *([L1_END, L2_END] * (n == 1))], gateway="l2-end")
    outer = [ends(f"l1-t{n}", f"10.73.9.{n}", L1_END, 2 * n - 1, key) for n in (1, 2)]
    inner = [ends(f"l2-t{n}", f"10.73.8.{n}", L2_END, n, key) for n in NUMBERS]
    for n, (there, _) in enumerate(outer, 1):
        there["queue"] = {**line, "limit": "150 kB"}
        net.gateway(f"l1-{n}", {"trunk": [there], "policy": [through(there)]})
    net.gateway("l1-end", {"trunk": [back for _, back in outer]})
    for n, (there, _) in enumerate(inner, 1):
        file = {"trunk": [there], "policy": [through(there)]}
        net.gateway(f"l2-{n}", file, gateway=f"l1-{(n + 1) // 2}")
    net.gateway("l2-end", {"trunk": [back for _, back in inner]}, gateway="l1-end")
    room = required_buffer(CONNECTIONS, [VMSS + ETHERNET] * 2, 0, MANAGEMENT)
    queue = {**line, "limit": f"{round(4.5 * room)} B"}
    sinks = [f"sink{n}" for n in NUMBERS]
    net.route(to=sinks, rate=f"{LINK} bit/s", delay="10 ms", queue=queue)
    net.route(delay="10 ms")
    for n, start in zip(NUMBERS, EVENTS, strict=True):
        udp = {"rate": f"{LINK} bit/s", "packet": f"{MTU + ETHERNET} B", "start": f"{start} s"}
        net.traffic(f"flow{n}", "cbr", f"source{n}", f"sink{n}", **udp)
    return net


def ends(name: str, local: str, end: str, source: int, key: str) -> list[dict[str, Any]]:
    """Both ends of a trunk. The end at the sources is first."""
    there = {**trunk(name, local, VMSS, 0, CONNECTIONS), "peer": end, "key_file": key}
    hops = [mac(len(NUMBERS)), mac(source - 1)]
    return [{**it, "next_hop": hop} for it, hop in zip((there, reverse(there)), hops, strict=True)]


claim_parts(live_nested, "live")


@live_nested.claim(
    "A003-5", "live: rate of level-1 trunk 1 after the last event, over that before it", paper=1,
    within=0.05, margin=0.05,
)  # fmt: skip
def level_1(runs: Table) -> Numbers:
    return runs["live level_1"]


@live_nested.claim(
    "A003-5",
    "live: rate of a trunk alone within another, over the simulated rate",
    at_least=0.95,
    at_most=1.05,
)
def alone(runs: Table) -> Numbers:
    return runs["live link"] / runs["simulated link"]


@live_nested.claim(
    "A003-5",
    "live: share of level-1 trunk 1 from 58 s on, over the simulated share",
    at_least=0.9,
    at_most=1.1,
)
def agree(runs: Table) -> Numbers:
    both = [runs[f"{case} share_2_0"] + runs[f"{case} share_2_1"] for case in CASES]
    return both[1] / both[0]


@live_nested.claim("A003-5", "live: user packets lost in the network", paper=0, at_most=0)
def lost(runs: Table) -> Numbers:
    return runs["live lost"]
