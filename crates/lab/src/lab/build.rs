//! Builds the namespaces, cables and addresses of a lab, with the program `ip`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::process;
use super::state::{NETWORK, State};
use crate::code::Code;
use crate::config;
use crate::files;
use crate::output::Failure;
use crate::topology::{Attached, Offloads, Topology};

/// The policy file of a gateway, and the names of the gateway's ports.
pub(super) struct Policy {
    pub(super) file: PathBuf,
    lan: String,
    wan: String,
}

impl Policy {
    pub(super) fn read(gateway: &str, file: PathBuf) -> anyhow::Result<Self> {
        let shown = file.display().to_string();
        let text = files::read_any(&file, files::MOST).map_err(|error| {
            let failure = error.of(&file);
            Failure::input(failure.code, format!("gateway `{gateway}`: {}", failure.message))
        })?;
        let (config, found) = config::parse(&shown, &text, None);
        let Some(config) = config else {
            let message = format!("gateway `{gateway}`:\n{}", found.render(false));
            return Err(Failure::input(Code::BadGateway, message).into());
        };
        Ok(Self { file, lan: config.lan, wan: config.wan })
    }
}

/// The name of a host's interface.
const HOST_PORT: &str = "eth0";

/// The bridge that connects a gateway's LAN port with several hosts.
const BRIDGE: &str = "tg-bridge";

/// The name of the interface at port `number` of the emulated network.
pub(super) fn port(number: usize) -> String {
    format!("p{number}")
}

/// Builds the namespaces, cables and addresses of `topology`, but starts no processes.
pub(super) fn network(
    topology: &Topology,
    state: &State,
    policies: &[Policy],
) -> anyhow::Result<()> {
    let of = |name: &str| {
        let missing = || Failure::new(Code::LabFailed, format!("no namespace for `{name}`"));
        state.namespace(name).ok_or_else(missing)
    };
    let mut all = String::new();
    for namespace in &state.namespaces {
        writeln!(all, "netns add {namespace}")?;
    }
    let net = of(NETWORK)?;
    let mut inner: Vec<(String, String)> = Vec::new();
    let mut ports = String::new();
    let host = |number: usize| Ok((of(&topology.hosts[number].name)?, HOST_PORT));
    let wan = |number: usize| Ok((of(&topology.gateways[number].name)?, &*policies[number].wan));
    for (number, attached) in topology.ports().into_iter().enumerate() {
        let port = port(number);
        writeln!(ports, "link set dev {port} up")?;
        let (there, end) = match attached {
            Attached::Host(number) => host(number),
            Attached::Gateway(number) => wan(number),
        }?;
        cable(&mut all, (&there, end), (&net, &port))?;
    }
    for (number, policy) in policies.iter().enumerate() {
        let ends = topology.behind(number).map(host);
        let ends = ends.chain(topology.gateways_behind(number).map(wan));
        let ends = ends.collect::<Result<Vec<_>, Failure>>()?;
        let here = of(&topology.gateways[number].name)?;
        let commands = lan(&mut all, &here, policy, &ends)?;
        inner.push((here, commands));
    }
    inner.push((net, ports));
    for (number, host) in topology.hosts.iter().enumerate() {
        inner.push((of(&host.name)?, addresses(topology, number)?));
    }
    ip(&[], &all)?;
    for (namespace, commands) in &inner {
        ip(&["-n", namespace], commands)?;
    }
    for (namespace, _) in &inner {
        let is_host = topology.hosts.iter().any(|it| of(&it.name).is_ok_and(|it| it == *namespace));
        prepare(namespace, is_host, topology.offloads)?;
    }
    Ok(())
}

/// Adds a cable (a veth pair). Each end is created inside its namespace.
fn cable(commands: &mut String, a: (&str, &str), b: (&str, &str)) -> std::fmt::Result {
    let ((a_in, a), (b_in, b)) = (a, b);
    writeln!(commands, "link add name {a} netns {a_in} type veth peer name {b} netns {b_in}")
}

/// Connects the LAN port of a gateway to the ports `hosts`: directly to a single port, or by a
/// bridge to several.
fn lan(
    all: &mut String,
    here: &str,
    policy: &Policy,
    hosts: &[(String, &str)],
) -> Result<String, std::fmt::Error> {
    let Policy { lan, wan, .. } = policy;
    let mut commands = format!("link set dev {lan} up\nlink set dev {wan} up\n");
    if let [(there, port)] = hosts {
        cable(all, (here, lan), (there, port))?;
        return Ok(commands);
    }
    let ends = (0..=hosts.len()).map(|number| format!("tg-{number}"));
    let ends: Vec<_> = ends.collect();
    cable(all, (here, lan), (here, &ends[0]))?;
    for ((there, port), end) in hosts.iter().zip(&ends[1..]) {
        cable(all, (here, end), (there, port))?;
    }
    writeln!(commands, "link add name {BRIDGE} type bridge forward_delay 0 mcast_snooping 0")?;
    for end in &ends {
        writeln!(commands, "link set dev {end} master {BRIDGE}\nlink set dev {end} up")?;
    }
    writeln!(commands, "link set dev {BRIDGE} up")?;
    Ok(commands)
}

/// The MAC address of host `number`. It is locally administered, and the same in every lab.
fn mac(number: usize) -> String {
    format!("02:74:67:00:00:{number:02x}")
}

/// Sets the addresses of host `number`, and its neighbour entries for all other hosts. So no host
/// needs ARP.
fn addresses(topology: &Topology, number: usize) -> Result<String, std::fmt::Error> {
    let mut commands =
        format!("link set dev lo up\nlink set dev {HOST_PORT} address {}\n", mac(number));
    writeln!(commands, "link set dev {HOST_PORT} addrgenmode none")?;
    for address in &topology.hosts[number].addresses {
        match address {
            IpAddr::V4(it) => writeln!(commands, "address add {it}/32 dev {HOST_PORT}")?,
            IpAddr::V6(it) => writeln!(commands, "address add {it}/128 dev {HOST_PORT} nodad")?,
        }
    }
    writeln!(commands, "link set dev {HOST_PORT} up")?;
    for (other, host) in topology.hosts.iter().enumerate().filter(|(other, _)| *other != number) {
        for address in &host.addresses {
            writeln!(commands, "route add {address} dev {HOST_PORT}")?;
            writeln!(
                commands,
                "neighbour add {address} lladdr {} dev {HOST_PORT} nud permanent",
                mac(other)
            )?;
        }
    }
    Ok(commands)
}

fn prepare(namespace: &str, is_host: bool, offloads: Offloads) -> anyhow::Result<()> {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(process::this_program()?);
    command.args(["lab", "prepare"]);
    match (is_host, offloads) {
        (true, Offloads::Wire) => command.arg(HOST_PORT),
        (true, Offloads::Default) => &mut command,
        (false, _) => command.arg("--silent"),
    };
    run(&mut command, "")
}

/// Removes `namespaces`. The kernel then also removes the cables with an end in them.
pub(super) fn remove(namespaces: &[String]) -> anyhow::Result<()> {
    let there = std::fs::read_dir("/run/netns").map(|entries| {
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.collect::<Vec<_>>()
    });
    let there = there.unwrap_or_default();
    let ours: String = namespaces
        .iter()
        .filter(|name| there.contains(name))
        .map(|name| format!("netns delete {name}\n"))
        .collect();
    if ours.is_empty() { Ok(()) } else { ip(&[], &ours) }
}

/// Runs all `commands` in one call of `ip`.
fn ip(args: &[&str], commands: &str) -> anyhow::Result<()> {
    let mut command = Command::new("ip");
    command.args(args).args(["-batch", "-"]);
    run(&mut command, commands)
}

fn run(command: &mut Command, input: &str) -> anyhow::Result<()> {
    // The process gets its own process group. A key press that stops this program thus does not
    // interrupt it.
    command.process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| process::missing(command, &error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // The result is ignored: a process that stops reading its input reports the reason on
        // stderr.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let message = format!("`{command:?}` failed: {}", said.trim());
        return Err(Failure::new(Code::LabFailed, message).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a name without a keyword before it. `ip link add l` means `ip link add link`, so an interface could
    /// not be named `l`.
    #[test]
    fn every_interface_name_follows_a_keyword() {
        let mut commands = String::new();
        cable(&mut commands, ("ns1", "l"), ("ns2", "w")).unwrap();
        assert_eq!(commands, "link add name l netns ns1 type veth peer name w netns ns2\n");
        let policy = Policy { file: PathBuf::new(), lan: "l".to_owned(), wan: "w".to_owned() };
        let hosts = ["a", "b"].map(|host| (host.to_owned(), "p"));
        let of_ports = lan(&mut commands, "ns1", &policy, &hosts).unwrap();
        commands += &of_ports;
        let words = commands.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        for words in words.filter(|words| words[0] == "link") {
            assert!(["name", "dev"].contains(&words[2]), "{words:?}");
        }
    }
}
