#!/usr/bin/env python3
"""Runs the jobs of `make test` side by side.

Live tests sleep most of the time. Meanwhile other tests and builds run with the policy SCHED_IDLE:
they get a processor only while no live test wants one. Live test programs run one at a time. Only
those in BESIDE run at the same time as others. The output of each job is shown when the job ends.
After a failure no further job begins.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()

# These packages have tests that need the kernel, or servers, in real time. All other tests run in
# virtual time.
LIVE = {
    "tidegate",
    "tidegate-api",
    "tidegate-dataplane",
    "tidegate-e2e",
    "tidegate-lab",
    "tidegate-repository",
}

# Live test programs that may run at the same time as others, each with its lane. A package name
# means all programs of the package. Each lane runs one program at a time; different lanes run at
# the same time. All other live test programs run afterwards. Tests of `tidegate-e2e` in this list
# begin with `witnessed_beside_others`.
BESIDE = {
    "trunks": 0,
    "control": 1,
    "encapsulation": 1,
    "frames": 1,
    "limits": 1,
    "tunnels": 1,
    "cli": 1,
    "lab": 1,
    "tidegate-repository": 2,
    "sources": 2,
}

# chrt is part of util-linux. nice is coarser, but available everywhere.
IDLE = ["chrt", "--idle", "0"] if shutil.which("chrt") else ["nice", "-n", "19"]

CARGO = ["cargo", "--locked", "--color", "never"]


class Stopped(Exception):
    """Raised after any job has failed."""


@dataclass(frozen=True)
class Job:
    """A command with its working directory."""

    name: str
    command: Sequence[str]
    idle: bool = True
    directory: Path = ROOT
    environment: dict[str, str] = field(default_factory=dict)


class Jobs:
    """Runs jobs, and records which ones run and which have failed."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.failed: list[str] = []
        self.running: set[subprocess.Popen[bytes]] = set()
        self.lock = threading.Lock()
        self.pool = ThreadPoolExecutor(max_workers=16)

    def run(self, job: Job, output: int | None = None) -> None:
        """Runs a job to its end, and prints its output; `output` receives its standard output."""
        command = [*IDLE, *job.command] if job.idle else job.command
        begun = time.monotonic()
        with tempfile.TemporaryFile() as said:
            with self.lock:
                if self.failed:
                    raise Stopped
                process = subprocess.Popen(
                    command,
                    cwd=job.directory,
                    env={**os.environ, **job.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=said if output is None else output,
                    stderr=said,
                )
                self.running.add(process)
            code = process.wait()
            end = time.monotonic()
            with self.lock:
                self.running.remove(process)
                said.seek(0)
                how = "ok" if code == 0 else f"FAILED ({code})"
                head = f"{how}, {end - begun:.0f} s, ended at {end - self.start:.0f} s"
                sys.stdout.buffer.write(f"\n==== {job.name}: {head}\n".encode() + said.read())
                sys.stdout.buffer.flush()
                if code:
                    self.failed.append(job.name)
                    raise Stopped

    def one_by_one(self, jobs: Sequence[Job], needs: Sequence[Future[None]] = ()) -> Future[None]:
        """Runs the jobs in order, after all of `needs` have succeeded."""

        def run() -> None:
            for other in needs:
                other.result()
            for job in jobs:
                self.run(job)

        return self.pool.submit(run)

    def end(self) -> None:
        """Terminates all running jobs."""
        with self.lock:
            self.failed.append("this run")
            for process in self.running:
                process.terminate()


def test_programs(jobs: Jobs) -> list[dict[str, Any]]:
    """Builds all tests; returns cargo's description of each program."""
    with tempfile.TemporaryFile() as said:
        words = ["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]
        jobs.run(Job("build of the tests", [*CARGO, *words], idle=False), said.fileno())
        said.seek(0)
        messages = [json.loads(line) for line in said]
    made = [it for it in messages if it["reason"] == "compiler-artifact" and it["executable"]]
    return [it for it in made if it["profile"]["test"]]


def package_of(made: dict[str, Any]) -> str:
    """Returns the name of a program's package."""
    return str(tomllib.loads(Path(made["manifest_path"]).read_text())["package"]["name"])


def lane_of(made: dict[str, Any]) -> int | None:
    """Returns the lane of a test program; None if it runs alone."""
    return BESIDE.get(package_of(made), BESIDE.get(made["target"]["name"]))


def test_job(made: dict[str, Any]) -> Job:
    """Returns the job that runs a test program as `cargo test` would."""
    package, directory = package_of(made), Path(made["manifest_path"]).parent
    environment = {
        "CARGO_MANIFEST_DIR": str(directory),
        "TIDEGATE_BIN": str(TARGET / "release/tidegate"),
    }
    name = f"tests of {package}, {Path(made['target']['src_path']).relative_to(directory)}"
    return Job(name, [made["executable"]], package not in LIVE, directory, environment)


def run_all(jobs: Jobs) -> None:
    """Runs all jobs."""
    release = [*CARGO, "build", "--release", "--package"]
    packages = jobs.one_by_one(
        [Job("Python packages", ["make", "--no-print-directory", ".venv/test"], idle=False)]
    )
    program = jobs.one_by_one([Job("program", [*release, "tidegate"], idle=False)])
    # The same profile as the program, so that both share compiled libraries.
    python = ["make", "--no-print-directory", "python", "PROFILE=release"]
    wheel = jobs.one_by_one([Job("Python package", python)], [packages, program])
    made = test_programs(jobs)
    bench = [*CARGO, "run", "--release", "--package", "tidegate-bench", "--"]
    others = [
        wheel,
        jobs.one_by_one([Job("pytest", [".venv/bin/pytest"])], [wheel]),
        jobs.one_by_one([Job("instructions", [*bench, "instructions", "--short"])], [wheel]),
        jobs.one_by_one(
            [
                Job("check", ["make", "--no-print-directory", "check"]),
                Job("examples in documentation", [*CARGO, "test", "--workspace", "--doc"]),
            ],
            [packages],
        ),
    ]
    tests = [(lane_of(it), test_job(it)) for it in made]
    others.append(jobs.one_by_one([job for _, job in tests if job.idle]))
    live = [(lane, job) for lane, job in tests if not job.idle]
    beside = [
        jobs.one_by_one([job for lane, job in live if lane == each], [program])
        for each in sorted(set(BESIDE.values()))
    ]
    alone = [job for lane, job in live if lane is None]
    for future in [jobs.one_by_one(alone, beside), *others]:
        future.result()


def main() -> int:
    """Runs all jobs; the exit code is 1 if one failed."""

    def stop(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    jobs = Jobs()
    try:
        run_all(jobs)
    except Stopped:
        pass
    except BaseException:
        jobs.end()
        raise
    finally:
        jobs.pool.shutdown(cancel_futures=True)
    if jobs.failed:
        print(f"\nFAILED: {', '.join(jobs.failed)}")
    else:
        print(f"\nall jobs ended well, in {time.monotonic() - jobs.start:.0f} s")
    return 1 if jobs.failed else 0


if __name__ == "__main__":
    sys.exit(main())
