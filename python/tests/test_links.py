"""Every link of the manual leads somewhere, and every table renders."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]

# These texts become parts of other pages, and their links are relative to those pages.
PARTS = ("crates/",)


def without_blocks(text: str) -> str:
    """A page without its blocks of code. All lines are kept, so line numbers stay right."""
    blocks = re.compile(r"^ *```.*?^ *```", flags=re.DOTALL | re.MULTILINE)
    return blocks.sub(lambda block: "\n" * block[0].count("\n"), text)


def prose(text: str) -> str:
    """A page without its code. All lines are kept, so line numbers stay right."""
    return re.sub(r"`[^`\n]*`", "code", without_blocks(text))


def anchors(text: str) -> set[str]:
    """The names of a page's headings, as mdbook and GitHub make them."""
    names: dict[str, int] = {}
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", without_blocks(text), flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip()).replace("`", "").lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        earlier = names.get(name, 0)
        names[name] = earlier + 1
        found.add(f"{name}-{earlier}" if earlier else name)
    return found


def broken_links(page: Path, text: str) -> list[str]:
    """Links of a page to files or headings that do not exist."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            broken.append(f"{link}: no such file")
        elif anchor and target.suffix == ".md":
            there = text if target == page else target.read_text()
            if anchor not in anchors(there):
                broken.append(f"{link}: no such heading")
    return broken


def broken_tables(text: str) -> list[str]:
    """Lines of tables without a head, or with more or fewer cells than the head.

    A bar ends a cell even inside code, unless a backslash precedes it (GitHub Flavored Markdown,
    section 4.10).
    """
    broken = []
    lines = [line.lstrip() for line in without_blocks(text).split("\n")]
    cells = 0
    for number, line in enumerate(lines, 1):
        if not line.startswith("|"):
            cells = 0
            continue
        here = len(re.findall(r"(?<!\\)\|", line))
        if not cells:
            following = lines[number] if number < len(lines) else ""
            if not re.match(r"\|[\s:|-]+\|\s*$", following):
                broken.append(f"line {number}: a table without a head")
            cells = here
        elif not line.rstrip().endswith("|"):
            broken.append(f"line {number}: a row without its last bar")
        elif here != cells:
            broken.append(f"line {number}: {here - 1} cells below {cells - 1}")
    return broken


def test_every_link_of_a_page_leads_somewhere_and_every_table_renders():
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    pages = [ROOT / name for name in listed.stdout.split() if not name.startswith(PARTS)]
    assert len(pages) > 40
    faults = [
        f"{page.relative_to(ROOT)}: {fault}"
        for page in pages
        if page.exists()
        for fault in [
            *broken_links(page, page.read_text()),
            *broken_tables(page.read_text()),
        ]
    ]
    assert faults == []


def test_every_page_of_the_manual_stands_in_its_summary():
    docs = ROOT / "docs"
    summary = re.findall(r"\]\(([^)]+)\)", (docs / "SUMMARY.md").read_text())
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")} - {"SUMMARY.md"}
    assert sorted(summary) == sorted(pages)


def test_a_broken_link_is_found(tmp_path):
    """Catches: links that are not read; headings that are not compared; code treated as links."""
    page = tmp_path / "page.md"
    text = "# One `two`\n\n[a](other.md), [b](#one-two), [c](#two), [d](https://x.y), `[e](f)`\n"
    page.write_text(text)
    assert broken_links(page, text) == ["other.md: no such file", "#two: no such heading"]
    (tmp_path / "other.md").write_text("# Other\n\n# Other\n")
    assert broken_links(page, "[a](other.md#other-1)") == []
    assert broken_links(page, "[a](other.md#other-2)") == ["other.md#other-2: no such heading"]


def test_a_broken_table_is_found():
    """Catches: a row after an empty line; a cell too many; a bar inside code that does not end a
    cell."""
    table = "| a | b |\n|---|---|\n| 1 | `2 \\| 3` |\n"
    assert broken_tables(table) == []
    assert broken_tables("- x\n\n  " + table.replace("\n", "\n  ")) == []
    assert broken_tables(table + "| 4 | `5 | 6` |\n") == ["line 4: 3 cells below 2"]
    assert broken_tables(table + "| 4 | 5\n") == ["line 4: a row without its last bar"]
    assert broken_tables(table + "\n| 4 | 5 |\n") == ["line 5: a table without a head"]
    assert broken_tables(table + "| 4 | 5 | 6 |\n") == ["line 4: 3 cells below 2"]
