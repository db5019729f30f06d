//! Checks the user packet inside a trunk datagram: it must be exactly one IP packet between two
//! hosts.
//!
//! Source: RFC 6040, section 4.2 (ECN of the inner header); RFC 6890 (addresses that belong to no
//! host).

use std::net::IpAddr;

use tidegate_core::packet::Ecn;

use super::Refusal;
use crate::checksum;

/// Checks the user packet of a datagram with the ECN codepoint `outer`. Copies a congestion mark
/// (CE) of the datagram to the user packet. Returns the destination of the user packet.
///
/// # Errors
///
/// [`Refusal::Inner`] if the user packet is not exactly one IP packet, or if one of its addresses
/// cannot belong to a host beyond a router. [`Refusal::Congested`] if the datagram was marked CE
/// and the user packet is not ECN-capable.
pub fn admit(packet: &mut [u8], outer: Ecn) -> Result<IpAddr, Refusal> {
    let (src, dst) = ends(packet).ok_or(Refusal::Inner)?;
    if !is_host(src) || !is_host(dst) {
        return Err(Refusal::Inner);
    }
    mark(packet, outer)?;
    Ok(dst)
}

/// Source and destination of the packet. `None` if `packet` is not exactly one IP packet.
fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let len = |at: usize| Some(usize::from(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?)));
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet.first()? & 0xf) * 4;
            let is_whole = header >= 20 && header <= packet.len() && len(2)? == packet.len();
            if !is_whole || checksum::sum(0, packet.get(..header)?) != u16::MAX {
                return None;
            }
            let [src, dst] = [12, 16].map(|at| packet.get(at..)?.first_chunk::<4>().copied());
            Some((src?.into(), dst?.into()))
        }
        6 => {
            let [src, dst] = [8, 24].map(|at| packet.get(at..)?.first_chunk::<16>().copied());
            (len(4)? + 40 == packet.len()).then_some((src?.into(), dst?.into()))
        }
        _ => None,
    }
}

/// Returns `true` if `address` can belong to a single host beyond a router.
fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => {
            let nobody = it.is_unspecified() || it.is_broadcast() || it.is_multicast();
            !nobody && !it.is_loopback() && !it.is_link_local()
        }
        IpAddr::V6(it) => {
            let nobody = it.is_unspecified() || it.is_multicast();
            !nobody && !it.is_loopback() && !it.is_unicast_link_local()
        }
    }
}

/// Transfers the ECN codepoint of the outer header to the inner packet.
fn mark(packet: &mut [u8], outer: Ecn) -> Result<(), Refusal> {
    let v4 = packet.first().is_some_and(|it| it >> 4 == 4);
    // ECN is in the lower two bits of the second byte for IPv4, and in bits 4 and 5 for IPv6.
    let shift = if v4 { 0 } else { 4 };
    let byte = packet.get_mut(1).ok_or(Refusal::Inner)?;
    let before = *byte;
    let inner = (before >> shift) & 3;
    let marked = match (inner, outer) {
        (NOT_ECT, Ecn::Ce) => return Err(Refusal::Congested),
        (NOT_ECT | CE, _) | (_, Ecn::NotEct | Ecn::Ect0) => inner,
        (_, Ecn::Ect1) => ECT_1,
        (_, Ecn::Ce) => CE,
    };
    *byte = before & !(3 << shift) | marked << shift;
    if v4 && *byte != before {
        let [old, new] = [before, *byte].map(|low| u16::from_be_bytes([packet[0], low]));
        let field = packet.get_mut(10..12).ok_or(Refusal::Inner)?;
        let sum = checksum::update(u16::from_be_bytes([field[0], field[1]]), old, new);
        field.copy_from_slice(&sum.to_be_bytes());
    }
    Ok(())
}

/// ECN codepoints (RFC 3168, section 5).
const NOT_ECT: u8 = 0;
const ECT_1: u8 = 1;
const CE: u8 = 3;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::build::Frame;

    fn receiver(v6: bool) -> IpAddr {
        if v6 { "2001:db8::2" } else { "10.0.0.2" }.parse().unwrap()
    }

    fn packet(v6: bool, ecn: Ecn, len: usize) -> Vec<u8> {
        let ends =
            if v6 { ["[2001:db8::1]:1", "[2001:db8::2]:2"] } else { ["10.0.0.1:1", "10.0.0.2:2"] };
        let [src, dst] = ends.map(|it| it.parse().unwrap());
        let mut frame = Frame { payload: vec![3; len], ..Frame::udp(src, dst) };
        frame.ip_mut().unwrap().ecn = ecn;
        frame.bytes()[14..].to_vec()
    }

    /// RFC 6040, section 4.2, figure 4: rows are inner codepoints, columns are outer codepoints.
    ///
    /// Catches: a congestion mark that is lost, or given to a packet that is not ECN-capable; an
    /// ECT(1) of the outer header that is lost; a header checksum that is not updated.
    #[test]
    fn a_congestion_mark_of_the_path_is_copied_to_the_inner_packet() {
        let all = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];
        let none = None;
        let table = [
            (Ecn::NotEct, [Some(Ecn::NotEct), Some(Ecn::NotEct), Some(Ecn::NotEct), none]),
            (Ecn::Ect0, [Some(Ecn::Ect0), Some(Ecn::Ect0), Some(Ecn::Ect1), Some(Ecn::Ce)]),
            (Ecn::Ect1, [Some(Ecn::Ect1), Some(Ecn::Ect1), Some(Ecn::Ect1), Some(Ecn::Ce)]),
            (Ecn::Ce, [Some(Ecn::Ce), Some(Ecn::Ce), Some(Ecn::Ce), Some(Ecn::Ce)]),
        ];
        for v6 in [false, true] {
            for (inner, row) in table {
                for (outer, expected) in all.into_iter().zip(row) {
                    let mut it = packet(v6, inner, 9);
                    match expected {
                        None => assert_eq!(admit(&mut it, outer), Err(Refusal::Congested)),
                        Some(ecn) => {
                            assert_eq!(admit(&mut it, outer), Ok(receiver(v6)));
                            assert_eq!(it, packet(v6, ecn, 9), "{inner:?} in {outer:?}");
                        }
                    }
                }
            }
        }
    }

    proptest! {
        /// Catches: a length field that is not checked, or is accepted if it is smaller than the
        /// packet.
        #[test]
        fn a_packet_that_is_shorter_or_longer_than_its_length_field_is_refused(
            v6 in any::<bool>(), len in 0usize..200, at in any::<prop::sample::Index>(), more in 1usize..40,
        ) {
            let whole = packet(v6, Ecn::Ect0, len);
            let mut cut = whole[..at.index(whole.len())].to_vec();
            prop_assert_eq!(admit(&mut cut, Ecn::NotEct), Err(Refusal::Inner));
            let mut longer = [whole, vec![0; more]].concat();
            prop_assert_eq!(admit(&mut longer, Ecn::NotEct), Err(Refusal::Inner));
        }

        #[test]
        fn any_bytes_are_checked_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..90)) {
            let _ = admit(&mut bytes, Ecn::Ce);
        }
    }

    #[test]
    fn addresses_that_belong_to_no_host_beyond_a_router_are_refused() {
        for (src, dst) in [
            ("10.0.0.1:1", "224.0.0.5:1"),
            ("10.0.0.1:1", "255.255.255.255:1"),
            ("10.0.0.1:1", "127.0.0.1:1"),
            ("10.0.0.1:1", "0.0.0.0:1"),
            ("10.0.0.1:1", "169.254.1.1:1"),
            ("224.0.0.1:1", "10.0.0.1:1"),
            ("127.0.0.1:1", "10.0.0.1:1"),
            ("[2001:db8::1]:1", "[ff02::1]:1"),
            ("[2001:db8::1]:1", "[::1]:1"),
            ("[2001:db8::1]:1", "[fe80::1]:1"),
            ("[fe80::1]:1", "[2001:db8::1]:1"),
            ("[::]:1", "[2001:db8::1]:1"),
        ] {
            let frame = Frame::udp(src.parse().unwrap(), dst.parse().unwrap());
            let mut it = frame.bytes()[14..].to_vec();
            assert_eq!(admit(&mut it, Ecn::NotEct), Err(Refusal::Inner), "{src} to {dst}");
        }
        let mut damaged = packet(false, Ecn::NotEct, 4);
        damaged[8] ^= 1;
        assert_eq!(admit(&mut damaged, Ecn::NotEct), Err(Refusal::Inner));
    }
}
