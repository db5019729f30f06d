//! Random sets of policies, classes and trunks that a gateway accepts.

use std::ops::Range;

use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use tidegate_core::scheduler::{SchedulerSpec, Term, TermForm};
use toml::{Table, Value};

use crate::item::{Item, ItemKind};

/// The `[gateway]` table with which the random set `items` is a valid policy file.
#[must_use]
pub fn gateway(items: &[Item]) -> String {
    let classes = || items.iter().filter(|item| item.kind == ItemKind::Class);
    let of_tree = |item: &Item| OF_TREE.iter().any(|field| item.fields.contains_key(*field));
    let scheduler = if classes().any(of_tree) { "class-tree" } else { "jobs" };
    format!(
        "[gateway]\nlan = \"eth1\"\nwan = \"eth0\"\nscheduler = \"{scheduler}\"\n\
         rate = {{ up = \"1 Gbit/s\", down = \"1 Gbit/s\" }}\n\n"
    )
}

/// Fields that classes of the scheduler `jobs` do not have.
const OF_TREE: &[&str] = &["parent", "ceiling", "weight", "burst", "queue"];

/// Random valid sets that use most of the existing fields. Different sets have different meanings. The classes of
/// a set are those of a class tree, or those of the scheduler `jobs`.
///
/// # Panics
///
/// Never: each value is valid TOML.
pub fn item_sets() -> impl Strategy<Value = Vec<Item>> {
    let of_tree = prop::collection::vec((class(), any::<Index>()), 0..4).prop_map(tree);
    let of_jobs = prop::collection::vec((class_of_jobs(), any::<Index>()), 0..4).prop_map(chain);
    let classes = prop_oneof![of_tree, of_jobs];
    let trunks = prop::collection::vec(trunk(), 0..3);
    let policies = prop::collection::vec((policy(), any::<Index>()), 0..6);
    (classes, trunks, policies).prop_map(|(classes, trunks, policies)| {
        let mut items = Vec::new();
        let (class_names, trunk_names) = (names("k", classes.len()), names("trunk", trunks.len()));
        for (fields, name) in classes.into_iter().zip(&class_names) {
            items.push(Item { kind: ItemKind::Class, name: name.clone(), fields });
        }
        for ((at, mut fields), name) in trunks.into_iter().enumerate().zip(&trunk_names) {
            set(&mut fields, "peer", format!("198.51.100.{}", at + 1));
            items.push(Item { kind: ItemKind::Trunk, name: name.clone(), fields });
        }
        for (at, (mut fields, egress)) in policies.into_iter().enumerate() {
            let leaves = class_names.get(1..).unwrap_or_default();
            match egress.index(4) {
                0 if !leaves.is_empty() => {
                    set(&mut fields, "class", leaves[egress.index(leaves.len())].as_str());
                }
                1 if can_use_trunk(&fields) && !trunk_names.is_empty() => {
                    let name = trunk_names[egress.index(trunk_names.len())].as_str();
                    set(&mut fields, "trunk", name);
                }
                _ => {}
            }
            items.push(Item { kind: ItemKind::Policy, name: format!("p.{at}"), fields });
        }
        items
    })
}

fn names(kind: &str, number: usize) -> Vec<String> {
    (0..number).map(|at| format!("{kind}-{at}")).collect()
}

/// Classes of a tree. Class `k-0` may be the parent of others, so no policy names it. Its guarantee is the sum of its
/// children's guarantees.
fn tree(classes: Vec<(Table, Index)>) -> Vec<Table> {
    let class = |(at, (mut fields, parent)): (usize, (Table, Index))| {
        if at == 0 {
            fields.remove("guarantee");
        } else if parent.index(3) == 0 {
            set(&mut fields, "parent", "k-0");
        }
        // A bound in both directions needs a guarantee in both.
        if fields.get("guarantee").is_none_or(|it| !it.is_str()) {
            fields.remove("delay_bound");
        }
        fields
    };
    classes.into_iter().enumerate().map(class).collect()
}

/// Classes of the scheduler `jobs`. A ratio refers to the class before, or to the class `default`.
fn chain(classes: Vec<(Table, Index)>) -> Vec<Table> {
    let class = |(at, (mut fields, of)): (usize, (Table, Index))| {
        let of = match at.checked_sub(1).filter(|_| of.index(3) != 0) {
            Some(before) => format!("k-{before}"),
            None => "default".to_owned(),
        };
        let tables = fields.iter_mut().filter_map(|(_, value)| value.as_table_mut());
        tables.filter(|it| it.contains_key("factor")).for_each(|it| set(it, "of", of.as_str()));
        fields
    };
    classes.into_iter().enumerate().map(class).collect()
}

/// Returns `true` if the policy may use a trunk: it can match packets from the LAN, and has neither
/// a marking nor a queue.
fn can_use_trunk(fields: &Table) -> bool {
    let filter = fields.get("match").and_then(Value::as_table);
    let down = filter.and_then(|it| it.get("direction")).and_then(Value::as_str) == Some("down");
    !down && !fields.contains_key("marking") && !fields.contains_key("queue")
}

fn set(fields: &mut Table, key: &str, value: impl Into<Value>) {
    fields.insert(key.to_owned(), value.into());
}

/// A field that is present with probability 3/5.
fn maybe<S>(key: &'static str, value: S) -> BoxedStrategy<Option<(String, Value)>>
where
    S: Strategy + 'static,
    S::Value: Into<Value>,
{
    weighted(0.6, value.prop_map(move |value| (key.to_owned(), value.into()))).boxed()
}

fn table(fields: Vec<BoxedStrategy<Option<(String, Value)>>>) -> impl Strategy<Value = Table> {
    fields.prop_map(|fields| fields.into_iter().flatten().collect())
}

/// One of `values`, which are in TOML notation.
fn written(values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    select(values).prop_map(|text| {
        let document: Table = toml::from_str(&format!("value = {text}")).expect("valid TOML");
        document["value"].clone()
    })
}

/// One or more of `values`, in their given order.
fn several(values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    subsequence(values, 1..=values.len().min(4)).prop_map(|chosen| {
        let value = |text: &&str| text.parse().map_or_else(|_| (*text).into(), Value::Integer);
        match chosen.as_slice() {
            [one] => value(one),
            more => Value::Array(more.iter().map(value).collect()),
        }
    })
}

fn roles() -> BoxedStrategy<Option<(String, Value)>> {
    let names = subsequence(&["core", "edge", "lab"][..], 1..=2);
    let list = names.prop_map(|names| Value::Array(names.into_iter().map(Value::from).collect()));
    weighted(0.2, list.prop_map(|list| ("roles".to_owned(), list))).boxed()
}

fn class() -> impl Strategy<Value = Table> {
    table(vec![
        maybe("guarantee", each_way("bit/s", RATES)),
        maybe("ceiling", each_way("bit/s", 200_000_000..900_000_000)),
        maybe("weight", 1..=65_535i64),
        maybe("priority", 0..=7i64),
        maybe("burst", quantity("B", 4_000..100_000)),
        maybe("delay_bound", each_way("ns", 5_000_000_000..20_000_000_000)),
        maybe("queue", queue()),
        roles(),
    ])
}

/// A class with terms of the scheduler `jobs`. New terms of this scheduler are included.
fn class_of_jobs() -> impl Strategy<Value = Table> {
    let mut of_each = SchedulerSpec::NAMES.iter().zip(SchedulerSpec::terms_of_each());
    let terms = of_each.find(|(name, _)| **name == "jobs").map_or(&[][..], |(_, terms)| terms);
    let mut fields: Vec<_> = terms.iter().copied().map(any_value).collect();
    fields.push(roles());
    table(fields)
}

/// A random value of `term`, or none.
fn any_value(term: Term) -> BoxedStrategy<Option<(String, Value)>> {
    let name = term.name();
    match (term.form(), term.declaration().each_way) {
        (TermForm::Rate, true) => maybe(name, each_way("bit/s", RATES)),
        (TermForm::Rate, false) => maybe(name, quantity("bit/s", RATES)),
        (TermForm::Duration, true) => maybe(name, each_way("ns", TIMES)),
        (TermForm::Duration, false) => maybe(name, quantity("ns", TIMES)),
        (TermForm::Bytes, _) => maybe(name, quantity("B", 4_000..100_000)),
        (TermForm::Chance, _) => maybe(name, written(&["\"1 %\"", "\"2.5 %\"", "\"0.0000001 %\""])),
        (TermForm::Whole(least, most), _) => maybe(name, i64::from(least)..=i64::from(most)),
        (TermForm::Ratio, _) => {
            maybe(name, written(&["{ factor = 2 }", "{ factor = 0.25 }", "{ factor = 1.5 }"]))
        }
        (TermForm::Other, _) => Just(None).boxed(),
    }
}

/// Guarantees, in bit/s. Those of a few classes leave a part of the link to others.
const RATES: Range<u64> = 1_000_000..20_000_000;

/// Times, in ns. All are longer than the transmission of a packet.
const TIMES: Range<u64> = 1_000_000..900_000_000;

const TWO_TAGS: &[&str] = &[
    "{ outer = 100, inner = 20 }",
    "{ inner = [7, 20, \"30-39\"] }",
    "{ outer = [\"200-299\", 400], inner = \"none\" }",
];

fn trunk() -> impl Strategy<Value = Table> {
    table(vec![
        maybe("next_hop", written(&["\"203.0.113.1\"", "\"02:00:5e:10:00:01\""])),
        maybe("key_file", Just("/etc/tidegate/trunk.key")),
        maybe("port", 1_024..60_000i64),
        maybe("vmss", quantity("B", 600..9_000)),
        maybe("guarantee", quantity("bit/s", 1_000_000..9_000_000)),
        maybe("ceiling", quantity("bit/s", 20_000_000..90_000_000)),
        maybe("queue", queue()),
        maybe("fallback", written(&["\"hold\"", "\"direct\""])),
        maybe("probing", written(&["\"management\"", "\"vegas\""])),
        maybe("weight", written(&["2", "2.5", "\"measured\"", MEASURED])),
        maybe("tcp", written(&["{ profile = \"linux\" }", "{ mss = \"1400 B\" }"])),
        maybe("vlan", 1..=4_094i64),
        roles(),
    ])
    .prop_map(|mut fields| {
        set(&mut fields, "local", "192.0.2.1");
        if fields.get("probing").and_then(Value::as_str) == Some("vegas") {
            fields.remove("tcp");
        }
        fields
    })
}

const MEASURED: &str = "{ kind = \"measured\", samples = 90, every = \"250000000 ns\" }";

fn policy() -> impl Strategy<Value = Table> {
    let of_all = table(vec![
        maybe("priority", -100..100i64),
        maybe("match", filter()),
        maybe("mode", written(&["\"enforce\"", "\"observe\""])),
        roles(),
    ]);
    let of_profile = table(vec![
        maybe("allocation", allocation()),
        maybe("weights", weights()),
        maybe(
            "fair_between",
            written(&["\"flow\"", "\"hosts\"", "\"source-host\"", "{ by = \"hosts\", ipv6 = 56 }"]),
        ),
    ]);
    let of_shape = table(vec![
        maybe("queue", queue()),
        maybe("ack_control", written(&["\"tcr\"", "\"none\"", POSTACK])),
    ]);
    let mark = (weighted(0.5, 0..64i64), 0..64i64);
    (select(ACTIONS), of_all, of_profile, profile(), of_shape, mark).prop_map(
        |(action, mut fields, of_profile, profile, mut of_shape, (within, out))| {
            set(&mut fields, "action", action);
            if action != "pass" {
                set(&mut fields, "profile", profile);
                fields.extend(of_profile);
            }
            if action == "shape" {
                if fields.contains_key("fair_between") {
                    of_shape.remove("ack_control");
                }
                fields.extend(of_shape);
            }
            if action == "police-mark" {
                let mut mark = Table::from_iter([("out".to_owned(), out.into())]);
                mark.extend(within.map(|it| ("in".to_owned(), Value::from(it))));
                set(&mut fields, "mark", mark);
            }
            fields
        },
    )
}

const ACTIONS: &[&str] = &["shape", "police-mark", "police-drop", "pass"];

const POSTACK: &str = "{ kind = \"postack\", max_hold = \"400000000 ns\" }";

fn profile() -> impl Strategy<Value = Table> {
    let mean = quantity("bit/s", 1_000_000..50_000_000);
    let fields = table(vec![
        maybe("peak", quantity("bit/s", 50_000_000..90_000_000)),
        maybe("burst", quantity("B", 20_000..200_000)),
        maybe("max_packet", quantity("B", 576..9_000)),
    ]);
    (mean, fields).prop_map(|(mean, mut fields)| {
        set(&mut fields, "mean", mean);
        fields
    })
}

fn filter() -> impl Strategy<Value = Table> {
    table(vec![
        maybe("src", several(ADDRESSES)),
        maybe("dst", several(ADDRESSES)),
        maybe("src_port", several(&["22", "80", "443", "8000-8080"])),
        maybe("dst_port", several(&["25", "53", "1000-2000", "5001"])),
        maybe("dscp", several(&["0", "10", "46"])),
        maybe("vlan", prop_oneof![several(&["100", "200-299", "none"]), written(TWO_TAGS)]),
        maybe("direction", written(&["\"up\"", "\"down\""])),
        maybe("inner", written(&["true", "false"])),
    ])
    .prop_perturb(|mut filter, mut random| {
        let ports = filter.contains_key("src_port") || filter.contains_key("dst_port");
        match random.random_range(0..4u32) {
            0 => set(&mut filter, "protocol", 6),
            1 => set(&mut filter, "protocol", Value::Array(vec![6.into(), 17.into()])),
            2 if !ports => set(&mut filter, "protocol", 47),
            _ => {}
        }
        // A filter without fields would mean the same as no filter.
        if filter.is_empty() {
            set(&mut filter, "direction", "up");
        }
        filter
    })
}

/// Sorted by their numeric values, as canonical text sorts them.
const ADDRESSES: &[&str] = &[
    "10.0.0.0/8",
    "10.0.0.1",
    "192.0.2.0-192.0.2.2",
    "192.168.7.0/24",
    "2001:db8::/32",
    "2001:db8::1",
];

fn weights() -> impl Strategy<Value = Vec<Value>> {
    let entry = (filter(), 1..=65_535i64).prop_map(|(filter, weight)| {
        let fields = [("match".to_owned(), filter.into()), ("weight".to_owned(), weight.into())];
        Value::Table(Table::from_iter(fields))
    });
    prop::collection::vec(entry, 1..3)
}

fn queue() -> impl Strategy<Value = Value> {
    written(&[
        "\"fq-codel\"",
        "\"codel\"",
        "{ kind = \"fq-codel\", target = \"7000000 ns\" }",
        "{ kind = \"red\", min = \"20000 B\", max = \"60000 B\", max_p = \"2.5 %\" }",
        "{ kind = \"hosts\", quantum = \"600 B\", thin_acks = false }",
        "{ kind = \"drop-tail\", limit = \"90000 B\" }",
    ])
}

fn allocation() -> impl Strategy<Value = Value> {
    written(&["\"fcfs\"", "\"drr\"", "\"lru\"", "\"logical-partitions\"", "\"sequential\""])
}

/// A random quantity in its base unit.
fn quantity(unit: &'static str, range: Range<u64>) -> impl Strategy<Value = String> {
    // Rounds some numbers, so that they can also be written in a larger unit without a fraction.
    let rounded = (range.clone(), select(&[1u64, 1_000, 4_000][..]));
    rounded.prop_map(move |(number, step)| format!("{} {unit}", (number / step * step).max(step)))
}

/// A quantity for both directions, for one direction, or a different quantity for each direction.
fn each_way(unit: &'static str, range: Range<u64>) -> impl Strategy<Value = Value> {
    let one = || quantity(unit, range.clone());
    let way =
        |name: &'static str| move |it| Value::Table(Table::from_iter([(name.to_owned(), it)]));
    prop_oneof![
        one().prop_map(Value::from),
        one().prop_map(Value::from).prop_map(way("up")),
        one().prop_map(Value::from).prop_map(way("down")),
        (one(), one()).prop_filter_map("the same both ways", |(up, down)| {
            let ways =
                [("up".to_owned(), up.clone().into()), ("down".to_owned(), down.clone().into())];
            (up != down).then(|| Value::Table(Table::from_iter(ways)))
        }),
    ]
}
