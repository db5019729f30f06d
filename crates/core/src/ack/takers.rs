//! Max-min fair shares of a rate, by weight:
//!
//! `share = max(w * rate / W, w * (rate - satisfied) / (W - W_satisfied))`.
//!
//! Here `w` is the weight of a flow, and `W` the sum of all weights. `satisfied` is the rate that satisfied
//! flows take, and `W_satisfied` the sum of their weights.

/// Flows or aggregates that share a rate. A satisfied (`modest`) flow takes less than its share, so the
/// others get more (max-min fairness). Each flow reports whether it is satisfied. So no share needs a loop
/// over all flows.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Takers {
    weight: u64,
    /// Number of flows that are not satisfied.
    backlogged: u32,
    /// Bits per second that satisfied flows take.
    modest: u64,
    /// Sum of the weights of satisfied flows.
    modest_weight: u64,
}

impl Takers {
    /// Adds a flow of this `weight`. A flow of weight zero is none. A satisfied flow takes the rate `modest`.
    pub(super) fn add(&mut self, weight: u32, modest: Option<u64>) {
        self.weight += u64::from(weight);
        if let Some(takes) = modest {
            self.modest = self.modest.saturating_add(takes);
            self.modest_weight += u64::from(weight);
        } else {
            self.backlogged += u32::from(weight > 0);
        }
    }

    /// Removes a flow that was added with the same values.
    pub(super) fn remove(&mut self, weight: u32, modest: Option<u64>) {
        self.weight -= u64::from(weight);
        if let Some(takes) = modest {
            self.modest = self.modest.saturating_sub(takes);
            self.modest_weight -= u64::from(weight);
        } else {
            self.backlogged -= u32::from(weight > 0);
        }
    }

    /// Number of flows that are not satisfied.
    pub(super) const fn backlogged(&self) -> u32 {
        self.backlogged
    }

    /// Sum of the weights of all flows.
    pub(super) const fn weight(&self) -> u64 {
        self.weight
    }

    /// Max-min share of a flow of this `weight` in `rate`: its part of the rate that satisfied flows leave, by
    /// weight. It is at least the flow's part of the whole rate.
    pub(super) fn level(&self, rate: u64, weight: u32) -> u64 {
        let of_all = part(rate, weight, self.weight);
        if self.modest_weight == 0 {
            return of_all;
        }
        let left = rate.saturating_sub(self.modest);
        of_all.max(part(left, weight, self.weight - self.modest_weight))
    }
}

/// `rate * weight / all`, rounded down.
pub(super) fn part(rate: u64, weight: u32, all: u64) -> u64 {
    let weight = u64::from(weight);
    let all = all.max(weight).max(1);
    if let Some(product) = rate.checked_mul(weight) {
        return product / all;
    }
    let part = u128::from(rate) * u128::from(weight) / u128::from(all);
    u64::try_from(part).unwrap_or(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: shares in the rate of satisfied flows; less than an equal share, if all are satisfied or the
    /// rate falls.
    /// Catches: a removed flow that still counts; a share that is rounded down for each unit of weight.
    #[test]
    fn other_flows_share_the_rate_that_satisfied_flows_leave() {
        let mut takers = Takers::default();
        assert_eq!(takers.level(12, 1), 12);
        takers.add(1, None);
        takers.add(2, None);
        assert_eq!(takers.level(12, 1), 4);
        takers.add(1, Some(1));
        takers.add(2, Some(2));
        assert_eq!(takers.level(12, 1), 3);
        takers.remove(2, None);
        assert_eq!(takers.level(12, 1), 9);
        assert_eq!(takers.level(2, 1), 0);
        takers.remove(1, None);
        assert_eq!(takers.level(3, 1), 1);
        takers.remove(1, Some(1));
        takers.remove(2, Some(2));
        assert_eq!(takers, Takers::default());
        takers.add(30, None);
        assert_eq!([10, 15, 30].map(|weight| takers.level(12, weight)), [4, 6, 12]);
    }
}
