//! Tests of aggregate connections and distributions in scenario files.

use tidegate_core::{Factor, itcp};
use tidegate_sim::scenario::Overflow;

use super::*;

const AGGREGATE: &str = r#"
[run]
duration = "20 s"
[[host]]
name = "a"
[[host]]
name = "g"
[[host]]
name = "z"
[[link]]
from = "a"
to = "g"
[[link]]
from = "g"
to = "z"
delay = "10 ms"
[[traffic]]
name = "files"
kind = "arrivals"
from = "a"
to = "g"
every = "1 s"
size = { lognormal = { mean = "30 kB", deviation = "60 kB" } }
start = "2 s"
[[traffic]]
name = "bursts"
kind = "on-off"
from = "a"
to = "g"
size = { weibull = { mean = "30 kB", shape = 0.5 } }
off = "1 s"
[[traffic]]
name = "long"
kind = "aggregate"
of = ["files", "bursts"]
from = "g"
to = "z"
overflow = "slow"
queue = "64 MiB"
buffer = "256 KiB"
weight = { kind = "literal", samples = 60, every = "50 ms", most = "connections" }
[[probe]]
kind = "aggregate"
traffic = "long"
"#;

/// Catches: mean and deviation swapped; the shape of another distribution; the limit of the whole
/// queue used as the limit of a single file; parameters of the rate adjuster that are ignored.
#[test]
fn an_aggregate_is_read_with_its_overflow_and_adjuster() {
    let it = scenario(AGGREGATE);
    let Kind::Arrivals { size, .. } = it.traffic[0].kind else { panic!() };
    assert_eq!(size, Distribution::Lognormal(Bytes(30_000), Bytes(60_000)));
    let Kind::OnOff { burst, .. } = it.traffic[1].kind else { panic!() };
    assert_eq!(burst, Distribution::Weibull(Bytes(30_000), 0.5));
    let Kind::Aggregate { of, overflow, weight } = &it.traffic[2].kind else { panic!() };
    let (queue, buffer) = (Bytes(64 << 20), Some(Bytes(256 << 10)));
    assert_eq!(
        (of.join(" ").as_str(), *overflow),
        ("files bursts", Overflow::Slow { queue, buffer })
    );
    let expected = itcp::Config {
        kind: itcp::LawKind::Literal,
        samples: 60,
        every: Duration::from_millis(50),
        most: itcp::Most::Connections,
        ..itcp::Config::default()
    };
    assert_eq!(weight.as_deref(), Some(&expected));
    assert!(matches!(it.probes.as_slice(), [Probe::Aggregate { traffic }] if traffic == "long"));
}

/// Catches: a default limit of the queue, or a default rate adjuster, where none is written; a rate
/// adjuster that is ignored if written as a name without parameters.
#[test]
fn an_aggregate_has_no_limit_by_default_and_its_adjuster_may_be_a_name() {
    let text =
        AGGREGATE.replace("overflow = \"slow\"\nqueue = \"64 MiB\"\nbuffer = \"256 KiB\"\n", "");
    let table = AGGREGATE.lines().find(|line| line.starts_with("weight")).unwrap();
    for (written, kind) in [("", None), ("weight = \"measured\"", Some(itcp::LawKind::Measured))] {
        let it = scenario(&text.replace(table, written));
        let Kind::Aggregate { overflow, weight, .. } = &it.traffic[2].kind else { panic!() };
        assert_eq!(*overflow, Overflow::Grow);
        assert_eq!(
            weight.as_ref().map(|it| (it.kind, it.weight)),
            kind.map(|it| (it, Factor::whole(10)))
        );
    }
}

/// Loads of 60 kB/s and 180 kB/s on a link of 2 Mbit/s are 0.24 and 0.72 of its rate. Each load is
/// raised by the adjuster's parameter `epsilon` = 0.1, so the sum is 1.16. Above 1, the weights may
/// not converge.
///
/// Catches: a sum without `epsilon`, or over a single gateway; loads computed in bytes; the rate of
/// the wrong link.
#[test]
fn loads_with_which_weights_may_not_converge_cause_a_warning() {
    let more = r#"
[[host]]
name = "b"
[[host]]
name = "h"
[[link]]
from = "b"
to = "h"
[[link]]
from = "h"
to = "z"
rate = "2 Mbit/s"
delay = "10 ms"
[[traffic]]
name = "others"
kind = "arrivals"
from = "b"
to = "h"
every = "500 ms"
size = { uniform = ["60 kB", "120 kB"] }
[[traffic]]
name = "long2"
kind = "aggregate"
of = "others"
from = "h"
to = "z"
weight = "literal"
"#;
    let text = AGGREGATE.replace("delay = \"10 ms\"", "delay = \"10 ms\"\nrate = \"2 Mbit/s\"");
    let text = text.replace("every = \"1 s\"", "every = \"500 ms\"");
    let text = text.replace("[\"files\", \"bursts\"]", "\"files\"") + more;
    let said = |text: &str| {
        let (scenario, found) = read(text);
        assert!(scenario.is_some(), "{}", found.render(false));
        found.render(false)
    };
    let all = said(&text);
    assert!(all.contains("warning[TG0064]") && all.contains("add up to 1.16"), "{all}");
    assert_eq!(said(&text.replace("120 kB", "61 kB")), "");
    assert_eq!(said(&text.replace("weight = \"literal\"", "weight = \"measured\"")), "");
}

/// Catches: a rule that is not checked; a message that marks another part of the file.
#[test]
fn each_error_of_an_aggregate_connection_is_reported_at_its_field() {
    let cases = [
        ("of = [\"files\", \"bursts\"]", "of = \"file\"", "TG0064", "earlier traffic `file`"),
        ("of = [\"files\", \"bursts\"]", "of = [\"files\", \"files\"]", "TG0018", "twice"),
        (
            "from = \"g\"\nto = \"z\"\noverflow",
            "from = \"z\"\nto = \"g\"\noverflow",
            "TG0064",
            "end at its sender",
        ),
        ("queue = \"64 MiB\"", "queue = \"0 B\"", "TG0064", "is zero"),
        ("queue = \"64 MiB\"\n", "", "TG0003", "`queue` is missing"),
        ("overflow = \"slow\"", "overflow = \"grow\"", "TG0055", "`buffer` has no meaning"),
        ("every = \"50 ms\"", "every = \"19 ms\"", "TG0064", "shorter than the round-trip time"),
        ("delay = \"10 ms\"\n", "", "TG0064", "the round-trip time is zero"),
        ("overflow = \"slow\"", "overflow = \"fast\"", "TG0008", "fast"),
        ("samples = 60", "samples = 2", "TG0030", "`samples` must be"),
        ("every = \"50 ms\"", "beta = 1", "TG0030", "`beta`"),
        ("kind = \"literal\"", "kind = \"literal\", max_queue = \"0 B\"", "TG0030", "`max_queue`"),
        ("overflow = \"slow\"", "overflow = \"slow\"\nstop = \"3 s\"", "TG0064", "stays open"),
        ("overflow = \"slow\"", "overflow = \"slow\"\nflows = 2", "TG0064", "one flow"),
        ("traffic = \"long\"", "traffic = \"files\"", "", "no aggregate connection"),
        ("shape = 0.5", "shape = 0", "", "the shape is 0.1 to 1000"),
    ];
    for (before, after, code, message) in cases {
        assert!(AGGREGATE.contains(before), "{before}");
        let (scenario, found) = read(&AGGREGATE.replace(before, after));
        let said = found.render(false);
        assert!(
            scenario.is_none() && said.contains(code) && said.contains(message),
            "{after}: {said}"
        );
    }
}
