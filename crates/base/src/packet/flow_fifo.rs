//! A first-in-first-out queue that can also remove the oldest packet of any flow.

use super::pool::NIL;
use super::{Fifo, Outer, Packet, PacketId, PacketPool, QueueIndex, make_room, number, slot};
use crate::Bytes;

/// Packets in order of arrival, and for each flow a list of its packets in the same order.
///
/// The lists are linked through the pool. Every operation takes constant time, except
/// [`hand_over`](Self::hand_over) and [`visit`](Self::visit). [`Packet::queue_index`] is the index of a
/// packet's flow, and must not change while the packet is in the queue. A flow without packets
/// costs four bytes. A flow with packets also has a list record.
#[derive(Debug)]
pub struct FlowFifo {
    all: Fifo,
    /// By queue index of a flow, the index of the flow's list record; [`NIL`] without packets.
    list_of: Vec<u32>,
    lists: Vec<List>,
    /// The first free list record. The `head` of a free record is the index of the next free
    /// record.
    free: u32,
}

/// The list record of a flow: its first and last packet, and its frame bytes.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    bytes: u32,
}

/// Index of a list record. A flow has the same record as long as it has packets in the queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ListIndex(pub u32);

impl ListIndex {
    /// The number as an index into a list.
    #[inline]
    const fn index(self) -> usize {
        slot(self.0)
    }
}

const EMPTY: List = List { head: NIL, tail: NIL, bytes: 0 };

/// A request to assign packets of one flow to another flow.
pub struct Handover<'a> {
    /// The present index of the flow.
    pub from: QueueIndex,
    /// The new index.
    pub to: QueueIndex,
    /// Selects the packets, and may change them.
    pub which: Which<'a>,
}

/// A function that selects packets. Its second argument is the packet's tunnel headers.
pub type Which<'a> = &'a mut dyn FnMut(&mut Packet, Option<&Outer>) -> bool;

impl List {
    /// Appends the packet in the slot `at`.
    #[inline]
    fn append(&mut self, pool: &mut PacketPool, at: u32) {
        pool.links_mut(at).set_last_of_flow(self.tail);
        if self.tail == NIL {
            self.head = at;
        } else {
            pool.links_mut(self.tail).set_next_of_flow(at);
        }
        self.tail = at;
        self.bytes += pool.at(at).len;
    }
}

impl Default for FlowFifo {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl FlowFifo {
    /// A list without packets.
    #[must_use]
    #[inline]
    pub const fn new() -> Self {
        Self { all: Fifo::new(), list_of: Vec::new(), lists: Vec::new(), free: NIL }
    }

    /// Appends `id`.
    #[inline]
    pub fn push(&mut self, pool: &mut PacketPool, id: PacketId) {
        self.push_to_list(pool, id);
    }

    /// Appends `id`. Returns the index of the list record of its flow.
    #[inline]
    pub fn push_to_list(&mut self, pool: &mut PacketPool, id: PacketId) -> ListIndex {
        let flow = pool[&id].queue_index;
        let at = self.list(flow).unwrap_or_else(|| self.begin(flow));
        pool.links_mut(id.0).previous = self.all.last();
        self.lists[at.index()].append(pool, id.0);
        self.all.push(pool, id);
        at
    }

    /// Removes the oldest packet.
    #[inline]
    pub fn pop(&mut self, pool: &mut PacketPool) -> Option<PacketId> {
        let flow = self.all.peek(pool)?.queue_index;
        // The oldest packet is also the first of its flow's list, unless a handover moved it to
        // that flow.
        self.pop_flow(pool, flow)
    }

    /// Removes the newest packet.
    #[inline]
    pub fn pop_last(&mut self, pool: &mut PacketPool) -> Option<PacketId> {
        let newest = self.all.last();
        if newest == NIL {
            return None;
        }
        let flow = pool.at(newest).queue_index;
        self.unlink(pool, flow, newest)
    }

    /// Removes the newest packet of `flow`. After a handover to `flow`, this packet may be
    /// older than other packets of the flow.
    #[inline]
    pub fn pop_flow_last(&mut self, pool: &mut PacketPool, flow: QueueIndex) -> Option<PacketId> {
        let newest = self.lists[self.list(flow)?.index()].tail;
        self.unlink(pool, flow, newest)
    }

    /// Removes the packet in slot `newest` from the list of `flow`.
    #[inline]
    fn unlink(&mut self, pool: &mut PacketPool, flow: QueueIndex, newest: u32) -> Option<PacketId> {
        let id = PacketId(newest);
        let at = self.list(flow)?;
        let list = &mut self.lists[at.index()];
        let (next, previous) =
            (pool.links(newest).next_of_flow(), pool.links(newest).previous_of_flow());
        // After a handover, the last packet of a flow's list may be older than packets before it.
        let is_first = list.head == newest;
        if is_first {
            list.head = next;
        } else {
            pool.links_mut(previous).set_next_of_flow(next);
        }
        if next == NIL {
            list.tail = if is_first { NIL } else { previous };
        } else {
            pool.links_mut(next).set_previous_of_flow(previous);
        }
        list.bytes -= pool[&id].len;
        if list.head == NIL {
            self.end(flow, at);
        }
        self.all.unlink(pool, &id);
        Some(id)
    }

    /// Removes the oldest packet of `flow`.
    #[inline]
    pub fn pop_flow(&mut self, pool: &mut PacketPool, flow: QueueIndex) -> Option<PacketId> {
        let at = self.list(flow)?;
        let list = &mut self.lists[at.index()];
        let id = PacketId(list.head);
        list.head = pool.links(id.0).next_of_flow();
        list.bytes -= pool[&id].len;
        if list.head == NIL {
            self.end(flow, at);
        }
        self.all.unlink(pool, &id);
        Some(id)
    }

    /// Moves the selected packets of the flow `from` to the end of the list of the flow `to`.
    /// Returns `true` if any packet was selected. The order in which [`pop`](Self::pop) returns
    /// packets stays the same. The time is proportional to the number of packets of the old flow.
    /// Links before the first selected packet are not written.
    pub fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
        let Handover { from, to, which } = what;
        let (from, to) = (*from, *to);
        let Some(old) = self.list(from) else { return false };
        let Some((mut stay, first)) = self.before_first(pool, old, which) else { return false };
        let mut move_on = self.list(to).map_or(EMPTY, |list| self.lists[list.index()]);
        let mut at = pool.links(first).next_of_flow();
        if stay.tail != NIL {
            pool.links_mut(stay.tail).set_next_of_flow(NIL);
        }
        pool[&PacketId(first)].queue_index = to;
        move_on.append(pool, first);
        while at != NIL {
            let next = pool.links(at).next_of_flow();
            let id = PacketId(at);
            let (packet, outer) = pool.with_outer(&id);
            if which(packet, outer) {
                pool[&id].queue_index = to;
                move_on.append(pool, at);
            } else {
                stay.append(pool, at);
            }
            at = next;
        }
        self.lists[old.index()] = stay;
        if stay.head == NIL {
            self.end(from, old);
        }
        let new = self.list(to).unwrap_or_else(|| self.begin(to));
        self.lists[new.index()] = move_on;
        true
    }

    /// Finds the first packet of a list that `which` selects. Returns the list up to this packet,
    /// and the packet's slot. `None` if no packet is selected.
    #[inline]
    fn before_first(
        &self,
        pool: &mut PacketPool,
        list: ListIndex,
        which: Which<'_>,
    ) -> Option<(List, u32)> {
        let (mut before, mut at) = (EMPTY, self.lists[list.index()].head);
        while at != NIL {
            let (packet, outer) = pool.with_outer(&PacketId(at));
            let len = packet.len;
            if which(packet, outer) {
                return Some((before, at));
            }
            if before.head == NIL {
                before.head = at;
            }
            before.tail = at;
            before.bytes += len;
            at = pool.links(at).next_of_flow();
        }
        None
    }

    /// Index of the list record of `flow`. `None` if the flow has no packets.
    #[must_use]
    #[inline]
    pub fn list(&self, flow: QueueIndex) -> Option<ListIndex> {
        self.list_of.get(flow.index()).filter(|list| **list != NIL).copied().map(ListIndex)
    }

    /// The flow whose packets are in the list with this index.
    #[inline]
    pub fn flow_in(&self, pool: &PacketPool, list: ListIndex) -> QueueIndex {
        pool.at(self.lists[list.index()].head).queue_index
    }

    /// Takes a list record for `flow`.
    #[inline]
    fn begin(&mut self, flow: QueueIndex) -> ListIndex {
        let list = match self.lists.get(slot(self.free)) {
            Some(free) => std::mem::replace(&mut self.free, free.head),
            None => number(self.lists.len()),
        };
        make_room(&mut self.lists, slot(list), EMPTY);
        make_room(&mut self.list_of, flow.index(), NIL);
        self.list_of[flow.index()] = list;
        ListIndex(list)
    }

    /// Frees the list record of `flow`, which has no packets.
    #[inline]
    fn end(&mut self, flow: QueueIndex, list: ListIndex) {
        self.lists[list.index()] =
            List { head: std::mem::replace(&mut self.free, list.0), ..EMPTY };
        self.list_of[flow.index()] = NIL;
    }

    /// The oldest packet of `flow`, which stays in the queue.
    #[must_use]
    #[inline]
    pub fn peek_flow<'p>(&self, pool: &'p PacketPool, flow: QueueIndex) -> Option<&'p Packet> {
        Some(pool.at(self.lists[self.list(flow)?.index()].head))
    }

    /// Calls `which` for each packet of `flow`, oldest first, until `which` returns
    /// `true`.
    #[inline]
    pub fn visit(
        &self,
        pool: &mut PacketPool,
        flow: QueueIndex,
        which: &mut dyn FnMut(&mut Packet) -> bool,
    ) {
        let mut at = self.list(flow).map_or(NIL, |list| self.lists[list.index()].head);
        while at != NIL && !which(&mut pool[&PacketId(at)]) {
            at = pool.links(at).next_of_flow();
        }
    }

    /// Frame bytes of `flow`.
    #[must_use]
    #[inline]
    pub fn bytes_of(&self, flow: QueueIndex) -> Bytes {
        Bytes(self.list(flow).map_or(0, |list| u64::from(self.lists[list.index()].bytes)))
    }

    /// Number of packets.
    #[must_use]
    #[inline]
    pub const fn packets(&self) -> u32 {
        self.all.packets()
    }

    /// Total frame bytes of the packets.
    #[must_use]
    #[inline]
    pub const fn bytes(&self) -> Bytes {
        self.all.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(u32),
        Pop,
        PopLast,
        PopFlow(u32),
        PopFlowLast(u32),
        HandOver { from: u32, to: u32, odd: u32 },
    }

    /// The model in plain lists: the numbers of all packets, and of each flow's packets.
    #[derive(Default)]
    struct Model {
        all: Vec<u32>,
        lists: BTreeMap<u32, VecDeque<u32>>,
    }

    impl Model {
        fn push(&mut self, flow: u32, n: u32) {
            self.all.push(n);
            self.lists.entry(flow).or_default().push_back(n);
        }

        fn pop(&mut self) -> Option<u32> {
            let first = self.all.first()?;
            let flow =
                self.lists.iter().find(|(_, list)| list.contains(first)).map(|(of, _)| *of)?;
            self.pop_flow(flow)
        }

        fn pop_flow(&mut self, flow: u32) -> Option<u32> {
            let n = self.lists.get_mut(&flow)?.pop_front()?;
            self.all.retain(|other| *other != n);
            Some(n)
        }

        fn pop_flow_last(&mut self, flow: u32) -> Option<u32> {
            let n = self.lists.get_mut(&flow)?.pop_back()?;
            self.all.retain(|other| *other != n);
            Some(n)
        }

        fn pop_last(&mut self) -> Option<u32> {
            let last = self.all.pop()?;
            self.lists.values_mut().for_each(|list| list.retain(|n| *n != last));
            Some(last)
        }

        fn hand_over(&mut self, from: u32, to: u32, odd: u32) -> bool {
            let old = self.lists.remove(&from).unwrap_or_default();
            let (go, stay): (Vec<_>, Vec<_>) = old.into_iter().partition(|n| n % 2 == odd);
            self.lists.insert(from, stay.into());
            self.lists.entry(to).or_default().extend(&go);
            !go.is_empty()
        }
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (0u32..4).prop_map(Step::Push),
            1 => Just(Step::Pop),
            1 => Just(Step::PopLast),
            2 => (0u32..5).prop_map(Step::PopFlow),
            1 => (0u32..5).prop_map(Step::PopFlowLast),
            1 => (0u32..4, 0u32..4, 0u32..2)
                .prop_map(|(from, to, odd)| Step::HandOver { from, to, odd }),
        ];
        prop::collection::vec(step, 1..200)
    }

    /// A handover must not write links before the first packet that it moves. The oldest packet of
    /// a list has no predecessor, so no code reads its link to the previous packet. The test stores
    /// a mark in this link, which a needless write would replace.
    ///
    /// Catches: a write to the oldest packet although no packet, or only a later packet, moves; a
    /// packet that is offered to `which` twice.
    #[test]
    fn a_transfer_writes_nothing_before_the_first_packet_that_it_moves() {
        const MARK: u32 = 77;
        let mut pool = PacketPool::with_capacity(8);
        let mut fifo = FlowFifo::default();
        let packet = |len| Packet { len, queue_index: QueueIndex(0), ..Packet::default() };
        let ids: Vec<u32> = (0..6)
            .map(|len| {
                let id = pool.insert(packet(len)).unwrap();
                let slot = id.0;
                fifo.push(&mut pool, id);
                slot
            })
            .collect();
        pool.links_mut(ids[0]).set_previous_of_flow(MARK);
        for (wanted, moved) in [(9, false), (4, true)] {
            let mut seen = vec![];
            let which = &mut |packet: &mut Packet, _: Option<&Outer>| {
                seen.push(packet.len);
                packet.len == wanted
            };
            let mut what = Handover { from: QueueIndex(0), to: QueueIndex(1), which };
            assert_eq!(fifo.hand_over(&mut pool, &mut what), moved);
            assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
            assert_eq!(pool.links(ids[0]).previous_of_flow(), MARK, "{wanted}");
        }
        assert_eq!([0, 1].map(|flow| fifo.bytes_of(QueueIndex(flow)).0), [11, 4]);
    }

    proptest! {
        /// The queue behaves like a plain list that is searched from the front.
        ///
        /// Catches: a newer packet that still refers to a removed packet, or an older packet of a flow
        /// that still refers to a removed newest packet.
        /// Catches: a list record that stays in use for a flow without packets, or is never reused.
        #[test]
        fn is_one_queue_and_a_queue_for_each_flow(steps in steps()) {
            let mut pool = PacketPool::with_capacity(256);
            let mut fifo = FlowFifo::default();
            let mut model = Model::default();
            let mut most = 0;
            for (n, step) in (1u32..).zip(steps) {
                let (taken, expected) = match step {
                    Step::Push(flow) => {
                        let packet = Packet { len: n, queue_index: QueueIndex(flow), ..Packet::default() };
                        let id = pool.insert(packet).unwrap();
                        fifo.push(&mut pool, id);
                        model.push(flow, n);
                        (None, None)
                    }
                    Step::Pop => (fifo.pop(&mut pool), model.pop()),
                    Step::PopLast => (fifo.pop_last(&mut pool), model.pop_last()),
                    Step::PopFlowLast(flow) => (
                        fifo.pop_flow_last(&mut pool, QueueIndex(flow)),
                        model.pop_flow_last(flow),
                    ),
                    Step::PopFlow(flow) => {
                        (fifo.pop_flow(&mut pool, QueueIndex(flow)), model.pop_flow(flow))
                    }
                    Step::HandOver { from, to, odd } if from != to => {
                        let which = &mut |packet: &mut Packet, _: Option<&Outer>| packet.len % 2 == odd;
                        let mut what = Handover { from: QueueIndex(from), to: QueueIndex(to), which };
                        let moved = fifo.hand_over(&mut pool, &mut what);
                        prop_assert_eq!(moved, model.hand_over(from, to, odd));
                        (None, None)
                    }
                    Step::HandOver { .. } => (None, None),
                };
                prop_assert_eq!(taken.as_ref().map(|id| pool[id].len), expected);
                if let Some(id) = taken { pool.release(id) }
                most = most.max(model.lists.values().filter(|list| !list.is_empty()).count());
                prop_assert_eq!(fifo.lists.len(), most);
                prop_assert_eq!(fifo.bytes(), Bytes(model.all.iter().copied().map(u64::from).sum()));
                for flow in 0..5 {
                    let list = model.lists.entry(flow).or_default();
                    let bytes = list.iter().copied().map(u64::from).sum();
                    prop_assert_eq!(fifo.bytes_of(QueueIndex(flow)), Bytes(bytes));
                    let head = fifo.peek_flow(&pool, QueueIndex(flow)).map(|packet| packet.len);
                    prop_assert_eq!(head, list.front().copied());
                }
            }
            prop_assert_eq!(usize::try_from(fifo.packets()).unwrap(), model.all.len());
        }
    }
}
