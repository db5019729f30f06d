#!/usr/bin/env python3
"""Compares with references that nobody here wrote: `make validate`. A table on stdout, progress on stderr."""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from statistics import mean

import golden
from formulas import mathis, padhye
from oracles import ORACLES
from scenarios import AQMS, LOSSES, NETWORKS

QUANTITIES = {  # name: (how it is had from a run, how it is printed)
    "goodput": (lambda run: run["goodput"] / 1e6, "{:.2f} Mbit/s"),
    "packets": (lambda run: run["packets"], "{:.0f}"),
    "drops": (lambda run: run["drops"], "{:.0f}"),
    "recoveries": (lambda run: run["recoveries"], "{:.0f}"),
    "timeouts": (lambda run: run["timeouts"], "{:.0f}"),
    "loss": (lambda run: 100 * run["drops"] / run["arrivals"], "{:.2f} %"),
    "marked": (lambda run: 100 * run["marks"] / run["packets"], "{:.1f} %"),
    "mean queue": (lambda run: run["queue"] / 1000, "{:.1f} kB"),
}
OF_NETWORKS = ["goodput", "packets", "drops", "recoveries", "timeouts", "mean queue"]
OF_AQMS = ["goodput", "loss", "marked", "recoveries", "timeouts", "mean queue"]


def run_all(scenarios, pool):
    """The runs of every scenario: {scenario name: {oracle: [run of each seed]}}."""
    jobs = {
        (scenario.name, oracle, seed): pool.submit(ORACLES[oracle], scenario, seed)
        for scenario in scenarios
        for oracle in scenario.oracles
        for seed in scenario.seeds
    }
    runs = {}
    for done, ((name, oracle, seed), job) in enumerate(jobs.items(), 1):
        runs.setdefault(name, {}).setdefault(oracle, []).append(job.result())
        print(f"\r{done}/{len(jobs)} {oracle}: {name}\033[K", end="", file=sys.stderr, flush=True)
    print("\r\033[K", end="", file=sys.stderr)
    return runs


def table(title, head, rows):
    """A table of markdown."""
    print(f"\n### {title}\n")
    for row in [head, ["---"] * len(head), *rows]:
        print("| " + " | ".join(row) + " |")


def networks(title, scenarios, quantities, pool):
    """Prints what every oracle says of the scenarios, the mean of their seeds."""
    runs = run_all(scenarios, pool)
    rows = []
    for scenario in scenarios:
        for quantity in quantities:
            take, form = QUANTITIES[quantity]
            cells = [
                form.format(mean(map(take, runs[scenario.name][oracle]))) if oracle in scenario.oracles else ""
                for oracle in ORACLES
            ]
            rows.append([scenario.name, quantity, *cells])
    table(title, ["scenario", "quantity", *ORACLES], rows)


def losses(pool):
    """Prints the ratio of what ns-2 reaches under chance losses to the formulas."""
    runs = run_all(LOSSES, pool)
    rows = []
    for scenario in LOSSES:
        [run] = runs[scenario.name]["ns-2"]
        rate = run["goodput"] / 8 / scenario.payload / 10
        per_ack = 2 if scenario.delayed else 1
        ratios = [rate / formula(scenario.loss, 0.1, per_ack) for formula in (mathis, padhye)]
        rows.append([scenario.name, *(f"{ratio:.2f}" for ratio in ratios)])
    table("Chance losses: goodput over formula", ["scenario", "ns-2 / Mathis", "ns-2 / Padhye"], rows)


def traces():
    """Whether the golden traces in the repository are what ns-2 sends."""
    same = golden.KEPT.read_text() == golden.file()
    print(f"\nGolden traces of ns-2: {'as kept' if same else 'differ from ' + str(golden.KEPT)}")
    return same


def main():
    parts = {
        "golden": lambda _: traces(),
        "networks": lambda pool: networks("One bottleneck", NETWORKS, OF_NETWORKS, pool),
        "aqm": lambda pool: networks("240 flows, 10 Mbit/s, 150 kB", AQMS, OF_AQMS, pool),
        "losses": losses,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *parts], help="only these", metavar="|".join(parts))
    chosen = parser.parse_args().parts or list(parts)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = [parts[part](pool) for part in chosen]
    sys.exit(any(outcome is False for outcome in outcomes))


if __name__ == "__main__":
    main()
