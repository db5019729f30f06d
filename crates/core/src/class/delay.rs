//! Delay bounds: the longest time that a packet may wait in a leaf of a class tree.
//!
//! The delay of a packet runs from its arrival at its leaf class to the departure of its last byte from the
//! link. A bound holds for any traffic of other classes, under three conditions:
//!
//! - Arrivals at the leaf conform to a token bucket of its guarantee and burst (RFC 2215, section 4.2).
//! - No packet is longer than `frame`.
//! - No packet of the class is dropped.
//!
//! Guaranteed traffic of leaves with delay bounds precedes all other classes. A leaf has a server
//! with a rate and a latency (RFC 2212, section 4): the link without the guarantees of leaves with
//! equal or tighter bounds. From the link down to the leaf, the following items lower the rate
//! of this server or add to its latency:
//!
//! - Control traffic precedes all classes. It takes its [allowance](super::control), its burst and a packet.
//! - A packet in transmission takes `frame`, once.
//! - At each class on this path, the traffic of other leaves below the class joins. Leaves with equal or
//!   tighter bounds take their bursts and guarantees.
//! - A ceiling takes its rate, and the time of a packet for which tokens are still owed.
//!
//! Joining leaves may exceed their burst by a packet. After a ceiling has held them back, they may also catch
//! up with their guarantees. A ceiling catches up only by its burst. So the burst must cover the bytes that
//! the ceiling could not send while other leaves went first.
//!
//! Source: doi 10.1007/3-540-45318-0 (Network Calculus): strict priorities (section 1.3), concatenation
//! (1.4), blind multiplexing (6.2).
//! Differs: a queue may let later packets of its class go first. Then later arrivals count too, and the bound
//! is the longest time for which the leaf has a backlog.

use std::collections::BTreeMap;
use std::time::Duration;

use super::urgent::Urgency;
use super::{Terms, control};
use crate::units::NANOBITS_PER_BYTE;
use crate::{Bytes, Rate};

/// A class, with the properties on which delays depend.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sharer {
    /// Index of the parent class; `None` for the link.
    pub parent: Option<usize>,
    /// The terms of the class.
    pub terms: Terms,
    /// `true` if the packets of the class depart in the order of arrival.
    pub in_order: bool,
}

/// The delay that can be promised to a leaf with a delay bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Promise {
    /// Index of the leaf.
    pub leaf: usize,
    /// The longest wait of a packet; `None` if it is unbounded.
    pub longest: Option<Duration>,
    /// The largest part of the wait, or the reason why it is unbounded.
    pub part: Part,
    /// Index of the class that causes `part`.
    pub of: usize,
}

impl Promise {
    /// True if the promise meets `bound`.
    #[must_use]
    pub fn keeps(&self, bound: Duration) -> bool {
        self.longest.is_some_and(|longest| longest <= bound)
    }
}

/// Part of the wait of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Part {
    /// The leaf has no guarantee.
    Guarantee,
    /// The queue of the leaf may let later packets go first. If the guarantee is the whole rate, a
    /// packet might wait forever.
    Order,
    /// The burst of this leaf or of another leaf that may go first.
    Burst,
    /// The ceiling of the leaf or of a class above it.
    Ceiling,
    /// The burst of a class with a ceiling is too small. Other leaves go first for a time, and the burst must
    /// cover the bytes that the ceiling could not send in this time.
    ShortBurst,
    /// Control traffic, which has precedence.
    Control,
    /// The packet in transmission.
    Link,
}

/// The leaves of `classes` whose delay bounds cannot be met on a link of `rate`, with the delay that is possible.
///
/// The cost grows with the number of leaves that have a delay bound and of the classes above them.
/// A leaf with the same terms as one of the last eight costs little.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::class::Terms;
/// use tidegate_core::class::delay::{Sharer, broken};
/// use tidegate_core::{Bytes, Rate};
///
/// let voice = |bound| Sharer {
///     parent: None,
///     terms: Terms {
///         guarantee: Rate::from_mbps(1),
///         burst: Bytes(3_000),
///         delay_bound: Some(bound),
///         ..Terms::NONE
///     },
///     in_order: true,
/// };
/// let (link, frame) = (Rate::from_mbps(10), Bytes(1_514));
/// assert!(broken(&[voice(Duration::from_millis(10))], link, frame).is_empty());
/// // The burst and the packet in transmission take more than a millisecond.
/// let promises = broken(&[voice(Duration::from_millis(1))], link, frame);
/// assert!(promises[0].longest.unwrap() > Duration::from_millis(1));
/// ```
#[must_use]
pub fn broken(classes: &[Sharer], rate: Rate, frame: Bytes) -> Vec<Promise> {
    let network = Network::new(classes, rate, frame);
    let mut broken = Vec::new();
    // Leaves whose bounds are met. No two of them have the same terms.
    let mut kept: Vec<usize> = Vec::with_capacity(OF_LATE);
    let mut way = Vec::with_capacity(OF_LATE);
    for leaf in &network.leaves {
        if kept.iter().rev().take(OF_LATE).any(|other| classes[*other] == classes[*leaf]) {
            continue;
        }
        let (promise, joins) = network.promise(*leaf, &mut way);
        if promise.keeps(network.bound(*leaf)) {
            kept.push(*leaf);
        } else {
            broken.push(network.blame(promise, joins));
        }
    }
    broken
}

/// Number of recent leaves that a leaf is compared with. The comparison costs less than a computation.
const OF_LATE: usize = 8;

/// The classes, with the traffic that leaves with delay bounds send before others.
struct Network<'a> {
    classes: &'a [Sharer],
    rate: Rate,
    frame: Bytes,
    /// The leaves with delay bounds.
    leaves: Vec<usize>,
    /// Traffic of the leaves below each class, or below the link, by urgency.
    below: BTreeMap<Option<usize>, BTreeMap<Urgency, Load>>,
}

/// Traffic of leaves with delay bounds that precedes others.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Bytes that the leaves may send at once.
    burst: u128,
    /// Bytes that leaves send later because a ceiling held them back.
    late: u128,
    /// Bytes that leaves would send later if ceilings had held back all of them.
    late_all: u128,
    /// Rate of the leaves after the burst.
    rate: u128,
}

/// A server with a rate, and a latency in nanoseconds.
#[derive(Clone, Copy)]
struct Server {
    rate: u128,
    latency: u128,
}

impl<'a> Network<'a> {
    fn new(classes: &'a [Sharer], rate: Rate, frame: Bytes) -> Self {
        let bounded = |at: &usize| classes[*at].terms.delay_bound.is_some();
        let mut leaves = Vec::with_capacity(classes.len());
        leaves.extend((0..classes.len()).filter(bounded));
        let mut network = Self { classes, rate, frame, leaves, below: BTreeMap::new() };
        // Consecutive leaves often have the same parent and urgency.
        let mut of: Vec<(Option<usize>, Urgency, Load)> = Vec::new();
        for leaf in &network.leaves {
            let (load, urgency) = (network.load(*leaf), network.urgency(*leaf));
            let parent = classes[*leaf].parent;
            match of.last_mut().filter(|it| (it.0, it.1) == (parent, urgency)) {
                Some((_, _, all)) => all.add(load),
                None => of.push((parent, urgency, load)),
            }
        }
        for (parent, urgency, load) in of {
            let above = parent.map(|parent| network.up(parent)).into_iter().flatten();
            for class in above.map(Some).chain([None]) {
                let of = network.below.entry(class).or_default();
                of.entry(urgency).or_default().add(load);
            }
        }
        network
    }

    fn bound(&self, leaf: usize) -> Duration {
        self.classes[leaf].terms.delay_bound.unwrap_or_default()
    }

    fn urgency(&self, leaf: usize) -> Urgency {
        Urgency::of(self.bound(leaf))
    }

    /// The most that `leaf` sends before others, even if its arrivals do not conform.
    fn load(&self, leaf: usize) -> Load {
        let terms = self.classes[leaf].terms;
        let late = u128::from(terms.guarantee.bps()).saturating_mul(self.bound(leaf).as_nanos());
        Load {
            burst: nanobits(terms.burst) + nanobits(self.frame),
            late: if self.has_ceiling(leaf) { late } else { 0 },
            late_all: late,
            rate: terms.guarantee.bps().into(),
        }
    }

    /// A leaf and the classes above it, up to the link.
    fn up(&self, leaf: usize) -> impl Iterator<Item = usize> + use<'a> {
        let classes = self.classes;
        std::iter::successors(Some(leaf), move |at| classes[*at].parent)
    }

    /// True if the leaf or a class above it has a ceiling.
    fn has_ceiling(&self, leaf: usize) -> bool {
        self.up(leaf).any(|at| self.classes[at].terms.ceiling.is_some())
    }

    /// Traffic below a class that goes before leaves of `urgency`, or alternates with them.
    fn ahead(&self, of: Option<usize>, urgency: Urgency) -> Load {
        let mut sum = Load::default();
        let loads = self.below.get(&of).into_iter().flat_map(|of| of.range(..=urgency));
        loads.for_each(|(_, load)| sum.add(*load));
        sum
    }

    /// The promise to a leaf. If the burst of another leaf is the largest part, also the class
    /// where this other leaf joins. `way` is scratch space.
    fn promise(&self, leaf: usize, way: &mut Vec<usize>) -> (Promise, Option<usize>) {
        let never = |part, of| (Promise { leaf, longest: None, part, of }, None);
        if self.classes[leaf].terms.guarantee.bps() == 0 {
            return never(Part::Guarantee, leaf);
        }
        let (urgency, capped) = (self.urgency(leaf), self.has_ceiling(leaf));
        let frame = nanobits(self.frame);
        let rate = u128::from(self.rate.bps());
        let idle = Server { rate, latency: frame.div_ceil(rate.max(1)) };
        let Some(mut server) = idle.left_by_control(self.rate, self.frame) else {
            return never(Part::Control, leaf);
        };
        // The largest part so far: its kind, its class, its length, and the class where the traffic
        // joins.
        let parts = [(Part::Link, idle.latency), (Part::Control, server.latency - idle.latency)];
        let (part, longest) = if parts[1].1 > parts[0].1 { parts[1] } else { parts[0] };
        let mut largest = (part, leaf, longest);
        let mut joined = None;
        let mut above = None;
        way.clear();
        way.extend(self.up(leaf));
        for at in way.iter().rev().copied() {
            let all = self.ahead(above, urgency);
            let own = if at == leaf { self.load(leaf) } else { self.ahead(Some(at), urgency) };
            let joins = all.without(own);
            let late = if capped { joins.late_all } else { joins.late };
            let Some(left) = server.left_by(joins.burst.saturating_add(late), joins.rate) else {
                return never(Part::Guarantee, leaf);
            };
            if joins.rate > 0 && left.latency - server.latency > largest.2 {
                largest = (Part::Burst, leaf, left.latency - server.latency);
                joined = Some(at);
            }
            server = left;
            if let Some(ceiling) = self.classes[at].terms.ceiling {
                let ceiling = u128::from(ceiling.bps()).max(1);
                let owed = ceiling.min(server.rate).saturating_mul(server.latency);
                if nanobits(self.classes[at].terms.burst) < owed {
                    return never(Part::ShortBurst, at);
                }
                let paid_off = frame.div_ceil(ceiling);
                if paid_off > largest.2 {
                    largest = (Part::Ceiling, at, paid_off);
                    joined = None;
                }
                server.latency = server.latency.saturating_add(paid_off);
                server.rate = server.rate.min(ceiling);
            }
            above = Some(at);
        }
        let Some(longest) = self.of_its_own(leaf, server) else {
            return never(Part::Order, leaf);
        };
        if longest - server.latency > largest.2 {
            (largest, joined) = ((Part::Burst, leaf, longest - server.latency), None);
        }
        let (part, of, _) = largest;
        let longest = u64::try_from(longest).ok().map(Duration::from_nanos);
        (Promise { leaf, longest, part, of }, joined)
    }

    /// Completes `promise` with the leaf whose burst is the largest of those that join at a class.
    fn blame(&self, promise: Promise, joins: Option<usize>) -> Promise {
        let Some(at) = joins else { return promise };
        let (above, urgency) = (self.classes[at].parent, self.urgency(promise.leaf));
        Promise { of: self.largest_burst(above, at, urgency).unwrap_or(promise.of), ..promise }
    }

    /// Time that `server` needs for the backlog that may wait at `leaf`.
    fn of_its_own(&self, leaf: usize, server: Server) -> Option<u128> {
        let Sharer { terms, in_order, .. } = self.classes[leaf];
        let others_go_first = if in_order { 0 } else { u128::from(terms.guarantee.bps()) };
        server.left_by(nanobits(terms.burst), others_go_first).map(|left| left.latency)
    }

    /// The leaf with the largest burst of those below `above`, but not below `at`, that precede
    /// `urgency`.
    fn largest_burst(&self, above: Option<usize>, at: usize, urgency: Urgency) -> Option<usize> {
        let joins = |leaf: &&usize| {
            let passes = |class| self.up(**leaf).any(|it| it == class);
            let under = above.is_none_or(passes);
            under && !passes(at) && self.urgency(**leaf) <= urgency
        };
        let burst = |leaf: &&usize| self.classes[**leaf].terms.burst;
        self.leaves.iter().filter(joins).max_by_key(burst).copied()
    }
}

impl Load {
    fn add(&mut self, more: Self) {
        self.burst = self.burst.saturating_add(more.burst);
        self.late = self.late.saturating_add(more.late);
        self.late_all = self.late_all.saturating_add(more.late_all);
        self.rate = self.rate.saturating_add(more.rate);
    }

    fn without(self, less: Self) -> Self {
        Self {
            burst: self.burst.saturating_sub(less.burst),
            late: self.late.saturating_sub(less.late),
            late_all: self.late_all.saturating_sub(less.late_all),
            rate: self.rate.saturating_sub(less.rate),
        }
    }
}

impl Server {
    /// The server that control traffic leaves to other classes, on a link of rate `link` with packets of at
    /// most `frame`.
    fn left_by_control(self, link: Rate, frame: Bytes) -> Option<Self> {
        let burst = nanobits(control::burst(link)) + nanobits(frame);
        self.left_by(burst, control::allowance(link).bps().into())
    }

    /// The remaining server after other leaves that send `burst` at once, and then `rate`. `None`
    /// if these leaves take the whole rate.
    fn left_by(self, burst: u128, rate: u128) -> Option<Self> {
        let left = self.rate.checked_sub(rate).filter(|left| *left > 0)?;
        let behind = self.rate.saturating_mul(self.latency).saturating_add(burst);
        Some(Self { rate: left, latency: behind.div_ceil(left) })
    }
}

/// Bytes in `bits/s * ns`, the unit of products of rate and time.
fn nanobits(bytes: Bytes) -> u128 {
    u128::from(bytes.0) * u128::from(NANOBITS_PER_BYTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(parent: Option<usize>, kbps: u64, burst: u64, bound_ms: u64) -> Sharer {
        let terms = Terms {
            guarantee: Rate::from_kbps(kbps),
            ceiling: None,
            weight: 1,
            priority: 0,
            burst: Bytes(burst),
            delay_bound: (bound_ms > 0).then(|| Duration::from_millis(bound_ms)),
        };
        Sharer { parent, terms, in_order: true }
    }

    fn found(classes: &[Sharer]) -> Vec<(Option<u128>, Part, usize)> {
        let network = Network::new(classes, Rate::from_mbps(10), Bytes(1_500));
        let promise = |leaf: &usize| {
            let (promise, joins) = network.promise(*leaf, &mut Vec::new());
            network.blame(promise, joins)
        };
        let all = network.leaves.iter().map(promise);
        all.map(|it| (it.longest.map(|it| it.as_micros()), it.part, it.of)).collect()
    }

    /// Computed by hand: RFC 2212's D = C / R + sum of the traffic ahead.
    #[test]
    fn a_packet_and_the_bursts_of_equally_urgent_leaves_precede_a_packet() {
        // A packet of 1,500 B takes 1.2 ms at 10 Mbit/s. Control traffic leaves 9.8 Mbit/s. This rate
        // carries 80 B (the burst of control traffic), one control packet, the allowance of 1.2 ms, and
        // 1,000 B of the leaf.
        let voice = leaf(None, 1_000, 1_000, 10);
        let alone = (Some(3_330), Part::Control, 0);
        assert_eq!(found(&[voice, leaf(None, 5_000, 9_000, 0)]), [alone]);
        // The other leaf adds 4,500 B and a packet, and takes 2 of 9.8 Mbit/s.
        let video = leaf(None, 2_000, 4_500, 12);
        let both = found(&[voice, video]);
        assert_eq!(both[0], (Some(10_338), Part::Burst, 1));
        assert_eq!(both[1], (Some(9_163), Part::Burst, 1));
        // Less urgent traffic does not precede more urgent traffic.
        let later = Sharer {
            terms: Terms { delay_bound: Some(Duration::from_millis(40)), ..video.terms },
            ..video
        };
        assert_eq!(found(&[voice, later])[0], alone);
    }

    #[test]
    fn later_packets_that_may_overtake_add_to_the_bound() {
        let voice = Sharer { in_order: false, ..leaf(None, 2_000, 1_000, 10) };
        // 4,080 B, of which 1,580 B are control traffic, at 9.8 Mbit/s less the rate of further arrivals.
        assert_eq!(found(&[voice])[0].0, Some(4_184));
        let all = Sharer { in_order: false, ..leaf(None, 10_000, 1_000, 10) };
        assert_eq!(found(&[all])[0], (None, Part::Order, 0));
    }

    #[test]
    fn a_ceiling_adds_a_packet_limits_the_rate_and_needs_a_burst() {
        let mut office = leaf(None, 2_000, 9_000, 0);
        office.terms.ceiling = Some(Rate::from_mbps(2));
        let voice = leaf(Some(0), 1_000, 1_000, 20);
        // 2.5 ms for the packet on the link and control traffic, 6 ms for the packet ahead at the
        // ceiling, 4 ms at its rate.
        assert_eq!(found(&[office, voice])[0], (Some(12_514), Part::Ceiling, 0));
        office.terms.burst = Bytes(628);
        assert_eq!(found(&[office, voice])[0], (None, Part::ShortBurst, 0));
        assert_eq!(found(&[leaf(None, 0, 1_000, 5)])[0], (None, Part::Guarantee, 0));
    }

    /// Catches: a check that skips a leaf because an equal leaf has a broken bound, or although its
    /// terms differ from those of a leaf whose bound is kept.
    #[test]
    fn each_leaf_whose_bound_is_broken_is_reported() {
        let broken = |classes: &[Sharer]| {
            let all = broken(classes, Rate::from_mbps(10), Bytes(1_500));
            all.iter().map(|it| it.leaf).collect::<Vec<_>>()
        };
        let (good, bad) = (leaf(None, 1_000, 1_000, 50), leaf(None, 1_000, 1_000, 2));
        assert_eq!(broken(&[good; 5]), []);
        assert_eq!(broken(&[bad; 3]), [0, 1, 2]);
        assert_eq!(broken(&[good, good, bad, good, bad]), [2, 4]);
    }
}
