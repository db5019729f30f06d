//! Configuration of a trunk, which carries user packets between two gateways. The packet keys and
//! DS codepoints are derived from it.

use std::net::IpAddr;

use super::{MOST_WEIGHT, Wire};
use crate::itcp;
use crate::packet::{Endpoint, FlowKey, Protocol};
use crate::qdisc::QdiscSpec;
use crate::tcp::congestion::CongestionSpec;
use crate::{Bytes, Rate, tcp};

/// Configuration of a trunk at one gateway. At the other gateway, `local` and `peer` are exchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Name of the trunk, in policies and reports.
    pub name: String,
    /// Address of this gateway.
    pub local: IpAddr,
    /// Address of the other gateway.
    pub peer: IpAddr,
    /// First port of the management connections. Each connection uses two ports.
    pub port: u16,
    /// Number of management connections in each direction, at least one. Ignored if `weight` is set or `probing` is
    /// `Vegas`.
    pub connections: u16,
    /// Credit for each management packet, in bytes of user packets from the IP header on.
    pub vmss: Bytes,
    /// Guaranteed minimum bandwidth in bytes from the IP header on. `None`: no guarantee.
    pub guarantee: Option<Rate>,
    /// Upper bound of the rate on the path, management packets included. `None`: no bound.
    pub ceiling: Option<Rate>,
    /// The tunnel queue, where user packets wait.
    pub queue: QdiscSpec,
    /// Class of assured forwarding (1 to 4, RFC 2597). User packets and management packets of the trunk get different
    /// drop precedences in this class.
    pub assured: u8,
    /// TCP settings of the management connections.
    pub tcp: tcp::Config,
    /// Treatment of user packets while the other gateway is considered dead.
    pub fallback: Fallback,
    /// The bandwidth probe. With `Epochs`, the fields `connections`, `vmss` and `tcp` have no effect.
    pub probing: Probing,
    /// The weight of the share, from 1 to [`MOST_WEIGHT`], and the law that adjusts it. `None`: `connections` determines
    /// the share, or with `Vegas` the weight is one. Ignored with `Epochs`.
    pub weight: Option<itcp::Config>,
    /// Wire format of the packets of the trunk.
    pub wire: Wire,
}

/// Treatment of user packets while the other gateway is considered dead. The trunk considers it dead when every
/// management connection has had two timeouts in a row. This takes three RTO after the last ACK.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Fallback {
    /// User packets wait in the tunnel queue, which drops them when it is full. Only the guarantee is sent.
    #[default]
    Hold,
    /// User packets bypass the trunk: they depart at once and unchanged.
    Direct,
}

/// The bandwidth probe of a trunk, which finds the trunk's share of the path.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Probing {
    /// Management connections: TCP without payload. Routers drop management packets first, so that congestion drops no
    /// user packets.
    #[default]
    Management,
    /// The round-trip times of selected user packets. No packets are added, except for ACKs.
    Epochs,
    /// One management connection with a weighted congestion control, such as weighted Vegas.
    Vegas,
}

/// The congestion control of [`Probing::Vegas`] without a setting of its own.
///
/// Chosen: `weighted-vegas` always fills the path. The alternative `vegas-ns2` with `alpha = beta = 3`
/// does not grow while its window is exactly `theta` packets. But its shares are fairer: it keeps its least
/// round-trip time through pauses, so a trunk that starts later gets at most 7 % too much.
#[must_use]
pub fn vegas() -> CongestionSpec {
    CongestionSpec::WeightedVegas(Default::default())
}

impl Config {
    /// Returns `true` if `other` is a valid configuration of this trunk at the other gateway.
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

    /// Number of connections that may be in use in each direction. With a weight, it is [`MOST_WEIGHT`], because the
    /// number of active connections changes. `Epochs` and `Vegas` have one connection.
    #[must_use]
    pub const fn channels(&self) -> u16 {
        match self.probing {
            Probing::Management if self.weight.is_some() => MOST_WEIGHT,
            Probing::Management => self.connections,
            Probing::Epochs | Probing::Vegas => 1,
        }
    }

    /// Flow key of the packets of management connection `number` to the other gateway.
    pub(super) fn key(&self, number: u16) -> FlowKey {
        let port = self.port.wrapping_add(number.wrapping_mul(2));
        FlowKey {
            src: Endpoint::at(self.local, port),
            dst: Endpoint::at(self.peer, port.wrapping_add(1)),
            protocol: Protocol::TCP,
        }
    }

    /// Flow key of the packets of the other gateway's management connection `number` to this gateway.
    pub(super) fn key_from_peer(&self, number: u16) -> FlowKey {
        let peer = Self { local: self.peer, peer: self.local, ..self.clone() };
        peer.key(number)
    }

    /// DS codepoint of user packets, and of the ACKs for management packets.
    #[must_use]
    pub const fn user_dscp(&self) -> u8 {
        self.dscp(USER)
    }

    /// DS codepoint of management packets.
    pub(super) const fn management_dscp(&self) -> u8 {
        self.dscp(MANAGEMENT)
    }

    /// DS codepoint of the class `assured` with the drop precedence `precedence` (1 to 3).
    ///
    /// Source: RFC 2597, section 6.
    const fn dscp(&self, precedence: u8) -> u8 {
        8 * self.assured + 2 * precedence
    }
}

/// Drop precedence of user packets, and of the ACKs for management packets.
const USER: u8 = 1;

/// Drop precedence of management packets.
const MANAGEMENT: u8 = 3;
