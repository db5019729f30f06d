"""Measures bottleneck packets per CPU second on the dumbbell: ours, ns-2 and ns-3, alternately.

Run as a program, it prints a table. With `--json` it prints the median of each simulator, or `null`
for a missing one.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from statistics import median

from .measure import run
from .oracles import ns2, ns3
from .ours import ours, program, text
from .ours import table as section
from .report import Report, progress
from .scenarios import DUMBBELL, Scenario

TURNS = 7
MOST_RUNS = {"ns2": 3, "ns3": 1}  # A run takes up to a minute.
SCENARIO = replace(DUMBBELL, sack=False)
LIMITS = {"ns2": 5, "ns3": 80}
MOST_TRACED = 2
NAMES = {"ours": "ours", "traced": "ours, all traces", "ns2": "ns-2", "ns3": "ns-3"}


def traced(scenario: Scenario, seed: int) -> dict[str, float]:
    """Our simulator with all records: series of all flows, and a capture of the bottleneck."""
    probes = [section("probe", kind="capture", **{"from": "near", "to": "far"})]
    for flow in range(len(scenario.drawn(seed))):
        probes += [
            section("probe", kind=kind, traffic=f"f{flow}") for kind in ("throughput", "window")
        ]
    file_text = (
        text(scenario, seed).replace("[run]\n", '[run]\nsample = "100 ms"\n', 1)
        + "\n"
        + "\n".join(probes)
    )
    with tempfile.TemporaryDirectory() as folder:
        file, capture = Path(folder, "traced.toml"), Path(folder, "traced.pcap")
        file.write_text(file_text)
        out, cpu = run([program(), "sim", file, "--json", "--pcap", capture])
        assert capture.stat().st_size > 1e6, "nothing was captured"
    [bottleneck] = [
        link
        for link in json.loads(out)["tables"]["links"]
        if (link["from"], link["to"]) == ("near", "far")
    ]
    return {"packets": bottleneck["delivered_packets"], "cpu": cpu}


def measure() -> dict[str, float | None]:
    """Median packets per CPU second of each simulator; `None` if it is missing."""
    who: dict[str, Callable[[Scenario, int], dict[str, float]]] = {
        "ours": ours,
        "traced": traced,
        "ns2": ns2,
        "ns3": ns3,
    }
    # `oracles.ns3_program` compiles the ns-3 program, which needs both of these.
    there = {
        "ns2": shutil.which("ns"),
        "ns3": shutil.which("g++") and Path("/usr/include/ns3/core-module.h").exists(),
    }
    rates: dict[str, list[float]] = {name: [] for name in who}
    for seed in range(1, TURNS + 1):
        for name, simulate in who.items():
            if there.get(name, True) and seed <= MOST_RUNS.get(name, TURNS):
                progress(f"{name}, {seed} of {TURNS}")
                done = simulate(SCENARIO, seed)
                rates[name].append(done["packets"] / done["cpu"])
    progress("")
    return {name: median(values) if values else None for name, values in rates.items()}


def speed(report: Report, _pool: Executor | None = None) -> None:
    """Compares the speed of our simulator with the required ratios."""
    rates = measure()
    ours_rate = rates["ours"]
    assert ours_rate is not None, "ours is always there"
    rows = []
    for name, rate in rates.items():
        if rate is None:
            rows.append([NAMES[name], "", "", "", "not there"])
            continue
        ratio = ours_rate / rate
        holds = ratio >= LIMITS[name] if name in LIMITS else ratio <= MOST_TRACED
        limit = (
            f"at least {LIMITS[name]}"
            if name in LIMITS
            else f"at most {MOST_TRACED}"
            if name == "traced"
            else ""
        )
        rows.append(
            [NAMES[name], f"{rate:.0f}", f"{ratio:.1f}", limit, "holds" if holds else "**fails**"]
        )
        if not holds:
            report.failed.append(
                f"ours has {ratio:.1f} times the packets per second of {NAMES[name]}, {limit}"
            )
    report.table(
        "Bottleneck packets per CPU second",
        ["", "packets/s", "ours to it", "limit", "verdict"],
        rows,
    )


if __name__ == "__main__":
    if "--json" in sys.argv[1:]:
        print(json.dumps(measure()))
    else:
        alone = Report()
        speed(alone)
        sys.exit(bool(alone.failed))
