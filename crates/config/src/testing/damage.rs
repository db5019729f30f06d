//! Damaged files for the tests of all kinds of files.

use proptest::prelude::*;

/// One of `files` with a few bytes replaced. The result is nearly valid, so that it reaches most of
/// the parser's code.
pub fn damaged(files: Vec<String>) -> impl Strategy<Value = String> {
    let junk = prop_oneof![
        "[\\PC]{0,8}",
        prop::sample::select(vec!["\"", "[", "]", "{", "}", "=", "\n", "0", "-", "é", "'''"])
            .prop_map(str::to_owned),
    ];
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, junk), 1..6);
    (prop::sample::select(files), edits).prop_map(|(mut text, edits)| {
        for (at, length, junk) in edits {
            let start = text.floor_char_boundary(at.index(text.len() + 1));
            let end = text.ceil_char_boundary((start + length).min(text.len()));
            text.replace_range(start..end, &junk);
        }
        text
    })
}
