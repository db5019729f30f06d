//! Why a datagram is not taken.

use tidegate_core::{CountBy, Countable};

/// Why a datagram to a trunk is not taken.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Refusal {
    /// It ends before what it says it holds, or holds what cannot be.
    Malformed,
    /// It is of another version of this protocol.
    Version,
    /// Nobody with the key made it as it is, or it is from an earlier run of either gateway.
    Forged,
    /// It was taken before, or is so old that nobody can tell.
    Replayed,
    /// The gateways have not yet agreed on a session since one of them began.
    NoSession,
    /// One end has user packets travel in datagrams, and the other does not.
    Encapsulation,
    /// The ends find the share in different ways: by management packets, by `vegas` or by epochs.
    Probing,
    /// One end has management connections with a weight, and the other without.
    Weight,
    /// What is in it is no user packet: not an IP packet to the last byte, or not between hosts.
    Inner,
    /// It was marked on the way, and the user packet inside cannot say so.
    Congested,
    /// It is a fragment. Trunks do not fragment their datagrams.
    Fragment,
    /// It is of a management connection that this end does not have.
    Channel,
    /// It is for the address of this end, and is no datagram from the other end: another sender, port or protocol, a
    /// tunnel, or cut off before its ports. The first trunk of the address counts it.
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

    /// Its name in metrics and reports.
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

/// How many datagrams were not taken, by reason.
pub type Refusals = CountBy<Refusal, { Refusal::ALL.len() }>;
