"""Tests of ``tidegate-repro``."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tidegate import Estimate, Table, experiment, kept, repro
from tidegate.experiment import paired
from tidegate.published import Page
from tidegate.report import count
from tidegate.statistics import MEDIAN_RATIO, samples_for

PAPER = '''"""Twice a number is even.

Source: arithmetic.
"""

from tidegate.experiment import Experiment

fig{n} = Experiment(__file__, seeds=3)


@fig{n}.run(base=[1, 2])
def measure(seed, base):
    return {{"twice": 2 * base + seed % 10 / 10}}


@fig{n}.claim("A9-1", "twice one is about two", paper=2.2, within={within},
            margin=0.6, why="it was made so")
def twice_one(runs):
    return runs.where(base=1)["twice"]


@fig{n}.figure
def draw(runs):
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot(runs["seed"], runs["twice"])
    return figure
'''


@pytest.fixture
def papers(tmp_path, monkeypatch):
    """Two experiments. The second has a claim that is wrong."""
    folder = tmp_path / "experiments" / "sums"
    folder.mkdir(parents=True)
    (folder / "fig9.py").write_text(PAPER.format(n=9, within=0.2))
    (folder / "_words.py").write_text('"""What both are about."""\n')
    (folder / "fig10.py").write_text(PAPER.format(n=10, within=-0.5))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiment, "EXPERIMENTS", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [name for name in sys.modules if name.split(".")[0] == "experiments"]:
        del sys.modules[name]
    experiment.load.cache_clear()


def test_lists_experiments_in_the_order_of_their_numbers(papers, capsys):
    assert repro.main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "sums/fig9",
        "sums/fig10",
    ]


def test_a_name_selects_a_paper_or_one_experiment(papers, tmp_path, capsys):
    longer = PAPER.format(n=9, within=0.2).replace("fig9", "fig9_live")
    (tmp_path / "experiments" / "sums" / "fig9_live.py").write_text(longer)
    # Catches: a name that selects every id beginning with it.
    for name, chosen in (
        ("sums/fig9", ["sums/fig9"]),
        ("sums", ["sums/fig9", "sums/fig9_live", "sums/fig10"]),
        ("sums/...", ["sums/fig9", "sums/fig9_live", "sums/fig10"]),
        ("all", ["sums/fig9", "sums/fig9_live", "sums/fig10"]),
    ):
        assert repro.main(["list", name]) == 0
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == chosen
    assert repro.main(["list", "sums/fig"]) == repro.EXIT_WRONG_INPUT
    assert "no paper or experiment sums/fig;" in capsys.readouterr().err


def test_check_prints_the_numbers_behind_each_verdict(papers, capsys):
    assert repro.main(["check", "sums/fig9", "--json", "--jobs", "1"]) == 0
    (claim,) = json.loads(capsys.readouterr().out)["claims"]
    assert set(claim) == {
        "id", "claim", "kind", "paper", "tolerance_is_ours", "statistic", "ours", "low", "high",
        "holds",
    }  # fmt: skip
    assert claim["kind"] == "paper" and claim["tolerance_is_ours"] is True
    assert claim["id"] == "sums/fig9#twice-one"
    assert claim["ours"] == pytest.approx(2.2)
    assert claim["low"] < 2.2 < claim["high"] and claim["holds"] is True


def test_a_claim_that_does_not_hold_is_printed_with_its_reason(papers, capsys):
    assert repro.main(["check", "sums/..."]) == 1
    out = capsys.readouterr().out
    assert "holds         sums/fig9#twice-one" in out
    assert "DOES NOT HOLD sums/fig10#twice-one" in out and "why: it was made so" in out


def test_a_claim_needs_its_whole_interval_within_the_bounds():
    unsure = experiment.Experiment("sums/fig1.py")
    # Catches: the mean instead of both ends of the interval.
    for low, high in ((0.9, 1.5), (0.5, 1.1)):
        unsure.claim("A9-3", "about one", paper=1, at_least=low, at_most=high)(
            lambda runs: runs["x"]
        )
        assert not unsure.claims[-1].judge(Table({"x": [0.7, 1.3, 1.0]})).holds
    unsure.claim("A9-3", "about one", paper=1, at_least=0, at_most=2)(lambda runs: runs["x"])
    assert unsure.claims[-1].judge(Table({"x": [0.7, 1.3, 1.0]})).holds


def test_the_report_has_each_claim_and_figure_and_ends_with_the_verdicts(papers, tmp_path, capsys):
    assert repro.main(["report"]) == 0
    last = capsys.readouterr().out.splitlines()[-5:]
    assert [line.split()[0] for line in last[:2]] == ["holds", "does"]
    assert last[3] == "paper: 1 holds, 1 does not hold."
    assert last[4] == "2 claims: 1 holds, 1 does not hold."
    page = (tmp_path / "docs" / "reproduce" / "sums.md").read_text()
    assert page.index("## fig9") < page.index("## fig10")
    assert "**does not hold**" in page and "Source: arithmetic." in page
    assert "## Shared: `_words.py`" in page and "What both are about" in page
    assert "tidegate-repro check sums/fig9\n" in page and "| 2.2 (1.952 to 2.448) | 3 |" in page
    assert "](sums/fig9.svg)" in page
    assert (tmp_path / "docs" / "reproduce" / "sums" / "fig9.svg").exists()


def test_the_same_runs_write_the_same_pages_and_figures(papers, tmp_path):
    for out in ("one", "two"):
        repro.main(["report", "--out", out, "--jobs", "1"])
    one, two = ({p.name: p.read_bytes() for p in sorted((tmp_path / out).rglob("*.*"))}
                for out in ("one", "two"))  # fmt: skip
    # Catches: a date, or random identifiers, in the figures.
    assert one == two and set(one) == {"sums.md", "verdicts.md", "fig9.svg", "fig10.svg"}


def test_a_single_section_is_written_into_the_existing_page(papers, tmp_path, capsys):
    """Catches: a single section that starts a new page, deletes other sections, or keeps sections
    of removed experiments."""
    assert repro.main(["report", "sums/fig9"]) == 2
    assert "name all of it" in capsys.readouterr().err
    assert not (tmp_path / "docs").exists()
    folder, page = tmp_path / "experiments" / "sums", tmp_path / "docs" / "reproduce" / "sums.md"
    assert repro.main(["report"]) == 0
    whole = page.read_text()
    assert repro.main(["report", "sums/fig9"]) == 0 and page.read_text() == whole
    (folder / "fig11.py").write_text(PAPER.format(n=11, within=0.2))
    (folder / "fig9.py").unlink()
    experiment.EXPERIMENTS.clear()
    experiment.load.cache_clear()
    for name in ("fig9", "fig10"):
        del sys.modules[f"experiments.sums.{name}"]
    assert repro.main(["report", "sums/fig11"]) == 0
    joined = page.read_text()
    assert "fig9" not in joined and joined.index("## fig10\n") < joined.index("## fig11\n")
    assert "- 2 claims: 1 holds, 1 does not hold.\n" in joined
    overview = (page.parent / "verdicts.md").read_text()
    assert "- 2 claims: 1 holds, 1 does not hold.\n" in overview
    assert "`fig10#twice-one` A9-1: twice one is about two (paper; 2.2 (1.952 to" in overview
    assert overview.endswith(": it was made so.\n") and "`fig11#" not in overview
    page.write_text(whole.replace("| 2.2 (", "| 2.3 (").replace("- 2 claims:", "- 9 claims:"))
    assert repro.main(["recount"]) == 0
    counted = page.read_text()
    assert "fig9" not in counted and "- 1 claims: 1 does not hold.\n" in counted
    assert (
        "| 2.3 (1.952 to" in counted and "2.3 (1.952" in (page.parent / "verdicts.md").read_text()
    )


def test_a_recount_copies_changed_texts_of_experiments_to_their_page(papers, tmp_path):
    """Catches: pages with an old text; a recount that judges claims again, or repeats runs."""
    page, code = (
        tmp_path / name for name in ("docs/reproduce/sums.md", "experiments/sums/fig10.py")
    )
    assert repro.main(["report"]) == 0
    before = page.read_text()
    assert repro.main(["recount"]) == 0 and page.read_text() == before
    changes = [
        ("Twice a number is even", "Doubles are even"),
        ("Source: arithmetic", "Source: algebra"),
        ("twice one is about two", "the double | of one"),
        ("it was made so", "it was built so"),
    ]
    text = code.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    # The numbers of a page are results of a run. Its bounds are those that judged these numbers.
    code.write_text(text.replace("2 * base", "9 * base").replace("within=-0.5", "within=0.9"))
    unload_the_experiments()
    assert repro.main(["recount"]) == 0
    first, section = before.rsplit("## fig10\n", 1)
    for old, new in changes:
        section = section.replace(old, new.replace("|", "\\|"))
    row = "| [fig10](#fig10) | A9-1: "
    first = first.replace(f"{row}twice one is about two", f"{row}the double \\| of one")
    assert page.read_text() == f"{first}## fig10\n{section}"
    overview = (page.parent / "verdicts.md").read_text()
    assert (
        "the double \\| of one (paper; 2.2 (1.952 to" in overview and "it was built so." in overview
    )
    assert "- 2 claims: 1 holds, 1 does not hold.\n" in overview


def test_a_recount_keeps_a_removed_claim_and_shows_a_new_reason(papers, tmp_path):
    """Catches: a published verdict that is lost when a function is renamed; a new reason that
    appears only after a run."""
    page, code = (
        tmp_path / name for name in ("docs/reproduce/sums.md", "experiments/sums/fig10.py")
    )
    whole = code.read_text()
    code.write_text(whole.replace(', why="it was made so"', ""))
    assert repro.main(["report"]) == 0 and "Why not" not in page.read_text()
    code.write_text(whole)
    unload_the_experiments()
    assert repro.main(["recount"]) == 0
    explained = page.read_text()
    assert "\n\nWhy not `#twice-one`: it was made so.\n\n![Twice" in explained
    code.write_text(whole.replace("def twice_one", "def double_one"))
    unload_the_experiments()
    assert repro.main(["recount"]) == 0 and page.read_text() == explained


def unload_the_experiments():
    """Lets the next command read the files of the experiments again."""
    experiment.EXPERIMENTS.clear()
    experiment.load.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] == "experiments"]:
        del sys.modules[name]


def test_the_counts_of_the_published_pages_are_those_of_their_tables():
    """Catches: a page changed by hand or by a merge, whose claims were not counted again."""
    folder = Path(__file__).parents[2] / "docs" / "reproduce"
    pages = {path: Page.read(path) for path in folder.glob("*.md")}
    counted = [path.name for path, page in pages.items() if page.rows]
    assert len(counted) >= 6
    for path, page in pages.items():
        if page.rows:
            assert f"- {count(page.verdicts())}".replace("\n", "\n- ") in path.read_text(), path
            assert page.rows.keys() == page.sections.keys(), path
    every = count(it for path in sorted(pages) for it in pages[path].verdicts())
    assert f"- {every}".replace("\n", "\n- ") in (folder / "verdicts.md").read_text()


def test_live_experiments_run_the_program_of_make_build(monkeypatch):
    """Catches: a live experiment that measures an older program, of another profile."""
    monkeypatch.delenv("TIDEGATE_BIN", raising=False)
    monkeypatch.delenv("CARGO_TARGET_DIR", raising=False)
    root = Path(__file__).parents[2]
    profile = re.search(r"^PROFILE := (\w+)$", (root / "Makefile").read_text(), re.MULTILINE)
    assert profile and kept.program(root) == root / "target" / profile[1] / "tidegate"


def test_a_stored_run_is_valid_only_for_the_same_program(papers, tmp_path, monkeypatch):
    """Catches: a stored run that is repeated; a stored run of another program that counts as
    valid."""
    monkeypatch.setenv("TIDEGATE_BIN", str(tmp_path / "none"))
    runs, code = tmp_path / "kept", tmp_path / "experiments" / "sums" / "fig9.py"
    check = ["check", "sums/fig9", "--jobs", "1", "--keep", str(runs)]
    assert repro.main([*check, "--seeds", "1"]) == 0 and len(runs.read_text().splitlines()) == 2
    assert repro.main(check) == 0 and len(runs.read_text().splitlines()) == 6
    code.write_text(code.read_text().replace("2 * base", "9 * base"))
    for name in [name for name in sys.modules if name.startswith("experiments")]:
        del sys.modules[name]
    experiment.load.cache_clear()
    assert repro.main(check) == 0 and len(runs.read_text().splitlines()) == 6
    monkeypatch.setenv("TIDEGATE_BIN", __file__)
    assert repro.main(check) == 1 and len(runs.read_text().splitlines()) == 12


def test_finished_runs_stay_stored_after_a_failure_or_a_truncated_line(papers, tmp_path):
    """Catches: runs stored only after all are complete; a truncated last line that makes the file
    useless."""
    kept, code = tmp_path / "kept", tmp_path / "experiments" / "sums" / "fig9.py"
    whole = code.read_text()
    code.write_text(whole.replace("    return {", "    assert base == 1\n    return {", 1))
    check = ["check", "sums/fig9", "--jobs", "1", "--keep", str(kept)]
    with pytest.raises(AssertionError):
        repro.main(check)
    assert len(kept.read_text().splitlines()) == 3
    code.write_text(whole)
    for name in [name for name in sys.modules if name.startswith("experiments")]:
        del sys.modules[name]
    experiment.load.cache_clear()
    kept.write_text(kept.read_text()[:-5])
    assert repro.main(check) == 0


def test_a_figure_is_one_command(papers, tmp_path, capsys):
    assert repro.main(["figure", "sums/fig9"]) == 0
    assert capsys.readouterr().out.split() == ["sums-fig9.svg", "sums-fig9.png"]
    assert (tmp_path / "sums-fig9.png").read_bytes().startswith(b"\x89PNG")


def test_an_interval_around_a_bound_decides_only_if_it_is_narrow():
    runs = Table({"x": [0.7, 1.3, 1.0]})  # 0.25 to 1.75
    words = {}
    for most, margin in ((2.0, 0), (1.1, 0), (1.1, 0.8), (1.1, 0.9), (0.1, 0), (2.0, 5)):
        unsure = experiment.Experiment("sums/fig2.py")
        unsure.claim("A9-4", "small", paper=1, at_most=most, margin=margin)(lambda runs: runs["x"])
        verdict = unsure.claims[0].judge(runs)
        words[most, margin] = (verdict.word, verdict.holds, "at the bound" in verdict.reason)
    # Catches: a decision by one end of the interval, or by the nearer end; a margin that widens a
    # bound.
    assert words == {
        (2.0, 0): ("holds", True, False),
        (1.1, 0): ("undecided", False, False),
        (1.1, 0.8): ("undecided", False, False),
        (1.1, 0.9): ("does not hold", False, True),
        (0.1, 0): ("does not hold", False, False),
        (2.0, 5): ("holds", True, False),
    }


def test_an_experiment_that_cannot_run_here_is_skipped_and_never_holds(papers, tmp_path, capsys):
    file = tmp_path / "experiments" / "sums" / "fig9.py"
    text = file.read_text().replace("seeds=3", 'seeds=3, needs=lambda: "no numbers here"')
    file.write_text(text)
    assert repro.main(["check", "sums/fig9", "--json"]) == 1
    (claim,) = json.loads(capsys.readouterr().out)["claims"]
    assert claim["holds"] is False and claim["ours"] is None
    assert repro.main(["report"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 claims: 1 skipped, 1 does not hold."
    page = (tmp_path / "docs" / "reproduce" / "sums.md").read_text()
    assert "**skipped**" in page and "no numbers here" in page and "fig9.svg" not in page


def test_a_report_keeps_published_sections_that_it_cannot_measure(papers, tmp_path, capsys):
    """Catches: a report without root that replaces published live sections with "skipped"."""
    page = tmp_path / "docs" / "reproduce" / "sums.md"
    assert repro.main(["report"]) == 0
    whole, figure = page.read_text(), (page.parent / "sums" / "fig9.svg").read_bytes()
    for name in ("fig9", "fig10"):
        file = tmp_path / "experiments" / "sums" / f"{name}.py"
        needs = 'seeds=3, needs=lambda: "no root"'
        file.write_text(file.read_text().replace("seeds=3", needs))
        experiment.load.cache_clear()
        experiment.EXPERIMENTS.clear()
        for module in [it for it in sys.modules if it.startswith("experiments")]:
            del sys.modules[module]
        capsys.readouterr()
        assert repro.main(["report"]) == 0
        assert "skipped" in capsys.readouterr().out
        assert page.read_text() == whole
        assert repro.main(["report", "sums/fig9"]) == 0 and page.read_text() == whole
    assert (page.parent / "sums" / "fig9.svg").read_bytes() == figure
    # A section without published numbers gets the present reason.
    page.unlink()
    assert repro.main(["report"]) == 0
    file.write_text(file.read_text().replace("no root", "no tools"))
    experiment.load.cache_clear()
    experiment.EXPERIMENTS.clear()
    for module in [it for it in sys.modules if it.startswith("experiments")]:
        del sys.modules[module]
    assert repro.main(["report"]) == 0
    assert "no tools" in page.read_text() and "no root" in page.read_text()


def test_verdicts_and_plans_use_different_seeds_and_variants_may_have_more(papers, capsys):
    some = experiment.Experiment("sums/fig3.py", seeds=2, more={"base": {7: 4}})
    some.run(base=[5, 7])(lambda seed, base: {})
    made = [(each.parameters["base"], each.seed) for each in some.cases()]
    assert made == [(5, 1001), (5, 1002), (7, 1001), (7, 1002), (7, 1003), (7, 1004)]
    assert [each.seed for each in some.cases(1, first=1)] == [1, 1]
    certain = experiment.Experiment("sums/fig4.py", seeds=1)
    certain.run()(lambda seed: {})
    assert len(certain.cases(10)) == 1
    assert repro.main(["plan", "sums/fig9", "--seeds", "9", "--jobs", "1"]) == 0
    assert capsys.readouterr().out == "sums/fig9#twice-one: 5 seeds for a margin of 0.6\n"


def test_the_planned_samples_make_an_interval_no_wider_than_the_margin():
    chance = np.random.default_rng(1)
    for margin in (0.1, 0.3):
        count = samples_for(margin, chance.normal(size=40))
        interval = Estimate.of(chance.normal(size=count))
        # Catches: the margin used as half of the width; a margin that is not squared.
        assert 0.6 * margin < interval.high - interval.low <= margin


def test_wrong_input_is_exit_code_2(papers, capsys, tmp_path, monkeypatch):
    assert repro.main(["check", "nothing/like/it"]) == 2
    assert "tidegate-repro list" in capsys.readouterr().err
    monkeypatch.chdir("/")
    assert repro.main(["list"]) == 2


def test_a_claim_without_a_bound_is_refused():
    nothing = experiment.Experiment("sums/fig0.py")
    with pytest.raises(ValueError, match="could not fail"):
        nothing.claim("A9-2", "anything goes", paper="all of it")


def test_a_claim_whose_kind_contradicts_its_arguments_is_refused():
    nothing = experiment.Experiment("sums/fig0.py")
    # Catches: a claim of a paper without its number; a claim of ours attributed to the paper;
    # context with bounds.
    for kind, paper, most, message in (
        ("paper", None, 1, "says what it prints"),
        ("ours", 0.9, 1, "says what it prints"),
        ("context", None, 1, "takes no bounds"),
        ("shown otherwise", None, np.inf, "could not fail"),
        ("theirs", 0.9, 1, "shown otherwise, context"),
    ):
        with pytest.raises(ValueError, match=message):
            nothing.claim("A9-2", "something", kind=kind, paper=paper, at_most=most)
    with pytest.raises(ValueError, match="only a number"):
        nothing.claim("A9-2", "something", within=0.1)
    assert not nothing.claims


def test_a_bound_that_the_paper_does_not_print_is_ours():
    some = experiment.Experiment("sums/fig5.py")
    for paper, bounds in (
        (0.95, {"at_least": 0.9}), (0.95, {"within": 0.1}), ("unfair", {"at_most": 0.95}),
        ("> 1", {"at_least": 1, "at_most": 3}),
        (0.95, {"at_least": 0.95}), ("less", {"at_most": 1}), ("more", {"at_least": 0}),
    ):  # fmt: skip
        some.claim("A9-5", "so", paper=paper, **bounds)(lambda runs: runs["x"])
    # Catches: two bounds that count as printed although the paper prints only one.
    assert [it.tolerance_is_ours for it in some.claims] == [True] * 4 + [False] * 3
    some.claim("A9-5", "so", at_most=0.3)(lambda runs: runs["x"])
    assert some.claims[-1].kind == "ours" and not some.claims[-1].tolerance_is_ours


OTHER_KINDS = """

@fig9.claim("A9-1", "without a paper", at_most=4)
def own(runs):
    return runs.where(base=1)["twice"]


@fig9.claim("A9-1", "not thrice", paper="thrice", kind="shown otherwise", at_most=5)
def otherwise(runs):
    return runs.where(base=2)["twice"]


@fig9.claim("A9-1", "its last digit", kind="context")
def digit(runs):
    return runs.where(base=1)["twice"] % 1
"""


def test_claims_are_counted_by_kind_and_context_never_counts(papers, tmp_path, capsys):
    """Catches: context that counts as a held claim, that fails the check, or that is left out."""
    file = tmp_path / "experiments" / "sums" / "fig9.py"
    file.write_text(file.read_text() + OTHER_KINDS)
    assert repro.main(["check", "sums/fig9", "--jobs", "1"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-5:] == [
        "paper: 1 holds.",
        "ours: 1 holds.",
        "shown otherwise: 1 holds.",
        "context: 1, not judged.",
        "3 claims: 3 hold.",
    ]
    assert "paper 2.2; tolerance ours ≥ 1.76 and ≤ 2.64; mean 2.2" in out[0]
    assert out[3].startswith("context       sums/fig9#digit")
    assert repro.main(["check", "sums/fig9", "--jobs", "1", "--json"]) == 0
    claims = json.loads(capsys.readouterr().out)["claims"]
    assert [it["kind"] for it in claims] == ["paper", "ours", "shown otherwise", "context"]
    assert [it["holds"] for it in claims] == [True, True, True, None]
    assert repro.main(["report"]) == 0
    page = (tmp_path / "docs" / "reproduce" / "sums.md").read_text()
    assert "- context: 1, not judged.\n" in page
    assert "| ours | - | 2.2 (1.952 to 2.448) | 3 | ≤ 4 | holds |" in page
    assert "| 3 | ≥ 1.76 and ≤ 2.64 (tolerance ours) | holds |" in page
    assert "| context | - | 0.2 (-0.04843 to 0.4484) | 3 | - | context |" in page


def test_a_check_runs_on_the_seeds_that_are_asked_for(papers, capsys):
    """Catches: a first seed that is ignored."""
    code = repro.main(["check", "sums/fig9", "--first-seed", "5006", "--jobs", "1", "--json"])
    (claim,) = json.loads(capsys.readouterr().out)["claims"]
    assert claim["ours"] == pytest.approx(2.7) and code == 1


def test_a_claim_is_judged_by_its_own_statistic():
    """Catches: the mean instead of the statistic."""
    some = experiment.Experiment("sums/fig6.py")
    some.claim("A9-6", "rarely late", at_most=2, statistic=MEDIAN_RATIO)(lambda runs: runs["x"])
    verdict = some.claims[0].judge(Table({"x": [1.0] * 9 + [1e6]}))
    assert verdict.holds and verdict.ours.value == pytest.approx(1)
    assert verdict.as_dict()["statistic"] == "median ratio"
    assert not some.claims[0].judge(Table({"x": [1.0] * 8 + [1e6] * 2})).holds


def test_paired_runs_are_of_the_same_seeds():
    over = Table({"seed": [1, 2], "rate": [4.0, 9.0]})
    under = Table({"seed": [1, 2, 3], "rate": [2.0, 3.0, 5.0]})
    assert paired(over, under, "rate").tolist() == [2.0, 3.0]
    # Catches: runs paired by position instead of seed.
    with pytest.raises(ValueError, match="other seeds"):
        paired(over, Table({"seed": [2, 1], "rate": [2.0, 3.0]}), "rate")
