"""Statistics over seeds with 95 % confidence intervals, and fairness indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, exp, inf, lgamma, log, log1p, sqrt
from typing import TypeAlias

import numpy as np

Numbers: TypeAlias = Sequence[float] | np.ndarray
"""Samples, rates or outcomes."""

TAIL = 0.025
"""Probability that the true value is above the upper end of a 95 % confidence interval. The same
probability applies below the lower end."""


@dataclass(frozen=True)
class Estimate:
    """An estimated number and its 95 % confidence interval."""

    value: float
    low: float
    high: float
    count: int
    """Number of samples."""

    def __str__(self) -> str:
        if not self.count:
            return "-"
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"

    @classmethod
    def of(cls, samples: Numbers) -> Estimate:
        """The mean with its interval by Student's t. A single sample is its own interval.

        Samples are independent, one for each seed, and have a finite variance.
        """
        values = np.asarray(samples, dtype=float)
        mean = float(values.mean())
        if len(values) < 2:
            return cls(mean, mean, mean, len(values))
        margin = _t(len(values) - 1) * float(values.std(ddof=1)) / sqrt(len(values))
        return cls(mean, mean - margin, mean + margin, len(values))


@dataclass(frozen=True)
class Statistic:
    """A rule that reduces the samples of all seeds to one estimate."""

    name: str
    estimate: Callable[[Numbers], Estimate]


MEAN = Statistic("mean", Estimate.of)
"""The mean, with an interval by Student's t. For samples of finite variance."""


def quantile(part: float) -> Statistic:
    """The quantile ``part``: with this probability, the sample of a further seed is below it.

    The interval lies between two order statistics and assumes no distribution. With too few samples
    it is infinite: a median needs 6, a quantile of 0.9 needs 36.

    Source: H. A. David, H. N. Nagaraja, *Order Statistics*, section 7.1.
    """
    if not 0 < part < 1:
        raise ValueError(f"a quantile lies between 0 and 1, not at {part}")
    return Statistic(f"quantile of {part:g}", lambda samples: _quantile(samples, part))


def _ratio(samples: Numbers) -> Estimate:
    values = np.asarray(samples, dtype=float)
    if not (values > 0).all():
        raise ValueError("a ratio has a logarithm only if it is above 0")
    middle = _quantile(np.log(values), 0.5)
    value, low, high = (float(np.exp(it)) for it in (middle.value, middle.low, middle.high))
    return Estimate(value, low, high, middle.count)


MEDIAN_RATIO = Statistic("median ratio", _ratio)
"""The median of paired ratios. Two modes with the same seed have the same arrivals.

The estimate is computed from logarithms, so a ratio and its reciprocal are judged alike. The
interval is that of the sign test and assumes no distribution. So it suits maximum delays and other
quantities with heavy tails.
"""


def _share(samples: Numbers) -> Estimate:
    values = np.asarray(samples, dtype=float)
    if not np.isin(values, (0, 1)).all():
        raise ValueError("an outcome of a seed is 0 or 1")
    count, hits = len(values), int(values.sum())
    low = _solve(lambda chance: 1 - _at_most(hits - 1, count, chance) < TAIL) if hits else 0.0
    high = _solve(lambda chance: _at_most(hits, count, chance) > TAIL) if hits < count else 1.0
    return Estimate(hits / count, low, high, count)


SHARE = Statistic("share of seeds", _share)
"""The fraction of seeds with the outcome 1 instead of 0.

Source: C. J. Clopper, E. S. Pearson, *The use of confidence or fiducial limits*, Biometrika, 1934.
"""


def _quantile(samples: Numbers, part: float) -> Estimate:
    values = np.sort(np.asarray(samples, dtype=float))
    count = len(values)
    # For any distribution, the number of samples below the quantile is binomial.
    below = [_at_most(hits, count, part) for hits in range(count)]
    first = sum(each <= TAIL for each in below)
    last = sum(1 - each > TAIL for each in below)
    low = float(values[first - 1]) if first else -inf
    high = float(values[last]) if last < count else inf
    return Estimate(float(np.quantile(values, part)), low, high, count)


def _at_most(hits: int, count: int, chance: float) -> float:
    """The probability of at most ``hits`` hits in ``count`` trials."""
    total = sum(
        exp(
            lgamma(count + 1) - lgamma(each + 1) - lgamma(count - each + 1)
            + each * log(chance) + (count - each) * log1p(-chance)
        )
        for each in range(hits + 1)
    )  # fmt: skip
    return min(total, 1.0)


def _solve(below: Callable[[float], bool]) -> float:
    """The number between 0 and 1 up to which ``below`` is true, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(52):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return low


def samples_for(margin: float, pilot: Numbers, statistic: Statistic = MEAN) -> int:
    """The number of samples for an interval no wider than ``margin``, from pilot samples.

    The result includes a quarter more, because the deviation of a few pilot samples is uncertain
    itself. An interval this narrow decides every claim. Either the bound is outside of it, or the
    whole interval is closer to the bound than ``margin``.
    """
    if statistic is MEAN:
        deviation = float(np.std(np.asarray(pilot, dtype=float), ddof=1))
        return ceil(1.25 * (2 * _t(1_000) * deviation / margin) ** 2)
    estimate = statistic.estimate(pilot)
    width = estimate.high - estimate.low
    if width == inf:
        raise ValueError(f"{estimate.count} seeds give no interval of the {statistic.name}")
    return ceil(1.25 * estimate.count * (width / margin) ** 2)


def jain(shares: Numbers) -> float:
    """Jain's fairness index: 1 if all are equal, 1/n if one has everything.

    Source: aggregates, section 3.
    """
    values = np.asarray(shares, dtype=float)
    squares = float((values**2).sum())
    return 1.0 if squares == 0 else float(values.sum() ** 2 / (len(values) * squares))


def max_min_shares(capacity: float, demands: Numbers) -> np.ndarray:
    """The max-min shares of ``capacity``: the smallest demands are satisfied first."""
    values = np.asarray(demands, dtype=float)
    shares = np.zeros(len(values))
    left, waiting = capacity, len(values)
    for index in np.argsort(values, kind="stable"):
        shares[index] = min(values[index], left / waiting)
        left -= shares[index]
        waiting -= 1
    return shares


def max_min_index(rates: Numbers, shares: Numbers) -> float:
    """The paper's index F': Jain's index of each rate divided by its max-min share.

    Source: aggregates, section 3.
    """
    return jain(np.asarray(rates, dtype=float) / np.asarray(shares, dtype=float))


def _t(freedom: int) -> float:
    """The 97.5 % quantile of Student's t distribution (tables of any statistics book)."""
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
