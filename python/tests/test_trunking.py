"""Short forms of experiments of the paper `trunking`: one seed each, the same bounds."""

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
    return lambda name: import_module(f"experiments.trunking.{name}")


@pytest.mark.parametrize("alpha", [2, 16])
def test_equation_2_holds_for_other_thresholds(of_paper, alpha):
    """Catches: a threshold or buffer fixed at alpha = 8; a slow start that does not end at alpha
    packets."""
    rooms = of_paper("alpha")
    found = rooms.measure(SEED, alpha, rooms.EXACT)
    assert found["lost"] == 0 and found["use"] > 0.97
    assert 0.8 < rooms.measure(SEED, alpha, rooms.AMPLE)["most"] < 1.05


def test_the_buffer_in_packets_depends_on_the_length_of_user_packets(of_paper):
    """Catches: a buffer computed by equation 2 with VMSS as the length of every packet."""
    packets = of_paper("packets")
    found = packets.measure(SEED, 500)
    assert found["lost"] == 0
    assert 1.5 * packets.required_packets(1500) < found["most"]
    assert found["most"] < 1.1 * packets.required_packets(500)


def test_credits_are_in_the_ratio_of_vmss_to_a_byte(of_paper):
    """Catches: a VMSS rounded to whole user packets."""
    nearly_equal = of_paper("nearly_equal")
    credit = nearly_equal.measure(SEED, "1500:1499")["credit"]
    assert abs(credit - nearly_equal.RATIO) < 0.2 * (nearly_equal.RATIO - 1)


def test_round_robin_alone_does_not_prevent_timeouts(of_paper):
    """Catches: flows with separate buffers; users with another loss recovery than requested."""
    measure = of_paper("round_robin").measure
    reno, sack = (measure(SEED, "round robin", 4, it)["timeouts"] for it in ("reno", "sack"))
    assert reno > 20 and sack <= 1


def test_tcp_with_longer_segments_is_treated_like_a_trunk_with_more_vmss(of_paper, monkeypatch):
    """Catches: TCP packets that the router does not count; a ratio that is not divided by the ratio
    of VMSS."""
    vmss = of_paper("vmss")
    monkeypatch.setattr(vmss, "SECONDS", 60)
    trunks, tcp = (vmss.measure(SEED, "1500:500", what)["ratio"] for what in ("trunks", "tcp"))
    assert 0.6 < tcp < trunks < 1
