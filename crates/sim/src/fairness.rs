//! Measures of fairness.

/// Jain's index of the amounts `got`: 1 if all are equal, 1/n if one of n has everything.
///
/// NaN if the list is empty or all amounts are zero.
///
/// ```
/// use tidegate_sim::fairness::jain;
///
/// assert_eq!(jain(&[2.0, 2.0, 2.0, 2.0]), 1.0);
/// assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), 0.25);
/// ```
///
/// Source: `aggregates`, section 3 (the fairness index).
#[must_use]
pub fn jain(got: &[f64]) -> f64 {
    let sum: f64 = got.iter().sum();
    let squares: f64 = got.iter().map(|x| x * x).sum();
    sum * sum / (crate::draw::real(count(got)) * squares)
}

/// The index for max-min fair shares: 1 if each flow gets the same fraction of its fair share.
///
/// Flows whose fair share is zero are left out.
///
/// Source: `aggregates`, section 3 (the index, applied to amount / fair share).
#[must_use]
pub fn max_min(got: &[f64], fair: &[f64]) -> f64 {
    let parts: Vec<f64> = got
        .iter()
        .zip(fair)
        .filter(|(_, fair)| **fair > 0.0)
        .map(|(got, fair)| got / fair)
        .collect();
    jain(&parts)
}

/// The max-min fair shares of `total`. `demands` may be infinite. A flow gets its demand, or an
/// equal share of the remainder if the demand is larger.
///
/// Source: `aggregates`, section 3: `s_i = min(S, demand_i)`, where the level `S` uses up the
/// total.
///
/// ```
/// use tidegate_sim::fairness::fair_shares;
///
/// // The first flow needs less than a third. The others share the remainder.
/// assert_eq!(fair_shares(10.0, &[2.0, 5.0, f64::INFINITY]), [2.0, 4.0, 4.0]);
/// ```
#[must_use]
pub fn fair_shares(total: f64, demands: &[f64]) -> Vec<f64> {
    let mut order: Vec<f64> = demands.to_vec();
    order.sort_by(f64::total_cmp);
    let mut left = total;
    let mut level = f64::INFINITY;
    for (place, demand) in order.iter().enumerate() {
        let equal = left / crate::draw::real(count(&order[place..]));
        if *demand >= equal {
            level = equal;
            break;
        }
        left -= demand;
    }
    demands.iter().map(|demand| demand.min(level)).collect()
}

fn count(of: &[f64]) -> u64 {
    u64::try_from(of.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_1_for_equal_amounts_and_1_over_n_if_one_has_everything() {
        assert!((jain(&[3.0; 7]) - 1.0).abs() < 1e-12);
        assert!((jain(&[0.0, 5.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!(jain(&[]).is_nan() && jain(&[0.0]).is_nan());
    }

    /// Catches: a water-filling that satisfies the smallest demands last.
    #[test]
    fn water_filling_satisfies_small_demands_first() {
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        let none = f64::INFINITY;
        let shares = fair_shares(12.0, &[none, 2.0, none, 4.0]);
        assert!(close(&shares, &[10.0 / 3.0, 2.0, 10.0 / 3.0, 10.0 / 3.0]), "{shares:?}");
        assert!(close(&fair_shares(20.0, &[none, 2.0, 4.0]), &[14.0, 2.0, 4.0]));
        assert!(close(&fair_shares(20.0, &[1.0, 2.0]), &[1.0, 2.0]));
        assert!((max_min(&[14.0, 2.0, 4.0], &[14.0, 2.0, 4.0]) - 1.0).abs() < 1e-12);
        assert!(max_min(&[2.0, 2.0, 4.0], &[14.0, 2.0, 4.0]) < 0.9);
    }
}
