//! Tests the LDAP repository against a real server, `slapd`.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod certificates;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod foreign;
mod page;
mod same_set;
mod server;
mod sets;
mod watching;

use tidegate_config::{Item, Part, items};
use tidegate_repository::Snapshot;

/// Runs `work` on a runtime like the daemon's.
fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work)
}

/// The items in `text`, a policy file with no other tables.
fn parse(text: &str) -> Vec<Item> {
    let part = Part { origin: "test".to_owned(), text: text.to_owned() };
    items(&part).unwrap_or_else(|findings| panic!("{findings:?}"))
}

/// The items of `snapshot`, sorted.
fn sorted(snapshot: &Snapshot) -> Vec<Item> {
    let items = snapshot.parts.iter().flat_map(|part| items(part).unwrap());
    order(items.collect())
}

fn order(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
    items
}
