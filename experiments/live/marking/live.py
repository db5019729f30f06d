"""With predictive marking on the live gateway, kernel TCP loses a tenth of Drop-Tail's packets.

Source: marking, section 5.1.
Differs: `../postack/_live.py` describes labs of real hosts, and `_senders.py` the senders. Senders
use Reno of this kernel with ECN. The link has 20 Mbit/s and a buffer of 300 kB. 120 greedy and 360
on-off flows in eight groups have round trips of 24 to 180 ms and packets of 500 B. A second case
has half as many flows. All algorithms run at the same time, each in a lab of its own. The simulator
runs the same scenario with profile `linux` and Reno.
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ...marking._network import BURST, PAUSE
from ..postack._live import Lab, line_of, missing, side_by_side
from ._senders import SEGMENT

live = Experiment(__file__, seeds=3, needs=missing)

RATE, BUFFER = 20_000_000, 300_000
"""Rate of the gateway's link in bit/s, and its buffer in bytes."""

FRAME = 514
"""Length of a packet of 500 B in bytes, as the gateway counts it."""

GROUPS = 8
SHORTEST, LONGEST = 0.024, 0.180
FLOWS = {"480": (15, 45), "240": (8, 22)}
"""Number of greedy and on-off flows in each group, by the number of all flows."""

WARMUP, COUNTED = 15, 30
"""Length of the warm-up and of the time that counts, in seconds."""

FAR = f"10.73.0.{GROUPS + 1}"
"""Address of the receiver, which is the last host in the file."""

LOOK = 0.1
"""Seconds between two samples of the queue."""

FIFO: dict[str, Any] = {"kind": "drop-tail", "limit": f"{BUFFER} B"}

PI: dict[str, Any] = {
    "kind": "pi", "limit": f"{BUFFER} B", "packet": f"{FRAME} B", "target": "200000 B",
    "every": "6250 us", "gains": {"a": 8.943e-5, "b": 8.858e-5}, "ecn": True,
}  # fmt: skip
"""PI, designed for 120 flows, a round trip of 0.18 s and this rate."""

ALGORITHMS: dict[str, dict[str, Any]] = {
    "drop-tail": {"queue": FIFO},
    "pi": {"queue": PI},
    "reference": {"queue": FIFO, "marking": "reference"},
}

ROUTES = "ip -4 route show dev eth0 | while read -r path; do"
TOLD = (
    "echo 1 > /proc/sys/net/ipv4/tcp_ecn; "
    f"{ROUTES} ip route replace $path dev eth0 advmss 460; done"
)
"""Shell commands for each host: use ECN, and segments of 460 bytes including options."""


def network(name: str, flows: str) -> Scenario:
    """Eight senders with one gateway, and a receiver; for the simulator and for a lab."""
    tcp = {"profile": "linux", "congestion": "reno", "ecn": "classic", "mss": "460 B"}
    net = Scenario(
        duration=f"{WARMUP + COUNTED} s", warmup=f"{WARMUP} s", sample="100 ms", tcp=tcp
    )  # fmt: skip
    net.gateway("edge", {"gateway": {"rate": {"up": f"{RATE} bit/s"}, **ALGORITHMS[name]}})
    senders = [f"near{number}" for number in range(GROUPS)]
    net.hosts(*senders, gateway="edge")
    net.host("far")
    for number, sender in enumerate(senders):
        rtt = SHORTEST + (LONGEST - SHORTEST) * number / (GROUPS - 1)
        half = f"{round(rtt / 2 * 1e6)} us"
        net.route(**{"from": sender, "delay": half})
        net.route(to=sender, delay=half)
    start, (greedy, on_off) = {"uniform": ["0 s", "5 s"]}, FLOWS[flows]
    net.traffic("greedy", "greedy", senders, "far", flows=greedy, start=start)
    burst, pause = {"exponential": f"{BURST * SEGMENT} B"}, {"exponential": f"{PAUSE} s"}
    net.traffic(
        "bursts", "on-off", senders, "far", flows=on_off, start=start, size=burst, off=pause
    )
    net.probe("passage", gateway="edge", direction="up")
    return net


def seen(lab: Lab) -> tuple[np.ndarray, float]:
    """Packets in, packets dropped and bytes out so far, and bytes in the queue."""
    status = lab.status()
    counts = [
        status["up"]["received"]["packets"],
        sum(status["drops"].values()),
        status["up"]["transmitted"]["bytes"],
    ]
    return np.array(counts, dtype=float), status["up"]["waiting"]["bytes"]


def one_algorithm(name: str, flows: str, seed: int) -> dict[str, float]:
    """Runs a lab with one algorithm. Returns loss, mean queue and rate."""
    with Lab(network(name, flows)) as lab:
        program = Path(__file__).with_name("_senders.py")
        senders = [f"near{number}" for number in range(GROUPS)]
        for host in (*senders, "far"):
            lab.shell(host, TOLD)
        assert line_of(lab.start("far", sys.executable, program, "receive")), "no receiver"
        for host in senders:
            words = ["send", FAR, *map(str, FLOWS[flows]), f"{seed} {host}"]
            lab.start(host, sys.executable, program, *words)
        time.sleep(WARMUP)
        (first, _), began, queue = seen(lab), time.monotonic(), []
        while time.monotonic() - began < COUNTED:
            queue.append(seen(lab)[1])
            time.sleep(LOOK)
        arrived, dropped, sent = seen(lab)[0] - first
        took = time.monotonic() - began
        return {
            "loss": dropped / arrived,
            "queue": float(np.mean(queue)),
            "rate": sent * 8 / took / RATE,
            "hangs": float(lab.hangs()),
        }


@live.run(flows=list(FLOWS))
def measure(seed: int, flows: str) -> dict[str, float]:
    row = side_by_side(lambda name: one_algorithm(name, flows, seed), list(ALGORITHMS))
    for name in ALGORITHMS:
        passed = network(name, flows).run(seed)["passages"]
        row[f"simulated {name} loss"] = float(
            passed["dropped_packets"].sum() / passed["arrived_packets"].sum()
        )
        row[f"simulated {name} queue"] = float(passed["waiting_mean_bytes"].sum())
    return row


CROWDED = (
    "the least window of this kernel is two segments. The least windows of 480 flows are 480 "
    "kB; the buffer and the path hold 555 kB, so one segment more for every sixth flow "
    "overflows the buffer. The simulator shows the same. The case with half as many flows judges "
    "the claim with enough room"
)


def claim_flows(flows: str, why: str | None) -> None:
    """Adds the claims for a number of flows."""

    def claim(key: str, ref: str, text: str, over: tuple[str, str | None], **bounds: Any) -> None:
        column, base = over

        def number(runs: Table) -> Numbers:
            own = runs.where(flows=flows)
            values: Numbers = own[column] / own[base] if base else own[column]
            return values

        number.__name__ = f"{key}_{flows}"
        live.claim(ref, f"live, {flows} flows: {text}", **bounds)(number)

    claim("loss", "A004-2", "loss, marking over Drop-Tail", ("reference loss", "drop-tail loss"),
          at_most=0.1, why=why)  # fmt: skip
    claim("queue", "A004-4", "mean queue, marking over PI exact", ("reference queue", "pi queue"),
          at_most=0.6, why=why)  # fmt: skip
    claim("rate", "A004-3", "rate with marking, relative to the link", ("reference rate", None),
          at_least=0.95)  # fmt: skip
    for name in ALGORITHMS:
        for what in ("loss", "queue"):
            for where in ("", "simulated "):
                key = f"{where.strip() or 'live'}_{what}_{name.replace('-', '_')}"
                shown = "loss" if what == "loss" else "mean queue, bytes"
                claim(key, "A004-2, live", f"{where}{name}: {shown}",
                      (f"{where}{name} {what}", None), kind="context")  # fmt: skip


claim_flows("480", CROWDED)
claim_flows("240", None)


@live.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(
        [f"{flows} flows: {what}" for flows in FLOWS for what in ("loss, %", "mean queue, kB")],
        columns=2,
    )
    names = list(ALGORITHMS)
    drawn = [(flows, *it) for flows in FLOWS for it in (("loss", 0.01), ("queue", 1e3))]
    for axes, (flows, what, unit) in zip(panels, drawn, strict=True):
        own = runs.where(flows=flows)
        for offset, where in ((-0.2, ""), (0.2, "simulated ")):
            means = [own[f"{where}{name} {what}"].mean() / unit for name in names]
            label = "simulated" if where else "live"
            axes.bar(np.arange(len(names)) + offset, means, width=0.4, label=label)
        axes.set_xticks(range(len(names)), names)
        axes.legend()
    return figure
