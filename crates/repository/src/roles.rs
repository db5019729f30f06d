//! Selects the items (policies, classes, trunks) that are meant for this gateway, by roles such as
//! "branch office".
//!
//! An item without roles is for every gateway. An item with roles is for each gateway that has at
//! least one of these roles.
//!
//! Source: `pcimRoles`, RFC 3703, section 5.2; the paper `aggregates`, section 6: an agent reads
//! the policies that apply to its server.

use tidegate_config::{Item, Part, items};
use toml::Value;

/// The items of `part` for a gateway with `roles`. If `part` contains no roles, or cannot be
/// parsed, it is returned unchanged.
#[must_use]
pub fn select(part: &Part, roles: &[String]) -> Part {
    let found = items(part).unwrap_or_default();
    if !found.iter().any(|item| wanted(item).is_some()) {
        return part.clone();
    }
    let chosen = found.into_iter().filter_map(|mut item| match wanted(&item) {
        None => Some(item),
        Some(wanted) if roles.iter().any(|role| wanted.contains(role)) => {
            item.fields.remove("roles");
            Some(item)
        }
        Some(_) => None,
    });
    let text = chosen.map(|item| item.text()).collect();
    Part { origin: part.origin.clone(), text }
}

/// The roles of `item`, if its field `roles` is a list of names.
fn wanted(item: &Item) -> Option<Vec<String>> {
    let name = |value: &Value| value.as_str().map(str::to_owned);
    match item.fields.get("roles")? {
        Value::Array(list) => list.iter().map(name).collect(),
        one => name(one).map(|one| vec![one]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: an item kept although it is for other roles; an item without roles that is dropped;
    /// a field `roles` that stays in an item.
    #[test]
    fn items_for_other_roles_are_left_out() {
        let text = "[[policy]]\nname = \"all\"\n[[policy]]\nname = \"edge\"\nroles = [\"edge\", \"lab\"]\n\
                    [[policy]]\nname = \"core\"\nroles = \"core\"\n";
        let part = Part { origin: "x".to_owned(), text: text.to_owned() };
        let names = |roles: &[&str]| {
            let roles: Vec<_> = roles.iter().map(|&it| it.to_owned()).collect();
            let chosen = items(&select(&part, &roles)).unwrap();
            assert!(chosen.iter().all(|item| !item.fields.contains_key("roles")));
            chosen.into_iter().map(|item| item.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["all"]);
        assert_eq!(names(&["edge"]), ["all", "edge"]);
        assert_eq!(names(&["core", "lab"]), ["all", "edge", "core"]);
        let plain = Part { origin: "x".to_owned(), text: "[[policy]]\nname = \"a\"\n".to_owned() };
        assert_eq!(select(&plain, &[]), plain);
    }
}
