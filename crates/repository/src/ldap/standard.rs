//! Maps the fields for which RFC 3703 has an attribute: `mode`, `priority` and `roles`.
//!
//! A value goes into the standard attribute only if reading the attribute yields the same value
//! again. Other values, such as a negative priority, go into our own attribute for the field.
//!
//! Source: RFC 3703, section 5.3.
//! Differs:
//! - A rule that is enabled for debugging (3) becomes a policy with `mode = "observe"`. A disabled
//!   rule (2) is left out.
//! - Combinations of roles (`a&&b`) are refused, because a gateway selects items by single roles.

use tidegate_config::ItemKind;
use toml::{Table, Value};

use super::entry::Entry;
use crate::Fault;

/// Moves the values that a standard attribute can express from `fields` of a `kind` to `entry`.
pub(super) fn write(kind: ItemKind, fields: &mut Table, entry: &mut Entry) {
    let moved = |name: &str, values: Option<Vec<String>>, fields: &mut Table, entry: &mut Entry| {
        let attribute = match name {
            "mode" => RULE_ENABLED,
            "priority" => RULE_PRIORITY,
            _ => ROLES,
        };
        for value in values.into_iter().flatten() {
            fields.remove(name);
            entry.add(attribute, value);
        }
    };
    let roles = fields.get("roles").and_then(combinations);
    moved("roles", roles, fields, entry);
    if kind == ItemKind::Policy {
        let enabled = fields.get("mode").and_then(enabled).map(|number| vec![number.to_string()]);
        moved("mode", enabled, fields, entry);
        let priority = fields.get("priority").and_then(Value::as_integer);
        let priority = priority.filter(|it| *it >= 0).map(|number| vec![number.to_string()]);
        moved("priority", priority, fields, entry);
    }
}

/// Adds the values of the standard attributes of `entry` to `fields`. Returns `false` if the rule
/// is disabled.
pub(super) fn read(kind: ItemKind, entry: &Entry, fields: &mut Table) -> Result<bool, Fault> {
    let mut set = |name: &str, attribute: &str, value: Value| match fields
        .insert(name.to_owned(), value)
    {
        None => Ok(()),
        Some(_) => Err(entry.malformed(attribute, "is given twice, by an attribute of ours too")),
    };
    let mut roles: Vec<_> = entry.texts(ROLES)?;
    roles.sort_unstable();
    if let Some(combination) = roles.iter().find(|role| role.contains("&&")) {
        return Err(
            entry.malformed(ROLES, &format!("is the combination {combination}; give single roles"))
        );
    }
    if !roles.is_empty() {
        let list = roles.into_iter().map(|role| Value::String(role.to_owned())).collect();
        set("roles", ROLES, Value::Array(list))?;
    }
    if kind != ItemKind::Policy {
        return Ok(true);
    }
    if let Some(priority) = entry.integer(RULE_PRIORITY)? {
        if priority < 0 {
            return Err(entry.malformed(RULE_PRIORITY, "is negative"));
        }
        set("priority", RULE_PRIORITY, Value::Integer(priority))?;
    }
    match entry.integer(RULE_ENABLED)? {
        None => {}
        Some(ENABLED) => set("mode", RULE_ENABLED, Value::String("enforce".to_owned()))?,
        Some(FOR_DEBUG) => set("mode", RULE_ENABLED, Value::String("observe".to_owned()))?,
        Some(DISABLED) => return Ok(false),
        Some(_) => return Err(entry.malformed(RULE_ENABLED, "is not 1, 2 or 3")),
    }
    Ok(true)
}

fn enabled(mode: &Value) -> Option<i64> {
    match mode.as_str()? {
        "enforce" => Some(ENABLED),
        "observe" => Some(FOR_DEBUG),
        _ => None,
    }
}

/// The values of `pcimRoles` for `roles`. `None` if reading them would not yield `roles` again. For
/// that, they must be plain names, sorted, and different even if case is ignored.
fn combinations(roles: &Value) -> Option<Vec<String>> {
    let roles: Vec<_> = roles.as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?;
    let plain = |role: &&str| !role.is_empty() && role.trim() == *role && !role.contains("&&");
    let rising = roles.windows(2).all(|pair| pair[0] < pair[1]);
    let mut folded: Vec<_> = roles.iter().map(|role| role.to_lowercase()).collect();
    folded.sort_unstable();
    folded.dedup();
    let kept =
        !roles.is_empty() && roles.iter().all(plain) && rising && folded.len() == roles.len();
    kept.then(|| roles.iter().map(|role| (*role).to_owned()).collect())
}

const RULE_PRIORITY: &str = "pcimRulePriority";
const RULE_ENABLED: &str = "pcimRuleEnabled";
/// The roles of the gateways for which an item is meant. Classes and trunks have this attribute
/// too.
pub(super) const ROLES: &str = "pcimRoles";

/// Values of `pcimRuleEnabled`; RFC 3703, section 5.3.
const ENABLED: i64 = 1;
const DISABLED: i64 = 2;
const FOR_DEBUG: i64 = 3;
