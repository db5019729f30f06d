"""The chapter *Reproduce* of the documentation: every claim with its verdict, and every figure."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from tidegate.experiment import KINDS, Experiment, Verdict, files, root_of
from tidegate.published import SKIPPED, Page, escaped, row_of
from tidegate.refresh import refreshed
from tidegate.result import Table
from tidegate.statistics import MEAN


def write_report(
    experiments: Sequence[Experiment],
    runs: Mapping[str, Table],
    out: Path,
    every: Sequence[Experiment] = (),
) -> None:
    """Writes a page for each paper, and the figures of its experiments into a folder beside it.

    The same runs give identical files. The sections of two kinds of experiments are copied from an
    earlier page: those in ``every`` that were not run now, and those that this machine cannot run.
    """
    for paper, group in groupby(experiments, lambda each: each.paper):
        own, path = list(group), out / f"{paper}.md"
        earlier = Page.read(path)
        made = [each for each in own if not (each.missing and earlier.measured(each.name))]
        verdicts = {each.id: each.judge(runs[each.id]) for each in made}
        for each in made:
            if each.draw is not None and not each.missing:
                _write(out / paper / f"{each.name}.svg", _svg(each, runs[each.id]))
        names = [each.name for each in every or experiments if each.paper == paper]
        page = earlier.joined(_page(made, verdicts), names)
        _write(path, _text(paper, page, root_of(Path(own[0].file))))
    write_overview(out)


def recount(every: Sequence[Experiment], out: Path) -> None:
    """Writes each page again from its sections, with the present texts of its experiments.

    Sections of removed experiments are deleted. Nothing is run, so numbers and verdicts do not
    change.
    """
    for paper, group in groupby(every, lambda each: each.paper):
        own, path = list(group), out / f"{paper}.md"
        page = Page.read(path).joined(Page({}, {}), [each.name for each in own])
        page = refreshed(page, own)
        if page.rows:
            _write(path, _text(paper, page, root_of(Path(own[0].file))))
    write_overview(out)


def write_overview(out: Path) -> None:
    """Writes the summary of all pages: numbers of claims that hold, and those that do not."""
    pages = {path.stem: Page.read(path) for path in sorted(out.glob("*.md"))}
    pages = {name: page for name, page in pages.items() if page.rows}
    lines = ["# Verdicts", "", _HOW_OVERVIEW]
    lines += _items(count(it for page in pages.values() for it in page.verdicts()))
    for name, page in pages.items():
        lines += ["", f"## [`{name}`]({name}.md)", "", *_items(count(page.verdicts()))]
        for word in ("does not hold", "undecided", "skipped"):
            if short := page.short(word):
                lines += ["", f"{word[0].upper()}{word[1:]}:", "", *_items("\n".join(short))]
    _write(out / OVERVIEW, "\n".join([*lines, ""]))


def draw_figure(experiment: Experiment, runs: Table, out: Path) -> list[Path]:
    """Writes the figure of an experiment, if it has one, as SVG and PNG. Returns the paths."""
    if experiment.draw is None or experiment.missing:
        return []
    stem = out / experiment.id.replace("/", "-")
    svg, png = stem.with_suffix(".svg"), stem.with_suffix(".png")
    _write(svg, _svg(experiment, runs))
    experiment.draw(runs).savefig(png, dpi=150)
    return [svg, png]


def summary(verdicts: Sequence[Verdict]) -> str:
    """A line for each claim, and the number of claims that hold, for the terminal."""
    rows = [("verdict", "kind", "claim", "paper", "ours", "95 % confidence")]
    for each in verdicts:
        ours = each.ours
        rows.append((
            each.word, each.claim.kind, each.claim.id, _paper(each),
            f"{ours.value:.4g}", f"{ours.low:.4g} to {ours.high:.4g}",
        ))  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, "", tally(verdicts)])


def tally(verdicts: Sequence[Verdict]) -> str:
    """Counts the verdicts of each kind, and of all judged claims."""
    return count((each.claim.kind, each.word) for each in verdicts)


def count(found: Iterable[tuple[str, str]]) -> str:
    """Counts verdicts in words, from the kind and the verdict of each claim."""
    words: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for kind, word in found:
        words[kind].append(word)
    context = words.pop("context")
    lines = [f"{kind}: {_count(own)}" for kind, own in words.items() if own]
    lines += [f"context: {len(context)}, not judged."] if context else []
    judged = [word for own in words.values() for word in own]
    return "\n".join([*lines, f"{len(judged)} claims: {_count(judged)}" if judged else "0 claims."])


def _count(words: Sequence[str]) -> str:
    counts = [(words.count(word), word) for word in _ONE_AND_MANY]
    return ", ".join(f"{n} {_ONE_AND_MANY[word][n > 1]}" for n, word in counts if n) + "."


_ONE_AND_MANY = {
    "holds": ("holds", "hold"),
    "undecided": ("undecided", "undecided"),
    "skipped": ("skipped", "skipped"),
    "does not hold": ("does not hold", "do not hold"),
}


def _page(experiments: Sequence[Experiment], verdicts: Mapping[str, Sequence[Verdict]]) -> Page:
    page = Page({}, {})
    for each in experiments:
        page.rows[each.name] = [_short_row(each, verdict) for verdict in verdicts[each.id]]
        page.sections[each.name] = "\n".join(_section(each, verdicts[each.id]))
    return page


def _text(paper: str, page: Page, root: Path) -> str:
    lines = [f"# The paper `{paper}`", "", _HOW, *_items(count(page.verdicts())), "", _HEAD_OF_ALL]
    lines += [row for rows in page.rows.values() for row in rows]
    lines += [""]
    for path in sorted(files(root, paper, "_*.py"), key=lambda path: path.name):
        if text := ast.get_docstring(ast.parse(path.read_text())):
            lines += [f"## Shared: `{path.name}`", "", text, ""]
    return "\n".join([*lines, *page.sections.values()])


def _section(experiment: Experiment, verdicts: Sequence[Verdict]) -> list[str]:
    lines = [f"## {experiment.name}", "", experiment.text, ""]
    lines += ["```", f"tidegate-repro check {experiment.id}"]
    if experiment.draw is not None:
        lines += [f"tidegate-repro figure {experiment.id}"]
    lines += ["```", "", _HEAD, *map(_row, verdicts), ""]
    if experiment.missing:
        return [*lines, f"{SKIPPED} {experiment.missing}.", ""]
    for each in verdicts:
        if each.reason:
            lines += [f"Why not `#{each.claim.short}`: {each.reason}.", ""]
    if experiment.draw is not None:
        figure = f"{experiment.paper}/{experiment.name}.svg"
        lines += [f"![{experiment.title}]({figure})", ""]
    return lines


def _short_row(experiment: Experiment, verdict: Verdict) -> str:
    link = f"[{experiment.name}](#{experiment.name})"
    claim, ours = verdict.claim, str(verdict.ours).split(" ")[0]
    return _cells(link, claim.text, claim.kind, _paper(verdict), ours, _mark(verdict))


def _row(verdict: Verdict) -> str:
    claim, ours = verdict.claim, verdict.ours
    name = f"`#{claim.short}` {claim.text}"
    estimate = str(ours) if claim.statistic is MEAN else f"{claim.statistic.name} {ours}"
    bounds = f"{claim.bounds} (tolerance ours)" if claim.tolerance_is_ours else claim.bounds
    return _cells(
        name, claim.kind, _paper(verdict), estimate, ours.count, bounds or "-", _mark(verdict)
    )


def _paper(verdict: Verdict) -> str:
    return "-" if verdict.claim.paper is None else str(verdict.claim.paper)


def _items(text: str) -> list[str]:
    return [f"- {line}" for line in text.splitlines()]


def _cells(*cells: object) -> str:
    return row_of(escaped(str(cell)) for cell in cells)


def _mark(verdict: Verdict) -> str:
    quiet = verdict.holds or not verdict.claim.judged
    return verdict.word if quiet else f"**{verdict.word}**"


def _svg(experiment: Experiment, runs: Table) -> str:
    """The figure as SVG text: small, and identical for identical numbers."""
    import matplotlib

    assert experiment.draw is not None
    settings: Any = {"svg.hashsalt": experiment.id, "svg.fonttype": "none"}
    with matplotlib.rc_context(settings), io.StringIO() as file:
        meta = {"Date": None, "Creator": None}
        experiment.draw(runs).savefig(file, format="svg", metadata=meta)
        svg = file.getvalue()
    # A hundredth of a point is below the resolution of any screen.
    svg = re.sub(r"(\d\.\d\d)\d+", r"\1", svg)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


_HEAD_OF_ALL = "| experiment | claim | kind | paper | ours | verdict |\n|---|---|---|---|---|---|"

_HEAD = """| claim | kind | paper | ours (95 % confidence) | seeds | holds if | verdict |
|---|---|---|---|---|---|---|"""

_HOW = """Written by `tidegate-repro report`; do not edit. Ours is the mean over the seeds of the
experiment, with its 95 % confidence interval (Student's t), where no other statistic is named.
A claim holds when the whole interval lies within the bounds.
See [kinds of claims](README.md#kinds) and [how verdicts are found](README.md#verdicts).
"""

OVERVIEW = "verdicts.md"
"""The page that counts the claims of all other pages."""

_HOW_OVERVIEW = """Written by `tidegate-repro report` from the pages of this chapter; do not edit.
The pages say what each claim rests on, and [README](README.md#verdicts) how verdicts are found.
"""
