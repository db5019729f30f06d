"""What the manual says in Python runs as it stands there."""

import re
import runpy
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "python.md"


def test_the_examples_of_the_manual_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 4
    page = tmp_path / "manual.py"
    page.write_text("\n".join(blocks))
    names = runpy.run_path(str(page))
    assert names["run"].aggregates["policy"].tolist() == ["bulk"] * 2
    assert names["fairness"](1, "fcfs")["jain"] > 0.5
    assert (tmp_path / "fcfs.svg").exists()
    assert "queue-full" in capsys.readouterr().out


def test_the_pages_of_the_reproduced_papers_can_be_reached_and_have_their_figures():
    docs = PAGE.parents[1]
    summary = (docs / "SUMMARY.md").read_text()
    papers = [path.name for path in (docs.parent / "experiments").iterdir() if path.is_dir()]
    for paper in (name for name in papers if not name.startswith("_")):
        assert f"(reproduce/{paper}.md)" in summary
        page = (docs / "reproduce" / f"{paper}.md").read_text()
        figures = re.findall(r"!\[.*?\]\((.*?)\)", page)
        assert all((docs / "reproduce" / figure).exists() for figure in figures) and figures
