//! One class: its two buckets, and where it stands.

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
    /// What it may still send by its guarantee; at rate zero, nothing.
    guarantee: TokenBucket,
    /// What its ceiling lets it send; at rate zero there is none.
    ceiling: TokenBucket,
    burst: Bytes,
    /// Its claim on the excess of its parent.
    pub(super) claim: Claim,
    pub(super) children: Option<Box<Children>>,
    pub(super) sent: Sent,
    /// Packets wait here.
    pub(super) waiting: bool,
    /// It has sent as much as its ceiling lets it by now.
    pub(super) held: bool,
    /// It has something to send, is not held, and stands in its places.
    pub(super) active: bool,
    /// It was chosen last because of its guarantee.
    pub(super) by_guarantee: bool,
    /// Its guarantee lets it send, and it waits for that.
    pub(super) due: bool,
    /// How urgent its own delay bound is.
    own_urgency: Option<Urgency>,
    /// Its place among its siblings with delay bounds to keep.
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

    /// What it has a right to; the tree keeps delay bounds, as few classes have one.
    pub(super) fn terms(&self, delay_bound: Option<Duration>) -> Terms {
        let ceiling = self.ceiling.rate();
        Terms {
            guarantee: self.guarantee.rate(),
            ceiling: (ceiling.bps() > 0).then_some(ceiling),
            weight: self.claim.weight(),
            priority: self.claim.priority(),
            burst: self.burst,
            delay_bound,
            loss_bound: None,
        }
    }

    /// It comes under another parent, where it has had nothing yet.
    pub(super) fn begin_anew(&mut self) {
        self.claim = Claim::new(self.claim.priority(), self.claim.weight());
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.children.as_ref().is_none_or(|children| children.count == 0)
    }

    /// Whether it, or something below that may, has something to send.
    pub(super) fn is_busy(&self) -> bool {
        self.waiting || self.children.as_ref().is_some_and(|children| children.active > 0)
    }

    /// Where it belongs among its siblings with delay bounds to keep: for itself, or for what is below it.
    pub(super) fn wanted_urgency(&self) -> Option<Urgency> {
        if !self.active {
            return None;
        }
        let below = self.children.as_ref().and_then(|children| children.urgent.tightest());
        let own = self.own_urgency.filter(|_| self.due && self.waiting);
        below.into_iter().chain(own).min()
    }

    /// It has something to send again: of the time before, only its burst is left.
    pub(super) fn awake(&mut self, now: Time) {
        if self.guarantee.rate().bps() > 0 {
            self.guarantee.forget_beyond(now, self.burst);
        }
    }

    /// Accounts for `len`, sent now; says whether its ceiling holds it from now on.
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

    /// Whether its ceiling lets it send now.
    pub(super) fn may_send(&mut self, now: Time) -> bool {
        self.ceiling.refill(now);
        self.ceiling.rate().bps() == 0 || self.ceiling.content() >= 0
    }

    /// When its ceiling lets it send.
    pub(super) fn released_at(&self) -> Time {
        self.ceiling.reaches(0)
    }

    /// When its guarantee lets it send, if it has one.
    pub(super) fn guaranteed_at(&mut self, now: Time) -> Option<Time> {
        if self.guarantee.rate().bps() == 0 {
            return None;
        }
        self.guarantee.refill(now);
        Some(self.guarantee.reaches(0))
    }
}

/// What a class may be behind its guarantee and still get later, beside its burst: its siblings may
/// all have their bursts at once, and a link may stand still for a moment. What keeps to its guarantee
/// and its burst, and waits no longer than its delay bound, never loses tokens to this.
fn owed(terms: Terms) -> Bytes {
    let lag = terms.delay_bound.map_or(MAY_LAG, |bound| bound.max(MAY_LAG));
    terms.burst + terms.guarantee.bytes_in(lag)
}

const MAY_LAG: Duration = Duration::from_millis(100);

fn ceiling(terms: Terms) -> Rate {
    terms.ceiling.unwrap_or(Rate::from_bps(0))
}
