//! Tests etcd servers that are down, killed, emptied, or hold values that no gateway can use. A
//! *marker*, the key that is written last, commits each set of policies.

use std::time::Duration;

use tidegate_core::Bytes;
use tidegate_repository::{FaultKind, open};
use tokio::time::timeout;

use crate::real::{Etcd, free_port};
use crate::testing::{fault, held, next, next_snapshot, nothing, policy, source, spec};

/// Catches: no snapshot at the end of a fault; a fault that is reported again at each attempt.
#[tokio::test]
async fn a_killed_server_causes_one_fault_and_its_restart_one_snapshot() {
    let Some(mut server) = Etcd::start().await else { return };
    let source = source(&server.url());
    source.push(vec![policy("web", 1)]).await.unwrap();
    let mut watch = source.clone().watch();
    let before = next(&mut watch).await.unwrap();
    server.kill();
    fault(next(&mut watch).await, FaultKind::Unreachable);
    fault(source.pull().await, FaultKind::Unreachable);
    assert!(timeout(Duration::from_millis(1500), watch.recv()).await.is_err(), "a fault twice");
    server.run().await;
    assert_eq!(next_snapshot(&mut watch).await, before);
    source.push(vec![policy("web", 2)]).await.unwrap();
    assert_eq!(held(&next(&mut watch).await.unwrap())[0].fields["priority"].as_integer(), Some(2));
}

#[tokio::test]
async fn a_watch_waits_for_a_server_that_is_down_at_the_start() {
    let Some(mut server) = Etcd::start().await else { return };
    source(&server.url()).push(vec![policy("web", 1)]).await.unwrap();
    server.kill();
    let mut watch = source(&server.url()).watch();
    fault(next(&mut watch).await, FaultKind::Unreachable);
    server.run().await;
    assert_eq!(held(&next_snapshot(&mut watch).await).len(), 1);
}

/// After a loss of data, the new store reaches the revision number of the old one, but holds
/// another set.
///
/// Catches: a commit that is named by this number only, so that the new set seems to be the old
/// one.
#[tokio::test]
async fn a_server_that_lost_its_data_keeps_the_policies_in_force() {
    let Some(mut server) = Etcd::start().await else { return };
    let source = source(&server.url());
    let first = source.push(vec![policy("web", 1)]).await.unwrap();
    let mut watch = source.clone().watch();
    next(&mut watch).await.unwrap();
    server.lose();
    server.run().await;
    loop {
        let lost = next(&mut watch).await.unwrap_err();
        if lost.kind == FaultKind::Uncommitted {
            break;
        }
        assert_eq!(lost.kind, FaultKind::Unreachable);
    }
    let second = source.push(vec![policy("mail", 1)]).await.unwrap();
    let number = |revision: &str| revision.split('-').next().unwrap().to_owned();
    assert_eq!(number(&first), number(&second));
    assert_ne!(first, second);
    let new = next(&mut watch).await.unwrap();
    assert_eq!((&*held(&new)[0].name, new.revision), ("mail", second));
}

/// Catches: a client that tries only the first URL; a report of only the last member's fault.
#[tokio::test]
async fn members_are_tried_in_the_order_of_their_urls() {
    let Some(mut server) = Etcd::start().await else { return };
    let dead = format!("http://127.0.0.1:{}", free_port());
    let source = open(&spec(&[dead.clone(), server.url()])).unwrap();
    source.push(vec![policy("web", 1)]).await.unwrap();
    let mut watch = source.clone().watch();
    assert_eq!(held(&next(&mut watch).await.unwrap()).len(), 1);
    server.kill();
    let down = fault(source.pull().await, FaultKind::Unreachable);
    assert!(down.message.contains(&dead) && down.message.contains(&server.url()), "{down}");
}

/// Catches: the marker and the lock of a push counted as policies; a source that is not read again
/// after its set was too large.
#[tokio::test]
async fn a_set_beyond_the_limits_is_a_fault_until_a_smaller_set_is_committed() {
    let Some(server) = Etcd::start().await else { return };
    let direct = source(&server.url());
    let set = |count: i64| (0..count).map(|n| policy(&format!("p{n}"), n)).collect::<Vec<_>>();
    for (size, policies) in [(1 << 20, 20), (500, 100)] {
        direct.push(set(21)).await.unwrap();
        let mut spec = spec(&[server.url()]);
        (spec.max_size, spec.max_policies) = (Bytes(size), policies);
        let small = open(&spec).unwrap();
        let mut watch = small.clone().watch();
        let large = fault(next(&mut watch).await, FaultKind::TooLarge);
        assert!(large.help.contains("max_size"), "{large}");
        let fits = if size < 1000 { 5 } else { 20 };
        direct.push(set(fits)).await.unwrap();
        assert_eq!(held(&next(&mut watch).await.unwrap()).len(), usize::try_from(fits).unwrap());
    }
}

/// Catches: an invalid entry that is silently skipped; a fault that does not name the key.
#[tokio::test]
async fn an_entry_of_the_wrong_type_is_a_fault_that_names_its_key() {
    let Some(server) = Etcd::start().await else { return };
    let source = source(&server.url());
    source.push(vec![policy("web", 1)]).await.unwrap();
    let mut watch = source.clone().watch();
    next(&mut watch).await.unwrap();
    for (key, value) in [
        ("/t/policy/binary", &b"\xff\xfe\x00"[..]),
        ("/t/class/json", b"{\"guarantee\": 5}"),
        ("/t/policy/named", b"name = \"other\""),
        ("/t/policy/file", b"[[policy]]\nname = \"web\""),
        ("/t/polices/web", b"action = \"pass\""),
    ] {
        server.put(key, value).await;
        nothing(&mut watch).await;
        server.put("/t/commit", b"").await;
        let wrong = fault(next(&mut watch).await, FaultKind::Malformed);
        assert!(wrong.message.contains(&format!("`{key}`")), "{wrong}");
        server.delete(key).await;
        server.put("/t/commit", b"").await;
        assert_eq!(held(&next(&mut watch).await.unwrap()).len(), 1);
    }
}

#[tokio::test]
async fn the_task_of_a_watch_ends_with_its_receiver() {
    let Some(server) = Etcd::start().await else { return };
    let source = source(&server.url());
    let watch = source.clone().watch();
    assert_eq!(std::sync::Arc::strong_count(&source), 2);
    drop(watch);
    while std::sync::Arc::strong_count(&source) > 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
