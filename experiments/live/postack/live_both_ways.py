"""With data in both directions of one real connection, each direction gets its rate.

Source: postack; docs/ledger.md, A001-8 (transfers in both directions) and R001-13 (PAWS rejects
segments whose timestamps look old).
Differs: `_live.py` describes labs of real hosts. One CUBIC connection sends in both directions,
without offloads of the hosts. The policy holds 10 Mbit/s in each direction. Payload is counted from
the 15th to the 25th second, when the connection has found its rate. Bytes that the policy sent,
ACKs included, are counted over about the same time. From the 5th to the 15th second, the direction
with less traffic had 0.952 and 0.961 of its rate in two runs.
"""

import sys
import time
from collections.abc import Mapping
from typing import Any

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ...postack._network import RATE
from ._live import HOSTS, Lab, hosts, line_of, missing, side_by_side

live_both_ways = Experiment(__file__, seeds=25, needs=missing)

EXCHANGE = """
import socket, sys, threading, time
role, address = sys.argv[1:]
if role == "listen":
    listener = socket.create_server((address, 7001))
    print("ready", flush=True)
    connection, _ = listener.accept()
else:
    connection = socket.create_connection((address, 7001))
block, ends = bytes(16384), time.monotonic() + 25

def send():
    while True:
        connection.sendall(block)

threading.Thread(target=send, daemon=True).start()
counted = 0
while (now := time.monotonic()) < ends:
    arrived = len(connection.recv(1 << 16))
    counted += arrived if now > ends - 10 else 0
print(counted, flush=True)
time.sleep(60)
"""


@live_both_ways.run()
def measure(seed: int) -> dict[str, float]:
    def run(ack_control: str) -> dict[str, float]:
        with Lab(hosts(ack_control, policy={"match": {}})) as lab:
            before = lab.counters()
            words = [sys.executable, "-c", EXCHANGE]
            far = lab.start("far", *words, "listen", HOSTS["far"])
            line_of(far)
            near = lab.start("near", *words, "connect", HOSTS["far"])
            first = looks(lab, 15)
            last = looks(lab, 9)
            rates = [float(line_of(it)) * 8 / 10 for it in (far, near)]
            counted = {name: n - before[name] for name, n in lab.counters().items()}
            hangs = lab.hangs()
        pairs = zip(first, last, strict=True)
        used = [throughput(before, after) / RATE for before, after in pairs]
        return {"goodput": sum(rates), "used": min(used), "hangs": hangs, **counted}

    return side_by_side(run, ["none", "gate"])


def looks(lab: Lab, seconds: int) -> list[Mapping[str, Any]]:
    """Waits ``seconds``, and returns the policy's state in both directions."""
    time.sleep(seconds)
    return [lab.aggregate(way) for way in ("up", "down")]


def throughput(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """Rate between two samples, bit/s."""
    sent = after["conforming"]["bytes"] - before["conforming"]["bytes"]
    return sent * 8e3 / (after["uptime_ms"] - before["uptime_ms"])


@live_both_ways.claim(
    "A001-8",
    "live: rate of the direction with less traffic, over the policy's rate",
    at_least=0.95,
    at_most=1.05,
    margin=0.02,
    why="with a queue for each flow it is 0.94",
)
def used(runs: Table) -> Numbers:
    return runs["gate used"]


@live_both_ways.claim(
    "A001-8", "live: goodput of both directions, over that of a queue for each flow", at_least=0.97
)
def goodput(runs: Table) -> Numbers:
    return runs["gate goodput"] / runs["none goodput"]


@live_both_ways.claim("A001-8", "live: segments rejected as old (PAWS)", at_most=0)
def old(runs: Table) -> Numbers:
    return runs["gate old"]


@live_both_ways.claim(
    "A001-7", "live, both directions: timeouts minus those of a queue for each flow", at_most=0
)
def timeouts(runs: Table) -> Numbers:
    return runs["gate timeouts"] - runs["none timeouts"]
