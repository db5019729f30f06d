//! What a sender left for the hardware to do to a frame: checksum and segmentation.

/// `struct virtio_net_hdr` in the host's byte order, as packet sockets give and take it.
///
/// Source: Linux `include/uapi/linux/virtio_net.h`; virtio 1.2, section 5.1.6.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct VnetHeader {
    /// `VIRTIO_NET_HDR_F_NEEDS_CSUM` (1): complete the checksum.
    pub flags: u8,
    /// `VIRTIO_NET_HDR_GSO_*`: none (0), TCP over IPv4 (1) or IPv6 (4), UDP (5).
    pub gso_type: u8,
    /// Bytes of headers, as far as the kernel says.
    pub hdr_len: u16,
    /// Payload bytes of each frame.
    pub gso_size: u16,
    /// Where the sum begins.
    pub csum_start: u16,
    /// Where it is written, from there on.
    pub csum_offset: u16,
}

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_UDP: u8 = 3;
const GSO_ECN: u8 = 0x80;
/// Offset of the checksum in an SCTP header (RFC 9260, section 3.1). TCP has it at 16, UDP at 6.
const SCTP_CHECKSUM: u16 = 8;

impl VnetHeader {
    /// Nothing was left to do.
    pub(crate) const NONE: Self =
        Self { flags: 0, gso_type: 0, hdr_len: 0, gso_size: 0, csum_start: 0, csum_offset: 0 };

    /// Its length before a frame.
    pub const LEN: usize = size_of::<Self>();

    /// Whether the transport checksum covers the pseudo-header only, for the sender's hardware to
    /// complete.
    #[must_use]
    pub const fn partial_checksum(&self) -> bool {
        self.flags & NEEDS_CSUM != 0
    }

    /// Where the sum of a [partial checksum](Self::partial_checksum) begins in the frame, and where
    /// it is to be written.
    #[must_use]
    pub fn checksum_span(&self) -> Option<(usize, usize)> {
        let start = usize::from(self.csum_start);
        self.partial_checksum().then(|| (start, start + usize::from(self.csum_offset)))
    }

    /// The [span](Self::checksum_span) of an SCTP checksum. The kernel would put the sum of TCP there.
    ///
    /// Source: Linux `include/linux/virtio_net.h`, which leaves `csum_not_inet` out.
    #[must_use]
    pub(crate) fn sctp_span(&self) -> Option<(usize, usize)> {
        self.checksum_span().filter(|_| self.csum_offset == SCTP_CHECKSUM)
    }

    /// Payload bytes of each frame to be cut from this one; `None` if it is a single frame.
    #[must_use]
    pub const fn segment_size(&self) -> Option<u16> {
        if self.gso_type == GSO_NONE { None } else { Some(self.gso_size) }
    }

    /// Whether the kernel leaves it to the interface to make fragments of it, as none does any more.
    #[must_use]
    pub(crate) const fn is_fragmented(&self) -> bool {
        self.gso_type & !GSO_ECN == GSO_UDP
    }

    /// Returns `true` for a super-packet that the kernel or the gateway must split.
    #[must_use]
    pub(crate) const fn is_to_be_split(&self) -> bool {
        self.gso_type != GSO_NONE && !self.is_fragmented()
    }

    /// The header after `bytes` more were put in front of the network header.
    #[must_use]
    pub(crate) const fn moved_by(self, bytes: u16) -> Self {
        let csum_start =
            if self.partial_checksum() { self.csum_start.saturating_add(bytes) } else { 0 };
        let hdr_len = if self.hdr_len == 0 { 0 } else { self.hdr_len.saturating_add(bytes) };
        Self { hdr_len, csum_start, ..self }
    }

    /// The header of a frame cut from this one's that is not to be cut any further.
    #[must_use]
    pub(crate) const fn single(self) -> Self {
        Self { gso_type: GSO_NONE, gso_size: 0, hdr_len: 0, ..self }
    }

    /// The header after the checksum was finished.
    #[must_use]
    pub(crate) const fn finished(self) -> Self {
        Self { flags: self.flags & !NEEDS_CSUM, csum_start: 0, csum_offset: 0, ..self }
    }

    /// The header to send with: without what only a receiver is told.
    #[must_use]
    pub(crate) const fn to_send(self) -> Self {
        Self { flags: self.flags & NEEDS_CSUM, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_moves_what_lies_behind_it() {
        let plain = VnetHeader { flags: 2, ..VnetHeader::default() };
        assert_eq!(plain.moved_by(4), plain);
        assert_eq!(plain.to_send(), VnetHeader::default());
        let tcp = VnetHeader { gso_type: 1, hdr_len: 66, gso_size: 1_448, ..plain };
        let partial = VnetHeader { flags: NEEDS_CSUM, csum_start: 34, csum_offset: 16, ..tcp };
        assert_eq!(partial.moved_by(4).checksum_span(), Some((38, 54)));
        assert_eq!((partial.moved_by(4).hdr_len, partial.segment_size()), (70, Some(1_448)));
    }
}
