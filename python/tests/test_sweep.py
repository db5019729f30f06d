"""Tests of sweeps."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tidegate import Scenario, sweep


def square(seed: int, base: int) -> dict[str, float]:
    """A run with a known result. Early runs take longest."""
    time.sleep(0.02 / seed)
    return {"square": base * base + seed, "pid": os.getpid()}


def fails(seed: int) -> dict[str, float]:
    """A run that fails."""
    raise ValueError(f"seed {seed} cannot be")


def test_rows_do_not_depend_on_the_number_of_workers():
    one, three = (sweep(square, {"base": [2, 3]}, seeds=range(1, 5), jobs=n) for n in (1, 3))
    for table in (one, three):
        assert table["base"].tolist() == [2] * 4 + [3] * 4
        assert table["seed"].tolist() == [1, 2, 3, 4] * 2
        assert table["square"].tolist() == [5, 6, 7, 8, 10, 11, 12, 13]
        assert table.complete
    assert len(np.unique(three["pid"])) > 1


def dumbbell(seed: int) -> dict[str, float]:
    """Four connections that fill a link with a short buffer."""
    net = Scenario(duration="2 s")
    net.router("l", "r")
    net.link(
        "l", "r", rate="5 Mbit/s", delay="10 ms", queue={"kind": "drop-tail", "limit": "12 kB"}
    )
    for flow in range(4):
        net.hosts(f"s{flow}", f"d{flow}")
        for host, router in ((f"s{flow}", "l"), (f"d{flow}", "r")):
            net.link(host, router, rate="100 Mbit/s")
        net.traffic(f"f{flow}", "greedy", f"s{flow}", f"d{flow}", start={"uniform": ["0 s", "1 s"]})
    run = net.run(seed)
    return {
        "goodput": float(run.groups["goodput_bps"].sum()),
        "dropped": float(run.links["dropped_packets"].sum()),
    }


def test_results_of_64_dumbbells_do_not_depend_on_the_number_of_workers():
    """Catches: rows in the order of completion."""
    one, three = (sweep(dumbbell, seeds=range(64), jobs=jobs) for jobs in (1, 3))
    assert len(one) == 64 and len(np.unique(one["goodput"])) > 32 and one["dropped"].min() > 0
    for column in ("seed", "goodput", "dropped"):
        assert one[column].tolist() == three[column].tolist()


def waits_for_all(seed: int, folder: str, runs: int) -> dict[str, float]:
    """The first run ends after all others have begun, so none of them may wait for its worker."""
    Path(folder, str(seed)).touch()
    given_up = time.monotonic() + 60
    begun = Path(folder).iterdir
    while seed == 0 and sum(1 for _ in begun()) < runs and time.monotonic() < given_up:
        time.sleep(0.01)
    return {"pid": os.getpid()}


def test_no_worker_is_idle_while_runs_wait(tmp_path):
    """With two workers, one makes 63 of 64 runs during the first run of the other.

    Catches: runs distributed in chunks before they begin (`map` with a chunk size).
    """
    rows = sweep(waits_for_all, {"folder": [str(tmp_path)], "runs": [64]}, seeds=range(64), jobs=2)
    assert (rows["pid"] == rows["pid"][0]).sum() == 1


def test_the_error_of_a_run_is_the_error_of_the_sweep():
    with pytest.raises(ValueError, match="cannot be"):
        sweep(fails, seeds=[1, 2], jobs=2)


def test_an_unknown_engine_is_named():
    with pytest.raises(ValueError, match="engine: 'cloud'"):
        sweep(square, {"base": [1]}, engine="cloud")


def called(seed: int, rate: str) -> dict[str, float]:
    """A run of the simulator."""
    net = Scenario(duration="2 s")
    net.hosts("alice", "bob")
    net.link("alice", "bob", rate="1 Mbit/s", delay="10 ms", loss="1 %")
    net.traffic("call", "cbr", "alice", "bob", rate=rate, start={"uniform": ["0 s", "1 s"]})
    flow = net.run(seed).flows
    return {"start": flow["start_seconds"][0], "bytes": flow["received_bytes"][0]}


def test_a_local_ray_gives_what_processes_give(monkeypatch, tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install tidegate[ray]")
    monkeypatch.setenv("HOME", str(tmp_path))  # Ray stores its token here.
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    rates = {"rate": ["64 kbit/s", "128 kbit/s"]}
    tables = [sweep(called, rates, seeds=[1, 2, 3], jobs=2, engine=e) for e in ("process", "ray")]
    for name, column in tables[0].columns.items():
        assert tables[1][name].tolist() == column.tolist(), name
    assert tables[1].complete
    with pytest.raises(ValueError, match="cannot be"):
        sweep(fails, seeds=[1, 2], jobs=2, engine="ray")


INTERRUPTED = """
import time
from tidegate import sweep
def run(seed):
    time.sleep(0.3)
    return {"answer": seed}
table = sweep(run, seeds=range(200), jobs=2, progress=lambda done, all: print(done, flush=True))
print("rows", len(table), table.complete, all(table["answer"] == table["seed"]))
"""


def test_an_interrupted_sweep_keeps_the_finished_runs(tmp_path):
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        while process.stdout.readline().strip() != "3":
            pass
        os.killpg(process.pid, signal.SIGINT)  # As Ctrl-C does, for all processes.
        last = process.communicate(timeout=60)[0].splitlines()[-1].split()
    finally:
        if process.poll() is None:
            process.kill()
    assert process.returncode == 0
    assert last[0] == "rows" and 3 <= int(last[1]) < 200
    assert last[2:] == ["False", "True"]
