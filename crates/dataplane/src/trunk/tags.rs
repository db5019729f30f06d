//! Adds the configured VLAN tag to the frames of a trunk (which carries the user packets between
//! two gateways), and removes this tag from received frames.

use tidegate_core::trunk::Wire;
use tidegate_wire::VlanTag;

/// The VLAN tag of datagrams.
pub(super) fn tag(wire: Wire) -> Option<VlanTag> {
    match wire {
        Wire::Headers => None,
        Wire::Datagrams { vlan, .. } => vlan.map(VlanTag::of_vlan),
    }
}

/// The VLAN of a tag.
pub(super) const fn vlan(tag: VlanTag) -> u16 {
    tag.tci & 0xfff
}

/// `frame` without its outermost tag, and the removed tag.
pub(super) fn untagged(frame: &[u8]) -> (Vec<u8>, Option<VlanTag>) {
    let Some(tag) = VlanTag::of(frame) else { return (frame.to_vec(), None) };
    let behind = frame.get(12 + VlanTag::LEN..).unwrap_or_default();
    ([frame.get(..12).unwrap_or_default(), behind].concat(), Some(tag))
}

/// `frame` with this tag inserted.
pub(super) fn tagged(frame: Vec<u8>, tag: Option<VlanTag>) -> Vec<u8> {
    let Some(tag) = tag else { return frame };
    let mut out = vec![0; VlanTag::LEN];
    out.extend(frame);
    // The result is ignored: `frame` is always a whole Ethernet frame, so the tag fits in.
    let _ = tag.push(&mut out);
    out
}
