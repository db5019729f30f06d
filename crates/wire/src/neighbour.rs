//! An IP address of the gateway itself on one of its ports: answers ARP requests and neighbour
//! solicitations for the address, and resolves the MAC address of the next hop.
//!
//! Source: RFC 826 (ARP); RFC 4861, sections 4.3, 4.4 and 7.1 (neighbour discovery).
//! Differs: a next hop that stops answering is not declared unreachable. Its last known MAC address
//! stays in use. Only untagged frames are read.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tidegate_core::Time;
use tidegate_core::packet::{Endpoint, FlowKey, Protocol};

use crate::build::{Frame, Transport};
use crate::{checksum, ethertype};

/// A MAC address.
pub type Mac = [u8; 6];

/// The next hop of packets that the gateway sends from its address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NextHop {
    /// A router's IP address, whose MAC address is to be resolved.
    Address(IpAddr),
    /// A fixed MAC address.
    Mac(Mac),
}

/// The result of reading a received frame.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The frame is not for the gateway's address alone, and must be forwarded.
    Others,
    /// A request for the gateway's address. The content is the frame to send in response.
    Answer(Vec<u8>),
    /// The frame was for the gateway's address, and needs no response.
    Nothing,
}

/// Interval of requests while the next hop has not answered.
const RETRY: Duration = Duration::from_secs(1);

/// Interval of requests after an answer.
const REFRESH: Duration = Duration::from_secs(30);

const BROADCAST: Mac = [0xff; 6];

/// An IP address of the gateway, with its next hop.
#[derive(Clone, Debug)]
pub struct Neighbour {
    local: IpAddr,
    mac: Mac,
    next_hop: NextHop,
    found: Option<Mac>,
    /// Time of the next request for the next hop.
    due: Option<Time>,
}

impl Neighbour {
    /// The IP address `local` on the port with the MAC address `mac`.
    #[must_use]
    pub const fn new(local: IpAddr, mac: Mac, next_hop: NextHop) -> Self {
        let (found, due) = match next_hop {
            NextHop::Address(_) => (None, Some(Time::ZERO)),
            NextHop::Mac(mac) => (Some(mac), None),
        };
        Self { local, mac, next_hop, found, due }
    }

    /// The IP address of the gateway.
    #[must_use]
    pub const fn local(&self) -> IpAddr {
        self.local
    }

    /// The next hop.
    #[must_use]
    pub const fn next_hop(&self) -> NextHop {
        self.next_hop
    }

    /// The MAC address of the next hop. `None` until it is resolved.
    #[must_use]
    pub const fn found(&self) -> Option<Mac> {
        self.found
    }

    /// Processes a received frame.
    pub fn receive(&mut self, now: Time, frame: &[u8]) -> Outcome {
        let message = match frame.get(12..14) {
            Some(kind) if kind == ethertype::ARP.to_be_bytes() => arp(frame),
            Some(kind) if kind == ethertype::IPV6.to_be_bytes() => discovery(frame),
            _ => None,
        };
        let Some(message) = message else { return Outcome::Others };
        if let (Some((who, mac)), NextHop::Address(next_hop)) = (message.sender, self.next_hop)
            && who == next_hop
            && mac[0] & 1 == 0
        {
            self.found = Some(mac);
            self.due = Some(now + REFRESH);
        }
        match message.target {
            Some((target, requester)) if target == self.local => match requester {
                Some(requester) => Outcome::Answer(self.answer(requester)),
                None => Outcome::Nothing,
            },
            _ => Outcome::Others,
        }
    }

    /// Returns the request for the next hop if it is due at `now`.
    pub fn request(&mut self, now: Time) -> Option<Vec<u8>> {
        let NextHop::Address(next_hop) = self.next_hop else { return None };
        self.due.filter(|due| *due <= now)?;
        self.due = Some(now + RETRY);
        Some(match (self.local, next_hop) {
            (IpAddr::V4(local), IpAddr::V4(next_hop)) => {
                let (sender, target) = ((self.mac, local.octets()), ([0; 6], next_hop.octets()));
                arp_frame(BROADCAST, 1, sender, target)
            }
            (_, IpAddr::V6(next_hop)) => {
                let (mac, group) = solicited(next_hop);
                self.discovery_frame(mac, group.into(), (SOLICIT, 0), (next_hop, SOURCE))
            }
            (IpAddr::V6(_), IpAddr::V4(_)) => return None,
        })
    }

    /// Time at which [`request`](Self::request) next returns a request.
    #[must_use]
    pub const fn due(&self) -> Option<Time> {
        self.due
    }

    fn answer(&self, who: Requester) -> Vec<u8> {
        match self.local {
            IpAddr::V4(local) => {
                let target = (who.mac, v4(who.address).unwrap_or_default());
                arp_frame(who.mac, 2, (self.mac, local.octets()), target)
            }
            IpAddr::V6(local) if who.address == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
                let (mac, all) =
                    ([0x33, 0x33, 0, 0, 0, 1], Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));
                self.discovery_frame(mac, all.into(), (ADVERTISE, OVERRIDE), (local, TARGET))
            }
            IpAddr::V6(local) => {
                let kind = (ADVERTISE, SOLICITED | OVERRIDE);
                self.discovery_frame(who.mac, who.address, kind, (local, TARGET))
            }
        }
    }

    /// A neighbour discovery message of type `kind` about the address `target`. Its one option, of
    /// type `option`, holds the gateway's MAC address.
    fn discovery_frame(
        &self,
        to_mac: Mac,
        to: IpAddr,
        (kind, flags): (u8, u8),
        (target, option): (Ipv6Addr, u8),
    ) -> Vec<u8> {
        let transport = Transport::Icmp(kind, 0, [flags, 0, 0, 0]);
        let payload = [&target.octets()[..], &[option, 1], &self.mac].concat();
        let frame = Frame {
            destination: to_mac,
            source: self.mac,
            payload,
            ..Frame::ip(self.local, to, transport)
        };
        let mut bytes = frame.bytes();
        bytes[HOP_LIMIT] = 255;
        bytes
    }
}

/// The content of an ARP or neighbour discovery message.
struct AddressMessage {
    /// IP address and MAC address of the sender.
    sender: Option<(IpAddr, Mac)>,
    /// The address that the message is about. For a request, also the address of the requester.
    target: Option<(IpAddr, Option<Requester>)>,
}

/// The requester.
#[derive(Clone, Copy)]
struct Requester {
    mac: Mac,
    address: IpAddr,
}

/// The start of an ARP message: hardware type Ethernet, protocol type IPv4, and the address
/// lengths.
const ARP_KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];

fn arp(frame: &[u8]) -> Option<AddressMessage> {
    let body = frame.get(14..)?.first_chunk::<28>()?;
    if body[..6] != ARP_KIND {
        return None;
    }
    let mac: Mac = *body[8..].first_chunk()?;
    let [sender, target] = [&body[14..18], &body[24..28]].map(|it| v4_of(it).map(IpAddr::V4));
    let (sender, target) = (sender?, target?);
    let requester = (body[7] == 1).then_some(Requester { mac, address: sender });
    matches!(body[6..8], [0, 1 | 2]).then_some(AddressMessage {
        sender: Some((sender, mac)),
        target: Some((target, requester)),
    })
}

fn arp_frame(to: Mac, operation: u8, sender: (Mac, [u8; 4]), target: (Mac, [u8; 4])) -> Vec<u8> {
    let body = [&ARP_KIND[..], &[0, operation], &sender.0, &sender.1, &target.0, &target.1];
    let mut frame = Frame::opaque(ethertype::ARP, body.concat());
    (frame.destination, frame.source) = (to, sender.0);
    // Ethernet frames have at least 46 bytes of payload.
    frame.payload.resize(46, 0);
    frame.bytes()
}

const HOP_LIMIT: usize = 14 + 7;
const SOLICIT: u8 = 135;
const ADVERTISE: u8 = 136;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
/// Option types: link-layer address of the source, and of the target.
const SOURCE: u8 = 1;
const TARGET: u8 = 2;

fn discovery(frame: &[u8]) -> Option<AddressMessage> {
    let header = frame.get(14..)?.first_chunk::<40>()?;
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let message = frame.get(54..)?.get(..len)?;
    let (kind, code) = (*message.first()?, *message.get(1)?);
    let (Some(source), Some(to)) = (v6_of(&header[8..24]), v6_of(&header[24..40])) else {
        return None;
    };
    if (header[0] >> 4, header[6], header[7], code) != (6, Protocol::ICMPV6.0, 255, 0) {
        return None;
    }
    let key = FlowKey {
        src: Endpoint::v6(source.octets(), 0),
        dst: Endpoint::v6(to.octets(), 0),
        protocol: Protocol::ICMPV6,
    };
    if checksum::sum(checksum::pseudo_header(&key, message.len()), message) != 0xffff {
        return None;
    }
    let target = v6_of(message.get(8..24)?)?;
    let option = |kind| option(&message[24..], kind);
    let from = *frame.get(6..)?.first_chunk::<6>()?;
    match kind {
        SOLICIT => {
            let mac = option(SOURCE);
            let requester = Requester { mac: mac.unwrap_or(from), address: source.into() };
            let sender = mac.map(|mac| (source.into(), mac));
            Some(AddressMessage { sender, target: Some((target.into(), Some(requester))) })
        }
        ADVERTISE => {
            let sender = option(TARGET).map(|mac| (target.into(), mac));
            let ours = (!to.is_multicast()).then_some((IpAddr::V6(to), None));
            Some(AddressMessage { sender, target: ours })
        }
        _ => None,
    }
}

/// The MAC address in the option of type `kind`.
///
/// Source: RFC 4861, section 4.6.
fn option(mut options: &[u8], kind: u8) -> Option<Mac> {
    while let [found, units, ..] = *options {
        let (option, rest) = options.split_at_checked(usize::from(units) * 8)?;
        if found == kind {
            return option.get(2..)?.first_chunk().copied();
        }
        if option.is_empty() {
            return None;
        }
        options = rest;
    }
    None
}

/// The multicast MAC and IP address to which solicitations for `address` are sent.
///
/// Source: RFC 4291, section 2.7.1; RFC 2464, section 7.
fn solicited(address: Ipv6Addr) -> (Mac, Ipv6Addr) {
    let [.., a, b, c] = address.octets();
    let group =
        Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
    ([0x33, 0x33, 0xff, a, b, c], group)
}

fn v4(address: IpAddr) -> Option<[u8; 4]> {
    match address {
        IpAddr::V4(it) => Some(it.octets()),
        IpAddr::V6(_) => None,
    }
}

fn v4_of(bytes: &[u8]) -> Option<std::net::Ipv4Addr> {
    <[u8; 4]>::try_from(bytes).ok().map(Into::into)
}

fn v6_of(bytes: &[u8]) -> Option<Ipv6Addr> {
    <[u8; 16]>::try_from(bytes).ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Mac = [2, 0, 0, 0, 0, 0x10];
    const ROUTER: Mac = [2, 0, 0, 0, 0, 0x20];

    /// The gateway and the router, over IPv4 or IPv6.
    fn pair(v6: bool) -> (Neighbour, Neighbour) {
        let [ours, router]: [IpAddr; 2] = if v6 {
            ["2001:db8::1".parse().unwrap(), "2001:db8::ff12:3456".parse().unwrap()]
        } else {
            ["192.0.2.1".parse().unwrap(), "192.0.2.254".parse().unwrap()]
        };
        let us = Neighbour::new(ours, OURS, NextHop::Address(router));
        (us, Neighbour::new(router, ROUTER, NextHop::Address(ours)))
    }

    fn second(seconds: u64) -> Time {
        Time::from_secs(seconds)
    }

    /// Catches: sender and target exchanged; a wrong ICMPv6 checksum; an advertisement without the
    /// MAC address.
    #[test]
    fn two_gateways_resolve_each_other() {
        for v6 in [false, true] {
            let (mut us, mut router) = pair(v6);
            let question = us.request(second(5)).unwrap();
            assert!(us.request(second(5)).is_none() && us.due() == Some(second(6)));
            let Outcome::Answer(answer) = router.receive(second(5), &question) else {
                panic!("{v6}")
            };
            assert_eq!(router.found(), Some(OURS), "a request contains the address of its sender");
            assert_eq!(us.receive(second(5), &answer), Outcome::Nothing);
            assert_eq!((us.found(), us.due()), (Some(ROUTER), Some(second(35))));
            assert!(answer[..6] == OURS && question.len() >= 60 && answer.len() >= 60);
        }
    }

    #[test]
    fn requests_for_other_addresses_are_forwarded_and_a_next_hop_that_moves_is_followed() {
        for v6 in [false, true] {
            let (mut us, mut router) = pair(v6);
            let mut third = Neighbour { mac: [2, 0, 0, 0, 0, 0x30], ..router.clone() };
            let question = us.request(second(0)).unwrap();
            let mut other = us.clone();
            other.local = if v6 { "2001:db8::2" } else { "192.0.2.2" }.parse().unwrap();
            assert_eq!(other.receive(second(0), &question), Outcome::Others);
            for (who, mac) in [(&mut router, ROUTER), (&mut third, [2, 0, 0, 0, 0, 0x30])] {
                let Outcome::Answer(answer) = who.receive(second(1), &question) else { panic!() };
                us.receive(second(1), &answer);
                assert_eq!(us.found(), Some(mac));
            }
        }
    }

    /// Catches: an unchecked hop limit, so that hosts beyond a router could spoof neighbour
    /// discovery.
    #[test]
    fn messages_that_are_damaged_or_from_beyond_a_router_are_ignored() {
        let (mut us, mut router) = pair(true);
        let question = us.request(second(0)).unwrap();
        let Outcome::Answer(answer) = router.receive(second(0), &question) else { panic!() };
        for at in (12..answer.len()).filter(|at| !(15..18).contains(at)) {
            let mut wrong = answer.clone();
            wrong[at] ^= 0x11;
            us.receive(second(0), &wrong);
            assert_eq!(us.found(), None, "byte {at}");
        }
        us.receive(second(0), &answer);
        assert_eq!(us.found(), Some(ROUTER));
    }

    #[test]
    fn any_beginning_of_a_frame_is_read_without_a_panic() {
        for v6 in [false, true] {
            let (mut us, mut router) = pair(v6);
            let question = us.request(second(0)).unwrap();
            for len in 0..question.len() {
                router.receive(second(0), &question[..len]);
            }
            let mut random = tidegate_core::random::Random::new(3, 3);
            for _ in 0..20_000 {
                let mut frame = question.clone();
                for _ in 0..3 {
                    let at =
                        usize::try_from(random.below(u64::try_from(frame.len()).unwrap())).unwrap();
                    frame[at] = u8::try_from(random.below(256)).unwrap();
                }
                router.receive(second(0), &frame);
            }
        }
    }

    #[test]
    fn a_fixed_hardware_address_is_not_requested() {
        let local = "192.0.2.1".parse().unwrap();
        let mut us = Neighbour::new(local, OURS, NextHop::Mac(ROUTER));
        assert_eq!((us.found(), us.due(), us.request(second(9))), (Some(ROUTER), None, None));
    }
}
