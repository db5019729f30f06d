//! Compiles the trunks of a policy file, and reports trunks that cannot work. A trunk is a path
//! between two gateways, whose rate is found by congestion control.

use std::net::IpAddr;

use tidegate_core::packet::Direction;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::trunk::{Encapsulation, Probing, Wire};
use tidegate_core::{Bytes, Rate, tcp, trunk};
use tidegate_gateway::GatewayConfig;
use toml::Spanned;

use super::classes::keep_allowance;
use super::compile::usable_name;
use super::{NextHop, TrunkEnd, raw};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::read::one_of;
use crate::values::number;

/// A trunk, and the settings that only a live gateway needs.
type Compiled = (trunk::Config, Option<TrunkEnd>);

/// Compiles the trunks of `file`. With `live`, also requires the settings of a live gateway.
pub(super) fn compile(
    file: &raw::File,
    gateway: Option<&GatewayConfig>,
    live: bool,
    found: &mut Findings,
) -> Option<Vec<Compiled>> {
    let written = file.trunks.as_ref().map_or(&[][..], |trunks| &trunks.get_ref().0);
    of_policies(file, written, found);
    let mut trunks: Vec<(&Spanned<raw::Trunk>, trunk::Config)> = Vec::new();
    let mut ends = Vec::new();
    for raw in written {
        let end = end(raw, live, found);
        let Some(trunk) = trunk(raw.get_ref(), found) else { continue };
        ends.push(end);
        for (earlier, other) in &trunks {
            let problem = if other.name == trunk.name {
                (Code::DuplicateName, format!("two trunks are named `{}`", trunk.name))
            } else if collide(other, &trunk) {
                (Code::BadTrunk, "two trunks to one gateway take the same ports".to_owned())
            } else if look_alike(other, &trunk) {
                let message = "a trunk with epochs is of the same class `assured` as another trunk";
                (Code::BadTrunk, message.to_owned())
            } else {
                continue;
            };
            let twice = Diagnostic::error(problem.0, raw.span(), problem.1);
            found.push(twice.other(earlier.span(), "the other"));
        }
        trunks.push((raw, trunk));
    }
    trunks.iter().for_each(|(raw, _)| ceiling(raw.get_ref(), link(file), found));
    promised(&trunks, gateway?.rate[0], link(file), found);
    let trunks = trunks.into_iter().map(|(_, trunk)| trunk);
    (ends.len() == written.len()).then(|| trunks.zip(ends).collect())
}

/// The settings of the trunk `raw` for a live gateway. If `live`, reports missing ones.
fn end(raw: &Spanned<raw::Trunk>, live: bool, found: &mut Findings) -> Option<TrunkEnd> {
    let it = raw.get_ref();
    let hop = it.next_hop.as_ref();
    let next_hop = hop.and_then(|text| next_hop(text, it.local.get(), found));
    let key_file = it.key_file.as_ref().map(|text| text.get_ref().clone());
    let mtu = it.mtu.as_ref().and_then(|written| mtu(written, it, found));
    if let Some(text) = it.key_file.as_ref().filter(|text| !text.get_ref().starts_with('/')) {
        let message = "`key_file` is not an absolute path";
        let help = "begin the path with /: the gateway may have another working directory";
        found.push(Diagnostic::error(Code::BadTrunk, text.span(), message).help(help));
    }
    for (missing, field, help) in [
        (hop.is_none(), "next_hop", "add the address of the router on the WAN port"),
        (key_file.is_none(), "key_file", "add the file with the key, as of `openssl rand -hex 32`"),
    ] {
        if live && missing {
            let message = format!("a live gateway needs the `{field}` of a trunk");
            found.push(Diagnostic::error(Code::NotLive, raw.span(), message).help(help));
        }
    }
    Some(TrunkEnd { next_hop: next_hop?, key_file: key_file?, mtu })
}

/// An IP address of the same version as `local`, or a MAC address.
fn next_hop(
    text: &Spanned<raw::Station>,
    local: Option<&Spanned<raw::Station>>,
    found: &mut Findings,
) -> Option<NextHop> {
    if let Some(mac) = mac(&text.get_ref().0) {
        return Some(NextHop::Mac(mac));
    }
    let address = address(text, found)?;
    let local = local.and_then(|local| local.get_ref().0.parse::<IpAddr>().ok());
    if local.is_some_and(|local| local.is_ipv4() != address.is_ipv4() || local == address) {
        let message = format!("{address} cannot be the next hop of this address");
        let help = "write the address of the router on the WAN port, of the same family";
        found.push(Diagnostic::error(Code::BadTrunk, text.span(), message).help(help));
        return None;
    }
    Some(NextHop::Address(address))
}

/// A unicast MAC address, such as `02:00:5e:10:00:01`.
fn mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    (parts.next().is_none() && mac[0] & 1 == 0).then_some(mac)
}

fn trunk(raw: &raw::Trunk, found: &mut Findings) -> Option<trunk::Config> {
    let name = raw.name.get().and_then(|name| usable_name(name, "trunk", found));
    let local = raw.local.get().and_then(|it| address(it, found));
    let peer = raw.peer.get().and_then(|it| address(it, found));
    let connections = match &raw.connections {
        Some(written) => number(written, "connections", 1..=MOST_CONNECTIONS, found),
        None => Some(USUAL_CONNECTIONS),
    };
    let port = match &raw.port {
        Some(written) => number(written, "port", 1..=LAST_PORT, found),
        None => Some(4754),
    };
    let assured = match &raw.assured {
        Some(written) => number(written, "assured", 1..=4, found),
        None => Some(1),
    };
    let probing = probing(raw, found);
    let usual = || QdiscSpec::PerFlow(Default::default());
    let queue = raw.queue.as_ref().map_or_else(usual, |it| it.get_ref().clone());
    let tcp = tcp(raw, probing, found);
    let (local, peer) = (local?, peer?);
    if local == peer || local.is_ipv4() != peer.is_ipv4() {
        let message = format!("a trunk cannot lead from {local} to {peer}");
        let place = raw.peer.get()?.span();
        found.push(Diagnostic::error(Code::BadTrunk, place, message));
        return None;
    }
    Some(trunk::Config {
        name: name?,
        local,
        peer,
        port: port?,
        connections: connections?,
        vmss: vmss(raw.vmss.as_ref(), local, found)?,
        guarantee: raw.guarantee.as_ref().map(|it| *it.get_ref()).filter(|it| it.bps() > 0),
        ceiling: raw.ceiling.as_ref().map(|it| *it.get_ref()),
        queue,
        assured: assured?,
        tcp: tcp?,
        fallback: raw.fallback.as_ref().map(|it| *it.get_ref()).unwrap_or_default(),
        probing,
        weight: raw.weight.as_ref().map(|it| it.get_ref().0.clone()),
        wire: wire(raw, found)?,
    })
}

/// How the packets of a trunk are encoded between live gateways.
fn wire(raw: &raw::Trunk, found: &mut Findings) -> Option<Wire> {
    let vlan = match &raw.vlan {
        Some(written) => Some(number(written, "vlan", 1..=LAST_VLAN, found)?),
        None => None,
    };
    let encapsulation = raw.encapsulation.as_ref().map(|it| *it.get_ref()).unwrap_or_default();
    Some(Wire::Datagrams { vlan, encapsulation })
}

/// Largest VLAN identifier (IEEE 802.1Q, section 9.6: 0 and 4095 do not identify a VLAN).
const LAST_VLAN: u16 = 4_094;

/// The MTU of the path for the trunk's datagrams.
fn mtu(written: &Spanned<Bytes>, raw: &raw::Trunk, found: &mut Findings) -> Option<u32> {
    if raw.encapsulation.as_ref().is_none_or(|it| *it.get_ref() == Encapsulation::None) {
        let message =
            "`mtu` limits datagrams: without `encapsulation`, user packets are sent unchanged";
        let help = "leave it out, or add encapsulation = \"udp\"";
        found.push(Diagnostic::error(Code::BadTrunk, written.span(), message).help(help));
        return None;
    }
    let mtu = *written.get_ref();
    if (LEAST_MTU..=Bytes(9_216)).contains(&mtu) {
        return u32::try_from(mtu.0).ok();
    }
    let message = format!("{mtu} is out of range for `mtu`");
    let help = "it goes from 1351 B, in which an IPv6 packet of 1280 B travels, to 9216 B";
    found.push(Diagnostic::error(Code::OutOfRange, written.span(), message).help(help));
    None
}

/// Smallest MTU: an IPv6 packet of 1280 bytes (RFC 8200, section 5), plus the overhead of a
/// datagram over IPv6.
const LEAST_MTU: Bytes = Bytes(1_351);

/// The probing method of a trunk. Reports fields that have no meaning with this method.
fn probing(raw: &raw::Trunk, found: &mut Findings) -> Probing {
    let probing = raw.probing.as_ref().map_or(Probing::Management, |it| *it.get_ref());
    let encapsulation = raw.encapsulation.as_ref();
    let encapsulates = encapsulation.filter(|it| *it.get_ref() != Encapsulation::None);
    let encapsulates = encapsulates.map(Spanned::span);
    let of_management = [
        ("connections", raw.connections.as_ref().map(Spanned::span)),
        ("vmss", raw.vmss.as_ref().map(Spanned::span)),
        ("tcp", raw.tcp.as_ref().map(Spanned::span)),
        ("weight", raw.weight.as_ref().map(Spanned::span)),
        ("fallback", raw.fallback.as_ref().map(Spanned::span)),
        ("encapsulation", encapsulates),
    ];
    for (name, place) in of_management {
        if let (Probing::Epochs, Some(place)) = (probing, place) {
            let message = format!(
                "`{name}` applies only to management packets, and a trunk with epochs has none"
            );
            let help = "leave it out, or probe by \"management\"";
            found.push(Diagnostic::error(Code::BadTrunk, place, message).help(help));
        }
    }
    number_of_connections(raw, probing, found);
    probing
}

/// Reports `connections` if another field already determines their number.
fn number_of_connections(raw: &raw::Trunk, probing: Probing, found: &mut Findings) {
    let Some(written) = &raw.connections else { return };
    let wrong = |message| Diagnostic::error(Code::BadTrunk, written.span(), message);
    match (&raw.weight, probing) {
        (_, Probing::Epochs) | (None, Probing::Management) => {}
        (Some(weight), Probing::Management) => {
            let message = "`weight` decides the number of connections";
            let help = "leave `connections` out; weight = 8 is eight connections";
            found.push(wrong(message).other(weight.span(), "the weight").help(help));
        }
        (_, Probing::Vegas) => {
            let message = "a trunk with \"vegas\" has one connection";
            let help =
                "leave `connections` out; write weight = 8 for the share of eight connections";
            found.push(wrong(message).help(help));
        }
    }
}

/// The TCP settings of the management connections.
fn tcp(raw: &raw::Trunk, probing: Probing, found: &mut Findings) -> Option<tcp::Config> {
    let Some(written) = &raw.tcp else { return Some(usual_tcp(probing)) };
    let config = &written.get_ref().0;
    let name = config.congestion.name();
    if probing == Probing::Vegas && !WEIGHTED.contains(&name) {
        let message = format!("the congestion control `{name}` has no weight");
        let help =
            format!("add a congestion control with a weight, one of: {}", WEIGHTED.join(", "));
        found.push(Diagnostic::error(Code::BadTrunk, written.span(), message).help(help));
        return None;
    }
    Some(config.clone())
}

/// The congestion controls that support weights.
const WEIGHTED: &[&str] = &["vegas-ns2", "weighted-vegas", "weighted-reno"];

/// Default number of management connections.
const USUAL_CONNECTIONS: u16 = 4;

/// Largest number of management connections of a trunk.
const MOST_CONNECTIONS: u16 = 64;

/// Highest value of `port`: each of up to 64 connections takes two ports, beginning with `port`.
const LAST_PORT: u16 = u16::MAX - 2 * MOST_CONNECTIONS + 1;

/// TCP settings of management connections if the file has none. The receive window never limits
/// them.
fn usual_tcp(probing: Probing) -> tcp::Config {
    let usual = tcp::Config::default();
    let details = trunk::begin(usual.details);
    let congestion = match probing {
        Probing::Vegas => trunk::vegas(),
        _ => usual.congestion,
    };
    tcp::Config { receive_window: LARGEST_WINDOW, congestion, details, ..usual }
}

/// Largest receive window: 65,535 bytes scaled by 2^14, rounded (RFC 7323, section 2.3).
const LARGEST_WINDOW: Bytes = Bytes((1 << 30) - 1);

/// User bytes for which one management packet is sent. They must be at least the length of a
/// management packet between live gateways.
fn vmss(written: Option<&Spanned<Bytes>>, local: IpAddr, found: &mut Findings) -> Option<Bytes> {
    let Some(written) = written else { return Some(Bytes(1_500)) };
    let vmss = *written.get_ref();
    let live = Wire::Datagrams { vlan: None, encapsulation: Encapsulation::None };
    let [least, simulated] = [live, Wire::Headers].map(|it| Bytes(it.management_len(local).into()));
    if (least..=Bytes(65_535)).contains(&vmss) {
        return Some(vmss);
    }
    let message = format!("{vmss} is out of range for `vmss`");
    let help = format!(
        "it goes from {least}, the length of a management packet between live gateways ({simulated} in the simulator), to 65535 B"
    );
    found.push(Diagnostic::error(Code::OutOfRange, written.span(), message).help(help));
    None
}

fn address(text: &Spanned<raw::Station>, found: &mut Findings) -> Option<IpAddr> {
    let address = text.get_ref().0.parse::<IpAddr>().ok();
    let usable = |it: &IpAddr| !it.is_multicast() && !it.is_loopback() && !it.is_unspecified();
    let address = address.filter(usable);
    if address.is_none() {
        let message =
            format!("`{}` cannot be the address of a gateway", text.get_ref().0.escape_debug());
        let help = "write one unicast address without a length, such as 192.0.2.1 or 2001:db8::1";
        found.push(Diagnostic::error(Code::BadAddress, text.span(), message).help(help));
    }
    address
}

/// Returns `true` if two trunks use the same ports between the same gateways.
fn collide(one: &trunk::Config, other: &trunk::Config) -> bool {
    let ports = |it: &trunk::Config| (it.port, it.port + 2 * it.channels());
    let ((from, to), (other_from, other_to)) = (ports(one), ports(other));
    (one.local, one.peer) == (other.local, other.peer) && from < other_to && other_from < to
}

/// Returns `true` if an arriving user packet could belong to either trunk. A trunk with epochs
/// identifies its user packets by their class alone.
fn look_alike(one: &trunk::Config, other: &trunk::Config) -> bool {
    let pair = [one, other];
    let epochs = pair.iter().filter(|it| it.probing == Probing::Epochs).count();
    let bare = pair.iter().all(|it| it.wire.overhead(it.local) == 0);
    one.assured == other.assured && (epochs == 2 || epochs == 1 && bare)
}

/// The upward rate of the link in the file.
fn link(file: &raw::File) -> Option<&Spanned<Rate>> {
    file.gateway.get()?.get_ref().rate.as_ref()?.get_ref().up.as_ref()
}

/// Reports a ceiling below the guarantee, and a ceiling above the rate of the link.
fn ceiling(raw: &raw::Trunk, link: Option<&Spanned<Rate>>, found: &mut Findings) {
    let Some(ceiling) = &raw.ceiling else { return };
    let most = *ceiling.get_ref();
    if most.bps() == 0 {
        let message = "a ceiling of zero would hold every packet forever";
        return found.push(Diagnostic::error(Code::ZeroRate, ceiling.span(), message));
    }
    if let Some(least) = raw.guarantee.as_ref().filter(|it| *it.get_ref() > most) {
        let promised = least.get_ref();
        let message = format!("a ceiling of {most} is below the guarantee of {promised}");
        let help = format!("write at least ceiling = \"{promised}\", or lower the guarantee");
        let wrong = Diagnostic::error(Code::CeilingBelowGuarantee, ceiling.span(), message);
        found.push(wrong.other(least.span(), "the guarantee").help(help));
    }
    if let Some(link) = link.filter(|it| *it.get_ref() < most) {
        let rate = link.get_ref();
        let message = format!("a ceiling of {most} has no effect: the link has {rate}");
        let help =
            format!("write at most ceiling = \"{rate}\", or leave it out: the link bounds it");
        let wrong = Diagnostic::error(Code::CeilingAboveLink, ceiling.span(), message);
        found.push(wrong.other(link.span(), "the rate of the link").help(help));
    }
}

/// Reports guarantees that together exceed the rate of the link. Marks the first guarantee beyond
/// the rate.
fn promised(
    trunks: &[(&Spanned<raw::Trunk>, trunk::Config)],
    rate: Option<Rate>,
    link: Option<&Spanned<Rate>>,
    found: &mut Findings,
) {
    let Some(rate) = rate else { return };
    let sums = trunks.iter().scan(0_u64, |sum, (raw, _)| {
        let guarantee = raw.get_ref().guarantee.as_ref();
        *sum = sum.saturating_add(guarantee.map_or(0, |it| it.get_ref().bps()));
        Some((*sum, guarantee))
    });
    let mut beyond =
        sums.filter_map(|(sum, it)| Some((sum, it?))).skip_while(|(sum, _)| *sum <= rate.bps());
    let Some((sum, first)) = beyond.next() else {
        if let Some(link) = link {
            let guarantees = trunks.iter().filter_map(|(_, trunk)| trunk.guarantee);
            keep_allowance("guarantees of trunks", guarantees, rate, &link.span(), found);
        }
        return;
    };
    let sum = beyond.last().map_or(sum, |(sum, _)| sum);
    let message = format!("trunks are guaranteed {}, and the link has {rate}", Rate::from_bps(sum));
    let wrong = Diagnostic::error(Code::PromisedTooMuch, first.span(), message);
    found.push(match link {
        Some(link) => wrong.other(link.span(), "the rate of the link"),
        None => wrong,
    });
}

/// Reports policies whose trunk does not exist, or would get no packets.
fn of_policies(file: &raw::File, written: &[Spanned<raw::Trunk>], found: &mut Findings) {
    let names = written.iter().filter_map(|trunk| trunk.get_ref().name.get());
    let names: Vec<_> = names.map(|name| name.get_ref().as_str()).collect();
    let policies = file.policies.as_ref().map_or(&[][..], |policies| &policies.get_ref().0);
    for policy in policies.iter().map(Spanned::get_ref) {
        let Some(trunk) = &policy.trunk else { continue };
        let name = trunk.get_ref().as_str();
        if !names.contains(&name) {
            let message = format!("there is no trunk `{}`", name.escape_debug());
            let help = one_of(name, &names);
            found.push(Diagnostic::error(Code::UnknownName, trunk.span(), message).help(help));
        }
        let direction = policy.filter.as_ref().and_then(|it| it.get_ref().direction.as_ref());
        if let Some(down) = direction.filter(|it| *it.get_ref() == Direction::Down) {
            let message = "packets from the WAN go through no trunk";
            let help =
                "match what goes \"up\", or leave out `trunk`: the other end has one for its way";
            let wrong = Diagnostic::error(Code::BadTrunk, trunk.span(), message).help(help);
            found.push(wrong.other(down.span(), "only this way"));
        }
    }
}
