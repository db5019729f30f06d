//! Parses the policy files that people write into values or findings.
//!
//! The crate does no I/O: its inputs are text and properties of the host, its outputs are values
//! and findings. The program and the Python package read the same files in the same way.
//! [`read`], [`values`] and [`tcp`] are also parts of other kinds of files: topologies, scenarios.

#![forbid(unsafe_code)]

pub mod added;
pub mod aggregate;
mod canonical;
pub mod code;
mod declared;
pub mod diagnostic;
pub mod field;
mod hexadecimal;
pub mod host;
mod item;
mod left;
mod mechanism;
mod parts;
pub mod policy_file;
pub mod read;
mod schema;
pub mod source;
pub mod tcp;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod text;
pub mod values;

pub use code::Code;
pub use diagnostic::{Diagnostic, Findings, Located, Severity};
pub use hexadecimal::hexadecimal;
pub use host::Host;
pub use item::{Item, ItemKind, Part, items};
pub use text::{NotUtf8, text};
