"""Laws that set the weight of one aggregate from its queue or its load, for the ideal models.

Source: integrated TCP, section 3.1, equations (7) to (10); docs/ledger.md, R002-9 (the paper's law
without changes).
Differs: queues and files are in seconds, the time in which the whole bottleneck would send them. In
equation (8), the share by weight replaces the expected bandwidth cwnd / minRTT. After a decrease,
the literal law waits for two more negative rounds. A slope of exactly 0 counts neither as positive
nor as negative.
"""

from dataclasses import dataclass
from math import inf
from random import Random
from typing import NamedTuple, Protocol

SAMPLES, EVERY = 180, 0.5
"""C and P of Table I: number of samples in a round, and seconds between two samples."""

EPSILON, MARGIN, BETA = 0.1, 0.1, 0.2
LOW, HIGH = 0.2, 1.0
MOST = 10.0
"""The largest weight, n of Table I. It is also the weight without an adjuster."""

MAX_QUEUE = 160.0
"""Greatest queue: 200,000 packets of 1,000 B, in seconds of the whole bottleneck."""

CAUTION = 0.5
"""The factor in equation (10)."""

ALWAYS, SELDOM = 0.95, 0.05
"""Busy parts of a round.

Above the first, the aggregate counts as always busy. Below the second, its service rate cannot be
measured.
"""


GAIN = 0.05
"""Weight of a new round in the average of offered loads. With 0.2, one giant file raises the weight
of its own aggregate so far that the other aggregates starve."""


class Seen(NamedTuple):
    """State of one aggregate.

    `queue`, `arrived` and `served` are in seconds of the whole bottleneck, and `busy` in seconds.
    `expected` is its share by weight.
    """

    queue: float
    arrived: float
    served: float
    busy: float
    expected: float


class Adjuster(Protocol):
    """A law that sets the weight of one aggregate from the state of its gateway."""

    weight: float
    due: float
    """Time of its next sample."""

    def sample(self, now: float, seen: Seen) -> bool:
        """Takes a sample of the aggregate, and returns true if the weight changed."""
        ...


class Fixed:
    """A weight that never changes."""

    def __init__(self, weight: float = MOST) -> None:
        self.weight, self.due = weight, inf

    def sample(self, now: float, seen: Seen) -> bool:
        return False


@dataclass(frozen=True)
class Parameters:
    """The parameters of the adjusters that work in rounds."""

    samples: int = SAMPLES
    every: float = EVERY
    epsilon: float = EPSILON
    margin: float = MARGIN
    beta: float = BETA
    max_queue: float = MAX_QUEUE
    initial: float = MOST
    most: float = MOST


class _Rounds:
    """An adjuster that works in rounds: a random wait, then C samples, then a decision."""

    def __init__(self, seed: int, number: int, parameters: Parameters) -> None:
        self.own = parameters
        self.chance = Random(f"{seed} adjuster {number}")
        self.weight = parameters.initial
        self.due = self._wait()
        self.taken: list[float] = []
        self.first: Seen | None = None
        self.negative = 0

    def _wait(self) -> float:
        return self.chance.random() * self.own.samples * self.own.every

    def sample(self, now: float, seen: Seen) -> bool:
        if self.first is None:
            self.first, self.taken = seen, []
        self.taken.append(seen.queue)
        self.due = now + self.own.every
        if len(self.taken) < self.own.samples:
            return False
        before = self.weight
        self.weight = min(max(self.decide(self.first, seen), 1.0), self.own.most)
        self.first = None
        self.due = now + self._wait()
        return self.weight != before

    def decide(self, first: Seen, last: Seen) -> float:
        raise NotImplementedError

    def decrease(self, negative: bool) -> float:
        """The weight. After the second negative round in a row, it is decreased by beta."""
        self.negative = self.negative + 1 if negative else 0
        if self.negative < 2:
            return self.weight
        self.negative = 0
        return self.weight * (1 - self.own.beta)


class Literal(_Rounds):
    """The paper's loop: the slope of the queue over a round changes the weight."""

    def decide(self, first: Seen, last: Seen) -> float:
        own, mean = self.own, sum(self.taken) / len(self.taken)
        slope = least_squares(self.taken) / own.every
        step = CAUTION * (slope / last.expected + own.epsilon) * self.weight
        full = mean > HIGH * own.max_queue
        if slope > 0 or (full and slope >= 0):
            self.negative = 0
            if full:
                return self.weight + max(1.0, step)
            return self.weight + step if mean > LOW * own.max_queue else self.weight
        return self.decrease(slope < 0 and not full)


class Measured(_Rounds):
    """A law of ours: compares the offered load with the service rate while the gateway is busy."""

    def decide(self, first: Seen, last: Seen) -> float:
        own = self.own
        length = own.every * (own.samples - 1)
        busy = last.busy - first.busy
        service = last.expected if busy < SELDOM * length else (last.served - first.served) / busy
        offered = (last.arrived - first.arrived) / length
        if busy > ALWAYS * length:
            self.negative = 0
            lack = max((offered - service) / service, 0.0) + own.margin
            return self.weight + CAUTION * lack * self.weight
        return self.decrease(offered * (1 + own.margin) < service)


class Proportional(_Rounds):
    """A law of ours, `w = n a / c`. It gives aggregate i the share rho_i / rho.

    `a` is the offered load, averaged over many rounds. `c` is the largest service rate in any
    sample during which the aggregate was always busy. In a sample during which all other aggregates
    are idle, `c` is the rate of the whole bottleneck. The load of a round counts as `c` at most.
    All gateways need the same n.
    """

    def __init__(self, seed: int, number: int, parameters: Parameters) -> None:
        super().__init__(seed, number, parameters)
        self.last: Seen | None = None
        self.offered = self.capacity = 0.0
        self.rounds = 0

    def sample(self, now: float, seen: Seen) -> bool:
        if self.first is not None and self.last is not None:
            busy = seen.busy - self.last.busy
            if busy > ALWAYS * self.own.every:
                self.capacity = max(self.capacity, (seen.served - self.last.served) / busy)
        self.last = seen
        return super().sample(now, seen)

    def decide(self, first: Seen, last: Seen) -> float:
        length = self.own.every * (self.own.samples - 1)
        self.rounds += 1
        gain = max(GAIN, 1 / self.rounds)
        offered = (last.arrived - first.arrived) / length
        self.offered += gain * (min(offered, self.capacity or offered) - self.offered)
        if not self.capacity:
            return self.weight
        return self.own.most * self.offered / self.capacity


def least_squares(values: list[float]) -> float:
    """The slope of a line through values at the times 0, 1, 2 and so on."""
    middle = (len(values) - 1) / 2
    over = sum((at - middle) * value for at, value in enumerate(values))
    return over / sum((at - middle) ** 2 for at in range(len(values)))
