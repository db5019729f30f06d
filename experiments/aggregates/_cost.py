"""What an operation of the mechanisms costs, in instructions.

Source: aggregates, Table 2 and section 6.
Differs: the paper prints microseconds of machines of its time; callgrind counts instructions, which
are the same on a busy machine.
"""

import os
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def instructions(case: str, operations: int, size: int) -> float:
    """Instructions of one operation among ``size`` timers, flows or policies."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    program = target / "release" / "tidegate-bench"
    if not program.exists():
        raise FileNotFoundError(f"{program} is not there: `make build` makes it")
    command: list[str | Path] = [program, "count", case, str(operations), str(size)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(answer.stdout.split()[0])
