//! Declarations of the parameters that mechanisms have.
//!
//! A mechanism declares its parameters with [`parameters!`](crate::parameters!): documentation,
//! type, default and range. The macro generates the struct, its `Default`, its reader, and a
//! description of each [`Parameter`]. Schemas, manuals and the Python package are generated from
//! these descriptions. [`choice!`](crate::choice!) declares an enum whose variants have names in
//! files.

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

/// The macros refer to serde by this path.
#[doc(hidden)]
pub use serde;
