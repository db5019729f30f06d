"""Runs ns-2 and ns-3, as Debian packages them, on a scenario."""

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from threading import Lock

from .measure import run
from .ours import target
from .scenarios import (
    ACCESS,
    BURST,
    DELAY,
    INITIAL_WINDOW,
    MIN_RTO,
    PAUSE,
    PI_TARGET,
    RED,
    Scenario,
)

HERE = Path(__file__).parent


def figures(command: Sequence[str | Path]) -> dict[str, float]:
    """The output of a command as "name value" lines, with its CPU seconds as `cpu`."""
    out, cpu = run(command)
    lines = (line.split() for line in out.splitlines())
    return {name: float(value) for name, value in lines} | {"cpu": cpu}


def with_flows(
    scenario: Scenario, seed: int, use: Callable[[str], dict[str, float]]
) -> dict[str, float]:
    """Calls `use` with the path of a file that lists the flows of the scenario."""
    with tempfile.NamedTemporaryFile("w", suffix=".flows") as file:
        file.writelines(
            f"{start:.9f} {rtt:.9f} {kind}\n" for start, rtt, kind in scenario.drawn(seed)
        )
        file.flush()
        return use(file.name)


def common(scenario: Scenario, seed: int) -> dict[str, object]:
    """The common options of both programs."""
    return {
        "payload": scenario.payload,
        "buffer": scenario.buffer,
        "queue": scenario.queue,
        "loss": scenario.loss,
        "initial_window": INITIAL_WINDOW,
        "min_rto": MIN_RTO,
        "ecn": int(scenario.ecn),
        "delay": DELAY,
        "red_min": RED["min"],
        "red_max": RED["max"],
        "red_weight": RED["weight"],
        "red_max_p": RED["max_p"],
        "burst": BURST,
        "pause": PAUSE,
        "from": scenario.since,
        "until": scenario.until,
        "seed": seed,
    }


def ns2(scenario: Scenario, seed: int, **changed: object) -> dict[str, float]:
    """The results of ns-2."""
    options = (
        common(scenario, seed)
        | {
            "tcp": "Sack1" if scenario.sack else "Newreno",
            "delayed": int(scenario.delayed),
            "rate": scenario.rate,
            "access": ACCESS,
            "pi_a": scenario.pi[0],
            "pi_b": scenario.pi[1],
            "pi_target": PI_TARGET,
        }
        | changed
    )
    words = [f"{name}={value}" for name, value in options.items()]
    return with_flows(
        scenario,
        seed,
        lambda file: figures(["ns", HERE / "ns2/network.tcl", f"flows={file}", *words]),
    )


def ns3(scenario: Scenario, seed: int, **changed: object) -> dict[str, float]:
    """The results of ns-3."""
    options = (
        common(scenario, seed)
        | {
            "sack": int(scenario.sack),
            "delayed": 2 if scenario.delayed else 1,
            "rate": scenario.rate,
            "access": ACCESS,
        }
        | changed
    )
    words = [f"--{name}={value}" for name, value in options.items()]
    return with_flows(
        scenario, seed, lambda file: figures([ns3_program(), f"--flows={file}", *words])
    )


COMPILING = Lock()


def ns3_program() -> Path:
    """The program for ns-3, compiled if its source is newer. Only one run compiles it."""
    with COMPILING:
        return compiled()


@cache
def compiled() -> Path:
    """The program, compiled if necessary."""
    source = HERE / "ns3/network.cc"
    program = target() / "validate/network"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        libraries = [
            "core",
            "network",
            "internet",
            "point-to-point",
            "traffic-control",
            "applications",
        ]
        command: list[str | Path] = [
            "g++",
            "-O2",
            "-std=c++17",
            "-o",
            program,
            source,
            *(f"-lns3-{name}" for name in libraries),
        ]
        subprocess.run(command, check=True)
    return program


ORACLES = {"ns-2": ns2, "ns-3": ns3}
