//! Queue disciplines: an operation enqueues a packet and dequeues another. The queue stays short,
//! so that no packet is dropped.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use tidegate_core::packet::{Ecn, QueueIndex};
use tidegate_core::qdisc::{Qdisc, QdiscSpec};
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Cx, Packet, PacketPool, Rate, Tally, Time};

use super::{Case, Order};

const LEN: u32 = 1_514;
const RATE: Rate = Rate::from_mbps(10_000);

/// Number of packets that wait, fewer than the limit of any discipline.
const WAITING: u32 = 16;

/// A queue discipline with packets of `size` flows, which arrive in rotation at the rate of the
/// link.
pub(super) struct Queue {
    qdisc: Box<dyn Qdisc>,
    pool: PacketPool,
    tally: Tally,
    order: Order,
    now: Time,
}

impl Queue {
    pub(super) fn new(name: &str, size: u32, mut random: Random) -> anyhow::Result<Self> {
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        let spec = QdiscSpec::deserialize(name)?;
        let order = Order::new(size, &mut random);
        let mut queue = Self {
            qdisc: spec.build(Some(RATE), random),
            pool: PacketPool::with_capacity(2 * WAITING),
            tally: Tally::default(),
            order,
            now: Time::ZERO,
        };
        (0..WAITING).for_each(|_| queue.come());
        Ok(queue)
    }

    fn come(&mut self) {
        let queue_index = QueueIndex(self.order.next());
        let packet =
            Packet { len: LEN, cost: LEN, queue_index, ecn: Ecn::Ect0, ..Packet::default() };
        let Some(id) = self.pool.insert(packet) else { return };
        let mut cx = Cx { now: self.now, pool: &mut self.pool, tally: &mut self.tally };
        self.qdisc.enqueue(&mut cx, id);
    }

    fn depart(&mut self) -> u64 {
        let mut cx = Cx { now: self.now, pool: &mut self.pool, tally: &mut self.tally };
        let Some(id) = self.qdisc.dequeue(&mut cx) else { return 0 };
        let flow = self.pool[&id].queue_index;
        self.pool.release(id);
        u64::from(flow.0)
    }
}

impl Case for Queue {
    fn run(&mut self, operations: u64) -> u64 {
        let spacing = RATE.time_for(Bytes(LEN.into()));
        let mut sum = 0;
        for _ in 0..operations {
            self.now += spacing;
            self.come();
            sum += self.depart();
        }
        sum
    }
}
