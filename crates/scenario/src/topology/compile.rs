//! Compiles a topology file: fills in defaults, and checks tables against each other.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tidegate_core::link::LinkConfig;
use toml::Spanned;

use super::{Gateway, Host, PolicyFile, Route, Topology, raw};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings, Span};
use crate::read::{Array, List, one_of};
use crate::values::number;

/// Compiles `file`. Errors go to `found`.
pub(crate) fn compile(file: &raw::File, found: &mut Findings) -> Topology {
    let raw_hosts = file.hosts.get().map_or(&[][..], |it| &it.get_ref().0);
    let raw_gateways = rows(file.gateways.as_ref());
    let names = raw_hosts.iter().filter_map(|it| it.get_ref().name.get());
    let names = names.chain(raw_gateways.iter().filter_map(|it| it.get_ref().name.get()));
    let names =
        names.chain(rows(file.routers.as_ref()).iter().filter_map(|it| it.get_ref().name.get()));
    names_differ(names.chain(file.name.as_ref()), found);
    let gateways = gateways(raw_gateways, found);
    let hosts = hosts(raw_hosts, &gateways, found);
    let route = |it: &Spanned<raw::Route>| route(it.get_ref(), &hosts, found);
    let routes: Vec<_> = rows(file.routes.as_ref()).iter().map(route).collect();
    let seed = file.seed.as_ref().map(|it| number(it, "seed", 0..=i64::MAX, found));
    Topology {
        name: file.name.as_ref().map(|it| it.get_ref().clone()),
        offloads: value(file.offload.as_ref()),
        seed: seed.flatten().map_or(0, i64::unsigned_abs),
        hosts,
        gateways,
        routes,
    }
}

/// All tables of a kind, for example `[[route]]`.
pub(crate) fn rows<T>(field: Option<&Spanned<Array<T>>>) -> &[Spanned<T>] {
    field.map_or(&[], |it| &it.get_ref().0)
}

/// Reports tables and sizes that only the simulator supports.
pub(super) fn fits_lab(file: &raw::File, topology: &Topology, found: &mut Findings) {
    let routers = rows(file.routers.as_ref()).iter().map(|it| (it.span(), "routers"));
    let links = rows(file.links.as_ref()).iter().map(|it| (it.span(), "links between nodes"));
    if let Some((place, what)) = routers.chain(links).min_by_key(|(place, _)| place.start) {
        let message = format!("a lab has no {what}");
        found.push(Diagnostic::error(Code::NotInLab, place, message));
    }
    let hosts = file.hosts.get().map_or(&[][..], |it| &it.get_ref().0);
    if let Some(host) = hosts.get(MOST_IN_LAB) {
        let message = format!("there are {} hosts", hosts.len());
        let help = format!("a lab has at most {MOST_IN_LAB}");
        found.push(Diagnostic::error(Code::OutOfRange, host.span(), message).help(help));
    }
    serve(rows(file.gateways.as_ref()), topology, found);
    if !found.has_errors() {
        unreachable(rows(file.routes.as_ref()), topology, found);
    }
}

fn value<T: Copy + Default>(field: Option<&Spanned<T>>) -> T {
    field.map(|it| *it.get_ref()).unwrap_or_default()
}

/// Longest name. It becomes part of the name of a network namespace.
const LONGEST_NAME: usize = 32;

const NAMES: &str = "names have 1 to 32 letters, digits, dashes and underscores; `any` is taken";

/// Returns `true` if `text` is a valid name for a lab or a host.
pub(crate) fn is_name(text: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=LONGEST_NAME).contains(&text.len()) && text.chars().all(good) && text != ANY
}

fn names_differ<'a>(names: impl Iterator<Item = &'a Spanned<String>>, found: &mut Findings) {
    let mut seen: HashMap<&str, Span> = HashMap::new();
    for name in names {
        let text = name.get_ref();
        if !is_name(text) {
            let message = format!("`{}` cannot be a name here", text.escape_debug());
            found.push(Diagnostic::error(Code::BadName, name.span(), message).help(NAMES));
        }
        if let Some(first) = seen.insert(text, name.span()) {
            let message = format!("`{text}` is used twice");
            let twice = Diagnostic::error(Code::DuplicateName, name.span(), message);
            found.push(twice.other(first, "first here").help("give each a name of its own"));
        }
    }
}

fn gateways(raw: &[Spanned<raw::Gateway>], found: &mut Findings) -> Vec<Gateway> {
    let names: Vec<_> = raw.iter().map(|it| text(it.get_ref().name.get())).collect();
    let all: Vec<_> = names.iter().map(String::as_str).collect();
    let mut outer = |raw: &Spanned<raw::Gateway>| {
        raw.get_ref().gateway.as_ref().and_then(|name| named(name, &all, "gateway", found))
    };
    let mut outer: Vec<_> = raw.iter().map(&mut outer).collect();
    for number in 0..raw.len() {
        end_at_network(number, raw, &mut outer, found);
    }
    let pairs = raw.iter().zip(outer).zip(&names);
    let gateway = |((raw, outer), name): ((&Spanned<raw::Gateway>, _), &String)| Gateway {
        name: name.clone(),
        policy: policy(raw, found),
        gateway: outer,
    };
    pairs.map(gateway).collect()
}

/// Reports a gateway on its own LAN side, directly or through other gateways. Breaks the cycle at
/// this gateway.
fn end_at_network(
    number: usize,
    raw: &[Spanned<raw::Gateway>],
    outer: &mut [Option<usize>],
    found: &mut Findings,
) {
    let next = |at: &usize| outer[*at];
    let mut way = std::iter::successors(outer[number], next).take(raw.len());
    if let (true, Some(name)) = (way.any(|it| it == number), &raw[number].get_ref().gateway) {
        outer[number] = None;
        let message =
            format!("gateway `{}` is behind itself", text(raw[number].get_ref().name.get()));
        let help = "leave `gateway` out of the one that is nearest to the network";
        found.push(Diagnostic::error(Code::BadGateway, name.span(), message).help(help));
    }
}

fn policy(raw: &Spanned<raw::Gateway>, found: &mut Findings) -> PolicyFile {
    let it = raw.get_ref();
    match (&it.policy, &it.inline) {
        (Some(path), None) => PolicyFile::Path(path.get_ref().clone()),
        (None, Some(text)) => PolicyFile::Inline(text.get_ref().clone()),
        (Some(path), Some(_)) => {
            let message = "the policy file is given twice, as `policy` and as `inline`";
            let help = "keep the path or the text";
            found.push(Diagnostic::error(Code::BadGateway, path.span(), message).help(help));
            PolicyFile::Path(String::new())
        }
        (None, None) => {
            let message = "a gateway needs a policy file";
            let help = "add policy = \"FILE\", or the file itself as inline = '''...'''";
            found.push(Diagnostic::error(Code::BadGateway, raw.span(), message).help(help));
            PolicyFile::Path(String::new())
        }
    }
}

fn text(name: Option<&Spanned<String>>) -> String {
    name.map(|it| it.get_ref().clone()).unwrap_or_default()
}

/// Reports gateways without a host or gateway on their LAN side.
fn serve(raw: &[Spanned<raw::Gateway>], topology: &Topology, found: &mut Findings) {
    for (number, gateway) in raw.iter().enumerate() {
        if topology.behind(number).chain(topology.gateways_behind(number)).next().is_none() {
            let message = "no host is behind this gateway";
            let help =
                "add gateway = \"NAME\" to a host or another gateway, or remove this gateway";
            found.push(Diagnostic::error(Code::BadGateway, gateway.span(), message).help(help));
        }
    }
}

/// Largest number of hosts in a lab. Each host is a network namespace.
const MOST_IN_LAB: usize = 250;

/// Largest number of hosts in a file. The default address of a host ends with the host's number.
const MOST_HOSTS: usize = 60_000;

fn hosts(raw: &[Spanned<raw::Host>], gateways: &[Gateway], found: &mut Findings) -> Vec<Host> {
    if let Some(host) = raw.get(MOST_HOSTS) {
        let message = format!("there are {} hosts", raw.len());
        let help = format!("there can be at most {MOST_HOSTS}");
        found.push(Diagnostic::error(Code::OutOfRange, host.span(), message).help(help));
    }
    let gateway_names: Vec<_> = gateways.iter().map(|it| it.name.as_str()).collect();
    let mut seen: HashMap<IpAddr, Span> = HashMap::new();
    let host = |(number, raw): (u16, &Spanned<raw::Host>)| {
        let it = raw.get_ref();
        let written = it.addresses.as_ref().map(|list| &list.get_ref().0);
        let addresses: Vec<_> = match written {
            Some(list) => list.iter().filter_map(|text| address(text, &mut seen, found)).collect(),
            None => default_addresses(number).to_vec(),
        };
        let gateway = it.gateway.as_ref();
        let gateway = gateway.and_then(|name| named(name, &gateway_names, "gateway", found));
        Host { name: text(it.name.get()), addresses, gateway }
    };
    (1..=u16::MAX).zip(raw).map(host).collect()
}

fn default_addresses(number: u16) -> [IpAddr; 2] {
    let v6 = Ipv6Addr::new(0xfd73, 0, 0, 0, 0, 0, 0, number);
    let [high, low] = number.to_be_bytes();
    [Ipv4Addr::new(10, 73, high, low).into(), v6.into()]
}

fn address(
    text: &Spanned<String>,
    seen: &mut HashMap<IpAddr, Span>,
    found: &mut Findings,
) -> Option<IpAddr> {
    let address = text.get_ref().parse::<IpAddr>().ok();
    let usable = |it: &IpAddr| !it.is_multicast() && !it.is_loopback() && !it.is_unspecified();
    let Some(address) = address.filter(usable) else {
        let message =
            format!("`{}` cannot be the address of a host", text.get_ref().escape_debug());
        let help = "write one unicast address without a length, such as 192.0.2.1 or 2001:db8::1";
        found.push(Diagnostic::error(Code::BadAddress, text.span(), message).help(help));
        return None;
    };
    if let Some(first) = seen.insert(address, text.span()) {
        let message = format!("{address} is used twice");
        let twice = Diagnostic::error(Code::BadAddress, text.span(), message);
        found.push(twice.other(first, "first here").help("give each host addresses of its own"));
    }
    Some(address)
}

/// The index of the host or gateway `name`.
pub(crate) fn named(
    name: &Spanned<String>,
    names: &[&str],
    what: &str,
    found: &mut Findings,
) -> Option<usize> {
    let number = names.iter().position(|it| it == name.get_ref());
    if number.is_none() {
        let message = format!("there is no {what} `{}`", name.get_ref().escape_debug());
        let help = one_of(name.get_ref(), names);
        found.push(Diagnostic::error(Code::UnknownNode, name.span(), message).help(help));
    }
    number
}

/// The name that means all hosts.
const ANY: &str = "any";

fn route(raw: &raw::Route, hosts: &[Host], found: &mut Findings) -> Route {
    let names: Vec<_> = hosts.iter().map(|it| it.name.as_str()).collect();
    let mut ends = |list: Option<&Spanned<List<String>>>| -> Vec<usize> {
        let list = list.map_or(&[][..], |it| &it.get_ref().0);
        if list.iter().any(|name| name.get_ref() == ANY) {
            return Vec::new();
        }
        list.iter().filter_map(|name| named(name, &names, "host", found)).collect()
    };
    let (from, to) = (ends(raw.from.as_ref()), ends(raw.to.as_ref()));
    if let ([a], [b], Some(place)) = (&from[..], &to[..], &raw.to)
        && a == b
    {
        let message = format!("`{}` is at both ends", hosts[*a].name);
        found.push(Diagnostic::error(Code::LinkToItself, place.span(), message));
    }
    let usual = LinkConfig::default();
    Route { from, to, link: link(&raw.way.0, &usual, "a route", found) }
}

/// The properties of a link. Missing fields get the values of `otherwise`. `what` names the link in
/// messages.
pub(crate) fn link(
    raw: &raw::Way,
    otherwise: &LinkConfig,
    what: &str,
    found: &mut Findings,
) -> LinkConfig {
    if let Some(rate) = raw.rate.as_ref().filter(|rate| rate.get_ref().bps() == 0) {
        let message = format!("{what} of rate zero would hold every packet forever");
        let help = "give a rate, or loss = \"100 %\"";
        found.push(Diagnostic::error(Code::ZeroRate, rate.span(), message).help(help));
    }
    let rate = raw.rate.as_ref().map(|it| *it.get_ref()).or(otherwise.rate);
    // After an error, the rate may be missing only because it is invalid.
    if let (Some(queue), None, false) = (&raw.queue, rate, found.has_errors()) {
        let message = format!("nothing ever waits for {what} without a rate");
        let help = "add a rate, or leave the queue out";
        found.push(Diagnostic::warning(Code::NeverMatches, queue.span(), message).help(help));
    }
    LinkConfig {
        delay: raw.delay.as_ref().map_or(otherwise.delay, |it| it.get_ref().0),
        jitter: raw.jitter.as_ref().map_or(otherwise.jitter, |it| *it.get_ref()),
        reorder: raw.reorder.as_ref().map_or(otherwise.reorder, |it| it.get_ref().0),
        loss: raw.loss.as_ref().map_or(otherwise.loss, |it| *it.get_ref()),
        rate,
        queue: raw
            .queue
            .as_ref()
            .map_or_else(|| otherwise.queue.clone(), |it| it.get_ref().clone()),
    }
}

/// Warns of routes that no packet can take, and of hosts without a route between them.
fn unreachable(raw: &[Spanned<raw::Route>], topology: &Topology, found: &mut Findings) {
    let Topology { routes, hosts, .. } = topology;
    let sites: Vec<_> = (0..hosts.len()).map(|host| topology.outermost(host)).collect();
    let apart = |a: usize, b: usize| a != b && (sites[a].is_none() || sites[a] != sites[b]);
    let mut used = vec![false; routes.len()];
    let mut cut_off = None;
    for (a, b) in (0..hosts.len()).flat_map(|a| (0..hosts.len()).map(move |b| (a, b))) {
        if !apart(a, b) {
            continue;
        }
        match routes.iter().position(|route| route.leads(a, b)) {
            Some(route) => used[route] = true,
            None => cut_off = cut_off.or(Some((a, b))),
        }
    }
    for (route, _) in raw.iter().zip(used).filter(|(_, used)| !used) {
        let message = "no packet ever takes this route: earlier routes match all its packets";
        let help = "move it up, or remove it";
        found.push(Diagnostic::warning(Code::NeverMatches, route.span(), message).help(help));
    }
    if let Some((a, b)) = cut_off {
        let (a, b) = (&hosts[a].name, &hosts[b].name);
        let message = format!("no route leads from `{a}` to `{b}`: their packets will be dropped");
        let help = "add a [[route]]; a route without `from` and `to` serves all other hosts";
        found.push(Diagnostic::warning(Code::NoWay, 0..0, message).help(help));
    }
}
