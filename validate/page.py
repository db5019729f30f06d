"""Writes the tables between their markers on a page of the documentation."""

import re
from pathlib import Path

from .report import Report


def write(path: Path, part: str, report: Report) -> None:
    """Replaces the text between the markers of a part."""
    begin, end = f"<!-- {part}: written by make validate -->", f"<!-- {part}: end -->"
    failed = [f"**These fail:** {'; '.join(report.failed)}."] if report.failed else []
    block = "\n\n".join([begin, *report.said, *failed, end])
    text, count = re.subn(
        re.escape(begin) + ".*?" + re.escape(end),
        lambda _: block,
        path.read_text(),
        flags=re.DOTALL,
    )
    if count != 1:
        raise ValueError(f"{path} has no markers for {part}")
    path.write_text(text)
