//! A survey: a report that the gateway makes in parts of bounded length. Packets pass between the parts.

use std::cmp::Reverse;
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use crate::aggregate::Aggregate;
use crate::flow::Flow;
use crate::packet::{Direction, FlowId, FlowKey, Outer, Ports, Tunnel, TunnelKind};
use crate::policy::Filter;
use crate::qdisc::Backlog;
use crate::report::{AggregateReport, ClassReport, FlowReport, Report};
use crate::{Tally, Time, ack};

/// A report in progress; see [`Gateway::survey`](super::Gateway::survey).
#[derive(Debug)]
pub struct Survey {
    pub(super) stage: SurveyStage,
    /// Survey the classes, too.
    pub(super) classes: bool,
    /// Direction of the next class.
    pub(super) way: Direction,
    /// Index of the next policy, slot or class.
    pub(super) at: u32,
    /// State of the gateway itself.
    pub(super) whole: Option<Report>,
    /// Backlog of all classes, by direction.
    pub(super) waiting: [Backlog; 2],
    aggregates: Parts<AggregateReport>,
    tally: Tally,
    acks: ack::Counts,
    classes_of: [Parts<ClassLine>; 2],
    /// The first stage.
    from: SurveyStage,
    /// The arrangement of the gateway at the first part.
    arrangement: Option<u32>,
    /// Number of the attempt, counted from 1. Zero before the first part.
    attempts: u32,
    /// Attempts that were given up. They take long to drop.
    given_up: Option<Box<Self>>,
}

/// A list that grows part by part, so that no part has to move those before.
#[derive(Debug)]
pub(super) struct Parts<T>(Vec<Vec<T>>);

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Parts<T> {
    /// Elements in a part: about as many as a survey adds at a time.
    const PART: usize = 256;

    pub(super) fn push(&mut self, it: T) {
        match self.0.last_mut().filter(|part| part.len() < Self::PART) {
            Some(part) => part.push(it),
            None => {
                let mut part = Vec::with_capacity(Self::PART);
                part.push(it);
                self.0.push(part);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    fn all(self) -> Vec<T> {
        let mut all = Vec::with_capacity(self.len());
        self.0.into_iter().for_each(|part| all.extend(part));
        all
    }
}

/// Stages of a survey, in this order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SurveyStage {
    /// Aggregates of the policies in force.
    Aggregates,
    /// Aggregates of the previous policies.
    Remaining,
    /// Total backlog of the link's classes.
    Waiting,
    /// Classes of the link.
    Classes,
    /// The survey is complete.
    Done,
}

/// A class with its own backlog and drops, without those of its parts.
#[derive(Clone, Debug)]
pub(super) struct ClassLine {
    /// Index of the class, and index of its parent unless this is the link.
    pub(super) number: u32,
    pub(super) parent: Option<u32>,
    pub(super) report: ClassReport,
}

impl Survey {
    /// A survey of the gateway and its aggregates.
    #[must_use]
    pub fn of_policies() -> Self {
        Self {
            stage: SurveyStage::Aggregates,
            classes: false,
            way: Direction::Up,
            at: 0,
            whole: None,
            waiting: Default::default(),
            aggregates: Parts::default(),
            tally: Tally::default(),
            acks: ack::Counts::default(),
            classes_of: Default::default(),
            from: SurveyStage::Aggregates,
            arrangement: None,
            attempts: 0,
            given_up: None,
        }
    }

    /// A survey of the classes.
    #[must_use]
    pub fn of_classes() -> Self {
        Self { stage: SurveyStage::Classes, from: SurveyStage::Classes, ..Self::of_all() }
    }

    /// A survey of the gateway, its aggregates and the classes.
    #[must_use]
    pub fn of_all() -> Self {
        Self { classes: true, ..Self::of_policies() }
    }

    /// Number of times that the survey has begun. It starts over if policies or classes change
    /// between two of its parts.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Starts over if the first part was of another `arrangement` of the gateway.
    pub(super) fn align(&mut self, arrangement: u32) {
        if self.arrangement != Some(arrangement) {
            let new = Self {
                stage: self.from,
                classes: self.classes,
                from: self.from,
                arrangement: Some(arrangement),
                attempts: self.attempts + 1,
                ..Self::of_policies()
            };
            let before = std::mem::replace(self, new);
            self.given_up = before.arrangement.is_some().then(|| Box::new(before));
        }
    }

    pub(super) const fn go_to(&mut self, stage: SurveyStage) {
        (self.stage, self.at) = (stage, 0);
    }

    /// Continues with the other direction of the link, or with stage `next` after both.
    pub(super) const fn next_way(&mut self, same: SurveyStage, next: SurveyStage) {
        match self.way {
            Direction::Up => self.go_to(same),
            Direction::Down => self.go_to(next),
        }
        self.way = self.way.reverse();
    }

    pub(super) fn add(&mut self, aggregate: &Aggregate) {
        self.tally += *aggregate.tally();
        self.acks += aggregate.acks();
        self.aggregates.push(aggregate.report());
    }

    /// The classes found so far in direction `way`.
    pub(super) const fn found(&mut self, way: Direction) -> &mut Parts<ClassLine> {
        &mut self.classes_of[way.index()]
    }

    /// The state of the gateway with its aggregates in the order of precedence, and the classes of the link.
    /// Classes are sorted by direction (up first) and name. Takes time in proportion to both. Without a
    /// complete survey, the state is `None`.
    #[must_use]
    pub fn report(self) -> (Option<Report>, Vec<ClassReport>) {
        let aggregates = self.aggregates.all();
        let inside: u32 = aggregates.iter().map(|it| it.backlog.packets + it.acks.packets).sum();
        let (tally, acks) = (self.tally, self.acks);
        let whole = self.whole.map(|mut whole| {
            whole.held += inside;
            whole.drops += tally.drops;
            whole.marks += tally.marks;
            whole.absorbed += acks.absorbed;
            whole.made += acks.made;
            Report { aggregates, ..whole }
        });
        (whole, self.classes_of.into_iter().flat_map(|it| with_parts(it.all())).collect())
    }
}

/// A report of the busiest flows in progress; see [`Gateway::survey_flows`](super::Gateway::survey_flows).
#[derive(Debug)]
pub struct FlowSurvey {
    most: usize,
    /// Filter of the reported flows.
    only: Filter,
    /// Next place of the flow table.
    pub(super) at: u32,
    /// Flows found so far. [`sort`](Self::sort) sorts them.
    found: Vec<Found>,
    /// Number of flows already reported.
    reported: usize,
    /// The reported flows.
    seen: HashSet<Identity, FixedState>,
    pub(super) reports: Vec<FlowReport>,
}

/// Identity of a flow in one direction. A flow may have two indices of the flow table, but it has one identity.
#[derive(Debug, Eq, Hash, PartialEq)]
struct Identity {
    key: FlowKey,
    vlans: [u16; 2],
    ports: Ports,
    way: usize,
    tunnels: Vec<([u128; 2], TunnelKind, Option<u32>, u16)>,
}

/// A flow of a survey. The order is that of the report: active flows first, then by bytes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Found {
    rests: bool,
    bytes: Reverse<u64>,
    flow: u32,
    way: usize,
}

/// A flow without a packet for this long is not active. Longer than a sender's timeout after a loss
/// (RFC 6298, 2.4: at least 1 s, then doubled), shorter than anybody watches.
const ACTIVE: Duration = Duration::from_secs(5);

impl FlowSurvey {
    /// A survey of up to `most` flows, each in the directions with packets.
    #[must_use]
    pub fn of_most(most: usize) -> Self {
        Self::of_those(Filter::default(), most)
    }

    /// A survey of up to `most` of the flows whose packets `only` matches.
    #[must_use]
    pub fn of_those(only: Filter, most: usize) -> Self {
        let (found, seen, reports) = (Vec::new(), HashSet::default(), Vec::new());
        Self { most, only, at: 0, found, reported: 0, seen, reports }
    }

    /// Keeps the busiest flows found so far. Takes time in proportion to all of them.
    pub fn sort(&mut self) {
        if self.reported == 0 {
            self.found.sort_unstable();
            self.found.truncate(self.most);
        }
    }

    /// The flows: active ones first, each those with most bytes first. A flow that began again during the
    /// survey is reported once.
    #[must_use]
    pub fn report(self) -> Vec<FlowReport> {
        self.reports
    }

    /// Returns `true` if `flow` in direction `way`, behind the headers `outer`, has no report yet.
    pub(super) fn is_new(&mut self, flow: &Flow, outer: Option<Outer>, way: Direction) -> bool {
        let packet = flow.packet(way);
        let outer = outer.unwrap_or_default();
        self.seen.insert(Identity {
            key: packet.key,
            vlans: [packet.vlan, outer.second_vlan],
            ports: packet.fragment.ports(),
            way: way.index(),
            tunnels: outer.tunnels().iter().map(Tunnel::identity).collect(),
        })
    }

    /// Adds `flow` in direction `way`, if the filter matches.
    ///
    /// The filter may match the outermost or the innermost header of a flow in a tunnel.
    pub(super) fn add(
        &mut self,
        now: Time,
        (id, flow): (FlowId, &Flow),
        outer: Option<Outer>,
        way: Direction,
    ) {
        let packet = flow.packet(way);
        if self.only.matches(&packet, way)
            || outer.is_some_and(|outer| self.only.matches_inside(&packet, Some(&outer), way))
        {
            let rests = flow.is_closed() || flow.idle(now) > ACTIVE;
            let (bytes, way) = (Reverse(flow.bytes(way).0), way.index());
            self.found.push(Found { rests, bytes, flow: id.0, way });
        }
    }

    /// The next flow to report.
    pub(super) fn next(&mut self) -> Option<(FlowId, Direction)> {
        let found = self.found.get(self.reported)?;
        self.reported += 1;
        Some((FlowId(found.flow), Direction::BOTH[found.way]))
    }
}

/// Classes in one direction, sorted by name. Backlog and drops include those of their parts.
///
/// Takes one step for each class, however deep the tree is. A class is added to its parent after
/// its own parts.
fn with_parts(lines: Vec<ClassLine>) -> Vec<ClassReport> {
    let most = lines.iter().map(|line| crate::packet::slot(line.number) + 1).max();
    let mut inside = vec![ClassSums::default(); most.unwrap_or(0)];
    for line in &lines {
        let own = &mut inside[crate::packet::slot(line.number)];
        (own.waiting, own.drops, own.parent) =
            (line.report.backlog, line.report.drops, line.parent);
        if let Some(parent) = line.parent.and_then(|it| inside.get_mut(crate::packet::slot(it))) {
            parent.parts += 1;
        }
    }
    let numbers = lines.iter().map(|line| line.number);
    let mut complete: Vec<u32> =
        numbers.filter(|it| inside[crate::packet::slot(*it)].parts == 0).collect();
    while let Some(number) = complete.pop() {
        let ClassSums { waiting, drops, parent, .. } = inside[crate::packet::slot(number)];
        let Some(above) = parent else { continue };
        let Some(sum) = inside.get_mut(crate::packet::slot(above)) else { continue };
        sum.waiting = super::egress::plus(sum.waiting, waiting);
        sum.drops += drops;
        sum.parts -= 1;
        if sum.parts == 0 {
            complete.push(above);
        }
    }
    let with_parts = |line: ClassLine| {
        let ClassSums { waiting: backlog, drops, .. } = inside[crate::packet::slot(line.number)];
        ClassReport { backlog, drops, ..line.report }
    };
    let mut reports: Vec<_> = lines.into_iter().map(with_parts).collect();
    reports.sort_by(|a, b| a.name.cmp(&b.name));
    reports
}

/// The sums of a class and of the parts that were added to it.
#[derive(Clone, Copy, Default)]
struct ClassSums {
    waiting: Backlog,
    drops: u64,
    parent: Option<u32>,
    /// Parts that are still to be added.
    parts: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;

    /// Class `number` with a backlog of `packets`.
    fn line(number: u32, parent: Option<u32>, packets: u32) -> ClassLine {
        let report = ClassReport {
            name: format!("{number:06}"),
            backlog: Backlog { packets, bytes: Bytes::ZERO },
            drops: u64::from(packets),
            ..ClassReport::default()
        };
        ClassLine { number, parent, report }
    }

    fn packets(lines: Vec<ClassLine>) -> Vec<u32> {
        with_parts(lines).iter().map(|it| it.backlog.packets).collect()
    }

    /// Catches: a class added to its parent before its own parts are; a parent that is not listed; a class added at every
    /// class above it one by one, which takes 10^10 steps here.
    #[test]
    fn a_class_has_what_waits_at_all_its_parts_however_deep_they_are() {
        let lines =
            vec![line(7, Some(3), 1), line(3, None, 0), line(5, Some(7), 4), line(9, Some(1), 2)];
        assert_eq!(packets(lines), [5, 4, 5, 2]);
        let deep = (1..=100_000).map(|n| line(n, (n > 1).then(|| n - 1), 1)).collect();
        assert!(packets(deep).into_iter().eq((1..=100_000).rev()));
    }

    /// Catches: packets added to a class as often as there are classes.
    #[test]
    fn of_classes_that_seem_to_be_parts_of_each_other_none_is_counted_twice() {
        let lines = vec![
            line(1, Some(2), 1),
            line(2, Some(1), 2),
            line(3, Some(1), 4),
            line(4, Some(4), 8),
        ];
        assert_eq!(packets(lines), [5, 2, 4, 8]);
    }
}
