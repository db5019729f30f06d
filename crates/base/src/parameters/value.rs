//! The types that parameters can have, and their notations in files.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::form::{Form, Written};
use crate::packet::Codepoint;
use crate::units::{self, Quantity};
use crate::{Bytes, Chance, Factor, Rate};

/// A type that parameters can have.
pub trait Value: Sized {
    /// The type of the bounds of a range. For `Option<T>`, this is `T`.
    type Inner: Value;

    /// The notation of the values.
    fn form() -> Form;

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// If the notation is wrong.
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;

    /// The value in the notation of a file. `None` if a file must omit the value.
    fn written(&self) -> Option<Written>;

    /// The value that a range applies to. `None` for an absent value.
    fn inner(&self) -> Option<&Self::Inner>;
}

/// Implements [`Value`] for types other than an `Option`.
#[macro_export]
macro_rules! value {
    ($($type:ty: $form:expr, |$value:ident| $written:expr, $read:expr;)+) => {$(
        impl $crate::parameters::Value for $type {
            type Inner = Self;

            fn form() -> $crate::parameters::Form {
                $form
            }

            fn read<'de, D: $crate::parameters::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $read(from)
            }

            fn written(&self) -> Option<$crate::parameters::Written> {
                let $value = self;
                $written
            }

            fn inner(&self) -> Option<&Self> {
                Some(self)
            }
        }
    )+};
}

value! {
    Bytes: quantity(&units::BYTES), |it| text(it), Self::deserialize;
    Rate: quantity(&units::RATE), |it| text(it), Self::deserialize;
    Chance: quantity(&units::CHANCE), |it| text(it), Self::deserialize;
    Duration: quantity(&units::DURATION), |it| text(&units::duration::show(*it)), units::duration::deserialize;
    Factor: Form::Number, |it| Some(Written::Number(*it)), Self::deserialize;
    bool: Form::Flag, |it| Some(Written::Flag(*it)), Self::deserialize;
    u8: whole(0, Self::MAX), |it| Some(Written::Whole((*it).into())), Self::deserialize;
    u32: whole(0, Self::MAX), |it| Some(Written::Whole((*it).into())), Self::deserialize;
    NonZeroU32: whole(1u32, u32::MAX), |it| Some(Written::Whole(it.get().into())), Self::deserialize;
    Codepoint: codepoint(), |it| Some(codepoint_name(*it)), Self::deserialize;
}

fn quantity(kind: &Quantity) -> Form {
    Form::Quantity(kind.unit_names().collect())
}

fn whole<T: Into<u64>>(least: T, most: T) -> Form {
    Form::Whole(least.into(), most.into())
}

fn text(value: &impl ToString) -> Option<Written> {
    Some(Written::Text(value.to_string()))
}

fn codepoint() -> Form {
    Form::Any(vec![Form::Text, Form::Whole(0, Codepoint::MOST.into())])
}

fn codepoint_name(codepoint: Codepoint) -> Written {
    codepoint.name().map_or_else(
        || Written::Whole(codepoint.number().into()),
        |name| Written::Text(name.to_uppercase()),
    )
}

impl<T: Value> Value for Option<T> {
    type Inner = T::Inner;

    fn form() -> Form {
        T::form()
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::read(from).map(Some)
    }

    fn written(&self) -> Option<Written> {
        self.as_ref().and_then(T::written)
    }

    fn inner(&self) -> Option<&T::Inner> {
        self.as_ref().and_then(T::inner)
    }
}

impl<T: Value + for<'de> Deserialize<'de>> Value for Vec<T> {
    type Inner = Self;

    fn form() -> Form {
        Form::List(Box::new(T::form()))
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::deserialize(from)
    }

    fn written(&self) -> Option<Written> {
        self.iter().map(T::written).collect::<Option<_>>().map(Written::List)
    }

    fn inner(&self) -> Option<&Self> {
        Some(self)
    }
}
