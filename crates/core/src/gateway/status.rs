//! What the gateway tells about itself: always what runs, never what was meant to run.

use std::time::Duration;

use super::Gateway;
use super::classes::Classes;
use super::link::Link;
use crate::Time;
use crate::aggregate::Aggregate;
use crate::class::ClassId;
use crate::flow::Flow;
use crate::packet::{Direction, Endpoint};
use crate::qdisc::Backlog;
use crate::report::{ClassReport, Count, FlowReport, Report};

impl Gateway {
    /// Its state now.
    #[must_use]
    pub fn report(&self) -> Report {
        let aggregates: Vec<_> = self.aggregates.in_order().map(|it| it.report()).collect();
        let mut tally = self.counts.tally;
        let mut acks = self.counts.acks;
        for aggregate in self.aggregates.in_order() {
            tally += *aggregate.tally();
            acks += aggregate.acks();
        }
        let trunks = self.trunks();
        let trunks = trunks.iter().fold(self.counts.trunks, |all, it| all + it.counts);
        Report {
            generation: self.generation.into(),
            received: self.counts.received,
            transmitted: self.counts.transmitted,
            held: self.held(),
            link: Direction::BOTH.map(|direction| self.links[direction.index()].backlog()),
            control: self.control(),
            drops: tally.drops,
            marks: tally.marks,
            absorbed: acks.absorbed + trunks.absorbed,
            made: acks.made + trunks.made,
            flows: u32::try_from(self.flows.len()).unwrap_or(u32::MAX),
            untracked: self.flows.untracked(),
            aggregates,
        }
    }

    /// The classes that share the link, those up first, each by name.
    #[must_use]
    pub fn classes(&self) -> Vec<ClassReport> {
        let shared = self.links.iter().filter_map(Link::classes);
        shared.flat_map(Classes::reports).collect()
    }

    /// The class of that name, up first. Takes time for other classes only if it has parts.
    #[must_use]
    pub fn class(&self, name: &str) -> Vec<ClassReport> {
        let shared = self.links.iter().filter_map(Link::classes);
        shared.filter_map(|classes| classes.report(name)).collect()
    }

    /// What waits at a class of the link, the class of packets without one if there is none of that
    /// name, or in the one queue there is.
    #[must_use]
    pub fn backlog_of(&self, class: Option<ClassId>, direction: Direction) -> Backlog {
        let link = &self.links[direction.index()];
        let leaf = link.leaf(class);
        link.classes().map_or_else(|| link.backlog(), |classes| classes.backlog(leaf))
    }

    /// Up to `most` flows, each in the directions it has packets in, those with most bytes first.
    #[must_use]
    pub fn flows(&self, now: Time, most: usize) -> Vec<FlowReport> {
        let both = self.flows.iter().flat_map(|flow| Direction::BOTH.map(|way| (flow, way)));
        let mut all: Vec<_> = both.filter(|((_, flow), way)| flow.packets(*way) > 0).collect();
        all.sort_by_key(|((id, flow), way)| (u64::MAX - flow.bytes(*way).0, id.0, way.index()));
        all.truncate(most);
        all.into_iter().map(|((_, flow), way)| self.flow_report(now, flow, way)).collect()
    }

    /// Packets taken in and not yet handed out.
    pub(super) fn held(&self) -> u32 {
        let inside = |it: &Aggregate| it.backlog().packets + it.acks().packets;
        let aggregates = self.aggregates.in_order().map(inside);
        let links = self.links.iter().map(|link| link.backlog().packets);
        let trunks = self.trunks.iter().flat_map(|it| it.iter()).map(|it| it.backlog().packets);
        aggregates.chain(links).chain(trunks).sum()
    }

    fn flow_report(&self, now: Time, flow: &Flow, direction: Direction) -> FlowReport {
        let key = flow.key(direction);
        let handle = flow.handle(direction);
        let aggregate = self.aggregates.now(handle);
        let rtt = flow.rtt();
        FlowReport {
            src: show(key.src),
            dst: show(key.dst),
            protocol: key.protocol.0,
            direction: direction.name(),
            policy: aggregate.map(|aggregate| aggregate.policy().to_owned()),
            weight: aggregate.map_or(1, |aggregate| aggregate.share(handle.member).weight),
            offered: Count { packets: flow.packets(direction), bytes: flow.bytes(direction).0 },
            waiting_bytes: aggregate.map_or(0, |aggregate| aggregate.waiting(handle.member).0),
            rtt_lan_us: micros(rtt.near),
            rtt_wan_us: micros(rtt.far),
            retransmissions: flow.retransmissions(direction).into(),
            tracking: flow.tracking().name(),
            idle_ms: u64::try_from(flow.idle(now).as_millis()).unwrap_or(u64::MAX),
        }
    }
}

fn show(endpoint: Endpoint) -> String {
    std::net::SocketAddr::new(endpoint.address(), endpoint.port).to_string()
}

fn micros(span: Option<Duration>) -> Option<u64> {
    span.and_then(|span| u64::try_from(span.as_micros()).ok())
}
