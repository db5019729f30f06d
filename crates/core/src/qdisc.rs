//! Queue disciplines: queues, and their rules for drops and marks.
//!
//! To add a discipline: write `qdisc/<name>.rs` with a `Config` and its `build`. Then add its `mod`
//! line, and its line in `registry!` below. Policies, the simulator and the live gateway select it
//! by its name.

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

use crate::packet::{FlowFifo, Handover, Member};
use crate::random::Random;
use crate::registry::registry;
use crate::{Bytes, Cx, Packet, PacketId, PacketPool, Rate};

/// A queue of packets.
///
/// It keeps the packets of every flow in order. [`Packet::member`](crate::Packet::member)
/// distinguishes flows. The discipline selects the next packet in [`dequeue`](Self::dequeue), the
/// caller its flow in [`dequeue_flow`](Self::dequeue_flow).
///
/// # Call order
///
/// [`enqueue`](Self::enqueue) takes over the packet: the queue keeps it, or drops it through the
/// [`Cx`]. The caller dequeues a packet only if it can transmit it, and then owns it. Dequeuing may
/// drop further packets, so [`backlog`](Self::backlog) may fall by more than one packet.
///
/// # Time
///
/// The time of a call is `cx.now`, and does not run backwards. Disciplines without a measured delay,
/// such as `drop-tail`, ignore it. No discipline has a timer: a queue acts only when it is called.
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
    /// Enqueues `packet`. May drop it, or other packets in its place, through `cx`.
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId);

    /// The next packet in the discipline's own order.
    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId>;

    /// The oldest packet of `member`, with the length that [`head`](Self::head) returned.
    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: Member) -> Option<PacketId>;

    /// Removes the newest packet, for a caller that drops it. `None` if the discipline keeps no such order.
    fn dequeue_last(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let _ = cx;
        None
    }

    /// The packets in the queue, by flow.
    fn packets(&self) -> &FlowFifo;

    /// The packets in the queue, by flow. Outside of the discipline, this is for [`hand_over`](Self::hand_over) only.
    fn packets_mut(&mut self) -> &mut FlowFifo;

    /// Hands packets over to another member, in their order. They keep their places in the queue.
    /// Returns `true` if there were any.
    ///
    /// A discipline that serves its members in turn overrides this method, and gives the new member its turns.
    fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
        self.packets_mut().hand_over(pool, what)
    }

    /// Charged bytes of the oldest packet of `member`.
    fn head(&self, pool: &PacketPool, member: Member) -> Option<Bytes> {
        self.packets().peek_flow(pool, member).map(Packet::charged)
    }

    /// Packets and bytes in the queue.
    fn backlog(&self) -> Backlog {
        let all = self.packets();
        Backlog { packets: all.packets(), bytes: all.bytes() }
    }

    /// Frame bytes of `member` in the queue.
    fn bytes_of(&self, member: Member) -> Bytes {
        self.packets().bytes_of(member)
    }

    /// Longest packet that passes an empty queue unchanged, if it departs at once. `None` if no
    /// packet does.
    fn passes(&self) -> Option<Bytes> {
        None
    }

    /// Returns `true` if all packets form one queue. Their members then make no difference to
    /// [`enqueue`](Self::enqueue) and [`dequeue`](Self::dequeue).
    fn is_one_line(&self) -> bool {
        false
    }

    /// Offers the packets of `member` to `which`, the oldest first, until it returns `true`.
    fn visit(
        &self,
        pool: &mut PacketPool,
        member: Member,
        which: &mut dyn FnMut(&mut Packet) -> bool,
    ) {
        self.packets().visit(pool, member, which);
    }

    /// The largest backlog in frame bytes, if packets are dropped at a fixed number of bytes only.
    fn limit(&self) -> Option<Bytes> {
        None
    }

    /// Marking of this queue, if any.
    fn marked(&self) -> Option<&Marked> {
        None
    }

    /// Marking of this queue, if any.
    fn marked_mut(&mut self) -> Option<&mut Marked> {
        None
    }

    /// Sets the window of the sender that fills this queue.
    fn set_window(&mut self, window: Bytes) {
        let _ = window;
    }

    /// Sets the rate at which packets depart from now on.
    fn set_rate(&mut self, rate: Rate) {
        let _ = rate;
    }
}

/// Content of a queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Backlog {
    /// Number of packets.
    pub packets: u32,
    /// Their total length as frames.
    pub bytes: Bytes,
}

registry! {
    /// A queue discipline as a policy names it.
    ///
    /// It is built with the rate at which what waits leaves, if one is known, and with chance of its
    /// own.
    QdiscSpec, "a queue discipline", build(rate: Option<Rate>, random: Random) -> Qdisc:
    /// One queue in order of arrival. When it is full, arriving packets are dropped.
    DropTail => drop_tail, "drop-tail";
    /// A queue for each flow, served in turn. When all is full, the longest queue loses packets.
    PerFlow => per_flow, "per-flow";
    /// Random early detection: drops and marks become likelier as the average queue grows.
    Red => red, "red";
    /// RED that marks or drops packets in profile less often.
    Ered => ered, "ered";
    /// A controller that holds the queue at a target length.
    Pi => pi, "pi";
    /// A controller that holds the queueing delay at a target.
    Pie => pie, "pie";
    /// Controlled delay: the queueing delay may exceed a target for one interval only.
    Codel => codel, "codel";
    /// A queue for each flow, served in turn, with controlled delay in each.
    FqCodel => fq_codel, "fq-codel";
    /// Hosts take turns, and so do the flows of a host, with controlled delay in each flow. Redundant ACKs are dropped.
    Hosts => hosts, "hosts";
    /// One queue for the flows of a trunk. A flow is signalled again only after it has recovered.
    Sparing => sparing, "sparing";
    /// One queue for trunks: it drops management packets early, and user packets only when full.
    TrunkFifo => trunk_fifo, "trunk-fifo";
    unnamed
    /// A queue with a marking.
    Marked => marked;
}

impl QdiscSpec {
    /// A queue in order of arrival, for at most `limit` bytes.
    pub(crate) const fn one_line(limit: Bytes) -> Self {
        Self::DropTail(drop_tail::Config { limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{Form, Parameter, Registered};

    /// Catches: room of zero bytes that is taken.
    #[test]
    fn no_discipline_is_without_room() {
        for mechanism in QdiscSpec::mechanisms() {
            let is_limit = |it: &&Parameter| it.name == "limit";
            // A limit may stand in a table of its own.
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
