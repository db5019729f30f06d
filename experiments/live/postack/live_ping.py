"""Between real hosts, a ping in the same class waits hardly longer than with a queue for each flow.

Source: postack; docs/ledger.md, A001-5 (a ping in the class waits at most 10 ms longer).
Differs: `_live.py` describes labs of real hosts. Four CUBIC flows go up with windows of 64 KiB.
Every 50 ms the far host sends a datagram, which the near host echoes. FIFO means one queue of 256
KiB for all packets at a link of the policy's rate.
"""

import json
import time

import numpy as np

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ...postack._network import FLOWS
from ...postack.ping import CASES
from ._live import HOSTS, NOT_SCALED, Lab, hosts, missing, program, side_by_side

live_ping = Experiment(__file__, seeds=5, needs=missing)

WARMUP, COUNTED = 5, 10
WAY = 0.052
"""Round-trip time of the network in seconds."""


@live_ping.run()
def measure(seed: int) -> dict[str, float]:
    def run(case: str) -> dict[str, float]:
        ack_control, file = CASES[case]
        with Lab(hosts(ack_control, file=file)) as lab:
            for host in HOSTS:
                lab.shell(host, NOT_SCALED)
            lab.serve("near", "cubic")
            for _ in range(FLOWS):
                lab.fetch("far", HOSTS["near"], "--time", f"{WARMUP + COUNTED + 1} s")
            time.sleep(WARMUP)
            words = [f"{HOSTS['near']}:7000", "--every", "50 ms", "--time", f"{COUNTED} s"]
            said, _ = lab.start("far", program(), "traffic", "ping", *words).communicate()
            hangs = lab.hangs()
        echoes = [json.loads(line) for line in said.splitlines()]
        times = np.array([it["rtt_ms"] for it in echoes if "rtt_ms" in it]) / 1e3
        p99 = float(np.percentile(times, 99))
        return {"mean": float(times.mean()), "p99": p99, "hangs": hangs}

    return side_by_side(run, list(CASES))


@live_ping.claim(
    "A001-5", "live: mean round trip, gate minus a queue for each flow, s", at_most=0.010
)
def beyond(runs: Table) -> Numbers:
    return runs["gate mean"] - runs["per flow mean"]


@live_ping.claim("A001-5", "live: delay of queues with the gate, over that with FIFO", at_most=0.25)
def of_fifo(runs: Table) -> Numbers:
    return (runs["gate mean"] - WAY) / (runs["fifo mean"] - WAY)
