"""When a gateway that holds ACKs is killed, transfers continue within 2 s.

Source: postack; docs/ledger.md, A001-11 (`kill -9` with ACKs held) and R001-20 (failures).
Differs: `_bed.py` describes the test bed. Two transfers go up and two down through 20 Mbit/s, with
CUBIC or Reno of this kernel. In a second bed the same transfers run without ACK control, with a
queue for each flow. The gateway is killed after 3 s. The result is the longest pause of a transfer
in the next 4 s, in steps of 20 ms. A pause that began up to 0.2 s before the kill counts in full.
Odd seeds use AF_XDP, even seeds AF_PACKET.
"""

import itertools
import json
import subprocess
import time

import numpy as np

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import SHARE, Numbers

from ._bed import Bed, lacks_bed
from ._live import PATIENCE, missing, side_by_side

live_kill = Experiment(__file__, seeds=20, needs=lambda: missing() or lacks_bed())

BACKENDS = ["af-packet", "af-xdp"]

POLICY = """
[[policy]]
name = "all"
profile = { mean = "20 Mbit/s", burst = "64 KiB" }
action = "shape"
allocation = "drr"
ack_control = "ACK_CONTROL"
"""

BEFORE, AFTER = 3, 4
"""Seconds that transfers run before and after the kill."""
EARLIER = 0.2
"""Seconds by which the clocks of the test and of a transfer may differ: a process needs time to
start."""
LIMIT = 2
"""Longest allowed pause in seconds (docs/ledger.md, A001-11)."""

CASES = {
    "postack cubic": ("postack", "cubic"),
    "postack reno": ("postack", "reno"),
    "none": ("none", "cubic"),
}
TOLD = list(CASES)[:2]


@live_kill.run()
def measure(seed: int) -> dict[str, float]:
    def run(case: str) -> dict[str, float]:
        ack_control, congestion = CASES[case]
        return killed(ack_control, congestion, BACKENDS[seed % 2])

    return side_by_side(run, list(CASES))


def killed(ack_control: str, congestion: str, backend: str) -> dict[str, float]:
    """The longest pause of a transfer after the gateway's death, and the number of held ACKs."""
    with Bed(POLICY.replace("ACK_CONTROL", ack_control), backend) as bed:
        bed.serve("wan", congestion)
        began = time.monotonic()
        words = ["--time", f"{BEFORE + AFTER + 2} s", "--congestion", congestion]
        fetches = [bed.fetch("lan", "wan", *words, *way) for way in ([], ["--upload"]) * 2]
        time.sleep(BEFORE)
        status = bed.status()
        held = [it["ack_control"]["held"] for it in status["aggregates"] if it["ack_control"]]
        at = bed.kill() - began
        pauses = [pause(fetch, at) for fetch in fetches]
    return {"pause": max(pauses), "held": float(sum(held)), "hangs": float(status["hangs"])}


def pause(fetch: subprocess.Popen[str], killed: float) -> float:
    """The longest time after the kill in which a transfer makes no progress, in seconds."""
    said, _ = fetch.communicate(timeout=PATIENCE)
    lines = [json.loads(line) for line in said.splitlines()]
    moved = [
        it["at_ms"] / 1e3
        for before, it in itertools.pairwise(lines) if it["bytes"] > before["bytes"]
    ]  # fmt: skip
    ends = killed + AFTER
    gaps = [
        min(later, ends) - earlier
        for earlier, later in itertools.pairwise([*moved, ends])
        if later > killed - EARLIER and earlier < ends
    ]
    return max(gaps)


def longest(runs: Table) -> np.ndarray:
    """The longest pause with ACKs held, for both congestion controls, in seconds."""
    return np.max([runs[f"{case} pause"] for case in TOLD], axis=0)


@live_kill.claim(
    "A001-11", "killed with ACKs held: longest pause of a transfer, s, mean of seeds", at_most=LIMIT
)
def recovers(runs: Table) -> Numbers:
    return longest(runs)


@live_kill.claim(
    "A001-11", "killed with ACKs held: seeds in which no transfer pauses for 2 s", at_least=0.8,
    statistic=SHARE,
)  # fmt: skip
def every_turn(runs: Table) -> Numbers:
    return (longest(runs) <= LIMIT).astype(float)


@live_kill.claim(
    "A001-11", "ACKs held just before the kill, fewer of both congestion controls", at_least=1
)
def held(runs: Table) -> Numbers:
    return np.min([runs[f"{case} held"] for case in TOLD], axis=0)


@live_kill.claim("A001-11", "longest pause without ACK control, s", kind="context")
def without(runs: Table) -> Numbers:
    return runs["none pause"]
