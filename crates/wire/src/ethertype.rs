//! The ethertypes that the parsers recognise (IEEE 802 numbers, as registered with IANA).

pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const IPV6: u16 = 0x86dd;
/// Customer tag of IEEE 802.1Q.
pub(crate) const VLAN: u16 = 0x8100;
/// Service tag of IEEE 802.1ad.
pub(crate) const SERVICE_VLAN: u16 = 0x88a8;
/// Service tag of equipment from before IEEE 802.1ad.
pub(crate) const OLD_SERVICE_VLAN: u16 = 0x9100;
pub(crate) const MPLS: u16 = 0x8847;
/// MPLS with an upstream-assigned label (RFC 5332).
pub(crate) const MPLS_UPSTREAM: u16 = 0x8848;
/// Link layer discovery protocol (IEEE 802.1AB).
pub(crate) const LLDP: u16 = 0x88cc;
/// Slow protocols such as LACP (IEEE 802.3, annex 57A).
pub(crate) const SLOW_PROTOCOLS: u16 = 0x8809;
/// Authentication of a port (IEEE 802.1X).
pub(crate) const EAPOL: u16 = 0x888e;
/// PPPoE, discovery stage (RFC 2516).
pub(crate) const PPPOE_DISCOVERY: u16 = 0x8863;
/// PPPoE, session stage (RFC 2516).
pub(crate) const PPPOE_SESSION: u16 = 0x8864;

/// The smallest ethertype. Smaller values are the length of an IEEE 802.3 frame.
pub(crate) const SMALLEST: u16 = 0x0600;

/// Returns `true` if MPLS labels follow.
pub(crate) const fn is_mpls(ethertype: u16) -> bool {
    matches!(ethertype, MPLS | MPLS_UPSTREAM)
}

/// Returns `true` for an ethertype of this file, except slow protocols.
pub(crate) const fn is_known(ethertype: u16) -> bool {
    matches!(
        ethertype,
        IPV4 | ARP
            | IPV6
            | MPLS
            | MPLS_UPSTREAM
            | LLDP
            | SLOW_PROTOCOLS
            | EAPOL
            | PPPOE_DISCOVERY
            | PPPOE_SESSION
    ) || is_vlan(ethertype)
}

/// Returns `true` if a VLAN tag follows.
pub(crate) const fn is_vlan(ethertype: u16) -> bool {
    matches!(ethertype, VLAN | SERVICE_VLAN | OLD_SERVICE_VLAN)
}
