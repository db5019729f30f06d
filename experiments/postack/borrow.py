"""When a class borrows rate or returns it, its senders follow, and the queue stays small.

Source: postack; docs/ledger.md, R001-9 (the rule `gate` for held ACKs needs no estimate of any
rate) and A001-6 (new rates within 200 ms and three near round trips).
Differs: `_network.py` describes the network. The link has 10 Mbit/s and two classes, each with a
guarantee of half of the rate and a limit of the whole rate. One class has TCP. The other has UDP of
12 Mbit/s from 15 s to 25 s. The policy of TCP has the rate of the link, so that the class limits
TCP. Without ACK control, data waits at the class.
"""

from typing import Any

import numpy as np

from tidegate import Result, Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import RATE, bulk, network, rules

borrow = Experiment(__file__)

BEGIN, END, STEP = 15, 25, 0.05
QUEUES = {
    "tcp": {"kind": "per-flow", "limit": "8 MiB", "flow_limit": "1 MiB"},
    "udp": {"kind": "drop-tail", "limit": "16 KiB"},
}
LINK_QUEUE = {"kind": "per-flow", "limit": "4 MiB", "flow_limit": "256 KiB"}
SHOWN = ["none", "gate"]


def file(ack_control: str) -> dict[str, Any]:
    """The policy file: two classes, and a policy for each."""
    half = {"guarantee": {"up": "5 Mbit/s"}}
    classes = [{"name": name, **half, "queue": queue} for name, queue in QUEUES.items()]
    tcp: dict[str, Any] = rules(ack_control, "up", match={"direction": "up", "protocol": "tcp"})
    tcp["class"] = "tcp"
    udp: dict[str, Any] = {"name": "udp", "action": "pass", "class": "udp"}
    udp["match"] = {"direction": "up", "protocol": "udp"}
    return {
        "gateway": {"rate": {"up": f"{RATE} bit/s", "down": "1 Gbit/s"}, "queue": LINK_QUEUE},
        "class": classes,
        "policy": [tcp, udp],
    }


def scenario(ack_control: str) -> Scenario:
    net = network(
        ack_control, window="64 KiB", file=file(ack_control), warmup="5 s", duration="35 s"
    )
    net.sample = f"{STEP * 1000:.0f} ms"
    bulk(net)
    net.host("flooder")
    net.link("flooder", "lan", rate="1 Gbit/s", delay="100 us")
    span = {"start": f"{BEGIN} s", "stop": f"{END} s"}
    flood = {"rate": "12 Mbit/s", "packet": "1200 B", **span}
    net.traffic("flood", "cbr", "flooder", "w0", protocol="udp", **flood)
    return net


def series(run: Result) -> tuple[np.ndarray, np.ndarray]:
    table = run.windowed()
    return table["time_seconds"], table["bulk_bps"]


@borrow.run(ack_control=SHOWN)
def measure(seed: int, ack_control: str) -> dict[str, float]:
    run = scenario(ack_control).run(seed)
    time, rate = series(run)
    mean = {name: rate[(time > a) & (time <= b)].mean() for name, a, b in SPANS}
    flows = run.flows.where(group="bulk")
    return {
        **mean,
        "gives": settles(time, rate, BEGIN, mean["shared"]),
        "takes": settles(time, rate, END, mean["alone"]),
        "delay": run.groups.where(group="bulk")["delay_mean_seconds"][0],
        "timeouts": float(flows["timeouts"].sum()),
    }


SPANS = [("alone", 8, BEGIN), ("shared", BEGIN + 2, END), ("again", END + 2, 35)]


LAG = 0.2 + 3 * 0.0002 + 0.026
"""Seconds: 0.2, three round trips to the senders, and the delay to the measuring point."""


def settles(time: np.ndarray, rate: np.ndarray, since: float, level: float) -> float:
    """Seconds until the mean rate of 150 ms is within a tenth of ``level``.

    Returns the length of the rest of the run if this never happens.
    """
    after = time > since
    near = np.abs(np.convolve(rate, np.ones(3) / 3, "same") / level - 1) < 0.1
    reached = time[after & near]
    return float((reached if reached.size else time)[0 if reached.size else -1] - since)


def ratio(runs: Table, column: str) -> np.ndarray:
    cell = [runs.where(ack_control=ack_control)[column] for ack_control in ("gate", "none")]
    return cell[0] / cell[1]


@borrow.claim("A001-6", "alone: rate over that of a queue for each flow", at_least=0.99,
              at_most=1.01)  # fmt: skip
def alone(runs: Table) -> Numbers:
    return ratio(runs, "alone")


@borrow.claim("A001-6", "beside its sibling: rate over that of a queue for each flow",
              at_least=0.98, at_most=1.02)  # fmt: skip
def shared(runs: Table) -> Numbers:
    return ratio(runs, "shared")


@borrow.claim("A001-6", "alone again: rate over that of a queue for each flow", at_least=0.99,
              at_most=1.01)  # fmt: skip
def again(runs: Table) -> Numbers:
    return ratio(runs, "again")


@borrow.claim("A001-6", "time from the sibling's start until the rate is returned, s", at_most=LAG)
def gives(runs: Table) -> Numbers:
    return runs.where(ack_control="gate")["gives"]


@borrow.claim("A001-6", "time from the sibling's end until the rate is borrowed, s", at_most=LAG)
def takes(runs: Table) -> Numbers:
    return runs.where(ack_control="gate")["takes"]


@borrow.claim("A001-2", "mean queueing delay, over that of a queue for each flow", at_most=0.06)
def delay(runs: Table) -> Numbers:
    added = [
        runs.where(ack_control=ack_control)["delay"] - 0.0261 for ack_control in ("gate", "none")
    ]
    return added[0] / added[1]


@borrow.claim("A001-6", "timeouts", at_most=0)
def timeouts(runs: Table) -> Numbers:
    return runs.where(ack_control="gate")["timeouts"]


@borrow.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["a queue for each flow", "gate"])
    for axes, ack_control in zip(panels, SHOWN, strict=True):
        time, rate = series(scenario(ack_control).run(1))
        axes.plot(time, rate / 1e6)
        axes.set_xlabel("time (s)")
        axes.set_ylabel("TCP, Mbit/s")
        axes.set_ylim(bottom=0)
    return figure
