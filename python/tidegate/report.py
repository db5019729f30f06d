"""The chapter *Reproduce* of the documentation: every claim with its verdict, every figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from tidegate.experiment import Experiment, Verdict
from tidegate.result import Table


def write_report(experiments: Sequence[Experiment], runs: Mapping[str, Table], out: Path) -> None:
    """Writes a page for each paper, and the figure of each experiment beside it."""
    out.mkdir(parents=True, exist_ok=True)
    for paper, group in groupby(experiments, lambda each: each.id.split("/")[0]):
        sections = [_section(each, runs[each.id], out) for each in group]
        (out / f"{paper}.md").write_text(f"# `{paper}`\n\n{_HOW}\n" + "\n".join(sections))


def _figure(experiment: Experiment, runs: Table, out: Path) -> str | None:
    if experiment.draw is None:
        return None
    name = experiment.id.replace("/", "-")
    figure = experiment.draw(runs)
    figure.savefig(out / f"{name}.svg", metadata={"Date": None})
    figure.savefig(out / f"{name}.png", dpi=150)
    return f"{name}.svg"


def _section(experiment: Experiment, runs: Table, out: Path) -> str:
    verdicts = [claim.judge(runs) for claim in experiment.claims]
    figure = _figure(experiment, runs, out)
    lines = [f"## {experiment.id}", "", experiment.text, ""]
    lines += [f"```\ntidegate-repro check {experiment.id}\n```", ""]
    lines += [_HEAD, *map(_row, verdicts), ""]
    lines += [
        f"{each.claim.id}: {each.claim.why}\n"
        for each in verdicts
        if not each.holds and each.claim.why
    ]
    if figure:
        lines += [f"![{experiment.title}]({figure})", ""]
    return "\n".join(lines)


def _row(verdict: Verdict) -> str:
    claim = verdict.claim
    mark = "holds" if verdict.holds else "**does not hold**"
    return f"| {claim.text} | {claim.paper} | {verdict.ours} | {mark} |"


_HEAD = "| claim | paper | ours (95 % confidence interval) | |\n|---|---|---|---|"

_HOW = """Written by `tidegate-repro report`; do not edit. Each number is the mean over the seeds of
the experiment. A claim holds when the confidence interval of that mean is within the bounds that
the experiment's file gives.
"""
