//! The terms of a class in a policy file, such as `guarantee` or `delay_bound`. Schedulers declare
//! them.
//!
//! The scheduler decides which terms a class can have, but is written in another table. So this
//! module reads the terms of all schedulers, also of schedulers that other crates have added. The compiler of classes then refuses terms that the
//! chosen scheduler does not have.

use std::marker::PhantomData;

use serde_json::Value;
use tidegate_core::scheduler::{Term, TermForm, TermValue};
use tidegate_core::{Bytes, Chance, Rate};
use toml::de::DeTable;

use super::each_way::EachWay;
use super::raw::Ratio;
use crate::added::Mechanisms;
use crate::diagnostic::{Findings, Span};
use crate::read::{Fields, Node, Number, Read, Table, TableSchema};
use crate::values::Period;

/// The terms that a class has in the file.
#[derive(Clone, Debug)]
pub(crate) struct ClassTerms(pub(crate) Vec<WrittenTerm>);

/// A term that a class has in the file.
#[derive(Clone, Debug)]
pub(crate) struct WrittenTerm {
    pub(crate) term: Term,
    pub(crate) span: Span,
    pub(crate) value: WrittenValue,
}

/// The value of a term in the file.
#[derive(Clone, Debug)]
pub(crate) enum WrittenValue {
    /// The values, up and down.
    Values([Option<TermValue>; 2]),
    /// A number whose range is not checked yet.
    Number(Number),
    /// The value is not complete. The errors have been reported.
    Wrong,
}

impl ClassTerms {
    /// The position of `term`, if the file has it.
    pub(crate) fn span(&self, term: Term) -> Option<Span> {
        self.0.iter().find(|written| written.term == term).map(|written| written.span.clone())
    }
}

/// The terms that this module reads: all except the parent, the queue and the marking.
fn readable(added: &Mechanisms) -> impl Iterator<Item = Term> {
    added.terms().into_iter().filter(|term| term.form() != TermForm::Other)
}

impl Fields for ClassTerms {
    fn keys(added: &Mechanisms) -> Vec<&'static str> {
        readable(added).map(Term::name).collect()
    }

    fn has(name: &str, added: &Mechanisms) -> bool {
        readable(added).any(|term| term.name() == name)
    }

    fn take(table: &Table<'_>, found: &mut Findings) -> Self {
        let mut written = Vec::new();
        for term in readable(&found.added()) {
            let Some(node) = table.node(term.name()) else { continue };
            let value = reader(term).read(node, found);
            written.extend(value.map(|value| WrittenTerm { term, span: node.span(), value }));
        }
        Self(written)
    }

    fn describe(into: &mut TableSchema, added: &Mechanisms) {
        for term in readable(added) {
            into.add(term.name(), term.declaration().about, reader(term).schema(added));
        }
    }

    fn canonical(table: &DeTable<'_>, into: &mut toml::Table, added: &Mechanisms) {
        for term in readable(added) {
            let node = table.get(term.name());
            into.extend(
                node.map(|node| (term.name().to_owned(), reader(term).canonical(node, added))),
            );
        }
    }
}

/// The reader of the values of `term`.
fn reader(term: Term) -> &'static dyn TermReader {
    match (term.form(), term.declaration().each_way) {
        (TermForm::Rate, true) => &Reads::<EachWay<Rate>>(PhantomData),
        (TermForm::Rate, false) => &Reads::<Rate>(PhantomData),
        (TermForm::Duration, true) => &Reads::<EachWay<Period>>(PhantomData),
        (TermForm::Duration, false) => &Reads::<Period>(PhantomData),
        (TermForm::Bytes, _) => &Reads::<Bytes>(PhantomData),
        (TermForm::Chance, _) => &Reads::<Chance>(PhantomData),
        (TermForm::Ratio, _) => &Reads::<Ratio>(PhantomData),
        (TermForm::Whole(..) | TermForm::Other, _) => &Reads::<Number>(PhantomData),
    }
}

/// Reads the values of a term.
trait TermReader {
    fn read(&self, node: &Node<'_>, found: &mut Findings) -> Option<WrittenValue>;
    fn schema(&self, added: &Mechanisms) -> Value;
    fn canonical(&self, node: &Node<'_>, added: &Mechanisms) -> toml::Value;
}

/// Reads values of type `T`.
struct Reads<T>(PhantomData<T>);

impl<T: Read + Into<WrittenValue>> TermReader for Reads<T> {
    fn read(&self, node: &Node<'_>, found: &mut Findings) -> Option<WrittenValue> {
        T::read(node, found).map(T::into)
    }

    fn schema(&self, added: &Mechanisms) -> Value {
        T::schema(added)
    }

    fn canonical(&self, node: &Node<'_>, added: &Mechanisms) -> toml::Value {
        T::canonical(node, added)
    }
}

/// The same value in both directions.
fn both(value: impl Into<TermValue>) -> WrittenValue {
    let value = Some(value.into());
    WrittenValue::Values([value.clone(), value])
}

impl From<Rate> for WrittenValue {
    fn from(rate: Rate) -> Self {
        both(rate)
    }
}

impl From<Bytes> for WrittenValue {
    fn from(bytes: Bytes) -> Self {
        both(bytes)
    }
}

impl From<Chance> for WrittenValue {
    fn from(chance: Chance) -> Self {
        both(chance)
    }
}

impl From<Period> for WrittenValue {
    fn from(Period(time): Period) -> Self {
        both(time)
    }
}

impl From<EachWay<Rate>> for WrittenValue {
    fn from(EachWay(ways): EachWay<Rate>) -> Self {
        Self::Values(ways.map(|rate| rate.map(TermValue::Rate)))
    }
}

impl From<EachWay<Period>> for WrittenValue {
    fn from(EachWay(ways): EachWay<Period>) -> Self {
        Self::Values(ways.map(|time| time.map(|Period(time)| TermValue::Duration(time))))
    }
}

impl From<Number> for WrittenValue {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

impl From<Ratio> for WrittenValue {
    fn from(ratio: Ratio) -> Self {
        let (Some(of), Some(factor)) = (ratio.of.get(), ratio.factor.get()) else {
            return Self::Wrong;
        };
        let of = of.get_ref().clone();
        both(tidegate_core::scheduler::Ratio { of, factor: *factor.get_ref() })
    }
}
