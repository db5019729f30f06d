//! Translates the conditions of an LDAP policy rule into one `match` table of a policy file.
//!
//! A rule lists filters directly, or in *condition associations*, which are entries that list
//! filters. The associations form a disjunctive normal form (OR of groups of ANDed conditions) or a
//! conjunctive normal form (AND of groups of ORed conditions). A `match` is an AND of fields, each
//! with a list of values. It can express an AND of conditions on different fields, and an OR of
//! conditions that differ in one field. Every other combination is refused with the reason.
//!
//! Source: RFC 3703, sections 5.3 and 5.4; RFC 3060, section 6.3.
//! Differs: a rule that does not state its normal form is disjunctive, the default of RFC 3060.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::entry::{Entry, key};
use super::filter;
use super::index::Index;
use crate::Fault;

/// The fields of the rule's `match`, except the fields in our own attributes (`tg...`).
pub(super) fn read(rule: &Entry, index: &Index) -> Result<Table, Fault> {
    let own = listed(rule, index)?;
    let mut groups: BTreeMap<i64, Vec<Table>> = BTreeMap::new();
    for association in associations(rule, index)? {
        let group = association
            .integer(GROUP)?
            .ok_or_else(|| association.malformed(GROUP, "is missing"))?;
        groups.entry(group).or_default().push(condition(association, index)?);
    }
    let refused = |why: String| rule.malformed(CONDITIONS, &format!("cannot be one policy: {why}"));
    let joined = match rule.integer(LIST_TYPE)? {
        None | Some(DISJUNCTIVE) => {
            let terms: Result<Vec<_>, _> = groups.into_values().map(all_of).collect();
            terms.and_then(any_of)
        }
        Some(CONJUNCTIVE) => {
            let factors: Result<Vec<_>, _> = groups.into_values().map(any_of).collect();
            factors.and_then(all_of)
        }
        Some(_) => return Err(rule.malformed(LIST_TYPE, "is neither 1 nor 2")),
    };
    joined.and_then(|joined| all_of(vec![own, joined])).map_err(refused)
}

/// The condition associations of `rule`. The rule lists them, or they are entries below the rule.
fn associations<'a>(rule: &Entry, index: &'a Index) -> Result<Vec<&'a Entry>, Fault> {
    let mut found: BTreeMap<String, &Entry> = BTreeMap::new();
    for dn in rule.texts(CONDITIONS)? {
        found.insert(key(dn), index.named(rule, CONDITIONS, dn)?);
    }
    for child in index.below(&rule.dn).filter(|child| child.is_a(ASSOCIATION_CLASS)) {
        found.insert(key(&child.dn), child);
    }
    Ok(found.into_values().collect())
}

/// The fields that an association matches, by its own filters or by a condition that several rules
/// share.
fn condition(association: &Entry, index: &Index) -> Result<Table, Fault> {
    if association.boolean(NEGATED)? {
        return Err(association.malformed(NEGATED, "is TRUE; a policy cannot match what is not"));
    }
    let holder = match association.text(REUSABLE)? {
        Some(dn) => index.named(association, REUSABLE, dn)?,
        None => association,
    };
    if !holder.is_a(filter::LIST_CLASS) {
        return Err(holder.malformed(
            "objectClass",
            "is no condition that is supported; write pcelsFilterListAuxClass",
        ));
    }
    listed(holder, index)
}

/// The fields that the filters listed by `holder` match.
fn listed(holder: &Entry, index: &Index) -> Result<Table, Fault> {
    let mut filters = Vec::new();
    for dn in holder.texts(filter::LIST)? {
        filters.push(filter::read(index.named(holder, filter::LIST, dn)?)?);
    }
    if let Some(direction) = filter::read_direction(holder)? {
        filters.push(Table::from_iter([("direction".to_owned(), direction)]));
    }
    all_of(filters).map_err(|why| holder.malformed(filter::LIST, &why))
}

/// A table that matches a packet if all of `tables` match it.
fn all_of(tables: Vec<Table>) -> Result<Table, String> {
    let mut all = Table::new();
    for (name, value) in tables.into_iter().flatten() {
        match all.get(&name) {
            None => {
                all.insert(name, value);
            }
            Some(before) if *before == value => {}
            Some(_) => return Err(format!("two conditions on `{name}` have to hold at once")),
        }
    }
    Ok(all)
}

/// A table that matches a packet if any of `tables` matches it.
fn any_of(tables: Vec<Table>) -> Result<Table, String> {
    let mut tables = tables.into_iter();
    let Some(mut any) = tables.next() else { return Ok(Table::new()) };
    for table in tables {
        let same = any.len() == table.len() && any.keys().all(|name| table.contains_key(name));
        let differing: Vec<_> =
            any.keys().filter(|name| any.get(*name) != table.get(*name)).cloned().collect();
        match &differing[..] {
            [] if same => {}
            [name] if same => join(&mut any, name, &table),
            _ => return Err("its alternatives differ in more than one field".to_owned()),
        }
    }
    Ok(any)
}

/// Adds the values of field `name` in `table` to the values of this field in `joined`. If the field
/// is `direction`, removes the field instead, because both directions together are all packets.
fn join(joined: &mut Table, name: &str, table: &Table) {
    let values = |table: &Table| match table.get(name) {
        Some(Value::Array(list)) => list.clone(),
        Some(value) => vec![value.clone()],
        None => Vec::new(),
    };
    if name == "direction" {
        joined.remove(name);
        return;
    }
    let mut list = values(joined);
    for value in values(table) {
        if !list.contains(&value) {
            list.push(value);
        }
    }
    joined.insert(name.to_owned(), Value::Array(list));
}

/// The object class of condition associations.
pub(super) const ASSOCIATION_CLASS: &str = "pcimRuleConditionAssociation";

const LIST_TYPE: &str = "pcimRuleConditionListType";
const CONDITIONS: &str = "pcimRuleConditionList";
const GROUP: &str = "pcimConditionGroupNumber";
const NEGATED: &str = "pcimConditionNegated";
const REUSABLE: &str = "pcimConditionDN";

/// Values of `pcimRuleConditionListType`; RFC 3703, section 5.3.
const DISJUNCTIVE: i64 = 1;
const CONJUNCTIVE: i64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        toml::from_str(text).unwrap()
    }

    /// Catches: an OR of conditions on two fields that becomes two lists of values. Such a `match`
    /// would match more packets than the rule.
    #[test]
    fn or_joins_conditions_that_differ_in_one_field() {
        let web = table("src = \"10.0.0.1\"\ndst_port = 80");
        let tls = table("src = \"10.0.0.1\"\ndst_port = 443");
        let joined = any_of(vec![web.clone(), tls]).unwrap();
        assert_eq!(joined, table("src = \"10.0.0.1\"\ndst_port = [80, 443]"));
        let other = table("src = \"10.0.0.2\"\ndst_port = 443");
        assert!(any_of(vec![web.clone(), other]).is_err());
        assert!(any_of(vec![web, table("dst_port = 80")]).is_err());
    }

    #[test]
    fn an_or_of_both_directions_has_no_direction() {
        let joined = any_of(vec![table("direction = \"up\""), table("direction = \"down\"")]);
        assert_eq!(joined, Ok(Table::new()));
    }

    /// Catches: an AND that keeps only its last condition.
    #[test]
    fn and_joins_conditions_on_different_fields() {
        let joined = all_of(vec![table("dst_port = 80"), table("protocol = \"tcp\"")]);
        assert_eq!(joined, Ok(table("dst_port = 80\nprotocol = \"tcp\"")));
        assert!(all_of(vec![table("dst_port = 80"), table("dst_port = 443")]).is_err());
    }
}
