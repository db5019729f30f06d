"""Tests of means, intervals and fairness indices."""

from math import inf

import numpy as np
import pytest

from tidegate import Estimate, jain, max_min_index, max_min_shares
from tidegate.statistics import MEDIAN_RATIO, SHARE, quantile, samples_for


def test_a_95_percent_interval_holds_the_true_mean_95_times_in_100():
    rng = np.random.default_rng(1)
    samples = rng.normal(5.0, 2.0, size=(4_000, 10))
    hits = [e.low <= 5.0 <= e.high for e in map(Estimate.of, samples)]
    # Catches: the normal quantile 1.96 instead of Student's (gives 0.92).
    assert np.mean(hits) == pytest.approx(0.95, abs=0.012)


def test_one_sample_is_its_own_interval():
    assert Estimate.of([3.0]) == Estimate(3.0, 3.0, 3.0, 1)


def test_intervals_of_quantiles_end_at_the_tabulated_order_statistics():
    def ranks(count, part):
        estimate = quantile(part).estimate([float(it) for it in range(count, 0, -1)])
        return estimate.low, estimate.high

    # Ranks of the sign test at 5 %, as in tables of order statistics.
    # Catches: ranks that are off by one; samples that are not sorted first.
    assert ranks(6, 0.5) == (1, 6)
    assert ranks(10, 0.5) == (2, 9)
    assert ranks(20, 0.5) == (6, 15)
    assert ranks(100, 0.5) == (40, 61)
    # Catches: the extremes returned as an interval, although too few samples give none.
    assert ranks(5, 0.5) == (-inf, inf)
    assert ranks(35, 0.9)[1] == inf and ranks(36, 0.9)[1] == 36
    assert quantile(0.9).estimate(range(101)).value == 90
    for outside in (0, 1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            quantile(outside)


def test_an_interval_of_a_median_needs_no_assumption_on_the_distribution():
    rng = np.random.default_rng(3)
    samples = rng.pareto(1.0, size=(2_000, 20)) + 1
    hits = [e.low <= 2.0 <= e.high for e in map(quantile(0.5).estimate, samples)]
    # The median of this Pareto distribution, which has no mean, is 2. The ranks cover 95.9 %.
    assert np.mean(hits) == pytest.approx(0.959, abs=0.015)


def test_a_ratio_and_its_reciprocal_are_judged_alike():
    ratios = [0.5, 0.9, 1.1, 1.2, 1.3, 1.5, 2.0, 8.0]
    one, other = (MEDIAN_RATIO.estimate(it) for it in (ratios, [1 / it for it in ratios]))
    assert (one.low, one.high) == pytest.approx((0.5, 8.0))
    # Catches: the median of the ratios themselves, 1.25, whose reciprocal differs.
    assert one.value == pytest.approx((1.2 * 1.3) ** 0.5)
    assert (other.value, other.low) == pytest.approx((1 / one.value, 1 / one.high))
    with pytest.raises(ValueError, match="above 0"):
        MEDIAN_RATIO.estimate([0.0, 1.0])


def test_a_share_of_seeds_has_the_interval_of_clopper_and_pearson():
    def ends(hits, count):
        estimate = SHARE.estimate([1] * hits + [0] * (count - hits))
        return estimate.value, round(estimate.low, 4), round(estimate.high, 4)

    # Catches: both tails on one side (0.7411 for 10 of 10); a normal interval, whose width would be
    # zero for 10 of 10.
    assert ends(10, 10) == (1, 0.6915, 1)
    assert ends(8, 10) == (0.8, 0.4439, 0.9748)
    assert ends(0, 20) == (0, 0, 0.1684)
    assert ends(1200, 1200) == (1, 0.9969, 1)
    with pytest.raises(ValueError, match="0 or 1"):
        SHARE.estimate([0.5])


def test_the_seeds_for_a_median_follow_from_the_width_of_its_pilot():
    pilot = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9]
    # The pilot interval from 1.1 to 1.8 is seven times as wide as the margin.
    assert samples_for(0.1, pilot, quantile(0.5)) == pytest.approx(1.25 * 10 * 49, abs=1)
    with pytest.raises(ValueError, match="give no interval"):
        samples_for(0.1, pilot[:5], quantile(0.5))


def test_jain_is_one_for_equals_and_one_in_n_for_a_monopoly():
    assert jain([2, 2, 2]) == pytest.approx(1.0)
    assert jain([7, 0, 0, 0]) == pytest.approx(0.25)
    assert jain([0, 0]) == 1.0


def test_max_min_gives_small_demands_in_full_and_splits_the_rest():
    assert max_min_shares(10, [2, 8, 8]).tolist() == [2, 4, 4]
    assert max_min_shares(10, [1, 1, 1]).tolist() == [1, 1, 1]
    shares = max_min_shares(800, [1000, 500, 500, 100])
    assert shares.tolist() == pytest.approx([700 / 3] * 3 + [100])
    assert max_min_index(shares, shares) == pytest.approx(1.0)
