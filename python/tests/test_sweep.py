"""What sweeps promise."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tidegate import sweep


def square(seed: int, base: int) -> dict[str, float]:
    """A run whose answer is known; early ones take longest."""
    time.sleep(0.02 / seed)
    return {"square": base * base + seed, "pid": os.getpid()}


def fails(seed: int) -> dict[str, float]:
    """A run that cannot be made."""
    raise ValueError(f"seed {seed} cannot be")


def test_rows_do_not_depend_on_the_number_of_workers():
    one, three = (sweep(square, {"base": [2, 3]}, seeds=range(1, 5), jobs=n) for n in (1, 3))
    for table in (one, three):
        assert table["base"].tolist() == [2] * 4 + [3] * 4
        assert table["seed"].tolist() == [1, 2, 3, 4] * 2
        assert table["square"].tolist() == [5, 6, 7, 8, 10, 11, 12, 13]
        assert table.complete
    assert len(np.unique(three["pid"])) > 1


def test_the_error_of_a_run_is_the_error_of_the_sweep():
    with pytest.raises(ValueError, match="cannot be"):
        sweep(fails, seeds=[1, 2], jobs=2)


def test_an_unknown_engine_is_named():
    with pytest.raises(ValueError, match="engine: 'cloud'"):
        sweep(square, {"base": [1]}, engine="cloud")


INTERRUPTED = """
import time
from tidegate import sweep
def run(seed):
    time.sleep(0.3)
    return {"answer": seed}
table = sweep(run, seeds=range(200), jobs=2, progress=lambda done, all: print(done, flush=True))
print("rows", len(table), table.complete, all(table["answer"] == table["seed"]))
"""


def test_interrupted_it_keeps_the_finished_runs(tmp_path):
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        while process.stdout.readline().strip() != "3":
            pass
        os.killpg(process.pid, signal.SIGINT)  # as a terminal's Ctrl-C: to all of its processes
        last = process.communicate(timeout=60)[0].splitlines()[-1].split()
    finally:
        if process.poll() is None:
            process.kill()
    assert process.returncode == 0
    assert last[0] == "rows" and 3 <= int(last[1]) < 200
    assert last[2:] == ["False", "True"]
