"""Compares our simulator and TCP with independent references: `make validate`.

Prints tables on stdout and progress on stderr. The exit code is 1 if a verdict fails and the
comparison does not show its cause.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache
from pathlib import Path

from . import comparisons, jobs, live, page, speed
from .report import Report

PARTS: dict[str, Callable[[Report, Executor], None]] = {
    "golden": comparisons.golden,
    "networks": comparisons.networks,
    "aqm": comparisons.aqms,
    "jobs": jobs.jobs,
    "formulas": comparisons.losses,
    "kernel": comparisons.kernel,
    "speed": speed.speed,
    "live": live.transfers,
    "windows": live.windows,
}


@cache
def commit() -> str:
    """The commit of the code under test."""
    said = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    return said.stdout.strip() or "unknown"


def carried_out(part: str, pool: Executor) -> Report:
    """The report of one part. A part that raises an error counts as failed."""
    report = Report()
    began = time.monotonic()
    try:
        PARTS[part](report, pool)
    except Exception as wrong:  # any error, so that the other parts still run
        report.failed.append(f"could not be carried out: {type(wrong).__name__}: {wrong}")
    took = time.monotonic() - began
    date, machine = (
        time.strftime("%Y-%m-%d"),
        f"Linux {platform.release()}, {os.cpu_count()} processors",
    )
    report.say(f"({date}, commit {commit()}, {machine}, {took:.0f} s)")
    return report


def main() -> None:
    """Runs the named parts, or all parts."""
    parser = argparse.ArgumentParser(prog="python3 -m validate", description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        choices=[[], *PARTS],
        help="the parts to run; all by default",
        metavar="|".join(PARTS),
    )
    parser.add_argument(
        "--page", type=Path, help="the page that gets the tables, each between its markers"
    )
    options = parser.parse_args()
    failed = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for part in options.parts or PARTS:
            report = carried_out(part, pool)
            failed += [f"{part}: {what}" for what in report.failed]
            if options.page:
                page.write(options.page, part, report)
    print("\n" + ("\n".join(["These verdicts fail:", *failed]) if failed else "All verdicts hold."))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
