//! Metadata of a frame whose checksum or segmentation was left to the hardware.

/// `struct virtio_net_hdr` in the host's byte order, as packet sockets use it.
///
/// Source: Linux `include/uapi/linux/virtio_net.h`; virtio 1.2, section 5.1.6.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct VnetHeader {
    /// `VIRTIO_NET_HDR_F_NEEDS_CSUM` (1): complete the checksum.
    pub flags: u8,
    /// `VIRTIO_NET_HDR_GSO_*`: none (0), TCP over IPv4 (1) or IPv6 (4), UDP (5).
    pub gso_type: u8,
    /// Bytes of headers, if the kernel states them.
    pub hdr_len: u16,
    /// Payload bytes of each frame.
    pub gso_size: u16,
    /// Offset of the first byte that the checksum covers.
    pub csum_start: u16,
    /// Offset of the checksum, relative to `csum_start`.
    pub csum_offset: u16,
}

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_UDP: u8 = 3;
const GSO_ECN: u8 = 0x80;
/// Offset of the checksum in an SCTP header (RFC 9260, section 3.1). In TCP it is at 16, in UDP at
/// 6.
const SCTP_CHECKSUM: u16 = 8;

impl VnetHeader {
    /// A complete, single frame.
    pub(crate) const NONE: Self =
        Self { flags: 0, gso_type: 0, hdr_len: 0, gso_size: 0, csum_start: 0, csum_offset: 0 };

    /// Length of the header, which precedes a frame.
    pub const LEN: usize = size_of::<Self>();

    /// Returns `true` if the transport checksum so far covers only the pseudo header, and the
    /// sender's hardware is to complete it.
    #[must_use]
    pub const fn partial_checksum(&self) -> bool {
        self.flags & NEEDS_CSUM != 0
    }

    /// For a [partial checksum](Self::partial_checksum): the offset of the first byte that it
    /// covers, and the offset of the checksum field. Both count from the start of the frame.
    #[must_use]
    pub fn checksum_span(&self) -> Option<(usize, usize)> {
        let start = usize::from(self.csum_start);
        self.partial_checksum().then(|| (start, start + usize::from(self.csum_offset)))
    }

    /// The [span](Self::checksum_span) of an unfinished SCTP checksum. The gateway completes this
    /// checksum, because the kernel would write a 16-bit sum, as for TCP.
    ///
    /// Source: Linux `include/linux/virtio_net.h`: the header has no flag for the CRC of SCTP
    /// (`csum_not_inet`).
    #[must_use]
    pub(crate) fn sctp_span(&self) -> Option<(usize, usize)> {
        self.checksum_span().filter(|_| self.csum_offset == SCTP_CHECKSUM)
    }

    /// Payload bytes of each frame of a super-packet (several frames that the kernel handles as
    /// one). `None` for a single frame.
    #[must_use]
    pub const fn segment_size(&self) -> Option<u16> {
        if self.gso_type == GSO_NONE { None } else { Some(self.gso_size) }
    }

    /// Returns `true` if the interface has to fragment the IP packet (UFO). Current kernels no
    /// longer produce such packets.
    #[must_use]
    pub(crate) const fn is_fragmented(&self) -> bool {
        self.gso_type & !GSO_ECN == GSO_UDP
    }

    /// Returns `true` for a super-packet that the kernel or the gateway must split.
    #[must_use]
    pub(crate) const fn is_to_be_split(&self) -> bool {
        self.gso_type != GSO_NONE && !self.is_fragmented()
    }

    /// This header after `bytes` were inserted before the network header.
    #[must_use]
    pub(crate) const fn moved_by(self, bytes: u16) -> Self {
        let csum_start =
            if self.partial_checksum() { self.csum_start.saturating_add(bytes) } else { 0 };
        let hdr_len = if self.hdr_len == 0 { 0 } else { self.hdr_len.saturating_add(bytes) };
        Self { hdr_len, csum_start, ..self }
    }

    /// The header of a single frame that was split from this super-packet.
    #[must_use]
    pub(crate) const fn single(self) -> Self {
        Self { gso_type: GSO_NONE, gso_size: 0, hdr_len: 0, ..self }
    }

    /// The header after the checksum was completed.
    #[must_use]
    pub(crate) const fn finished(self) -> Self {
        Self { flags: self.flags & !NEEDS_CSUM, csum_start: 0, csum_offset: 0, ..self }
    }

    /// The header for sending, without the flags that only receivers use.
    #[must_use]
    pub(crate) const fn to_send(self) -> Self {
        Self { flags: self.flags & NEEDS_CSUM, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vlan_tag_moves_the_checksum_offset() {
        let plain = VnetHeader { flags: 2, ..VnetHeader::default() };
        assert_eq!(plain.moved_by(4), plain);
        assert_eq!(plain.to_send(), VnetHeader::default());
        let tcp = VnetHeader { gso_type: 1, hdr_len: 66, gso_size: 1_448, ..plain };
        let partial = VnetHeader { flags: NEEDS_CSUM, csum_start: 34, csum_offset: 16, ..tcp };
        assert_eq!(partial.moved_by(4).checksum_span(), Some((38, 54)));
        assert_eq!((partial.moved_by(4).hdr_len, partial.segment_size()), (70, Some(1_448)));
    }
}
