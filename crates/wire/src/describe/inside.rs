//! Parses the headers inside unencrypted tunnels, up to the innermost transport header.

use tidegate_core::Packet;
use tidegate_core::packet::{Network, Outer, Protocol, Tunnel};

use super::{Cursor, Oddity, ip};
use crate::ethertype;
use crate::tunnel::{self, Inside};

/// Returns `true` if the packet may carry a tunnel. The check is cheap, because it runs for each
/// packet.
///
/// Fragments are not parsed further. Packets with an authentication header are not parsed further
/// either, because rewriting them would break its integrity check.
#[inline]
pub(super) fn may_be(frame: &Cursor<'_>, packet: &Packet) -> bool {
    let possible = match packet.key.protocol {
        Protocol::TCP => false,
        Protocol::OPAQUE => {
            packet.network == Network::Opaque && ethertype::is_mpls(frame.ethertype)
        }
        protocol => tunnel::is_carrier(protocol, [packet.key.src.port, packet.key.dst.port]),
    };
    possible && !packet.fragment.is_part() && !frame.authenticated
}

/// Changes `packet` to describe the innermost header in its tunnels, and adds the tunnels to
/// `outer`.
///
/// `frame` is positioned after the outermost IP header or the MPLS labels.
pub(super) fn look(
    frame: &mut Cursor<'_>,
    packet: &mut Packet,
    outer: &mut Option<Outer>,
) -> Result<(), Oddity> {
    for _ in 0..Outer::MOST {
        if !may_be(frame, packet) {
            break;
        }
        let bytes = frame.head.get(frame.at..).unwrap_or_default();
        let left = frame.left();
        let inside = match packet.key.protocol {
            Protocol::OPAQUE => tunnel::behind_labels(bytes, left),
            protocol => tunnel::inside(protocol, bytes, left),
        };
        let Some(inside) = inside else { break };
        let mut inner = Packet::default();
        let described = describe(frame, &inside, &mut inner);
        if inner.network == Network::Opaque {
            return described;
        }
        frame.ethertype = 0;
        let Inside { kind, id, vlan, .. } = inside;
        let outer = outer.get_or_insert_default();
        outer.push(Tunnel { key: packet.key, kind, id, vlan, may_edit: inside.may_edit() });
        (packet.key, packet.tcp, packet.fragment) = (inner.key, inner.tcp, inner.fragment);
        (packet.transport_offset, packet.checksum) = (inner.transport_offset, inner.checksum);
        // `checksum` and `segment` together also store the identification of a fragment.
        packet.segment = inner.segment;
        described?;
    }
    Ok(())
}

/// Parses the inner packet, and positions `frame` after its IP header.
fn describe(frame: &mut Cursor<'_>, inside: &Inside, inner: &mut Packet) -> Result<(), Oddity> {
    frame.at += inside.offset;
    match inside.network {
        Network::Ipv4 => ip::describe_v4(frame, inner),
        Network::Ipv6 => ip::describe_v6(frame, inner),
        Network::Opaque => Ok(()),
    }
}
