//! Queue disciplines: queues, each with a rule that selects the packets to drop or to mark.
//!
//! To add a discipline, write `qdisc/<name>.rs` with a `Config` and its `build`. Then add a `mod`
//! line and a line of `registry!` below. Policies, the simulator and the live gateway then select
//! the discipline by its name.

mod codel;
mod detector;
mod drop_tail;
mod ered;
mod fq_codel;
mod hosts;
mod law;
mod length;
mod longest;
mod managed;
mod marked;
mod per_flow;
mod pi;
mod pie;
mod red;
mod sparing;
#[cfg(test)]
mod testing;
mod thinning;
mod trunk_fifo;

pub use length::Measure;
pub use marked::{Marked, with_marking};
pub use pi::{Gain, Gains, pi_design};

use crate::packet::{Controlled, Facts, FlowFifo, Handover, QueueIndex};
use crate::random::Random;
use crate::reports::{Parts, Quantify, ReportValue};
use crate::{Bytes, Cx, Packet, PacketId, PacketPool, Rate};
use crate::{registry, report};

/// A queue of packets.
///
/// The queue keeps the packets of each flow in order. [`Packet::queue_index`](crate::Packet::queue_index) is
/// the index of a packet's flow. [`dequeue`](Self::dequeue) lets the discipline select the next
/// packet. [`dequeue_flow`](Self::dequeue_flow) lets the caller select the flow.
///
/// # Call order
///
/// [`enqueue`](Self::enqueue) takes over the packet. The queue keeps the packet, or drops it
/// through the [`Cx`]. The caller dequeues a packet only if it can transmit the packet now, and
/// then owns it. Dequeuing may drop further packets, so [`backlog`](Self::backlog) may fall by more
/// than one packet.
///
/// # Time
///
/// Every call states the time as `cx.now`, which must not run backwards. Disciplines that measure
/// no delay, such as `drop-tail`, ignore the time. No discipline has a timer: a queue acts only
/// when it is called.
///
/// # Example
///
/// A queue of 3,000 bytes drops the third of three full-size packets.
///
/// ```
/// use tidegate_core::qdisc::QdiscSpec;
/// use tidegate_core::random::Random;
/// use tidegate_core::{Cx, Packet, PacketPool, Reason, Tally, Time};
///
/// let spec: QdiscSpec = toml::from_str("kind = 'drop-tail'\nlimit = '3 kB'").unwrap();
/// let mut queue = spec.build(None, Random::new(1, 0));
/// let (mut pool, mut tally) = (PacketPool::with_capacity(8), Tally::default());
/// for _ in 0..3 {
///     let packet = pool.insert(Packet { len: 1_500, ..Packet::default() }).unwrap();
///     queue.enqueue(&mut Cx { now: Time::ZERO, pool: &mut pool, tally: &mut tally }, packet);
/// }
/// assert_eq!(queue.backlog().packets, 2);
/// assert_eq!(tally.drops.of(Reason::QueueFull), 1);
///
/// let mut cx = Cx { now: Time::from_millis(1), pool: &mut pool, tally: &mut tally };
/// let first = queue.dequeue(&mut cx).unwrap();
/// pool.release(first);
/// assert_eq!((queue.backlog().packets, pool.in_use()), (1, 1));
/// ```
pub trait Qdisc: Send {
    /// Adds `packet` to the queue. May drop this packet, or others in its place, through `cx`.
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId);

    /// Adds `packet`, which this queue had accepted before, and which [`dequeue_newest`](Self::dequeue_newest)
    /// returned. A discipline that decides on arriving packets overrides this method: it does not mark or drop the
    /// packet a second time, unless there is no room.
    fn put_back(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        self.enqueue(cx, packet);
    }

    /// Removes the next packet in the discipline's own order.
    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId>;

    /// Removes the oldest packet of the flow `member`. The packet has the length that
    /// [`head`](Self::head) returned.
    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: QueueIndex) -> Option<PacketId>;

    /// Removes the newest packet, for a caller that will drop it. `None` if the discipline does not
    /// know its newest packet.
    fn dequeue_last(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let _ = cx;
        None
    }

    /// Removes the newest packet of `flow`, for a caller that moves all packets of the flow to another queue.
    ///
    /// A discipline with state for each flow or packet overrides this method.
    fn dequeue_newest(&mut self, cx: &mut Cx<'_>, flow: QueueIndex) -> Option<PacketId> {
        self.packets_mut().pop_flow_last(cx.pool, flow)
    }

    /// The packets in the queue, by flow.
    fn packets(&self) -> &FlowFifo;

    /// The packets in the queue, by flow. Outside of the discipline, this is for [`hand_over`](Self::hand_over) only.
    fn packets_mut(&mut self) -> &mut FlowFifo;

    /// Assigns packets of one flow to another flow index. The packets keep their order and their
    /// positions in the queue. Returns `true` if any packet was reassigned.
    ///
    /// A discipline with a queue for each flow overrides this method, to schedule the other flow.
    fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
        self.packets_mut().hand_over(pool, what)
    }

    /// Charged bytes of the oldest packet of the flow `member`.
    fn head(&self, pool: &PacketPool, member: QueueIndex) -> Option<Bytes> {
        self.packets().peek_flow(pool, member).map(Packet::charged)
    }

    /// Packets and bytes in the queue.
    fn backlog(&self) -> Backlog {
        let all = self.packets();
        Backlog { packets: all.packets(), bytes: all.bytes() }
    }

    /// Frame bytes of the flow `member` in the queue.
    fn bytes_of(&self, member: QueueIndex) -> Bytes {
        self.packets().bytes_of(member)
    }

    /// Length of the longest packet that an empty queue would return unchanged at once. `None` if
    /// the queue changes every packet.
    fn passes(&self) -> Option<Bytes> {
        None
    }

    /// Returns `true` if all flows share one queue, so that [`enqueue`](Self::enqueue) and
    /// [`dequeue`](Self::dequeue) do not depend on flow indices.
    fn is_one_line(&self) -> bool {
        false
    }

    /// Calls `which` for each packet of the flow `member`, oldest first, until `which` returns
    /// `true`.
    fn visit(
        &self,
        pool: &mut PacketPool,
        member: QueueIndex,
        which: &mut dyn FnMut(&mut Packet) -> bool,
    ) {
        self.packets().visit(pool, member, which);
    }

    /// The sender of the flow `member` no longer responds to ACKs, so ACK control ends for its waiting packets.
    /// Returns these packets.
    fn end_ack_control(&self, pool: &mut PacketPool, member: QueueIndex) -> Controlled {
        let mut ended = Controlled::default();
        self.visit(pool, member, &mut |packet| {
            ended.add(packet);
            packet.facts = packet.facts.with(Facts::CONTROLLED, false);
            false
        });
        ended
    }

    /// The largest backlog in frame bytes. `None` if the discipline also drops packets for another
    /// reason.
    fn limit(&self) -> Option<Bytes> {
        None
    }

    /// Lifts limits that no file has set, other than [`limit`](Self::limit). Called before the first packet of a
    /// queue with a marking, which would not expect drops by such a limit.
    fn expect_marking(&mut self) {}

    /// The marking predictor of this queue, if any.
    fn marked(&self) -> Option<&Marked> {
        None
    }

    /// The marking predictor of this queue, if any.
    fn marked_mut(&mut self) -> Option<&mut Marked> {
        None
    }

    /// Sets the congestion window of the sender whose packets fill this queue.
    fn set_window(&mut self, window: Bytes) {
        let _ = window;
    }

    /// Sets the rate at which packets depart from now on.
    fn set_rate(&mut self, rate: Rate) {
        let _ = rate;
    }
}

report! {
    /// Content of a queue.
    #[derive(Copy, Eq)]
    pub Backlog {
        /// Number of packets.
        packets: u32;
        /// Total length of the frames in bytes.
        bytes: Bytes;
    }
}

impl Parts for Backlog {
    fn packets(&self) -> ReportValue {
        self.packets.quantity()
    }

    fn bytes(&self) -> ReportValue {
        self.bytes.quantity()
    }
}

registry! {
    /// The configuration of a queue discipline, as policy files contain it.
    ///
    /// `build` takes the rate at which the queue is served, if known, and a random generator.
    QdiscSpec, "a queue discipline", build(rate: Option<Rate>, random: Random) -> Qdisc:
    /// One queue in order of arrival. When it is full, arriving packets are dropped.
    DropTail => drop_tail, "drop-tail";
    /// A queue for each flow, served in round robin. When all queues together are full, the longest queue loses packets.
    PerFlow => per_flow, "per-flow";
    /// Random early detection: drops and marks become more likely as the average queue grows.
    Red => red, "red";
    /// RED that drops or marks packets in profile less often than packets out of profile.
    Ered => ered, "ered";
    /// A controller that holds the queue at a target length.
    Pi => pi, "pi";
    /// A controller that holds the queueing delay at a target.
    Pie => pie, "pie";
    /// Controlled delay: drops packets if the delay exceeds a target for longer than an interval.
    Codel => codel, "codel";
    /// A queue for each flow, served in round robin, with controlled delay in each queue.
    FqCodel => fq_codel, "fq-codel";
    /// Hosts share the rate equally, and so do the flows of each host. Each flow has controlled
    /// delay, and redundant ACKs are dropped.
    Hosts => hosts, "hosts";
    /// One queue for the flows of a trunk. A flow loses or gets marked packets again only after it has
    /// recovered.
    Sparing => sparing, "sparing";
    /// One queue for trunks: drops management packets early, and user packets only when it is full.
    TrunkFifo => trunk_fifo, "trunk-fifo";
    unnamed
    /// A queue with a marking predictor.
    Marked => marked;
}

impl QdiscSpec {
    /// A queue in order of arrival, for at most `limit` bytes.
    pub const fn one_line(limit: Bytes) -> Self {
        Self::DropTail(drop_tail::Config { limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{Form, Parameter, Registered};

    /// Catches: a discipline that accepts a limit of zero bytes, so that no packet could ever wait.
    #[test]
    fn every_discipline_refuses_a_limit_of_zero() {
        for mechanism in QdiscSpec::mechanisms() {
            let is_limit = |it: &&Parameter| it.name == "limit";
            // A limit may be in a nested table.
            let direct = mechanism.parameters.iter().any(|it| is_limit(&it));
            let inner = |it: &&Parameter| matches!(&it.form, Form::Table(all) if all.iter().any(|it| is_limit(&it)));
            let table = mechanism.parameters.iter().find(inner).map(|it| it.name);
            assert!(direct || table.is_some(), "{} has no limit", mechanism.name);
            let limit = match table {
                Some(table) if !direct => format!("{table} = {{ limit = \"0 B\" }}"),
                _ => "limit = \"0 B\"".to_owned(),
            };
            let text = format!("kind = \"{}\"\n{limit}", mechanism.name);
            let said = toml::from_str::<QdiscSpec>(&text).unwrap_err().to_string();
            let expected = "`limit` must be above zero: nothing could wait";
            assert!(said.contains(expected), "{}: {said}", mechanism.name);
        }
        for field in ["per-flow\"\nflow_limit = \"0 B\"", "fq-codel\"\npackets = 0"] {
            let said = toml::from_str::<QdiscSpec>(&format!("kind = \"{field}")).unwrap_err();
            assert!(said.to_string().contains("could wait"), "{field}: {said}");
        }
    }
}
