//! Parameters of mechanisms, each declared once.
//!
//! A mechanism declares its parameters with [`parameters!`](crate::parameters!): documentation, type, default
//! and range. From the declaration come the struct, its `Default`, its reader, and the [`Parameter`]s that
//! schemas, manuals and the Python package are written from. [`choice!`](crate::choice!) declares a
//! type with a fixed set of names.

mod added;
mod form;
mod macros;
mod range;
mod read;
mod value;

pub use added::ForeignMechanism;
pub use form::{Form, Mechanism, Parameter, Written};
pub use range::{Limits, check, limits, more_than};
pub use read::{Declared, Field, Registered, TableReader, name_of};
pub use value::Value;

/// For the expansions of the macros.
#[doc(hidden)]
pub use serde;
