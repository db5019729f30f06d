"""The Python code in the manual runs as printed."""

import json
import re
import runpy
import tomllib
from pathlib import Path

import jsonschema
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "python.md"


def test_the_examples_of_the_manual_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 6
    page = tmp_path / "manual.py"
    page.write_text("\n".join(blocks))
    names = runpy.run_path(str(page))
    assert names["run"].aggregates["policy"].tolist() == ["bulk"] * 2
    assert names["shared"]["aggregate long-a"]["weight_share"][-1] > 0
    assert names["fairness"](1, "fcfs")["jain"] > 0.5
    assert (tmp_path / "fcfs.svg").exists()
    assert "queue-full" in capsys.readouterr().out


def test_the_pages_of_the_papers_are_linked_and_have_their_figures():
    docs = PAGE.parents[1]
    summary = (docs / "SUMMARY.md").read_text()
    papers = [path.name for path in (docs.parent / "experiments").iterdir() if path.is_dir()]
    for paper in (name for name in papers if not name.startswith("_") and name != "live"):
        assert f"(reproduce/{paper}.md)" in summary
        page = (docs / "reproduce" / f"{paper}.md").read_text()
        figures = re.findall(r"!\[.*?\]\((.*?)\)", page)
        assert all((docs / "reproduce" / figure).exists() for figure in figures) and figures


ROOT = PAGE.parents[2]
EXAMPLES = [
    *(("policy", path) for path in sorted((ROOT / "examples").glob("*.toml"))),
    *(("aggregate", path) for path in sorted((ROOT / "examples/aggregate").glob("*.toml"))),
    *(
        ("topology", path)
        for folder in ("lab", "sim")
        for path in sorted((ROOT / "examples" / folder).glob("*.toml"))
    ),
]


def validator(kind: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((ROOT / "docs" / f"{kind}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize(("kind", "path"), EXAMPLES, ids=lambda it: getattr(it, "name", it))
def test_the_published_schema_accepts_every_example(kind, path):
    validator(kind).validate(tomllib.loads(path.read_text()))


@pytest.mark.parametrize(
    ("tables", "field"),
    [
        ("[run]\nduration = 10", "run.duration"),
        ('[run]\nduration = "10 s"\ntcp = { rto_min = "1" }', "run.tcp.rto_min"),
        ('[run]\nduration = "10 s"\ntcp = { ecn = "yes" }', "run.tcp.ecn"),
        ('[run]\nduration = "10 s"\ntcp = { prr = 1 }', "run.tcp.prr"),
        ('[[link]]\nfrom = "a"\nto = "b"\nrate = "10 Mbps"', "link.0.rate"),
        ('[[link]]\nfrom = "a"\nto = "b"\nqueue = "blue"', "link.0.queue"),
        ('[[link]]\nfrom = "a"\nto = "b"\nqueue = { kind = "red", mni = "1 B" }', "link.0.queue"),
        ('[[link]]\nfrom = "a"\nto = "b"\nloss = { p = "1" }', "link.0.loss"),
    ],
)
def test_schema_and_reader_refuse_the_same_values(tables, field):
    file = tomllib.loads('[[host]]\nname = "a"\n' + tables)
    (error,) = validator("topology").iter_errors(file)
    assert ".".join(map(str, error.absolute_path)) == field


def test_the_published_schema_states_the_defaults():
    run = validator("topology").schema["properties"]["run"]["properties"]
    assert run["warmup"]["default"] == "0 s" and run["tcp"]["default"] == {"profile": "rfc"}
    assert "default" not in run["sample"]
    recovery = run["tcp"]["properties"]["recovery"]
    assert recovery["enum"] == ["tahoe", "reno", "new-reno", "sack"]
    assert recovery["description"] == "The method that finds and repairs lost segments."
