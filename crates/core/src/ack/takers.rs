//! Who takes parts of a rate, and how much of it each may have.

/// Takers of a rate, by weight: who takes less than its part is modest, and leaves the others more (max-min
/// fairness). Who is modest is said by each when it is heard, so that nobody looks at all of them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Takers {
    weight: u64,
    /// Bits per second that the modest take, and their weight.
    modest: u64,
    modest_weight: u64,
}

impl Takers {
    /// One of this `weight`, and what it takes if it is modest.
    pub(super) fn add(&mut self, weight: u32, modest: Option<u64>) {
        self.weight += u64::from(weight);
        if let Some(takes) = modest {
            self.modest = self.modest.saturating_add(takes);
            self.modest_weight += u64::from(weight);
        }
    }

    /// One that was added like this is none any more.
    pub(super) fn remove(&mut self, weight: u32, modest: Option<u64>) {
        self.weight -= u64::from(weight);
        if let Some(takes) = modest {
            self.modest = self.modest.saturating_sub(takes);
            self.modest_weight -= u64::from(weight);
        }
    }

    /// The weight of all.
    pub(super) const fn weight(&self) -> u64 {
        self.weight
    }

    /// The most that one of this `weight` may have of `rate`: its part of what the modest leave, and never less
    /// than its part of all.
    pub(super) fn level(&self, rate: u64, weight: u32) -> u64 {
        let left = rate.saturating_sub(self.modest);
        let of_left = part(left, weight, self.weight - self.modest_weight);
        of_left.max(part(rate, weight, self.weight))
    }
}

/// What one of this `weight` has of `rate`, if those that share it have the weight `all`.
pub(super) fn part(rate: u64, weight: u32, all: u64) -> u64 {
    let weight = u64::from(weight);
    let part = u128::from(rate) * u128::from(weight) / u128::from(all.max(weight).max(1));
    u64::try_from(part).unwrap_or(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kills: parts of what the modest take besides; less than an equal part, if all are modest or what they
    /// take is no more; one that is gone still counted; parts of less than a bit per second for each of a weight.
    #[test]
    fn who_takes_more_than_its_part_has_what_the_modest_leave() {
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
