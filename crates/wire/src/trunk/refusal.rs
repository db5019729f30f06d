//! Reasons for refusing a trunk datagram.

use tidegate_core::{CountBy, Countable};

/// Why a datagram to a trunk is refused.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Refusal {
    /// The datagram is cut short, or has an invalid field.
    Malformed,
    /// The datagram is of another protocol version.
    Version,
    /// The authentication tag is wrong: an unknown sender, a damaged datagram, or one from an
    /// earlier run of either gateway.
    Forged,
    /// The datagram was accepted before, or is too old to tell.
    Replayed,
    /// The gateways have not agreed on a session since one of them started.
    NoSession,
    /// User packets travel in datagrams at one end only.
    Encapsulation,
    /// The ends find the share by different mechanisms: management packets, `vegas` or epochs.
    Probing,
    /// Only one end has management connections with a weight.
    Weight,
    /// The payload is not exactly one IP packet between two hosts.
    Inner,
    /// The datagram was marked CE on the way, and the user packet inside is not ECN-capable.
    Congested,
    /// The datagram is a fragment. Trunks do not fragment their datagrams.
    Fragment,
    /// The segment belongs to a management connection that this end does not have.
    Channel,
    /// The packet is addressed to this end, but is no datagram from the other end. It has another
    /// sender, port or protocol, is in a tunnel, or is cut off before its ports. The first trunk of
    /// the address counts it.
    Stranger,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 13] = [
        Self::Malformed,
        Self::Version,
        Self::Forged,
        Self::Replayed,
        Self::NoSession,
        Self::Encapsulation,
        Self::Probing,
        Self::Weight,
        Self::Inner,
        Self::Congested,
        Self::Fragment,
        Self::Channel,
        Self::Stranger,
    ];

    /// Label in metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Version => "version",
            Self::Forged => "forged",
            Self::Replayed => "replayed",
            Self::NoSession => "no-session",
            Self::Encapsulation => "encapsulation",
            Self::Probing => "probing",
            Self::Weight => "weight",
            Self::Inner => "inner",
            Self::Congested => "congested",
            Self::Fragment => "fragment",
            Self::Channel => "channel",
            Self::Stranger => "stranger",
        }
    }
}

impl Countable for Refusal {
    const ALL: &'static [Self] = &Self::ALL;

    #[expect(
        clippy::as_conversions,
        reason = "a fieldless enum's discriminant is its index in ALL"
    )]
    fn index(self) -> usize {
        self as usize
    }
}

/// Counts of refused datagrams by reason.
pub type Refusals = CountBy<Refusal, { Refusal::ALL.len() }>;
