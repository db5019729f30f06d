//! Messages between two aggregate gateways, which carry the TCP connections of their users as
//! streams of one QUIC connection: stream headers, answers, and confirmations.
//!
//! A gateway opens a stream for each local connection, and begins the stream with a header: version
//! (1 B), flags (1 B), address and port of the destination, and, if a flag says so, address and
//! port of the client. Numbers are in network byte order. The other gateway connects to the
//! destination, and answers with one byte. User data then follows in both directions.
//!
//! A separate stream carries confirmations, after the version (1 B). A confirmation says that the
//! server has acknowledged all bytes of a stream. It consists of a kind (1 B) and the number of the
//! stream (8 B).
//!
//! Source: this project. The `itcp` papers do not specify how a gateway announces the destination
//! of a connection to its peer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The version of these messages. It is part of [`PROTOCOL`], so the TLS handshake agrees on it.
pub const VERSION: u8 = 1;

/// The protocol name in the TLS handshake (ALPN, RFC 7301). Gateways of different versions do not
/// connect.
pub const PROTOCOL: &[u8] = b"tidegate-aggregate/1";

/// The first message of a stream: the connection that the other gateway is to open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// Address and port of the server.
    pub destination: SocketAddr,
    /// Address and port of the client, if it has the address family of `destination`. If configured,
    /// the other gateway connects to the server from this address and port.
    pub client: Option<SocketAddr>,
}

/// The reason why a header or a confirmation is invalid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Bad {
    /// The version is not [`VERSION`].
    Version(u8),
    /// Some flags are unknown in this version.
    Flags(u8),
    /// A port is zero.
    Port,
    /// The length does not match the flags.
    Length,
    /// The kind of message is unknown in this version.
    Kind(u8),
}

/// Flag: the addresses are IPv6.
const IPV6: u8 = 1;
/// Flag: the address of the client follows.
const CLIENT: u8 = 2;

/// Length of version and flags, which precede the addresses.
pub const FIXED: usize = 2;
/// Length of the longest header: two IPv6 addresses with their ports.
pub const LONGEST: usize = FIXED + 2 * (16 + 2);

impl Header {
    /// Encodes the header. A client of the other address family is omitted.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let client = self.client.filter(|it| it.is_ipv4() == self.destination.is_ipv4());
        let ipv6 = if self.destination.is_ipv6() { IPV6 } else { 0 };
        let flags = ipv6 | if client.is_some() { CLIENT } else { 0 };
        let mut bytes = vec![VERSION, flags];
        for address in [Some(self.destination), client].into_iter().flatten() {
            match address.ip() {
                IpAddr::V4(ip) => bytes.extend(ip.octets()),
                IpAddr::V6(ip) => bytes.extend(ip.octets()),
            }
            bytes.extend(address.port().to_be_bytes());
        }
        bytes
    }

    /// The length of the addresses that follow `fixed`, the first two bytes.
    ///
    /// # Errors
    ///
    /// If the version is not [`VERSION`], or a flag is unknown.
    pub fn rest(fixed: [u8; FIXED]) -> Result<usize, Bad> {
        let [version, flags] = fixed;
        if version != VERSION {
            return Err(Bad::Version(version));
        }
        if flags & !(IPV6 | CLIENT) != 0 {
            return Err(Bad::Flags(flags));
        }
        let address = if flags & IPV6 != 0 { 16 + 2 } else { 4 + 2 };
        Ok(if flags & CLIENT != 0 { 2 * address } else { address })
    }

    /// Decodes a complete header.
    ///
    /// # Errors
    ///
    /// If the version, the flags, the length or the port is invalid.
    pub fn decode(bytes: &[u8]) -> Result<Self, Bad> {
        let (fixed, rest) = bytes.split_first_chunk::<FIXED>().ok_or(Bad::Length)?;
        if rest.len() != Self::rest(*fixed)? {
            return Err(Bad::Length);
        }
        let flags = fixed[1];
        let (destination, rest) = address(flags & IPV6 != 0, rest).ok_or(Bad::Length)?;
        let client = (flags & CLIENT != 0).then(|| address(flags & IPV6 != 0, rest));
        let client = client.map(|it| it.ok_or(Bad::Length)).transpose()?.map(|(it, _)| it);
        if destination.port() == 0 || client.is_some_and(|it| it.port() == 0) {
            return Err(Bad::Port);
        }
        Ok(Self { destination, client })
    }
}

/// Decodes the address and port at the start of `bytes`. Also returns the remaining bytes.
fn address(ipv6: bool, bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let (ip, rest) = if ipv6 {
        let (octets, rest) = bytes.split_first_chunk::<16>()?;
        (IpAddr::from(Ipv6Addr::from(*octets)), rest)
    } else {
        let (octets, rest) = bytes.split_first_chunk::<4>()?;
        (IpAddr::from(Ipv4Addr::from(*octets)), rest)
    };
    let (port, rest) = rest.split_first_chunk::<2>()?;
    Some((SocketAddr::new(ip, u16::from_be_bytes(*port)), rest))
}

/// The answer to a header: the outcome of the connection to the destination.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// The server has accepted the connection.
    Connected,
    /// The server has refused the connection.
    Refused,
    /// The server cannot be reached.
    Unreachable,
    /// The server has not answered in time.
    Silent,
    /// The other gateway has reached its limit of connections.
    Full,
    /// The other gateway may not open connections to this address.
    Forbidden,
    /// The other gateway cannot decode the header.
    BadHeader,
}

impl Answer {
    /// Every answer except `Connected`.
    pub const FAILURES: [Self; 6] = [
        Self::Refused,
        Self::Unreachable,
        Self::Silent,
        Self::Full,
        Self::Forbidden,
        Self::BadHeader,
    ];

    /// The answer as a byte.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Connected => 0,
            Self::Refused => 1,
            Self::Unreachable => 2,
            Self::Silent => 3,
            Self::Full => 4,
            Self::Forbidden => 5,
            Self::BadHeader => 6,
        }
    }

    /// Decodes an answer.
    #[must_use]
    pub fn of(byte: u8) -> Option<Self> {
        let mut all = [Self::Connected].into_iter().chain(Self::FAILURES);
        all.find(|it| it.byte() == byte)
    }

    /// Name of the answer in metrics and in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Silent => "silent",
            Self::Full => "full",
            Self::Forbidden => "forbidden",
            Self::BadHeader => "bad-header",
        }
    }
}

/// A confirmation: the server has acknowledged all bytes of this stream, and its FIN.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Confirmation(pub u64);

/// Length of an encoded confirmation.
pub const CONFIRMATION: usize = 1 + 8;

/// The kind of a confirmation. Zero is not used, so that zero bytes are no valid message.
const CONFIRMED: u8 = 1;

impl Confirmation {
    /// The encoded confirmation.
    #[must_use]
    pub fn encode(self) -> [u8; CONFIRMATION] {
        let [a, b, c, d, e, f, g, h] = self.0.to_be_bytes();
        [CONFIRMED, a, b, c, d, e, f, g, h]
    }

    /// Decodes a confirmation.
    ///
    /// # Errors
    ///
    /// If the kind is not the kind of a confirmation.
    pub fn decode(bytes: [u8; CONFIRMATION]) -> Result<Self, Bad> {
        let [kind, number @ ..] = bytes;
        match kind {
            CONFIRMED => Ok(Self(u64::from_be_bytes(number))),
            _ => Err(Bad::Kind(kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn addresses() -> impl Strategy<Value = (SocketAddr, Option<SocketAddr>)> {
        let v4 = || (any::<[u8; 4]>(), 1u16..).prop_map(|(ip, port)| SocketAddr::from((ip, port)));
        let v6 = || (any::<[u8; 16]>(), 1u16..).prop_map(|(ip, port)| SocketAddr::from((ip, port)));
        prop_oneof![(v4(), prop::option::of(v4())), (v6(), prop::option::of(v6()))]
    }

    proptest! {
        /// Catches: a flag that is not written; ports in the wrong byte order; client and
        /// destination exchanged.
        #[test]
        fn a_header_is_read_as_it_was_written((destination, client) in addresses()) {
            let header = Header { destination, client };
            let bytes = header.encode();
            prop_assert!(bytes.len() <= LONGEST);
            prop_assert_eq!(Header::decode(&bytes), Ok(header));
            let fixed = *bytes.first_chunk().unwrap();
            prop_assert_eq!(Header::rest(fixed), Ok(bytes.len() - FIXED));
            for end in 0..bytes.len() {
                prop_assert_eq!(Header::decode(&bytes[..end]), Err(Bad::Length));
            }
        }

        /// Catches: unknown flags accepted; another version accepted; surplus bytes accepted; a
        /// port of zero accepted.
        #[test]
        fn an_accepted_header_is_encoded_to_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..=LONGEST), plausible: bool) {
            let mut bytes = bytes;
            if let (true, Some(fixed)) = (plausible, bytes.first_chunk_mut::<2>()) {
                *fixed = [VERSION, fixed[1] % 4];
            }
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert_eq!(header.encode(), bytes);
                prop_assert!(header.destination.port() != 0);
            }
        }

        #[test]
        fn a_confirmation_is_read_as_it_was_written(number: u64, other: [u8; CONFIRMATION]) {
            prop_assert_eq!(Confirmation::decode(Confirmation(number).encode()), Ok(Confirmation(number)));
            if let Ok(it) = Confirmation::decode(other) {
                prop_assert_eq!(it.encode(), other);
            }
        }
    }

    #[test]
    fn an_invalid_message_is_refused_with_its_reason() {
        let header = Header { destination: "10.0.0.1:80".parse().unwrap(), client: None };
        let with = |at: usize, byte: u8| {
            let mut bytes = header.encode();
            bytes[at] = byte;
            Header::decode(&bytes)
        };
        assert_eq!(header.encode(), [1, 0, 10, 0, 0, 1, 0, 80]);
        assert_eq!(with(0, 2), Err(Bad::Version(2)));
        assert_eq!(with(1, 4), Err(Bad::Flags(4)));
        assert_eq!(with(1, IPV6), Err(Bad::Length));
        assert_eq!(with(7, 0), Err(Bad::Port));
        assert_eq!(Confirmation::decode([0; CONFIRMATION]), Err(Bad::Kind(0)));
        for answer in Answer::FAILURES {
            assert_eq!(Answer::of(answer.byte()), Some(answer));
        }
        assert_eq!((Answer::of(7), Answer::of(255)), (None, None));
        assert!(PROTOCOL.ends_with(VERSION.to_string().as_bytes()));
    }
}
