"""What means, intervals and fairness indices promise."""

import numpy as np
import pytest

from tidegate import Estimate, jain, max_min_index, max_min_shares


def test_a_95_percent_interval_holds_the_true_mean_95_times_in_100():
    rng = np.random.default_rng(1)
    samples = rng.normal(5.0, 2.0, size=(4_000, 10))
    hits = [e.low <= 5.0 <= e.high for e in map(Estimate.of, samples)]
    # Kills: the normal quantile 1.96 instead of Student's (gives 0.92).
    assert np.mean(hits) == pytest.approx(0.95, abs=0.012)


def test_one_sample_is_its_own_interval():
    assert Estimate.of([3.0]) == Estimate(3.0, 3.0, 3.0, 1)


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
