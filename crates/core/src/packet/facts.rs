//! Facts about a packet, one bit each.

/// Facts about a packet, one bit each.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Facts(u8);

impl Facts {
    /// The aggregate of the packet controls its sender by the ACKs that go back.
    pub const CONTROLLED: Self = Self(1);
    /// The pool has the [`Outer`](super::Outer) headers of the packet.
    pub const OUTER: Self = Self(2);

    /// Returns `true` if all of `facts` hold.
    #[must_use]
    pub const fn has(self, facts: Self) -> bool {
        self.0 & facts.0 == facts.0
    }

    /// These facts, with `facts` set to `holds`.
    #[must_use]
    pub const fn with(self, facts: Self, holds: bool) -> Self {
        if holds { Self(self.0 | facts.0) } else { Self(self.0 & !facts.0) }
    }
}
