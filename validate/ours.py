"""Runs our simulator on a scenario."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .measure import run
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


def target() -> Path:
    """The target directory of cargo."""
    return Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))


def program() -> Path:
    """The program under test."""
    return Path(os.environ.get("TIDEGATE_BIN", target() / "dist/tidegate"))


def value(it: object) -> str:
    """Converts a value to TOML."""
    if isinstance(it, dict):
        return "{ " + ", ".join(f"{name} = {value(each)}" for name, each in it.items()) + " }"
    return json.dumps(it)


def table(array: str, /, **fields: object) -> str:
    """One element of an array of tables, in TOML: ``[[array]]`` and its fields."""
    return f"[[{array}]]\n" + "".join(f"{name} = {value(it)}\n" for name, it in fields.items())


def nanoseconds(seconds: float) -> str:
    """A time in TOML, in nanoseconds."""
    return f"{round(seconds * 1e9)} ns"


def queue(scenario: Scenario) -> Mapping[str, Any]:
    """The queue at the bottleneck."""
    limit = f"{scenario.buffer} B"
    packet = f"{scenario.payload + 40} B"
    kinds: dict[str, dict[str, Any]] = {
        "droptail": {"kind": "drop-tail", "limit": limit},
        "red": {
            "kind": "red",
            "limit": limit,
            "packet": packet,
            "min": f"{RED['min']} B",
            "max": f"{RED['max']} B",
            "max_p": f"{100 * RED['max_p']:g} %",
            "weight": f"{100 * RED['weight']:g} %",
            "gentle": True,
            "wait": True,
            "ecn": scenario.ecn,
            "mark_up_to": "10 %",
        },
        "pi": {
            "kind": "pi",
            "limit": limit,
            "packet": packet,
            "target": f"{PI_TARGET} B",
            "every": nanoseconds(1 / 160),
            "gains": dict(zip("ab", scenario.pi, strict=True)),
            "ecn": scenario.ecn,
        },
    }
    return kinds[scenario.queue]


def tcp(scenario: Scenario) -> dict[str, Any]:
    """The TCP settings of the end points: like those of ns-2, with SACK if the scenario has it."""
    return {
        "profile": "ns2-2003",
        "mss": f"{scenario.payload} B",
        "initial_window": INITIAL_WINDOW,
        "rto_min": nanoseconds(MIN_RTO),
        "recovery": "sack" if scenario.sack else "new-reno",
        "ack_every": 2 if scenario.delayed else 1,
        "ack_delay": "100 ms",
        "ecn": "classic" if scenario.ecn else "off",
    }


def text(scenario: Scenario, seed: int, **changed: Any) -> str:
    """The scenario as a file.

    `changed` are further TCP settings, or all TCP settings if they name a profile.
    """
    link: dict[str, Any] = {
        "rate": f"{ACCESS:.0f} bit/s",
        "queue": {"kind": "drop-tail", "limit": "100 MB"},
    }
    run_table = {
        "duration": nanoseconds(scenario.until),
        "warmup": nanoseconds(scenario.since),
        "link_header": "0 B",
        "tcp": changed if "profile" in changed else tcp(scenario) | changed,
    }
    parts = [
        f'name = "validate"\nseed = {seed}\n[run]\n'
        + "".join(f"{n} = {value(v)}\n" for n, v in run_table.items())
    ]
    parts += [table("router", name=name) for name in ("near", "far")]
    back = {"queue": link["queue"], "loss": "0 %"}
    parts.append(
        table(
            "link",
            **{"from": "near", "to": "far"},
            rate=f"{scenario.rate:.0f} bit/s",
            delay=nanoseconds(DELAY),
            loss=f"{100 * scenario.loss:g} %",
            queue=queue(scenario),
            back=back,
        )
    )
    for number, (start, rtt, kind) in enumerate(scenario.drawn(seed)):
        source, sink = f"s{number}", f"d{number}"
        leg = nanoseconds((rtt / 2 - DELAY) / 2)
        parts += [table("host", name=name) for name in (source, sink)]
        parts.append(table("link", **{"from": source, "to": "near"}, delay=leg, **link))
        parts.append(table("link", **{"from": "far", "to": sink}, delay=leg, **link))
        bursts: dict[str, Any] = {
            "kind": "on-off",
            "size": {"exponential": f"{BURST * scenario.payload:.0f} B"},
            "off": {"exponential": nanoseconds(PAUSE)},
        }
        parts.append(
            table(
                "traffic",
                name=f"f{number}",
                start=nanoseconds(start),
                **{"from": source, "to": sink},
                **({"kind": "greedy"} if kind == "greedy" else bursts),
            )
        )
    parts.append(table("probe", kind="queue", **{"from": "near", "to": "far"}))
    return "\n".join(parts)


def ours(scenario: Scenario, seed: int, **changed: Any) -> dict[str, float]:
    """The results of our simulator; `changed` are further TCP settings."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text(scenario, seed, **changed))
        file.flush()
        out, cpu = run([program(), "sim", file.name, "--json"])
    said = json.loads(out)
    [bottleneck] = [
        link for link in said["tables"]["links"] if (link["from"], link["to"]) == ("near", "far")
    ]
    flows = said["tables"]["flows"]
    seconds = scenario.until - scenario.since

    def total(name: str) -> float:
        return float(sum(flow[name] for flow in flows))

    return {
        "arrivals": bottleneck["offered_packets"],
        "packets": bottleneck["delivered_packets"],
        "drops": bottleneck["dropped_packets"],
        "marks": bottleneck["marked_packets"],
        "recoveries": total("recoveries"),
        "timeouts": total("timeouts"),
        "mark_responses": total("ecn_reductions"),
        "goodput": total("goodput_bps"),
        "throughput": bottleneck["delivered_bytes"] * 8 / seconds,
        "queue": bottleneck["queue_mean_bytes"],
        "cpu": cpu,
    }
