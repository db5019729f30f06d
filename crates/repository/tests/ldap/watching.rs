//! Tests the watch of an LDAP directory. An attribute of the root entry, the marker, commits a set
//! of policies. The watch must send each commit to the gateway once, soon, and as a whole.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tidegate_config::source::Commit;
use tidegate_repository::{Fault, FaultKind, QUIET, Snapshot, Snapshots, open};
use tokio::time::timeout;

use crate::server::{BASE, Server};
use crate::{order, parse, run, sorted};

/// Time limit until a commit is sent to the gateway, with a margin for a busy machine.
const SOON: Duration = Duration::from_secs(8);

pub(crate) async fn next(snapshots: &mut Snapshots) -> Result<Snapshot, Fault> {
    timeout(SOON, snapshots.recv())
        .await
        .expect("nothing is proposed")
        .expect("the watch has ended")
}

fn policy(name: &str) -> String {
    format!("[[policy]]\nname = \"{name}\"\naction = \"pass\"\n")
}

/// A policy entry as LDIF, as an administrator would write it.
pub(crate) fn entry(name: &str) -> String {
    format!(
        "dn: cn={name},ou=policies,{BASE}\nobjectClass: pcimRuleInstance\nobjectClass: tgPolicyAuxClass\ncn: {name}\ntgAction: pass\n"
    )
}

pub(crate) fn marker(value: &str) -> String {
    format!("dn: {BASE}\nchangetype: modify\nreplace: tgGeneration\ntgGeneration: {value}\n")
}

/// Catches: a change that is sent although no new marker was written; a set that is sent twice.
#[test]
fn a_commit_is_sent_when_its_marker_is_written() {
    let Some(server) = Server::start() else { return };
    run(async {
        let repository = server.repository();
        repository.push(parse(&policy("a"))).await.unwrap();
        let mut snapshots = repository.clone().watch();
        assert_eq!(next(&mut snapshots).await.unwrap().revision, "1");
        server.change("ldapadd", &entry("b"));
        assert!(timeout(3 * QUIET, snapshots.recv()).await.is_err(), "half a change is proposed");
        server.change("ldapmodify", &marker("two"));
        let snapshot = next(&mut snapshots).await.unwrap();
        assert_eq!(snapshot.revision, "two");
        assert_eq!(sorted(&snapshot), order(parse(&(policy("a") + &policy("b")))));
        repository.push(parse(&policy("c"))).await.unwrap();
        assert_eq!(sorted(&next(&mut snapshots).await.unwrap()), parse(&policy("c")));
        drop(snapshots);
    });
}

/// Catches: a separate read for each marker of a burst; a set that is never read because further
/// markers follow.
#[test]
fn many_markers_cause_few_snapshots() {
    let Some(server) = Server::start() else { return };
    let (written, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        run(async {
            let repository = server.repository();
            repository.push(parse(&policy("a"))).await.unwrap();
            let mut snapshots = repository.clone().watch();
            next(&mut snapshots).await.unwrap();
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let first = written.fetch_add(STRETCH, Ordering::Relaxed);
                    let markers =
                        (first..first + STRETCH).map(|it| marker(&format!("m{it}")) + "\n");
                    server.change("ldapmodify", &markers.collect::<String>());
                }
            });
            let mut proposals = Vec::new();
            while proposals.len() < 3 {
                proposals.push(timeout(SOON, snapshots.recv()).await);
            }
            let during = written.load(Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
            assert!(
                proposals.iter().all(|proposal| matches!(proposal, Ok(Some(Ok(_))))),
                "{proposals:?}"
            );
            assert!(during >= 3 * STRETCH, "{during} markers for 3 proposals");
        });
    });
}

/// Number of markers that one process writes in a row, as fast as the server accepts them.
const STRETCH: u32 = 200;

/// Catches: an alarm while a push is being written; a watch that never begins, because the root
/// entry did not exist at first.
#[test]
fn a_watch_without_a_root_entry_waits_and_reports_only_completed_pushes() {
    let Some(server) = Server::start() else { return };
    run(async {
        let repository = server.repository();
        let mut snapshots = repository.clone().watch();
        assert_eq!(next(&mut snapshots).await.unwrap_err().kind, FaultKind::Uncommitted);
        repository.push(parse(&policy("a"))).await.unwrap();
        assert_eq!(next(&mut snapshots).await.unwrap().revision, "1");
        // Now that the root entry exists, the gateway asks the server to report changes. This takes
        // a moment.
        tokio::time::sleep(3 * QUIET).await;
        let begun = format!("dn: {BASE}\nchangetype: modify\nadd: tgPending\ntgPending: x\n");
        server.change("ldapmodify", &begun);
        assert!(timeout(12 * QUIET, snapshots.recv()).await.is_err(), "a push is a fault");
        repository.push(parse(&policy("b"))).await.unwrap();
        assert_eq!(next(&mut snapshots).await.unwrap().revision, "2");
    });
}

#[test]
fn a_change_without_a_new_marker_is_not_a_commit() {
    let Some(server) = Server::start() else { return };
    run(async {
        let repository = server.repository();
        repository.push(parse(&policy("a"))).await.unwrap();
        server.change("ldapadd", &entry("b"));
        let fault = repository.pull().await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Uncommitted);
        assert!(fault.message.contains("cn=b"), "{fault}");
        server.change("ldapmodify", &marker("2"));
        assert_eq!(repository.pull().await.unwrap().parts.len(), 2);
        // The state that a killed push leaves: an entry is removed, and `tgPending` is still set.
        let pending = format!(
            "dn: {BASE}\nchangetype: modify\nadd: tgPending\ntgPending: TRUE\n\ndn: cn=b,ou=policies,{BASE}\nchangetype: delete\n"
        );
        server.change("ldapmodify", &pending);
        let fault = repository.pull().await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Uncommitted);
        assert!(fault.message.contains("not finished"), "{fault}");
        repository.push(parse(&policy("a"))).await.unwrap();
        assert_eq!(repository.pull().await.unwrap().parts.len(), 1);
    });
}

#[test]
fn with_each_change_no_marker_is_needed() {
    let Some(server) = Server::start() else { return };
    run(async {
        let mut spec = server.spec();
        spec.commit = Commit::EachChange;
        let repository = open(&spec).unwrap();
        let revision = repository.push(parse(&policy("a"))).await.unwrap();
        let mut snapshots = repository.clone().watch();
        assert_eq!(next(&mut snapshots).await.unwrap().revision, revision);
        server.change("ldapadd", &entry("b"));
        assert_eq!(next(&mut snapshots).await.unwrap().parts.len(), 2);
        server.change("ldapmodify", &format!("dn: cn=b,ou=policies,{BASE}\nchangetype: delete\n"));
        assert_eq!(next(&mut snapshots).await.unwrap().revision, revision);
    });
}

/// Catches: a watch that waits for reports of changes although this server does not support them
/// (RFC 4533).
#[test]
fn a_server_without_synchronization_is_polled() {
    for commit in [Commit::Marker, Commit::EachChange] {
        let Some(server) = Server::with("") else { return };
        run(async {
            let mut spec = server.spec();
            spec.commit = commit;
            let repository = open(&spec).unwrap();
            repository.push(parse(&policy("a"))).await.unwrap();
            let mut snapshots = repository.clone().watch();
            assert_eq!(next(&mut snapshots).await.unwrap().parts.len(), 1);
            repository.push(parse(&(policy("a") + &policy("b")))).await.unwrap();
            assert_eq!(next(&mut snapshots).await.unwrap().parts.len(), 2);
        });
    }
}
