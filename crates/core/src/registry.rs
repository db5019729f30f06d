//! How a mechanism is named in policy files, scenarios and the API.
//!
//! A name alone means the mechanism with its defaults; a table with `kind = "<name>"` sets its
//! parameters. Unknown names and misspelt fields are errors that list what there is.

/// Makes `$spec`: one variant per mechanism, holding that mechanism's `Config`, whose `build` with
/// the arguments given here makes the `$mechanism`. No file can name an `unnamed` variant; it is made
/// from others, and goes by the name that its `Config` gives it.
macro_rules! registry {
    (
        $(#[$doc:meta])* $spec:ident, $what:literal,
        build($($arg:ident: $type:ty),*) -> $mechanism:ident: $($list:tt)+
    ) => {
        registry! { @names $(#[$doc])* $spec, $what: $($list)+ }

        impl $spec {
            /// One, new and empty.
            #[must_use]
            pub fn build(&self $(, $arg: $type)*) -> Box<dyn $mechanism> {
                registry! { @build self ($($arg),*) $($list)+ }
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
        }
    };
    (
        @names $(#[$doc:meta])* $spec:ident, $what:literal:
        $($(#[doc = $each:literal])+ $variant:ident => $module:ident, $name:literal;)+
        $(unnamed $(#[doc = $about:literal])+ $unnamed:ident => $inside:ident;)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub enum $spec {
            $($(#[doc = $each])+ $variant($module::Config),)+
            $($(#[doc = $about])+ $unnamed($inside::Config),)?
        }

        impl $spec {
            /// Every name there is.
            pub const NAMES: &[&str] = &[$($name),+];

            /// What goes by each of [`NAMES`](Self::NAMES), in a sentence.
            pub const ABOUT: &[&str] = &[$(concat!($($each),+).trim_ascii()),+];

            /// Reads the parameters of what goes by `name`; `None` if nothing does.
            pub fn parameters<'de, D: serde::Deserializer<'de>>(
                name: &str,
                from: D,
            ) -> Option<Result<Self, D::Error>> {
                match name {
                    $($name => {
                        let config = <$module::Config as serde::Deserialize>::deserialize(from);
                        Some(config.map(Self::$variant))
                    })+
                    _ => None,
                }
            }

            /// The name it goes by.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)+
                    $(Self::$unnamed(config) => config.name(),)?
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $spec {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                /// The form with parameters.
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
    };
}

/// Reads a `Config` field by field, and then asks its `check` about the whole.
///
/// The derived `Deserialize` must be `remote = "Self"`.
macro_rules! checked {
    ($config:ident) => {
        impl<'de> serde::Deserialize<'de> for $config {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let config = Self::deserialize(from)?;
                config.check().map_err(serde::de::Error::custom)?;
                Ok(config)
            }
        }
    };
}

pub(crate) use {checked, registry};
