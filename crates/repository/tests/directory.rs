//! Tests policy repositories that are directories of TOML files. A commit marker, the file
//! `COMMIT`, is written last and completes a set.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tidegate_config::source::{Access, Apply, Commit, SourceKind, SourceSpec};
use tidegate_config::{Item, Part};
use tidegate_core::Bytes;
use tidegate_repository::{FaultKind, NodeReport, PolicyRepository, Snapshot, open};
use tokio::time::{sleep, timeout};

use common::{canonical_text, next, random_sets, sets_come_back_the_same, text_of};

/// A folder for one test. It is removed when the value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-directory-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file with one policy named `name`.
    fn policy(&self, file: &str, name: &str) {
        fs::write(self.0.join(file), policy(name)).unwrap();
    }

    fn commit(&self, revision: &str) {
        fs::write(self.0.join("COMMIT"), format!("{revision}\n")).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn policy(name: &str) -> String {
    format!("[[policy]]\nname = \"{name}\"\naction = \"pass\"\n")
}

fn spec(path: &Path, commit: Commit) -> SourceSpec {
    SourceSpec {
        name: "files".to_owned(),
        kind: SourceKind::Directory { path: path.to_owned() },
        access: Access::default(),
        roles: Vec::new(),
        apply: Apply::Auto,
        commit,
        poll: Duration::from_millis(100),
        max_size: Bytes(64 << 10),
        max_policies: 100,
    }
}

fn repository(path: &Path) -> Arc<dyn PolicyRepository> {
    open(&spec(path, Commit::Marker)).unwrap()
}

/// The names of the policies in a snapshot.
fn names(snapshot: &Snapshot) -> Vec<String> {
    let items = |part: &Part| tidegate_config::items(part).unwrap();
    let mut names: Vec<_> = snapshot.parts.iter().flat_map(items).map(|item| item.name).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_random_set_comes_back_the_same() {
    let folder = Folder::new();
    sets_come_back_the_same(&repository(&folder.0), 24).await;
    // Only the files of the last set and the marker remain.
    let files = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(files.into_iter().all(|name| !name.to_str().unwrap().starts_with('.')));
}

#[tokio::test]
async fn each_commit_is_one_snapshot() {
    let folder = Folder::new();
    let repository = repository(&folder.0);
    let sets: Vec<_> = random_sets(8).into_iter().filter(|set| !set.is_empty()).take(3).collect();
    let mut snapshots = Arc::clone(&repository).watch();
    assert_eq!(next(&mut snapshots).await.unwrap_err().kind, FaultKind::Uncommitted);
    for set in &sets {
        let revision = repository.push(set.clone()).await.unwrap();
        let snapshot = next(&mut snapshots).await.unwrap();
        assert_eq!(canonical_text(&snapshot.parts), text_of(set));
        assert_eq!(snapshot.revision, revision);
    }
    // A new marker is a commit even if the set did not change.
    folder.commit("release 7");
    let snapshot = next(&mut snapshots).await.unwrap();
    assert!(snapshot.revision.starts_with("release 7@"), "{}", snapshot.revision);
    assert!(timeout(Duration::from_millis(500), snapshots.recv()).await.is_err());
}

/// Catches: a reader that does not compare the marker before and after the read; a change that is
/// read before its marker is written.
#[tokio::test]
async fn a_change_waits_for_its_marker() {
    let folder = Folder::new();
    folder.policy("a.toml", "a");
    folder.commit("1");
    let repository = repository(&folder.0);
    let mut snapshots = Arc::clone(&repository).watch();
    assert_eq!(names(&next(&mut snapshots).await.unwrap()), ["a"]);
    // File systems take file times from a clock with steps of up to 10 ms.
    sleep(Duration::from_millis(50)).await;
    folder.policy("b.toml", "b");
    assert!(timeout(Duration::from_millis(600), snapshots.recv()).await.is_err());
    let fault = repository.pull().await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Uncommitted);
    assert!(fault.message.contains("b.toml"), "{fault}");
    folder.commit("2");
    assert_eq!(names(&next(&mut snapshots).await.unwrap()), ["a", "b"]);
    sleep(Duration::from_millis(50)).await;
    fs::remove_file(folder.0.join("a.toml")).unwrap();
    assert_eq!(repository.pull().await.unwrap_err().kind, FaultKind::Uncommitted);
    folder.commit("3");
    assert_eq!(names(&next(&mut snapshots).await.unwrap()), ["b"]);
}

#[tokio::test]
async fn without_markers_a_change_is_committed_after_a_quiet_period() {
    let folder = Folder::new();
    folder.policy("a.toml", "a");
    let repository = open(&spec(&folder.0, Commit::EachChange)).unwrap();
    let mut snapshots = Arc::clone(&repository).watch();
    assert_eq!(names(&next(&mut snapshots).await.unwrap()), ["a"]);
    for name in ["b", "c", "d"] {
        folder.policy(&format!("{name}.toml"), name);
        sleep(Duration::from_millis(40)).await;
    }
    // On a busy host, the pauses between the commits may be longer than `QUIET`, so intermediate
    // sets may be reported.
    while names(&next(&mut snapshots).await.unwrap()) != ["a", "b", "c", "d"] {}
    // A change inside a file does not change its directory.
    folder.policy("d.toml", "e");
    assert_eq!(names(&next(&mut snapshots).await.unwrap()), ["a", "b", "c", "e"]);
    assert!(timeout(Duration::from_millis(400), snapshots.recv()).await.is_err());
}

/// Catches: a backup of an editor, a hidden file or a subdirectory read as a policy file.
#[tokio::test]
async fn other_files_are_left_out() {
    let folder = Folder::new();
    folder.policy("a.toml", "a");
    for other in ["a.toml~", ".b.toml", "#c.toml#", ".#d.toml", "e.toml.swp", "notes.txt"] {
        folder.policy(other, "other");
    }
    fs::create_dir(folder.0.join("status")).unwrap();
    folder.commit("1");
    assert_eq!(names(&repository(&folder.0).pull().await.unwrap()), ["a"]);
}

/// Catches: a watch that keeps reading the old directory after a symbolic link has changed; a set
/// mixed from two releases.
#[tokio::test]
async fn a_symbolic_link_to_another_directory_is_followed() {
    let folder = Folder::new();
    for release in ["one", "two"] {
        let path = folder.0.join(release);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("a.toml"), policy(release)).unwrap();
        fs::write(path.join("COMMIT"), release).unwrap();
    }
    let link = folder.0.join("current");
    symlink("one", &link).unwrap();
    let mut snapshots = repository(&link).watch();
    assert_eq!(names(&next(&mut snapshots).await.unwrap()), ["one"]);
    symlink("two", folder.0.join("next")).unwrap();
    fs::rename(folder.0.join("next"), &link).unwrap();
    assert_eq!(names(&next(&mut snapshots).await.unwrap()), ["two"]);
}

/// The layout of a mounted Kubernetes ConfigMap: each file is a symbolic link through `..data`,
/// which is replaced as a whole. The files of a version may be older than its marker or newer.
#[tokio::test]
async fn a_config_map_is_replaced_as_a_whole() {
    for commit in [Commit::Marker, Commit::EachChange] {
        let folder = Folder::new();
        let version = |name: &str| {
            let path = folder.0.join(format!("..{name}"));
            fs::create_dir(&path).unwrap();
            fs::write(path.join("COMMIT"), name).unwrap();
            fs::write(path.join("a.toml"), policy(name)).unwrap();
            symlink(format!("..{name}"), folder.0.join("..data_tmp")).unwrap();
            fs::rename(folder.0.join("..data_tmp"), folder.0.join("..data")).unwrap();
        };
        version("one");
        for file in ["a.toml", "COMMIT"] {
            symlink(format!("..data/{file}"), folder.0.join(file)).unwrap();
        }
        let repository = open(&spec(&folder.0, commit)).unwrap();
        let mut snapshots = Arc::clone(&repository).watch();
        let first = next(&mut snapshots).await.unwrap();
        assert_eq!(names(&first), ["one"]);
        assert_eq!(first.parts[0].origin, folder.0.join("a.toml").display().to_string());
        sleep(Duration::from_millis(50)).await;
        version("two");
        assert_eq!(names(&next(&mut snapshots).await.unwrap()), ["two"]);
        if commit == Commit::Marker {
            assert_eq!(repository.push(Vec::new()).await.unwrap_err().kind, FaultKind::Unusable);
        }
    }
}

/// Catches: a fault that is reported again and again; a watch that ends when its directory is
/// removed.
#[tokio::test]
async fn a_directory_may_be_removed_and_created_again() {
    let folder = Folder::new();
    let path = folder.0.join("policies");
    let mut snapshots = repository(&path).watch();
    let fault = next(&mut snapshots).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unusable);
    assert!(fault.help.contains("make this directory"), "{fault}");
    let make = || {
        fs::create_dir(&path).unwrap();
        fs::write(path.join("a.toml"), policy("a")).unwrap();
        fs::write(path.join("COMMIT"), "1").unwrap();
    };
    make();
    let first = next(&mut snapshots).await.unwrap();
    fs::remove_dir_all(&path).unwrap();
    let missing = next(&mut snapshots).await.unwrap_err();
    assert!(matches!(missing.kind, FaultKind::Unusable | FaultKind::Uncommitted), "{missing}");
    make();
    let mut back = next(&mut snapshots).await;
    // While the directory is being created again, the watch may see it without its marker.
    while back.is_err() {
        back = next(&mut snapshots).await;
    }
    assert_eq!(back.unwrap(), first);
}

/// Each fault names the file and the remedy.
#[tokio::test]
async fn a_fault_names_the_unusable_file() {
    type Spoil = fn(&Folder);
    let cases: [(&str, FaultKind, Spoil); 8] = [
        ("regular file", FaultKind::Unusable, |folder| {
            let path = folder.0.join("pipe.toml");
            nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        }),
        ("regular file", FaultKind::Unusable, |folder| {
            fs::create_dir(folder.0.join("more.toml")).unwrap();
        }),
        ("lost.toml", FaultKind::Unusable, |folder| {
            symlink("nowhere", folder.0.join("lost.toml")).unwrap();
        }),
        ("more than 65536 B", FaultKind::TooLarge, |folder| {
            let file = fs::File::create(folder.0.join("big.toml")).unwrap();
            file.set_len(1 << 40).unwrap();
        }),
        ("more than 100", FaultKind::TooLarge, |folder| {
            let many: String = (0..101).map(|number| policy(&format!("p{number}"))).collect();
            fs::write(folder.0.join("many.toml"), many).unwrap();
        }),
        ("bytes.toml", FaultKind::Malformed, |folder| {
            fs::write(folder.0.join("bytes.toml"), [0xff, 0xfe]).unwrap();
        }),
        ("wrong.toml:1", FaultKind::Malformed, |folder| {
            fs::write(folder.0.join("wrong.toml"), "[[policy]\n").unwrap();
        }),
        ("gateway", FaultKind::Malformed, |folder| {
            fs::write(folder.0.join("other.toml"), "[gateway]\nlan = \"eth1\"\n").unwrap();
        }),
    ];
    for (said, kind, spoil) in cases {
        let folder = Folder::new();
        folder.policy("a.toml", "a");
        spoil(&folder);
        folder.commit("1");
        let fault = repository(&folder.0).pull().await.unwrap_err();
        assert_eq!(fault.kind, kind, "{fault}");
        assert!(fault.to_string().contains(said), "{fault}");
    }
}

/// Root may read every file, so this test runs as another user.
#[tokio::test]
async fn a_fault_names_the_unreadable_file() {
    let folder = Folder::new();
    folder.policy("secret.toml", "a");
    let path = folder.0.join("secret.toml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    folder.commit("1");
    if fs::read(&path).is_ok() {
        println!("skipped: root may read every file");
        return;
    }
    let fault = repository(&folder.0).pull().await.unwrap_err();
    assert!(fault.kind == FaultKind::Unusable && fault.help.contains("right"), "{fault}");
}

/// Minimum number of markers that the test writes.
const STORM: u32 = 200;

/// Catches: a separate read for each marker; a commit that is never read because further markers
/// follow.
#[tokio::test]
async fn a_thousand_markers_a_second_cause_few_reads() {
    let folder = Folder::new();
    folder.policy("a.toml", "a");
    folder.commit("0");
    let mut snapshots = repository(&folder.0).watch();
    next(&mut snapshots).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (path, stopped) = (folder.0.clone(), Arc::clone(&stop));
    let writer = tokio::spawn(async move {
        let mut written = 0u32;
        loop {
            // The last marker is written after the last read, so one more read must follow.
            let last = stopped.load(Ordering::Relaxed) && written >= STORM;
            for _ in 0..2 {
                written += 1;
                fs::write(path.join(".COMMIT.new"), written.to_string()).unwrap();
                fs::rename(path.join(".COMMIT.new"), path.join("COMMIT")).unwrap();
            }
            if last {
                return written;
            }
            sleep(Duration::from_millis(1)).await;
        }
    });
    let mut read = 0;
    while read < 2 {
        // A set that changes without end must still be sent, or reported as a fault.
        drop(next(&mut snapshots).await);
        read += 1;
    }
    stop.store(true, Ordering::Relaxed);
    let written = writer.await.unwrap();
    let last = format!("{written}@");
    while !next(&mut snapshots).await.is_ok_and(|it| it.revision.starts_with(&last)) {
        read += 1;
    }
    assert!(read < 10, "{read} sets for {written} markers");
}

#[tokio::test]
async fn a_push_refuses_names_that_cannot_be_file_names() {
    let folder = Folder::new();
    let item = |name: &str| Item {
        kind: tidegate_config::ItemKind::Policy,
        name: name.to_owned(),
        fields: toml::Table::from_iter([("action".to_owned(), "pass".into())]),
    };
    let repository = repository(&folder.0);
    for wrong in [vec![item("../evil")], vec![item("a"), item("a")]] {
        assert_eq!(repository.push(wrong).await.unwrap_err().kind, FaultKind::Malformed);
    }
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[tokio::test]
async fn reports_are_written_if_their_directory_exists() {
    let folder = Folder::new();
    let repository = repository(&folder.0);
    let report = NodeReport {
        node: "gw-1".to_owned(),
        revision: Some("7".to_owned()),
        generation: 3,
        since_s: 1_700_000_000,
        error: None,
        flows_on_it: 0.5,
        policies: Default::default(),
    };
    repository.report(&report).await.unwrap();
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    fs::create_dir(folder.0.join("status")).unwrap();
    repository.report(&report).await.unwrap();
    let text = fs::read_to_string(folder.0.join("status/gw-1.json")).unwrap();
    assert_eq!(serde_json::from_str::<NodeReport>(&text).unwrap(), report);
    let outside = NodeReport { node: "../gw".to_owned(), ..report };
    assert!(repository.report(&outside).await.is_err());
}
