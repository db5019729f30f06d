"""Means over seeds, and how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np


@dataclass(frozen=True)
class Estimate:
    """A mean and its 95 % confidence interval (Student's t)."""

    mean: float
    low: float
    high: float
    count: int
    """How many samples it is from."""

    def __str__(self) -> str:
        if not self.count:
            return "-"
        return f"{self.mean:.4g} ({self.low:.4g} to {self.high:.4g})"

    @classmethod
    def of(cls, samples: Sequence[float]) -> Estimate:
        """From independent samples, one for each seed; a single one is its own interval."""
        values = np.asarray(samples, dtype=float)
        mean = float(values.mean())
        if len(values) < 2:
            return cls(mean, mean, mean, len(values))
        margin = _t(len(values) - 1) * float(values.std(ddof=1)) / sqrt(len(values))
        return cls(mean, mean - margin, mean + margin, len(values))


def samples_for(margin: float, pilot: Sequence[float]) -> int:
    """How many samples like these make an interval no wider than ``margin``.

    A quarter is added, since a deviation from few samples is uncertain itself. An interval so
    narrow decides every claim: a bound is outside, or both ends are less than ``margin`` from it.
    """
    deviation = float(np.std(np.asarray(pilot, dtype=float), ddof=1))
    return ceil(1.25 * (2 * _t(1_000) * deviation / margin) ** 2)


def jain(shares: Sequence[float]) -> float:
    """Jain's fairness index: 1 when all are equal, 1/n when one has everything.

    Source: aggregates, section 3.
    """
    values = np.asarray(shares, dtype=float)
    squares = float((values**2).sum())
    return 1.0 if squares == 0 else float(values.sum() ** 2 / (len(values) * squares))


def max_min_shares(capacity: float, demands: Sequence[float]) -> np.ndarray:
    """What each gets when ``capacity`` is shared max-min: the least demands first, in full."""
    values = np.asarray(demands, dtype=float)
    shares = np.zeros(len(values))
    left, waiting = capacity, len(values)
    for index in np.argsort(values, kind="stable"):
        shares[index] = min(values[index], left / waiting)
        left -= shares[index]
        waiting -= 1
    return shares


def max_min_index(rates: Sequence[float], shares: Sequence[float]) -> float:
    """The paper's index F': Jain's of each rate over its max-min share.

    Source: aggregates, section 3.
    """
    return jain(np.asarray(rates, dtype=float) / np.asarray(shares, dtype=float))


def _t(freedom: int) -> float:
    """The 97.5 % quantile of Student's distribution (tables of any statistics book)."""
    known = _QUANTILES.get(freedom)
    if known is not None:
        return known
    below = max(each for each in _QUANTILES if each < freedom)
    return _QUANTILES[below]


_QUANTILES = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262,
    10: 2.228, 11: 2.201, 12: 2.179, 13: 2.160, 14: 2.145, 15: 2.131, 16: 2.120, 17: 2.110,
    18: 2.101, 19: 2.093, 20: 2.086, 25: 2.060, 30: 2.042, 40: 2.021, 60: 2.000, 120: 1.980,
    1_000: 1.962,
}  # fmt: skip
