//! Filters in policy files. Each field of a filter is a value or a list of values.

use std::marker::PhantomData;

use serde_json::{Value, json};
use tidegate_core::packet::{NO_VLAN, Protocol};
use tidegate_gateway::policy::parse::{self, FieldError};
use tidegate_gateway::policy::{Filter, Range};
use toml::Spanned;
use toml::de::DeValue;

use super::raw;
use crate::added::Mechanisms;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::read::{List, Node, Read, wrong_type};

/// One value of a filter field, as text: a name, a number or a range.
#[derive(Clone, Debug)]
pub struct Token<K>(pub String, PhantomData<K>);

/// The kind of values in a filter field: addresses, ports, protocols, codepoints or VLANs.
pub trait TokenKind {
    /// The type of a single value.
    type Number: Copy + Ord;
    /// The code of the error for an invalid value.
    const CODE: Code;

    /// The values that `text` means, as ranges. An IPv6 range that contains the IPv4-mapped
    /// addresses is split around them. All other values are a single range.
    ///
    /// # Errors
    ///
    /// If `text` is not a value of this kind.
    fn parse(text: &str) -> Result<Vec<Range<Self::Number>>, FieldError>;

    /// The canonical form of the range from `first` to `last`.
    fn show(first: Self::Number, last: Self::Number) -> toml::Value;
}

/// Declares kinds of filter fields: their numbers, code, parser and canonical form.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident: $number:ty, $code:ident, $parse:expr, $show:expr;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug)]
        pub struct $kind;

        impl TokenKind for $kind {
            type Number = $number;
            const CODE: Code = Code::$code;

            fn parse(text: &str) -> Result<Vec<Range<$number>>, FieldError> {
                $parse(text)
            }

            fn show(first: $number, last: $number) -> toml::Value {
                $show(first, last)
            }
        }
    )+};
}

kinds! {
    /// Addresses, prefixes and ranges of addresses.
    Addresses: u128, BadAddress, parse::addresses, |first, last| {
        parse::show_addresses(&Range { first, last }).into()
    };
    /// Ports of TCP and UDP.
    Ports: u16, BadPort, single(parse::ports), numbers;
    /// IP protocols.
    Protocols: u8, BadProtocol, single(parse::protocol), numbers;
    /// DS codepoints.
    Codepoints: u8, BadDscp, single(parse::dscp), numbers;
    /// VLAN identifiers.
    Vlans: u16, BadVlan, single(vlans), |first, last| match first {
        NO_VLAN => NO_TAG.into(),
        _ => numbers(first, last),
    };
}

/// A range of a single number is written as a number, any other range as text.
fn numbers<T: Copy + Into<i64> + PartialEq>(first: T, last: T) -> toml::Value {
    let (from, to): (i64, i64) = (first.into(), last.into());
    if first == last { from.into() } else { format!("{from}-{to}").into() }
}

/// Wraps a parser that returns a single range.
fn single<T>(
    parse: impl Fn(&str) -> Result<Range<T>, FieldError>,
) -> impl Fn(&str) -> Result<Vec<Range<T>>, FieldError> {
    move |text| parse(text).map(|range| vec![range])
}

/// Parses VLAN identifiers, or `none` for frames without a tag.
fn vlans(text: &str) -> Result<Range<u16>, FieldError> {
    match text.trim() {
        NO_TAG => Ok(Range { first: NO_VLAN, last: NO_VLAN }),
        text => parse::vlans(text),
    }
}

/// The name that means frames without a VLAN tag.
const NO_TAG: &str = "none";

impl<K: TokenKind> Read for Token<K> {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let text = text(node);
        if text.is_none() {
            found.push(wrong_type(node, "a string in quotes or a decimal number"));
        }
        text.map(|text| Self(text, PhantomData))
    }

    fn schema(_: &Mechanisms) -> Value {
        json!({ "type": ["string", "integer"] })
    }

    fn canonical(node: &Node<'_>, _: &Mechanisms) -> toml::Value {
        let ranges = text(node).and_then(|text| K::parse(&text).ok()).unwrap_or_default();
        match (ranges.first(), ranges.last()) {
            (Some(low), Some(high)) => K::show(low.first, high.last),
            _ => crate::canonical::verbatim(node),
        }
    }

    /// The list in canonical form: sorted, without duplicates.
    fn canonical_list(nodes: &[Node<'_>], _: &Mechanisms) -> Vec<toml::Value> {
        let ranges = |node: &Node<'_>| K::parse(&text(node)?).ok();
        let ends =
            |ranges: Vec<Range<K::Number>>| Some((ranges.first()?.first, ranges.last()?.last));
        let mut all: Vec<_> = nodes.iter().filter_map(ranges).filter_map(ends).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().map(|(first, last)| K::show(first, last)).collect()
    }
}

/// The text of a value; a decimal number is also accepted.
fn text(node: &Node<'_>) -> Option<String> {
    match node.get_ref() {
        DeValue::String(text) => Some(text.as_ref().to_owned()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        _ => None,
    }
}

/// Compiles `raw` into a filter.
pub(super) fn filter(raw: &raw::Match, found: &mut Findings) -> Option<Filter> {
    ports_fit(raw, found);
    let src = ranges(raw.src.as_ref(), found);
    let dst = ranges(raw.dst.as_ref(), found);
    let src_port = ranges(raw.src_port.as_ref(), found);
    let dst_port = ranges(raw.dst_port.as_ref(), found);
    let protocol = ranges(raw.protocol.as_ref(), found);
    let dscp = ranges(raw.dscp.as_ref(), found);
    let [vlan, inner_vlan] = tags(raw.vlan.as_ref(), found);
    Some(Filter {
        src: src?,
        dst: dst?,
        src_port: src_port?,
        dst_port: dst_port?,
        protocol: protocol?,
        dscp: dscp?,
        vlan: vlan?,
        inner_vlan: inner_vlan?,
        direction: raw.direction.as_ref().map(|it| *it.get_ref()),
        inner: raw.inner.as_ref().is_some_and(|it| it.get_ref().0),
    })
}

/// The VLAN identifiers of the outermost and of the second tag.
fn tags(tags: Option<&Spanned<raw::Tags>>, found: &mut Findings) -> [Option<Vec<Range<u16>>>; 2] {
    let Some(tags) = tags else { return [const { Some(Vec::new()) }; 2] };
    let raw::TwoTags { outer, inner } = &tags.get_ref().0;
    [outer, inner].map(|tag| ranges(tag.as_ref(), found))
}

/// The values of a field as ranges, sorted. The order in the file has no meaning, so reordering
/// must not look like a change.
fn ranges<K: TokenKind>(
    list: Option<&Spanned<List<Token<K>>>>,
    found: &mut Findings,
) -> Option<Vec<Range<K::Number>>> {
    let tokens = list.map_or(&[][..], |list| &list.get_ref().0);
    let values: Vec<_> = tokens.iter().map(|token| value(token, found)).collect();
    let values: Option<Vec<_>> = values.into_iter().collect();
    let mut ranges: Vec<_> = values?.into_iter().flatten().collect();
    ranges.sort_unstable_by_key(|range| (range.first, range.last));
    ranges.dedup_by_key(|range| (range.first, range.last));
    Some(ranges)
}

/// The values of `token`.
fn value<K: TokenKind>(
    token: &Spanned<Token<K>>,
    found: &mut Findings,
) -> Option<Vec<Range<K::Number>>> {
    let wrong = |error: FieldError| {
        let code = match error {
            FieldError::HostBits { .. } => Code::HostBits,
            FieldError::Backwards { .. } => Code::BadRange,
            _ => K::CODE,
        };
        found.push(Diagnostic::worded(code, token.span(), &error.to_string()));
    };
    K::parse(&token.get_ref().0).map_err(wrong).ok()
}

/// A DS codepoint.
pub fn codepoint(token: &Spanned<Token<Codepoints>>, found: &mut Findings) -> Option<u8> {
    value(token, found)?.first().map(|range| range.first)
}

/// Reports a filter with ports whose protocol has no ports.
fn ports_fit(raw: &raw::Match, found: &mut Findings) {
    let ports = raw.src_port.as_ref().or(raw.dst_port.as_ref());
    let (Some(ports), Some(listed)) = (ports, &raw.protocol) else { return };
    let has_ports = |it: Range<u8>| [Protocol::TCP, Protocol::UDP].contains(&Protocol(it.first));
    let without = |token: &&Spanned<Token<Protocols>>| {
        parse::protocol(&token.get_ref().0).is_ok_and(|protocol| !has_ports(protocol))
    };
    for place in listed.get_ref().0.iter().filter(without) {
        let message = format!("`{}` has no ports", place.get_ref().0);
        found.push(
            Diagnostic::error(Code::PortsWithoutProtocol, ports.span(), message)
                .other(place.span(), "the protocol"),
        );
    }
}
