"""Updates the texts about experiments in published pages, without running the experiments again.

A page has a section for each experiment. The section repeats texts of the experiment's file: the
docstring, the claims, the reasons why claims do not hold, and the title of the figure. These texts
may change after the run. This module does not change numbers, bounds and verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidegate.experiment import AT_BOUND, Claim, Experiment
from tidegate.published import CLAIM, REASON, Page, cells_of, escaped, row_of

COMMANDS = "\n```\ntidegate-repro "
"""The first text of a section after the docstring."""

FAILED = ("does not hold", "undecided")
"""Verdicts that have a reason."""


def refreshed(page: Page, experiments: Iterable[Experiment]) -> Page:
    """The page with the present texts of these experiments.

    The claims of an experiment may have been removed after publication. The page keeps the text and
    the reason of a removed claim.
    """
    rows, sections = dict(page.rows), dict(page.sections)
    for each in experiments:
        if section := sections.get(each.name):
            claims = {claim.short: claim for claim in each.claims}
            found = filter(None, map(CLAIM.match, section.splitlines()))
            rows[each.name] = _rows(rows[each.name], [claims.get(it[1]) for it in found])
            sections[each.name] = _section(section, each, claims)
    return Page(rows, sections)


def _rows(rows: Sequence[str], claims: Sequence[Claim | None]) -> list[str]:
    """Rows of the table of all claims, with their present texts; claims are in the same order."""
    return [
        _with_cell(row, 1, claim.text) if claim else row
        for row, claim in zip(rows, claims, strict=True)
    ]


def _section(section: str, experiment: Experiment, claims: Mapping[str, Claim]) -> str:
    _, commands, rest = section.partition(COMMANDS)
    published = dict(REASON.findall(rest))
    lines = REASON.sub("", rest).rstrip("\n").split("\n")
    reasons, end_of_table = [], 0
    for n, line in enumerate(lines):
        if found := CLAIM.match(line):
            claim = claims.get(found[1])
            if claim:
                lines[n] = _with_cell(line, 0, f"`#{claim.short}` {claim.text}")
            if reason := _reason(line, published.get(found[1], ""), claim):
                reasons += ["", f"Why not `#{found[1]}`: {reason}."]
            end_of_table = n + 1
        elif line.endswith(picture := f"]({experiment.paper}/{experiment.name}.svg)"):
            lines[n] = f"![{experiment.title}{picture}"
    lines[end_of_table:end_of_table] = reasons
    text = "\n".join(lines)
    return f"## {experiment.name}\n\n{experiment.text}\n{commands}{text}\n"


def _reason(row: str, published: str, claim: Claim | None) -> str:
    """The claim's reason; empty if the claim holds.

    The words "at the bound" are a result of the run, so they are not changed.
    """
    if claim is None or cells_of(row)[-1].strip("*") not in FAILED:
        return published
    near = published.split("; ")[0]
    parts = [near if AT_BOUND in near else "", claim.why or ""]
    return "; ".join(filter(None, parts))


def _with_cell(row: str, column: int, text: str) -> str:
    """The row of a table with ``text`` in column number ``column``."""
    cells = cells_of(row)
    cells[column] = escaped(text)
    return row_of(cells)
