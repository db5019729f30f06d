//! Mechanisms that other crates define.

use std::fmt;
use std::sync::Arc;

use super::form::Written;

/// A mechanism that another crate defines, with its parameters. `B` is the type of the function
/// that builds an instance.
pub struct ForeignMechanism<B: ?Sized> {
    name: &'static str,
    changed: Vec<(&'static str, Written)>,
    build: Arc<B>,
}

impl<B: ?Sized> ForeignMechanism<B> {
    /// A mechanism called `name`. `changed` are the parameters that differ from their defaults.
    pub const fn new(
        name: &'static str,
        changed: Vec<(&'static str, Written)>,
        build: Arc<B>,
    ) -> Self {
        Self { name, changed, build }
    }

    /// The name of the mechanism in files.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The parameters that differ from their defaults, as a file writes them.
    #[must_use]
    pub fn changed(&self) -> Vec<(&'static str, Written)> {
        self.changed.clone()
    }

    /// The function that builds an instance.
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

/// Two mechanisms are equal if their names and parameters are equal.
impl<B: ?Sized> PartialEq for ForeignMechanism<B> {
    fn eq(&self, other: &Self) -> bool {
        (self.name, &self.changed) == (other.name, &other.changed)
    }
}

impl<B: ?Sized> Eq for ForeignMechanism<B> {}
