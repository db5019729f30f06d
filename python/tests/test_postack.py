"""Short forms of experiments of the paper `postack`: one seed each, the same bounds."""

import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEED = 1


def test_what_waits_after_slow_start_is_a_small_part(monkeypatch):
    """Kills: a backlog of the gateway that its probe does not see, or of another direction."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    measure = import_module("experiments.postack.slow_start").measure
    queue, gate = (measure(SEED, it, "64 KiB", "cubic") for it in ("none", "gate"))
    assert queue["after"] == queue["peak"] and 0.5 < gate["seen"] <= 1
    assert gate["memory"] < 0.06 * queue["after"] and gate["peak"] < 0.25 * queue["peak"]
