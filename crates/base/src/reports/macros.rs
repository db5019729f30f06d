//! The macro that declares reports.

/// Declares a report.
///
/// Each line has documentation, a name, a type, and after `=>` the metrics and columns that show the
/// field. Further parts of a line, in this order:
/// - `as "NAME"`: the name in JSON, if it differs from the name of the field.
/// - `earlier "NAME"`: JSON has the value also under this earlier name.
/// - `in UNIT`, after the type: the unit of a number, which is a variant of
///   [`ReportValue`](crate::reports::ReportValue).
///
/// A metric is `counter "NAME"` or `gauge "NAME"`, and a column is `column "HEADING"`. The
/// documentation of the field is the help text of its metrics. Further parts of a metric or column,
/// in this order:
/// - `of packets` or `of bytes`: the part of a count that is shown.
/// - `"HELP"`: another help text.
/// - `= |report| VALUE`: another value, as a [`ReportValue`](crate::reports::ReportValue).
///
/// Further words:
/// - `summed` after the name of the struct makes two reports addable. It does not add reports after
///   `flatten`.
/// - `counted` does so for a struct of counters alone, and makes an earlier reading subtractable.
/// - Fields after `flatten` are reports, whose fields are written to the same object.
/// - Fields after `apart` are not in JSON.
///
/// A field that is missing in JSON has its default, because earlier versions of the gateway do not know
/// it. Unknown fields are skipped.
///
/// ```
/// use tidegate_base::report;
/// use tidegate_base::reports::Report;
///
/// report! {
///     /// Counters of a letter box.
///     #[derive(Copy, Eq)]
///     pub Letters, summed {
///         /// Letters that arrived.
///         arrived: u64 => { counter "box_arrived_letters_total", column "arrived" };
///         /// Total time that letters waited.
///         waited_ns: u64, in Nanos => { counter "box_wait_seconds_total" };
///     }
/// }
///
/// let names: Vec<_> = Letters::shown().iter().map(|it| it.name).collect();
/// assert_eq!(names, ["box_arrived_letters_total", "arrived", "box_wait_seconds_total"]);
/// ```
#[macro_export]
macro_rules! report {
    (
        $(#[$meta:meta])*
        $visibility:vis $report:ident $(, $summed:ident)? {
            $(
                $(#[doc = $doc:literal])+
                $field:ident $(as $json:literal)? $(earlier $earlier:literal)?:
                $type:ty $(, in $unit:ident)? $(=> $shown:tt)?;
            )*
        }
        $(flatten { $($(#[doc = $flat_doc:literal])+ $flat:ident: $flat_type:ty;)+ })?
        $(apart { $($(#[doc = $apart_doc:literal])+ $apart:ident: $apart_type:ty;)+ })?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $visibility struct $report {
            $($(#[doc = $doc])+ pub $field: $type,)*
            $($($(#[doc = $flat_doc])+ pub $flat: $flat_type,)+)?
            $($($(#[doc = $apart_doc])+ pub $apart: $apart_type,)+)?
        }

        impl $crate::reports::Report for $report {
            fn write_fields<M: $crate::parameters::serde::ser::SerializeMap>(
                &self,
                object: &mut M,
            ) -> Result<(), M::Error> {
                use $crate::reports::AsJson;
                $(object.serialize_entry(
                    $crate::report!(@name $field $($json)?),
                    &AsJson(&self.$field),
                )?;)*
                $($($crate::reports::Report::write_fields(&self.$flat, object)?;)+)?
                $($(object.serialize_entry($earlier, &AsJson(&self.$field))?;)?)*
                Ok(())
            }

            fn read_field<'de, A: $crate::parameters::serde::de::MapAccess<'de>>(
                &mut self,
                name: &str,
                object: &mut A,
            ) -> Result<bool, A::Error> {
                $(if name == $crate::report!(@name $field $($json)?) $(|| name == $earlier)? {
                    self.$field = object.next_value::<$crate::reports::FromJson<_>>()?.0;
                    return Ok(true);
                })*
                $($(if $crate::reports::Report::read_field(&mut self.$flat, name, object)? {
                    return Ok(true);
                })+)?
                let _ = (name, object);
                Ok(false)
            }

            fn shown() -> Vec<$crate::reports::Shown<Self>> {
                #[allow(unused_mut, reason = "a report may show nothing")]
                let mut all = Vec::new();
                $($crate::report!(@shown all $field [$($doc),+] [$($unit)?] $($shown)?);)*
                all
            }
        }

        impl $crate::parameters::serde::Serialize for $report {
            fn serialize<S: $crate::parameters::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $crate::reports::write(self, to)
            }
        }

        impl<'de> $crate::parameters::serde::Deserialize<'de> for $report {
            fn deserialize<D: $crate::parameters::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::reports::read(from)
            }
        }

        $crate::json_values!($report);
        $crate::report!(@sum [$($summed)?] $report $($field)* $($($apart)+)?);
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $json:literal) => { $json };
    (@shown $all:ident $field:ident $doc:tt $unit:tt) => {};
    (@shown $all:ident $field:ident $doc:tt $unit:tt {
        $($form:ident $name:literal $(of $part:ident)? $($help:literal)? $(= $value:expr)?),+ $(,)?
    }) => {
        $($all.push($crate::reports::Shown {
            form: $crate::report!(@form $form),
            name: $name,
            help: $crate::report!(@help $doc $($help)?),
            value: $crate::report!(@value $field $unit [$($part)?] $($value)?),
        });)+
    };
    (@form counter) => { $crate::reports::ShownAs::Counter };
    (@form gauge) => { $crate::reports::ShownAs::Gauge };
    (@form column) => { $crate::reports::ShownAs::Column };
    (@help [$($doc:literal),+]) => { concat!($($doc),+).trim_ascii() };
    (@help $doc:tt $help:literal) => { $help };
    (@value $field:ident [] []) => {
        |it: &Self| $crate::reports::Quantify::quantity(&it.$field)
    };
    (@value $field:ident [$unit:ident] []) => {
        |it: &Self| $crate::reports::Quantify::quantity(&it.$field).with($crate::reports::ReportValue::$unit)
    };
    (@value $field:ident $unit:tt [$part:ident]) => {
        |it: &Self| $crate::reports::Parts::$part(&it.$field)
    };
    (@value $field:ident $unit:tt [] $value:expr) => {{
        let value: fn(&Self) -> $crate::reports::ReportValue = $value;
        value
    }};
    (@sum [] $report:ident $($field:ident)*) => {};
    (@sum [counted] $report:ident $($field:ident)*) => {
        $crate::report!(@sum [summed] $report $($field)*);

        impl std::ops::Add for $report {
            type Output = Self;

            fn add(mut self, more: Self) -> Self {
                self += more;
                self
            }
        }

        impl std::ops::Sub for $report {
            type Output = Self;

            fn sub(self, before: Self) -> Self {
                Self { $($field: self.$field - before.$field,)* }
            }
        }
    };
    (@sum [summed] $report:ident $($field:ident)*) => {
        impl std::ops::AddAssign for $report {
            fn add_assign(&mut self, more: Self) {
                $(self.$field += more.$field;)*
            }
        }
    };
}
