//! Terms of classes: the promises of a scheduler to a class, and the limits of the class.
//!
//! Each term is declared once, with a text and a form. Policy files, their schema, the manual, the API and the
//! commands are made from the declarations. The terms below belong to the link, and several schedulers know
//! them. A scheduler declares further terms in its own file with [`terms!`](crate::terms!).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::Relation;
use crate::class::{ClassId, Terms};
use crate::packet::Direction;
use crate::units::{duration, real};
use crate::{Bytes, Chance, Factor, Rate};

/// A term of classes. Two terms are equal if they have the same name.
#[derive(Clone, Copy)]
pub struct Term(&'static TermDeclaration);

/// The declaration of a term.
#[derive(Debug)]
pub struct TermDeclaration {
    /// Name in policy files, requests, reports and metrics.
    pub name: &'static str,
    /// Text for policy files, which says which classes can have the term, and its default.
    pub about: &'static str,
    /// Form of the values.
    pub form: TermForm,
    /// A file may give one value for each direction. Only rates and times may have such a pair of values.
    pub each_way: bool,
    /// A change of a class may remove the value with "none".
    pub removable: bool,
    /// The term has no effect unless packets are dropped from the shared buffer.
    pub about_drops: bool,
    /// The term belongs to the link. Otherwise only the schedulers that declare the term know it.
    pub of_the_link: bool,
}

/// Forms of the values of terms.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TermForm {
    /// The name of the parent, a queue or a marking. The reader of policy files handles these
    /// values separately.
    Other,
    /// A rate.
    Rate,
    /// A number of bytes.
    Bytes,
    /// A time.
    Duration,
    /// A part of a whole, such as "1 %".
    Chance,
    /// A whole number from the first to the second bound.
    Whole(u32, u32),
    /// The value of this class divided by the value of another class.
    Ratio,
}

impl TermDeclaration {
    /// A term that is the same in both directions, and cannot be removed.
    #[must_use]
    pub const fn new(name: &'static str, about: &'static str, form: TermForm) -> Self {
        Self {
            name,
            about,
            form,
            each_way: false,
            removable: false,
            about_drops: false,
            of_the_link: false,
        }
    }
}

/// Declares the terms of the link.
macro_rules! of_the_link {
    ($($(#[doc = $doc:literal])+ $constant:ident = $name:literal: $form:expr $(, $attribute:ident)*;)+) => {
        impl Term {$(
            $(#[doc = $doc])+
            pub const $constant: Self = Self::declared(&TermDeclaration {
                of_the_link: true,
                $($attribute: true,)*
                ..TermDeclaration::new($name, concat!($($doc),+).trim_ascii(), $form)
            });
        )+}
    };
}

of_the_link! {
    /// The parent class. Default: the link.
    PARENT = "parent": TermForm::Other;
    /// Rate that the class may send regardless of other classes: a rate, or { up, down }. Default:
    /// zero. With `class-tree`, for a class with parts: the sum of their guarantees.
    GUARANTEE = "guarantee": TermForm::Rate, each_way;
    /// Largest rate: a rate, or { up, down }. Default: the ceiling of the parent.
    CEILING = "ceiling": TermForm::Rate, each_way, removable;
    /// Share of the rate beyond the guarantees, relative to classes with the same parent and
    /// priority, from 1 to 65535. Default: 1.
    WEIGHT = "weight": TermForm::Whole(1, Terms::MAX_WEIGHT);
    /// Classes of a higher priority get the rate beyond the guarantees first, among the parts
    /// of the same class: 0 to 7. With `jobs`, their promises are kept first; among classes of
    /// equal priority, the promises of the class that comes first in the file. Default: 0.
    PRIORITY = "priority": TermForm::Whole(0, HIGHEST_PRIORITY);
    /// Most bytes that the class may send at once after a pause. Default: the bytes of 2 ms at the
    /// rate of the class, at least two full-size frames.
    BURST = "burst": TermForm::Bytes;
    /// Longest waiting time of the packets: a time, or { up, down }. With `class-tree`, for packets
    /// that conform to `guarantee` and `burst`, in classes without parts; a bound that cannot be
    /// met is refused. With `jobs`, a bound that cannot be kept is relaxed. Default: no bound.
    DELAY_BOUND = "delay_bound": TermForm::Duration, each_way, removable;
    /// Queue discipline of the class. Default: the queue and marking of the gateway.
    QUEUE = "queue": TermForm::Other;
    /// Marking: marks packets before the queue of the class overflows, as in `[gateway]`. Default:
    /// none if the class has a `queue`.
    MARKING = "marking": TermForm::Other;
}

/// [`Terms::MAX_PRIORITY`] as the bound of a form.
#[expect(clippy::as_conversions, reason = "`u32::from` is not const")]
const HIGHEST_PRIORITY: u32 = Terms::MAX_PRIORITY as u32;

impl Term {
    /// The term with this declaration.
    ///
    /// # Panics
    ///
    /// If a term that is neither a rate nor a time is declared `each_way`. The macros declare terms as constants, so
    /// that such a declaration does not compile.
    #[must_use]
    pub const fn declared(declaration: &'static TermDeclaration) -> Self {
        assert!(
            !declaration.each_way
                || matches!(declaration.form, TermForm::Rate | TermForm::Duration),
            "only rates and times can be `each_way`"
        );
        Self(declaration)
    }

    /// The declaration of the term.
    #[must_use]
    pub const fn declaration(self) -> &'static TermDeclaration {
        self.0
    }

    /// Name in policy files, reports and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns `true` for the terms above, which belong to the link. `false` for terms that a scheduler declares.
    #[must_use]
    pub const fn is_of_the_link(self) -> bool {
        self.0.of_the_link
    }

    /// Form of the values.
    #[must_use]
    pub const fn form(self) -> TermForm {
        self.0.form
    }

    /// Unit of the value in reports.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self.0.form {
            TermForm::Rate => "bit/s",
            TermForm::Duration => "s",
            TermForm::Bytes => "B",
            _ => "",
        }
    }
}

impl PartialEq for Term {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Term {}

impl Ord for Term {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for Term {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A ratio between two classes: the value of this class is `factor` times the value of the class
/// `of`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ratio {
    /// Name of the other class.
    pub of: String,
    /// The factor, above zero.
    pub factor: Factor,
}

/// The value of a term.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TermValue {
    /// A rate.
    Rate(Rate),
    /// A number of bytes.
    Bytes(Bytes),
    /// A time.
    Duration(Duration),
    /// A part of a whole.
    Chance(Chance),
    /// A whole number.
    Whole(u32),
    /// The value of this class divided by the value of another class.
    Ratio(Ratio),
}

impl TermValue {
    /// The value as a number, in the [unit](Term::unit) of its term.
    #[must_use]
    pub fn real(&self) -> f64 {
        match self {
            Self::Rate(rate) => real(rate.bps()),
            Self::Bytes(bytes) => real(bytes.0),
            Self::Duration(time) => time.as_secs_f64(),
            Self::Chance(chance) => chance.real(),
            Self::Whole(number) => f64::from(*number),
            Self::Ratio(ratio) => ratio.factor.real(),
        }
    }
}

impl fmt::Display for TermValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => write!(f, "{rate}"),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Duration(time) => f.write_str(&duration::show(*time)),
            Self::Chance(chance) => write!(f, "{chance}"),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Ratio(Ratio { of, factor }) => write!(f, "{factor} of {of}"),
        }
    }
}

/// A type of the values of terms.
pub trait TermType: Sized {
    /// The type in which a scheduler uses the values.
    type Used;

    /// The form of the values.
    const FORM: TermForm;

    /// The value in the type that the scheduler uses. `find` returns the number of the class that has a given
    /// name. `None` if the value is of another type, or names a class that does not exist.
    fn used(value: &TermValue, find: &dyn Fn(&str) -> Option<ClassId>) -> Option<Self::Used>;
}

/// Implements [`TermType`], and the conversion to a [`TermValue`].
macro_rules! term_types {
    ($($variant:ident($type:ty), $form:expr => $used:ty, |$value:ident, $find:ident| $convert:expr;)+) => {$(
        impl TermType for $type {
            type Used = $used;

            const FORM: TermForm = $form;

            fn used(value: &TermValue, $find: &dyn Fn(&str) -> Option<ClassId>) -> Option<$used> {
                let TermValue::$variant($value) = value else { return None };
                let _ = $find;
                $convert
            }
        }

        impl From<$type> for TermValue {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
    )+};
}

term_types! {
    Rate(Rate), TermForm::Rate => Rate, |value, find| Some(*value);
    Bytes(Bytes), TermForm::Bytes => Bytes, |value, find| Some(*value);
    Duration(Duration), TermForm::Duration => Duration, |value, find| Some(*value);
    Chance(Chance), TermForm::Chance => Chance, |value, find| Some(*value);
    Whole(u32), TermForm::Whole(0, u32::MAX) => u32, |value, find| Some(*value);
    Ratio(Ratio), TermForm::Ratio => Relation,
        |value, find| Some(Relation { of: find(&value.of)?, factor: value.factor });
}

/// Values of terms, up and down. The terms are those that one scheduler has declared for its own classes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TermValues(BTreeMap<Term, [Option<TermValue>; 2]>);

impl TermValues {
    /// Returns `true` if no term has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The terms that have a value.
    pub fn terms(&self) -> impl Iterator<Item = Term> {
        self.0.keys().copied()
    }

    /// The value of `term`, up and down.
    #[must_use]
    pub fn get(&self, term: Term) -> [Option<TermValue>; 2] {
        self.0.get(&term).cloned().unwrap_or_default()
    }

    /// The value of `term` in one direction.
    #[must_use]
    pub fn way(&self, term: Term, direction: Direction) -> Option<&TermValue> {
        self.0.get(&term)?[direction.index()].as_ref()
    }

    /// Sets the value of `term`, up and down.
    pub fn set(&mut self, term: Term, values: [Option<TermValue>; 2]) {
        if values == [None, None] {
            self.0.remove(&term);
        } else {
            self.0.insert(term, values);
        }
    }

    /// The same values, with `value` for `term` in both directions.
    #[must_use]
    pub fn with(mut self, term: Term, value: impl Into<TermValue>) -> Self {
        let value = Some(value.into());
        self.set(term, [value.clone(), value]);
        self
    }

    /// The ratios to other classes in one direction.
    pub fn ratios(&self, direction: Direction) -> impl Iterator<Item = (Term, &Ratio)> {
        self.0.iter().filter_map(move |(term, values)| match &values[direction.index()] {
            Some(TermValue::Ratio(ratio)) => Some((*term, ratio)),
            _ => None,
        })
    }
}

/// The terms of one class in one direction, for the scheduler that has declared them.
#[derive(Clone, Copy)]
pub struct OwnTerms<'a> {
    /// The values.
    pub values: &'a TermValues,
    /// The direction of the scheduler.
    pub direction: Direction,
    /// Returns the number of the class that has a given name.
    pub find: &'a dyn Fn(&str) -> Option<ClassId>,
}

impl OwnTerms<'_> {
    /// The value of `term`, which is of type `T`. `None` if it has no value, or names a class that does not exist.
    #[must_use]
    pub fn get<T: TermType>(&self, term: Term) -> Option<T::Used> {
        T::used(self.values.way(term, self.direction)?, self.find)
    }
}

/// Declares the terms that classes of a scheduler can have.
///
/// `with` lists terms of the link that the scheduler knows. Each line then declares one further term: its text,
/// the name of its constant, its name in files, and its type. A line may end with `each_way` or `about_drops`, as in
/// [`TermDeclaration`].
///
/// The macro makes a struct with the values of one class, and the constant `ALL` with all terms.
///
/// ```
/// use tidegate_core::{Bytes, terms};
///
/// terms! {
///     /// Terms of a scheduler that serves its classes in rounds.
///     pub Rounds, with [GUARANTEE] {
///         /// Most bytes that the class may send in one round. Default: one packet.
///         QUANTUM = quantum: Bytes;
///     }
/// }
///
/// assert_eq!(Rounds::ALL.map(|term| term.name()), ["guarantee", "quantum"]);
/// assert_eq!(Rounds::default().quantum, None);
/// ```
///
/// Only a rate or a time can be `each_way`. For other types, a declaration does not compile:
///
/// ```compile_fail,E0080
/// use tidegate_core::{Bytes, terms};
///
/// terms! {
///     /// Terms of a scheduler that serves its classes in rounds.
///     pub Rounds, with [] {
///         /// Most bytes that the class may send in one round. Default: one packet.
///         QUANTUM = quantum: Bytes, each_way;
///     }
/// }
/// ```
#[macro_export]
macro_rules! terms {
    (
        $(#[$meta:meta])*
        $visibility:vis $terms:ident, with [$($shared:ident),* $(,)?] {
            $(
                $(#[doc = $doc:literal])+
                $constant:ident = $field:ident: $type:ty $(, $attribute:ident)*;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $visibility struct $terms {
            $($(#[doc = $doc])+ pub $field: Option<<$type as $crate::scheduler::TermType>::Used>,)*
        }

        impl $terms {
            /// All terms of the classes of the scheduler.
            pub const ALL: [$crate::scheduler::Term; { $crate::terms!(@count $($shared)* $($constant)*) }] =
                [$($crate::scheduler::Term::$shared,)* $(Self::$constant,)*];

            $(
                $(#[doc = $doc])+
                pub const $constant: $crate::scheduler::Term =
                    $crate::scheduler::Term::declared(&$crate::scheduler::TermDeclaration {
                        removable: true,
                        $($attribute: true,)*
                        ..$crate::scheduler::TermDeclaration::new(
                            stringify!($field),
                            concat!($($doc),+).trim_ascii(),
                            <$type as $crate::scheduler::TermType>::FORM,
                        )
                    });
            )*

            /// The values of one class.
            #[must_use]
            pub fn read(own: &$crate::scheduler::OwnTerms<'_>) -> Self {
                let _ = own;
                Self { $($field: own.get::<$type>(Self::$constant),)* }
            }
        }
    };
    (@count) => { 0 };
    (@count $first:ident $($rest:ident)*) => { 1 + $crate::terms!(@count $($rest)*) };
}
