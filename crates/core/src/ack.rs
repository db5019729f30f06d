//! ACK control: mechanisms that slow down senders by holding their ACKs or reducing their windows.
//!
//! An ACK requests data: its sender may send as much as the ACK acknowledges, or twice as much in slow start.
//! So the gateway holds the ACK instead of the data. The default release rule, the gate, is one inequality.
//! Flows with held ACKs take turns. The oldest held ACK of a flow departs if, at every account (table below)
//! on the path of its data,
//!
//! `backlog + outstanding credit < target`.
//!
//! Otherwise it is held for at most `max_hold`. ACKs that must not wait (of SYN, FIN and RST, of ended or
//! unresponsive flows, or while buffers are scarce) depart at once. `release.rs` has the other release rules.
//!
//! | Word | Meaning | Where |
//! |---|---|---|
//! | account | the gate of the aggregate, and that of its bottleneck: trunk, class or link | `release/gate.rs`, `egress.rs` |
//! | backlog | bytes of ACK-controlled flows that wait or have passed before they conform | [`Queue::own`], [`EgressState::waiting`] |
//! | outstanding credit | bytes that departed ACKs requested and that have not arrived yet | `release/credit.rs` |
//! | target | bytes that the rate carries in a round trip to the sender, and two frames of 1,514 bytes; at least three | `CreditAccount::within` in `egress.rs` |
//!
//! An ACK control has two independent parts. The window rule limits how much data a sender has in flight
//! (`windows.rs`). The release rule decides when the next held ACK departs (`release.rs`). The tuned
//! constants stand in `constants.rs`, with their sources.
//!
//! Source: `postack`, R001-9 P3 (the gate of a class) and R001-3 (windows).
//!
//! To add a mechanism, write `ack/<name>.rs` with a `Config` and its `build`. Then add its `mod` line, and
//! its line in `registry!` below. Policies select it by its name.

mod constants;
mod egress;
mod hold;
mod postack;
mod record;
mod release;
mod reserve;
mod shares;
mod takers;
mod tcr;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod uncalled;
mod waiting;
mod windows;

use std::time::Duration;

use crate::meter::Profile;
use crate::packet::{Direction, Fifo, FlowIndex, Packet};
use crate::registry;
use crate::{Bytes, Cx, PacketId, Rate, Time, choice};

pub use egress::EgressGates;
pub use egress::{CreditAccount, EgressState};
pub use hold::Counts;
pub use waiting::Waiting;

/// A mechanism that controls the senders of an aggregate by their ACKs.
///
/// Sides are named from the data of the aggregate: its sender is near, its receiver far.
///
/// # Call order
///
/// 1. [`on_data`](Self::on_data) for each data packet, before it is queued.
/// 2. [`on_ack`](Self::on_ack) for each returning packet. The mechanism takes it over: it holds the packet,
///    or appends it to `out`.
/// 3. [`serve`](Self::serve) after each of these calls, and at [`ready_at`](Self::ready_at).
/// 4. [`withdraw`](Self::withdraw) or [`discard`](Self::discard), and then [`leave`](Self::leave), when the
///    flow ends.
///
/// The ACKs of a flow depart in the order of their arrival.
///
/// # Time
///
/// `now` does not run backwards. Early calls of `serve` are harmless. Late calls hold ACKs for longer than
/// the bound of the mechanism.
///
/// # Example
///
/// An ACK is held while a long queue waits, and departs when the queue has drained.
///
/// ```
/// use tidegate_core::ack::{AckSpec, Known, Queue, Sender};
/// use tidegate_core::packet::{Fifo, FlowIndex, Network, TcpFlags, TcpSegment};
/// use tidegate_core::meter::Profile;
/// use tidegate_core::{Bytes, Cx, Packet, PacketPool, Rate, Tally, Time};
///
/// let spec: AckSpec = toml::from_str("kind = 'postack'").unwrap();
/// let profile = Profile::new(Rate::from_mbps(8), None, Bytes(15_140), Bytes(1_514)).unwrap();
/// let mut control = spec.build(&profile, Time::ZERO);
/// let (mut pool, mut tally) = (PacketPool::with_capacity(16), Tally::default());
/// let flow = FlowIndex(0);
///
/// let known =
///     Known { member: flow, sent: Some(1_448), scale: Some(7), weight: 1, ..Known::default() };
/// let mut queue = Queue::default();
/// queue.ahead.room = Bytes(u64::MAX);
/// let mut out = Fifo::new();
/// for (ms, number, waiting) in [(0, 0, 0), (40, 1_448, 1_000_000)] {
///     // The first ACK is that of the handshake. The second one acknowledges a segment.
///     if number > 0 {
///         let tcp = TcpSegment { payload: number, ..TcpSegment::default() };
///         let data = Packet { len: 1_514, cost: 1_514, tcp: Some(tcp), ..Packet::default() };
///         let sender = control.on_data(Time::ZERO, flow, &data, Bytes::ZERO);
///         assert_eq!(sender, Sender::Responsive);
///     }
///     queue.own = Bytes(waiting);
///     let (window, flags) = (512, TcpFlags(TcpFlags::ACK));
///     let tcp = TcpSegment { ack: number, window, flags, ..TcpSegment::default() };
///     let ack = Packet { len: 66, network: Network::Ipv4, tcp: Some(tcp), ..Packet::default() };
///     let packet = pool.insert(ack).unwrap();
///     let mut cx = Cx { now: Time::from_millis(ms), pool: &mut pool, tally: &mut tally };
///     control.on_ack(&mut cx, &known, packet, queue, &mut out);
///     control.serve(&mut cx, queue, &mut out);
/// }
/// assert_eq!((out.packets(), control.held(flow)), (1, 1));
///
/// queue.own = Bytes::ZERO;
/// let mut cx = Cx { now: Time::from_millis(90), pool: &mut pool, tally: &mut tally };
/// control.serve(&mut cx, queue, &mut out);
/// assert_eq!((out.packets(), control.held(flow)), (2, 0));
/// ```
pub trait AckControl: Send {
    /// Returns the side of the gateway on which the bottleneck is.
    fn placement(&self) -> Placement;

    /// Changes the profile of the aggregate.
    fn set_profile(&mut self, now: Time, profile: &Profile);

    /// Notes a data packet of `member` and returns whether its sender responds to ACKs. `waiting` bytes of
    /// the member are already queued. Packets of an unresponsive sender are treated like UDP.
    fn on_data(&mut self, now: Time, member: FlowIndex, packet: &Packet, waiting: Bytes) -> Sender;

    /// Offers `packet`, which returns to the sender of a flow. Packets that depart at once are appended to `out`, in
    /// order.
    fn on_ack(
        &mut self,
        cx: &mut Cx<'_>,
        known: &Known,
        packet: PacketId,
        queue: Queue,
        out: &mut Fifo,
    );

    /// Appends packets that may depart now to `out`. Returns the data that the senders were asked
    /// for.
    fn serve(&mut self, cx: &mut Cx<'_>, queue: Queue, out: &mut Fifo) -> CreditAccount;

    /// Next time at which a packet may depart without another event.
    fn ready_at(&self) -> Option<Time>;

    /// Number of held ACKs of `member`.
    fn held(&self, member: FlowIndex) -> u32;

    /// Bytes that the sender of `member` may still send in a window that the gateway reduced. `None` if the
    /// sender has its receiver's own window.
    fn left(&self, member: FlowIndex) -> Option<Bytes>;

    /// Returns `true` if the sender of `member` responds to ACKs.
    fn responds(&self, _member: FlowIndex) -> bool {
        true
    }

    /// Number of senders that do not respond.
    fn unresponsive(&self) -> u32 {
        0
    }

    /// Appends all held packets of `member` to `out`, in order.
    fn withdraw(&mut self, cx: &mut Cx<'_>, member: FlowIndex, out: &mut Fifo);

    /// Stops the held ACKs of `member` for at most one second, because a SYN claims its ports.
    fn stop(&mut self, now: Time, member: FlowIndex);

    /// The connection of `member` still exists: its held ACKs may depart again.
    fn resume(&mut self, cx: &mut Cx<'_>, member: FlowIndex);

    /// The connection of `member` has ended: drops its held ACKs.
    fn discard(&mut self, cx: &mut Cx<'_>, member: FlowIndex);

    /// Sequence state of `member` for the ACK control that takes over its flow, if it is known.
    fn numbers(&self, member: FlowIndex) -> Option<Numbers>;

    /// Sets the sequence state of the new member `member`, as its previous ACK control knew it.
    fn set_numbers(&mut self, member: FlowIndex, numbers: Numbers);

    /// Removes a member. None of its packets is held.
    fn leave(&mut self, member: FlowIndex);

    /// Counters of the mechanism, and the number of held ACKs.
    fn counts(&self) -> Counts;
}

/// The sender of a flow, as it responds to ACKs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sender {
    /// It sends the data that its ACKs request.
    Responsive,
    /// It has sent too much data that no ACK requested, and was responsive until this packet.
    StopsResponding,
    /// It was unresponsive already.
    Unresponsive,
}

/// Sequence state of a flow: the last departed ACK, and the window and SACK blocks that it showed.
#[derive(Clone, Copy, Debug)]
pub struct Numbers(hold::HeldFlow);

/// Facts about a flow, as the gateway between its two ends observes them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Known {
    /// Index of the flow in the aggregate of its data.
    pub member: FlowIndex,
    /// The sequence number after the highest that the sender of the data sent.
    pub sent: Option<u32>,
    /// Window scale of the receiver. `None` unless the SYNs were seen.
    pub scale: Option<u8>,
    /// The longest segment that both ends accept. `None` unless their SYNs were seen.
    pub mss: Option<u16>,
    /// Shortest round trip to the sender and back.
    pub near: Option<Duration>,
    /// Shortest round trip to the receiver and back.
    pub far: Option<Duration>,
    /// AccECN or MPTCP was negotiated: each ACK is valid only with its own number.
    pub extended: bool,
    /// Weight of the flow relative to the other members.
    pub weight: u32,
}

/// State of an aggregate's queue and of its egress. Held ACKs depart according to this state.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Queue {
    /// Charged bytes of the aggregate's ACK-controlled flows that wait in the queue, or have passed before
    /// they conform.
    pub own: Bytes,
    /// Number of packets of other flows that wait in the queue too.
    pub others: u64,
    /// Each flow has its own tokens, and unused tokens are not lent to other flows.
    pub apart: bool,
    /// Data passes the aggregate before tokens pay for it.
    pub passes: bool,
    /// Total of the charged bytes that other flows have sent.
    pub left: Bytes,
    /// Tokens in the bucket, less the tokens that packets still owe, and the peak rate at which they may be spent.
    pub burst: Option<(Bytes, Rate)>,
    /// State of the egress.
    pub ahead: EgressState,
}

choice! {
    /// Place where data of an ACK-controlled flow waits.
    #[derive(Default)]
    pub enum Placement {
        /// By direction: data from the LAN as `upload`, data from the WAN as `download`.
        Auto = "auto" [default],
        /// The bottleneck is downstream of the gateway: data waits in the aggregate's queue.
        Upload = "upload",
        /// The bottleneck is upstream of the gateway: data passes at once and is charged.
        Download = "download",
    }
}

impl Placement {
    /// Returns `true` if data in `direction` passes at once.
    #[must_use]
    pub fn passes(self, direction: Direction) -> bool {
        match self {
            Self::Auto => direction == Direction::Down,
            Self::Upload => false,
            Self::Download => true,
        }
    }
}

registry! {
    /// An ACK control and its parameters, as a policy names them.
    AckSpec, "an ACK control", build(profile: &Profile, now: Time) -> AckControl:
    /// Holds ACKs in place of the data that they request.
    PostAck => postack, "postack";
    /// Reduces windows to the bytes that the rate needs, and paces ACKs.
    Tcr => tcr, "tcr";
}
