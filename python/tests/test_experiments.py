"""Rules for all experiments of this repository: their claims, and repeated runs."""

import inspect
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from tidegate import experiment
from tidegate.report import recount

ROOT = Path(__file__).parents[2]


@pytest.fixture
def experiments(monkeypatch):
    """All experiments by id."""
    monkeypatch.setattr(experiment, "EXPERIMENTS", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [name for name in sys.modules if name.split(".")[0] == "experiments"]:
        del sys.modules[name]
    experiment.load.cache_clear()
    return experiment.discover(ROOT / "experiments")


def test_a_claim_of_a_paper_contains_a_number_or_order_of_the_paper(experiments):
    claims = [claim for each in experiments.values() for claim in each.claims]
    # Catches: a claim of a paper that states "not said" or "beyond" as the number of the paper.
    silent = ("not said", "beyond")
    assert not [claim.id for claim in claims if claim.paper in silent]
    kinds = Counter(claim.kind for claim in claims)
    assert set(kinds) == set(experiment.KINDS) and kinds["paper"] > kinds["context"]
    assert max(Counter(claim.id for claim in claims).values()) == 1


def test_the_published_pages_have_the_texts_of_the_experiments(experiments, tmp_path):
    """Catches: a docstring, claim or reason that changed without `tidegate-repro recount`."""
    pages = sorted((ROOT / "docs" / "reproduce").glob("*.md"))
    for page in pages:
        shutil.copy(page, tmp_path)
    recount(list(experiments.values()), tmp_path)
    written = {page.name: (tmp_path / page.name).read_text() for page in pages}
    stale = [page.name for page in pages if page.read_text() != written[page.name]]
    assert not stale, "run `tidegate-repro recount`"


def test_runs_are_repeated_only_after_hangs(experiments):
    """Catches: runs repeated because of their results; an unlimited number of repetitions."""
    live = sys.modules["experiments.live.postack._live"]
    assert set(inspect.signature(live.side_by_side).parameters) == {"call", "names"}
    for hangs, rounds in (([0], 1), ([2, 0], 2), ([1] * 9, 1 + live.AGAIN)):
        left, made = iter(hangs), []

        def call(name, left=left, made=made):
            made.append(name)
            return {"rate": 0.0, "hangs": next(left)}

        found = live.side_by_side(call, ["gate"])
        assert len(made) == rounds and found["gate rate"] == 0
