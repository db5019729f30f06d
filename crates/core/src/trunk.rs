//! TCP trunks: a path between two gateways whose share is found by congestion control.
//!
//! Source: `trunking`, sections 2, 4 and 6. A trunk has a few *management connections*: real TCP, whose
//! packets have a header and no payload, though their sequence numbers count one. Each sent management packet
//! gives *credit* for a number of bytes of user packets (VMSS). User packets wait in the *tunnel queue* and
//! depart unchanged, in order, as soon as there is credit. A *guaranteed minimum bandwidth* (GMB) departs
//! beside that, whatever the congestion control permits. So the path loses management packets, and user
//! packets are sent once.
//!
//! Differs: user packets get the DS codepoint AFx1 and management packets AFx3, so that routers drop
//! management packets first. The paper's routers distinguish them by a mark of their own. Acknowledgements of
//! a trunk do not cover user packets: their ends request retransmissions.

mod buffer;
mod ceiling;
mod change;
mod epochs;
mod guarantee;
mod management;
mod packet;
mod receiver;
mod sender;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tunnel;
mod wire;

use std::net::IpAddr;
use std::time::Duration;

pub use buffer::{ALPHA, begin, required_buffer};
pub use sender::Counts;
pub use wire::{Encapsulation, SEAL, USER_HEADER, Wire, datagram_len};

use crate::ack::Ahead;
use crate::packet::{Endpoint, Fifo, FlowId, FlowKey, Handover, Protocol};
use crate::qdisc::{Backlog, QdiscSpec};
use crate::random::Random;
use crate::{Bytes, Cx, PacketId, PacketPool, Rate, Time, tcp};
use epochs::Epochs;
use receiver::Receiver;
use sender::Sender;
use tunnel::Tunnel;

/// One end of a trunk. Both ends are told the same, but for the addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Its name, in policies and reports.
    pub name: String,
    /// The address of this end.
    pub local: IpAddr,
    /// The address of the other end.
    pub peer: IpAddr,
    /// The first port of its management connections: each takes two.
    pub port: u16,
    /// Management connections each way, at least one.
    pub connections: u16,
    /// User bytes that a management packet stands for, from the IP header on.
    pub vmss: Bytes,
    /// Guaranteed minimum bandwidth, counted like `vmss`; `None` for nothing.
    pub guarantee: Option<Rate>,
    /// The most it ever sends, management packets included, as long as they are on the path; `None` for no bound.
    pub ceiling: Option<Rate>,
    /// Where user packets wait.
    pub queue: QdiscSpec,
    /// The class of assured forwarding whose drop precedences tell packets apart, from 1 to 4.
    pub assured: u8,
    /// What its management connections are like.
    pub tcp: tcp::Config,
    /// What becomes of user packets while nothing is heard of the other end.
    pub fallback: Fallback,
    /// How it finds its share; `connections`, `vmss` and `tcp` are of management packets only.
    pub probing: Probing,
    /// What its packets are on the wire.
    pub wire: Wire,
}

/// What becomes of user packets while nothing is heard of the other end: two timeouts in a row of every
/// management connection, three RTO after the last answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Fallback {
    /// They wait; the guarantee is sent, and what finds no room is dropped.
    #[default]
    Hold,
    /// They go past the trunk, as if there were none.
    Direct,
}

/// How a trunk finds its share.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Probing {
    /// By management packets that congestion may drop, so that it drops no user packets.
    #[default]
    Management,
    /// By the delay of user packets that divide epochs.
    Epochs,
}

impl Config {
    /// Whether `other` is what the other end of this one may be told.
    #[must_use]
    pub fn is_other_end_of(&self, other: &Self) -> bool {
        (self.local, self.peer) == (other.peer, other.local)
            && (self.port, self.probing) == (other.port, other.probing)
            && self.wire.overhead(self.local) == other.wire.overhead(other.local)
            && match self.probing {
                Probing::Management => self.connections == other.connections,
                Probing::Epochs => self.assured == other.assured,
            }
    }

    /// How many connections it has with the other end; epochs have one.
    #[must_use]
    pub const fn channels(&self) -> u16 {
        match self.probing {
            Probing::Management => self.connections,
            Probing::Epochs => 1,
        }
    }

    /// The key of packets to the other end, of management connection `number` to there.
    fn key(&self, number: u16) -> FlowKey {
        let port = self.port.wrapping_add(number.wrapping_mul(2));
        FlowKey {
            src: Endpoint::at(self.local, port),
            dst: Endpoint::at(self.peer, port.wrapping_add(1)),
            protocol: Protocol::TCP,
        }
    }

    /// The key of packets from the other end, of management connection `number` from there.
    fn key_from_peer(&self, number: u16) -> FlowKey {
        let there = Self { local: self.peer, peer: self.local, ..self.clone() };
        there.key(number)
    }

    /// The DS codepoint of its user packets, and of what acknowledges management packets.
    #[must_use]
    pub const fn user_dscp(&self) -> u8 {
        self.dscp(USER)
    }

    /// The DS codepoint of its packets of this drop precedence.
    ///
    /// Source: RFC 2597, section 6.
    const fn dscp(&self, precedence: u8) -> u8 {
        8 * self.assured + 2 * precedence
    }
}

/// Drop precedence of user packets, and of what acknowledges management packets; of management packets.
const USER: u8 = 1;
const MANAGEMENT: u8 = 3;

/// What a trunk tells about itself.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its name.
    pub name: String,
    /// What it has sent, made and taken in.
    pub counts: Counts,
    /// User packets that wait.
    pub backlog: Backlog,
    /// What it may send, and knows of the path.
    pub state: State,
}

/// What a trunk may send now, and what it knows of the path.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct State {
    /// Management packets that may be in flight; with epochs, 1500 bytes of user packets each.
    pub window: u64,
    /// The round-trip time, the mean of its connections; none before the first answer.
    pub rtt: Option<Duration>,
    /// User bytes that may be sent; less than zero is what was borrowed. With epochs, what the window has room for beside
    /// what was sent since the last boundary that is known to have come.
    pub credit: i64,
    /// Management connections that have heard nothing for three RTO, two timeouts in a row.
    pub silent: usize,
}

/// A management connection, by its number, as its packets arrive at this end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arriving {
    /// Acknowledgements of what this end sends.
    Feedback(u16),
    /// What the other end sends.
    Probe(u16),
}

/// One end of a trunk: it sends there, and acknowledges what comes from there.
///
/// Whatever it lets go is appended to `out`: user packets, and management packets it has made.
pub struct Trunk {
    config: Config,
    ends: Ends,
    /// What was counted before it became another.
    before: Counts,
}

/// What sends and what receives.
enum Ends {
    Management(Box<(Sender, Receiver)>),
    Epochs(Box<Epochs>),
}

impl Trunk {
    /// One end, idle: it speaks to the other when there is a user packet to send.
    #[must_use]
    pub fn new(config: &Config, seed: u64, now: Time) -> Self {
        let random = |part| Random::named(seed, &["trunk", &config.name, part]);
        let ends = match config.probing {
            Probing::Management => {
                let sender = Sender::new(config, random("sender"), now);
                Ends::Management(Box::new((sender, Receiver::new(config, random("receiver")))))
            }
            Probing::Epochs => Ends::Epochs(Box::new(Epochs::new(config, random("epochs"), now))),
        };
        Self { config: config.clone(), ends, before: Counts::default() }
    }

    /// What it was told.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The packets that are for this end, by their keys.
    pub fn arriving(&self) -> impl Iterator<Item = (FlowKey, Arriving)> + '_ {
        (0..self.config.channels()).flat_map(|number| {
            let feedback = (self.config.key(number).reverse(), Arriving::Feedback(number));
            [feedback, (self.config.key_from_peer(number), Arriving::Probe(number))]
        })
    }

    /// Takes in a user packet.
    pub fn send(&mut self, cx: &mut Cx<'_>, packet: PacketId, out: &mut Fifo) {
        match &mut self.ends {
            Ends::Management(ends) => ends.0.send(cx, packet, out),
            Ends::Epochs(ends) => ends.send(cx, packet, out),
        }
    }

    /// Takes in a packet of one of its management connections, which ends here.
    pub fn handle(&mut self, cx: &mut Cx<'_>, what: Arriving, packet: PacketId, out: &mut Fifo) {
        match (&mut self.ends, what) {
            (Ends::Epochs(ends), _) => ends.handle(cx, what, packet, out),
            (Ends::Management(it), Arriving::Feedback(number)) => {
                it.0.handle(cx, number, packet, out);
            }
            (Ends::Management(it), Arriving::Probe(number)) => it.1.handle(cx, number, packet, out),
        }
    }

    /// The DS codepoint by which it knows user packets from the other end, if it watches them.
    #[must_use]
    pub const fn watches(&self) -> Option<u8> {
        match self.config.probing {
            Probing::Management => None,
            Probing::Epochs => Some(self.config.dscp(USER)),
        }
    }

    /// A user packet that the other end has sent goes by.
    pub fn watch(&mut self, cx: &mut Cx<'_>, packet: &PacketId, out: &mut Fifo) {
        if let Ends::Epochs(ends) = &mut self.ends {
            ends.watch(cx, packet, out);
        }
    }

    /// Does what is due.
    pub fn turn(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        match &mut self.ends {
            Ends::Management(ends) => {
                ends.0.pump(cx, out);
                ends.1.turn(cx, out);
            }
            Ends::Epochs(ends) => ends.turn(cx, out),
        }
    }

    /// When [`turn`](Self::turn) is next to be called; early is harmless.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.ends {
            Ends::Management(it) => Time::earliest(it.0.poll_timeout(), it.1.poll_timeout()),
            Ends::Epochs(ends) => ends.poll_timeout(),
        }
    }

    /// Lets go what waits, credit or not: in datagrams of the trunk as ever, else as it came.
    pub fn flush(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        let carries = self.carries();
        let tunnel = self.tunnel_mut();
        while let Some(packet) = if carries { tunnel.pop(cx) } else { tunnel.take_out(cx) } {
            out.push(cx.pool, packet);
        }
    }

    const fn tunnel(&self) -> &Tunnel {
        match &self.ends {
            Ends::Management(ends) => ends.0.tunnel(),
            Ends::Epochs(ends) => ends.tunnel(),
        }
    }

    const fn tunnel_mut(&mut self) -> &mut Tunnel {
        match &mut self.ends {
            Ends::Management(ends) => ends.0.tunnel_mut(),
            Ends::Epochs(ends) => ends.tunnel_mut(),
        }
    }

    /// User packets that wait.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.tunnel().backlog()
    }

    /// Frame bytes of `flow` in the queue.
    #[must_use]
    pub fn bytes_of(&self, flow: FlowId) -> Bytes {
        self.tunnel().bytes_of(flow)
    }

    /// Whether user packets that leave now do so in datagrams of the trunk.
    pub(crate) fn carries(&self) -> bool {
        match &self.ends {
            Ends::Management(ends) => {
                self.config.wire.overhead(self.config.local) > 0 && !ends.0.is_passing()
            }
            Ends::Epochs(_) => false,
        }
    }

    /// What waits, as a signal sees it.
    #[must_use]
    pub fn ahead(&self) -> Ahead {
        let rate = match &self.ends {
            Ends::Management(ends) => ends.0.rate(),
            Ends::Epochs(ends) => ends.rate(),
        };
        self.tunnel().ahead(rate)
    }

    /// Packets that wait change hands; says whether there were any.
    pub fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
        self.tunnel_mut().hand_over(pool, what)
    }

    /// What it has sent, made and taken in.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let counts = match &self.ends {
            Ends::Management(ends) => {
                let mut counts = *ends.0.counts();
                counts.made += ends.1.made();
                counts.absorbed += ends.1.absorbed();
                counts
            }
            Ends::Epochs(ends) => ends.counts(),
        };
        self.before + counts
    }

    /// Its state now.
    #[must_use]
    pub fn report(&self) -> Report {
        let name = self.config.name.clone();
        let state = match &self.ends {
            Ends::Management(ends) => ends.0.state(),
            Ends::Epochs(ends) => ends.state(),
        };
        Report { name, counts: self.counts(), backlog: self.backlog(), state }
    }
}
