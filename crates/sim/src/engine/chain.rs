//! Relays of traffic that has many connections, or many transfers on one connection.
//!
//! A relay forwards the data of one connection to the next; relays in a row form a *chain*.
//!
//! - `arrivals`, and `on-off` with `reconnect`: the relay opens one further connection for each
//!   connection that it accepts.
//! - `web`: the client is the receiver of the chain's last connection and opens that connection.
//!   The relays then open the connections towards the server. Requests travel from the client,
//!   answers from the server.
//! - `on-off` without `reconnect`, and `trace`: one connection on each side of the relay carries
//!   all transfers. The engine records the offset at which each transfer ends.
//!
//! Methods of `Engine`, whose fields are in `engine.rs`.

use std::collections::{BTreeMap, VecDeque};

use super::Engine;
use crate::agenda::Agenda;
use crate::aggregate::Part;
use crate::flow::Chain;
use crate::routes::index;
use crate::stream::{EndId, Reader, Stream};

impl<A: Agenda> Engine<'_, A> {
    /// The kind of chain by which relays forward `flow`.
    pub(super) fn chain(&self, flow: u32) -> Chain {
        self.groups[index(self.flows[index(flow)].group)].chain
    }

    /// A connection at a relay is established at end `id`. Under [`Chain::Each`] and
    /// [`Chain::Asks`], the relay now opens the next connection of the chain.
    pub(super) fn extend(&mut self, id: EndId) {
        let (side, flow) = (id.side(), self.streams.get(id.stream()).flow);
        let asks = match self.chain(flow) {
            Chain::Each if side == 1 => false,
            Chain::Asks if side == 0 => true,
            _ => return,
        };
        let group = &self.groups[index(self.flows[index(flow)].group)];
        let Some(next) = group.relay[side].filter(|_| self.is_alone(id)) else { return };
        let next = flow - group.flows.start + self.groups[index(next)].flows.start;
        let opener = usize::from(asks);
        let stream = self.open(next, opener);
        let before = self.streams.get_mut(id.stream());
        before.other[side] = Some(stream);
        let (answer, request) = (before.size, before.ends[1].written);
        let is_first = self.groups[index(self.flows[index(next)].group)].relay[0].is_none();
        let it = self.streams.get_mut(stream);
        it.other[1 - side] = Some(id.stream());
        it.size = if asks { answer } else { u64::MAX };
        if asks {
            it.ends[1].expects = answer;
            if is_first {
                it.ends[0].expects = request;
            }
        }
        self.attend(EndId::new(stream, opener));
    }

    fn is_alone(&self, id: EndId) -> bool {
        self.streams.get(id.stream()).other[id.side()].is_none()
    }

    /// The flow of the chain's last group. For `web`, this is the flow of the client.
    pub(super) fn last_of(&self, mut flow: u32) -> u32 {
        loop {
            let group = &self.groups[index(self.flows[index(flow)].group)];
            let Some(next) = group.relay[1] else { return flow };
            flow = flow - group.flows.start + self.groups[index(next)].flows.start;
        }
    }

    /// The flow of the chain's first group. For `web`, this is the flow of the server.
    pub(super) fn first_of(&self, mut flow: u32) -> u32 {
        loop {
            let group = &self.groups[index(self.flows[index(flow)].group)];
            let Some(before) = group.relay[0] else { return flow };
            flow = flow - group.flows.start + self.groups[index(before)].flows.start;
        }
    }

    /// The first connection of a chain has begun a transfer. All later connections of the chain
    /// expect the transfer's end at offset `part.at`.
    pub(super) fn promise_on(&mut self, mut flow: u32, part: Part) {
        if self.chain(flow) != Chain::Parts {
            return;
        }
        loop {
            let group = &self.groups[index(self.flows[index(flow)].group)];
            let Some(next) = group.relay[1] else { return };
            flow = flow - group.flows.start + self.groups[index(next)].flows.start;
            self.parts_of.entry(flow).or_default().push_back(part);
        }
    }

    /// The receiver of a relay's connection has read `received` bytes in total. Completes the
    /// transfers that end within them.
    pub(super) fn complete_parts(&mut self, flow: u32, received: u64) {
        let Some(parts) = self.parts_of.get_mut(&flow) else { return };
        while let Some(part) = parts.pop_front_if(|part| part.at <= received) {
            self.transfers.push(flow, part.began, self.now, part.bytes);
        }
    }

    /// A connection has closed. The neighbours in its chain continue without it.
    pub(super) fn unlink(&mut self, stream: u32) {
        for side in [0, 1] {
            if let Some(other) = self.streams.get_mut(stream).other[side].take() {
                self.streams.get_mut(other).other[1 - side] = None;
            }
        }
    }

    /// Checks that a relay has written all bytes that it has read, in both directions, for the pair
    /// of connections that it links.
    ///
    /// # Panics
    ///
    /// Panics if bytes are missing, which is an error of the relay.
    pub(super) fn check_link(&self, second: &Stream) {
        let Some(first) = second.other[0].map(|first| self.streams.get(first)) else { return };
        if second.ends[0].reader != Reader::Relay {
            return;
        }
        let down = (first.ends[1].received, second.ends[0].written);
        assert_eq!(down.0, down.1, "flow {}: read and handed on by its relay", second.flow);
        if self.chain(second.flow) == Chain::Asks {
            let up = (second.ends[0].received, first.ends[1].written);
            assert_eq!(up.0, up.1, "flow {}: asked and handed on by its relay", second.flow);
        }
    }
}

/// The unfinished transfers of each relayed flow.
pub(crate) type RelayParts = BTreeMap<u32, VecDeque<Part>>;

#[cfg(test)]
mod tests;
