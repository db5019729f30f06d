//! Redirects users' TCP connections to this process, with its own nftables table and routing rules
//! (transparent proxying, TPROXY).
//!
//! Two kinds of packets are marked and routed to this host: packets to a configured destination,
//! and packets of this process's transparent sockets. Routes of all other packets are unchanged.
//! After this process has ended, all packets are routed as before, because `tproxy` redirects no
//! packet without a socket.
//!
//! Source: Linux, `Documentation/networking/tproxy.rst`; `nft(8)`, TPROXY STATEMENT.

use std::io::Write;
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use ipnet::IpNet;

use crate::code::Code;
use crate::output::Failure;

/// The nftables table of aggregate gateways.
const TABLE: &str = "tidegate_aggregate";

/// The firewall mark of packets for this process: "tg" in ASCII.
const MARK: &str = "0x7467";

/// Number of the routing table, and preference of the routing rules. They are equal so that
/// leftovers of both can be found together. The rules precede the rule of the main table (32766).
const ROUTES: &str = "29799";

/// The address families, each with its default route.
const FAMILIES: [(&str, &str); 2] = [("-4", "0.0.0.0/0"), ("-6", "::/0")];

/// The installed rules. Dropping the value removes them.
#[derive(Debug)]
pub(super) struct Transparent {
    destinations: Vec<IpNet>,
    listeners: Vec<SocketAddr>,
}

impl Transparent {
    /// Installs rules that redirect connections to `destinations` to `listeners`. Each address
    /// family has its own listener. The rules replace those of an earlier process. New connections
    /// are redirected only after [`take`](Self::take).
    pub(super) fn install(
        destinations: Vec<IpNet>,
        listeners: Vec<SocketAddr>,
    ) -> Result<Self, Failure> {
        let installed = Self { destinations, listeners };
        remove_routes();
        installed.take(false)?;
        for (family, all) in FAMILIES {
            let rule = ["rule", "add", "pref", ROUTES, "fwmark", MARK, "lookup", ROUTES];
            let route = ["route", "add", "local", all, "dev", "lo", "table", ROUTES];
            for words in [&rule[..], &route[..]] {
                run("ip", &[&[family], words].concat(), "")?;
            }
        }
        Ok(installed)
    }

    /// Checks that `nft` and the kernel accept the rules. Changes nothing.
    pub(super) fn check(
        destinations: Vec<IpNet>,
        listeners: Vec<SocketAddr>,
    ) -> Result<(), Failure> {
        // Dropping the value would remove installed rules, and this check has installed none.
        let rules = ManuallyDrop::new(Self { destinations, listeners }).rules(true);
        run("nft", &["--check", "-f", "-"], &rules)
    }

    /// Redirects new connections to this gateway (`new`), or lets them bypass it. Existing
    /// connections stay as they are.
    pub(super) fn take(&self, new: bool) -> Result<(), Failure> {
        run("nft", &["-f", "-"], &self.rules(new))
    }

    /// The text of the nftables table, which replaces the whole table.
    fn rules(&self, new: bool) -> String {
        let mut rules = String::new();
        for (family, listener) in self.listeners.iter().filter(|_| new).map(|it| (family(it), it)) {
            let of_family = |it: &&IpNet| it.addr().is_ipv4() == listener.is_ipv4();
            let prefixes: Vec<_> =
                self.destinations.iter().filter(of_family).map(IpNet::to_string).collect();
            if !prefixes.is_empty() {
                let prefixes = prefixes.join(", ");
                rules += &format!(
                    "    {family} daddr {{ {prefixes} }} meta l4proto tcp tproxy {family} to {listener} meta mark set {MARK} accept\n"
                );
            }
        }
        format!(
            "add table inet {TABLE}\n\
             delete table inet {TABLE}\n\
             table inet {TABLE} {{\n\
             \x20 chain prerouting {{\n\
             \x20   type filter hook prerouting priority mangle; policy accept;\n\
             \x20   meta l4proto tcp socket transparent 1 meta mark set {MARK} accept\n\
             \x20   fib daddr type {{ local, broadcast, multicast }} accept\n\
             {rules}\
             \x20 }}\n\
             }}\n"
        )
    }
}

impl Drop for Transparent {
    fn drop(&mut self) {
        let _ = run("nft", &["delete", "table", "inet", TABLE], "");
        remove_routes();
    }
}

/// Checks that `ip` and the kernel support routing rules, for each family.
pub(super) fn families() -> Vec<Result<(), Failure>> {
    FAMILIES.iter().map(|(family, _)| run("ip", &[family, "rule", "list"], "")).collect()
}

fn family(listener: &SocketAddr) -> &'static str {
    if listener.is_ipv4() { "ip" } else { "ip6" }
}

/// Removes the routing rules of this program.
fn remove_routes() {
    for (family, _) in FAMILIES {
        for _ in 0..MOST_LEFT {
            if run("ip", &[family, "rule", "del", "pref", ROUTES], "").is_err() {
                break;
            }
        }
        let _ = run("ip", &[family, "route", "flush", "table", ROUTES], "");
    }
}

/// Maximum number of leftover rules that are removed. Each start leaves at most one.
const MOST_LEFT: usize = 16;

/// Runs a program of the host with `input` on its stdin.
fn run(program: &str, words: &[&str], input: &str) -> Result<(), Failure> {
    let failed = |what: String| Failure::new(Code::NoTransparency, what);
    let name = format!("{program} {}", words.join(" "));
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("cannot run `{name}`: {error}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // The result is ignored: a program that ended early reports the error itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let done = child.wait_with_output();
    let done = done.map_err(|error| failed(format!("cannot run `{name}`: {error}")))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(failed(format!("`{name}` failed: {}", said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listener_gets_only_destinations_of_its_address_family() {
        let transparent = Transparent {
            destinations: ["10.2.0.0/16", "2001:db8::/32"].map(|it| it.parse().unwrap()).into(),
            listeners: ["127.0.0.1:5", "[::1]:6"].map(|it| it.parse().unwrap()).into(),
        };
        let rules = transparent.rules(true);
        // Catches: rules for the wrong address family; rules that redirect connections although
        // they should bypass.
        assert!(
            rules.contains("ip daddr { 10.2.0.0/16 } meta l4proto tcp tproxy ip to 127.0.0.1:5")
        );
        assert!(
            rules.contains("ip6 daddr { 2001:db8::/32 } meta l4proto tcp tproxy ip6 to [::1]:6")
        );
        assert!(!transparent.rules(false).contains("tproxy"));
        std::mem::forget(transparent);
    }
}
