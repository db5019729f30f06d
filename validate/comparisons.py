"""What is compared: each function prints a table and returns the rows whose verdict fails."""

import subprocess
import tempfile
from pathlib import Path
from statistics import mean

from formulas import mathis, padhye
from oracles import ORACLES
from ours import ours
from report import (DROPS, GOODPUT, LOSS, MARKED, RECOVERIES, TIMEOUTS, average, progress, queue_of, row, table,
                    utilisation)
from scenarios import AQMS, KERNEL, LOSSES, NETWORKS

HERE = Path(__file__).parent
VECTORS = HERE.parent / "crates/core/tests/vectors/ns2"


def run_all(scenarios, pool):
    """The runs of every scenario: {(scenario name, who): [run of each seed]}."""
    who = {"ours": lambda scenario, seed: ours(scenario, seed, **scenario.tcp)} | ORACLES
    jobs = {
        (scenario.name, name, seed): pool.submit(who[name], scenario, seed)
        for scenario in scenarios
        for name in ["ours", *scenario.oracles]
        for seed in scenario.seeds
    }
    runs = {}
    for done, ((name, by, _), job) in enumerate(jobs.items(), 1):
        runs.setdefault((name, by), []).append(job.result())
        progress(f"{done}/{len(jobs)} {by}: {name}")
    progress("")
    return runs


def compare(title, scenarios, quantities, pool):
    """Ours beside every oracle of the scenarios, the mean of their seeds."""
    runs = run_all(scenarios, pool)
    rows, failed = [], []
    for scenario in scenarios:
        for quantity in quantities(scenario):
            own = average(runs[scenario.name, "ours"], quantity)
            others = {
                name: average(runs[scenario.name, name], quantity) if name in scenario.oracles else None
                for name in ORACLES
            }
            cells, far = row(scenario.name, quantity, own, others)
            rows.append(cells)
            failed += [f"{scenario.name}, {quantity.name}"] if far else []
    table(title, ["scenario", "quantity", "ours", *ORACLES, "ratio", "verdict"], rows)
    return failed


def golden(_pool):
    """Whether the vectors of the sender's tests are what ns-2 sends."""
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["sh", VECTORS / "make.sh", file.name], check=True)
        same = Path(file.name).read_text() == (VECTORS / "golden.txt").read_text()
    print(f"\nWhat ns-2's senders send, in {len((VECTORS / 'golden.txt').read_text().splitlines()) - 2} runs:",
          "as the sender's tests have it" if same else "not as the sender's tests have it")
    return [] if same else ["vectors/ns2/golden.txt is not what ns-2 says"]


def networks(pool):
    """Flows through one bottleneck."""
    quantities = lambda scenario: [GOODPUT, DROPS, RECOVERIES, TIMEOUTS, queue_of(scenario.buffer)]
    return compare("One bottleneck", NETWORKS, quantities, pool)


def aqms(pool):
    """Experiment 1 of the paper `marking`."""
    quantities = lambda scenario: [
        utilisation(scenario.rate), GOODPUT, LOSS, MARKED, RECOVERIES if not scenario.ecn else TIMEOUTS,
        queue_of(scenario.buffer),
    ]
    return compare("240 flows, 10 Mbit/s, 150 kB", AQMS, quantities, pool)


def losses(pool):
    """Chance losses, against the formulas."""
    runs = run_all(LOSSES, pool)
    rows, failed = [], []
    for scenario in LOSSES:
        per_ack = 2 if scenario.delayed else 1
        rate = {who: mean(run["goodput"] for run in runs[scenario.name, who]) / 8 / scenario.payload / 10
                for who in ("ours", "ns-2")}
        for name, formula, explanation in [
            ("Mathis", mathis, None),
            ("Padhye", padhye, lambda p, *more: padhye(p, *more, lost_together=False)),
        ]:
            expected = formula(scenario.loss, 0.1, per_ack)
            ratio = {who: value / expected for who, value in rate.items()}
            verdict, instead = "holds", ""
            if explanation:
                instead = f"{rate['ours'] / explanation(scenario.loss, 0.1, per_ack):.2f}"
            if abs(ratio["ours"] - 1) > 0.15:
                explained = explanation and abs(float(instead) - 1) <= 0.15
                verdict = "outside, explained" if explained else "**outside**"
                failed += [] if explained else [f"{scenario.name}, {name}"]
            rows.append([scenario.name, name, f"{ratio['ours']:.2f}", f"{ratio['ns-2']:.2f}", instead, verdict])
    table("Chance losses: goodput over formula", ["loss", "formula", "ours", "ns-2", "ours, losses independent", "verdict"],
          rows)
    return failed


def kernel(pool):
    """The profile `linux`, against what a kernel was measured to do."""
    runs = run_all(KERNEL, pool)
    rows, failed = [], []
    for scenario in KERNEL:
        for quantity in [GOODPUT, DROPS, RECOVERIES]:
            own = average(runs[scenario.name, "ours"], quantity)
            cells, far = row(scenario.name, quantity, own, {"Linux 6.12": scenario.kernel.get(quantity.name)})
            rows.append(cells)
            failed += [f"{scenario.name}, {quantity.name}"] if far else []
    table("As Linux 6.12 in virtual time", ["scenario", "quantity", "ours", "Linux 6.12", "ratio", "verdict"], rows)
    return failed
