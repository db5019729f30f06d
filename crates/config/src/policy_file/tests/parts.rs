//! Tests of policy sets in several parts, and of the sources of a policy file.

use std::path::PathBuf;
use std::time::Duration;

use super::{PORTS, messages, parsed};
use crate::policy_file::{Head, parse_parts};
use crate::source::{Access, Apply, Commit, SourceKind, SourceSpec};
use crate::{Item, Part, items};
use tidegate_core::Bytes;

fn part(origin: &str, text: &str) -> Part {
    Part { origin: origin.to_owned(), text: text.to_owned() }
}

fn policy(name: &str) -> String {
    format!("[[policy]]\nname = \"{name}\"\naction = \"pass\"\n")
}

/// Catches: parts that replace each other; parts in the wrong order; a part that is left out.
#[test]
fn the_items_of_all_parts_are_one_set() {
    let file = format!("{PORTS}rate = {{ up = \"1 Mbit/s\" }}\n{}", policy("a"));
    let class = "[[class]]\nname = \"c\"\n";
    let parts = [part("one", &format!("{class}{}", policy("b"))), part("two", &policy("c"))];
    let (config, found) = parse_parts("main.toml", &file, |_| parts.to_vec(), None);
    let config = config.unwrap_or_else(|| panic!("{}", found.render(false)));
    let names: Vec<_> = config.policies.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let whole = format!("{file}{class}{}{}", policy("b"), policy("c"));
    assert_eq!(config, parsed(&whole));
}

/// Catches: line numbers that continue from the first part; findings that are all reported for the
/// first part; a related position without the name of its part.
#[test]
fn a_finding_names_its_part_and_the_part_of_the_related_position() {
    let file = format!("{PORTS}{}", policy("web"));
    let parts = [part("etcd lab /tidegate/policy/web", &format!("\n{}", policy("web")))];
    let (config, found) = parse_parts("main.toml", &file, |_| parts.to_vec(), None);
    assert!(config.is_none());
    let (_, said, _) = found.summary().unwrap();
    let place = "etcd lab /tidegate/policy/web:3:8";
    assert_eq!(
        said,
        format!("{place}: two policies are named `web` (the first one: main.toml:5:8)")
    );
    let data = serde_json::to_value(found.data()).unwrap();
    assert_eq!(data[0]["file"], "etcd lab /tidegate/policy/web");
    assert_eq!((&data[0]["line"], &data[0]["field"]), (&3.into(), &"policy[0].name".into()));
    let shown = found.render(false);
    assert!(shown.contains("--> etcd lab /tidegate/policy/web:3:8"), "{shown}");
    assert!(shown.contains("main.toml:5:8"), "{shown}");
}

/// Catches: the first lines of a part read as fields of the previous part's last table; a part that
/// changes the settings of the gateway.
#[test]
fn a_part_contains_only_policies_classes_and_trunks() {
    let gateway = part("evil", "[gateway]\nrate = { up = \"1 bit/s\" }\n");
    let loose = part("loose", "mode = \"observe\"\n");
    let single = part("single", "[policy]\nname = \"x\"\n");
    let broken = part("broken", "[[policy]\n");
    let file = format!("{PORTS}{}", policy("web"));
    for (part, said) in [
        (gateway, "evil:1:2: `gateway` is only permitted in the policy file itself"),
        (loose, "loose:1:1: `mode` is only permitted in the policy file itself"),
        (single, "single:1:2: `policy` is not a list"),
        (broken, "broken:1:10: not TOML: "),
    ] {
        let (config, found) = parse_parts("main.toml", &file, |_| vec![part], None);
        assert!(config.is_none());
        let summary = found.summary().unwrap().1;
        assert!(summary.starts_with(said), "{summary}");
    }
}

#[test]
fn a_source_has_its_fields_and_its_defaults() {
    let config = parsed(&format!(
        "include = \"policies.d/*.toml\"\n{PORTS}\
         [[source]]\nname = \"files\"\nkind = \"directory\"\npath = \"/etc/p\"\n\
         [[source]]\nname = \"e\"\nkind = \"etcd\"\nurl = [\"https://a:2379\", \"http://b\"]\nuser = \"u\"\n\
         password_file = \"/p\"\nca = \"/ca\"\ncert = \"/c\"\nkey = \"/k\"\nroles = [\"edge\"]\n\
         apply = \"confirm\"\ncommit = \"each-change\"\npoll = \"5 s\"\nmax_size = \"1 MB\"\nmax_policies = 7\n\
         [[source]]\nname = \"l\"\nkind = \"ldap\"\nurl = \"ldaps://x\"\nbase = \"ou=t,dc=x\"\napply = \"manual\"\n"
    ));
    let [files, etcd, ldap] = &config.sources[..] else { panic!("{:?}", config.sources) };
    assert_eq!(
        files,
        &SourceSpec {
            name: "files".to_owned(),
            kind: SourceKind::Directory { path: PathBuf::from("/etc/p") },
            access: Access::default(),
            roles: Vec::new(),
            apply: Apply::Auto,
            commit: Commit::Marker,
            poll: Duration::from_secs(1),
            max_size: Bytes(64 << 20),
            max_policies: 100_000,
        }
    );
    let urls = vec!["https://a:2379".to_owned(), "http://b".to_owned()];
    assert_eq!(etcd.kind, SourceKind::Etcd { urls, prefix: "/tidegate/".to_owned() });
    assert_eq!((etcd.apply, etcd.commit), (Apply::Confirm, Commit::EachChange));
    assert_eq!(
        (etcd.poll, etcd.max_size, etcd.max_policies),
        (Duration::from_secs(5), Bytes(1_000_000), 7)
    );
    assert_eq!(
        (etcd.access.user.as_deref(), &etcd.roles[..]),
        (Some("u"), &["edge".to_owned()][..])
    );
    assert_eq!(etcd.access.key, Some(PathBuf::from("/k")));
    let (urls, base) = (vec!["ldaps://x".to_owned()], "ou=t,dc=x".to_owned());
    assert_eq!((&ldap.kind, ldap.apply), (&SourceKind::Ldap { urls, base }, Apply::Manual));
    assert_eq!(Head::of("include = [\"a\", \"b\"]\n").includes, ["a", "b"]);
}

/// Catches: an item that still contains its name as a field; items in the wrong order; a text that
/// does not parse to the same item.
#[test]
fn items_of_a_document_make_the_same_document() {
    let text = "[[policy]]\nname = \"a\"\nmatch = { dst = [\"10.0.0.0/8\"] }\n[[class]]\nname = \"c\"\nweight = 2\n";
    let found = items(&part("x", text)).unwrap();
    let names: Vec<_> = found.iter().map(|it| (it.kind.word(), it.name.as_str())).collect();
    assert_eq!(names, [("class", "c"), ("policy", "a")]);
    for item in &found {
        assert_eq!(items(&part("y", &item.text())).unwrap(), [Item::clone(item)]);
    }
    let said = |text| items(&part("x", text)).unwrap_err().summary().unwrap().1;
    assert_eq!(
        said("[[policy]]\n[gateway]\n"),
        "x:1:1: `name` is missing in a policy\nx:2:2: `gateway` is only permitted in the policy file itself"
    );
}

/// Catches: a `push` to a repository that stores a field under its earlier name; a `push` that
/// drops a field written under both names.
#[test]
fn items_have_the_new_names_of_renamed_fields() {
    let fields = |rest: &str| {
        let text = format!("[[policy]]\nname = \"a\"\n{rest}\n");
        items(&part("x", &text)).unwrap().remove(0).fields
    };
    let table = |text: &str| text.parse::<toml::Table>().unwrap();
    assert_eq!(fields("signal = \"postack\""), table("ack_control = \"postack\""));
    let both = "signal = \"tcr\"\nack_control = \"postack\"";
    assert_eq!(fields(both), table(both));
}

messages! {
    a_source_needs_the_address_of_its_repository: r#"[gateway]
lan = "l"
wan = "w"
[[source]]
name = "s"
kind = "ldap"
url = "ldap://x"
"# => r#"
error[TG0066]: a source of kind "ldap" needs `base`
 --> office.toml:4:1
  |
4 | [[source]]
  | ^^^^^^^^^^
  |
  = help: add base = "ou=tidegate,dc=example,dc=net""#;
    a_url_with_a_password_is_not_repeated: r#"[gateway]
lan = "l"
wan = "w"
[[source]]
name = "s"
kind = "etcd"
url = "http://me:secret@x"
"# => r#"
error[TG0066]: this URL does not fit the kind of source
 --> office.toml:4:1
  |
4 | [[source]]
  | ^^^^^^^^^^
  |
  = help: write `user` and `password_file` in place of a user in `url`"#;
    a_user_without_a_password: r#"[gateway]
lan = "l"
wan = "w"
[[source]]
name = "s"
kind = "directory"
path = "policies.d"
user = "u"
"# => r#"
error[TG0066]: `path` is not an absolute path
 --> office.toml:7:8
  |
7 | path = "policies.d"
  |        ^^^^^^^^^^^^
  |
  = help: begin the path with /: the gateway may have another working directory

error[TG0066]: a source of kind "directory" has no `user`
 --> office.toml:8:8
  |
8 | user = "u"
  |        ^^^
  |
  = help: remove it; "directory" has path

error[TG0066]: `user` needs `password_file` beside it
 --> office.toml:8:8
  |
8 | user = "u"
  |        ^^^
  |
  = help: add `password_file`, or remove `user`"#;
}
