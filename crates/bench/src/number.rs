//! Numbers for reports.

/// `n` as a real number.
#[expect(clippy::as_conversions, reason = "for reports: exact up to 2^53")]
pub(crate) const fn real(n: u64) -> f64 {
    n as f64
}

/// The median; for an even number of values, the higher of the middle two. Zero for an empty list.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_not_the_mean() {
        assert!((median(vec![9.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!(median(Vec::new()).abs() < f64::EPSILON);
    }
}
