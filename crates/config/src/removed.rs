//! Parameters that earlier versions had, and what to write in their place.

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::read::Node;

/// A removed parameter: its mechanism, its name, and what the operator must do.
type Removed = (&'static str, &'static str, &'static str);

const REMOVED: &[Removed] = &[
    (
        "postack",
        "loss_express",
        "remove it; ACKs that report a loss are now held like all others, as with `loss_express = false`",
    ),
    (
        "postack",
        "retransmissions",
        "remove it; retransmitted data now waits like all other data, as with `retransmissions = \"in-turn\"`",
    ),
];

/// Reports each parameter in `node` that the mechanism `name` no longer has. Returns `true` if
/// there is any.
pub(crate) fn reports(node: &Node<'_>, name: &str, found: &mut Findings) -> bool {
    let mut any = false;
    let keys = node.get_ref().as_table().into_iter().flat_map(|table| table.keys());
    for key in keys {
        let field = key.get_ref().as_ref();
        let of = |(mechanism, removed, _): &&Removed| (*mechanism, *removed) == (name, field);
        let Some((.., instead)) = REMOVED.iter().find(of) else { continue };
        let message = format!("`{field}` is not a parameter of `{name}` any more");
        found.push(
            Diagnostic::error(Code::BadMechanism, key.span(), message).help((*instead).to_owned()),
        );
        any = true;
    }
    any
}
