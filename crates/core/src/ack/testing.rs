//! Test bench: an ACK control, its packets, and its output.

use std::time::Duration;

use super::{AckControl, AckSpec, CreditAccount, EgressState, Known, Queue};
use crate::meter::Profile;
use crate::packet::{Fifo, FlowIndex, Network, SackBlocks, TcpFlags, TcpSegment};
use crate::{Bytes, Cx, Packet, PacketId, PacketPool, Rate, Tally, Time};

pub(super) const MSS: u32 = 1_448;
pub(super) const FRAME: u32 = MSS + 66;
pub(super) const US: fn(u64) -> Time = Time::from_micros;

#[derive(serde::Deserialize)]
struct File {
    control: AckSpec,
}

/// An ACK control of one aggregate, and its packets.
pub(super) struct Bench {
    pub(super) pool: PacketPool,
    tally: Tally,
    pub(super) control: Box<dyn AckControl>,
    pub(super) known: Known,
    pub(super) queue: Queue,
    /// Account of the last `serve`.
    pub(super) account: CreditAccount,
    pub(super) ins: u64,
    pub(super) outs: u64,
    /// Packets that only occupy buffers of the pool: see `leave_free`.
    others: Vec<PacketId>,
}

impl Bench {
    pub(super) fn new(spec: &str, mbps: u64) -> Self {
        Self::with_buffers(spec, mbps, 4_096)
    }

    /// A bench with a pool of `buffers`.
    pub(super) fn with_buffers(spec: &str, mbps: u64, buffers: u32) -> Self {
        let rate = Rate::from_mbps(mbps);
        let profile = Profile::new(rate, None, Bytes(15_140), Bytes(1_514)).unwrap();
        let File { control: spec } = toml::from_str(&format!("control = {spec}")).unwrap();
        let mut pool = PacketPool::with_capacity(buffers);
        pool.keep_sack();
        pool.make_copies();
        Self {
            pool,
            tally: Tally::default(),
            control: spec.build(&profile, Time::ZERO),
            known: Known {
                member: FlowIndex(0),
                sent: Some(0),
                scale: Some(7),
                mss: None,
                near: Some(Duration::from_micros(200)),
                far: Some(Duration::from_millis(50)),
                extended: false,
                weight: 1,
            },
            queue: Queue {
                ahead: EgressState { room: Bytes(u64::MAX), ..EgressState::default() },
                ..Queue::default()
            },
            account: CreditAccount::default(),
            ins: 0,
            outs: 0,
            others: Vec::new(),
        }
    }

    /// A full segment of data up to `end` arrives.
    pub(super) fn data(&mut self, now: Time, member: u32, end: u32) {
        self.data_with(now, member, end, 0);
    }

    /// A full segment of data up to `end` with these flags arrives.
    pub(super) fn data_with(&mut self, now: Time, member: u32, end: u32, flags: u8) {
        let (seq, flags) = (end.wrapping_sub(MSS), TcpFlags(flags));
        let tcp = TcpSegment { seq, payload: MSS, flags, ..TcpSegment::default() };
        let packet =
            Packet { len: FRAME, cost: FRAME, segments: 1, tcp: Some(tcp), ..Packet::default() };
        self.control.on_data(now, FlowIndex(member), &packet, self.queue.own);
        self.known.sent = Some(end);
    }

    /// Offers a packet of the reverse direction (opposite to the data) to the ACK control. The
    /// packet has the TCP header `tcp` and the SACK blocks `blocks`. Returns the packets that
    /// depart.
    pub(super) fn back(
        &mut self,
        now: Time,
        member: u32,
        tcp: TcpSegment,
        blocks: &[(u32, u32)],
    ) -> Vec<TcpSegment> {
        let tcp = TcpSegment { has_sack: !blocks.is_empty(), ..tcp };
        let packet = Packet {
            len: 66 + tcp.payload,
            cost: 66 + tcp.payload,
            segments: 1,
            tcp: Some(tcp),
            network: Network::Ipv4,
            ..Packet::default()
        };
        let id = self.pool.insert(packet).unwrap();
        let mut sack = SackBlocks::default();
        blocks.iter().for_each(|block| assert!(sack.push(*block)));
        self.pool.set_sack(&id, sack);
        self.ins += 1;
        let mut out = Fifo::new();
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.tally };
        let known = Known { member: FlowIndex(member), ..self.known };
        self.control.on_ack(&mut cx, &known, id, self.queue, &mut out);
        self.account = self.control.serve(&mut cx, self.queue, &mut out);
        self.taken(out)
    }

    /// Numbers of the ACKs that depart when a pure ACK of `ack` returns.
    pub(super) fn ack(&mut self, now: Time, member: u32, ack: u32) -> Vec<u32> {
        let out = self.back(now, member, plain(ack), &[]);
        out.iter().map(|tcp| tcp.ack).collect()
    }

    pub(super) fn serve(&mut self, now: Time) -> Vec<TcpSegment> {
        let mut out = Fifo::new();
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.tally };
        self.account = self.control.serve(&mut cx, self.queue, &mut out);
        self.taken(out)
    }

    /// Fills or empties the queue. Returns the packets that depart.
    pub(super) fn fill(&mut self, now: Time, full: bool) -> Vec<TcpSegment> {
        self.queue.own = if full { Bytes(1 << 30) } else { Bytes::ZERO };
        self.serve(now)
    }

    pub(super) fn withdraw(&mut self, now: Time, member: u32) -> Vec<TcpSegment> {
        let mut out = Fifo::new();
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.tally };
        self.control.withdraw(&mut cx, FlowIndex(member), &mut out);
        self.taken(out)
    }

    /// Lets the held ACKs of `member` depart again after `AckControl::stop` has stopped them.
    pub(super) fn resume(&mut self, now: Time, member: u32) {
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.tally };
        self.control.resume(&mut cx, FlowIndex(member));
    }

    /// Serves whenever an event is due, up to `end`. No event may stay due.
    pub(super) fn run_until(&mut self, end: Time) -> Vec<(Time, TcpSegment)> {
        let mut all = Vec::new();
        while let Some(at) = self.control.ready_at().filter(|at| *at <= end) {
            all.extend(self.serve(at).into_iter().map(|tcp| (at, tcp)));
            assert!(
                self.control.ready_at() > Some(at) || self.control.ready_at().is_none(),
                "{at:?}"
            );
        }
        all
    }

    /// Asserts that every arrived or created packet has departed, was absorbed, or is kept.
    pub(super) fn check(&self) {
        let counts = self.control.counts();
        let kept = u64::from(counts.packets);
        assert_eq!(self.ins + counts.made, self.outs + counts.absorbed + kept, "{counts:?}");
        let others = u32::try_from(self.others.len()).unwrap();
        assert_eq!(self.pool.in_use(), counts.packets + others, "{counts:?}");
    }

    /// Occupies buffers until only `free` remain.
    pub(super) fn leave_free(&mut self, free: usize) {
        self.others.drain(..).for_each(|id| self.pool.release(id));
        let kept = usize::try_from(self.pool.in_use()).unwrap();
        let others = self.pool.capacity().saturating_sub(kept + free);
        self.others.extend((0..others).map(|_| self.pool.insert(Packet::default()).unwrap()));
    }

    fn taken(&mut self, mut out: Fifo) -> Vec<TcpSegment> {
        let mut all = Vec::new();
        while let Some(id) = out.pop(&self.pool) {
            all.push(self.pool[&id].tcp.unwrap());
            self.pool.release(id);
            self.outs += 1;
        }
        self.check();
        all
    }
}

/// A pure ACK. Its window field is 512, which means 64 KiB with the window scale 7 of the bench.
pub(super) fn plain(ack: u32) -> TcpSegment {
    TcpSegment {
        seq: 1,
        ack,
        window: 512,
        flags: TcpFlags(TcpFlags::ACK),
        timestamps: Some((ack, ack / 2)),
        ..TcpSegment::default()
    }
}
