//! A first-in-first-out list through the pool from which any flow's oldest packet can be taken.

use super::pool::NIL;
use super::{Fifo, Member, Packet, PacketId, PacketPool, slot};
use crate::Bytes;

/// Packets in order of arrival, and at the same time those of each flow in theirs.
///
/// Every operation takes the same time however many packets and flows there are. Flows are told
/// apart by [`Packet::member`], which must not change while a packet is here.
#[derive(Debug, Default)]
pub struct FlowFifo {
    all: Fifo,
    lines: Vec<Line>,
}

/// The packets of one flow.
#[derive(Clone, Copy, Debug)]
struct Line {
    head: u32,
    tail: u32,
    bytes: u32,
}

const EMPTY: Line = Line { head: NIL, tail: NIL, bytes: 0 };

impl FlowFifo {
    /// Appends `id`.
    pub fn push(&mut self, pool: &mut PacketPool, id: PacketId) {
        let (member, len) = (pool[&id].member.index(), pool[&id].len);
        if member >= self.lines.len() {
            self.lines.resize(member + 1, EMPTY);
        }
        let line = &mut self.lines[member];
        pool.links[slot(id.0)].next_of_flow = NIL;
        pool.links[slot(id.0)].previous = self.all.last();
        if line.tail == NIL {
            line.head = id.0;
        } else {
            pool.links[slot(line.tail)].next_of_flow = id.0;
        }
        line.tail = id.0;
        line.bytes += len;
        self.all.push(pool, id);
    }

    /// Removes the oldest packet.
    pub fn pop(&mut self, pool: &mut PacketPool) -> Option<PacketId> {
        let member = self.all.peek(pool)?.member;
        // The oldest of all is the oldest of its flow.
        self.pop_flow(pool, member)
    }

    /// Removes the oldest packet of `member`.
    pub fn pop_flow(&mut self, pool: &mut PacketPool, member: Member) -> Option<PacketId> {
        let line = self.lines.get_mut(member.index()).filter(|line| line.head != NIL)?;
        let id = PacketId(line.head);
        line.head = pool.links[slot(id.0)].next_of_flow;
        if line.head == NIL {
            line.tail = NIL;
        }
        line.bytes -= pool[&id].len;
        self.all.unlink(pool, &id);
        Some(id)
    }

    /// The oldest packet of `member`, left where it is.
    #[must_use]
    pub fn peek_flow<'p>(&self, pool: &'p PacketPool, member: Member) -> Option<&'p Packet> {
        let line = self.lines.get(member.index()).filter(|line| line.head != NIL)?;
        Some(pool.at(line.head))
    }

    /// Bytes of `member`'s packets, as frames.
    #[must_use]
    pub fn bytes_of(&self, member: Member) -> Bytes {
        Bytes(self.lines.get(member.index()).map_or(0, |line| u64::from(line.bytes)))
    }

    /// Number of packets.
    #[must_use]
    pub const fn packets(&self) -> u32 {
        self.all.packets()
    }

    /// Their total length as frames.
    #[must_use]
    pub const fn bytes(&self) -> Bytes {
        self.all.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(u32),
        Pop,
        PopFlow(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (0u32..4).prop_map(Step::Push),
            1 => Just(Step::Pop),
            2 => (0u32..5).prop_map(Step::PopFlow),
        ];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        /// Does what a plain list that is searched from the front does.
        ///
        /// Kills: leaving `previous` of the successor untouched in `unlink`; not resetting `tail`.
        #[test]
        fn is_one_queue_and_a_queue_for_each_flow(steps in steps()) {
            let mut pool = PacketPool::with_capacity(256);
            let mut fifo = FlowFifo::default();
            let mut model: VecDeque<(u32, u32)> = VecDeque::new();
            for (n, step) in (1u32..).zip(steps) {
                let (taken, expected) = match step {
                    Step::Push(member) => {
                        let packet = Packet { len: n, member: Member(member), ..Packet::default() };
                        let id = pool.insert(packet).unwrap();
                        fifo.push(&mut pool, id);
                        model.push_back((member, n));
                        continue;
                    }
                    Step::Pop => (fifo.pop(&mut pool), model.pop_front()),
                    Step::PopFlow(member) => {
                        let at = model.iter().position(|(of, _)| *of == member);
                        (fifo.pop_flow(&mut pool, Member(member)), at.and_then(|at| model.remove(at)))
                    }
                };
                prop_assert_eq!(taken.as_ref().map(|id| pool[id].len), expected.map(|(_, len)| len));
                if let Some(id) = taken { pool.release(id) }
                let bytes: u32 = model.iter().map(|(_, len)| len).sum();
                prop_assert_eq!(fifo.bytes(), Bytes(u64::from(bytes)));
                for member in 0..5 {
                    let mut of = model.iter().filter(|(of, _)| *of == member);
                    let bytes: u32 = of.clone().map(|(_, len)| len).sum();
                    prop_assert_eq!(fifo.bytes_of(Member(member)), Bytes(u64::from(bytes)));
                    let head = fifo.peek_flow(&pool, Member(member)).map(|packet| packet.len);
                    prop_assert_eq!(head, of.next().map(|(_, len)| *len));
                }
            }
            prop_assert_eq!(usize::try_from(fifo.packets()).unwrap(), model.len());
        }
    }
}
