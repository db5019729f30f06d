//! Tests pushes to etcd. A push replaces the whole set of policies, and writes the *marker* last,
//! the key that commits the set. If a push is interrupted, the old set must stay committed.

use std::collections::BTreeMap;

use proptest::collection::btree_map;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tidegate_config::source::SourceKind;
use tidegate_config::{Item, ItemKind};
use tidegate_core::Bytes;
use tidegate_repository::{FaultKind, open};
use toml::{Table, Value};

use crate::hostile::{cutting_proxy, deleting_proxy};
use crate::real::Etcd;
use crate::testing::{fault, held, policy, sort, source, spec};

fn set(first: i64, count: i64) -> Vec<Item> {
    let mut set: Vec<_> = (first..first + count).map(|n| policy(&format!("p{n}"), first)).collect();
    sort(&mut set);
    set
}

/// The push deletes 512 items and writes 1,024, in 12 full transactions. One more transaction
/// writes the marker.
///
/// Catches: the marker written before the items; keys of the old set that stay; a set read at the
/// newest revision instead of the marker's revision.
#[tokio::test]
async fn readers_during_a_large_push_get_the_old_set_or_the_new() {
    let Some(server) = Etcd::start().await else { return };
    let source = source(&server.url());
    let (old, new) = (set(0, 1024), set(512, 1024));
    source.push(old.clone()).await.unwrap();
    let before = source.pull().await.unwrap();
    assert_eq!(held(&before), old);
    let push = source.push(new.clone());
    let reads = async {
        let mut reads = Vec::new();
        loop {
            reads.push(source.pull().await.unwrap());
            if reads.last() != Some(&before) {
                return reads;
            }
        }
    };
    let (revision, reads) = tokio::join!(push, reads);
    let (after, during) = reads.split_last().unwrap();
    assert_eq!((held(after), &after.revision), (new, &revision.unwrap()));
    assert!(during.iter().all(|read| *read == before));
    assert!(server.get("/t/push").await.is_none());
}

/// Catches: a push without a lock; transactions that do not check the lock.
#[tokio::test]
async fn after_an_interrupted_push_the_old_set_is_committed_and_the_lock_expires() {
    let Some(server) = Etcd::start().await else { return };
    let direct = source(&server.url());
    direct.push(set(0, 10)).await.unwrap();
    let before = direct.pull().await.unwrap();
    // The limit has room for the lock, the list of keys, and one transaction of 128 operations.
    let cut = source(&cutting_proxy(server.port(), 30_000, usize::MAX).await);
    fault(cut.push(set(100, 1000)).await, FaultKind::Unreachable);
    assert!(server.get("/t/policy/p100").await.is_some(), "nothing was written before the cut");
    assert_eq!(direct.pull().await.unwrap(), before);
    let locked = fault(direct.push(set(0, 5)).await, FaultKind::Unsteady);
    assert!(locked.message.contains("`/t/push`"), "{locked}");
    server.delete("/t/push").await;
    direct.push(set(0, 5)).await.unwrap();
    assert_eq!(held(&direct.pull().await.unwrap()), set(0, 5));
    assert!(server.get("/t/policy/p100").await.is_none());
}

#[tokio::test]
async fn a_push_continues_at_the_next_member_with_its_lock() {
    let Some(server) = Etcd::start().await else { return };
    let cut = cutting_proxy(server.port(), 30_000, usize::MAX).await;
    let source = open(&spec(&[cut, server.url()])).unwrap();
    source.push(set(0, 1000)).await.unwrap();
    assert_eq!(held(&source.pull().await.unwrap()), set(0, 1000));
}

/// Catches: a transaction that succeeds although the push has lost its lock.
#[tokio::test]
async fn a_push_that_lost_its_lock_ends() {
    let Some(server) = Etcd::start().await else { return };
    let direct = source(&server.url());
    direct.push(set(0, 10)).await.unwrap();
    let cut = cutting_proxy(server.port(), 30_000, usize::MAX).await;
    let unlocked = deleting_proxy(server.port(), "/t/push").await;
    let lost = open(&spec(&[cut, unlocked])).unwrap().push(set(100, 1000)).await;
    let lost = fault(lost, FaultKind::Unsteady);
    assert!(lost.message.contains("was lost"), "{lost}");
    assert_eq!(held(&direct.pull().await.unwrap()), set(0, 10));
}

#[tokio::test]
async fn a_set_that_no_gateway_could_read_is_not_pushed() {
    let Some(server) = Etcd::start().await else { return };
    let mut spec = spec(&[server.url()]);
    spec.max_policies = 3;
    spec.max_size = Bytes(400);
    let small = open(&spec).unwrap();
    fault(small.push(set(0, 4)).await, FaultKind::TooLarge);
    let mut long = policy("long", 1);
    long.fields.insert("src".to_owned(), Value::String("x".repeat(400)));
    fault(small.push(vec![long]).await, FaultKind::TooLarge);
    let twice = fault(small.push(vec![policy("a", 1), policy("a", 2)]).await, FaultKind::Malformed);
    assert!(twice.message.contains("policy `a`"), "{twice}");
    fault(small.push(vec![policy("", 1)]).await, FaultKind::Malformed);
    server.put("/t/polices/web", b"").await;
    let stray = fault(small.push(set(0, 1)).await, FaultKind::Malformed);
    assert!(stray.message.contains("`/t/polices/web`"), "{stray}");
    assert!(server.get("/t/commit").await.is_none());
}

/// One value has 1.2 MB and fits into no transaction with others. Thirty values have 200 kB each,
/// together more than gRPC passes on by default.
#[tokio::test]
async fn large_values_are_pushed_and_pulled() {
    let Some(server) = Etcd::start().await else { return };
    let source = source(&server.url());
    let mut items = set(0, 31);
    for (n, item) in items.iter_mut().enumerate() {
        let size = if n == 7 { 1_200_000 } else { 200_000 };
        item.fields.insert("src".to_owned(), Value::String("x".repeat(size)));
    }
    source.push(items.clone()).await.unwrap();
    assert!(held(&source.pull().await.unwrap()) == items);
    items[3].fields.insert("src".to_owned(), Value::String("x".repeat(2_000_000)));
    let large = fault(source.push(items).await, FaultKind::TooLarge);
    assert!(large.message.contains("too large"), "{large}");
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::Boolean),
        any::<i64>().prop_map(Value::Integer),
        (-1e9_f64..1e9).prop_map(Value::Float),
        "\\PC{0,20}".prop_map(Value::String),
        "[\"'\\\\\n\t=\\[\\]#]{0,8}".prop_map(Value::String),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map("[a-z_]{1,8}", inner, 0..4)
                .prop_map(|map| Value::Table(map.into_iter().collect::<Table>())),
        ]
    })
}

fn set_of_items() -> impl Strategy<Value = Vec<Item>> {
    let kind = prop::sample::select(ItemKind::ALL.to_vec());
    let fields = btree_map("[a-z]{1,8}|action|match|weights", value(), 0..6);
    btree_map((kind, "[A-Za-z0-9._-]{1,12}"), fields, 0..200).prop_map(|set| {
        let item = |((kind, name), fields): ((ItemKind, String), BTreeMap<String, Value>)| Item {
            kind,
            name,
            // These items have no fields that only whole policy files have. Another test checks
            // that such fields are refused.
            fields: fields
                .into_iter()
                .filter(|(field, _)| {
                    !["name", "gateway", "source", "policy", "class", "trunk"].contains(&&**field)
                })
                .collect(),
        };
        let mut items: Vec<_> = set.into_iter().map(item).collect();
        sort(&mut items);
        items
    })
}

/// Catches: keys of the old set that stay; values quoted wrongly; items of different kinds mixed
/// up; the last page of the answer lost.
#[tokio::test]
async fn any_set_is_pulled_as_it_was_pushed() {
    let Some(server) = Etcd::start().await else { return };
    let mut spec = spec(&[server.url()]);
    spec.kind =
        SourceKind::Etcd { urls: vec![server.url()], prefix: "gateways of site 1: ".to_owned() };
    let source = open(&spec).unwrap();
    let mut runner = TestRunner::deterministic();
    for _ in 0..CASES {
        let items = set_of_items().new_tree(&mut runner).unwrap().current();
        let revision = source.push(items.clone()).await.unwrap();
        let pulled = source.pull().await.unwrap();
        assert_eq!(held(&pulled), items);
        assert_eq!(pulled.revision, revision);
    }
}

/// Number of random cases. There are few, because each pushes up to 200 items.
const CASES: u32 = 12;
