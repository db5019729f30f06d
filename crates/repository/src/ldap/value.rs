//! Converts values of a policy file to the text of an LDAP attribute and back, without loss.
//!
//! The string `10 Mbit/s` is stored as it is. Values of other types are stored as TOML, such as `20`
//! or `{ kind = "per-flow" }`. A string that looks like TOML, such as the string `20`, is stored in
//! quotes.

use toml::{Table, Value};

/// The text of `value`. [`parse`] converts it back.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        value => inline(value),
    }
}

/// The value whose text is `text`.
pub(super) fn parse(text: &str) -> Value {
    inline_value(text).unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Returns `true` if the string can be stored without quotes.
///
/// A directory string must not be empty, and servers may remove spaces at its ends. In LDIF,
/// control characters would need another encoding.
fn is_plain(text: &str) -> bool {
    let kept = !text.is_empty() && text.trim() == text && !text.contains(char::is_control);
    kept && inline_value(text).is_none()
}

/// `value` as TOML in one line.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(list) => {
            format!("[{}]", list.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Table(table) if table.is_empty() => "{}".to_owned(),
        Value::Table(table) => {
            let field =
                |(key, value): (&String, &Value)| format!("{} = {}", bare(key), inline(value));
            format!("{{ {} }}", table.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}

/// The key of a table, in quotes if necessary.
fn bare(key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !key.is_empty() && key.chars().all(plain) { key.to_owned() } else { quoted(key) }
}

/// A TOML string in quotes, in one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The TOML value in `text`, or `None` if the text is not exactly one value.
fn inline_value(text: &str) -> Option<Value> {
    if text.contains('\n') {
        return None;
    }
    let mut table: Table = toml::from_str(&format!("{KEY} = {text}")).ok()?;
    table.remove(KEY)
}

/// The key that precedes a text while it is parsed as TOML.
const KEY: &str = "value";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn strings_are_stored_as_they_are_and_other_values_as_toml() {
        let value: Table = toml::from_str(
            "a = \"10 Mbit/s\"\nb = 20\nc = \"20\"\nd = [1, \"x\"]\ne = { kind = \"red\", ecn = false, at = 0.5 }\nf = \"\"",
        )
        .unwrap();
        let texts: Vec<_> = value.values().map(text).collect();
        let expected = ["10 Mbit/s", "20", "\"20\"", "[1, \"x\"]"];
        assert_eq!(texts[..4], expected);
        assert_eq!(texts[4], "{ at = 0.5, ecn = false, kind = \"red\" }");
        assert_eq!(texts[5], "\"\"");
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            "\\PC{0,12}".prop_map(Value::String),
            "(true|[0-9]{1,4}|inf|nan|\\[\\]|\\{\\}| x|x #y|1979-05-27|\"a\"|a\nb)"
                .prop_map(Value::String),
            any::<i64>().prop_map(Value::Integer),
            any::<bool>().prop_map(Value::Boolean),
            (-1e9..1e9).prop_map(Value::Float),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map("\\PC{0,5}", inner, 0..4)
                    .prop_map(|map| Value::Table(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Catches: a string that looks like TOML and is written without quotes; a line break that
        /// is not escaped; a key that needs quotes and gets none.
        #[test]
        fn every_value_is_read_back_unchanged(value in values()) {
            let text = text(&value);
            prop_assert!(!text.is_empty() && !text.contains('\n') && text.trim() == text);
            prop_assert_eq!(parse(&text), value);
        }
    }
}
