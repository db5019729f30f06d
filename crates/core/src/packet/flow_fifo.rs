//! A first-in-first-out list through the pool from which any flow's oldest packet can be taken.

use super::pool::NIL;
use super::{Fifo, Member, Packet, PacketId, PacketPool, make_room, number, slot};
use crate::Bytes;

/// Packets in order of arrival, and at the same time those of each flow in theirs.
///
/// Every operation takes the same time however many packets and flows there are. Flows are told
/// apart by [`Packet::member`], which must not change while a packet is here. A flow has a line as
/// long as it has packets: of one that has none, four bytes are kept.
#[derive(Debug)]
pub struct FlowFifo {
    all: Fifo,
    /// The line of each flow; [`NIL`] if it has none.
    line_of: Vec<u32>,
    lines: Vec<Line>,
    /// The first line that is free, whose `head` is the next.
    free: u32,
}

/// The packets of one flow; none in a line that is free.
#[derive(Clone, Copy, Debug)]
struct Line {
    head: u32,
    tail: u32,
    bytes: u32,
}

const EMPTY: Line = Line { head: NIL, tail: NIL, bytes: 0 };

impl Default for FlowFifo {
    fn default() -> Self {
        Self { all: Fifo::new(), line_of: Vec::new(), lines: Vec::new(), free: NIL }
    }
}

impl FlowFifo {
    /// Appends `id`.
    pub fn push(&mut self, pool: &mut PacketPool, id: PacketId) {
        self.push_to_line(pool, id);
    }

    /// Appends `id`; says which is the [`line`](Self::line) of its flow.
    pub(crate) fn push_to_line(&mut self, pool: &mut PacketPool, id: PacketId) -> Member {
        let (member, len) = (pool[&id].member, pool[&id].len);
        let at = self.line(member).unwrap_or_else(|| self.begin(member));
        let line = &mut self.lines[at.index()];
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
        at
    }

    /// Removes the oldest packet.
    pub fn pop(&mut self, pool: &mut PacketPool) -> Option<PacketId> {
        let member = self.all.peek(pool)?.member;
        // The oldest of all is the oldest of its flow.
        self.pop_flow(pool, member)
    }

    /// Removes the oldest packet of `member`.
    pub fn pop_flow(&mut self, pool: &mut PacketPool, member: Member) -> Option<PacketId> {
        let at = self.line(member)?;
        let line = &mut self.lines[at.index()];
        let id = PacketId(line.head);
        line.head = pool.links[slot(id.0)].next_of_flow;
        line.bytes -= pool[&id].len;
        if line.head == NIL {
            *line = Line { head: std::mem::replace(&mut self.free, at.0), ..EMPTY };
            self.line_of[member.index()] = NIL;
        }
        self.all.unlink(pool, &id);
        Some(id)
    }

    /// What tells the line of `member` from those of others, as long as it has packets here.
    #[must_use]
    pub(crate) fn line(&self, member: Member) -> Option<Member> {
        self.line_of.get(member.index()).filter(|line| **line != NIL).copied().map(Member)
    }

    /// Whose packets are in the line with that number.
    pub(crate) fn member_in(&self, pool: &PacketPool, line: Member) -> Member {
        pool.at(self.lines[line.index()].head).member
    }

    /// Gives `member` a line, which is empty.
    fn begin(&mut self, member: Member) -> Member {
        let line = match self.lines.get(slot(self.free)) {
            Some(free) => std::mem::replace(&mut self.free, free.head),
            None => number(self.lines.len()),
        };
        make_room(&mut self.lines, slot(line), EMPTY);
        make_room(&mut self.line_of, member.index(), NIL);
        self.line_of[member.index()] = line;
        Member(line)
    }

    /// The oldest packet of `member`, left where it is.
    #[must_use]
    pub fn peek_flow<'p>(&self, pool: &'p PacketPool, member: Member) -> Option<&'p Packet> {
        Some(pool.at(self.lines[self.line(member)?.index()].head))
    }

    /// Bytes of `member`'s packets, as frames.
    #[must_use]
    pub fn bytes_of(&self, member: Member) -> Bytes {
        Bytes(self.line(member).map_or(0, |line| u64::from(self.lines[line.index()].bytes)))
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
    use std::collections::{BTreeSet, VecDeque};

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
        /// Kills: leaving `previous` of the successor untouched in `unlink`; keeping the line of a
        /// flow that has nothing, or losing it.
        #[test]
        fn is_one_queue_and_a_queue_for_each_flow(steps in steps()) {
            let mut pool = PacketPool::with_capacity(256);
            let mut fifo = FlowFifo::default();
            let mut model: VecDeque<(u32, u32)> = VecDeque::new();
            let mut most = 0;
            for (n, step) in (1u32..).zip(steps) {
                let (taken, expected) = match step {
                    Step::Push(member) => {
                        let packet = Packet { len: n, member: Member(member), ..Packet::default() };
                        let id = pool.insert(packet).unwrap();
                        fifo.push(&mut pool, id);
                        model.push_back((member, n));
                        let flows: BTreeSet<_> = model.iter().map(|(of, _)| *of).collect();
                        most = most.max(flows.len());
                        prop_assert_eq!(fifo.lines.len(), most);
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
