//! The headers outside of a packet's innermost IP header: tunnels, and a second VLAN tag.
//!
//! The pool stores them apart from the descriptors, because few packets have them.

use super::{Endpoint, FlowKey, NO_VLAN, Protocol, TunnelKind};

/// The outer headers of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outer {
    tunnels: [Tunnel; Self::MOST],
    len: u8,
    /// The second VLAN identifier before the outermost IP header, or [`NO_VLAN`].
    pub second_vlan: u16,
}

/// A tunnel that carries a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tunnel {
    /// Addresses, ports and protocol of the tunnel's outer IP packet.
    pub key: FlowKey,
    /// The tunnel protocol.
    pub kind: TunnelKind,
    /// The VNI of VXLAN and GENEVE, or the key of GRE.
    pub id: Option<u32>,
    /// VLAN identifier of the inner Ethernet header, or [`NO_VLAN`].
    pub vlan: u16,
    /// The gateway may create, merge and shorten ACKs inside the tunnel. If not, a held ACK keeps
    /// its complete frame.
    pub may_edit: bool,
}

impl Outer {
    /// Largest number of nested tunnels that are parsed. Deeper tunnels count as payload.
    pub const MOST: usize = 2;

    /// Adds a tunnel inside the previous tunnels. Returns `false` if there are already
    /// [`MOST`](Self::MOST).
    #[inline]
    pub fn push(&mut self, tunnel: Tunnel) -> bool {
        let free = self.tunnels.get_mut(usize::from(self.len));
        let fits = free.is_some();
        if let Some(free) = free {
            *free = tunnel;
            self.len += 1;
        }
        fits
    }

    /// The tunnels, outermost first.
    #[must_use]
    #[inline]
    pub fn tunnels(&self) -> &[Tunnel] {
        &self.tunnels[..usize::from(self.len)]
    }

    /// Returns `true` if there is neither a tunnel nor a second VLAN tag.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0 && self.second_vlan == NO_VLAN
    }

    /// Addresses, ports and protocol of the outermost IP header. `None` without a tunnel.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Option<FlowKey> {
        self.tunnels().first().map(|tunnel| tunnel.key)
    }

    /// Returns `true` if the gateway may create, merge and shorten ACKs inside all tunnels.
    #[must_use]
    #[inline]
    pub fn may_edit(&self) -> bool {
        self.tunnels().iter().all(|tunnel| tunnel.may_edit)
    }

    /// Forbids to edit ACKs in each tunnel in which `other` forbids it. `other` describes the same
    /// tunnels, read from another packet.
    #[inline]
    pub fn restrict(&mut self, other: &Self) {
        for (own, other) in self.tunnels.iter_mut().zip(&other.tunnels) {
            own.may_edit &= other.may_edit;
        }
    }

    /// The outer headers of a packet in the opposite direction.
    #[must_use]
    #[inline]
    pub fn reverse(mut self) -> Self {
        for tunnel in &mut self.tunnels {
            tunnel.key = tunnel.reverse_key();
        }
        self
    }

    /// Returns `true` if both packets are in the same tunnels: addresses, kinds, identifiers and
    /// VLANs are equal. Outer ports are ignored, because they differ by direction and flow.
    #[must_use]
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        self.second_vlan == other.second_vlan
            && self.len == other.len
            && self.tunnels().iter().zip(other.tunnels()).all(|(a, b)| a.identity() == b.identity())
    }
}

impl Default for Outer {
    #[inline]
    fn default() -> Self {
        let tunnel = Tunnel {
            key: FlowKey::default(),
            kind: TunnelKind::Ip,
            id: None,
            vlan: NO_VLAN,
            may_edit: true,
        };
        Self { tunnels: [tunnel; Self::MOST], len: 0, second_vlan: NO_VLAN }
    }
}

impl Tunnel {
    /// The fields that identify a tunnel. `may_edit` is not among them, because GRE may have
    /// checksums or sequence numbers in one direction only.
    #[must_use]
    #[inline]
    pub fn identity(&self) -> ([u128; 2], TunnelKind, Option<u32>, u16) {
        let ends = [self.key.src.number(), self.key.dst.number()];
        (ends, self.kind, self.id, self.vlan)
    }

    /// Addresses and ports of the outer header in the opposite direction. UDP tunnels use the same
    /// destination port in both directions.
    #[inline]
    fn reverse_key(&self) -> FlowKey {
        let FlowKey { src, dst, protocol } = self.key;
        if protocol != Protocol::UDP {
            return self.key.reverse();
        }
        let at = |end: Endpoint, port| Endpoint::v6(end.number().to_be_bytes(), port);
        FlowKey { src: at(dst, src.port), dst: at(src, dst.port), protocol }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tunnel(port: u16, id: u32) -> Tunnel {
        let key = FlowKey {
            src: Endpoint::v4([192, 0, 2, 1], port),
            dst: Endpoint::v4([192, 0, 2, 2], 4789),
            protocol: Protocol::UDP,
        };
        let kind = TunnelKind::Vxlan;
        Tunnel { key, kind, id: Some(id), vlan: NO_VLAN, may_edit: true }
    }

    fn outer(port: u16, id: u32) -> Outer {
        let mut outer = Outer::default();
        assert!(outer.push(tunnel(port, id)));
        outer
    }

    /// Catches: tunnels that count as different because their outer ports differ, or as equal
    /// although their VNIs differ; addresses that are not swapped for the opposite direction.
    #[test]
    fn tunnels_are_distinguished_by_addresses_and_identifier_in_both_directions() {
        assert!(outer(1, 7).is_same(&outer(2, 7)));
        assert!(!outer(1, 7).is_same(&outer(1, 8)));
        assert!(!outer(1, 7).is_same(&outer(1, 7).reverse()));
        assert!(outer(1, 7).is_same(&outer(3, 7).reverse().reverse()));
        let back = outer(1, 7).reverse().key().unwrap();
        assert_eq!((back.src.number(), back.dst.port), (tunnel(1, 7).key.dst.number(), 4789));
    }

    #[test]
    fn two_tunnels_are_kept_and_no_third() {
        let mut outer = outer(1, 7);
        assert!(outer.push(tunnel(1, 8)) && !outer.push(tunnel(1, 9)));
        assert_eq!(outer.tunnels().len(), Outer::MOST);
    }
}
