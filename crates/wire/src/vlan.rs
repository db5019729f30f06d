//! VLAN tags: inside a frame, or in the metadata that the kernel delivers with a frame.

use crate::ethertype;

/// A tag of IEEE 802.1Q or 802.1ad.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VlanTag {
    /// Tag protocol identifier: 0x8100 or 0x88a8.
    pub tpid: u16,
    /// Tag control information: priority, drop eligibility and VLAN identifier.
    pub tci: u16,
}

impl VlanTag {
    /// Length of the tag in a frame.
    pub const LEN: usize = 4;

    /// An 802.1Q tag with the VLAN identifier `id` and priority zero.
    #[must_use]
    pub const fn of_vlan(id: u16) -> Self {
        Self { tpid: ethertype::VLAN, tci: id }
    }

    /// The outermost tag of `frame`, if it has a tag.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let [a, b, c, d] = *frame.get(MACS..)?.first_chunk()?;
        let tag = Self { tpid: u16::from_be_bytes([a, b]), tci: u16::from_be_bytes([c, d]) };
        ethertype::is_vlan(tag.tpid).then_some(tag)
    }

    /// Inserts the tag into a frame that begins at offset [`LEN`](Self::LEN) of `buffer`. The
    /// tagged frame then begins at offset 0. Returns `false` and changes nothing if the buffer is
    /// too short for an Ethernet frame.
    #[must_use]
    pub fn push(self, buffer: &mut [u8]) -> bool {
        if buffer.len() < Self::LEN + MACS + 2 {
            return false;
        }
        buffer.copy_within(Self::LEN..Self::LEN + MACS, 0);
        let (tpid, tci) = (self.tpid.to_be_bytes(), self.tci.to_be_bytes());
        buffer[MACS..MACS + Self::LEN].copy_from_slice(&[tpid[0], tpid[1], tci[0], tci[1]]);
        true
    }
}

/// Length of the destination and source address, which precede the tag.
const MACS: usize = 12;
