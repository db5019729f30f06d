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
