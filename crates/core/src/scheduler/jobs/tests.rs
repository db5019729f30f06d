//! Tests of the scheduler `jobs`: classes on a link in virtual time. Each promise to a class
//! (bounds and ratios of delay and loss, guaranteed rates) is kept where it is feasible. Otherwise
//! the promises have their order of precedence.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::Factor;
use crate::packet::Direction;
use crate::random::Random;
use crate::scheduler::TermValues;

/// A link of 10 Mbit/s, its scheduler and the queues of its classes.
struct Link {
    jobs: Jobs,
    now: Time,
    free_at: Time,
    /// Terms that only JoBS knows, by class.
    own: Vec<TermValues>,
    /// Numbers, lengths and arrival times of waiting packets, by class.
    queues: Vec<VecDeque<(u32, Bytes, Time)>>,
    next: u32,
    sent: Vec<(usize, u32)>,
    dropped: Vec<(usize, u32)>,
    delays: Vec<Duration>,
}

const RATE: Rate = Rate::from_mbps(10);
const PACKET: Bytes = Bytes(500);

/// Terms of a class: those of the link, and its loss bound.
#[derive(Clone, Copy, Debug)]
struct Rights {
    terms: Terms,
    loss_bound: Option<Chance>,
}

impl Rights {
    const NONE: Self = Self { terms: Terms::NONE, loss_bound: None };
}

impl Link {
    fn new(search: Search, buffer: Bytes, classes: &[Rights]) -> Self {
        let jobs = Config { victim: search, output: Output::Continuous, buffer }.build(RATE);
        let mut link = Self::of(jobs, classes.len());
        for (at, rights) in classes.iter().enumerate() {
            link.jobs.add(Time::ZERO, ClassId::ROOT, rights.terms);
            if let Some(bound) = rights.loss_bound {
                link.own[at + 1] = TermValues::default().with(Promises::LOSS_BOUND, bound);
                link.set_own(at + 1, 0);
            }
        }
        link
    }

    fn of(jobs: Jobs, classes: usize) -> Self {
        Self {
            jobs,
            own: vec![TermValues::default(); classes + 1],
            now: Time::ZERO,
            free_at: Time::ZERO,
            queues: vec![VecDeque::new(); classes + 1],
            next: 0,
            sent: Vec::new(),
            dropped: Vec::new(),
            delays: vec![Duration::ZERO; classes + 1],
        }
    }

    /// Sets the ratios of a class. The names of classes are their numbers.
    fn relate(mut self, class: usize, delay: Option<(u32, u64)>, loss: Option<(u32, u64)>) -> Self {
        for (term, ratio) in [(Promises::DELAY_RATIO, delay), (Promises::LOSS_RATIO, loss)] {
            let Some((of, millionths)) = ratio else { continue };
            let factor = Factor::from_millionths(millionths);
            let own = std::mem::take(&mut self.own[class]);
            self.own[class] = own.with(term, Ratio { of: of.to_string(), factor });
        }
        self.set_own(class, number(class));
        self
    }

    fn set_own(&mut self, class: usize, rank: u32) {
        let find = &|name: &str| name.parse().ok().map(ClassId);
        let own = OwnTerms { values: &self.own[class], direction: Direction::Up, find };
        self.jobs.set_own(ClassId(number(class)), rank, &own);
    }

    fn arrive(&mut self, class: usize, len: Bytes) {
        let leaf = ClassId(number(class));
        self.queues[class].push_back((self.next, len, self.now));
        self.next += 1;
        self.jobs.wait(self.now, leaf);
        let mut victim = self.jobs.arrived(self.now, leaf, len);
        while let Some(id) = victim {
            let (packet, _, _) = self.queues[id.index()].pop_back().expect("an empty class drops");
            self.dropped.push((id.index(), packet));
            victim = self.jobs.dropped(self.now, id, !self.queues[id.index()].is_empty());
        }
    }

    fn advance(&mut self, to: Time) {
        while self.free_at <= to {
            let start = self.free_at.max(self.now);
            let Some(id) = self.jobs.next(start) else { break };
            let (packet, len, since) = self.queues[id.index()].pop_front().expect("it waits");
            self.sent.push((id.index(), packet));
            self.delays[id.index()] = self.delays[id.index()].max(start.since(since));
            self.jobs.sent(start, id, len, !self.queues[id.index()].is_empty());
            self.free_at = start + RATE.time_for(len);
        }
        self.now = to;
    }

    /// Offers each class its percentage of the link for `span`. Packets have random distances, so
    /// that no class always comes last.
    fn offer(&mut self, span: Duration, percent: &[u32]) {
        let mut random = Random::new(1, 1);
        let mut due = vec![self.now; percent.len()];
        let end = self.now + span;
        loop {
            let (class, at) = due.iter().copied().enumerate().min_by_key(|it| it.1).unwrap();
            if at >= end {
                return self.advance(end);
            }
            self.advance(at);
            due[class] = match percent[class] {
                0 => end,
                percent => {
                    self.arrive(class + 1, PACKET);
                    at + (RATE.time_for(PACKET * 100) / percent).mul_f64(0.5 + random.unit())
                }
            };
        }
    }

    fn kept(&self, class: u32, term: Term) -> Kept {
        self.jobs.kept(ClassId(class)).into_iter().find(|kept| kept.term == term).unwrap()
    }

    fn bytes_of(&self, class: usize) -> u64 {
        self.jobs.classes[class].sent.bytes
    }
}

const BUFFER: Bytes = Bytes(60_000);

fn bounded(millis: u64, loss: Option<u32>) -> Rights {
    let delay_bound = Some(Duration::from_millis(millis));
    let loss_bound = loss.map(|per_cent| Chance::from_ppb(per_cent * 10_000_000));
    Rights { terms: Terms { delay_bound, ..Terms::NONE }, loss_bound }
}

fn lossy(per_cent: u32) -> Rights {
    Rights { loss_bound: Some(Chance::from_ppb(per_cent * 10_000_000)), ..Rights::NONE }
}

fn rate(mbps: u64) -> Rights {
    Rights { terms: Terms { guarantee: Rate::from_mbps(mbps), ..Terms::NONE }, loss_bound: None }
}

/// Catches: a required rate without the age of the oldest packet.
#[test]
fn a_class_needs_more_rate_as_its_oldest_packet_gets_older() {
    let mut link = Link::new(Search::Furthest, BUFFER, &[bounded(10, None), Rights::NONE]);
    (0..10).for_each(|_| link.arrive(1, PACKET));
    let mut rate_at = |millis| {
        // The link does not send in this time.
        link.now = Time::from_millis(millis);
        link.arrive(2, PACKET);
        link.jobs.class_states(link.now)[1].rate.bps()
    };
    // 40,000 bits need 4 Mbit/s in 10 ms, which is less than half of the link, and 8 Mbit/s in 5 ms. In 3 ms,
    // only 28,000 bits fit: three packets are dropped.
    let rates = [0, 5, 7].map(&mut rate_at);
    assert_eq!(rates.map(|rate| rate / 1_000), [5_000, 8_000, 9_333]);
    assert_eq!(link.dropped, [(1, 9), (1, 8), (1, 7)]);
}

/// Catches: a class with spare rate that gives none to a class that needs rate for its bound.
#[test]
fn a_feasible_delay_bound_is_kept_beside_an_overload() {
    let mut link = Link::new(Search::Furthest, BUFFER, &[bounded(10, Some(0)), Rights::NONE]);
    link.offer(Duration::from_secs(2), &[40, 200]);
    let bound = Duration::from_millis(10) + RATE.time_for(PACKET * 2);
    assert!(link.delays[1] <= bound && link.delays[2] > bound, "{:?}", link.delays);
    assert!(link.dropped.iter().all(|(class, _)| *class == 2), "the first class loses packets");
}

/// Catches: a guarantee that delay bounds of other classes can take; an even split of the rate that
/// never changes.
#[test]
fn a_guarantee_is_kept_beside_a_delay_bound_that_is_not_feasible() {
    let mut link = Link::new(Search::Furthest, BUFFER * 10, &[bounded(1, Some(0)), rate(6)]);
    link.offer(Duration::from_secs(2), &[50, 200]);
    let kept = link.kept(2, Term::GUARANTEE);
    assert!(kept.kept.unwrap() >= 5.9e6, "{kept:?}");
    assert_eq!((kept.violations, kept.relaxed), (0, 0));
    let late = link.kept(1, Term::DELAY_BOUND);
    assert!(late.violations > 1_000 && late.relaxed > 1_000, "{late:?}");
}

/// Catches: a precedence by the place in the file alone, which no repository keeps; an order that a change of
/// the priority leaves as it was.
#[test]
fn the_class_of_higher_priority_keeps_its_promise() {
    let kept = |first: Option<u32>| {
        let classes = [rate(7), rate(7), Rights::NONE];
        let mut link = Link::new(Search::Furthest, Bytes(10_000_000), &classes);
        link.offer(Duration::from_secs(1), &[0, 0, 50]);
        if let Some(id) = first.map(ClassId) {
            let terms = Terms { priority: 1, ..link.jobs.terms(id) };
            link.jobs.set(link.now, id, terms);
        }
        link.offer(Duration::from_secs(4), &[80, 80, 80]);
        [1, 2].map(|class| link.kept(class, Term::GUARANTEE).kept.unwrap() / 1e6)
    };
    let [by_place, first, second] = [None, Some(1), Some(2)].map(kept);
    assert_eq!(by_place, first);
    assert!(first[0] > 6.5 && first[1] < 3.5, "{first:?}");
    assert!(second[1] > 6.5 && second[0] < 3.5, "{second:?}");
}

/// Catches: drops beyond the loss bound in favour of a delay bound; a class that never drops,
/// although its loss bound permits drops; a loss bound that is checked only before the drop.
#[test]
fn a_loss_bound_precedes_a_delay_bound() {
    let run = |loss| {
        let mut link =
            Link::new(Search::Furthest, BUFFER, &[bounded(5, loss), Rights::NONE, Rights::NONE]);
        link.offer(Duration::from_secs(2), &[120, 0, 20]);
        link
    };
    let free = run(None);
    let bound = Duration::from_millis(5) + RATE.time_for(PACKET * 2);
    assert!(free.delays[1] <= bound, "{:?}", free.delays);
    let lost = free.dropped.len();
    assert!(lost > 500, "{lost} packets");
    let link = run(Some(1));
    let (loss, delay) = (link.kept(1, Promises::LOSS_BOUND), link.kept(1, Term::DELAY_BOUND));
    assert!(link.delays[1] > bound * 2, "{:?}", link.delays);
    assert!(delay.relaxed > 1_000 && delay.violations > 1_000, "{delay:?}");
    let beyond = loss.violations;
    assert!(beyond > 0 && loss.relaxed == beyond, "the buffer is full of one class: {loss:?}");
}

/// Catches: a drop that breaks a loss bound, although another class without a loss bound could
/// drop.
#[test]
fn a_full_buffer_keeps_loss_bounds_where_another_class_can_drop() {
    let classes = [lossy(1), lossy(2), Rights::NONE];
    let mut link = Link::new(Search::Furthest, BUFFER, &classes);
    link.offer(Duration::from_secs(4), &[25, 25, 100]);
    for (class, most) in [(1, 0.01), (2, 0.02)] {
        let kept = link.kept(class, Promises::LOSS_BOUND);
        assert!(kept.kept.unwrap() <= most && kept.violations == 0, "{kept:?}");
        assert!(kept.kept.unwrap() > most / 2.0, "a newcomer drops while it may: {kept:?}");
    }
}

/// Catches: a gain of the wrong sign; weights that are not inverse to the factors; the delay of the
/// newest packet in place of the oldest.
#[test]
fn delay_ratios_hold_in_a_chain_under_overload() {
    let link = Link::new(Search::Furthest, BUFFER, &[Rights::NONE; 3]);
    let half = 500_000;
    let mut link = link.relate(1, Some((2, half)), None).relate(2, Some((3, half)), None);
    link.offer(Duration::from_secs(10), &[50, 50, 50]);
    for class in [1, 2] {
        let kept = link.kept(class, Promises::DELAY_RATIO);
        assert!((0.45..0.55).contains(&kept.kept.unwrap()), "{kept:?}");
    }
}

/// Catches: a ratio that takes rate that an absolute promise needs.
#[test]
fn a_guarantee_precedes_a_delay_ratio() {
    let link = Link::new(Search::Furthest, Bytes(10_000_000), &[Rights::NONE, rate(7)]);
    let mut link = link.relate(1, Some((2, 100_000)), None).relate(2, None, None);
    link.offer(Duration::from_secs(4), &[60, 200]);
    let guarantee = link.kept(2, Term::GUARANTEE);
    assert!(guarantee.kept.unwrap() >= 6.9e6 && guarantee.violations == 0, "{guarantee:?}");
    let relaxed: u64 = link.jobs.classes.iter().map(|it| it.record.relaxed.delay_ratio).sum();
    assert!(relaxed > 1_000, "{relaxed}");
    assert!(link.kept(1, Promises::DELAY_RATIO).kept.unwrap() > 0.2);
}

/// Catches: loss weights that are not inverse to the factors; a drop in the class that has lost
/// most in relation to the others.
#[test]
fn loss_ratios_hold_under_overload() {
    let link = Link::new(Search::Furthest, BUFFER, &[Rights::NONE; 3]);
    let mut link = link.relate(1, None, Some((2, 500_000))).relate(2, None, Some((3, 250_000)));
    link.offer(Duration::from_secs(10), &[50, 50, 50]);
    let [first, second] = [1, 2].map(|class| link.kept(class, Promises::LOSS_RATIO).kept.unwrap());
    assert!((0.48..0.52).contains(&first) && (0.24..0.26).contains(&second), "{first} {second}");
}

/// Catches: a loss ratio that precedes a loss bound.
#[test]
fn a_loss_bound_precedes_a_loss_ratio() {
    let link = Link::new(Search::Furthest, BUFFER, &[lossy(1), Rights::NONE]);
    let same = Some((2, 1_000_000));
    let mut link = link.relate(1, same, same);
    link.offer(Duration::from_secs(4), &[40, 100]);
    let kept = link.kept(1, Promises::LOSS_BOUND);
    assert!(kept.kept.unwrap() <= 0.01 && kept.violations == 0, "{kept:?}");
    let ratio = link.kept(1, Promises::LOSS_RATIO);
    assert!(ratio.relaxed > 1_000 && ratio.violations >= 1, "{ratio:?}");
}

/// Catches: a drop of the oldest packet; a drop of the arriving packet in place of the newest
/// packet of the victim.
#[test]
fn the_victim_drops_its_newest_packet() {
    let mut link = Link::new(Search::Furthest, PACKET * 4, &[lossy(0), lossy(50)]);
    for class in [1, 2, 2, 1, 1] {
        link.arrive(class, PACKET);
    }
    assert_eq!(link.dropped, [(2, 2)]);
    link.advance(Time::from_secs(1));
    let mut sent = link.sent;
    sent.sort_unstable();
    assert_eq!(sent, [(1, 0), (1, 3), (1, 4), (2, 1)]);
}

/// Catches: a search that returns the first or the last backlogged class in place of the furthest.
#[test]
fn the_class_furthest_below_its_bound_drops_and_in_ns2_the_last_class() {
    let run = |search| {
        let mut link = Link::new(search, PACKET * 3, &[lossy(0), lossy(60), lossy(40)]);
        for class in [2, 3, 1, 1] {
            link.arrive(class, PACKET);
        }
        link.dropped
    };
    assert_eq!(run(Search::Furthest), [(2, 0)]);
    assert_eq!(run(Search::Ns2), [(3, 1)]);
}

/// Catches: losses of earlier busy periods that count; a busy period that ends while the link still
/// sends.
#[test]
fn losses_count_from_the_start_of_a_busy_period() {
    let mut link = Link::new(Search::Furthest, PACKET * 2, &[lossy(25)]);
    let fill = |link: &mut Link| (0..4).for_each(|_| link.arrive(1, PACKET));
    fill(&mut link);
    let relaxed = |link: &Link| link.jobs.classes[1].record.relaxed.loss_bound;
    assert_eq!((link.dropped.len(), relaxed(&link)), (2, 2));
    // The last packet is still on the link.
    link.advance(Time::from_micros(600));
    assert!(link.queues[1].is_empty() && link.jobs.classes[1].loss() > 0.0);
    link.arrive(1, PACKET);
    assert!(link.jobs.classes[1].loss() > 0.0);
    link.advance(Time::from_secs(1));
    link.arrive(1, PACKET);
    assert!(link.jobs.classes[1].loss() < f64::EPSILON);
}

/// Catches: a state that is not updated after the last arrival.
#[test]
fn the_state_for_a_marking_has_rates_backlogs_and_delays() {
    let mut link = Link::new(Search::Furthest, BUFFER, &[bounded(10, None), rate(2)]);
    for class in [1, 1, 2] {
        link.arrive(class, PACKET);
    }
    link.advance(Time::from_micros(900));
    let states = link.jobs.class_states(link.now).to_vec();
    let left: u64 = states.iter().map(|state| state.backlog.0).sum();
    assert_eq!((left, states.len()), (0, 3));
    assert_eq!(states[1].delay_bound, Some(Duration::from_millis(10)));
    assert_eq!(states[2].guarantee, Rate::from_mbps(2));
    assert!(states[1].delay.max(states[2].delay) == Duration::from_micros(800));
    link.arrive(2, PACKET);
    let states = link.jobs.class_states(link.now);
    assert_eq!((states[2].rate, states[2].backlog), (RATE, PACKET));
}

fn rights() -> impl Strategy<Value = Rights> {
    let bound = prop::option::of((1u64..50).prop_map(Duration::from_millis));
    let loss = prop::option::of((0u32..500_000_000).prop_map(Chance::from_ppb));
    (0u64..3, bound, loss).prop_map(|(mbps, delay_bound, loss_bound)| Rights {
        terms: Terms { delay_bound, ..rate(mbps).terms },
        loss_bound,
    })
}

proptest! {
    /// Packets are conserved, and each class keeps its order. The buffer is never exceeded. The
    /// rates of backlogged classes add up to the rate of the link. Each broken loss bound is
    /// counted.
    ///
    /// Catches: bytes that stay counted in the buffer after a drop or a departure; a transfer that
    /// changes the sum of the rates; a loss bound that is broken without being counted as relaxed.
    #[test]
    fn packets_rates_and_the_buffer_are_conserved(
        classes in prop::collection::vec(rights(), 4),
        exact in any::<bool>(),
        factors in prop::collection::vec((1u64..4_000_000, 1u64..4_000_000), 3),
        arrivals in prop::collection::vec((1usize..5, 40u64..1_500, 0u64..2_000), 1..400),
    ) {
        let mut link = Link::new(Search::Furthest, Bytes(20_000), &classes);
        if !exact {
            link.jobs.output = Output::Arrivals;
        }
        for (at, (delay, loss)) in factors.into_iter().enumerate() {
            let of = number(at + 2);
            link = link.relate(at + 1, Some((of, delay)), Some((of, loss)));
        }
        for (class, len, pause) in arrivals {
            link.arrive(class, Bytes(len));
            prop_assert!(link.jobs.queued <= Bytes(20_000));
            let waiting: u64 = link.queues.iter().flatten().map(|(_, len, _)| len.0).sum();
            prop_assert_eq!(link.jobs.queued, Bytes(waiting));
            let rates: f64 = link.jobs.classes.iter().map(|class| class.rate).sum();
            if link.jobs.backlogged > 0 {
                prop_assert!((rates - 1e7).abs() < 100.0, "{}", rates);
            }
            prop_assert!(link.jobs.classes.iter().all(|class| class.rate > -100.0));
            link.advance(link.now + Duration::from_micros(pause));
        }
        link.advance(Time::from_secs(60));
        prop_assert_eq!(link.jobs.queued, Bytes::ZERO);
        let ended = link.sent.len() + link.dropped.len();
        prop_assert_eq!(ended, usize::try_from(link.next).unwrap());
        for (at, class) in link.jobs.classes.iter().enumerate().skip(1) {
            let sent: Vec<_> = link.sent.iter().filter(|it| it.0 == at).collect();
            prop_assert!(sent.is_sorted());
            prop_assert_eq!(class.record.arrived - class.record.dropped, link.bytes_of(at));
            prop_assert_eq!(class.record.beyond_loss_bound, class.record.relaxed.loss_bound);
        }
    }
}
