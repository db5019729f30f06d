//! Declares mechanisms, such as queue disciplines, under names for files.
//!
//! In a policy file or scenario, a name alone selects the mechanism with default parameters. A
//! table with `kind = "<name>"` also sets parameters. Errors about unknown names and misspelt
//! fields list the valid names and fields.

/// Defines the enum `$spec` with a variant for each mechanism, which holds the mechanism's
/// `Config`. Its method `build` takes the given arguments and makes the `$mechanism`.
///
/// Files cannot name an `unnamed` variant: code makes it from another variant, and its `Config`
/// returns the name. The variant `Added` holds a mechanism that another crate defines.
///
/// With `each with NAME: TYPE`, each `Config` has an associated constant `NAME`. The enum then has the
/// list `NAME` of all these constants. Its method `constant` returns the constant of one mechanism.
#[macro_export]
macro_rules! registry {
    (
        $(#[$doc:meta])* $spec:ident, $what:literal, each with $constant:ident: $of:ty,
        build($($arg:ident: $type:ty),*) -> $mechanism:ident: $($list:tt)+
    ) => {
        $crate::registry! {
            $(#[$doc])* $spec, $what, build($($arg: $type),*) -> $mechanism: $($list)+
        }
        $crate::registry! { @constants $spec $constant ($of) $($list)+ }
    };
    (
        @constants $spec:ident $constant:ident ($of:ty)
        $($(#[doc = $each:literal])+ $variant:ident => $module:ident, $name:literal;)+
    ) => {
        impl $spec {
            /// The constants of all mechanisms.
            const $constant: &'static [$of] = &[$($module::Config::$constant),+];

            /// The constant of the mechanism. `None` for a mechanism of another crate.
            const fn constant(&self) -> Option<$of> {
                match self {
                    $(Self::$variant(_) => Some($module::Config::$constant),)+
                    Self::Added(_) => None,
                }
            }
        }
    };
    (
        $(#[$doc:meta])* $spec:ident, $what:literal,
        build($($arg:ident: $type:ty),*) -> $mechanism:ident: $($list:tt)+
    ) => {
        $crate::registry! {
            @names $(#[$doc])* $spec, $what,
            added dyn Fn($($type),*) -> Box<dyn $mechanism> + Send + Sync: $($list)+
        }

        impl $spec {
            /// The mechanism `name`, which another crate defines. `build` makes an instance without
            /// packets.
            pub fn added<C>(
                name: &'static str,
                config: C,
                build: impl Fn(&C $(, $type)*) -> Box<dyn $mechanism> + Send + Sync + 'static,
            ) -> Self
            where
                C: $crate::parameters::Declared + Send + Sync + 'static,
            {
                let changed = config.changed();
                let build = std::sync::Arc::new(move |$($arg: $type),*| build(&config $(, $arg)*));
                Self::Added($crate::parameters::ForeignMechanism::new(name, changed, build))
            }

            /// Makes an instance without packets.
            #[must_use]
            pub fn build(&self $(, $arg: $type)*) -> Box<dyn $mechanism> {
                $crate::registry! { @build self ($($arg),*) $($list)+ }
            }
        }
    };
    (
        @build $self:ident $args:tt
        $($(#[doc = $each:literal])+ $variant:ident => $module:ident, $name:literal;)+
        $(unnamed $(#[doc = $about:literal])+ $unnamed:ident => $inside:ident;)?
    ) => {
        match $self {
            $(Self::$variant(config) => Box::new(config.build $args),)+
            $(Self::$unnamed(config) => Box::new(config.build $args),)?
            Self::Added(added) => added.builder() $args,
        }
    };
    (
        @names $(#[$doc:meta])* $spec:ident, $what:literal $(, added $added:ty)?:
        $($(#[doc = $each:literal])+ $variant:ident => $module:ident, $name:literal;)+
        $(unnamed $(#[doc = $about:literal])+ $unnamed:ident => $inside:ident;)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub enum $spec {
            $($(#[doc = $each])+ $variant($module::Config),)+
            $($(#[doc = $about])+ $unnamed($inside::Config),)?
            $(
                /// A mechanism that another crate defines.
                Added($crate::parameters::ForeignMechanism<$added>),
            )?
        }

        impl $crate::parameters::Registered for $spec {
            const WHAT: &'static str = $what;
            const NAMES: &'static [&'static str] = Self::NAMES;

            fn fields(name: &str) -> &'static [&'static str] {
                match name {
                    $($name => <$module::Config as $crate::parameters::Declared>::NAMES,)+
                    _ => &[],
                }
            }

            fn mechanisms() -> Vec<$crate::parameters::Mechanism> {
                vec![$($crate::parameters::Mechanism {
                    name: $name,
                    about: concat!($($each),+).trim_ascii(),
                    parameters: <$module::Config as $crate::parameters::Declared>::parameters(),
                }),+]
            }
        }

        impl $spec {
            /// The names of all mechanisms that files can select.
            pub const NAMES: &[&str] = &[$($name),+];

            /// The parameters that differ from their defaults, in the notation of files.
            #[must_use]
            pub fn changed(&self) -> Vec<(&'static str, $crate::parameters::Written)> {
                match self {
                    $(Self::$variant(config) => $crate::parameters::Declared::changed(config),)+
                    $(Self::$unnamed(config) => config.changed(),)?
                    $(Self::Added(added) => {
                        let _: &$crate::parameters::ForeignMechanism<$added> = added;
                        added.changed()
                    })?
                }
            }

            /// Sets the field `name` to `value`. Files cannot set this field. Returns `false` if
            /// the mechanism has no such field of this type.
            pub fn set_apart(&mut self, name: &str, value: &dyn std::any::Any) -> bool {
                match self {
                    $(Self::$variant(config) => {
                        $crate::parameters::Declared::set_apart(config, name, value)
                    })+
                    #[allow(unreachable_patterns, reason = "a registry may have no other variants")]
                    _ => false,
                }
            }

            /// The name of the mechanism.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)+
                    $(Self::$unnamed(config) => config.name(),)?
                    $(Self::Added(added) => {
                        let _: &$crate::parameters::ForeignMechanism<$added> = added;
                        added.name()
                    })?
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $spec {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                /// The notation as a table with parameters.
                #[derive(serde::Deserialize)]
                #[serde(tag = "kind")]
                enum Table {
                    $(#[serde(rename = $name)] $variant($module::Config),)+
                }

                struct Visitor;

                impl<'de> serde::de::Visitor<'de> for Visitor {
                    type Value = $spec;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(f, concat!($what, ": one of {}, or a table with `kind`"), $spec::NAMES.join(", "))
                    }

                    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<$spec, E> {
                        match name {
                            $($name => Ok($spec::$variant($module::Config::default())),)+
                            _ => Err(E::unknown_variant(name, $spec::NAMES)),
                        }
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$spec, A::Error> {
                        let table = serde::de::value::MapAccessDeserializer::new(map);
                        Ok(match serde::Deserialize::deserialize(table)? {
                            $(Table::$variant(config) => $spec::$variant(config),)+
                        })
                    }
                }

                from.deserialize_any(Visitor)
            }
        }

        $crate::value! {
            $spec: $crate::parameters::Form::Named(<Self as $crate::parameters::Registered>::mechanisms()),
                |it| Some($crate::parameters::Written::mechanism(it.name(), it.changed())),
                <Self as serde::Deserialize>::deserialize;
        }
    };
}
