"""Compares the simulator with ns-2, ns-3, formulas and measured kernels.

`golden`, `networks`, `aqms`, `losses` and `kernel` make one comparison each, and add its tables and
verdicts to a report. A *toggle* reverses one detail of our TCP, the supposed cause of a difference.
If the difference from a reference then disappears, this detail explains it.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from statistics import mean
from typing import Any, TypeAlias

from .formulas import mathis, padhye
from .oracles import ORACLES
from .ours import ours
from .report import (
    DROPS,
    GOODPUT,
    LOSS,
    MARKED,
    RECOVERIES,
    TIMEOUTS,
    Quantity,
    Report,
    Run,
    average,
    progress,
    queue_of,
    utilisation,
    within,
)
from .scenarios import AQMS, KERNEL, LOSSES, MEASURED, NETWORKS, Scenario

Simulate: TypeAlias = Callable[[Scenario, int], Run]
"""Runs a scenario with a seed."""

Quantities: TypeAlias = Callable[[Scenario], Sequence[Quantity]]
"""The compared quantities of a scenario."""

HERE = Path(__file__).parent
VECTORS = HERE.parent / "crates/tcp/tests/vectors/ns2"


def changed_by(tcp: Mapping[str, Any]) -> Simulate:
    """Returns our simulator with additional TCP settings."""
    return lambda scenario, seed: ours(scenario, seed, **{**scenario.tcp, **tcp})


def run_all(scenarios: Sequence[Scenario], pool: Executor) -> dict[tuple[str, str], list[Run]]:
    """Runs all scenarios with all seeds; returns the runs by names of scenario and simulator.

    Runs of our simulator have the name "ours". Runs with a toggle have the toggle's cause.
    """
    todo = []
    for scenario in scenarios:
        who: dict[str, Simulate] = {name: ORACLES[name] for name in scenario.oracles}
        for cause, changed in [
            ("ours", {}),
            *((toggle.cause, toggle.tcp) for toggle in scenario.toggles),
        ]:
            who[cause] = changed_by(changed)
        for name, simulate in who.items():
            # ns-3 takes twenty times as long as ns-2, so it starts first, with one seed.
            seeds = scenario.seeds[:1] if name == "ns-3" else scenario.seeds
            todo += [(name != "ns-3", scenario, name, simulate, seed) for seed in seeds]
    todo.sort(key=lambda job: job[0])
    jobs = [
        (scenario.name, name, pool.submit(simulate, scenario, seed))
        for _, scenario, name, simulate, seed in todo
    ]
    runs: dict[tuple[str, str], list[Run]] = {}
    for done, (name, by, job) in enumerate(jobs, 1):
        runs.setdefault((name, by), []).append(job.result())
        progress(f"{done}/{len(jobs)} {name}")
    progress("")
    return runs


def compare(
    report: Report,
    title: str,
    scenarios: Sequence[Scenario],
    quantities: Quantities,
    references: Sequence[str],
    pool: Executor,
) -> None:
    """Compares the mean over our seeds with each reference: a simulator, or a measured kernel."""
    runs = run_all(scenarios, pool)
    rows, causes = [], []
    for scenario in scenarios:
        for quantity in quantities(scenario):
            names = {"ours", *scenario.oracles, *(toggle.cause for toggle in scenario.toggles)}
            values = {name: average(runs[scenario.name, name], quantity) for name in names}
            others = {
                name: values[name]
                if name in scenario.oracles
                else scenario.measured.get(quantity.name)
                for name in references
            }
            explained = {
                it.cause: values[it.cause]
                for it in scenario.toggles
                if quantity.name in it.quantities
            }
            rows.append(report.judged(scenario.name, quantity, values["ours"], others, explained))
            causes += [
                report.toggled(scenario.name, quantity, cause, values["ours"], toggled, others)
                for cause, toggled in explained.items()
            ]
    report.table(title, ["scenario", "quantity", "ours", *references, "ratio", "verdict"], rows)
    report.table(
        "Causes, shown by toggling each",
        [
            "scenario",
            "quantity",
            "toggled detail",
            "ours",
            "toggled",
            *references,
            "verdict",
        ],
        causes,
    )


def golden(report: Report, _pool: Executor) -> None:
    """Checks that ns-2 still sends the segments in the test vectors of our sender."""
    makers: dict[str, list[str | Path]] = {
        "golden.txt": ["sh", VECTORS / "make.sh"],
        "patterns.txt": [sys.executable, HERE / "ns2/patterns.py"],
    }
    for name, maker in makers.items():
        with tempfile.NamedTemporaryFile() as file:
            subprocess.run([*maker, file.name], check=True, stdout=subprocess.DEVNULL)
            made = Path(file.name).read_text()
        kept = (VECTORS / name).read_text()
        runs = sum(not line.startswith("#") for line in kept.splitlines())
        verdict = "" if made == kept else "**not** "
        report.say(
            f"`{name}` of the sender's tests is {verdict}equal to the output of ns-2's senders "
            f"in {runs} runs."
        )
        if made != kept:
            report.failed.append(f"vectors/ns2/{name} is not what ns-2 says")


def networks(report: Report, pool: Executor) -> None:
    """Compares flows through one bottleneck."""

    def quantities(scenario: Scenario) -> Sequence[Quantity]:
        return [GOODPUT, DROPS, RECOVERIES, TIMEOUTS, queue_of(scenario.buffer)]

    compare(report, "One bottleneck", NETWORKS, quantities, list(ORACLES), pool)


def aqms(report: Report, pool: Executor) -> None:
    """Compares queues in experiment 1 of the paper `marking`."""

    def quantities(scenario: Scenario) -> Sequence[Quantity]:
        repaired = TIMEOUTS if scenario.ecn else RECOVERIES
        of_link, of_queue = utilisation(scenario.rate), queue_of(scenario.buffer)
        return [of_link, GOODPUT, LOSS, MARKED, repaired, of_queue]

    compare(report, "240 flows, 10 Mbit/s, 150 kB", AQMS, quantities, list(ORACLES), pool)


Formula: TypeAlias = Callable[[float, float, int], float]

# For each name: the formula, a wrong assumption of the formula, and the formula without this
# assumption.
FORMULAS: dict[str, tuple[Formula, str, Formula | None]] = {
    "Mathis": (mathis, "", None),
    "Padhye": (
        padhye,
        "with a segment the rest of its round is lost",
        lambda p, rtt, each: padhye(p, rtt, each, lost_together=False),
    ),
}


def losses(report: Report, pool: Executor) -> None:
    """Compares random losses with the formulas."""
    runs = run_all(LOSSES, pool)
    near = within(0.15)
    rows, causes = [], []
    for scenario in LOSSES:
        of = (scenario.loss, 0.1, 2 if scenario.delayed else 1)
        segments = {
            who: mean(run["goodput"] for run in runs[scenario.name, who])
            / 8
            / scenario.payload
            / len(scenario.drawn(1))
            for who in ("ours", "ns-2")
        }
        for name, (formula, assumed, without) in FORMULAS.items():
            rate = Quantity(name, lambda run: run["goodput"], "{:.1f}/s", near)
            expected = {"formula": formula(*of)}
            # The wrong assumption is in the formula, so the toggle changes the value of the
            # formula. But the report expects a changed value of ours. So ours is scaled by the
            # ratio of both formulas.
            toggled = without(*of) if without else expected["formula"]
            explained = (
                {assumed: segments["ours"] / toggled * expected["formula"]} if without else {}
            )
            cells = report.judged(scenario.name, rate, segments["ours"], expected, explained)
            rows.append(
                [
                    *cells[:4],
                    rate.cell(segments["ns-2"]),
                    cells[4],
                    f"{segments['ns-2'] / expected['formula']:.2f}",
                    cells[5],
                ]
            )
            if without and rate.far(segments["ours"], expected):
                cause = report.toggled(
                    scenario.name, rate, assumed, segments["ours"], explained[assumed], expected
                )
                ratios = [
                    f"{segments[who] / value:.2f}"
                    for value in (expected["formula"], toggled)
                    for who in segments
                ]
                causes.append([scenario.name, name, assumed, *ratios, cause[-1]])
    report.table(
        "Chance losses: segments per second of a flow",
        ["loss", "formula", "ours", "formula says", "ns-2", "ours to it", "ns-2 to it", "verdict"],
        rows,
    )
    report.table(
        "Causes, shown by toggling each",
        [
            "loss",
            "formula",
            "false assumption",
            "ours to it",
            "ns-2 to it",
            "ours to it without",
            "ns-2 to it without",
            "verdict",
        ],
        causes,
    )


def kernel(report: Report, pool: Executor) -> None:
    """Compares the profile `linux` with measurements of a kernel."""
    compare(
        report,
        "As Linux 6.12 in virtual time",
        KERNEL,
        lambda _: [GOODPUT, DROPS, RECOVERIES],
        [MEASURED],
        pool,
    )
