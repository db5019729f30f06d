"""The compared networks: flows through one bottleneck, the same in every simulator."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

Flow: TypeAlias = tuple[float, float, str]
"""Start (s), base round-trip time (s), greedy | onoff."""

Draw: TypeAlias = Callable[[random.Random], list[Flow]]


@dataclass(frozen=True)
class Toggle:
    """A detail of our TCP that causes some differences. `tcp` are settings that reverse it."""

    cause: str
    tcp: dict[str, Any]
    quantities: tuple[str, ...]


@dataclass(frozen=True)
class Scenario:
    """One bottleneck, and the flows through it.

    Times in s, rates in bit/s, sizes in bytes, windows in segments.
    """

    name: str
    flows: Draw
    rate: float = 100e6
    buffer: int = 625_000
    payload: int = 1460
    until: float = 30
    since: float = 0
    delayed: bool = True  # an ACK for every second segment
    sack: bool = False
    ecn: bool = False
    queue: str = "droptail"  # droptail | red | pi
    pi: tuple[float, float] = (0.0, 0.0)
    loss: float = 0.0
    oracles: tuple[str, ...] = ("ns-2",)
    seeds: tuple[int, ...] = (1, 2, 3)
    # TCP settings of our end points, in addition to settings like those of ns-2.
    tcp: dict[str, Any] = field(default_factory=dict)
    # Values measured with Linux, by quantity.
    measured: dict[str, float] = field(default_factory=dict)
    toggles: tuple[Toggle, ...] = ()

    def drawn(self, seed: int) -> list[Flow]:
        """The flows of one seed."""
        return self.flows(random.Random(seed))


INITIAL_WINDOW = 2  # segments; ns-2's default
MIN_RTO = 1.0  # s; RFC 6298, and ns-2 at the time of the papers
DELAY = 0.005  # s; one way on the bottleneck; access links have the rest of the round-trip time
ACCESS = 1e9  # bit/s
BURST = 300  # packets, mean
PAUSE = 1.0  # s, mean
RED = {"min": 37_500, "max": 75_000, "weight": 0.002, "max_p": 0.1}
PI_TARGET = 100_000  # bytes


def pi_design(
    flows: int, round_trip: float, packets_per_s: float, sampling: int = 160
) -> tuple[float, float]:
    """The coefficients of the PI controller.

    Source: Hollot et al., INFOCOM 2001, proposition 2, by the bilinear rule.
    """
    zero = 2 * flows / (round_trip**2 * packets_per_s)
    gain = abs(1 + 1j * zero * round_trip) * (2 * flows) ** 2 / (round_trip * packets_per_s) ** 3
    return gain * (1 + zero / (2 * sampling)), gain * (1 - zero / (2 * sampling))


def greedy(count: int, shortest: float, longest: float, within: float = 1.0) -> Draw:
    """Endless flows with evenly spread round-trip times and random starts."""

    def draw(chance: random.Random) -> list[Flow]:
        spread = (longest - shortest) / max(count - 1, 1)
        return [(chance.uniform(0, within), shortest + spread * i, "greedy") for i in range(count)]

    return draw


def mixed(chance: random.Random) -> list[Flow]:
    """60 endless flows and 180 with bursts, as in experiment 1 of the paper `marking`."""
    kinds = ["greedy"] * 60 + ["onoff"] * 180
    return [(chance.uniform(0, 5), chance.uniform(0.024, 0.180), kind) for kind in kinds]


def aqm(name: str, queue: str, **more: Any) -> Scenario:
    """Experiment 1 of the paper `marking` with this queue."""
    return Scenario(
        name,
        mixed,
        rate=10e6,
        buffer=150_000,
        payload=460,
        since=10,
        until=70,
        delayed=False,
        queue=queue,
        ecn=queue != "droptail",
        **more,
    )


DUMBBELL = Scenario("dumbbell", greedy(100, 0.05, 0.05))
SINGLE = Scenario(
    "one flow", greedy(1, 0.05, 0.05, within=0), rate=10e6, buffer=62_500, until=60, seeds=(1,)
)
UNEQUAL = Scenario("unequal RTTs", greedy(20, 0.02, 0.2), buffer=250_000, until=60)
BOTH = ("ns-2", "ns-3")


def with_sack(scenario: Scenario, **more: Any) -> Scenario:
    """The same scenario with SACK, which ns-3 can run too."""
    return replace(scenario, name=scenario.name + ", SACK", sack=True, oracles=BOTH, **more)


NETWORKS = [
    DUMBBELL,
    with_sack(DUMBBELL),
    SINGLE,
    with_sack(SINGLE),
    UNEQUAL,
    with_sack(UNEQUAL),
]
AQMS = [
    aqm("Drop-Tail", "droptail"),
    aqm("RED", "red"),
    aqm("PI approx", "pi", pi=pi_design(50, 0.3, 2500)),
    aqm(
        "PI exact",
        "pi",
        pi=pi_design(60, 0.18, 2500),
        toggles=(
            Toggle(
                "a SYN that was lost is retransmitted without ECN (RFC 3168, 6.1.1.1)",
                {"ecn_fallback": True},
                ("loss",),
            ),
        ),
    ),
    with_sack(aqm("Drop-Tail", "droptail")),
]
LOSSES = [
    Scenario(
        f"{100 * p:g} %, {'delayed ACKs' if delayed else 'an ACK for each'}",
        greedy(10, 0.1, 0.1),
        rate=1e9,
        buffer=10_000_000,
        until=210,
        since=10,
        loss=p,
        delayed=delayed,
        seeds=(1,),
    )
    for p in (0.0005, 0.001, 0.002, 0.005, 0.01)
    for delayed in (False, True)
]


MEASURED = "Linux 6.12"


def as_linux(
    scenario: Scenario,
    name: str,
    recovery: str,
    toggles: tuple[Toggle, ...] = (),
    **measured: float,
) -> Scenario:
    """The same scenario with end points like Linux 6.12, and values measured with that kernel.

    Source: User Mode Linux in virtual time (time-travel), Reno, one recorded run each.
    """
    tcp = {"profile": "linux", "congestion": "reno", "recovery": recovery}
    return replace(scenario, name=name, tcp=tcp, measured=measured, oracles=(), toggles=toggles)


KERNEL = [
    as_linux(DUMBBELL, "dumbbell, no SACK", "new-reno", goodput=95.84, drops=6_974),
    as_linux(
        SINGLE,
        "one flow, no SACK",
        "new-reno",
        goodput=9.09,
        drops=145,
        recoveries=18,
        toggles=(
            Toggle(
                "losses are repaired as in RFC 6582: duplicates widen the window, the first "
                "partial ACK alone sets the timer",
                {"duplicates": "inflate"},
                ("goodput",),
            ),
        ),
    ),
    as_linux(SINGLE, "one flow, SACK", "sack", goodput=9.62, drops=109, recoveries=19),
]
