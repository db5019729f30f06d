//! Converts errors that the simulator finds in a scenario to findings about the file.

use tidegate_core::Factor;
use tidegate_sim::Scenario;
use tidegate_sim::scenario::{Kind, NodeKind, Place, Problem, What};
use toml::de::DeTable;

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings, Span};
use crate::field;
use crate::topology::compile::rows;
use crate::topology::raw::File;

/// Adds all errors of `scenario` to `found`. `document` is the file from which it was compiled.
pub(super) fn report(
    scenario: &Scenario,
    file: &File,
    document: &DeTable<'_>,
    found: &mut Findings,
) {
    for problem in scenario.check() {
        let path = path(&problem.place, scenario, file);
        let place = exact(document, &path, &problem.what);
        let code = code(&problem, scenario);
        found.push(Diagnostic::worded(code, place, &problem.what.to_string()));
    }
    if !found.has_errors() {
        demands(scenario, document, found);
    }
}

/// Warns of loads with which the weights of the rate adjuster `literal` may not converge.
fn demands(scenario: &Scenario, document: &DeTable<'_>, found: &mut Findings) {
    for demand in scenario.demands().iter().filter(|it| it.sum >= Factor::ONE) {
        let path = format!("traffic[{}].weight", demand.traffic);
        let message = format!(
            "loads and `epsilon` of all gateways add up to {}, so the weights need not converge",
            demand.sum
        );
        let help = "keep the sum of load and `epsilon` over the gateways of the receiver below 1";
        let warning =
            Diagnostic::warning(Code::BadAggregate, field::place(document, &path), message);
        found.push(warning.help(help));
    }
}

/// The path in the file of a field of the scenario, such as `link[2].rate`.
fn path(place: &Place, scenario: &Scenario, file: &File) -> String {
    match *place {
        Place::Run(field) => format!("run.{field}"),
        Place::Node(number, field) => node(number, field, scenario),
        Place::Link(number, field) => {
            // A link without a `[[link]]` table connects a host or a gateway automatically, so the
            // message marks the `[[host]]` tables.
            if number >= rows(file.links.as_ref()).len() {
                return "host".to_owned();
            }
            let field = match field {
                "a" => "from",
                "b" => "to",
                field => field,
            };
            format!("link[{number}].{field}")
        }
        Place::Traffic(number, field) => {
            let field = match field {
                "pairs" => "from",
                "burst" | "answer" => "size",
                "pause" => "off",
                "writes" | "packets" => "trace",
                field => field,
            };
            format!("traffic[{number}].{field}")
        }
        Place::Probe(_, "sample") => "run.sample".to_owned(),
        Place::Probe(number, "link") => format!("probe[{number}].from"),
        Place::Probe(number, field) => format!("probe[{number}].{field}"),
        Place::Change(number, "link") => format!("change[{number}].from"),
        Place::Change(number, field) => format!("change[{number}].{field}"),
    }
}

/// The path of a field of node `number`. The scenario numbers hosts first, then routers, then
/// gateways, then the network of `[[route]]`; the file numbers each kind separately.
fn node(number: usize, field: &str, scenario: &Scenario) -> String {
    let kind = |at: usize| scenario.nodes.get(at).map(|it| &it.kind);
    let table = match kind(number) {
        Some(NodeKind::Host(_)) | None => "host",
        Some(NodeKind::Router) => "router",
        Some(NodeKind::Gateway(_)) => "gateway",
        Some(NodeKind::Cloud(_)) => return "route".to_owned(),
    };
    let alike = |at: &usize| {
        let (a, b) =
            (kind(*at).map(std::mem::discriminant), kind(number).map(std::mem::discriminant));
        a == b
    };
    let number = (0..number).filter(alike).count();
    match (table, field) {
        ("host", "addresses") => format!("host[{number}].address"),
        ("gateway", "packets" | "rate" | "trunk") => format!("gateway[{number}].inline"),
        (table, field) => format!("{table}[{number}].{field}"),
    }
}

/// The position of the field at `path`. If the field is a list, the position of its wrong entry.
fn exact(document: &DeTable<'_>, path: &str, what: &What) -> Span {
    let (What::Loop(name)
    | What::Unknown { name, .. }
    | What::Twice(name)
    | What::NoRoute { to: name, .. }) = what
    else {
        return field::place(document, path);
    };
    field::item(document, path, name)
}

fn code(problem: &Problem, scenario: &Scenario) -> Code {
    let is_aggregate = |n: usize| matches!(&scenario.traffic[n].kind, Kind::Aggregate { .. });
    match (&problem.what, problem.place) {
        (What::NoName, _) => Code::BadName,
        (What::Twice(_), Place::Node(_, "addresses")) => Code::BadAddress,
        (What::Twice(_), _) => Code::DuplicateName,
        (What::Aggregate(_), _) => Code::BadAggregate,
        (_, Place::Traffic(n, "of" | "buffer" | "queue")) if is_aggregate(n) => Code::BadAggregate,
        (What::Relay(_), _) | (_, Place::Traffic(_, "of" | "buffer")) => Code::BadRelay,
        (What::Unknown { .. }, Place::Probe(..)) => Code::BadProbe,
        (What::Unknown { .. }, Place::Change(..)) => Code::BadChange,
        (What::Unknown { .. } | What::NoSuchSide { .. }, _) => Code::UnknownNode,
        (What::SecondLink(_), _) => Code::SecondLink,
        (What::Loop(_), Place::Traffic(..)) => Code::ToItself,
        (What::Loop(_), _) => Code::LinkToItself,
        (What::NoRoute { .. }, _) => Code::NoWay,
        (What::Zero(_) | What::Contradiction(_), Place::Run(_)) => Code::BadRun,
        (
            What::Zero(_),
            Place::Node(_, "rate")
            | Place::Link(_, "rate")
            | Place::Traffic(_, "rate")
            | Place::Change(_, "rate"),
        ) => Code::ZeroRate,
        (_, Place::Traffic(_, "writes")) => Code::BadTrace,
        (What::Contradiction(_), Place::Traffic(_, "packets")) => Code::BadTrace,
        (_, Place::Traffic(_, "packet" | "packets")) => Code::BadPacketSize,
        (_, Place::Traffic(_, "stop" | "start") | Place::Change(_, "at")) => Code::BadTime,
        (What::Contradiction(_), Place::Change(..)) => Code::BadChange,
        (_, Place::Probe(..)) => Code::BadProbe,
        (
            _,
            Place::Traffic(
                _,
                "size" | "burst" | "answer" | "request" | "think" | "pause" | "on" | "off",
            ),
        ) => Code::BadDraw,
        (What::OutOfRange { .. }, _) => Code::TooMuch,
        _ => Code::OutOfRange,
    }
}
