//! A quantity with the same value in both directions, or with a value for each direction.

use serde_json::{Value, json};
use tidegate_core::Rate;
use toml::Spanned;
use toml::de::DeValue;

use super::raw::{DelayBounds, Rates};
use crate::added::Mechanisms;
use crate::diagnostic::Findings;
use crate::read::{Node, Read};
use crate::values::Period;

/// A quantity for the upward and the downward direction.
#[derive(Clone, Debug)]
pub(crate) struct EachWay<T>(pub(crate) [Option<T>; 2]);

/// A quantity that a file may set for each direction.
pub(crate) trait OfWays: Read + Clone {
    /// The table with the fields `up` and `down`.
    type Table: Read;

    /// The values in `table`, up and down.
    fn ways(table: Self::Table) -> [Option<Spanned<Self>>; 2];
}

impl OfWays for Rate {
    type Table = Rates;

    fn ways(table: Rates) -> [Option<Spanned<Self>>; 2] {
        [table.up, table.down]
    }
}

impl OfWays for Period {
    type Table = DelayBounds;

    fn ways(table: DelayBounds) -> [Option<Spanned<Self>>; 2] {
        [table.up, table.down]
    }
}

impl<T: OfWays> Read for EachWay<T> {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        if !matches!(node.get_ref(), DeValue::Table(_)) {
            let both = T::read(node, found)?;
            return Some(Self([Some(both.clone()), Some(both)]));
        }
        let table = T::Table::read(node, found)?;
        Some(Self(T::ways(table).map(|each| each.map(Spanned::into_inner))))
    }

    fn schema(added: &Mechanisms) -> Value {
        json!({ "anyOf": [T::schema(added), T::Table::schema(added)] })
    }

    fn canonical(node: &Node<'_>, added: &Mechanisms) -> toml::Value {
        let DeValue::Table(_) = node.get_ref() else { return T::canonical(node, added) };
        let table = T::Table::canonical(node, added);
        match (table.get("up"), table.get("down")) {
            (Some(up), Some(down)) if up == down => up.clone(),
            _ => table,
        }
    }
}
