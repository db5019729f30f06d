//! The kinds of unencrypted tunnels.

/// A protocol that carries IP packets or Ethernet frames inside other packets, unencrypted.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum TunnelKind {
    /// IPv4 or IPv6 directly inside IPv4 or IPv6: IPIP (RFC 2003), 6in4 (RFC 4213), 4in6 (RFC 2473,
    /// DS-Lite).
    Ip,
    /// GRE (RFC 2784, RFC 2890), with IP or Ethernet inside.
    Gre,
    /// VXLAN (RFC 7348).
    Vxlan,
    /// GENEVE (RFC 8926).
    Geneve,
    /// L2TP version 2 (RFC 2661) or 3 (RFC 3931).
    L2tp,
    /// GTP-U (3GPP TS 29.281).
    GtpU,
    /// Ethernet over MPLS (RFC 4448).
    Pseudowire,
}

impl TunnelKind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Ip, Self::Gre, Self::Vxlan, Self::Geneve, Self::L2tp, Self::GtpU, Self::Pseudowire];

    /// Name in reports and metrics.
    #[must_use]
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Gre => "gre",
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::L2tp => "l2tp",
            Self::GtpU => "gtp-u",
            Self::Pseudowire => "pseudowire",
        }
    }
}
