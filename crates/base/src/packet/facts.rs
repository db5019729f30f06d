//! Facts about a packet, one bit each.

/// Facts about a packet, one bit each.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Facts(u8);

impl Facts {
    /// No fact.
    pub const NONE: Self = Self(0);
    /// The aggregate of the packet controls its sender by ACK control.
    pub const CONTROLLED: Self = Self(1);
    /// The pool has the [`Outer`](super::Outer) headers of the packet.
    pub const OUTER: Self = Self(2);
    /// The frame has headers of PPPoE and PPP before the network header.
    pub const PPPOE: Self = Self(4);
    /// The protocol field of PPP is one byte long.
    pub const SHORT_PPP: Self = Self(8);

    /// Returns `true` if all of `facts` hold.
    #[must_use]
    #[inline]
    pub const fn has(self, facts: Self) -> bool {
        self.0 & facts.0 == facts.0
    }

    /// The facts about PPPoE alone.
    #[must_use]
    #[inline]
    pub const fn of_session(self) -> Self {
        Self(self.0 & (Self::PPPOE.0 | Self::SHORT_PPP.0))
    }

    /// These facts, with `facts` set to `holds`.
    #[must_use]
    #[inline]
    pub const fn with(self, facts: Self, holds: bool) -> Self {
        if holds { Self(self.0 | facts.0) } else { Self(self.0 & !facts.0) }
    }
}
