//! Tests trunks and their keys, with ports that carry no frames. A trunk carries the user packets
//! between two gateways, which authenticate each other by the trunk's key.

use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt;

use tidegate_core::packet::FrameCopy;
use tidegate_core::{PacketId, PacketPool, Time};
use tidegate_dataplane::{PacketMemory, Port, PortCounters};

use super::*;

/// A port without frames.
struct Idle;

impl Port for Idle {
    fn receive(&mut self, _pool: &mut PacketPool, _now: Time) -> Option<PacketId> {
        None
    }

    fn can_send(&self) -> bool {
        true
    }

    fn copy(&mut self, _copy: &FrameCopy) {}

    fn send(&mut self, pool: &mut PacketPool, packet: PacketId) {
        pool.release(packet);
    }

    fn flush(&mut self, _pool: &mut PacketPool) {}

    fn drop_arrived(&mut self, _pool: &mut PacketPool, _copies: &dyn Fn() -> u64) -> u64 {
        0
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> PortCounters {
        PortCounters::default()
    }
}

/// A daemon with a trunk whose key is in a file.
struct Trunked {
    fixture: Fixture,
    text: String,
}

impl Trunked {
    fn new() -> Self {
        let folder = folder();
        let key = folder.join("key");
        write_key(&key, 1);
        let text = format!(
            "[gateway]\nlan = \"lan\"\nwan = \"lo\"\n[[trunk]]\nname = \"t\"\nlocal = \"192.0.2.1\"\n\
             peer = \"192.0.2.2\"\nnext_hop = \"192.0.2.2\"\nkey_file = \"{}\"\n",
            key.display()
        );
        let open = || {
            let memory = PacketMemory::new(1, PacketMemory::SMALLEST).unwrap();
            let wan = TrunkPort::new(Box::new(Idle), memory, [0; 6], Vec::new());
            Opened { ports: vec![Box::new(Idle), Box::new(wan)], ..Opened::default() }
        };
        Self { fixture: Fixture::with(&text, folder, open), text }
    }

    fn key(&self) -> PathBuf {
        self.fixture.folder.join("key")
    }

    async fn in_force(&self) -> Vec<[u8; 32]> {
        let ask = self.fixture.daemon.plane.ask(|live| {
            let wan = TrunkPort::among(live.ports).unwrap();
            wan.ends().map(|end| end.key.0).collect()
        });
        ask.await.unwrap()
    }
}

/// Writes a key file in which each byte of the key is `byte`.
fn write_key(path: &Path, byte: u8) {
    fs::write(path, format!("{byte:02x}").repeat(32)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Catches: a rollback that reads the key file again. The new key would stay, or the trunk would be
/// lost if the file was deleted.
#[tokio::test]
async fn a_rollback_restores_the_key_although_its_file_was_changed_or_deleted() {
    for stays in [true, false] {
        let trunked = Trunked::new();
        let fixture = &trunked.fixture;
        write_key(&trunked.key(), 2);
        let text = trunked.text.clone() + "ceiling = \"5 Mbit/s\"\n";
        fixture.apply(&text, Some(1_000)).await.unwrap();
        assert_eq!(trunked.in_force().await, [[2; 32]]);
        if !stays {
            fs::remove_file(trunked.key()).unwrap();
        }
        let status = fixture.until(|status| status.unconfirmed_ms.is_none()).await;
        assert!(status.alarms[0].contains("is rolled back"), "{:?}", status.alarms);
        assert_eq!(trunked.in_force().await, [[1; 32]], "{stays}");
    }
}

/// Catches: a plan that compares only the paths of key files; a plan that shows a key.
#[tokio::test]
async fn a_plan_reports_another_key_and_never_shows_it() {
    let trunked = Trunked::new();
    let fixture = &trunked.fixture;
    let change = "~ trunk t key: the one in force -> another";
    assert_eq!(fixture.plan(&trunked.text).await, [""; 0]);
    write_key(&trunked.key(), 2);
    assert_eq!(fixture.plan(&trunked.text).await, [change]);
    let applied = fixture.apply(&trunked.text, None).await.unwrap();
    assert_eq!(applied.changes.iter().map(ToString::to_string).collect::<Vec<_>>(), [change]);
    assert_eq!(fixture.plan(&trunked.text).await, [""; 0]);

    let path = trunked.key().display().to_string();
    let moved = format!("~ trunk t key_file: {path} -> {path}-2");
    let elsewhere = trunked.text.replace(&path, &format!("{path}-2"));
    for (key, expected) in [(2, vec![moved.as_str()]), (3, vec![&moved, change])] {
        write_key(Path::new(&format!("{path}-2")), key);
        assert_eq!(fixture.plan(&elsewhere).await, expected);
    }
    fs::remove_file(trunked.key()).unwrap();
    assert_eq!(code(fixture.apply(&trunked.text, None).await), Code::BadKey);
}
