//! Random input for tests: policy sets in several spellings, and damaged files.

mod damage;
mod sets;
mod spelling;

pub use damage::damaged;
pub use sets::{gateway, item_sets};
pub use spelling::respelled;

use crate::item::Item;

/// The TOML document that consists of `items`.
#[must_use]
pub fn document(items: &[Item]) -> String {
    items.iter().map(|item| item.text() + "\n").collect()
}
