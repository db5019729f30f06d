//! TCP trunks: a trunk carries user packets from one gateway to another, at a rate that TCP congestion control finds.
//!
//! User packets wait at the sending gateway in the *tunnel queue*. A *bandwidth probe* decides how many of them may
//! depart (`probe`). The usual probe opens a few TCP connections between the two gateways, the *management
//! connections*. Their segments, the *management packets*, are TCP headers without payload. Each management packet that
//! TCP sends gives *credit* for VMSS (virtual maximum segment size) bytes of user packets (`management`). So a trunk of
//! four connections gets the bandwidth of four TCP connections.
//!
//! A trunk may also have a *guaranteed minimum bandwidth* (GMB), which departs without credit (`guarantee`). A
//! *ceiling* bounds the sum of both (`ceiling`). Congested routers drop management packets first, and TCP retransmits
//! these. The trunk never retransmits a user packet.
//!
//! Source: `trunking`, sections 2 (idea), 4 (implementation) and 6 (guarantees).
//! Differs:
//! - User packets get the DS codepoint AFx1 and management packets AFx3 (RFC 2597), so that routers drop management
//!   packets first. The routers of the paper use a mark of their own instead.
//! - The ACKs of management packets say nothing about user packets. The hosts retransmit lost user packets.

mod buffer;
mod ceiling;
mod change;
mod config;
mod epochs;
mod guarantee;
mod management;
mod packet;
mod probe;
mod pump;
mod report;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tunnel;
mod weight;
mod wire;

pub use buffer::{ALPHA, begin, required_buffer};
pub use config::{Config, Fallback, Probing, vegas};
pub use report::{TrunkCounters, TrunkReport, TrunkState};
pub use weight::MOST_WEIGHT;
pub use wire::{Encapsulation, TAG_LEN, USER_HEADER, Wire, datagram_len};

use crate::ack::EgressState;
use crate::packet::{Fifo, FlowId, FlowKey, Handover};
use crate::qdisc::Backlog;
use crate::random::Random;
use crate::{Bytes, Cx, PacketId, PacketPool, Rate, Time};
use guarantee::Guarantee;
use packet::network_len;
use probe::{BandwidthProbe, ProbeReceiver, TrunkOutput, TunnelArrival};
use tunnel::Tunnel;
use weight::TrunkWeight;

/// Kind of a packet that the other gateway sends to this trunk. The number identifies the management connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arriving {
    /// An ACK of management packets that this gateway has sent.
    Feedback(u16),
    /// A management packet that the other gateway has sent.
    Probe(u16),
}

/// A trunk, as seen by the gateway at one end. It sends user packets to the other gateway, and acknowledges the management
/// packets that the other gateway sends.
///
/// Each method appends the packets that depart to `out`: user packets, management packets and ACKs.
///
/// # Call order
///
/// 1. [`send`](Self::send) each user packet. It departs at once, or waits for credit.
/// 2. [`handle`](Self::handle) each received packet whose flow key is in [`arriving`](Self::arriving).
/// 3. Call [`handle_timeout`](Self::handle_timeout) at [`poll_timeout`](Self::poll_timeout).
/// 4. Transmit all packets of `out` after each call.
///
/// # Time
///
/// The time of a call is `cx.now`. It must not run backwards. Early calls of `handle_timeout` are harmless. Late
/// calls delay retransmissions of management packets, and user packets of the guarantee.
///
/// # Example
///
/// A trunk carries 100 user packets over a path with a delay of 10 ms.
///
/// ```
/// use std::collections::HashMap;
/// use tidegate_core::packet::{Fifo, Network};
/// use tidegate_core::qdisc::QdiscSpec;
/// use tidegate_core::trunk::{Config, Trunk};
/// use tidegate_core::{Bytes, Cx, Packet, PacketId, PacketPool, Tally, Time, tcp};
///
/// let near = Config {
///     name: "branch".to_owned(),
///     local: [192, 0, 2, 1].into(),
///     peer: [192, 0, 2, 2].into(),
///     port: 4_000,
///     connections: 4,
///     vmss: Bytes(1_500),
///     guarantee: None,
///     ceiling: None,
///     queue: QdiscSpec::DropTail(Default::default()),
///     assured: 1,
///     tcp: tcp::Config::default(),
///     fallback: Default::default(),
///     probing: Default::default(),
///     weight: None,
///     wire: Default::default(),
/// };
/// let far = Config { local: near.peer, peer: near.local, ..near.clone() };
/// let mut ends = [&near, &far].map(|config| Trunk::new(config, 1, Time::ZERO));
/// let keys = [0, 1].map(|end: usize| ends[end].arriving().collect::<HashMap<_, _>>());
///
/// let (mut pool, mut tally) = (PacketPool::with_capacity(1_024), Tally::default());
/// // Packets in flight to each end.
/// let mut path: [Vec<PacketId>; 2] = Default::default();
/// let (mut now, mut delivered) = (Time::ZERO, 0);
/// while delivered < 100 {
///     for end in [0, 1] {
///         let mut out = Fifo::new();
///         let mut cx = Cx { now, pool: &mut pool, tally: &mut tally };
///         for packet in std::mem::take(&mut path[end]) {
///             match keys[end].get(&cx.pool[&packet].key) {
///                 Some(kind) => ends[end].handle(&mut cx, *kind, packet, &mut out),
///                 None => {
///                     delivered += 1;
///                     cx.pool.release(packet);
///                 }
///             }
///         }
///         if now == Time::ZERO && end == 0 {
///             for _ in 0..100 {
///                 let user = Packet { len: 1_514, network: Network::Ipv4, ..Packet::default() };
///                 let user = cx.pool.insert(user).unwrap();
///                 ends[end].send(&mut cx, user, &mut out);
///             }
///             assert!(ends[end].backlog().packets > 90, "there is no credit yet");
///         }
///         ends[end].handle_timeout(&mut cx, &mut out);
///         while let Some(packet) = out.pop(cx.pool) {
///             path[1 - end].push(packet);
///         }
///     }
///     now += std::time::Duration::from_millis(10);
///     assert!(now < Time::from_secs(5));
/// }
/// assert_eq!(tally.drops.total(), 0);
/// ```
pub struct Trunk {
    config: Config,
    tunnel: Tunnel,
    guarantee: Option<Guarantee>,
    probe: Box<dyn BandwidthProbe>,
    weight: Option<TrunkWeight>,
    receiver: Box<dyn ProbeReceiver>,
    counts: TrunkCounters,
}

impl Trunk {
    /// An idle trunk. It sends its first packet to the other gateway when the first user packet arrives.
    #[must_use]
    pub fn new(config: &Config, seed: u64, now: Time) -> Self {
        let random = |part| Random::named(seed, &["trunk", &config.name, part]);
        let mut of_probe = random(probe::part(config.probing));
        let queue = config.queue.build(None, Random::new(of_probe.below(u64::MAX), 0));
        let (probe, receiver) = probe::build(config, of_probe, random("receiver"), now);
        let mut trunk = Self {
            config: config.clone(),
            tunnel: Tunnel::of(config, queue).under(config.ceiling, now),
            guarantee: config.guarantee.map(|rate| Guarantee::new(rate, now)),
            probe,
            weight: TrunkWeight::new(config, seed, now),
            receiver,
            counts: TrunkCounters::default(),
        };
        trunk.apply_weight();
        trunk
    }

    /// The configuration of the trunk.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Flow keys of the packets from the other gateway that end here, with their kinds.
    pub fn arriving(&self) -> impl Iterator<Item = (FlowKey, Arriving)> + '_ {
        (0..self.config.channels()).flat_map(|number| {
            let feedback = (self.config.key(number).reverse(), Arriving::Feedback(number));
            [feedback, (self.config.key_from_peer(number), Arriving::Probe(number))]
        })
    }

    /// Sends a user packet, or queues it.
    pub fn send(&mut self, cx: &mut Cx<'_>, packet: PacketId, out: &mut Fifo) {
        let arrival = if self.is_passing() {
            TunnelArrival::Past
        } else if self.tunnel.is_empty() {
            TunnelArrival::First
        } else {
            TunnelArrival::Queued
        };
        if let Some(weight) = self.weight.as_mut().filter(|_| arrival != TunnelArrival::Past) {
            weight.on_arrival(network_len(&cx.pool[&packet]));
        }
        let pump = self.probe.on_arrival(cx.now, &cx.pool[&packet], arrival);
        if arrival == TunnelArrival::Past && self.tunnel.is_empty() && self.tunnel.is_open(cx.now) {
            self.bypass(cx, packet, out);
        } else {
            self.tunnel.push(cx, packet);
        }
        if pump {
            self.pump(cx, out);
        }
        self.observe_backlog(cx.now);
    }

    /// Receives and consumes a packet from the other gateway. `kind` is the kind that
    /// [`arriving`](Self::arriving) assigns to its flow key.
    pub fn handle(&mut self, cx: &mut Cx<'_>, kind: Arriving, packet: PacketId, out: &mut Fifo) {
        self.counts.absorbed += 1;
        let mut to = TrunkOutput { cx, counts: &mut self.counts, out };
        match kind {
            Arriving::Feedback(number) => {
                let segment = to.take_in(packet);
                let (now, segment) = (to.cx.now, segment.as_ref());
                let window = self.probe.on_feedback(now, number, segment, to.counts);
                if let Some(window) = window {
                    self.tunnel.set_window(window);
                }
                self.pump(cx, out);
                self.observe_backlog(cx.now);
            }
            Arriving::Probe(number) => self.receiver.handle(&mut to, number, packet),
        }
    }

    /// DS codepoint of the user packets from the other gateway that the caller must pass to
    /// [`watch`](Self::watch). `None` if the trunk need not see user packets.
    #[must_use]
    pub const fn watches(&self) -> Option<u8> {
        match self.config.probing {
            Probing::Management | Probing::Vegas => None,
            Probing::Epochs => Some(self.config.user_dscp()),
        }
    }

    /// Notes a user packet from the other gateway. The packet itself is forwarded.
    pub fn watch(&mut self, cx: &mut Cx<'_>, packet: &PacketId, out: &mut Fifo) {
        let mut to = TrunkOutput { cx, counts: &mut self.counts, out };
        self.receiver.watch(&mut to, packet);
    }

    /// Runs expired timers, and sends the packets that may depart at `cx.now`.
    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        self.adjust_weight(cx.now);
        self.pump(cx, out);
        self.observe_backlog(cx.now);
        self.receiver.send_due_acks(&mut TrunkOutput { cx, counts: &mut self.counts, out });
    }

    /// Latest time for the next call of [`handle_timeout`](Self::handle_timeout). Early calls are harmless.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let guarantee = self.guarantee.as_ref().and_then(Guarantee::due);
        let sender = Time::earliest(guarantee, self.probe.poll_timeout(&self.tunnel));
        let weight = self.weight.as_ref().map(TrunkWeight::poll_timeout);
        Time::earliest(Time::earliest(sender, weight), self.receiver.poll_timeout())
    }

    /// Sends all queued packets at once, without credit. If the trunk encapsulates user packets, these packets are
    /// encapsulated too.
    pub fn flush(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        let carries = self.carries();
        let tunnel = &mut self.tunnel;
        while let Some(packet) = if carries { tunnel.pop(cx) } else { tunnel.take_out(cx) } {
            out.push(cx.pool, packet);
        }
    }

    /// Passes queue, window and round-trip time to the rate adjuster if its next sample is due.
    /// Applies a new weight.
    fn adjust_weight(&mut self, now: Time) {
        let Some(weight) = &mut self.weight else { return };
        let (window, least_rtt) = self.probe.path();
        let queue = self.tunnel.backlog().bytes;
        if let Some(weight) = weight.handle_timeout(now, queue, window, least_rtt) {
            self.probe.set_weight(weight);
        }
    }

    /// Sets the weight of the bandwidth probe to the weight in force.
    fn apply_weight(&mut self) {
        if let Some(weight) = &self.weight {
            self.probe.set_weight(weight.weight());
        }
    }

    /// Notifies the rate adjuster whether the tunnel queue is backlogged.
    fn observe_backlog(&mut self, now: Time) {
        let backlogged = !self.tunnel.is_empty();
        if let Some(weight) = &mut self.weight {
            weight.observe(now, backlogged);
        }
    }

    /// Backlog of the tunnel queue.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.tunnel.backlog()
    }

    /// Frame bytes of `flow` in the tunnel queue.
    #[must_use]
    pub fn bytes_of(&self, flow: FlowId) -> Bytes {
        self.tunnel.bytes_of(flow)
    }

    /// Returns `true` if user packets that depart now are encapsulated in UDP datagrams.
    pub fn carries(&self) -> bool {
        self.config.wire.overhead(self.config.local) > 0 && !self.is_passing()
    }

    /// Returns `true` if user packets bypass the trunk because the other gateway is considered dead.
    fn is_passing(&self) -> bool {
        self.config.fallback == Fallback::Direct && self.probe.peer_is_dead()
    }

    /// Backlog and egress rate of the tunnel queue, for ACK control of the flows that wait there.
    #[must_use]
    pub fn ahead(&self) -> EgressState {
        let guaranteed = self.guarantee.as_ref().map_or(0, |it| it.rate().bps());
        let rate = self.probe.rate().saturating_add(guaranteed).max(1);
        self.tunnel.ahead(self.tunnel.at_most(Rate::from_bps(rate)))
    }

    /// The sender of `flow` no longer responds to ACKs, so ACK control ends for its waiting packets.
    pub fn end_ack_control(&mut self, pool: &mut PacketPool, flow: FlowId) {
        self.tunnel.end_ack_control(pool, flow);
    }

    /// Moves queued packets of a flow to another queue index. Returns `true` if there were any.
    pub fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
        self.tunnel.hand_over(pool, what)
    }

    /// The counters of the trunk.
    #[must_use]
    pub const fn counts(&self) -> TrunkCounters {
        self.counts
    }

    /// Counters and present state of the trunk.
    #[must_use]
    pub fn report(&self) -> TrunkReport {
        TrunkReport {
            name: self.config.name.clone(),
            counts: self.counts,
            backlog: self.backlog(),
            state: self.probe.state(),
            weight: self.weight.as_ref().map(TrunkWeight::report),
        }
    }
}
