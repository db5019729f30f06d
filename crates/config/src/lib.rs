//! Parses the configuration files that people write. The result is a value, or a list of findings.
//!
//! The crate does no I/O. Its inputs are the text of files and properties of the host; its outputs
//! are values and findings. The program and the Python package both use it. Other crates use
//! [`read`], [`values`] and [`tcp`] to read topologies and scenarios.

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
pub mod manual;
mod mechanism;
mod parts;
pub mod policy_file;
pub mod read;
mod removed;
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
