//! The whole path of a packet through a gateway: arrival, conditioning and departure.

use std::iter;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use tidegate_core::link::Overhead;
use tidegate_core::marking::MarkingSpec;
use tidegate_core::packet::{Direction, Ecn, FlowKey};
use tidegate_core::qdisc::{QdiscSpec, with_marking};
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Machine, Packet, PortId, Rate, Time};
use tidegate_gateway::policy::{Action, Conditioning, Filter, Mode, Policy, PolicySet};
use tidegate_gateway::{Gateway, GatewayConfig};

use super::mixes::{self, Mix};
use super::{Case, flows, index, sharing};

/// A gateway, and packets of flows that it knows. Packets arrive at the rate of the profile.
pub(super) struct Through {
    gateway: Gateway,
    packets: Vec<(Packet, Direction)>,
    at: usize,
    /// Number of segments that a flow sends before the next flow sends, and how many of these
    /// remain.
    window: u32,
    remaining: u32,
    now: Time,
}

/// A gateway without policies and without a link rate.
pub(super) fn unmanaged(flows: u32, seed: u64) -> anyhow::Result<Through> {
    Through::new(PolicySet::default(), data(flows, seed), None, seed)
}

/// A gateway with one policy that shapes all traffic by logical partitions, one for each flow.
/// Packets wait in the queue of the policy.
pub(super) fn shaped(flows: u32, seed: u64) -> anyhow::Result<Through> {
    let policies = PolicySet::new(vec![shaping()?])?;
    let mut through = Through::new(policies, data(flows, seed), None, seed)?;
    through.now += Duration::from_secs(1);
    for _ in 0..BACKLOG {
        through.offer();
    }
    Ok(through)
}

/// Like [`shaped`], but the queue has a marking (`none` for no marking), and packets are
/// ECN-capable.
///
/// Each flow sends a whole window before the next flow sends. The windows of all flows take one
/// round trip. If there are more flows than segments in a round trip, a window is one segment.
pub(super) fn marked(marking: &str, flows: u32, seed: u64) -> anyhow::Result<Through> {
    let name: StrDeserializer<'_, Error> = marking.into_deserializer();
    let marking = (marking != "none").then(|| MarkingSpec::deserialize(name)).transpose()?;
    let mut policy = shaping()?;
    if let Action::Shape { queue, .. } = &mut policy.action {
        *queue = with_marking(queue.clone(), marking);
    }
    let mut packets = data(flows, seed);
    packets.iter_mut().for_each(|(packet, _)| packet.ecn = Ecn::Ect0);
    let mut through = Through::new(PolicySet::new(vec![policy])?, packets, None, seed)?;
    through.window = (IN_ROUND_TRIP / flows).max(1);
    through.now += Duration::from_secs(1);
    for _ in 0..BACKLOG {
        through.offer();
    }
    Ok(through)
}

/// A gateway with a link rate, this queue at the link, and a shaping policy. All its flows have
/// sent a packet and have been idle since.
pub(crate) fn idle(flows: u32, queue: QdiscSpec) -> anyhow::Result<Gateway> {
    let policies = PolicySet::new(vec![shaping()?])?;
    let config = GatewayConfig { queue, ..config(Some(Rate::from_mbps(1_000)), flows, 1) };
    let mut through = Through::of(&config, policies, data(flows, 1));
    while let Some(at) = through.gateway.poll_timeout(through.now) {
        through.now = at;
        through.drain();
    }
    anyhow::ensure!(through.gateway.pool().in_use() == 0, "something still waits");
    through.now += LONG;
    through.drain();
    Ok(through.gateway)
}

/// A gateway with a mix of policies, all with action `pass`, and packets that match a policy.
///
/// All packets match a policy, so the number of policies is the only difference between
/// measurements. Without this rule, few random packets would match one of ten policies, but nearly
/// all would match one of ten thousand. Packets without a policy cost less.
pub(super) fn known_flows(mix: &str, policies: u32, seed: u64) -> anyhow::Result<Through> {
    let mut random = Random::new(seed, 0);
    let policies = mixes::policies(Mix::named(mix)?, policies, &mut random)?;
    let any = iter::repeat_with(|| mixes::packet(&policies, &mut random)).take(MOST_DRAWN);
    let wanted = any.filter(|(packet, way)| policies.lookup(packet, *way).is_some());
    let packets: Vec<_> = wanted.take(KNOWN).collect();
    anyhow::ensure!(packets.len() == KNOWN, "hardly a packet has a policy in \"{mix}\"");
    Through::new(policies, packets, None, seed)
}

/// A policy that shapes all traffic by logical partitions.
pub(super) fn shaping() -> anyhow::Result<Policy> {
    let profile = sharing::profile(Rate::from_mbps(1_000), Bytes(64 << 10))?;
    let allocation = sharing::spec("logical-partitions")?;
    let conditioning =
        Conditioning { profile, allocation, weights: Vec::new(), fair_between: Default::default() };
    let queue = QdiscSpec::PerFlow(Default::default());
    Ok(Policy {
        name: "everything".to_owned(),
        priority: 0,
        filter: Filter::default(),
        action: Action::Shape { conditioning, queue, ack_control: None },
        mode: Mode::Enforce,
        class: None,
        trunk: None,
    })
}

/// Number of flows in the cases that vary the policies.
const KNOWN: usize = 2_000;

/// Number of random packets after which the search for matching ones ends.
const MOST_DRAWN: usize = 100 * KNOWN;

/// Number of packets that wait if the load exceeds the profile.
const BACKLOG: usize = 200;

/// Longer than any round-trip time, but shorter than the idle timeout of a flow.
const LONG: Duration = Duration::from_secs(10);

/// Transmission time of a full-size frame at 1 Gbit/s.
const SPACING: Duration = Duration::from_nanos(12_112);

/// Number of full-size frames at 1 Gbit/s in a round trip of 97 ms.
const IN_ROUND_TRIP: u32 = 8_000;

/// A full-size upward data segment of each flow.
fn data(flows: u32, seed: u64) -> Vec<(Packet, Direction)> {
    let mut random = Random::new(seed, 1);
    let keys: Vec<FlowKey> = (0..flows).map(|number| flows::key(number, &mut random)).collect();
    keys.into_iter().map(|key| (flows::segment(key), Direction::Up)).collect()
}

/// A gateway on a link of `rate`.
pub(super) fn config(rate: Option<Rate>, flows: u32, seed: u64) -> GatewayConfig {
    GatewayConfig {
        rate: [rate; 2],
        overhead: Overhead::default(),
        queue: QdiscSpec::PerFlow(Default::default()),
        packets: 4_096,
        flows,
        shaping_interval: Duration::ZERO,
        shaping_triggers: Default::default(),
        fragments_without_first: Default::default(),
        trunks: Vec::new(),
        seed,
        scheduler: Default::default(),
    }
}

impl Through {
    fn new(
        policies: PolicySet,
        packets: Vec<(Packet, Direction)>,
        rate: Option<Rate>,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let config = config(rate, u32::try_from(packets.len())?, seed);
        Ok(Self::of(&config, policies, packets))
    }

    fn of(config: &GatewayConfig, policies: PolicySet, packets: Vec<(Packet, Direction)>) -> Self {
        let gateway = Gateway::new(config, policies, Time::ZERO);
        let mut through =
            Self { gateway, packets, at: 0, window: 1, remaining: 0, now: Time::ZERO };
        // Sends the first packet of each flow, so that the gateway knows all flows.
        for _ in 0..through.packets.len() {
            through.now += SPACING;
            through.offer();
            through.drain();
        }
        through
    }

    /// The next packet arrives.
    fn offer(&mut self) {
        if self.remaining == 0 {
            self.at = if self.at + 1 < self.packets.len() { self.at + 1 } else { 0 };
            self.remaining = self.window;
        }
        self.remaining -= 1;
        let (packet, direction) = &mut self.packets[self.at];
        if let Some(tcp) = &mut packet.tcp {
            tcp.seq = tcp.seq.wrapping_add(tcp.payload);
        }
        let port = if *direction == Direction::Up { Gateway::LAN } else { Gateway::WAN };
        if let Some(id) = self.gateway.pool().insert(*packet) {
            self.gateway.handle_packet(self.now, port, id);
        }
    }

    /// Acts as the driver after an arrival: sends all packets that may depart, and reads the next
    /// timeout.
    fn drain(&mut self) -> u64 {
        let mut sum = 0;
        for port in [Gateway::LAN, Gateway::WAN] {
            sum += self.drain_port(port);
        }
        sum + self.gateway.poll_timeout(self.now).map_or(0, |at| at.nanos() & 1)
    }

    fn drain_port(&mut self, port: PortId) -> u64 {
        let mut sent = 0;
        while let Some(id) = self.gateway.poll_transmit(self.now, port) {
            self.gateway.pool().release(id);
            sent += 2;
        }
        sent
    }
}

impl Case for Through {
    fn run(&mut self, operations: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..index(operations) {
            self.now += SPACING;
            self.offer();
            sum += self.drain();
        }
        sum
    }
}
