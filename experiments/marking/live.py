"""With predictive marking on the live gateway, kernel TCP loses a tenth of Drop-Tail's packets.

Source: marking, section 5.1; ledger sections 5 and 10.
Differs: see `../postack/_live.py` and `_senders.py`. Reno of this kernel with ECN, 20 Mbit/s,
300 kB, 120 greedy and 360 on-off flows in eight groups of 24 to 180 ms, packets of 500 B. The
kernel's least window is two segments. 480 flows keep 480 kB on the way, more than buffer and path
hold, so that some loss remains. Algorithms run side by side, each in a lab of its own. The
simulator runs the same scenario with profile `linux` and Reno.
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ..postack._live import Lab, line_of, missing, side_by_side
from ._network import BURST, PAUSE
from ._senders import SEGMENT

live = Experiment(__file__, seeds=3, needs=missing)

RATE, BUFFER = 20_000_000, 300_000
"""Of the gateway's link: bit/s and bytes."""

FRAME = 514
"""Bytes of a packet of 500 B as the gateway counts it."""

GROUPS = 8
SHORTEST, LONGEST = 0.024, 0.180
GREEDY, ON_OFF = 15, 45
"""Flows of each group."""

WARMUP, COUNTED = 15, 30
"""Seconds before figures are taken, and of figures."""

FAR = f"10.73.0.{GROUPS + 1}"
"""Address of the receiver, by its place in the file."""

LOOK = 0.1
"""Seconds between two looks at the queue."""

FIFO: dict[str, Any] = {"kind": "drop-tail", "limit": f"{BUFFER} B"}

PI: dict[str, Any] = {
    "kind": "pi", "limit": f"{BUFFER} B", "packet": f"{FRAME} B", "target": "200000 B",
    "every": "6250 us", "gains": {"a": 8.943e-5, "b": 8.858e-5}, "ecn": True,
}  # fmt: skip
"""The design rule of the ledger (section 4) for 120 flows, 0.18 s and this rate in packets."""

ALGORITHMS: dict[str, dict[str, Any]] = {
    "drop-tail": {"queue": FIFO},
    "pi": {"queue": PI},
    "reference": {"queue": FIFO, "marking": "reference"},
}

ROUTE = 'path="$(ip -4 route show dev eth0 | head -n 1) dev eth0"; ip route replace $path'
TOLD = f"echo 1 > /proc/sys/net/ipv4/tcp_ecn; {ROUTE} advmss 460"
"""Lines of shell for each host: ECN, and segments of 460 bytes, options included."""


def network(name: str) -> Scenario:
    """Eight hosts behind the gateway and one beyond it, for the simulator and for a lab."""
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
    start = {"uniform": ["0 s", "5 s"]}
    net.traffic("greedy", "greedy", senders, "far", flows=GREEDY, start=start)
    burst, pause = {"exponential": f"{BURST * SEGMENT} B"}, {"exponential": f"{PAUSE} s"}
    net.traffic(
        "bursts", "on-off", senders, "far", flows=ON_OFF, start=start, size=burst, off=pause
    )
    net.probe("passage", gateway="edge", direction="up")
    return net


def seen(lab: Lab) -> tuple[np.ndarray, float]:
    """Packets in, packets dropped and bytes out so far, and bytes that wait."""
    status = lab.status()
    counts = [
        status["up"]["received"]["packets"],
        sum(status["drops"].values()),
        status["up"]["transmitted"]["bytes"],
    ]
    return np.array(counts, dtype=float), status["up"]["waiting"]["bytes"]


def turn(name: str, seed: int) -> dict[str, float]:
    """Measures a lab with one algorithm."""
    with Lab(network(name)) as lab:
        program = Path(__file__).with_name("_senders.py")
        senders = [f"near{number}" for number in range(GROUPS)]
        for host in (*senders, "far"):
            lab.shell(host, TOLD)
        assert line_of(lab.start("far", sys.executable, program, "receive")), "no receiver"
        for host in senders:
            words = ["send", FAR, str(GREEDY), str(ON_OFF), f"{seed} {host}"]
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


@live.run()
def measure(seed: int) -> dict[str, float]:
    row = side_by_side(lambda name: turn(name, seed), list(ALGORITHMS))
    for name in ALGORITHMS:
        passed = network(name).run(seed)["passages"]
        row[f"simulated {name} loss"] = float(
            passed["dropped_packets"].sum() / passed["arrived_packets"].sum()
        )
        row[f"simulated {name} queue"] = float(passed["waiting_mean_bytes"].sum())
    return row


@live.claim("A004-2", "live: loss, marking over Drop-Tail", at_most=0.1)
def loss(runs: Table) -> Numbers:
    return runs["reference loss"] / runs["drop-tail loss"]


@live.claim("A004-4", "live: mean queue, marking over PI exact", at_most=0.6)
def queue(runs: Table) -> Numbers:
    return runs["reference queue"] / runs["pi queue"]


@live.claim("A004-3", "live: rate with marking, of the link", at_least=0.95)
def rate(runs: Table) -> Numbers:
    return runs["reference rate"]


def claim_context(name: str, key: str) -> None:
    """Live and simulated figures of one algorithm."""
    for what in ("loss", "queue"):
        for where in ("", "simulated "):

            def number(runs: Table, column: str = f"{where}{name} {what}") -> np.ndarray:
                return runs[column]

            place = "simulated" if where else "live"
            number.__name__ = f"{place}_{what}_{key}"
            text = f"{place}, {name}: {'loss' if what == 'loss' else 'mean queue, bytes'}"
            live.claim("A004-2, live", text, kind="context")(number)


for each in ALGORITHMS:
    claim_context(each, each.replace("-", "_"))


@live.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["loss, %", "mean queue, kB"])
    names = list(ALGORITHMS)
    for axes, what, unit in zip(panels, ("loss", "queue"), (0.01, 1e3), strict=True):
        for offset, where in ((-0.2, ""), (0.2, "simulated ")):
            means = [runs[f"{where}{name} {what}"].mean() / unit for name in names]
            label = "simulated" if where else "live"
            axes.bar(np.arange(len(names)) + offset, means, width=0.4, label=label)
        axes.set_xticks(range(len(names)), names)
        axes.legend()
    return figure
