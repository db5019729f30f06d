//! Filters as they are written: each field a value or a list of values.

use tidegate_core::packet::{NO_VLAN, Protocol};
use tidegate_core::policy::parse::{self, FieldError};
use tidegate_core::policy::{Filter, Range};
use toml::Spanned;

use super::raw;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::read::{List, Token};

/// `raw` as a filter.
pub(super) fn filter(raw: &raw::Match, found: &mut Findings) -> Option<Filter> {
    ports_fit(raw, found);
    let src = ranges(raw.src.as_ref(), Code::BadAddress, parse::addresses, found);
    let dst = ranges(raw.dst.as_ref(), Code::BadAddress, parse::addresses, found);
    let ports = one(parse::ports);
    let src_port = ranges(raw.src_port.as_ref(), Code::BadPort, &ports, found);
    let dst_port = ranges(raw.dst_port.as_ref(), Code::BadPort, &ports, found);
    let protocol = ranges(raw.protocol.as_ref(), Code::BadProtocol, one(parse::protocol), found);
    let dscp = ranges(raw.dscp.as_ref(), Code::BadDscp, one(parse::dscp), found);
    let vlan = ranges(raw.vlan.as_ref(), Code::BadVlan, one(vlans), found);
    Some(Filter {
        src: src?,
        dst: dst?,
        src_port: src_port?,
        dst_port: dst_port?,
        protocol: protocol?,
        dscp: dscp?,
        vlan: vlan?,
        direction: raw.direction.as_ref().map(|it| *it.get_ref()),
    })
}

/// `parse`, whose values are always one range.
fn one<T>(
    parse: impl Fn(&str) -> Result<Range<T>, FieldError>,
) -> impl Fn(&str) -> Result<Vec<Range<T>>, FieldError> {
    move |text| parse(text).map(|range| vec![range])
}

/// Every value of a field, in its order.
fn ranges<T>(
    list: Option<&Spanned<List<Token>>>,
    code: Code,
    parse: impl Fn(&str) -> Result<Vec<Range<T>>, FieldError>,
    found: &mut Findings,
) -> Option<Vec<Range<T>>> {
    let tokens = list.map_or(&[][..], |list| &list.get_ref().0);
    let values: Vec<_> = tokens.iter().map(|token| value(token, code, &parse, found)).collect();
    let values: Option<Vec<_>> = values.into_iter().collect();
    values.map(|values| values.into_iter().flatten().collect())
}

/// What `token` stands for; `code` if it stands for nothing.
fn value<T>(
    token: &Spanned<Token>,
    code: Code,
    parse: impl Fn(&str) -> Result<T, FieldError>,
    found: &mut Findings,
) -> Option<T> {
    let wrong = |error: FieldError| {
        let code = match error {
            FieldError::HostBits { .. } => Code::HostBits,
            FieldError::Backwards { .. } => Code::BadRange,
            _ => code,
        };
        found.push(Diagnostic::worded(code, token.span(), &error.to_string()));
    };
    parse(&token.get_ref().0).map_err(wrong).ok()
}

/// A DS codepoint.
pub(crate) fn codepoint(token: &Spanned<Token>, found: &mut Findings) -> Option<u8> {
    value(token, Code::BadDscp, parse::dscp, found).map(|range| range.first)
}

/// VLAN identifiers, or that there is none.
fn vlans(text: &str) -> Result<Range<u16>, FieldError> {
    match text.trim() {
        "none" => Ok(Range { first: NO_VLAN, last: NO_VLAN }),
        text => parse::vlans(text),
    }
}

/// Complains of ports that a protocol listed beside them does not have.
fn ports_fit(raw: &raw::Match, found: &mut Findings) {
    let ports = raw.src_port.as_ref().or(raw.dst_port.as_ref());
    let (Some(ports), Some(listed)) = (ports, &raw.protocol) else { return };
    let has_ports = |it: Range<u8>| [Protocol::TCP, Protocol::UDP].contains(&Protocol(it.first));
    let without = |token: &&Spanned<Token>| {
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
