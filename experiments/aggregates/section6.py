"""With triggers, shaping by a coarse timer is as exact as by a fine timer.

Source: aggregates, section 6.3.
Differs: `_server.py` describes the network. A *trigger* is an event, such as an ACK, at which the
gateway also looks for packets that conform. The claim counts packets that depart more than 2 ms
after they conformed. So the claim needs no estimate of a delay quantile. The bound of 2 ms is ours,
and so is the number of ACKs that suffices for it, 50 a second. The paper says that triggers make up
for a coarse timer, and prints no number.
"""

from typing import Any

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._server import RATE, server

section6 = Experiment(__file__, more={"triggers": {"all": 40}})

TRIGGERS: dict[str, dict[str, Any]] = {
    "all": {"triggers": "all"},
    "timer": {},
    "timer of 1 ms": {"interval": "1 ms"},
}


@section6.run(triggers=list(TRIGGERS), scale=[1, 20])
def measure(seed: int, triggers: str, scale: int) -> dict[str, float]:
    net = server("logical-partitions", scale=scale, **TRIGGERS[triggers])
    if scale > 1:
        net.duration, net.warmup = "70 s", "20 s"
    run = net.run(seed)
    aggregate = run.aggregates.where(policy="downloads", direction="up")
    return {
        "error": abs(aggregate["conforming_bps"][0] / (RATE * scale) - 1),
        "late": aggregate["late_packets"][0] / aggregate["conforming_packets"][0],
        "acks_per_second": run.flows["received_packets"].sum() / (250 if scale == 1 else 50),
    }


@section6.claim("A000-16", "15 ms timer with triggers: error of the rate", at_most=0.01)
def rate(runs: Table) -> Numbers:
    return runs.where(triggers="all", scale=1)["error"]


@section6.claim(
    "A000-16",
    "15 ms timer with triggers: packets over 2 ms late",
    at_most=0.05,
    why="a packet departs when the gateway next looks for packets that conform: at a packet, an "
    "ACK or an expiry of the timer. With 100 packets and 100 ACKs a second, this is every 10 ms, "
    "because each ACK and the packet that it requests come together. For 95 % to be less than 2 ms "
    "late, the gateway must look every 2 ms: at more ACKs (`#late-many`) or by the timer "
    "(`#late-fine`)",
)
def late(runs: Table) -> Numbers:
    return runs.where(triggers="all", scale=1)["late"]


@section6.claim("A000-16", "ACKs per second, at least 50", kind="context")
def enough_acks(runs: Table) -> Numbers:
    return runs.where(triggers="all", scale=1)["acks_per_second"]


@section6.claim(
    "A000-16, 20 times as many connections",
    "15 ms timer with triggers: packets over 2 ms late",
    at_most=0.05,
    margin=0.02,
)
def late_many(runs: Table) -> Numbers:
    return runs.where(triggers="all", scale=20)["late"]


@section6.claim("A000-16", "1 ms timer without triggers: packets over 2 ms late", at_most=0.05)
def late_fine(runs: Table) -> Numbers:
    return runs.where(triggers="timer of 1 ms", scale=1)["late"]


@section6.claim(
    "A000-16, 20 times as many connections",
    "15 ms timer with triggers: error of the rate",
    at_most=0.01,
)
def rate_many(runs: Table) -> Numbers:
    return runs.where(triggers="all", scale=20)["error"]


@section6.figure
def figure(runs: Table) -> Any:
    scales = sorted(set(runs["scale"]))
    figure, panels = plots.panels([f"{4 * scale} connections" for scale in scales])
    for axes, scale in zip(panels, scales, strict=True):
        for triggers in TRIGGERS:
            these = runs.where(triggers=triggers, scale=scale)
            axes.plot(these["seed"], these["late"], marker="o", linestyle="", label=triggers)
        axes.set_xlabel("seed")
        axes.set_ylabel("packets more than 2 ms late, of all")
        axes.set_ylim(-0.03, 1.03)
        axes.legend()
    return figure
