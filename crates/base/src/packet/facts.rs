//! Boolean properties of packets.

/// A set of boolean properties of a packet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Facts(u8);

impl Facts {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// The flow of the packet is ACK-controlled: the gateway may hold its ACKs.
    pub const CONTROLLED: Self = Self(1);
    /// The pool stores [`Outer`](super::Outer) headers for the packet.
    pub const OUTER: Self = Self(2);
    /// The frame has PPPoE and PPP headers before the network header.
    pub const PPPOE: Self = Self(4);
    /// The protocol field of the PPP header has only one byte.
    pub const SHORT_PPP: Self = Self(8);

    /// Returns `true` if the set contains all of `facts`.
    #[must_use]
    #[inline]
    pub const fn has(self, facts: Self) -> bool {
        self.0 & facts.0 == facts.0
    }

    /// The properties in this set that are about PPPoE.
    #[must_use]
    #[inline]
    pub const fn of_session(self) -> Self {
        Self(self.0 & (Self::PPPOE.0 | Self::SHORT_PPP.0))
    }

    /// This set, with `facts` added if `holds`, and removed otherwise.
    #[must_use]
    #[inline]
    pub const fn with(self, facts: Self, holds: bool) -> Self {
        if holds { Self(self.0 | facts.0) } else { Self(self.0 & !facts.0) }
    }
}
