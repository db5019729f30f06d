//! Probing without management packets: user packets themselves tell how the path is.
//!
//! Source: doi 10.1145/3447786.3456260 (Bundler). Of the user packets that leave, some end an
//! *epoch*; which, both ends see by themselves ([`boundary`]). The receiver tells when one came and how
//! many bytes had come by then ([`message`]); the sender so knows round-trip time and loss ([`ledger`]),
//! and lets the aggregate go at a rate that keeps the path's queue short ([`copa`](crate::tcp::congestion::copa)), or, where others fill that
//! queue, as fast as its users would be there by themselves ([`crowd`]). What would wait there waits in the
//! tunnel queue, where flows are kept apart.
//!
//! Differs: user packets are told from others at the receiver by the DS codepoint of the trunk; so of
//! the trunks of a gateway that probe this way each has a class of assured forwarding of its own.
//! User packets are no longer the last to be lost in routers: there is nothing else to lose.

mod boundary;
mod control;
mod crowd;
mod ledger;
mod message;
mod receiver;
mod sender;
mod senders;
#[cfg(test)]
mod tests;

use super::guarantee::Guarantee;
use super::packet::{Frame, describe};
use super::sender::take_in;
use super::tunnel::Tunnel;
use super::{Arriving, Config, Counts, State, USER};
use crate::packet::{Fifo, FlowKey};
use crate::random::Random;
use crate::tcp::Segment;
use crate::{Cx, Packet, PacketId, Rate, Time};
use boundary::{Spacing, frames};
use receiver::Receiver;
use sender::Sender;

/// One end of a trunk that probes with its user packets.
pub(super) struct Epochs {
    sender: Sender,
    receiver: Receiver,
    /// The keys of what it sends: what asks for a spacing, and congestion ACKs.
    keys: [FlowKey; 2],
    user_dscp: u8,
    /// What the frames that go to the other end are like.
    frame: Frame,
    /// Whether they are like those of user packets.
    follows: bool,
    made: u64,
    absorbed: u64,
}

impl Epochs {
    pub(super) fn new(config: &Config, mut random: Random, now: Time) -> Self {
        let queue = config.queue.build(None, Random::new(random.below(u64::MAX), 0));
        let guarantee = config.guarantee.map(|rate| Guarantee::new(rate, now));
        let tunnel = Tunnel::of(config, queue).under(config.ceiling, now);
        let life = u32::try_from(random.below(1 << 32)).unwrap_or(0);
        Self {
            sender: Sender::new(tunnel, guarantee, random, now),
            receiver: Receiver::new(life, Spacing::default()),
            keys: [config.key(0), config.key_from_peer(0).reverse()],
            user_dscp: config.dscp(USER),
            frame: config.wire.frame().unwrap_or_default(),
            follows: config.wire.frame().is_none(),
            made: 0,
            absorbed: 0,
        }
    }

    /// From `now` on guarantee and ceiling are as `config` says.
    pub(super) fn change(&mut self, config: &Config, now: Time) {
        self.sender.change(config, now);
    }

    pub(super) const fn tunnel(&self) -> &Tunnel {
        self.sender.tunnel()
    }

    pub(super) const fn tunnel_mut(&mut self) -> &mut Tunnel {
        self.sender.tunnel_mut()
    }

    /// What it may send, the guarantee included.
    pub(super) fn rate(&self) -> Rate {
        self.sender.rate()
    }

    pub(super) fn state(&self) -> State {
        self.sender.state()
    }

    pub(super) fn counts(&self) -> Counts {
        let (elastic, guaranteed) = self.sender.bytes();
        let (made, absorbed) = (self.made, self.absorbed);
        let missing = self.sender.missing();
        Counts { elastic, guaranteed, missing, made, absorbed, ..Counts::default() }
    }

    /// Takes in a user packet.
    pub(super) fn send(&mut self, cx: &mut Cx<'_>, packet: PacketId, out: &mut Fifo) {
        self.follow(&cx.pool[&packet]);
        self.sender.take(cx, packet);
        self.turn(cx, out);
    }

    /// Does what is due.
    pub(super) fn turn(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        self.sender.pump(cx, out);
        if let Some(segment) = self.sender.tells(cx.now) {
            self.make(cx, 0, &segment, out);
        }
    }

    /// Takes in what the other end says, which ends here.
    pub(super) fn handle(
        &mut self,
        cx: &mut Cx<'_>,
        what: Arriving,
        packet: PacketId,
        out: &mut Fifo,
    ) {
        self.absorbed += 1;
        let Some(segment) = take_in(cx, packet) else { return self.sender.hasten() };
        match what {
            Arriving::Feedback(_) => {
                self.sender.handle(cx.now, &segment.header);
                self.turn(cx, out);
            }
            Arriving::Probe(_) => self.receiver.told(&segment.header),
        }
    }

    /// A user packet from the other end goes by.
    pub(super) fn watch(&mut self, cx: &mut Cx<'_>, packet: &PacketId, out: &mut Fifo) {
        let packet = cx.pool[packet];
        for frame in frames(&packet) {
            if let Some(ack) = self.receiver.sees(cx.now, &frame) {
                self.follow(&packet);
                self.make(cx, 1, &ack.segment(), out);
            }
        }
    }

    /// A user packet has come.
    const fn follow(&mut self, packet: &Packet) {
        if self.follows {
            self.frame = Frame::of(packet);
        }
    }

    fn make(&mut self, cx: &mut Cx<'_>, key: usize, segment: &Segment, out: &mut Fifo) {
        let packet = describe(self.keys[key], segment, self.frame, self.user_dscp);
        if let Some(packet) = cx.pool.insert(packet) {
            self.made += 1;
            out.push(cx.pool, packet);
        }
    }

    /// When [`turn`](Self::turn) is next to be called.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.sender.poll_timeout()
    }
}

/// A packet, of windows.
const PACKET: u64 = 1_500;

/// Source: RFC 6928, section 2.
const INITIAL: u64 = 10 * PACKET;

/// So few that a path without much in flight is still empty at times.
const LEAST: u64 = 2 * PACKET;
