//! Tests of the canonical text of a set.

use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tidegate_core::scheduler::{SchedulerSpec, Term};

use super::*;
use crate::item::{Item, ItemKind, Part, items};
use crate::testing::{document, gateway, item_sets, respelled};

fn text(items: &[Item]) -> String {
    of_text(&document(items))
}

fn of_text(text: &str) -> String {
    let part = Part { origin: "set.toml".to_owned(), text: text.to_owned() };
    canonical(&[part]).unwrap_or_else(|found| panic!("{}\n{text}", found.render(false)))
}

/// The configuration that `items` compile to, in the order of their names.
fn compiled(items: &[Item]) -> Config {
    let mut items: Vec<_> = items.to_vec();
    items.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    items.iter_mut().for_each(|item| drop(item.fields.remove("roles")));
    parsed(&(gateway(&items) + &document(&items)))
}

/// The items of a canonical text.
fn items_of(text: &str) -> Vec<Item> {
    let part = Part { origin: "canonical".to_owned(), text: text.to_owned() };
    items(&part).unwrap_or_else(|found| panic!("{}", found.render(false)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Catches: a field that the canonical text omits or changes; a wrong conversion of a unit; the
    /// values of a filter in the order of the file; a mechanism that loses a parameter.
    #[test]
    fn canonical_text_has_the_same_meaning_in_every_spelling(
        set in item_sets(), one in any::<u64>(), other in any::<u64>(),
    ) {
        let canonical = text(&set);
        prop_assert_eq!(&text(&respelled(&set, one)), &canonical);
        prop_assert_eq!(&of_text(&canonical), &canonical);
        let meaning = compiled(&set);
        prop_assert_eq!(&compiled(&respelled(&set, other)), &meaning);
        prop_assert_eq!(&compiled(&items_of(&canonical)), &meaning);
    }

    /// Catches: a canonical text that leaves out a field or an item.
    #[test]
    fn a_set_without_one_of_its_fields_has_another_canonical_text(
        set in item_sets(), at in any::<prop::sample::Index>(), field in any::<prop::sample::Index>(),
    ) {
        prop_assume!(!set.is_empty());
        let mut fewer = set.clone();
        let item = &mut fewer[at.index(set.len())];
        let optional = |key: &&String| !["local", "peer", "action"].contains(&key.as_str());
        let keys: Vec<_> = item.fields.keys().filter(optional).cloned().collect();
        prop_assume!(!keys.is_empty());
        item.fields.remove(&keys[field.index(keys.len())]);
        prop_assert_ne!(text(&fewer), text(&set));
        fewer.remove(at.index(set.len()));
        prop_assert_ne!(text(&fewer), text(&set));
    }
}

/// Catches: a term of classes that the random sets, and so the round trips, do not contain.
#[test]
fn random_sets_contain_all_terms_of_classes() {
    let mut runner = TestRunner::deterministic();
    let sets: Vec<_> =
        (0..SETS).map(|_| item_sets().new_tree(&mut runner).unwrap().current()).collect();
    let classes: Vec<_> =
        sets.iter().flatten().filter(|item| item.kind == ItemKind::Class).collect();
    for term in SchedulerSpec::all_terms().filter(|term| *term != Term::MARKING) {
        let with = classes.iter().filter(|class| class.fields.contains_key(term.name()));
        assert!(with.count() > 0, "no class has `{}`", term.name());
    }
}

/// Number of random sets in the round trips over a directory.
const SETS: usize = 24;

/// Catches: a text with tables other than policies, classes and trunks; items in the order of the
/// file.
#[test]
fn canonical_text_is_sorted_and_in_base_units() {
    let file = r#"
[gateway]
lan = "eth1"
wan = "eth0"

[[policy]]
name = "web"
roles = ["edge", "core", "edge"]
match = { dst_port = [443, "80", "8000 - 8080"], protocol = ["tcp"], dst = "2001:DB8::/32" }
action = "shape"
profile = { mean = "1.5 Mbit/s", burst = "64 KiB" }
queue = { kind = "fq-codel", target = "7 ms" }
priority = 0x10

[[policy]]
name = "all"
action = "police-mark"
profile = { mean = "2 Gbit/s" }
mark = { out = "AF12" }
match = {}

[[class]]
name = "k"
guarantee = { up = "1 Mbit/s", down = "1000 kbit/s" }
loss_bound = "0.50 %"
"#;
    let expected = r#"[[class]]
name = "k"
guarantee = "1000000 bit/s"
loss_bound = "0.5 %"

[[policy]]
name = "all"
action = "police-mark"
mark = { out = 12 }
profile = { mean = "2000000000 bit/s" }

[[policy]]
name = "web"
action = "shape"
match = { dst = "2001:db8::/32", dst_port = [80, 443, "8000-8080"], protocol = 6 }
priority = 16
profile = { burst = "65536 B", mean = "1500000 bit/s" }
queue = { kind = "fq-codel", target = "7000000 ns" }
roles = ["core", "edge"]
"#;
    assert_eq!(of_text(file), expected);
}

/// Catches: items that are sorted only within each part of a set.
#[test]
fn canonical_text_does_not_depend_on_the_parts() {
    let item = |name: &str| {
        let fields = toml::Table::from_iter([("action".to_owned(), "pass".into())]);
        Item { kind: ItemKind::Policy, name: name.to_owned(), fields }
    };
    let part = |items: &[Item]| Part { origin: "part".to_owned(), text: document(items) };
    let apart = canonical(&[part(&[item("b")]), part(&[item("c"), item("a")])]).unwrap();
    assert_eq!(apart, text(&[item("a"), item("b"), item("c")]));
}

/// Catches: a canonical text that is returned although a value is invalid.
#[test]
fn a_set_with_a_wrong_value_has_no_canonical_text() {
    for wrong in [
        "action = \"pass\"\nmatch = { dst_port = \"http\" }",
        "action = \"pass\"\nwidth = 3",
        "action = \"shape\"\nprofile = { mean = \"3 Mbps\" }",
        "action = \"police-mark\"\nprofile = { mean = \"3 Mbit/s\" }\nmark = { out = \"loud\" }",
        "action = \"pass\"\nroles = \"edge\"",
    ] {
        let text = format!("[[policy]]\nname = \"a\"\n{wrong}\n");
        let found = canonical(&[Part { origin: "key".to_owned(), text }]).unwrap_err();
        assert!(found.has_errors() && found.render(false).contains("key:"), "{wrong}");
    }
    let text = "[[policy]\n".to_owned();
    assert!(canonical(&[Part { origin: "key".to_owned(), text }]).is_err());
}
