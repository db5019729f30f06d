"""The guarantees of four classes hold on the live gateway; with Drop-Tail the load breaks them.

Source: marking, section 5.2.
Differs: `../postack/_live.py` describes labs of real hosts, and `_senders.py` the senders. The
policy file is `examples/guarantees.toml`, with its rate of 45 Mbit/s. The calls are UDP at 4 Mbit/s
(`_calls.py`). Each of the other three classes has 4 greedy and 10 on-off flows of Reno of this
kernel with ECN, at 44 ms. Drop-Tail with the same buffer and no classes runs at the same time in a
lab of its own. The waiting time of a packet of a call is its transit time minus the least transit
time of all packets.
"""

import json
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ..postack._live import ROOT, Lab, line_of, missing, side_by_side

live_guarantees = Experiment(__file__, seeds=3, needs=missing)

EXAMPLE = tomllib.loads((ROOT / "examples" / "guarantees.toml").read_text())
"""The policy file without the names of its ports, which the lab sets."""

CLASSES = {"calls": "EF", "gold": "AF31", "silver": "AF21", "default": "CS0"}
"""Hosts, one for each class, and the DS codepoints of their packets."""

TOS = {"calls": 46 << 2, "gold": 26 << 2, "silver": 18 << 2, "default": 0}

RATE = 45_000_000
"""Rate of the example, bit/s."""

GREEDY, ON_OFF = 4, 10
"""Number of greedy and of on-off flows in each class of TCP."""

CALLS = 4_000_000
"""Rate of the calls, bit/s: below their guarantee of 5 Mbit/s."""

WARMUP, COUNTED = 10, 30
"""Length of the warm-up and of the time that counts, in seconds."""

FAR = f"10.73.0.{len(CLASSES) + 1}"
"""Address of the receiver, which is the last host in the file."""

TOLD = "echo 1 > /proc/sys/net/ipv4/tcp_ecn"


def files() -> dict[str, dict[str, Any]]:
    """The example, and a Drop-Tail policy file with the same rate and buffer."""
    gateway = {key: it for key, it in EXAMPLE["gateway"].items() if key not in ("lan", "wan")}
    fifo = {"kind": "drop-tail", "limit": gateway["buffer"]}
    return {
        "example": {**EXAMPLE, "gateway": gateway},
        "drop-tail": {"gateway": {"rate": gateway["rate"], "queue": fifo}},
    }


def network(name: str) -> Scenario:
    """A host for each class on the gateway's LAN side, and a receiver."""
    net = Scenario(duration=f"{WARMUP + COUNTED} s")
    net.gateway("edge", files()[name])
    net.hosts(*CLASSES, gateway="edge")
    net.host("far")
    for host in CLASSES:
        net.route(**{"from": host, "delay": "22 ms"})
        net.route(to=host, delay="22 ms")
    return net


def one_file(name: str, seed: int) -> dict[str, float]:
    """Runs a lab with one policy file. Returns the calls' numbers, the rate and the drops."""
    with Lab(network(name)) as lab:
        program = Path(__file__).with_name("_senders.py")
        calls = program.with_name("_calls.py")
        for host in (*CLASSES, "far"):
            lab.shell(host, TOLD)
        assert line_of(lab.start("far", sys.executable, program, "receive")), "no receiver"
        for host in list(CLASSES)[1:]:
            words = ["send", FAR, str(GREEDY), str(ON_OFF), f"{seed} {host}", str(TOS[host])]
            lab.start(host, sys.executable, program, *words)
        time.sleep(WARMUP)
        receiver = lab.start("far", sys.executable, calls, "receive", str(COUNTED))
        assert line_of(receiver), "no receiver of calls"
        before = lab.status()
        lab.start("calls", sys.executable, calls, "send", FAR, str(CALLS), str(TOS["calls"]))
        said: dict[str, float] = json.loads(line_of(receiver))
        after = lab.status()
        sent = after["up"]["transmitted"]["bytes"] - before["up"]["transmitted"]["bytes"]
        took = (after["uptime_ms"] - before["uptime_ms"]) / 1e3
        return {
            **said,
            "rate": sent * 8 / took / RATE,
            "drops": float(sum(after["drops"].values()) - sum(before["drops"].values())),
            "hangs": float(lab.hangs()),
            **kept(lab),
        }


def kept(lab: Lab) -> dict[str, float]:
    """Delay ratios as the gateway itself measures them. Drop-Tail has no classes, so no ratios."""
    found = {}
    for it in lab.ask("edge", "classes").get("classes", []):
        for promise in it.get("promises", []):
            if promise["term"] == "delay_ratio" and promise.get("kept") is not None:
                found[f"ratio {it['name']}"] = float(promise["kept"])
    return found


@live_guarantees.run()
def measure(seed: int) -> dict[str, float]:
    return side_by_side(lambda name: one_file(name, seed), list(files()))


def claim(name: str, text: str, file: str, column: str, **bounds: Any) -> None:
    """Adds a claim about one number with one policy file."""

    def number(runs: Table) -> Numbers:
        return runs[f"{file} {column}"]

    number.__name__ = name
    live_guarantees.claim("A004-6, live", text, **bounds)(number)


claim("late_example", "calls that wait longer than 10 ms", "example", "late", at_most=0.01)
claim("loss_example", "loss of the calls", "example", "loss", at_most=0.01)
claim("rate_example", "rate of all classes, relative to the link", "example", "rate", at_least=0.95)
claim(
    "late_fifo", "Drop-Tail: calls that wait longer than 10 ms", "drop-tail", "late",
    kind="shown otherwise", at_least=0.5,
)  # fmt: skip
for each in files():
    claim(f"delay_{each.replace('-', '_')}", f"{each}: 99 % quantile of the calls' delay, s", each,
          "delay", kind="context")  # fmt: skip
    claim(f"drops_{each.replace('-', '_')}", f"{each}: packets dropped", each, "drops",
          kind="context")  # fmt: skip
claim("lost_fifo", "Drop-Tail: loss of the calls", "drop-tail", "loss", kind="context")


@live_guarantees.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["calls later than 10 ms, %", "delay of 99 % of the calls, ms"])
    names = list(files())
    for axes, what, unit in zip(panels, ("late", "delay"), (0.01, 1e-3), strict=True):
        axes.bar(range(len(names)), [runs[f"{name} {what}"].mean() / unit for name in names])
        axes.set_xticks(range(len(names)), names)
    return figure
