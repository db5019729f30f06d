//! Configuration of a trunk, with the packet keys and DS codepoints derived from it.

use std::net::IpAddr;

use super::{MOST_WEIGHT, Wire};
use crate::itcp;
use crate::packet::{Endpoint, FlowKey, Protocol};
use crate::qdisc::QdiscSpec;
use crate::tcp::congestion::CongestionSpec;
use crate::{Bytes, Rate, tcp};

/// One end of a trunk. Both ends have the same configuration, except for the addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Its name, in policies and reports.
    pub name: String,
    /// The address of this end.
    pub local: IpAddr,
    /// The address of the other end.
    pub peer: IpAddr,
    /// The first port of its management connections. Each connection takes two ports.
    pub port: u16,
    /// Number of management connections in each direction, at least one. With a `weight` or `vegas` it is ignored.
    pub connections: u16,
    /// Credit for each management packet: bytes of user packets, from the IP header on.
    pub vmss: Bytes,
    /// Guaranteed minimum bandwidth, counted like `vmss`. `None` guarantees nothing.
    pub guarantee: Option<Rate>,
    /// Upper bound of the rate on the path, management packets included. `None` removes the bound.
    pub ceiling: Option<Rate>,
    /// The tunnel queue, where user packets wait.
    pub queue: QdiscSpec,
    /// The class of assured forwarding (1 to 4). Its drop precedences tell the packets of a trunk apart.
    pub assured: u8,
    /// TCP settings of the management connections.
    pub tcp: tcp::Config,
    /// Treatment of user packets while the other end does not answer.
    pub fallback: Fallback,
    /// The method by which the trunk finds its share. `connections`, `vmss` and `tcp` apply to
    /// management packets only.
    pub probing: Probing,
    /// The weight of the share, from 1 to [`MOST_WEIGHT`], and the law that adjusts it. `None`: `connections` decide,
    /// or with `vegas` a weight of one. Epochs ignore it.
    pub weight: Option<itcp::Config>,
    /// Wire format of its packets.
    pub wire: Wire,
}

/// Treatment of user packets while the other end is considered dead. It is considered dead when every management
/// connection has had two timeouts in a row, three RTO after the last answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Fallback {
    /// User packets wait. Only the guarantee is sent, and a full queue drops.
    #[default]
    Hold,
    /// User packets bypass the trunk.
    Direct,
}

/// How a trunk finds its share.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Probing {
    /// By management packets. Routers drop them first, so that congestion drops no user packets.
    #[default]
    Management,
    /// By the delay of the user packets that divide epochs.
    Epochs,
    /// By the management packets of one connection with a weighted congestion control, such as
    /// weighted Vegas.
    Vegas,
}

/// The usual congestion control with [`Probing::Vegas`].
///
/// Chosen: `vegas-ns2` with `alpha = beta = 3` keeps its estimate of the empty path through pauses, so that a late-comer
/// gets at most 7 % too much. But it does not grow where its window is exactly `theta` packets. `weighted-vegas`
/// always fills the path.
#[must_use]
pub fn vegas() -> CongestionSpec {
    CongestionSpec::WeightedVegas(Default::default())
}

impl Config {
    /// Returns `true` if `other` is a valid configuration of the other end of this trunk.
    #[must_use]
    pub fn is_other_end_of(&self, other: &Self) -> bool {
        (self.local, self.peer) == (other.peer, other.local)
            && (self.port, self.probing) == (other.port, other.probing)
            && self.wire.overhead(self.local) == other.wire.overhead(other.local)
            && match self.probing {
                Probing::Management => self.channels() == other.channels(),
                Probing::Epochs => self.assured == other.assured,
                Probing::Vegas => true,
            }
    }

    /// Number of connections that may be in use in each direction. With a weight it is
    /// [`MOST_WEIGHT`]: each end can choose its own number. Epochs and `vegas` have one.
    #[must_use]
    pub const fn channels(&self) -> u16 {
        match self.probing {
            Probing::Management if self.weight.is_some() => MOST_WEIGHT,
            Probing::Management => self.connections,
            Probing::Epochs | Probing::Vegas => 1,
        }
    }

    /// The key of packets to the other end, of management connection `number` in that direction.
    pub(super) fn key(&self, number: u16) -> FlowKey {
        let port = self.port.wrapping_add(number.wrapping_mul(2));
        FlowKey {
            src: Endpoint::at(self.local, port),
            dst: Endpoint::at(self.peer, port.wrapping_add(1)),
            protocol: Protocol::TCP,
        }
    }

    /// The key of packets from the other end, of management connection `number` from there.
    pub(super) fn key_from_peer(&self, number: u16) -> FlowKey {
        let peer = Self { local: self.peer, peer: self.local, ..self.clone() };
        peer.key(number)
    }

    /// The DS codepoint of user packets, and of ACKs of management packets.
    #[must_use]
    pub const fn user_dscp(&self) -> u8 {
        self.dscp(USER)
    }

    /// The DS codepoint of management packets.
    pub(super) const fn management_dscp(&self) -> u8 {
        self.dscp(MANAGEMENT)
    }

    /// The DS codepoint of packets with this drop precedence.
    ///
    /// Source: RFC 2597, section 6.
    const fn dscp(&self, precedence: u8) -> u8 {
        8 * self.assured + 2 * precedence
    }
}

/// Drop precedence of user packets, and of ACKs of management packets.
const USER: u8 = 1;

/// Drop precedence of management packets.
const MANAGEMENT: u8 = 3;
