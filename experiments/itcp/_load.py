"""The workload of aggregates: files with Poisson arrivals and Pareto sizes.

Source: integrated TCP, section 4.
Differs: the paper does not print the packet size. Packets here have 1,000 B of payload, and loads
count the payload.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RATE = 10_000_000 / 8
"""Rate of the bottleneck, bytes per second."""

PACKET = 1_000
"""Payload of a packet, bytes."""

CLIENTS, INTERVAL = 10, 1.0
"""Clients of a subnet, and the mean time in seconds between two files of one client."""


@dataclass(frozen=True)
class Class:
    """The files of one subnet: Pareto sizes with this mean in bytes and this tail index."""

    mean: float
    index: float
    arrivals: float = CLIENTS / INTERVAL
    """Files per second of the whole subnet."""

    @property
    def seconds(self) -> float:
        """Mean service time of a file, if the file has the whole bottleneck."""
        return self.mean / RATE

    @property
    def least(self) -> float:
        """Service time of the smallest file, in seconds."""
        return self.seconds * (self.index - 1) / self.index

    @property
    def load(self) -> float:
        """Offered load, as a fraction of the bottleneck's rate."""
        return self.arrivals * self.seconds

    def tail(self, x: np.ndarray | float) -> np.ndarray:
        """P[S > x] of the service time S, with x in seconds."""
        return np.minimum(1.0, (self.least / np.maximum(x, 1e-300)) ** self.index)

    def residual(self, x: np.ndarray | float) -> np.ndarray:
        """P[S^r > x] of the residual service time, for x above the smallest file."""
        return (self.least / np.asarray(x)) ** (self.index - 1) / self.index


E1 = (Class(65_000, 2.5), Class(30_000, 1.2))
"""Classes of the paper's network with two subnets."""

E3 = (Class(35_000, 2.5), Class(10_000, 1.2), Class(10_000, 1.7), Class(30_000, 2.2))
"""Classes of the paper's network with four subnets."""


@dataclass(frozen=True)
class Files:
    """Files in the order of their arrival."""

    time: np.ndarray
    """Arrival times in seconds."""
    work: np.ndarray
    """Service times in seconds."""
    owner: np.ndarray
    """Index of the class."""


def files(classes: Sequence[Class], seconds: float, seed: int) -> Files:
    """The files of a run. The same seed gives the same files in all modes."""
    parts = []
    for number, each in enumerate(classes):
        chance = np.random.default_rng([seed, number])
        count = chance.poisson(each.arrivals * seconds)
        time = np.sort(chance.uniform(0, seconds, count))
        work = each.least * (1 - chance.random(count)) ** (-1 / each.index)
        parts.append((time, work, np.full(count, number)))
    time, work, owner = (np.concatenate(it) for it in zip(*parts, strict=True))
    order = np.argsort(time, kind="stable")
    return Files(time[order], work[order], owner[order])


def ccdf(samples: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The fraction of the samples above each x."""
    return 1 - np.searchsorted(np.sort(samples), x, side="right") / max(len(samples), 1)


SLOPE_FROM, SLOPE_TO, SLOPE_POINTS, SLOPE_COUNT = 1.0, 60.0, 20, 10
"""The range of the fit in seconds, the number of its points, and the least number of samples that
must exceed a point."""


def slope(samples: np.ndarray) -> float:
    """Slope of log P[V > x] over log x between 1 s and 60 s; NaN with fewer than three points."""
    x = np.geomspace(SLOPE_FROM, SLOPE_TO, SLOPE_POINTS)
    tail = ccdf(samples, x)
    shown = tail * len(samples) >= SLOPE_COUNT
    if shown.sum() < 3:
        return float("nan")
    return float(np.polyfit(np.log(x[shown]), np.log(tail[shown]), 1)[0])
