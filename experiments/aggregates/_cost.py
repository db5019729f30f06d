"""Counts the processor instructions of one operation, such as setting a timer.

Source: aggregates, Table 2 and section 6.
Differs: the paper prints microseconds of machines of its time. Callgrind counts instructions, which
stay the same on a busy machine.
"""

import os
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def instructions(case: str, operations: int, size: int) -> float:
    """Instructions of one operation while ``size`` timers, flows or policies exist."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    program = target / "release" / "tidegate-bench"
    if not program.exists():
        raise FileNotFoundError(f"{program} is not there: `make build` makes it")
    command: list[str | Path] = [program, "count", case, str(operations), str(size)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(answer.stdout.split()[0])
