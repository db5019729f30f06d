//! The names of the etcd keys that hold a policy repository, below a common prefix.
//!
//! - `policy/<name>`, `class/<name>` and `trunk/<name>` hold one *item* each.
//! - `commit` is the *marker*. It is written last, and completes a set of items.
//! - `push` is a lock that exists while a set is being written.
//! - `status/<node>` holds the report of a gateway.
//!
//! The value of an item is the TOML body of its table, without the table header and the name. The
//! keys are read and watched in two ranges, before and after `status/`. This leaves out the reports
//! of gateways.

use tidegate_config::{Item, ItemKind};
use toml::{Table, Value};

use crate::{Fault, FaultKind};

/// The keys below one prefix.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

/// A range of keys: the first key, and the first key after the range. The second is empty for a
/// range of one key.
pub(super) type Range = (Vec<u8>, Vec<u8>);

/// The meaning of a key.
pub(super) enum Holds<'a> {
    /// An item of this kind and name.
    Item(ItemKind, &'a str),
    /// The commit marker.
    Marker,
    /// The lock of a push: a key that exists while a push runs.
    Lock,
}

impl Keys {
    /// The keys below `prefix`.
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// The prefix of all keys.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key of the commit marker.
    pub(super) fn marker(&self) -> String {
        self.below(MARKER)
    }

    /// The key that exists while a push runs.
    pub(super) fn lock(&self) -> String {
        self.below(LOCK)
    }

    /// The key of a gateway's report.
    pub(super) fn status(&self, node: &str) -> String {
        self.below(&format!("{STATUS}{node}"))
    }

    /// The key of an item.
    pub(super) fn item(&self, kind: ItemKind, name: &str) -> String {
        self.below(&format!("{kind}/{name}"))
    }

    fn below(&self, rest: &str) -> String {
        format!("{}{rest}", self.prefix)
    }

    /// All keys below the prefix except those below `status/`.
    pub(super) fn ranges(&self) -> [Range; 2] {
        let status = self.below(STATUS).into_bytes();
        let end = successor(self.prefix.as_bytes());
        [(self.prefix.clone().into_bytes(), status.clone()), (successor(&status), end)]
    }

    /// The meaning of `key`.
    ///
    /// # Errors
    ///
    /// If the key has no meaning below the prefix.
    pub(super) fn holds<'a>(&self, key: &'a [u8]) -> Result<Holds<'a>, Fault> {
        let rest = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(&self.prefix));
        match rest {
            Some(MARKER) => return Ok(Holds::Marker),
            Some(LOCK) => return Ok(Holds::Lock),
            _ => {}
        }
        let item = rest.and_then(|rest| rest.split_once('/')).filter(|(_, name)| !name.is_empty());
        item.and_then(|(word, name)| Some(Holds::Item(ItemKind::of_word(word)?, name))).ok_or_else(
            || {
                let message = format!("key {} is not a key of Tidegate", shown(key));
                let known = "keys below the prefix are policy/NAME, class/NAME, trunk/NAME, commit and status/NODE";
                Fault::new(FaultKind::Malformed, message)
                    .help(format!("{known}; rename or delete it, and commit again"))
            },
        )
    }
}

/// The first key that does not begin with `prefix`. For an empty prefix, returns a null byte, which
/// etcd reads as "all keys".
fn successor(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return end;
        }
    }
    vec![0]
}

/// The key as messages show it: in backquotes, cut to [`SHOWN`] bytes.
pub(super) fn shown(key: &[u8]) -> String {
    let part = key.get(..SHOWN).unwrap_or(key);
    let dots = if key.len() > SHOWN { "..." } else { "" };
    format!("`{}{dots}`", String::from_utf8_lossy(part).escape_debug())
}

/// Parses the item in `value`, which is stored at `key`.
///
/// # Errors
///
/// If the value is not the body of one table, or contains a name that differs from the key's.
pub(super) fn item(kind: ItemKind, name: &str, key: &[u8], value: &[u8]) -> Result<Item, Fault> {
    let wrong =
        |what: String| Fault::new(FaultKind::Malformed, format!("key {}: {what}", shown(key)));
    let text = tidegate_config::text(value.to_vec())
        .map_err(|error| wrong(format!("the value is not text: {error}")))?;
    let mut fields: Table = toml::from_str(&text).map_err(|error| {
        let line = error
            .span()
            .map_or(1, |span| 1 + text.get(..span.start).unwrap_or("").matches('\n').count());
        wrong(format!("the value is not TOML: line {line}: {}", error.message()))
    })?;
    for (field, value) in &fields {
        if document(field, value) {
            let what = format!("`{field}` opens a table of a policy file");
            return Err(wrong(what).help(format!(
                "write the fields of one {kind} only, without [[{kind}]], and commit again"
            )));
        }
    }
    match fields.remove("name") {
        None => Ok(Item { kind, name: name.to_owned(), fields }),
        Some(Value::String(other)) if other == name => Ok(Item { kind, name: other, fields }),
        Some(other) => Err(wrong(format!("`name = {other}` does not agree with the key"))),
    }
}

/// Returns `true` if `field` is a field of a whole policy file and not of a single item. The names
/// `class` and `trunk` occur as both, so `value` decides.
fn document(field: &str, value: &Value) -> bool {
    match ItemKind::of_word(field) {
        Some(ItemKind::Policy) => true,
        Some(_) => value.is_array(),
        None => NOT_OF_ITEMS.contains(&field),
    }
}

/// Name of the marker below the prefix.
const MARKER: &str = "commit";

/// Name of the lock of a push below the prefix.
const LOCK: &str = "push";

/// The beginning of all keys with reports of gateways.
const STATUS: &str = "status/";

/// Tables of a policy file that are not items of a repository.
const NOT_OF_ITEMS: &[&str] = &["gateway", "source"];

/// Number of bytes of a key that messages show. Names in a policy file are shorter than this.
const SHOWN: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &[u8]) -> Result<Item, Fault> {
        item(ItemKind::Policy, "web", b"/t/policy/web", value)
    }

    /// Catches: ranges that include `status/` (the reports), or that leave out `trunk/`.
    #[test]
    fn the_watched_ranges_leave_out_reports() {
        let keys = Keys::new("/t/");
        let inside = |key: &str| {
            keys.ranges()
                .iter()
                .any(|(from, end)| key.as_bytes() >= &from[..] && key.as_bytes() < &end[..])
        };
        for key in
            ["/t/class/a", "/t/commit", "/t/policy/a", "/t/push", "/t/trunk/\u{10ffff}", "/t/stray"]
        {
            assert!(inside(key), "{key}");
        }
        for key in ["/t/status/gw1", "/t0", "/s", "/t"] {
            assert!(!inside(key), "{key}");
        }
        assert_eq!(successor(&[b'a', 0xff, 0xff]), b"b");
        assert_eq!(successor(b""), [0]);
    }

    #[test]
    fn a_key_names_an_item_the_marker_or_the_lock_and_others_are_errors() {
        let keys = Keys::new("/t/");
        assert!(matches!(keys.holds(b"/t/trunk/a/b"), Ok(Holds::Item(ItemKind::Trunk, "a/b"))));
        assert!(matches!(keys.holds(b"/t/commit"), Ok(Holds::Marker)));
        for wrong in
            [&b"/t/polices/web"[..], b"/t/policy/", b"/t/policy", b"/t/policy/\xff", b"/u/policy/a"]
        {
            assert_eq!(keys.holds(wrong).err().unwrap().kind, FaultKind::Malformed);
        }
    }

    /// Catches: a value accepted although it contains another name than its key; a policy refused
    /// because of its field `class`; line numbers counted from 0.
    #[test]
    fn a_value_is_the_body_of_one_table() {
        let good =
            read(b"action = \"pass\"\nclass = \"a\"\nname = \"web\"\n[match]\ndst_port = 80")
                .unwrap();
        assert_eq!((good.name.as_str(), good.fields.len()), ("web", 3));
        for (wrong, says) in [
            (&b"\xff\xfe"[..], "not UTF-8"),
            (b"a = 1\nb = ", "line 2"),
            (b"name = \"other\"", "does not agree"),
            (b"name = 5", "does not agree"),
            (b"[gateway]\nlan = \"a\"", "`gateway` opens"),
            (b"a = 1\n[[policy]]\nname = \"x\"", "`policy` opens"),
            (b"[[class]]\nname = \"x\"", "`class` opens"),
        ] {
            let fault = read(wrong).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Malformed);
            assert!(
                fault.message.contains("`/t/policy/web`") && fault.message.contains(says),
                "{fault}"
            );
        }
    }
}
