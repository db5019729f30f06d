//! `tidegate doctor`: checks of this host, with remedies.

mod aggregate;

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tidegate_dataplane::{BACKENDS, Interface, Offload, fail_to_wire};

use super::{Context, check};
use crate::config::Backend;
use crate::host;
use crate::output::Exit;

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Policy file, to check its ports; or file of an aggregate gateway, to check what it needs
    file: Option<PathBuf>,

    /// Interface towards the users [default: guessed]
    #[arg(long, value_name = "INTERFACE")]
    lan: Option<String>,

    /// Interface towards the Internet [default: guessed]
    #[arg(long, value_name = "INTERFACE")]
    wan: Option<String>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Good,
    /// A gateway can run on this host, but with a disadvantage.
    Lacking,
    /// A gateway cannot run on this host.
    Bad,
}

/// The subject of a check, and its result.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    health: Health,
    seen: String,
    /// The action that helps.
    remedy: Option<String>,
}

/// Checks this host.
pub(crate) fn run(args: &DoctorArgs, context: &Context) -> anyhow::Result<Exit> {
    if let Some(file) = &args.file {
        let text = check::read(file)?;
        if tidegate_config::aggregate::is_meant(&text) {
            return match aggregate::findings(file, &text) {
                Some(findings) => print(&findings, context),
                None => Ok(Exit::WrongInput),
            };
        }
    }
    let (ports, backend) = match ports(args, context)? {
        Ok(found) => found,
        Err(exit) => return Ok(exit),
    };
    let mut findings = privileges(&status_field("CapEff"), &read("/proc/self/uid_map"));
    findings.extend(kernel(&read("/proc/sys/kernel/osrelease")));
    findings.push(lab_tools(&std::env::var_os("PATH").unwrap_or_default()));
    match &ports {
        Some(names) => findings.extend(look_at(names, backend)),
        None => findings.push(lacking(
            "ports",
            "cannot be guessed",
            "name them: tidegate doctor --lan eth1 --wan eth0",
        )),
    }
    print(&findings, context)
}

fn print(findings: &[Finding], context: &Context) -> anyhow::Result<Exit> {
    let worst = findings.iter().map(|it| it.health).max();
    if context.output.is_json() {
        context.output.json(&serde_json::json!({ "findings": findings }))?;
    } else {
        context.output.text(show(findings).trim_end())?;
    }
    Ok(match worst {
        Some(Health::Bad) => Exit::Failed,
        Some(Health::Lacking) => Exit::Degraded,
        _ => Exit::Done,
    })
}

/// The LAN and WAN ports if known, and the kind of sockets (backend).
type Found = (Option<[String; 2]>, Backend);

/// The ports: from the file, from the arguments, or guessed. The backend comes from the file.
fn ports(args: &DoctorArgs, context: &Context) -> anyhow::Result<Result<Found, Exit>> {
    if let Some(file) = &args.file {
        let loaded = check::load(file, None, context)?;
        return Ok(loaded.map(|(_, config)| (Some([config.lan, config.wan]), config.backend)));
    }
    let names = host::look().ports(args.lan.as_deref(), args.wan.as_deref());
    Ok(Ok((names, Backend::default())))
}

fn good(what: &str, seen: impl Into<String>) -> Finding {
    Finding { what: what.to_owned(), health: Health::Good, seen: seen.into(), remedy: None }
}

fn lacking(what: &str, seen: impl Into<String>, remedy: &str) -> Finding {
    Finding { health: Health::Lacking, remedy: Some(remedy.to_owned()), ..good(what, seen) }
}

fn bad(what: &str, seen: impl Into<String>, remedy: &str) -> Finding {
    Finding { health: Health::Bad, ..lacking(what, seen, remedy) }
}

/// Number of the capability CAP_NET_RAW. In a user namespace, it suffices for the interfaces that
/// belong to that namespace.
const NET_RAW: u32 = 13;

/// Findings about privileges. `effective` is the set of capabilities in hexadecimal. `uid_map`
/// shows whether the process is in the first user namespace.
///
/// Source: Linux `include/uapi/linux/capability.h`; user_namespaces(7) for the map of the first
/// namespace.
fn privileges(effective: &str, uid_map: &str) -> Vec<Finding> {
    let is_first = uid_map.split_whitespace().eq(["0", "0", "4294967295"]);
    let set = u64::from_str_radix(effective, 16).unwrap_or(0);
    let need = |bit: u32, name: &str, use_: &str, otherwise: fn(&str, String, &str) -> Finding| {
        let is_there = set & (1 << bit) != 0;
        if is_there && (is_first || bit == NET_RAW) {
            return good(name, format!("there, for {use_}"));
        }
        if is_there {
            let seen = format!("only in this user namespace, which is not enough for {use_}");
            return otherwise(name, seen, "run as root outside of it");
        }
        let remedy = format!("run as root or with {name}");
        otherwise(name, format!("missing: {use_}"), &remedy)
    };
    vec![
        need(NET_RAW, "CAP_NET_RAW", "opening the ports", |what, seen, remedy| {
            let remedy = format!("{remedy}, or try it under `unshare -Urn`");
            bad(what, seen, &remedy)
        }),
        need(12, "CAP_NET_ADMIN", "AF_XDP and fail-to-wire", lacking),
        need(39, "CAP_BPF", "AF_XDP and fail-to-wire", lacking),
        need(23, "CAP_SYS_NICE", "exact pacing on a busy host", lacking),
    ]
}

/// Findings about the kernel version `release`.
///
/// Source: Linux 5.18 (multi-buffer XDP) and 6.6 (multi-buffer AF_XDP).
fn kernel(release: &str) -> Vec<Finding> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|it| it.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let shown = format!("{}.{}", version.0, version.1);
    vec![if version >= (6, 6) {
        good("kernel", shown)
    } else if version >= (5, 18) {
        let remedy = "Linux 6.6 or later takes jumbo frames through AF_XDP; use AF_PACKET for them";
        lacking("kernel", shown, remedy)
    } else {
        lacking("kernel", shown, "Linux 5.18 or later is needed for AF_XDP; AF_PACKET works")
    }]
}

/// Checks that the folders in `path` contain the programs for building a lab.
fn lab_tools(path: &OsStr) -> Finding {
    let is_there = |name: &&str| std::env::split_paths(path).any(|it| it.join(name).is_file());
    let tools = ["ip", "unshare", "nsenter", "mount"];
    let missing: Vec<_> = tools.into_iter().filter(|name| !is_there(name)).collect();
    if missing.is_empty() {
        return good("lab", "all its programs are installed");
    }
    let seen = format!("missing for `lab` and `demo`: {}", missing.join(", "));
    lacking("lab", seen, "apt-get install iproute2 util-linux mount")
}

fn look_at(names: &[String; 2], backend: Backend) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut mtus = Vec::new();
    for name in names {
        match Interface::find(name) {
            Ok(interface) => {
                findings.extend(interface_findings(&interface));
                mtus.extend(interface.mtu().ok());
            }
            Err(error) => {
                findings.push(bad(name, error.to_string(), "name an interface of this host"))
            }
        }
    }
    if let [lan, wan] = mtus[..] {
        findings.push(mtu(lan, wan, &mtu_limits(backend)));
    }
    findings
}

/// The largest MTU of a backend's ports.
struct MtuLimit {
    /// The backend's name in messages.
    title: &'static str,
    /// `None` if any MTU is possible.
    most: Option<u32>,
}

/// The limits of the backends that `run` tries for the `backend` of the file, in the same order.
fn mtu_limits(backend: Backend) -> Vec<MtuLimit> {
    let tried =
        BACKENDS.iter().filter(|it| backend == Backend::Auto || it.name() == backend.name());
    tried.map(|it| MtuLimit { title: it.title(), most: it.most_mtu() }).collect()
}

/// Checks that ports with the MTUs `lan` and `wan` work together, and that one of the backends with the `limits`
/// can open them.
fn mtu(lan: u32, wan: u32, limits: &[MtuLimit]) -> Finding {
    if lan != wan {
        let seen = format!("{lan} and {wan}: frames too long for the other port are dropped");
        return bad("MTU", seen, "give both ports the same MTU: ip link set PORT mtu N");
    }
    let too_small = |it: &MtuLimit| it.most.filter(|most| lan > *most).map(|most| (it.title, most));
    let Some((first, most)) = limits.first().and_then(too_small) else {
        return good("MTU", lan.to_string());
    };
    match limits.iter().find(|it| too_small(it).is_none()) {
        Some(MtuLimit { title, .. }) => {
            good("MTU", format!("{lan}, by {title}: {first} has room for {most}"))
        }
        None => {
            let seen = format!("{lan}: {first} has room for {most}, and the file asks for it");
            let remedy =
                format!("ip link set PORT mtu {most} on both ports, or backend = \"auto\"");
            bad("MTU", seen, &remedy)
        }
    }
}

fn interface_findings(interface: &Interface) -> Vec<Finding> {
    let name = interface.name();
    let driver = interface.driver().unwrap_or_else(|_| "unknown driver".to_owned());
    let mut findings = vec![match interface.is_up() {
        Ok(true) => good(name, format!("up, {driver}")),
        Ok(false) => bad(name, format!("down, {driver}"), &format!("ip link set {name} up")),
        Err(error) => bad(name, error.to_string(), "see `ip link`"),
    }];
    let on = |offload| interface.offload(offload).unwrap_or(false);
    if on(Offload::Lro) {
        let seen = "LRO joins frames in a way that cannot be undone";
        findings.push(lacking(name, seen, &format!("ethtool -K {name} lro off")));
    }
    if on(Offload::RxVlan) && !interface.is_veth() {
        let seen = "the VLAN tag is taken out of frames, where AF_XDP does not see it";
        findings.push(lacking(name, seen, &format!("ethtool -K {name} rxvlan off")));
    }
    if interface.is_veth() {
        let seen = "veth: frames of its peer may come with checksums not yet complete";
        let remedy = "for AF_XDP: `ethtool -K PEER tx off` in the namespace of the peer";
        findings.push(lacking(name, seen, remedy));
    }
    if interface.has_address() {
        let seen = "it has an address: without fail-to-wire, this host answers and routes packets as well as the gateway";
        findings.push(lacking(name, seen, &format!("ip address flush dev {name}")));
    }
    // An error is ignored: another check reports the missing privilege to list programs.
    for program in fail_to_wire::foreign(interface).unwrap_or_default() {
        let seen = format!("{program} is attached: frames that it takes do not reach the gateway");
        findings.push(lacking(
            name,
            seen,
            &format!("detach it; `bpftool net show dev {name}` lists all"),
        ));
    }
    if Path::new("/sys/class/net").join(name).join("master").exists() {
        let seen = "it is part of a bridge or bond, which forwards past the gateway";
        findings.push(bad(name, seen, &format!("ip link set {name} nomaster")));
    }
    findings
}

fn show(findings: &[Finding]) -> String {
    let mut text = String::new();
    for it in findings {
        let mark = match it.health {
            Health::Good => "ok  ",
            Health::Lacking => "warn",
            Health::Bad => "FAIL",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{mark}  {}: {}", it.what, it.seen);
        if let Some(remedy) = &it.remedy {
            let _ = writeln!(text, "      -> {remedy}");
        }
    }
    text
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The value of the field `name` in `/proc/self/status`.
fn status_field(name: &str) -> String {
    let status = read("/proc/self/status");
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contents of `uid_map` in the first user namespace.
    const FIRST: &str = "         0          0 4294967295";

    #[test]
    fn each_missing_privilege_has_a_remedy() {
        let findings = privileges("0000000000000000", FIRST);
        assert_eq!(findings[0].health, Health::Bad);
        assert!(findings.iter().all(|it| it.remedy.is_some()));
        assert!(privileges("000001ffffffffff", FIRST).iter().all(|it| it.health == Health::Good));
    }

    /// Catches: a doctor that reports all capabilities for a process in a user namespace.
    #[test]
    fn in_a_user_namespace_only_packet_sockets_are_possible() {
        let findings = privileges("000001ffffffffff", "         0       1000          1");
        let good: Vec<_> = findings.iter().filter(|it| it.health == Health::Good).collect();
        assert!(good.len() == 1 && good[0].what == "CAP_NET_RAW", "{findings:?}");
        assert!(findings.iter().all(|it| it.health != Health::Bad));
    }

    #[test]
    fn missing_programs_of_a_lab_are_named() {
        let nowhere = lab_tools(OsStr::new("/nonexistent"));
        assert_eq!(nowhere.health, Health::Lacking);
        assert!(nowhere.seen.ends_with(": ip, unshare, nsenter, mount"), "{}", nowhere.seen);
    }

    /// Catches: a doctor that reports "good" for an MTU with which `run` refuses to start; a doctor
    /// that applies the limit to AF_PACKET too; a limit that is not the backend's.
    #[test]
    fn an_mtu_beyond_the_buffers_of_a_backend_is_bad_only_if_the_file_names_this_backend() {
        let limited = |most| MtuLimit { title: "LIMITED", most: Some(most) };
        let open = || MtuLimit { title: "OPEN", most: None };
        let finding = |limits: &[MtuLimit]| {
            let finding = mtu(9_000, 9_000, limits);
            (finding.health, finding.seen)
        };
        let refused = "9000: LIMITED has room for 3818, and the file asks for it";
        assert_eq!(finding(&[limited(3_818)]), (Health::Bad, refused.to_owned()));
        assert_eq!(finding(&[limited(9_000)]), (Health::Good, "9000".to_owned()));
        let other = "9000, by OPEN: LIMITED has room for 3818";
        assert_eq!(finding(&[limited(3_818), open()]), (Health::Good, other.to_owned()));
        assert_eq!(finding(&[open()]), (Health::Good, "9000".to_owned()));
        assert_eq!(mtu(9_000, 1_500, &[open()]).health, Health::Bad);
    }

    /// Catches: a doctor that applies the limit of AF_XDP to a file that asks for AF_PACKET, or for
    /// "auto", which also tries AF_PACKET.
    #[test]
    fn only_a_file_that_asks_for_af_xdp_limits_the_mtu() {
        let health = |of, backend| mtu(of, of, &mtu_limits(backend)).health;
        let most = mtu_limits(Backend::AfXdp)[0].most.unwrap();
        assert_eq!(health(most, Backend::AfXdp), Health::Good);
        assert_eq!(health(most + 1, Backend::AfXdp), Health::Bad);
        assert_eq!(health(most + 1, Backend::Auto), Health::Good);
        assert_eq!(health(most + 1, Backend::AfPacket), Health::Good);
    }

    #[test]
    fn the_findings_depend_on_the_kernel_release() {
        let health = |release| kernel(release)[0].health;
        assert_eq!(health("6.18.2-amd64"), Health::Good);
        assert_eq!(health("6.1.0"), Health::Lacking);
        assert_eq!(health("4.19.0-26"), Health::Lacking);
    }
}
