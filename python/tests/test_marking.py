"""Short forms of the experiments of the paper `marking`: one seed each, the same bounds."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEED = 1


@pytest.fixture
def of_paper(monkeypatch):
    """Loads an experiment by its name."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    return lambda name: import_module(f"experiments.marking.{name}")


def test_the_other_queues_lose_as_many_packets_as_in_ns2(of_paper):
    """Catches: a queue of the gateway that behaves unlike the same queue at a link."""
    measure = of_paper("exp1").measure
    drop_tail, exact = measure(SEED, "Drop-Tail"), measure(SEED, "PI exact")
    assert 0.08 < drop_tail["loss"] < 0.16 and drop_tail["queue"] > 0.85 * 150_000
    assert exact["loss"] < 0.02 and 80_000 < exact["queue"] < 120_000
    assert min(drop_tail["throughput"], exact["throughput"]) > 0.97


def test_the_reference_marking_loses_a_twentieth_of_drop_tail_at_most(of_paper):
    """Catches: a mark on the newest packet of a flow; a projection without one of its terms.

    Most seeds lose nothing; the experiment `exp1` counts these seeds.
    """
    reference = of_paper("exp1").measure(SEED, "reference")
    assert reference["loss"] < 0.005 and reference["throughput"] > 0.97
    assert reference["queue"] < 100_000 and reference["twice"] < 0.01


def test_the_next_round_of_a_lone_flow_is_projected(of_paper):
    """Catches: the projected window of another round; a projected start one round trip too late."""
    alone = of_paper("fig1").measure(SEED, 1)
    assert alone["error"] < 0.25 and alone["late"] < 0.25 and alone["rounds"] > 100


def test_classes_under_jobs_keep_their_ratios(of_paper):
    """Catches: an inverted ratio; a class served at another class's rate."""
    runs = [of_paper("exp2").measure(SEED + nth, "JoBS", "1/2") for nth in range(3)]
    # The paper's bound applies to the mean over seeds, as in its claim.
    assert sum(run["loss_1"] for run in runs) / len(runs) <= 0.01
    for run in runs:
        assert run["sum"] > 0.98
        for name in ("delays_2", "delays_3", "losses_2", "losses_3"):
            assert 1.5 < run[name] < 2.5
