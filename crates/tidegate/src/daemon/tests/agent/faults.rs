//! Tests the policy agent, which puts the policies of sources (repositories) in force, after
//! faults: refused sets of policies, restarts, rollbacks, and sources that are removed and added
//! again.

use std::os::unix::fs::PermissionsExt;

use tidegate_repository::{Fault, FaultKind};

use super::*;

/// Waits until the stored set of source `a` contains `wanted`.
async fn kept(fixture: &Fixture, wanted: &str) {
    let file = fixture.folder.join("sets/a.json");
    for _ in 0..1_000 {
        if fs::read_to_string(&file).is_ok_and(|text| text.contains(wanted)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} never had {wanted}", file.display());
}

/// Catches: a refused set that is not tried again when the policy file is corrected; an alarm
/// without the time at which it began.
#[tokio::test]
async fn a_refused_set_is_tried_again_when_the_policy_file_changes() {
    let folder = folder_with(&["a"]);
    let good = with_sources(&folder, &["a"], "");
    let bad = good.clone() + &pass("one", "10.9.0.0/16");
    let (fixture, follow) = start(folder, &bad).await;
    push(&bad, "a", &pass("one", "10.1.0.0/16")).await;
    let refused = fixture.source("a", |source| source.state == "refused").await;
    assert!(refused.failing_s.is_some(), "{refused:?}");
    fixture.apply(&good, None).await.unwrap();
    fixture.source("a", |source| source.state == "in force").await;
    assert_eq!(fixture.policies().await, ["one"]);
    follow.abort();
}

/// Catches: a first set that is stored only after the next commit.
#[tokio::test]
async fn the_first_set_is_on_the_disk() {
    let folder = folder_with(&["a"]);
    let text = with_sources(&folder, &["a"], "");
    push(&text, "a", &pass("one", "10.1.0.0/16")).await;
    let (fixture, follow) = start(folder, &text).await;
    kept(&fixture, "one").await;
    follow.abort();
}

/// Catches: an unconfirmed set that is stored; a confirmed set that is not stored.
#[tokio::test]
async fn a_set_is_on_the_disk_once_it_is_confirmed() {
    let folder = folder_with(&["a"]);
    let text = with_sources(&folder, &["a"], "apply = \"confirm\"\n");
    push(&text, "a", &pass("one", "10.1.0.0/16")).await;
    let (fixture, follow) = start(folder, &text).await;
    fixture.until(|status| status.unconfirmed_ms.is_some()).await;
    fixture.daemon.write_sets().await;
    assert!(!fixture.folder.join("sets/a.json").exists());
    fixture.daemon.confirm().await.ok().unwrap();
    kept(&fixture, "one").await;
    follow.abort();
}

/// Catches: a set that was rolled back, and that the agent applies again when its source recovers
/// from a fault.
#[tokio::test]
async fn a_set_that_was_rolled_back_is_not_tried_again() {
    let folder = folder_with(&["a"]);
    let text = with_sources(&folder, &["a"], "apply = \"confirm\"\n");
    push(&text, "a", &pass("one", "10.1.0.0/16")).await;
    let (fixture, follow) = start(folder.clone(), &text).await;
    let status = fixture.until(|status| status.unconfirmed_ms.is_some()).await;
    fixture.daemon.roll_back(status.generation).await;
    assert_eq!(fixture.policies().await, [""; 0]);
    let rolled_back = fixture.get::<Status>("/v1/status").await.generation;
    fs::rename(folder.join("a"), folder.join("away")).unwrap();
    fixture.source("a", |source| source.error.is_some()).await;
    fs::rename(folder.join("away"), folder.join("a")).unwrap();
    fixture.source("a", |source| source.state == "waits").await;
    tokio::time::sleep(2 * QUIET).await;
    assert_eq!(fixture.get::<Status>("/v1/status").await.generation, rolled_back);
    push(&text, "a", &pass("two", "10.2.0.0/16")).await;
    fixture.until(|status| status.unconfirmed_ms.is_some()).await;
    assert_eq!(fixture.policies().await, ["two"]);
    fixture.daemon.confirm().await.ok().unwrap();
    let status: Status = fixture.get("/v1/status").await;
    assert_eq!(status.alarms, [""; 0], "a confirmed set ends the alarm of the rollback");
    follow.abort();
}

/// Catches: a run-time change of a class that is lost because a set was being compiled meanwhile.
#[tokio::test]
async fn a_class_change_during_a_compilation_is_kept() {
    let folder = folder_with(&["a"]);
    let text = with_sources(&folder, &["a"], "apply = \"manual\"\n").replacen(
        NOTHING,
        &format!("{NOTHING}rate = {{ up = \"10 Mbit/s\" }}\n"),
        1,
    ) + "[[class]]\nname = \"c\"\nweight = 2\n";
    push(&text, "a", &pass("one", "10.1.0.0/16")).await;
    let (fixture, follow) = start(folder, &text).await;
    fixture.source("a", |source| source.state == "waits").await;
    let set = fixture.daemon.agent.newest("a").ok().unwrap();
    let next = fixture.daemon.with_set("a", set).await.ok().unwrap();
    fixture.change("c", json!({ "weight": 7 })).await.unwrap();
    fixture.daemon.replace(next, Live::Kept, None, None).await.ok().unwrap();
    let weight = fixture.daemon.installed().await.running().classes.classes()[0].weight;
    assert_eq!(weight, 7);
    follow.abort();
}

/// Catches: an invalid stored set because of which a restart ignores the sets of all other sources;
/// a stored set that is not tried again after the policy file was corrected.
#[tokio::test]
async fn a_set_that_does_not_fit_leaves_the_others_in_force() {
    let folder = folder_with(&["a", "b"]);
    let good = with_sources(&folder, &["a", "b"], "");
    push(&good, "a", &pass("one", "10.1.0.0/16")).await;
    push(&good, "b", &pass("two", "10.2.0.0/16")).await;
    let before = Store::new(folder.join("sets"));
    for spec in Documents::gather(Path::new("x"), good.clone()).unwrap().sources() {
        before.keep(&spec, &Arc::new(open(&spec).unwrap().pull().await.unwrap()));
    }
    for name in ["a", "b"] {
        fs::remove_dir_all(folder.join(name)).unwrap();
    }
    let bad = good.clone() + &pass("one", "10.9.0.0/16");
    let (fixture, follow) = start(folder, &bad).await;
    let in_force = fixture.policies().await;
    assert_eq!(in_force, ["one", "two"]);
    let installed = fixture.daemon.installed().await;
    assert_eq!(installed.documents.sets.keys().collect::<Vec<_>>(), ["b"]);
    drop(installed);
    fixture.apply(&good, None).await.unwrap();
    while !fixture.daemon.installed().await.documents.sets.contains_key("a") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(fixture.policies().await, ["one", "two"]);
    follow.abort();
}

/// Catches: a start that fails because a stored set names a key file that is missing.
#[tokio::test]
async fn a_set_without_its_key_file_does_not_prevent_the_start() {
    let folder = folder_with(&["a"]);
    let text = with_sources(&folder, &["a"], "").replace("\"wan\"", "\"lo\"");
    let spec = Documents::gather(Path::new("x"), text.clone()).unwrap().sources().remove(0);
    let trunk = "[[trunk]]\nname = \"t\"\nlocal = \"192.0.2.1\"\npeer = \"192.0.2.2\"\n\
                 next_hop = \"192.0.2.2\"\nkey_file = \"/nonexistent/key\"\n";
    let parts = vec![Part { origin: "t".to_owned(), text: trunk.to_owned() }];
    let set = tidegate_repository::Snapshot { revision: "1".to_owned(), parts };
    Store::new(folder.join("sets")).keep(&spec, &Arc::new(set));
    let (fixture, follow) = start(folder, &text).await;
    let refused = fixture.source("a", |source| source.state == "refused").await;
    assert!(refused.error.unwrap().contains("/nonexistent/key"));
    follow.abort();
}

/// Catches: a status that shows the refusal of an old set although a newer set waits for the
/// operator.
#[tokio::test]
async fn a_newer_set_ends_the_refusal_of_an_older_set() {
    let folder = folder_with(&["a"]);
    let text = with_sources(&folder, &["a"], "apply = \"manual\"\n") + &pass("own", "10.9.0.0/16");
    push(&text, "a", &pass("own", "10.1.0.0/16")).await;
    let (fixture, follow) = start(folder, &text).await;
    fixture.source("a", |source| source.state == "waits").await;
    fixture.daemon.apply_source("a", None).await.err().unwrap();
    fixture.source("a", |source| source.state == "refused").await;
    push(&text, "a", &pass("one", "10.1.0.0/16")).await;
    fixture.source("a", |source| source.state == "waits").await;
    assert_eq!(fixture.daemon.agent.alarms(), [""; 0]);
    follow.abort();
}

/// Catches: a source that was removed from the policy file and added again, and that starts with
/// its old set.
#[tokio::test]
async fn a_source_that_is_added_again_does_not_use_its_old_set() {
    let folder = folder_with(&["a"]);
    let text = with_sources(&folder, &["a"], "");
    push(&text, "a", &pass("one", "10.1.0.0/16")).await;
    let (fixture, follow) = start(folder.clone(), &text).await;
    assert_eq!(fixture.policies().await, ["one"]);
    fixture.apply(NOTHING, None).await.unwrap();
    fs::remove_dir_all(folder.join("a")).unwrap();
    fixture.apply(&text, None).await.unwrap();
    assert_eq!(fixture.policies().await, [""; 0]);
    follow.abort();
}

/// Catches: a source that is not opened again after its password file was corrected.
#[tokio::test]
async fn a_source_is_opened_again_when_its_files_are_corrected() {
    let folder = folder();
    let file = folder.join("password");
    fs::write(&file, "hunter2\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let text = format!(
        "{NOTHING}[[source]]\nname = \"a\"\nkind = \"etcd\"\nurl = \"http://127.0.0.1:1\"\n\
         user = \"gw\"\npassword_file = \"{}\"\n",
        file.display()
    );
    let (fixture, follow) = start(folder, &text).await;
    fixture.source("a", |source| source.state == "unusable").await;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fixture.apply(&text, None).await.unwrap();
    fixture.source("a", |source| source.state == "unreachable").await;
    follow.abort();
}

/// Catches: a refused password that only a restart reads again; credentials that are sent again at
/// each commit of another source, until the server locks the account.
#[tokio::test]
async fn a_reload_reads_refused_credentials_again() {
    let folder = folder_with(&["a"]);
    let text = with_sources(&folder, &["a"], "");
    push(&text, "a", &pass("one", "10.1.0.0/16")).await;
    let (fixture, follow) = start(folder, &text).await;
    let refused = Fault::new(FaultKind::Refused, "wrong password");
    kept(&fixture, "one").await;
    fixture.daemon.agent.fail("a", refused);
    fixture.daemon.agent.installed();
    tokio::time::sleep(2 * QUIET).await;
    assert!(!fixture.daemon.agent.alarms().is_empty(), "a commit of another source opens nothing");
    fixture.apply(&text, None).await.unwrap();
    fixture.source("a", |source| source.error.is_none()).await;
    follow.abort();
}

/// Catches: a source that is not followed while its last set is being written to the disk.
#[tokio::test]
async fn a_slow_disk_delays_no_commit() {
    let folder = folder_with(&["a"]);
    let text = with_sources(&folder, &["a"], "");
    fs::create_dir(folder.join("sets")).unwrap();
    let slow = folder.join("sets/.a.new");
    // Opening a FIFO for writing blocks until somebody reads.
    mkfifo(&slow, Mode::S_IRWXU).unwrap();
    push(&text, "a", &pass("one", "10.1.0.0/16")).await;
    let (fixture, follow) = start(folder, &text).await;
    let mut seen = Vec::new();
    for (name, dst) in [("two", "10.2.0.0/16"), ("three", "10.3.0.0/16")] {
        push(&text, "a", &pass(name, dst)).await;
        for _ in 0..500 {
            if fixture.policies().await == [name] {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        seen.extend(fixture.policies().await);
    }
    follow.abort();
    let _ = fs::OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(slow);
    assert_eq!(seen, ["two", "three"]);
}
