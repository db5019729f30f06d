//! Tests which sets of policies a watcher of etcd gets, and when it gets them. A set is complete
//! when its commit marker (a key) is written.

use std::time::Duration;

use tidegate_config::source::Commit;
use tidegate_repository::{Conformance, FaultKind, NodeReport, open};
use tokio::time::{Instant, timeout};

use crate::real::Etcd;
use crate::testing::{fault, held, next, next_snapshot, nothing, policy, source, spec};

/// Catches: reports of gateways (keys below `status/`) that are read as policies, or that count as
/// changes; a report written under a wrong key.
#[tokio::test]
async fn a_pushed_set_is_pulled_and_watched_and_reports_change_nothing() {
    let Some(server) = Etcd::start().await else { return };
    let source = source(&server.url());
    let mut watch = source.clone().watch();
    fault(next(&mut watch).await, FaultKind::Uncommitted);
    let set = vec![policy("mail", 1), policy("web", 2)];
    let revision = source.push(set.clone()).await.unwrap();
    let seen = next(&mut watch).await.unwrap();
    assert_eq!((held(&seen), &seen.revision), (set, &revision));
    assert_eq!(seen.parts[1].origin, "/t/policy/web");
    assert_eq!(source.pull().await.unwrap(), seen);

    let report = NodeReport {
        node: "gw1".to_owned(),
        revision: Some(revision),
        generation: 3,
        since_s: 1_790_000_000,
        error: None,
        flows_on_it: 0.5,
        policies: [("web".to_owned(), Conformance { up: Some(0.9), down: None })].into(),
    };
    source.report(&report).await.unwrap();
    let kept = server.get("/t/status/gw1").await.unwrap();
    assert_eq!(serde_json::from_str::<NodeReport>(&kept).unwrap(), report);
    nothing(&mut watch).await;
    assert_eq!(source.pull().await.unwrap(), seen);
}

/// Catches: a set read at the newest revision instead of the marker's revision; keys that count as
/// a commit without a new marker.
#[tokio::test]
async fn a_change_without_a_new_marker_is_not_read() {
    let Some(server) = Etcd::start().await else { return };
    let source = source(&server.url());
    server.put("/t/policy/web", b"action = \"pass\"").await;
    fault(source.pull().await, FaultKind::Uncommitted);
    server.put("/t/commit", b"1").await;
    let mut watch = source.clone().watch();
    let old = next(&mut watch).await.unwrap();
    server.put("/t/policy/mail", b"action = \"pass\"").await;
    server.delete("/t/policy/web").await;
    nothing(&mut watch).await;
    assert_eq!(source.pull().await.unwrap(), old);
    server.put("/t/commit", b"2").await;
    let new = next(&mut watch).await.unwrap();
    assert_eq!(held(&new), held(&source.pull().await.unwrap()));
    assert_eq!(held(&new)[0].name, "mail");
    server.delete("/t/commit").await;
    fault(next(&mut watch).await, FaultKind::Uncommitted);
}

/// Compaction removes the history at the marker. The current keys then count as the committed set
/// if nothing changed after the marker.
///
/// Catches: no fallback to the current keys; keys accepted although they are newer than the marker;
/// a removed key that is not noticed.
#[tokio::test]
async fn a_set_is_read_although_the_history_at_its_marker_is_compacted() {
    let Some(server) = Etcd::start().await else { return };
    let source = source(&server.url());
    let mut watch = source.clone().watch();
    source.push(vec![policy("mail", 1), policy("web", 2)]).await.unwrap();
    let set = next_snapshot(&mut watch).await;
    server.put("/elsewhere", b"").await;
    server.compact().await;
    assert_eq!(source.pull().await.unwrap(), set);
    nothing(&mut watch).await;

    server.delete("/t/policy/mail").await;
    server.compact().await;
    let removed = fault(source.pull().await, FaultKind::Unsteady);
    assert!(removed.message.contains("removed"), "{removed}");
    server.put("/t/policy/mail", b"action = \"pass\"").await;
    server.compact().await;
    let newer = fault(source.pull().await, FaultKind::Unsteady);
    assert!(newer.message.contains("`/t/policy/mail` changed"), "{newer}");
    nothing(&mut watch).await;
    server.put("/t/commit", b"by hand").await;
    assert_eq!(held(&next(&mut watch).await.unwrap()).len(), 2);
}

/// Catches: a separate read for each marker; a commit that is never read because further markers
/// follow.
#[tokio::test]
async fn a_thousand_markers_cause_few_reads_and_the_last_one_is_read() {
    let Some(server) = Etcd::start().await else { return };
    let source = source(&server.url());
    server.put("/t/commit", b"0").await;
    let mut watch = source.clone().watch();
    next(&mut watch).await.unwrap();
    let writer = async {
        let began = Instant::now();
        let mut last = 0;
        for n in 0..1000_u32 {
            last = server.put("/t/commit", n.to_string().as_bytes()).await;
        }
        (last, began.elapsed())
    };
    let reader = async {
        let mut revisions = Vec::new();
        while let Ok(answer) = timeout(Duration::from_secs(2), watch.recv()).await {
            revisions.push(answer.unwrap().unwrap().revision);
        }
        revisions
    };
    let ((last, took), revisions) = tokio::join!(writer, reader);
    let newest = revisions.last().unwrap();
    assert!(newest.starts_with(&format!("{last}-")), "{newest} is not {last}");
    let most = took.as_secs() + 2;
    assert!(
        u64::try_from(revisions.len()).unwrap() <= most,
        "{} reads in {took:?}",
        revisions.len()
    );
}

/// Catches: a snapshot for each changed key; a store without any key that counts as an empty set; a
/// push that is read half-written.
#[tokio::test]
async fn each_change_is_a_commit_after_a_quiet_period() {
    let Some(server) = Etcd::start().await else { return };
    let mut spec = spec(&[server.url()]);
    spec.commit = Commit::EachChange;
    let source = open(&spec).unwrap();
    let mut watch = source.clone().watch();
    fault(next(&mut watch).await, FaultKind::Uncommitted);
    for name in ["class/a", "policy/b", "trunk/c"] {
        server.put(&format!("/t/{name}"), b"").await;
    }
    assert_eq!(held(&next(&mut watch).await.unwrap()).len(), 3);
    server.put("/t/status/gw1", b"{}").await;
    nothing(&mut watch).await;
    server.delete("/t/trunk/c").await;
    assert_eq!(held(&next(&mut watch).await.unwrap()).len(), 2);

    server.put("/t/push", b"").await;
    server.delete("/t/policy/b").await;
    nothing(&mut watch).await;
    server.delete("/t/push").await;
    assert_eq!(held(&next(&mut watch).await.unwrap()).len(), 1);
    let set: Vec<_> = (0..400).map(|n| policy(&format!("p{n}"), n)).collect();
    source.push(set).await.unwrap();
    assert_eq!(held(&next(&mut watch).await.unwrap()).len(), 400);
    source.push(Vec::new()).await.unwrap();
    assert_eq!(held(&next(&mut watch).await.unwrap()).len(), 0);
    server.delete("/t/commit").await;
    fault(next(&mut watch).await, FaultKind::Uncommitted);
}
