"""Ideal models of the bottleneck: processor sharing, and weighted sharing between aggregates.

Source: integrated TCP, sections 2 and 3.
Differs: the share of an aggregate follows its weight without delay. When an aggregate is idle, the
others use its share at once. There are no packets, round trips or slow starts.

Files of a class share its rate equally. The class has a virtual time V with dV/dt = rate / number
of files. A file with service time S that arrives at V departs at V + S, so a departure costs one
operation of a heap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

import numpy as np

from ._adjust import Adjuster, Seen
from ._load import Files


def processor_sharing(time: np.ndarray, work: np.ndarray, rate: float = 1.0) -> np.ndarray:
    """Departure times of files, when a server of this rate serves all present files equally."""
    departed = np.zeros(len(time))
    heap: list[tuple[float, int]] = []
    now = virtual = 0.0
    for number, (arrival, size) in enumerate(zip(time.tolist(), work.tolist(), strict=True)):
        while heap:
            first, oldest = heap[0]
            ends = now + (first - virtual) * len(heap) / rate
            if ends > arrival:
                virtual += (arrival - now) * rate / len(heap)
                break
            departed[oldest] = now = ends
            virtual = first
            heappop(heap)
        now = arrival
        heappush(heap, (virtual + size, number))
    while heap:
        first, oldest = heap[0]
        now += (first - virtual) * len(heap) / rate
        virtual = first
        departed[oldest] = now
        heappop(heap)
    return departed


def gps_workloads(arrivals: Files, share: float) -> np.ndarray:
    """Work in queue 1, in seconds, at each arrival of a file for queue 2.

    Two queues share a server by GPS (generalized processor sharing). Queue 1 has the guaranteed
    ``share``. Poisson arrivals see time averages, so these values are averages over time.
    """
    first = second = last = 0.0
    met = []
    rows = zip(arrivals.time.tolist(), arrivals.work.tolist(), arrivals.owner.tolist(), strict=True)
    for now, size, owner in rows:
        left, last = now - last, now
        if first > 0 and second > 0:
            both = min(left, first / share, second / (1 - share))
            first, second = first - both * share, second - both * (1 - share)
            left -= both
        # Now only one queue has work, or no time is left.
        first, second = max(0.0, first - left), max(0.0, second - left)
        if owner:
            met.append(first)
            second += size
        else:
            first += size
    return np.array(met)


@dataclass(frozen=True)
class Shared:
    """A run of several aggregates at one bottleneck."""

    departed: np.ndarray
    """Departure time of each file in seconds; NaN for a file that was not complete at the end."""
    shares: np.ndarray
    """Shares of the aggregates by weight; one row per sample."""
    queues: np.ndarray
    """Backlog of every aggregate in seconds; one row per sample."""
    weights: np.ndarray
    """Weights of the aggregates; one row per sample."""
    time: np.ndarray
    """Times of the samples in seconds."""


class _Aggregate:
    """An aggregate: its files share the rate equally. GPS sets the rate."""

    __slots__ = ("busy", "done", "heap", "now", "rate", "virtual", "work")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int]] = []
        self.now = self.virtual = self.rate = 0.0
        self.work = self.busy = self.done = 0.0

    def advance(self, now: float) -> None:
        """Serves the files of the aggregate until the time ``now``."""
        if self.heap:
            elapsed = now - self.now
            self.virtual += elapsed * self.rate / len(self.heap)
            self.work = max(0.0, self.work - elapsed * self.rate)
            self.done += elapsed * self.rate
            self.busy += elapsed
        self.now = now

    def departs(self) -> float:
        """Departure time of its next file, if nothing changes before that time."""
        if not self.heap:
            return inf
        return self.now + (self.heap[0][0] - self.virtual) * len(self.heap) / self.rate


def share_by_weight(
    arrivals: Files, adjusters: Sequence[Adjuster], seconds: float, every: float = 10.0
) -> Shared:
    """GPS between aggregates with the adjusters' weights, and processor sharing within each."""
    run = _Run(adjusters)
    departed = np.full(len(arrivals.time), np.nan)
    rows: list[tuple[float, list[float], list[float]]] = []
    sample, number = every, 0
    times = [*arrivals.time.tolist(), inf]
    works, owners = arrivals.work.tolist(), arrivals.owner.tolist()
    while True:
        departing = min(range(len(run.next)), key=run.next.__getitem__)
        now = min(run.next[departing], times[number], run.due, sample)
        if now > seconds:
            break
        if now == run.next[departing]:
            departed[run.depart(departing, now)] = now
        elif now == times[number]:
            run.arrive(owners[number], now, works[number], number)
            number += 1
        elif now == run.due:
            run.adjust(now)
        else:
            run.advance(now)
            rows.append((now, run.weights(), [it.work for it in run.own]))
            sample += every
    weights = np.array([it[1] for it in rows])
    return Shared(
        departed,
        weights / weights.sum(axis=1, keepdims=True),
        np.array([it[2] for it in rows]),
        weights,
        np.array([it[0] for it in rows]),
    )


class _Run:
    """All aggregates of a run, with the time of the next event of each."""

    def __init__(self, adjusters: Sequence[Adjuster]) -> None:
        self.adjusters = list(adjusters)
        self.own = [_Aggregate() for _ in adjusters]
        self.arrived = [0.0] * len(adjusters)
        self.next = [inf] * len(adjusters)
        self.due = min(it.due for it in adjusters)

    def weights(self) -> list[float]:
        return [it.weight for it in self.adjusters]

    def advance(self, now: float) -> None:
        for each in self.own:
            each.advance(now)

    def arrive(self, owner: int, now: float, work: float, number: int) -> None:
        own = self.own[owner]
        own.advance(now)
        was_idle = not own.heap
        heappush(own.heap, (own.virtual + work, number))
        own.work += work
        self.arrived[owner] += work
        if was_idle:
            self.share(now)
        else:
            self.next[owner] = own.departs()

    def depart(self, owner: int, now: float) -> int:
        own = self.own[owner]
        own.advance(now)
        own.virtual, number = heappop(own.heap)
        if own.heap:
            self.next[owner] = own.departs()
        else:
            own.work = 0.0
            self.share(now)
        return number

    def share(self, now: float) -> None:
        """Divides the bottleneck by weight between the aggregates that have files."""
        self.advance(now)
        total = sum(it.weight for it, own in zip(self.adjusters, self.own, strict=True) if own.heap)
        for number, own in enumerate(self.own):
            own.rate = self.adjusters[number].weight / total if own.heap else 0.0
            self.next[number] = own.departs()

    def adjust(self, now: float) -> None:
        """Takes samples for the adjusters that are due, and shares again if a weight changed."""
        changed = False
        total = sum(self.weights())
        for number, (each, own) in enumerate(zip(self.adjusters, self.own, strict=True)):
            if each.due > now:
                continue
            own.advance(now)
            seen = Seen(own.work, self.arrived[number], own.done, own.busy, each.weight / total)
            changed |= each.sample(now, seen)
        self.due = min(it.due for it in self.adjusters)
        if changed:
            self.share(now)
