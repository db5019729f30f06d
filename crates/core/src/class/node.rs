//! A class of the tree: its token buckets, and the lists of its parent to which it belongs. A class
//! shares the rate of a link; the link is the root of the tree.

use std::time::Duration;

use super::excess::Claim;
use super::urgent::Urgency;
use super::{Children, ClassId, Sent, Terms};
use crate::meter::{TokenBucket, nanobits};
use crate::{Bytes, Rate, Time};

/// A class, or the link.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) parent: ClassId,
    /// Token bucket of the guarantee. With rate zero, the class has no guarantee.
    guarantee: TokenBucket,
    /// Token bucket of the ceiling. With rate zero, the class has no ceiling.
    ceiling: TokenBucket,
    /// Bytes that the class may send at once.
    burst: Bytes,
    /// Use of the parent's excess by this class.
    pub(super) claim: Claim,
    pub(super) children: Option<Box<Children>>,
    pub(super) sent: Sent,
    /// Packets wait at this class.
    pub(super) waiting: bool,
    /// The ceiling has no tokens, so the class may not send.
    pub(super) held: bool,
    /// The class has packets to send, is not held, and is in lists of its parent.
    pub(super) active: bool,
    /// The last transmission used the guarantee.
    pub(super) by_guarantee: bool,
    /// The guarantee has tokens, and the class has packets to send.
    pub(super) due: bool,
    /// Urgency of the delay bound of this class.
    own_urgency: Option<Urgency>,
    /// Urgency of the class in the list of its parent. A class with children has the tightest
    /// urgency below it.
    pub(super) urgency: Option<Urgency>,
}

impl Node {
    pub(super) fn new(parent: ClassId, terms: Terms, now: Time) -> Self {
        let mut guarantee = TokenBucket::new(terms.guarantee, owed(terms), now);
        guarantee.forget_beyond(now, terms.burst);
        Self {
            parent,
            guarantee,
            ceiling: TokenBucket::new(ceiling(terms), terms.burst, now),
            burst: terms.burst,
            claim: Claim::new(terms.priority, terms.weight),
            children: None,
            sent: Sent::default(),
            waiting: false,
            held: false,
            active: false,
            by_guarantee: false,
            due: false,
            own_urgency: terms.delay_bound.map(Urgency::of),
            urgency: None,
        }
    }

    pub(super) fn set(&mut self, now: Time, terms: Terms) {
        self.guarantee.set(now, terms.guarantee, owed(terms));
        self.ceiling.set(now, ceiling(terms), terms.burst);
        self.burst = terms.burst;
        self.own_urgency = terms.delay_bound.map(Urgency::of);
        self.claim.set(terms.priority, terms.weight);
    }

    /// The terms. The tree stores the delay bounds, because few classes have one.
    pub(super) fn terms(&self, delay_bound: Option<Duration>) -> Terms {
        let ceiling = self.ceiling.rate();
        Terms {
            guarantee: self.guarantee.rate(),
            ceiling: (ceiling.bps() > 0).then_some(ceiling),
            weight: self.claim.weight(),
            priority: self.claim.priority(),
            burst: self.burst,
            delay_bound,
        }
    }

    /// Resets the claim on the excess, under a new parent.
    pub(super) fn restart(&mut self) {
        self.claim = Claim::new(self.claim.priority(), self.claim.weight());
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.children.as_ref().is_none_or(|children| children.count == 0)
    }

    /// True if this class or a permitted class below it has packets to send.
    pub(super) fn is_busy(&self) -> bool {
        self.waiting || self.children.as_ref().is_some_and(|children| children.active > 0)
    }

    /// The tightest urgency of the class and of its children that wait.
    pub(super) fn wanted_urgency(&self) -> Option<Urgency> {
        if !self.active {
            return None;
        }
        let below = self.children.as_ref().and_then(|children| children.urgent.tightest());
        let own = self.own_urgency.filter(|_| self.due && self.waiting);
        below.into_iter().chain(own).min()
    }

    /// Notes that the class has packets again. Tokens of the guarantee beyond the burst are lost.
    pub(super) fn awake(&mut self, now: Time) {
        if self.guarantee.rate().bps() > 0 {
            self.guarantee.forget_beyond(now, self.burst);
        }
    }

    /// Charges `len`, sent now. Returns true if the ceiling holds the class from now on.
    pub(super) fn charge(&mut self, now: Time, len: Bytes) -> bool {
        if len > Bytes::ZERO {
            self.sent.packets += 1;
            self.sent.bytes += len.0;
        }
        if self.by_guarantee {
            self.guarantee.refill(now);
            self.guarantee.charge(nanobits(len));
        } else {
            self.claim.charge(len);
            self.sent.borrowed += len.0;
        }
        if self.ceiling.rate().bps() == 0 {
            return false;
        }
        self.ceiling.refill(now);
        self.ceiling.charge(nanobits(len));
        self.ceiling.content() < 0
    }

    /// True if the ceiling permits transmission now.
    pub(super) fn may_send(&mut self, now: Time) -> bool {
        self.ceiling.refill(now);
        self.ceiling.rate().bps() == 0 || self.ceiling.content() >= 0
    }

    /// Time at which the ceiling permits transmission.
    pub(super) fn released_at(&self) -> Time {
        self.ceiling.reaches(0)
    }

    /// Time at which the guarantee permits transmission, if there is a guarantee.
    pub(super) fn guaranteed_at(&mut self, now: Time) -> Option<Time> {
        if self.guarantee.rate().bps() == 0 {
            return None;
        }
        self.guarantee.refill(now);
        Some(self.guarantee.reaches(0))
    }
}

/// Size of the token bucket of a guarantee: the burst, and the bytes of the time for which the class may fall
/// behind.
///
/// A class falls behind while its siblings send their bursts, or while the link stops for a short time. Then its
/// bucket fills beyond the burst, and the class catches up later. A class that conforms to guarantee and burst, and
/// waits at most its delay bound, never loses tokens.
fn owed(terms: Terms) -> Bytes {
    let lag = terms.delay_bound.map_or(MAY_LAG, |bound| bound.max(MAY_LAG));
    terms.burst + terms.guarantee.bytes_in(lag)
}

/// Least time for which a class may fall behind. Chosen: the bursts of usual siblings take less
/// time.
const MAY_LAG: Duration = Duration::from_millis(100);

fn ceiling(terms: Terms) -> Rate {
    terms.ceiling.unwrap_or(Rate::from_bps(0))
}
