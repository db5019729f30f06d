//! The macros that declare parameters: `parameters!` for tables, and `choice!` for sets of names.

/// Declares the parameters of a mechanism.
///
/// Each line has documentation, a name, a type and a default. A range may follow, and the reason
/// for it. Three options exist:
/// - `checked` after the name of the struct: its method `check` checks the fields together.
/// - `named by field`: a file may write only this field, as a string in place of the table.
/// - `apart { ... }`: fields that files cannot set, only code.
///
/// ```
/// use tidegate_base::{Bytes, Factor, parameters};
///
/// parameters! {
///     /// Limit and weight.
///     pub Config, checked {
///         /// Largest backlog in frame bytes.
///         limit: Bytes = Bytes(1 << 20), in Bytes(1).., "nothing could wait";
///         /// Weight of a flow.
///         weight: Factor = Factor::ONE, in ..=Factor::whole(16);
///     }
/// }
///
/// impl Config {
///     fn check(&self) -> Result<(), &'static str> {
///         Ok(())
///     }
/// }
///
/// assert_eq!(Config::default().limit, Bytes(1 << 20));
/// ```
#[macro_export]
macro_rules! parameters {
    (
        $(#[$meta:meta])*
        $visibility:vis $config:ident $(, $checked:ident)? $(; named by $named:ident)? {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty = $default:expr $(, in $range:expr $(, $why:literal)?)?;
            )*
        }
        $(apart {
            $($(#[doc = $other_doc:literal])+ $other:ident: $other_type:ty = $other_default:expr;)+
        })?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        $visibility struct $config {
            $($(#[doc = $doc])+ pub $field: $type,)*
            $($($(#[doc = $other_doc])+ pub $other: $other_type,)+)?
        }

        impl Default for $config {
            fn default() -> Self {
                Self {
                    $($field: $default,)*
                    $($($other: $other_default,)+)?
                }
            }
        }

        impl $crate::parameters::Declared for $config {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];
            $(const NAMED_BY: Option<&'static str> = Some(stringify!($named));)?

            fn parameters() -> Vec<$crate::parameters::Parameter> {
                vec![$({
                    let default: $type = $default;
                    $crate::parameters::Parameter {
                        name: stringify!($field),
                        about: concat!($($doc),+).trim_ascii(),
                        default: <$type as $crate::parameters::Value>::written(&default)
                            .filter(|default| *default != $crate::parameters::Written::Table(Vec::new())),
                        form: <$type as $crate::parameters::Value>::form(),
                        limits: $crate::parameters!(@limits $type $(, $range)?),
                    }
                }),*]
            }

            fn read_field<'de, A: $crate::parameters::serde::de::MapAccess<'de>>(
                &mut self,
                name: &'static str,
                map: &mut A,
            ) -> Result<(), A::Error> {
                $(if name == stringify!($field) {
                    self.$field = map.next_value_seed($crate::parameters::Field::new(|value: &$type| {
                        $crate::parameters!(@check $field, value, $type, $default $(, $range $(, $why)?)?)
                    }))?;
                    return Ok(());
                })*
                let _ = map;
                Err($crate::parameters::serde::de::Error::unknown_field(name, Self::NAMES))
            }

            fn changed(&self) -> Vec<(&'static str, $crate::parameters::Written)> {
                #[allow(unused_mut, reason = "a mechanism may have no parameters")]
                let mut fields = Vec::new();
                $({
                    let default: $type = $default;
                    let value = <$type as $crate::parameters::Value>::written(&self.$field);
                    if value != <$type as $crate::parameters::Value>::written(&default) {
                        fields.extend(value.map(|value| (stringify!($field), value)));
                    }
                })*
                fields
            }

            $(fn set_apart(&mut self, name: &str, value: &dyn std::any::Any) -> bool {
                $(if let (true, Some(value)) = (name == stringify!($other), value.downcast_ref::<$other_type>()) {
                    self.$other = value.clone();
                    return true;
                })+
                false
            })?

            fn in_range(&self) -> Result<(), String> {
                $({
                    let value: &$type = &self.$field;
                    let checked: Result<(), String> = $crate::parameters!(@check $field, value, $type, $default $(, $range $(, $why)?)?);
                    checked?;
                })*
                Ok(())
            }

            fn check_all(&self) -> Result<(), String> {
                $crate::parameters!(@all self $(, $checked)?)
            }
        }

        impl<'de> $crate::parameters::serde::Deserialize<'de> for $config {
            fn deserialize<D: $crate::parameters::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::parameters::TableReader::<Self>::read(from)
            }
        }

        $crate::value! {
            $config: $crate::parameters::Form::Table(<Self as $crate::parameters::Declared>::parameters()),
                |it| Some($crate::parameters::Written::Table($crate::parameters::Declared::changed(it))), <Self as $crate::parameters::serde::Deserialize>::deserialize;
        }
    };
    (@limits $type:ty) => { $crate::parameters::Limits::default() };
    (@limits $type:ty, $range:expr) => { $crate::parameters::limits::<$type>(&$range) };
    (@check $field:ident, $value:ident, $type:ty, $default:expr) => {{
        let _ = $value;
        Ok(())
    }};
    (@check $field:ident, $value:ident, $type:ty, $default:expr, $range:expr) => {{
        let default: $type = $default;
        $crate::parameters::check(stringify!($field), $value, &$range, &default, None)
    }};
    (@check $field:ident, $value:ident, $type:ty, $default:expr, $range:expr, $why:literal) => {{
        let default: $type = $default;
        $crate::parameters::check(stringify!($field), $value, &$range, &default, Some($why))
    }};
    (@all $self:ident) => {{
        let _ = $self;
        Ok(())
    }};
    (@all $self:ident, checked) => { $self.check().map_err(|wrong| wrong.to_string()) };
}

/// Declares an enum whose variants have names in files. `[default]` marks the default variant.
#[macro_export]
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $choice:ident {
            $($(#[doc = $doc:literal])+ $variant:ident = $name:literal $([$attribute:ident])?,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        $visibility enum $choice {
            $($(#[doc = $doc])+ $(#[$attribute])? $variant,)+
        }

        impl $choice {
            /// The names in files.
            pub const NAMES: &[&str] = &[$($name),+];

            /// The names in files, each with a sentence about it.
            pub const ABOUT: &[(&str, &str)] =
                &[$(($name, concat!($($doc),+).trim_ascii())),+];

            /// The values with their names in files.
            pub const ALL: &[(&str, Self)] = &[$(($name, Self::$variant)),+];

            /// The name in files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl<'de> $crate::parameters::serde::Deserialize<'de> for $choice {
            fn deserialize<D: $crate::parameters::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                match $crate::parameters::name_of(from, Self::NAMES)? {
                    $($name => Ok(Self::$variant),)+
                    other => Err($crate::parameters::serde::de::Error::unknown_variant(other, Self::NAMES)),
                }
            }
        }

        $crate::value! {
            $choice: $crate::parameters::Form::Choice(Self::ABOUT),
                |it| Some($crate::parameters::Written::Text(it.name().to_owned())),
                <Self as $crate::parameters::serde::Deserialize>::deserialize;
        }
    };
}
