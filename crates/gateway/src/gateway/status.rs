//! Reports of a gateway about itself: the running state, never the intended one.
//!
//! This file contains methods of `Gateway`, whose fields are in `gateway.rs`.

use std::num::NonZeroU16;
use std::time::Duration;

use tidegate_core::Count;
use tidegate_core::class::ClassId;
use tidegate_core::flow::{Flow, Handle, before};
use tidegate_core::packet::{Direction, FlowId, FlowKey, NO_VLAN, Tunnel, number, slot};
use tidegate_core::qdisc::Backlog;
use tidegate_core::trunk::{self, Trunk};
use tidegate_core::{Bytes, Time};

use super::Gateway;
use super::egress::{AccessLink, Egress, plus};
use super::survey::{FlowSurvey, Survey, SurveyStage};
use crate::aggregate::Aggregate;
use crate::policy::PolicyIndex;
use crate::report::{ClassReport, FlowReport, Limit, Report, TunnelReport};

/// Number of aggregates or classes in a part of a survey, which is a report made in parts. An aggregate takes up to
/// some 7,000 instructions.
const SLICE: u32 = 128;

/// Entries of the flow table in a part of a survey of flows.
const FLOWS: usize = 8_192;

/// Classes whose backlogs are added up in one step.
const LINES: usize = 64;

impl Gateway {
    /// The present state of the gateway.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut survey = Survey::of_policies();
        self.survey_whole(&mut survey);
        survey.report().0.unwrap_or_default()
    }

    /// Number of policy sets installed so far.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.sorter.generation().into()
    }

    /// The classes of the link, sorted by direction (up first) and name.
    #[must_use]
    pub fn classes(&self) -> Vec<ClassReport> {
        let mut survey = Survey::of_classes();
        self.survey_whole(&mut survey);
        survey.report().1
    }

    /// Adds the next part of bounded length to `survey`. Returns whether more is missing.
    ///
    /// Packets may pass between two parts. A part shows the state at the time when it was added. The gateway's own
    /// counters are those at the end of the survey. Every aggregate and class appears once: a survey waits
    /// while a swap of policies is in progress, and starts over if policies, classes or the links' rates
    /// changed since its first part. If a survey starts over too [often](Survey::attempts), its caller has to
    /// delay such changes.
    #[must_use]
    pub fn survey(&self, survey: &mut Survey) -> bool {
        survey.align(self.sorter.arrangement());
        if self.is_installing() {
            return true;
        }
        for _ in 0..SLICE {
            if !self.survey_one(survey) {
                self.complete(survey);
                return false;
            }
        }
        true
    }

    /// Adds all remaining parts.
    fn survey_whole(&self, survey: &mut Survey) {
        while self.survey_one(survey) {}
        self.complete(survey);
    }

    /// Adds an aggregate or a class. Returns `false` if none remains.
    fn survey_one(&self, survey: &mut Survey) -> bool {
        match survey.stage {
            SurveyStage::Aggregates => {
                let policy = PolicyIndex(survey.at);
                for way in Direction::BOTH {
                    let slot = self.aggregates.slot(policy, way);
                    let aggregate = slot.and_then(|slot| self.aggregates.get(slot));
                    aggregate.into_iter().for_each(|it| survey.add(it));
                }
                survey.at += 1;
                if policy.index() >= self.sorter.policies().policies().len() {
                    survey.go_to(SurveyStage::Remaining);
                }
            }
            SurveyStage::Remaining => {
                // Aggregates that a swap has not taken over yet.
                let at = survey.at;
                let left = self.aggregates.policy(at).is_none();
                let aggregate = self.aggregates.get(at).filter(|_| left);
                aggregate.into_iter().for_each(|it| survey.add(it));
                survey.at += 1;
                if at >= self.aggregates.slots() || !self.aggregates.is_swapping() {
                    survey.go_to(SurveyStage::Waiting);
                }
            }
            SurveyStage::Waiting => {
                let way = survey.way;
                let classes = self.egress[way.index()].link().classes();
                let waiting = classes.and_then(|it| it.waiting(slot(survey.at), LINES));
                survey.waiting[way.index()] =
                    plus(survey.waiting[way.index()], waiting.unwrap_or_default());
                survey.at += number(LINES);
                if waiting.is_none() {
                    survey.next_way(SurveyStage::Waiting, SurveyStage::Classes);
                }
            }
            SurveyStage::Classes if !survey.classes => survey.go_to(SurveyStage::Done),
            SurveyStage::Classes => {
                let (way, number) = (survey.way, survey.at);
                survey.at += 1;
                let shared = self.egress[way.index()].link().classes();
                if !shared.is_some_and(|it| it.survey(number, survey.found(way))) {
                    survey.next_way(SurveyStage::Classes, SurveyStage::Done);
                }
            }
            SurveyStage::Done => return false,
        }
        true
    }

    /// Adds the gateway's own counters.
    fn complete(&self, survey: &mut Survey) {
        let trunks = self.trunks();
        let counts = trunks.iter().fold(self.counts.trunks, |all, it| all + it.counts);
        let (tally, acks) = (self.counts.tally, self.counts.acks);
        let beside = |way: Direction| self.egress[way.index()].link().beside_classes();
        let links = Direction::BOTH.map(|way| plus(beside(way), survey.waiting[way.index()]));
        let at_trunks: u32 = self.egress.iter().map(Egress::packets_at_trunks).sum();
        survey.whole = Some(Report {
            generation: self.sorter.generation().into(),
            received: self.counts.received,
            transmitted: self.counts.transmitted,
            held: links.iter().map(|link| link.packets).sum::<u32>()
                + at_trunks
                + self.sorter.held(),
            link: links,
            link_mechanisms: Direction::BOTH
                .map(|way| self.egress[way.index()].link().mechanisms()),
            link_marking: Direction::BOTH.map(|way| self.egress[way.index()].link().marks()),
            control: self.control(),
            drops: tally.drops,
            marks: tally.marks,
            absorbed: acks.absorbed + counts.absorbed,
            made: acks.made + counts.made,
            fragments_without_first: self.counts.without_first,
            flows: u32::try_from(self.sorter.flows().len()).unwrap_or(u32::MAX),
            untracked: self.sorter.flows().untracked(),
            unresponsive: self.unresponsive(),
            aggregates: Vec::new(),
        });
    }

    /// Reports of the trunks, in the order of the configuration.
    #[must_use]
    pub fn trunks(&self) -> Vec<trunk::TrunkReport> {
        let trunks = self.egress.iter().filter_map(Egress::trunks);
        trunks.flat_map(|trunks| trunks.iter()).map(Trunk::report).collect()
    }

    /// The number of each trunk, in the order of the trunks. A departing packet names by this number the
    /// trunk whose datagrams carry it.
    #[must_use]
    pub fn trunk_numbers(&self) -> Vec<NonZeroU16> {
        self.egress.iter().flat_map(Egress::trunk_numbers).collect()
    }

    /// The classes called `name`, up first. Takes time for other classes only if they have parts.
    #[must_use]
    pub fn class(&self, name: &str) -> Vec<ClassReport> {
        let shared = self.egress.iter().map(Egress::link).filter_map(AccessLink::classes);
        shared.filter_map(|classes| classes.report(name)).collect()
    }

    /// Backlog of a class of the link. `None`: the class `default`, or the only queue.
    #[must_use]
    pub fn backlog_of(&self, class: Option<ClassId>, direction: Direction) -> Backlog {
        let link = self.egress[direction.index()].link();
        let leaf = link.leaf(class);
        link.classes().map_or_else(|| link.backlog(), |classes| classes.backlog(leaf))
    }

    /// Up to `most` flows, each in the directions with packets. Active flows come first, then flows
    /// with more bytes.
    #[must_use]
    pub fn flows(&self, now: Time, most: usize) -> Vec<FlowReport> {
        let mut survey = FlowSurvey::of_most(most);
        while self.survey_flows(now, &mut survey) {
            survey.sort();
        }
        survey.report()
    }

    /// Adds the next part to `survey`, of bounded length. Returns `true` if more parts are missing. Packets
    /// may pass between two parts, and the caller has to [`sort`](FlowSurvey::sort) the survey.
    #[must_use]
    pub fn survey_flows(&self, now: Time, survey: &mut FlowSurvey) -> bool {
        if let Some(flows) = self.sorter.flows().some(survey.at, FLOWS) {
            survey.at += number(FLOWS);
            for (id, flow) in flows {
                let ways = Direction::BOTH.into_iter().filter(|way| flow.packets(*way) > 0);
                ways.for_each(|way| {
                    survey.add(now, (id, flow), self.sorter.flows().outer(flow, way), way);
                });
            }
            return true;
        }
        for _ in 0..SLICE {
            let Some((id, way)) = survey.next() else { return false };
            if let Some(flow) = self.sorter.flows().get(id).filter(|flow| flow.packets(way) > 0)
                && survey.is_new(flow, self.sorter.flows().outer(flow, way), way)
            {
                survey.reports.push(self.flow_report(now, id, flow, way));
            }
        }
        true
    }

    /// Counts of part number `part` of the flow table: flows with a packet within the last `span`,
    /// and those of them that the policies in force have classified. `None` after the last part.
    #[must_use]
    pub fn classified(&self, now: Time, span: Duration, part: u32) -> Option<[u32; 2]> {
        let flows = self.sorter.flows().some(part.checked_mul(number(FLOWS))?, FLOWS)?;
        let live = flows.filter(|(_, flow)| flow.idle(now) <= span);
        let by_these = |flow: &Flow| {
            let mut ways = Direction::BOTH.into_iter().filter(|way| flow.packets(*way) > 0);
            ways.any(|way| self.sorter.is_current(flow.handle(way)))
        };
        Some(live.fold([0, 0], |[live, current], (_, flow)| {
            [live + 1, current + u32::from(by_these(flow))]
        }))
    }

    /// Packets received and not yet transmitted.
    pub(super) fn held(&self) -> u32 {
        let inside = |it: &Aggregate| it.backlog().packets + it.acks().packets;
        let aggregates = self.aggregates.in_order().map(inside);
        let links = self.egress.iter().map(|egress| egress.link().backlog().packets);
        let trunks = self.egress.iter().map(Egress::packets_at_trunks);
        aggregates.chain(links).chain(trunks).sum::<u32>() + self.sorter.held()
    }

    /// The tunnels around `flow` in `direction`, outermost first.
    fn tunnels_of(&self, flow: &Flow, direction: Direction) -> Vec<TunnelReport> {
        let outer = self.sorter.flows().outer(flow, direction);
        let report = |tunnel: &Tunnel| {
            let [src, dst] = show(&tunnel.key);
            let vlan = Some(tunnel.vlan).filter(is_tag);
            TunnelReport { kind: tunnel.kind.name().into(), id: tunnel.id, src, dst, vlan }
        };
        outer.iter().flat_map(|outer| outer.tunnels()).map(report).collect()
    }

    /// The VLANs of `flow` in `direction`, outermost first.
    fn vlans_of(&self, flow: &Flow, direction: Direction) -> Vec<u16> {
        let second = self.sorter.flows().outer(flow, direction).map(|outer| outer.second_vlan);
        let tags = [Some(flow.packet(direction).vlan), second];
        tags.into_iter().flatten().filter(is_tag).collect()
    }

    fn flow_report(&self, now: Time, id: FlowId, flow: &Flow, direction: Direction) -> FlowReport {
        let key = flow.key(direction);
        let handle = flow.handle(direction);
        let aggregate = self.aggregates.now(handle);
        let rtt = flow.rtt();
        let places = self.places_of(id, flow, direction);
        let [src, dst] = show(&key);
        FlowReport {
            src,
            dst,
            vlans: self.vlans_of(flow, direction),
            tunnels: self.tunnels_of(flow, direction),
            protocol: key.protocol.0,
            direction,
            policy: aggregate.map(|aggregate| aggregate.policy().to_owned()),
            weight: aggregate.map_or(1, |aggregate| aggregate.share(handle.flow_index).weight),
            offered: Count { packets: flow.packets(direction), bytes: flow.bytes(direction).0 },
            waiting_bytes: places.iter().map(|(bytes, _)| bytes).sum(),
            held_acks: aggregate.map_or(0, |aggregate| aggregate.held_acks(handle.flow_index)),
            rtt_lan_us: micros(rtt.near),
            rtt_wan_us: micros(rtt.far),
            retransmissions: flow.retransmissions(direction).into(),
            tracking: flow.tracking().name().into(),
            idle_ms: u64::try_from(flow.idle(now).as_millis()).unwrap_or(u64::MAX),
            ignores_marks: self.ignores_marks(id, flow, direction),
            limit_text: String::new(),
            limit: self.limit(now, flow, direction, places),
        }
    }

    /// Every queue in which packets of `flow` can wait: the flow's frame bytes there, and the corresponding
    /// limit.
    fn places_of(&self, id: FlowId, flow: &Flow, direction: Direction) -> [(u64, Limit); 3] {
        let handle = flow.handle(direction);
        let aggregate = self.aggregates.now(handle);
        let bytes = aggregate.map_or(0, |it| it.waiting(handle.flow_index).0);
        let shared = aggregate.is_some_and(|it| it.is_shared(handle.flow_index));
        let policy = (bytes, Limit::Policy { bytes, shared });

        let trunk = aggregate.and_then(|_| self.aggregates.route(handle.aggregate).trunk);
        let at = trunk.zip(self.egress[direction.index()].trunks());
        let at = at.map(|(trunk, trunks)| (trunks.bytes_of(trunk, id).0, trunks.name(trunk)));
        let (bytes, name) = at.unwrap_or_default();
        let trunk = (bytes, Limit::Trunk { name: name.to_owned(), bytes });

        let (link, class) = (self.egress[direction.index()].link(), flow.class(direction));
        let bytes = link.bytes_of(class, id).0 + link.next_of(&self.pool, id).0;
        let limit = match link.classes() {
            Some(classes) => Limit::Class { name: classes.name(class), bytes },
            None => Limit::Link { bytes },
        };
        [policy, trunk, (bytes, limit)]
    }

    /// The limit of `flow`. Its packets wait at `places`.
    fn limit(
        &self,
        now: Time,
        flow: &Flow,
        direction: Direction,
        places: [(u64, Limit); 3],
    ) -> Limit {
        // Among queues with equal bytes, the first one counts.
        let most = places.into_iter().rev().max_by_key(|(bytes, _)| *bytes);
        if let Some((1.., limit)) = most {
            return limit;
        }
        let (data, back) = (flow.handle(direction), flow.handle(direction.reverse()));
        let [of, against] = [data, back].map(|it| self.aggregates.now(it));
        let held = |aggregate: Option<&Aggregate>, handle: Handle| {
            aggregate.map_or(0, |it| it.held_acks(handle.flow_index))
        };
        if let acks @ 1.. = held(of, data) {
            return Limit::HeldAcks { acks };
        }
        if let (Some(against), acks @ 1..) = (against, held(against, back)) {
            return Limit::IsHeld { policy: against.policy().to_owned(), acks };
        }
        let segment = flow.connection().mss(direction.reverse()).map_or(DEFAULT_MSS, u32::from);
        if room(flow, direction).is_some_and(|room| room < segment) {
            return Limit::Receiver;
        }
        let left = of.and_then(|it| it.window_left(data.flow_index));
        if left.is_some_and(|left| left < Bytes(segment.into())) {
            return Limit::Window;
        }
        if flow.idle(now) > SILENT { Limit::Silent } else { Limit::Sender }
    }
}

/// A flow without a packet for this time is silent. The sharing of tokens uses the same second.
const SILENT: Duration = Duration::from_secs(1);

/// RFC 9293, section 3.7.1: the segment size if a receiver does not state one.
const DEFAULT_MSS: u32 = 536;

/// Free bytes in the receiver's window beyond the data that was sent, if they are known.
fn room(flow: &Flow, direction: Direction) -> Option<u32> {
    let (seen, back) = (flow.connection(), direction.reverse());
    let edge = seen.ack(back)?.wrapping_add(seen.window(back)?);
    let sent = seen.next_seq(direction)?;
    Some(if before(sent, edge) { edge.wrapping_sub(sent) } else { 0 })
}

/// Source and destination of `key`, each as address and port. A frame without IP has the name of its ethertype in
/// place of them.
pub(super) fn show(key: &FlowKey) -> [String; 2] {
    let ends = [key.src, key.dst];
    if key.is_opaque() {
        return ends.map(|end| ethertype(end.port));
    }
    ends.map(|end| std::net::SocketAddr::new(end.address(), end.port).to_string())
}

/// The name of an ethertype. The number 0 means a frame that has a length in place of the ethertype.
fn ethertype(number: u16) -> String {
    let name = match number {
        0 => "IEEE 802.3",
        0x0806 => "ARP",
        0x8863 | 0x8864 => "PPPoE",
        0x8847 | 0x8848 => "MPLS",
        0x8809 => "slow protocols",
        0x888e => "EAPOL",
        0x88cc => "LLDP",
        number => return format!("ethertype {number:#06x}"),
    };
    name.to_owned()
}

fn micros(span: Option<Duration>) -> Option<u64> {
    span.and_then(|span| u64::try_from(span.as_micros()).ok())
}

/// Returns `true` for the identifier of a VLAN. Packets of the simulator have VLAN 0.
fn is_tag(vlan: &u16) -> bool {
    ![0, NO_VLAN].contains(vlan)
}

#[cfg(test)]
mod tests {
    use tidegate_core::packet::{Endpoint, Protocol};

    use super::*;

    fn shown(src: Endpoint, protocol: Protocol) -> String {
        let [src, _] = show(&FlowKey { src, dst: Endpoint::default(), protocol });
        src
    }

    /// Catches: an IPv4 packet with protocol number 0 shown as a frame without IP.
    #[test]
    fn packets_of_ip_are_shown_by_their_addresses_whatever_their_protocol_number_is() {
        let key = FlowKey {
            src: Endpoint::v4([192, 0, 2, 1], 0),
            dst: Endpoint::v4([192, 0, 2, 2], 0),
            protocol: Protocol(0),
        };
        assert_eq!(show(&key), ["192.0.2.1:0", "192.0.2.2:0"]);
        assert_eq!(show(&key.reverse()), ["192.0.2.2:0", "192.0.2.1:0"]);
    }

    /// Catches: an ethertype shown as a port; a name for a port of TCP.
    #[test]
    fn frames_without_ip_are_shown_by_their_ethertype() {
        let opaque = |port| shown(Endpoint::v6([0; 16], port), Protocol::OPAQUE);
        assert_eq!(opaque(0x0806), "ARP");
        assert_eq!(opaque(0x88b5), "ethertype 0x88b5");
        assert_eq!(shown(Endpoint::v6([0; 16], 0x0806), Protocol::TCP), "[::]:2054");
    }
}
