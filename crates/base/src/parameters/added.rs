//! Mechanisms of other crates.

use std::fmt;
use std::sync::Arc;

use super::form::Written;

/// A mechanism of another crate, with its parameters. `B` is the type of functions that build one.
pub struct ForeignMechanism<B: ?Sized> {
    name: &'static str,
    changed: Vec<(&'static str, Written)>,
    build: Arc<B>,
}

impl<B: ?Sized> ForeignMechanism<B> {
    /// The mechanism `name`, whose parameters `changed` from their defaults.
    pub const fn new(
        name: &'static str,
        changed: Vec<(&'static str, Written)>,
        build: Arc<B>,
    ) -> Self {
        Self { name, changed, build }
    }

    /// Its name in files.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The parameters that differ from their defaults, as a file writes them.
    #[must_use]
    pub fn changed(&self) -> Vec<(&'static str, Written)> {
        self.changed.clone()
    }

    /// The function that builds one.
    #[doc(hidden)]
    pub fn builder(&self) -> &B {
        &self.build
    }
}

impl<B: ?Sized> Clone for ForeignMechanism<B> {
    fn clone(&self) -> Self {
        Self { name: self.name, changed: self.changed.clone(), build: self.build.clone() }
    }
}

impl<B: ?Sized> fmt::Debug for ForeignMechanism<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.name).field("changed", &self.changed).finish()
    }
}

/// Equal names and parameters build equal mechanisms.
impl<B: ?Sized> PartialEq for ForeignMechanism<B> {
    fn eq(&self, other: &Self) -> bool {
        (self.name, &self.changed) == (other.name, &other.changed)
    }
}

impl<B: ?Sized> Eq for ForeignMechanism<B> {}
