"""Published pages of the chapter *Reproduce*: reads them, and merges new sections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SKIPPED = "Skipped where this page was written:"
"""The first words of the reason in the section of an experiment that was not run."""


@dataclass(frozen=True)
class Page:
    """The page of a paper: table rows and a section for each experiment, in order of names."""

    rows: dict[str, list[str]]
    """Lines of the table of all claims."""
    sections: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> Page:
        """Parses a page of :mod:`tidegate.report`. Any other page, or none, gives an empty page."""
        text = path.read_text() if path.exists() else ""
        page = cls({}, {})
        for line in text.splitlines():
            if found := _ROW.match(line):
                page.rows.setdefault(found[1], []).append(line)
        for section in _HEADING.split(text)[1:]:
            name = section.split("\n", 1)[0].removeprefix("## ")
            if name in page.rows:
                page.sections[name] = section.rstrip("\n") + "\n"
        return page

    def joined(self, newer: Page, names: Sequence[str]) -> Page:
        """This page with the experiments of a newer page. Keeps only ``names``, in their order."""
        rows, sections = self.rows | newer.rows, self.sections | newer.sections
        known = [name for name in names if name in sections]
        return Page({it: rows[it] for it in known}, {it: sections[it] for it in known})

    def measured(self, name: str) -> bool:
        """True if the page has a section of this experiment that was run."""
        return name in self.sections and f"\n{SKIPPED}" not in self.sections[name]

    def verdicts(self) -> Iterator[tuple[str, str]]:
        """Kind and verdict of each claim."""
        for rows in self.rows.values():
            for row in rows:
                _, _, kind, _, _, word = cells_of(row)
                yield kind, word.strip("*")

    def short(self, word: str) -> list[str]:
        """All claims with this verdict, with their numbers and, if known, their reasons."""
        lines = []
        for name, section in self.sections.items():
            why = dict(REASON.findall(section))
            for row in filter(CLAIM.match, section.splitlines()):
                claim, kind, _, ours, _, bounds, found = cells_of(row)
                short, text = claim.split(" ", 1)
                short = short.strip("`#")
                if found.strip("*") == word:
                    reason = why.get(short, "no reason is known")
                    said = f"{kind}; {ours}, holds if {bounds}"
                    lines.append(f"`{name}#{short}` {text} ({said}): {reason}.")
        return lines


def cells_of(row: str) -> list[str]:
    r"""The cells of a row. In a row, a bar inside a cell is written ``\|``."""
    return [cell.strip() for cell in _BAR.split(row.strip())[1:-1]]


def row_of(cells: Iterable[str]) -> str:
    r"""The row with these cells. A bar inside a cell is written ``\|``."""
    return "| " + " | ".join(cells) + " |"


def escaped(text: str) -> str:
    r"""A text as a cell of a row: bars are written ``\|``."""
    return text.replace("|", "\\|")


CLAIM = re.compile(r"\| `#([^`]+)` ")
"""The start of a claim's row in a section. The group is the claim's id within the experiment."""

REASON = re.compile(r"^Why not `#([^`]+)`: (.*)\.\n+", re.MULTILINE)
"""The reason why a claim does not hold, with the empty line after it."""

_BAR = re.compile(r"(?<!\\)\|")
_ROW = re.compile(r"\| \[([^\]]+)\]\(#")
_HEADING = re.compile(r"^(?=## )", re.MULTILINE)
