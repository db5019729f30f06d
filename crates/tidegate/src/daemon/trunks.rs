//! Sets up the trunks at the WAN port: reads their keys, and gives their addresses to the port. A
//! trunk carries the user packets between two gateways.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroU16;
use std::path::Path;

use tidegate_config::hexadecimal;
use tidegate_core::trunk;
use tidegate_dataplane::trunk::{TrunkEnd, TrunkPort};
use tidegate_dataplane::{Interface, PacketMemory, Port};
use tidegate_wire::neighbour;
use tidegate_wire::trunk::{Ends, Key, PathMtu};

use super::Installed;
use crate::code::Code;
use crate::config::{self, Config, NextHop};
use crate::describe::Change;
use crate::files;
use crate::output::Failure;

/// The trunks of the WAN port.
pub(super) struct PortTrunks {
    mac: [u8; 6],
    ends: Seeded,
}

/// The trunks that end at a port, each with unique random bytes.
pub(super) type Seeded = Vec<(TrunkEnd, [u8; 32])>;

impl PortTrunks {
    /// The trunks `ends` for the interface `wan`.
    pub(super) fn new(ends: Vec<TrunkEnd>, wan: &Interface) -> Result<Self, Failure> {
        let mac = wan.mac().map_err(|error| no_interface(&error))?;
        Ok(Self { mac, ends: seeded(ends)? })
    }

    /// Wraps `port` so that the trunks end at it. The frames of the port are in `memory`.
    pub(super) fn attach(self, port: Box<dyn Port>, memory: &PacketMemory) -> Box<dyn Port> {
        Box::new(TrunkPort::new(port, memory.clone(), self.mac, self.ends))
    }
}

/// Adds random bytes to each of `ends`.
pub(super) fn seeded(ends: Vec<TrunkEnd>) -> Result<Seeded, Failure> {
    ends.into_iter().map(|end| Ok((end, chance()?))).collect()
}

/// The trunks of `config` that end at its WAN port. Reads their key files now.
pub(super) fn ends_at_wan(config: &Config) -> Result<Vec<TrunkEnd>, Failure> {
    if config.gateway.trunks.is_empty() {
        return Ok(Vec::new());
    }
    let wan = Interface::find(&config.wan).map_err(|error| no_interface(&error))?;
    ends(config, wan.mtu().map_err(|error| no_interface(&error))?)
}

/// The trunks whose key in `next` differs from the key in `running`, in the same or another file.
/// The result does not contain the keys.
pub(super) fn other_keys(running: &Installed, next: &Installed) -> Vec<Change> {
    let before: BTreeMap<_, _> = keys(running).collect();
    let other = keys(next).filter(|(name, key)| before.get(name).is_some_and(|it| it != key));
    let change = |(name, _): (&str, _)| Change {
        what: format!("trunk {name}"),
        field: Some("key".to_owned()),
        from: Some("the one in force".to_owned()),
        to: Some("another".to_owned()),
    };
    other.map(change).collect()
}

/// The trunks of the configuration `installed`, each with its key.
fn keys(installed: &Installed) -> impl Iterator<Item = (&str, [u8; 32])> {
    let trunks = installed.config.gateway.trunks.iter().zip(&installed.ends);
    trunks.map(|(trunk, end)| (trunk.name.as_str(), end.key.0))
}

fn no_interface(error: &impl Display) -> Failure {
    Failure::worded(Code::NoInterface, &error.to_string())
}

fn chance() -> Result<[u8; 32], Failure> {
    let mut seed = [0; 32];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut seed));
    read.map_err(|error| {
        Failure::new(Code::System, format!("no random bytes from /dev/urandom: {error}"))
    })?;
    Ok(seed)
}

/// The trunks of `config` with their keys. `sends` is the largest IP packet in bytes that the
/// interface sends.
fn ends(config: &Config, sends: u32) -> Result<Vec<TrunkEnd>, Failure> {
    let trunks = config.gateway.trunks.iter().zip(&config.trunk_ends).zip(1..);
    type Written<'a> = ((&'a trunk::Config, &'a Option<config::TrunkEnd>), u16);
    let end = |((trunk, end), number): Written<'_>| {
        let missing = || {
            let message = format!("trunk `{}` has no next hop, or no key", trunk.name);
            Failure::input(Code::NotLive, message)
        };
        let end = end.as_ref().ok_or_else(missing)?;
        let ends = Ends { local: trunk.local, peer: trunk.peer, port: trunk.port };
        let next_hop = match end.next_hop {
            NextHop::Address(address) => neighbour::NextHop::Address(address),
            NextHop::Mac(mac) => neighbour::NextHop::Mac(mac),
        };
        let (connections, dscp) = (trunk.channels(), trunk.user_dscp());
        let (wire, key) = (trunk.wire, key(&end.key_file)?);
        let mtu = mtu(trunk, end.mtu, sends)?;
        // The gateway assigns the same numbers when it starts.
        let number = NonZeroU16::new(number).unwrap_or(NonZeroU16::MAX);
        let probing = trunk.probing;
        let weighted = probing == trunk::Probing::Management && trunk.weight.is_some();
        Ok(TrunkEnd {
            number,
            ends,
            connections,
            probing,
            weighted,
            dscp,
            next_hop,
            key,
            wire,
            mtu,
        })
    };
    trunks.map(end).collect()
}

/// The path MTU of a trunk: the configured value `written`, otherwise the MTU of the interface.
fn mtu(trunk: &trunk::Config, written: Option<u32>, sends: u32) -> Result<u32, Failure> {
    let mtu = written.unwrap_or(sends);
    let encapsulates = trunk.wire.overhead(trunk.local) > 0;
    if encapsulates && (mtu > sends || mtu < PathMtu::LEAST) {
        let message = format!(
            "trunk `{}` puts packets into datagrams of {mtu} B, and the WAN port sends from {} to {sends} B",
            trunk.name,
            PathMtu::LEAST
        );
        return Err(Failure::input(Code::BadTrunk, message));
    }
    Ok(mtu)
}

/// Maximum size of a key file in bytes: it holds 64 digits and some white space.
const MOST_KEY: usize = 4 << 10;

/// Reads the key in the file at `path`.
fn key(path: &str) -> Result<Key, Failure> {
    let wrong = |what: String| Failure::input(Code::BadKey, what);
    let file = files::read_regular(Path::new(path), MOST_KEY);
    let file = file.map_err(|error| wrong(format!("cannot read the key {path}: {error}")))?;
    if file.mode & 0o077 != 0 {
        return Err(wrong(format!("the key {path} can be read by others; `chmod 600 {path}`")));
    }
    hexadecimal(file.text.trim()).map(Key).ok_or_else(|| wrong(format!("{path} holds no key")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn a_key_is_read_from_a_file_that_nobody_else_can_read() {
        let path = std::env::temp_dir().join(format!("tidegate-key-{}", std::process::id()));
        let name = path.to_str().unwrap();
        assert!(key(name).is_err_and(|it| it.code == Code::BadKey && it.help.contains("openssl")));
        let digits = "00ff".repeat(16);
        fs::write(&path, format!("{digits}\n")).unwrap();
        for (mode, good) in [(0o600, true), (0o640, false), (0o604, false), (0o400, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(key(name).is_ok(), good, "{mode:o}");
        }
        fs::write(&path, " ".repeat(MOST_KEY + 1)).unwrap();
        assert!(key(name).is_err_and(|it| it.message.contains("larger")));
        fs::remove_file(&path).unwrap();
        mkfifo(&path, Mode::S_IRUSR).unwrap();
        assert!(key(name).is_err_and(|it| it.message.contains("a FIFO")));
        fs::remove_file(&path).unwrap();
        assert_eq!(hexadecimal(&digits).map(|it| it[..3].to_vec()), Some(vec![0, 255, 0]));
        for wrong in ["", "00", &"0".repeat(63), &"0".repeat(66), &"0g".repeat(32), &"é".repeat(32)]
        {
            assert_eq!(hexadecimal(wrong), None, "{wrong}");
        }
    }
}
