//! What the world hands a mechanism for the duration of one call.

use std::ops::AddAssign;

use crate::{PacketId, PacketPool, Time};

/// The time, the packets, and somewhere to report to.
///
/// A mechanism reaches nothing outside itself except through this.
#[derive(Debug)]
pub struct Cx<'a> {
    /// The present.
    pub now: Time,
    /// Every packet of the run.
    pub pool: &'a mut PacketPool,
    /// Where drops are counted.
    pub drops: &'a mut Drops,
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Reason {
    /// The queue it should wait in is full.
    QueueFull,
    /// Its flow has as much waiting as one flow may have.
    FlowFull,
    /// Out of profile, and the policy polices by dropping.
    OutOfProfile,
    /// Lost on an emulated link, as configured.
    LinkLoss,
    /// No port leads to its destination.
    NoRoute,
    /// What was left in the rings while the driver hung; too old to send.
    Stale,
    /// Longer than the port it should leave by can send.
    TooLong,
    /// It arrived when every packet buffer was in use; or it would have had to wait when so many
    /// were that the rest is for packets that need not.
    NoBuffer,
    /// The port it should leave by refused it.
    Refused,
    /// Held by a part that went away, and nothing to hand it to.
    ShutDown,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 10] = [
        Self::QueueFull,
        Self::FlowFull,
        Self::OutOfProfile,
        Self::LinkLoss,
        Self::NoRoute,
        Self::Stale,
        Self::TooLong,
        Self::NoBuffer,
        Self::Refused,
        Self::ShutDown,
    ];

    /// Its name in metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::FlowFull => "flow-full",
            Self::OutOfProfile => "out-of-profile",
            Self::LinkLoss => "link-loss",
            Self::NoRoute => "no-route",
            Self::Stale => "stale",
            Self::TooLong => "too-long",
            Self::NoBuffer => "no-buffer",
            Self::Refused => "refused",
            Self::ShutDown => "shut-down",
        }
    }

    #[expect(
        clippy::as_conversions,
        reason = "a fieldless enum's discriminant is its index in ALL"
    )]
    const fn index(self) -> usize {
        self as usize
    }
}

/// How many packets were dropped, by reason.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Drops([u64; Reason::ALL.len()]);

impl Drops {
    /// Counts one packet dropped for `reason`.
    pub const fn count(&mut self, reason: Reason) {
        self.0[reason.index()] += 1;
    }

    /// Counts what `other` has counted, too.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, other)| *count += other);
    }

    /// Packets dropped for `reason`.
    #[must_use]
    pub const fn of(&self, reason: Reason) -> u64 {
        self.0[reason.index()]
    }

    /// Packets dropped for any reason.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Every reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().map(|reason| (reason, self.of(reason)))
    }
}

impl AddAssign for Drops {
    fn add_assign(&mut self, more: Self) {
        self.0.iter_mut().zip(more.0).for_each(|(count, more)| *count += more);
    }
}

impl Cx<'_> {
    /// Drops `packet`, counts it, and frees its buffer.
    pub fn drop(&mut self, packet: PacketId, reason: Reason) {
        self.drops.count(reason);
        self.pool.release(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_count_and_name() {
        let mut drops = Drops::default();
        Reason::ALL.iter().for_each(|reason| drops.count(*reason));
        assert!(drops.iter().all(|(_, count)| count == 1));
        let mut names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
    }
}
