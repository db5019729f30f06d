"""Short forms of experiments of the paper `aggregates`: one seed each, with wider bounds."""

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
    return lambda name: import_module(f"experiments.aggregates.{name}")


def test_a_policed_window_is_halved_to_less_than_its_rate_window(of_paper):
    """Catches: a router that does not drop packets out of profile first; the rate window W in the
    wrong unit."""
    measure = of_paper("fig2").measure
    free, limited = measure(SEED, "20 packets", 4), measure(SEED, "rate window", 0)
    assert free["above"] > 0.02 and free["below"] > 0.1 and free["low"] > 0.5
    assert abs(free["compliant"] - free["usable"]) < 0.12
    assert limited["in_profile"] > 0.9 and limited["compliant"] > 0.95


def test_a_policer_that_drops_uses_more_common_tokens(of_paper):
    """Catches: a policer that does not let a flow use the unused tokens of other flows."""
    measure = of_paper("police_drop").measure
    alone, together, logical = (
        measure(SEED, it, "equal", False) for it in ("one by one", "together", "logical partitions")
    )
    assert alone["utilisation"] < 0.8 < together["utilisation"] <= 1.002
    assert logical["utilisation"] > 0.9 and logical["jain"] > together["jain"] + 0.2


def test_an_aggregate_with_omega_1_has_half_of_that_with_omega_n(of_paper):
    """Catches: an omega that is ignored, or multiplied by the number of connections."""
    measure = of_paper("omega").measure
    one, all = (measure(SEED, f"omega = {it}", 1)["over"] for it in ("1", "n"))
    assert 1.5 < one < 2.7 and 0.4 < one / all < 0.65


def test_a_bottleneck_beyond_the_access_link_shares_as_without_control(of_paper):
    """Catches: packets that bypass the core link; a shaper outside of the path."""
    measure = of_paper("behind").measure
    assert measure(SEED, "shaped", "wide")["jain"] > 0.99
    shaped, none = (measure(SEED, it, "narrow") for it in ("shaped", "none"))
    assert abs(shaped["jain"] - none["jain"]) < 0.08 and shaped["total_bps"] <= 600_000
    assert measure(SEED, "both", "narrow")["jain"] > 0.95
