"""Short forms of experiments of the paper `postack`: one seed each, the same bounds."""

import json
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEED = 1


def test_little_data_waits_after_slow_start(monkeypatch):
    """Catches: a backlog of the gateway that the probe misses, or that belongs to the other
    direction."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    measure = import_module("experiments.postack.slow_start").measure
    queue, gate = (measure(SEED, it, "64 KiB", "cubic") for it in ("none", "gate"))
    assert queue["after"] == queue["peak"] and 0.5 < gate["seen"] <= 1
    assert gate["memory"] < 0.06 * queue["after"] and gate["peak"] < 0.25 * queue["peak"]


class Transfer:
    """A transfer that reports bytes at these times, ms."""

    def __init__(self, *lines: tuple[int, int]) -> None:
        self.lines = [json.dumps({"at_ms": at, "bytes": bytes}) for at, bytes in lines]

    def communicate(self, timeout: float) -> tuple[str, str]:
        return "\n".join(self.lines), ""


def test_the_pause_of_a_killed_gateway_is_a_pause_of_new_data(monkeypatch):
    """Catches: reports without new bytes that end a pause; a pause to the end that counts as no
    pause."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    live_kill = import_module("experiments.live.postack.live_kill")
    steady = [(20 * n, 1000 * n) for n in range(500)]
    assert abs(live_kill.pause(Transfer(*steady), 3.0) - 0.02) < 1e-9
    stalls = [(at, min(bytes, 151_000) if at < 5000 else bytes) for at, bytes in steady]
    assert abs(live_kill.pause(Transfer(*stalls), 3.01) - 1.98) < 1e-9
    dies = [(at, min(bytes, 151_000)) for at, bytes in steady]
    assert live_kill.pause(Transfer(*dies), 3.01) > live_kill.AFTER - 0.02
    before = [(at, bytes if at < 500 or at > 1500 else 25_000) for at, bytes in steady]
    assert abs(live_kill.pause(Transfer(*before), 3.0) - 0.02) < 1e-9


def test_the_networks_of_four_experiments_have_the_stated_rates(monkeypatch):
    """Catches: a class that gets more than its guarantee; an application that limits its rate; a
    line on which a single download waits; a rate measured in slow start, or at the line."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    edges, line, long_paths, alone = (
        import_module(f"experiments.postack.{name}")
        for name in ("edges", "_line", "long_paths", "alone")
    )
    classed, prompt, chunks = (
        edges.measure(SEED, "none", it) for it in ("class", "reads at once", "reads 16 KiB")
    )
    assert 3.5e6 < classed["rate"] < 4e6 and classed["waits"] < 0.03
    assert 0.98 < chunks["rate"] / prompt["rate"] < 1.02
    rate = long_paths.measure(SEED, "bucket", 30, 1)["rate"]
    assert 0.95 < rate / (line.LINE * line.PART) < 0.96, "1,448 of 1,514 bytes are payload"
    took = alone.measure(SEED, "none", "400 kB", 50, 40, alone.BEFORE[0])["took"]
    # Four rounds of slow start from ten segments, and then the remainder at the rate.
    assert 0.2 < took < 0.3
