//! Tests the policy agent. It follows policy sources, here directories, and puts each committed set
//! of policies in force.

mod faults;

use tidegate_config::{Part, items};
use tidegate_repository::{QUIET, open};

use super::*;
use crate::api::{OfSource, Source, Sources};

/// A policy file whose sources are the directories `names` in `folder`. Each source's table also
/// has the fields `more`.
fn with_sources(folder: &Path, names: &[&str], more: &str) -> String {
    let source = |name: &&str| {
        let path = folder.join(name).display().to_string();
        format!(
            "[[source]]\nname = \"{name}\"\nkind = \"directory\"\npath = \"{path}\"\npoll = \"100 ms\"\n{more}"
        )
    };
    format!("{NOTHING}{}", names.iter().map(source).collect::<String>())
}

/// A policy that lets packets to `dst` pass.
fn pass(name: &str, dst: &str) -> String {
    format!("[[policy]]\nname = \"{name}\"\naction = \"pass\"\nmatch = {{ dst = \"{dst}\" }}\n")
}

/// Commits `text` as the set of source `name`, which the policy file `file` configures.
async fn push(file: &str, name: &str, text: &str) {
    let source = Documents::gather(Path::new("x"), file.to_owned()).unwrap().sources();
    let spec = source.into_iter().find(|source| source.name == name).unwrap();
    let part = Part { origin: "test".to_owned(), text: text.to_owned() };
    open(&spec).unwrap().push(items(&part).unwrap()).await.unwrap();
}

/// A gateway in `folder`, started with the sets that are on its disk.
async fn start(folder: PathBuf, text: &str) -> (Fixture, JoinHandle<()>) {
    let agent = Agent::new(Store::new(folder.join("sets")));
    let mut documents = Documents::gather(&folder.join("policy.toml"), text.to_owned()).unwrap();
    agent.first_sets(&mut documents, false).await;
    let fixture = Fixture::of(documents, folder, Limits::control(1_024), Opened::default, agent);
    let daemon = fixture.daemon.clone();
    let follow = tokio::spawn(async move { daemon.follow_sources().await });
    (fixture, follow)
}

impl Fixture {
    /// Waits until `wanted` accepts the state of source `name`.
    async fn source(&self, name: &str, wanted: impl Fn(&Source) -> bool) -> Source {
        let mut last = None;
        for _ in 0..1_000 {
            let found: Sources = self.get("/v1/sources").await;
            let source = found.sources.into_iter().find(|source| source.name == name);
            if let Some(source) = source.clone().filter(|source| wanted(source)) {
                return source;
            }
            last = source;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never came to that: {last:?}")
    }

    /// The names of the policies in force.
    async fn policies(&self) -> Vec<String> {
        let installed = self.daemon.installed().await;
        installed.config.policies.iter().map(|policy| policy.name.clone()).collect()
    }
}

fn folder_with(names: &[&str]) -> PathBuf {
    let folder = folder();
    names.iter().for_each(|name| fs::create_dir(folder.join(name)).unwrap());
    folder
}

/// Catches: an invalid set that replaces a valid one; an alarm that stays after the next valid set;
/// a set of a source that replaces the policies of the file.
#[tokio::test]
async fn a_valid_commit_is_put_in_force_and_an_invalid_one_is_not() {
    let folder = folder_with(&["a"]);
    let text = with_sources(&folder, &["a"], "") + &pass("own", "10.9.0.0/16");
    push(&text, "a", &pass("one", "10.1.0.0/16")).await;
    let (fixture, follow) = start(folder, &text).await;
    assert_eq!(fixture.policies().await, ["own", "one"]);

    push(&text, "a", &pass("two", "10.2.0.0/16")).await;
    fixture.until(|status| status.generation == 2).await;
    assert_eq!(fixture.policies().await, ["own", "two"]);

    push(&text, "a", &pass("three", "10.2.0.300/16")).await;
    let refused = fixture.source("a", |source| source.state == "refused").await;
    assert!(refused.error.unwrap().contains("policy-three.toml"), "the place is named");
    let status: Status = fixture.get("/v1/status").await;
    assert_eq!((status.generation, status.alarms.len()), (2, 1), "{:?}", status.alarms);
    assert!(status.alarms[0].contains("source `a`"), "{:?}", status.alarms);
    assert_eq!(fixture.policies().await, ["own", "two"]);

    push(&text, "a", &pass("three", "10.3.0.0/16")).await;
    fixture.source("a", |source| source.state == "in force").await;
    assert_eq!(fixture.policies().await, ["own", "three"]);
    let status: Status = fixture.get("/v1/status").await;
    assert!(status.alarms.is_empty(), "{:?}", status.alarms);
    follow.abort();
}

/// Catches: a policy that replaces another source's policy of the same name; an error that does not
/// name both sources; a result that depends on the order of commits.
#[tokio::test]
async fn two_sources_cannot_define_the_same_policy() {
    let folder = folder_with(&["a", "b"]);
    let text = with_sources(&folder, &["b", "a"], "");
    push(&text, "a", &pass("web", "10.1.0.0/16")).await;
    push(&text, "b", &pass("mail", "10.2.0.0/16")).await;
    let (fixture, follow) = start(folder, &text).await;
    assert_eq!(fixture.policies().await, ["mail", "web"]);
    push(&text, "b", &pass("web", "10.2.0.0/16")).await;
    let why = fixture.source("b", |source| source.state == "refused").await.error.unwrap();
    assert!(why.contains("/a/policy-web.toml:") && why.contains("/b/policy-web.toml:"), "{why}");
    assert_eq!(fixture.policies().await, ["mail", "web"]);
    push(&text, "a", &pass("ftp", "10.1.0.0/16")).await;
    fixture.source("b", |source| source.state == "in force" && source.error.is_none()).await;
    assert_eq!(fixture.policies().await, ["web", "ftp"]);
    follow.abort();
}

/// Catches: an invalid stored set because of which the valid sets of other sources are refused;
/// sets that are tried in one order only.
#[tokio::test]
async fn an_invalid_stored_set_does_not_exclude_the_others() {
    let folder = folder_with(&["a", "b", "c"]);
    let text = with_sources(&folder, &["a", "b", "c"], "");
    let text = text.replacen(NOTHING, &format!("{NOTHING}rate = {{ up = \"10 Mbit/s\" }}\n"), 1);
    let of_class = pass("one", "10.1.0.0/16") + "class = \"office\"\n";
    push(&text, "b", &pass("two", "10.2.0.0/16")).await;
    push(&text, "c", "[[class]]\nname = \"office\"\n").await;
    push(&text, "a", &of_class).await;
    let (fixture, follow) = start(folder.clone(), &text).await;
    fixture.source("a", |source| source.state == "in force").await;
    assert_eq!(fixture.policies().await, ["one", "two"]);
    push(&text, "b", &pass("three", "10.3.0.0/16")).await;
    while fixture.policies().await != ["one", "three"] {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    while ["a", "b", "c"].iter().any(|name| !folder.join(format!("sets/{name}.json")).exists()) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The file on the disk follows the set in force.
    let kept = || fs::read_to_string(folder.join("sets/b.json")).unwrap_or_default();
    while !kept().contains("three") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    follow.abort();
    let copy = super::folder();
    fs::rename(folder.join("sets"), copy.join("sets")).unwrap();
    // Dropping the fixture also removes its folder, with the directories of the sources.
    drop(fixture);
    // The file now has a policy with the same name as the policy in the set of `b`.
    let (fixture, follow) = start(copy, &(text + &pass("three", "10.9.0.0/16"))).await;
    assert_eq!(fixture.policies().await, ["three", "one"]);
    assert_eq!(fixture.source("b", |it| it.error.is_some()).await.revision, None);
    follow.abort();
}

/// Catches: sets that are not written to the disk; a stored set used although it came from another
/// server; a start that waits for a source although its set is on the disk.
#[tokio::test]
async fn a_restart_without_the_source_uses_its_last_good_set() {
    let folder = folder_with(&["a"]);
    let text = with_sources(&folder, &["a"], "");
    push(&text, "a", &pass("one", "10.1.0.0/16")).await;
    let (fixture, follow) = start(folder.clone(), &text).await;
    push(&text, "a", &pass("two", "10.2.0.0/16")).await;
    fixture.until(|status| status.generation == 2).await;
    let kept = folder.join("sets/a.json");
    while !fs::read_to_string(&kept).is_ok_and(|text| text.contains("two")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    follow.abort();
    fs::remove_dir_all(folder.join("a")).unwrap();
    let [copy, another] = [super::folder(), super::folder()];
    for folder in [&copy, &another] {
        fs::create_dir(folder.join("sets")).unwrap();
        fs::copy(&kept, folder.join("sets/a.json")).unwrap();
    }
    drop(fixture);

    let (fixture, follow) = start(copy, &text).await;
    assert_eq!(fixture.policies().await, ["two"]);
    let faulty = fixture.source("a", |source| source.error.is_some()).await;
    assert!(faulty.failing_s.is_some() && faulty.help.is_some(), "{faulty:?}");
    follow.abort();
    let other = text.replace("/a\"", "/b\"");
    let (fixture, follow) = start(another, &other).await;
    assert_eq!(fixture.policies().await, [""; 0]);
    follow.abort();
}

/// Catches: a commit of a source with `apply = "manual"` that the agent applies by itself; an
/// unconfirmed commit that stays in force, or that is applied again after its rollback.
#[tokio::test]
async fn a_manual_source_waits_for_an_operator() {
    let folder = folder_with(&["a"]);
    let text = with_sources(&folder, &["a"], "apply = \"manual\"\n");
    push(&text, "a", &pass("one", "10.1.0.0/16")).await;
    let (fixture, follow) = start(folder, &text).await;
    fixture.source("a", |source| source.state == "waits").await;
    assert_eq!(fixture.policies().await, [""; 0]);
    let plan: Plan = fixture.post("/v1/sources/a/plan", json!({})).await.unwrap();
    assert_eq!(plan.changes.len(), 1, "{:?}", plan.changes);
    let confirm = OfSource { confirm_ms: Some(50) };
    let _: Applied = fixture.post("/v1/sources/a/apply", confirm).await.unwrap();
    assert_eq!(fixture.policies().await, ["one"]);
    fixture.until(|status| status.unconfirmed_ms.is_none()).await;
    assert_eq!(fixture.policies().await, [""; 0]);
    let _: Applied = fixture.post("/v1/sources/a/apply", OfSource::default()).await.unwrap();
    fixture.source("a", |source| source.state == "in force").await;
    assert_eq!(
        code(fixture.post::<Plan>("/v1/sources/none/plan", json!({})).await),
        Code::UnknownName
    );
    follow.abort();
}

/// Catches: a source of the previous policy file that is still followed, or whose set stays in
/// force; a class change made at run time that is lost when another source commits.
#[tokio::test]
async fn the_policy_file_adds_and_removes_sources() {
    let folder = folder_with(&["a", "b"]);
    let rated = |text: String| {
        text.replacen(NOTHING, &format!("{NOTHING}rate = {{ up = \"10 Mbit/s\" }}\n"), 1)
    };
    let one = rated(with_sources(&folder, &["a"], "")) + "[[class]]\nname = \"c\"\nweight = 2\n";
    let both =
        rated(with_sources(&folder, &["a", "b"], "")) + "[[class]]\nname = \"c\"\nweight = 2\n";
    push(&both, "a", &pass("one", "10.1.0.0/16")).await;
    push(&both, "b", &pass("two", "10.2.0.0/16")).await;
    let (fixture, follow) = start(folder, &one).await;
    assert_eq!(fixture.policies().await, ["one"]);
    let changes = fixture.plan(&both).await;
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(
        changes[0].starts_with("+ source b: apply auto; commit marker; kind directory"),
        "{changes:?}"
    );
    fixture.apply(&both, None).await.unwrap();
    fixture.source("b", |source| source.state == "in force").await;
    assert_eq!(fixture.policies().await, ["one", "two"]);

    fixture.change("c", json!({ "weight": 7 })).await.unwrap();
    push(&both, "b", &pass("three", "10.3.0.0/16")).await;
    fixture.source("b", |source| source.revision == source.newest).await;
    while fixture.policies().await != ["one", "three"] {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let weight = fixture.daemon.installed().await.running().classes.classes()[0].weight;
    assert_eq!(weight, 7);

    fixture.apply(NOTHING, None).await.unwrap();
    assert_eq!(fixture.policies().await, [""; 0]);
    let none: Sources = fixture.get("/v1/sources").await;
    assert!(none.sources.is_empty(), "{none:?}");
    follow.abort();
}
