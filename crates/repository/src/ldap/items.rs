//! Writes policies, classes and trunks as LDAP entries, and reads them back.
//!
//! An item is one entry with one of these object classes: a `pcimRuleInstance` with
//! [`POLICY_CLASS`], a [`CLASS_CLASS`] or a [`TRUNK_CLASS`]. The filter of a policy is an entry
//! below the policy's entry. The table in `attributes.rs` maps each field to its attribute.
//!
//! Source: RFC 3703, sections 4.4 and 5.3.

use std::collections::BTreeSet;

use tidegate_config::{Item, ItemKind};
use toml::{Table, Value};

use super::attributes::{CLASS_CLASS, FIELDS, POLICY_CLASS, TRUNK_CLASS, fields};
use super::entry::{Entry, key, parent};
use super::index::Index;
use super::{conditions, filter, standard, value, zos};
use crate::{Fault, FaultKind};

/// The items in `entries`, each with the name of its entry, sorted by these names.
pub(super) fn read(entries: Vec<Entry>) -> Result<Vec<(String, Item)>, Fault> {
    let index = Index::new(entries);
    let mut items = Vec::new();
    for entry in index.all() {
        if let Some(item) = item(entry, &index)? {
            items.push((entry.dn.clone(), item));
        }
    }
    Ok(items)
}

/// The kind of the item in `entry`, or `None` if `entry` is no item.
pub(super) fn kind(entry: &Entry) -> Option<ItemKind> {
    if RULE_CLASSES.iter().any(|class| entry.is_a(class)) || entry.is_a(zos::RULE_CLASS) {
        Some(ItemKind::Policy)
    } else if entry.is_a(CLASS_CLASS) {
        Some(ItemKind::Class)
    } else {
        entry.is_a(TRUNK_CLASS).then_some(ItemKind::Trunk)
    }
}

fn item(entry: &Entry, index: &Index) -> Result<Option<Item>, Fault> {
    let Some(kind) = kind(entry) else { return Ok(None) };
    if entry.is_a(zos::RULE_CLASS) {
        return zos::read(entry, index).map(Some);
    }
    if entry.has(VALIDITY) {
        return Err(entry.malformed(VALIDITY, "is given; time periods are not supported"));
    }
    let mut fields = own_fields(kind, entry)?;
    if kind == ItemKind::Policy {
        for action in actions(entry, index)? {
            merge(&mut fields, own_fields(kind, action)?, action)?;
        }
        let mut matched = conditions::read(entry, index)?;
        match fields.remove(MATCH) {
            Some(Value::Table(own)) if !own.is_empty() => merge(&mut matched, own, entry)?,
            // The value of `match` is not a table of filter fields, so it is kept unchanged.
            Some(other) => {
                merge(&mut fields, Table::from_iter([(MATCH.to_owned(), other)]), entry)?
            }
            None => {}
        }
        if !matched.is_empty() {
            merge(
                &mut fields,
                Table::from_iter([(MATCH.to_owned(), Value::Table(matched))]),
                entry,
            )?;
        }
    }
    if !standard::read(kind, entry, &mut fields)? {
        return Ok(None);
    }
    Ok(Some(Item { kind, name: name(entry)?, fields }))
}

/// The action entries of a rule. A policy has one action, so a rule with several is refused.
fn actions<'a>(rule: &Entry, index: &'a Index) -> Result<Vec<&'a Entry>, Fault> {
    let mut found = Vec::new();
    for dn in rule.texts(ACTIONS)? {
        let association = index.named(rule, ACTIONS, dn)?;
        found.push(match association.text(REUSABLE_ACTION)? {
            Some(dn) => index.named(association, REUSABLE_ACTION, dn)?,
            None => association,
        });
    }
    match found.len() {
        0 | 1 => Ok(found),
        _ => Err(rule.malformed(ACTIONS, "names several actions; a policy has one")),
    }
}

/// The name of an item: `pcimRuleName` if the entry has it, otherwise `cn`.
fn name(entry: &Entry) -> Result<String, Fault> {
    let name = match entry.text(RULE_NAME)? {
        Some(name) => Some(name),
        None => entry.text(NAME)?,
    };
    name.map(str::to_owned).ok_or_else(|| entry.malformed(NAME, "is missing"))
}

/// The fields of an item of `kind` that `entry` holds in our own attributes (`tg...`).
fn own_fields(kind: ItemKind, entry: &Entry) -> Result<Table, Fault> {
    let mut read = Table::new();
    for field in fields(kind) {
        let Some(text) = entry.text(&field.attribute)? else { continue };
        let value = value::parse(text);
        match field.in_table() {
            None => {
                read.insert(field.path.to_owned(), value);
            }
            Some((table, name)) => {
                let inner = read.entry(table).or_insert_with(|| Value::Table(Table::new()));
                let Value::Table(inner) = inner else {
                    return Err(entry.malformed(
                        &field.attribute,
                        "is given together with another attribute for the whole table",
                    ));
                };
                if inner.insert(name.to_owned(), value).is_some() {
                    return Err(entry.malformed(
                        &field.attribute,
                        "is given together with another attribute for the whole table",
                    ));
                }
            }
        }
    }
    Ok(read)
}

/// Adds `more` to `fields`. Fails if both contain the same field.
fn merge(fields: &mut Table, more: Table, entry: &Entry) -> Result<(), Fault> {
    for (name, value) in more {
        if fields.insert(name.clone(), value).is_some() {
            let message = format!("{}: `{name}` is given twice", entry.dn);
            return Err(Fault::new(FaultKind::Malformed, message));
        }
    }
    Ok(())
}

/// The entries for `items` below `base`, parents before children.
pub(super) fn write(items: &[Item], base: &str) -> Result<Vec<Entry>, Fault> {
    let mut entries: Vec<Entry> = Vec::new();
    for kind in ItemKind::ALL {
        if items.iter().any(|item| item.kind == kind) {
            entries.push(container(kind, base));
        }
    }
    let mut names: Vec<_> =
        items.iter().map(|item| (item.kind, item.name.to_lowercase(), &item.name)).collect();
    names.sort_unstable();
    if let Some([one, other]) =
        names.array_windows::<2>().find(|[one, other]| (one.0, &one.1) == (other.0, &other.1))
    {
        let message = format!("the names `{}` and `{}` differ in case only", one.2, other.2);
        return Err(Fault::new(FaultKind::Unusable, message)
            .help("rename one of them; a directory compares names without case"));
    }
    for item in items {
        entries.extend(write_item(item, base)?);
    }
    Ok(entries)
}

/// The entry that contains all items of `kind`.
fn container(kind: ItemKind, base: &str) -> Entry {
    let mut entry = Entry::new(format!("ou={},{base}", plural(kind)), &["organizationalUnit"]);
    entry.add("ou", plural(kind));
    entry
}

fn write_item(item: &Item, base: &str) -> Result<Vec<Entry>, Fault> {
    let name = ldap3::dn_escape(&*item.name);
    let dn = format!("cn={name},ou={},{base}", plural(item.kind));
    let mut entry = Entry::new(dn.clone(), classes(item.kind));
    entry.add(NAME, item.name.as_str());
    let mut rest = item.fields.clone();
    standard::write(item.kind, &mut rest, &mut entry);
    let mut filtered = None;
    if item.kind == ItemKind::Policy
        && let Some(Value::Table(matched)) = rest.get_mut("match")
        && !matched.is_empty()
        && matched.keys().all(|name| has_attribute(ItemKind::Policy, &format!("match.{name}")))
    {
        let mut below = Entry::new(format!("cn={FILTER_NAME},{dn}"), &[filter::FILTER_CLASS]);
        below.add(NAME, FILTER_NAME);
        let used = filter::write(matched, &mut entry, &mut below);
        if used {
            entry.add(filter::LIST, below.dn.as_str());
            filtered = Some(below);
        }
        if used || entry.has(filter::DIRECTION) {
            entry.add("objectClass", filter::LIST_CLASS);
        }
        if matched.is_empty() {
            rest.remove("match");
        }
    }
    write_own(item, &rest, &mut entry)?;
    Ok([Some(entry), filtered].into_iter().flatten().collect())
}

/// Writes the fields in `rest` into our own attributes.
fn write_own(item: &Item, rest: &Table, entry: &mut Entry) -> Result<(), Fault> {
    for (name, whole) in rest {
        let parts = whole.as_table().filter(|table| !table.is_empty());
        let path = |inner: &str| format!("{name}.{inner}");
        let split =
            parts.filter(|parts| parts.keys().all(|inner| has_attribute(item.kind, &path(inner))));
        match split {
            Some(parts) => {
                for (inner, part) in parts {
                    entry.add(attribute(item, &path(inner))?, value::text(part));
                }
            }
            None => entry.add(attribute(item, name)?, value::text(whole)),
        }
    }
    Ok(())
}

fn has_attribute(kind: ItemKind, path: &str) -> bool {
    fields(kind).any(|field| field.path == path)
}

fn attribute(item: &Item, path: &str) -> Result<&'static str, Fault> {
    let found = FIELDS.iter().find(|field| field.kinds.contains(&item.kind) && field.path == path);
    found.map(|field| &*field.attribute).ok_or_else(|| {
        let message =
            format!("{} `{}`: the schema has no attribute for `{path}`", item.kind, item.name);
        Fault::new(FaultKind::Unusable, message)
            .help("remove this field, or keep the policy in a file")
    })
}

const fn plural(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Class => "classes",
        ItemKind::Trunk => "trunks",
        ItemKind::Policy => "policies",
    }
}

const fn classes(kind: ItemKind) -> &'static [&'static str] {
    match kind {
        ItemKind::Class => &[CLASS_CLASS],
        ItemKind::Trunk => &[TRUNK_CLASS],
        ItemKind::Policy => &["pcimRuleInstance", POLICY_CLASS],
    }
}

/// Returns `true` if `entry` only contains other entries.
pub(super) fn is_container(entry: &Entry) -> bool {
    entry.is_a("organizationalUnit")
}

/// Returns `true` if `entry` is an item in `items`, or below such an item. `items` holds names in
/// the form that [`key`] returns.
pub(super) fn belongs_to_items(entry: &Entry, items: &BTreeSet<String>) -> bool {
    let dn = key(&entry.dn);
    std::iter::successors(Some(&*dn), |dn| parent(dn)).any(|dn| items.contains(dn))
}

/// The object classes of policy rules; RFC 3703, section 5.3.
pub(super) const RULE_CLASSES: [&str; 2] = ["pcimRuleInstance", "pcimRuleAuxClass"];
/// The object class of action associations; RFC 3703, section 5.6.
pub(super) const ACTION_CLASS: &str = "pcimRuleActionAssociation";
/// The object class of reusable conditions and actions; RFC 3703, section 5.12.
pub(super) const REUSABLE_CLASS: &str = "pcimPolicyInstance";

/// The field with the filter of a policy.
const MATCH: &str = "match";
const NAME: &str = "cn";
const RULE_NAME: &str = "pcimRuleName";
const VALIDITY: &str = "pcimRuleValidityPeriodList";
const ACTIONS: &str = "pcimRuleActionList";
const REUSABLE_ACTION: &str = "pcimActionDN";
/// The name of the filter entry below a policy.
const FILTER_NAME: &str = "filter";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(text: &str) -> Item {
        Item { kind: ItemKind::Policy, name: "a".to_owned(), fields: toml::from_str(text).unwrap() }
    }

    /// Writes the item and reads it back. As in a directory, equal values are stored once, and
    /// values have no order.
    fn back(item: &Item) -> Item {
        let mut entries = write(std::slice::from_ref(item), "ou=x").unwrap();
        for values in entries.iter_mut().flat_map(|entry| entry.attributes.values_mut()) {
            values.sort_unstable_by(|one, other| other.cmp(one));
            values.dedup();
        }
        let mut items = read(entries).unwrap();
        assert_eq!(items.len(), 1);
        items.remove(0).1
    }

    #[test]
    fn a_simple_match_uses_standard_attributes_only() {
        let item = policy(
            "match = { src = \"10.0.0.0/8\", dst = \"10.1.0.1\", dst_port = 80, protocol = \"tcp\", dscp = [\"AF11\", \"EF\"], direction = \"up\" }\naction = \"pass\"",
        );
        let entries = write(std::slice::from_ref(&item), "ou=x").unwrap();
        let [_, rule, filter] = &entries[..] else { panic!("{entries:?}") };
        assert!(!rule.attributes.keys().any(|name| name.starts_with("tgmatch")), "{rule:?}");
        assert_eq!(filter.values("pcelsIPHdrSourceMask"), [vec![255, 0, 0, 0]]);
        assert_eq!(filter.values("pcelsIPHdrDSCPList"), [b"10".to_vec(), b"46".to_vec()]);
        assert_eq!(rule.values("pcelsFilterDirection"), [b"2".to_vec()]);
        assert_eq!(back(&item), item);
    }

    /// Catches: an attribute that earlier versions wrote, and that is not read any more.
    #[test]
    fn an_entry_with_an_earlier_name_of_a_field_is_read() {
        let item = policy("signal = \"postack\"");
        let entries = write(std::slice::from_ref(&item), "ou=x").unwrap();
        assert!(entries.iter().any(|entry| entry.has("tgSignal")), "{entries:?}");
        assert_eq!(back(&item), item);
    }

    #[test]
    fn a_field_without_an_attribute_is_refused() {
        let fault = write(&[policy("new_field = 1")], "ou=x").unwrap_err();
        assert!(fault.message.contains("new_field"), "{fault}");
    }

    #[test]
    fn names_that_differ_in_case_are_refused() {
        let mut other = policy("");
        other.name = "A".to_owned();
        let fault = write(&[policy(""), other], "ou=x").unwrap_err();
        assert!(fault.message.contains("`A` and `a`"), "{fault}");
    }

    fn scalars() -> impl Strategy<Value = Value> {
        prop_oneof![
            "(10.0.0.0/8|10.0.0.1|::1|10.0.0.1-10.0.0.9|2001:db8::/32|10.0.0.1/8|tcp|TCP|EF|ef|80-90|up|none| )"
                .prop_map(Value::String),
            (-1_i64..70_000).prop_map(Value::Integer),
        ]
    }

    fn matches() -> impl Strategy<Value = Value> {
        let value = prop_oneof![3 => scalars(), 1 => prop::collection::vec(scalars(), 0..3).prop_map(Value::Array)];
        let name = prop::sample::select(
            &[
                "src",
                "dst",
                "src_port",
                "dst_port",
                "protocol",
                "dscp",
                "vlan",
                "direction",
                "inner",
            ][..],
        );
        prop::collection::btree_map(name, value, 0..6).prop_map(|map| {
            Value::Table(map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        })
    }

    proptest! {
        /// Catches: a value in a standard attribute that cannot reproduce it, such as `TCP` in
        /// capitals or a list of one element.
        #[test]
        fn every_match_is_read_back_unchanged(matched in matches(), roles in prop::collection::vec("(a|B|b|c&&d|)", 0..3), priority in -2_i64..2) {
            let mut item = policy("mark = { in = 10 }\nprofile = {}");
            item.fields.insert("match".to_owned(), matched);
            item.fields.insert("priority".to_owned(), Value::Integer(priority));
            item.fields.insert("roles".to_owned(), Value::Array(roles.into_iter().map(Value::String).collect()));
            prop_assert_eq!(back(&item), item);
        }
    }
}
