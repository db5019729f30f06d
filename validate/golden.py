#!/usr/bin/env python3
"""Golden traces: what senders of ns-2 send under given losses. Prints the file that the tests of the core read."""

import itertools
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
KEPT = HERE.parent / "crates/core/tests/golden/ns2.txt"

LOST = ["", "0", "14", "14 15", "14 15 16", "14 15 16 17", "14 20 28", "14 31", "14 15 32", "98", "98 99"]
MARKED = ["0", "14", "14 15", "14 40"]
CASES = [
    *itertools.product(["Tahoe", "Reno", "Newreno", "Sack1", "Vegas"], ["lost"], LOST),
    *itertools.product(["Reno", "Newreno", "Sack1"], ["marked"], MARKED),
]
HEAD = f"""\
# What senders of ns-2 (Debian's 2.35) send, by validate/golden.py; network and parameters are in
# validate/ns2/golden.tcl. A line: variant, whether packets are lost or marked, which (from 0, in the
# order in which data enters the link), then segment@time (s) of everything that was sent.
"""


def trace(variant, what, places):
    """The line of one case."""
    command = ["ns", HERE / "ns2/golden.tcl", variant, what, places]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    sent = (line.split() for line in run.stdout.splitlines())
    return " ".join([variant, what, places.replace(" ", ",") or "none", *(f"{segment}@{time}" for time, segment in sent)])


def file():
    """The whole file."""
    return HEAD + "".join(trace(*case) + "\n" for case in CASES)


if __name__ == "__main__":
    print(file(), end="")
