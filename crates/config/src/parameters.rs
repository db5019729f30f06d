//! What the parameters of mechanisms and of links are, what they are where nothing is written, and their range.

mod adjuster;
pub(crate) mod left;

use serde_json::{Map, Value};

use adjuster::ADJUSTER;

/// A parameter: its name, what it is, and the rest of its JSON Schema.
type Parameter = (&'static str, &'static str, &'static str);

/// Adds what is known of the parameters of the mechanism `name` to the `properties` of its table.
pub(crate) fn describe(name: &str, properties: &mut Map<String, Value>) {
    for (field, about, schema) in of(name) {
        let Some(property) = properties.get_mut(*field) else { continue };
        property["description"] = Value::from(*about);
        if let Ok(Value::Object(schema)) = serde_json::from_str(schema) {
            schema.into_iter().for_each(|(keyword, value)| property[keyword] = value);
        }
        if let Some(inner) = property.get_mut("properties").and_then(Value::as_object_mut) {
            describe(field, inner);
        }
    }
}

/// The parameters of the mechanism called `name`: a queue discipline, an allocation, an ACK control,
/// a congestion control, or the jitter or loss of a link.
fn of(name: &str) -> &'static [Parameter] {
    MECHANISMS.iter().find(|(known, _)| *known == name).map_or(&[], |(_, parameters)| parameters)
}

const LIMIT: &str = "Most bytes that may wait, as frames.";
const ECN: &str = "ECN-capable packets are marked in place of being dropped.";
const MEASURE: &str = "Whether the queue is measured in bytes or in packets.";
const BY_SIZE: &str = "Longer packets are likelier to be hit.";
const EVERY: &str = "How often the probability is computed.";
const MARK_UP_TO: &str =
    "ECN-capable packets are marked only while the probability is at most this; beyond, dropped.";
const INTERVAL: &str = "For how long packets may wait longer: the longest usual round-trip time; more than `target`, with which it grows.";
const AFTER_LOSS: &str = "What is left of the window after a loss or an echo.";
const GAMMA: &str = "Slow start ends when so many segments are queued.";
const PLACEMENT: &str = "Before or behind the bottleneck.";

const TRACKER: &str = "How the window and the round trips of a flow are estimated.";
const COUNTED_OVER: &str = "Time over which bytes are counted; not zero.";
const STAGES: &str = "Stages of the filter.";
const BUCKETS: &str = "Counters of a stage of the filter.";
const K: &str = "A gap of more than `RTT / k` between packets ends a round. The tracker `two-way` uses it only while it has seen no ACK. Default: 10.";
const A: &str = "Weight of the old round-trip time against a new sample. Default: 0.9.";

const YES: &str = r#"{"default":true}"#;
const NO: &str = r#"{"default":false}"#;
const BYTES: &str = r#"{"default":"bytes"}"#;
const FRAME: &str = r#"{"default":"1514 B"}"#;
const AUTO: &str = r#"{"default":"auto"}"#;
const ONE: &str = r#"{"default":1,"minimum":0}"#;
/// A part of a whole.
const HALF: &str = r#"{"default":0.5,"minimum":0,"maximum":1}"#;
const MOST: &str = r#"{"default":0.7,"minimum":0,"maximum":1}"#;

const MECHANISMS: &[(&str, &[Parameter])] = &[
    ("fixed", ADJUSTER),
    ("literal", ADJUSTER),
    ("measured", ADJUSTER),
    ("proportional", ADJUSTER),
    (
        "jobs",
        &[
            (
                "victim",
                "How a full buffer finds the class that is furthest below its loss bound; \"ns2\" takes the last \
             backlogged class, as a fault in ns-2 does, for comparison.",
                r#"{"default":"furthest"}"#,
            ),
            (
                "output",
                "When the theoretical output of a class grows: \"continuous\", whenever the link sends, or at the \
             \"arrivals\" of the class, as in the authors' code, for comparison.",
                r#"{"default":"continuous"}"#,
            ),
        ],
    ),
    ("drop-tail", &[("limit", LIMIT, r#"{"default":"1 MiB"}"#)]),
    (
        "per-flow",
        &[
            ("limit", LIMIT, r#"{"default":"4 MiB"}"#),
            (
                "flow_limit",
                "Most bytes of one flow that may wait, as frames; a single packet always may. Default: 1 s of \
                 the rate, at most 256 KiB; with a `marking`, `limit`.",
                "{}",
            ),
        ],
    ),
    (
        "sparing",
        &[
            ("limit", LIMIT, r#"{"default":"150 kB"}"#),
            (
                "threshold",
                "What is to wait at most, most of the time; at most `limit`.",
                r#"{"default":"50 kB"}"#,
            ),
        ],
    ),
    (
        "reference",
        &[
            ("tracker", TRACKER, r#"{"default":"two-way"}"#),
            ("k", K, r#"{"minimum":1}"#),
            ("a", A, r#"{"minimum":0,"maximum":1}"#),
            (
                "rounds",
                "Rounds of a flow that are projected at most, up to the longest round trip; 1 as in the paper.",
                r#"{"default":4,"minimum":1,"maximum":8}"#,
            ),
            (
                "interval",
                "Time over which the rate of untracked traffic is measured; not zero.",
                r#"{"default":"1 s"}"#,
            ),
        ],
    ),
    (
        "heuristic",
        &[
            ("tracker", TRACKER, r#"{"default":"two-way"}"#),
            ("k", K, r#"{"minimum":1}"#),
            ("a", A, r#"{"minimum":0,"maximum":1}"#),
            ("interval", COUNTED_OVER, r#"{"default":"1 s"}"#),
            (
                "threshold",
                "A flow passes the filter after so many bytes in an interval, or earlier; not zero.",
                r#"{"default":"12500 B"}"#,
            ),
            ("stages", STAGES, r#"{"default":3,"minimum":1,"maximum":16}"#),
            ("buckets", BUCKETS, r#"{"default":8,"minimum":1,"maximum":1048576}"#),
            (
                "rounds",
                "The rounds of a flow that are projected: one in each round trip, or the next, as in the paper.",
                r#"{"default":"all","enum":["all","next"]}"#,
            ),
        ],
    ),
    (
        "coverage",
        &[
            ("tracker", TRACKER, r#"{"default":"two-way"}"#),
            ("k", K, r#"{"minimum":1}"#),
            ("a", A, r#"{"minimum":0,"maximum":1}"#),
            ("interval", COUNTED_OVER, r#"{"default":"1 s"}"#),
            (
                "threshold",
                "A flow is tracked after so many bytes in the first interval, or earlier; not zero. It \
                 then follows the traffic.",
                r#"{"default":"12500 B"}"#,
            ),
            ("stages", STAGES, r#"{"default":4,"minimum":1}"#),
            ("buckets", BUCKETS, r#"{"default":4096,"minimum":1}"#),
        ],
    ),
    (
        "paper",
        &[
            ("k", K, r#"{"default":10,"minimum":1}"#),
            ("a", A, r#"{"default":0.9,"minimum":0,"maximum":1}"#),
        ],
    ),
    (
        "two-way",
        &[
            ("k", K, r#"{"default":10,"minimum":1}"#),
            ("a", A, r#"{"default":0.9,"minimum":0,"maximum":1}"#),
        ],
    ),
    (
        "paper+idle",
        &[
            ("k", K, r#"{"default":10,"minimum":1}"#),
            ("a", A, r#"{"default":0.9,"minimum":0,"maximum":1}"#),
        ],
    ),
    (
        "trunk-fifo",
        &[
            ("limit", LIMIT, r#"{"default":"1 MiB"}"#),
            (
                "threshold",
                "Most management packets that may wait: eight for each connection expected at once.",
                r#"{"default":64,"minimum":1}"#,
            ),
            ("early", "From half of `threshold` on, some are dropped or marked already.", YES),
        ],
    ),
    (
        "red",
        &[
            ("limit", LIMIT, r#"{"default":"400 kB"}"#),
            ("min", "Average length below which nothing is hit.", r#"{"default":"30 kB"}"#),
            (
                "max",
                "Average length at which packets are hit with probability `max_p`; more than `min`.",
                r#"{"default":"90 kB"}"#,
            ),
            ("max_p", "Probability of being hit at an average of `max`.", r#"{"default":"10 %"}"#),
            (
                "weight",
                "What the length at each arrival weighs in the average.",
                r#"{"default":"0.2 %"}"#,
            ),
            (
                "gentle",
                "Above `max` the probability rises to 1 at twice `max`; if not, it is 1 there at once.",
                YES,
            ),
            (
                "wait",
                "At least 1/p packets between two hits, and less than 2/p; if not, less than 1/p.",
                NO,
            ),
            ("ecn", ECN, YES),
            ("mark_up_to", MARK_UP_TO, r#"{"default":"100 %"}"#),
            ("measure", MEASURE, BYTES),
            (
                "packet",
                "Size of a typical packet: turns bytes into packets, and time of silence, too.",
                FRAME,
            ),
            ("by_size", BY_SIZE, NO),
        ],
    ),
    (
        "ered",
        &[
            (
                "k",
                "How many times less likely a packet in profile is to be hit.",
                r#"{"default":1.5,"minimum":1}"#,
            ),
            ("in_profile", "The DS codepoints of packets in profile, by name or number.", "{}"),
            ("red", "The RED before the line.", "{}"),
        ],
    ),
    (
        "pi",
        &[
            ("limit", LIMIT, r#"{"default":"300 kB"}"#),
            ("target", "The length to hold.", r#"{"default":"200 kB"}"#),
            ("every", EVERY, r#"{"default":"6.25 ms"}"#),
            (
                "gains",
                "How strongly it reacts: the coefficients `a` and `b` per packet, or `flows` and `rtt` for the design.",
                r#"{"default":{"flows":60,"rtt":"246 ms"}}"#,
            ),
            ("ecn", ECN, YES),
            ("measure", MEASURE, BYTES),
            ("packet", "Size of a typical packet: what lengths and gains count.", FRAME),
            ("by_size", BY_SIZE, NO),
        ],
    ),
    (
        "pie",
        &[
            ("limit", LIMIT, r#"{"default":"4 MiB"}"#),
            ("target", "How long packets should wait.", r#"{"default":"15 ms"}"#),
            ("every", EVERY, r#"{"default":"15 ms"}"#),
            (
                "burst",
                "How long a burst may last before anything is hit.",
                r#"{"default":"150 ms"}"#,
            ),
            ("ecn", ECN, YES),
            ("mark_up_to", MARK_UP_TO, r#"{"default":"10 %"}"#),
            (
                "packet",
                "Size of a typical packet: nothing is hit while no more than two of these wait.",
                FRAME,
            ),
        ],
    ),
    (
        "codel",
        &[
            ("limit", LIMIT, r#"{"default":"4 MiB"}"#),
            (
                "target",
                "How long a packet may wait while the link is busy; at low rates at least the time of two packets.",
                r#"{"default":"5 ms"}"#,
            ),
            ("interval", INTERVAL, r#"{"default":"100 ms"}"#),
            ("packet", "Size of a full packet: as much may wait for however long.", FRAME),
            ("ecn", ECN, YES),
        ],
    ),
    (
        "fq-codel",
        &[
            ("limit", LIMIT, r#"{"default":"32 MiB"}"#),
            ("packets", "Most packets that may wait.", r#"{"default":10240}"#),
            ("quantum", "Bytes a flow may send in one turn.", FRAME),
            (
                "target",
                "How long a packet may wait while its flow is busy; at low rates at least the time of two packets.",
                r#"{"default":"5 ms"}"#,
            ),
            ("interval", INTERVAL, r#"{"default":"100 ms"}"#),
            ("ecn", ECN, YES),
        ],
    ),
    (
        "hosts",
        &[
            ("limit", LIMIT, r#"{"default":"32 MiB"}"#),
            ("packets", "Most packets that may wait.", r#"{"default":10240}"#),
            ("quantum", "Bytes a host, and each of its flows, may send in one turn.", FRAME),
            (
                "target",
                "How long a packet may wait while its flow is busy; at low rates at least the time of two packets.",
                r#"{"default":"5 ms"}"#,
            ),
            ("interval", INTERVAL, r#"{"default":"100 ms"}"#),
            ("ecn", ECN, YES),
            ("thin_acks", "ACKs without data that say nothing new are dropped.", YES),
        ],
    ),
    (
        "partitioned",
        &[(
            "depth",
            "What decides a member's part of the burst, besides its weight: nothing, or its round-trip time.",
            r#"{"default":"equal"}"#,
        )],
    ),
    (
        "postack",
        &[
            ("release", "What decides when the next ACK goes on.", r#"{"default":"gate"}"#),
            ("max_hold", "The longest an ACK may be held.", r#"{"default":"1 s"}"#),
            ("placement", PLACEMENT, AUTO),
        ],
    ),
    (
        "tcr",
        &[
            ("placement", PLACEMENT, AUTO),
            (
                "mss",
                "Largest segments senders of uploads are asked for by SYNs, for rates of some 10 kbit/s. Default: what their \
                 receivers ask for.",
                "{}",
            ),
        ],
    ),
    (
        "reno",
        &[
            ("counting", "What growth counts. Where nothing is said, what the profile says.", "{}"),
            ("beta", "What is left of the window after a loss (RFC 5681).", HALF),
            (
                "beta_ecn",
                "What is left of it after ECN-Echo (RFC 3168); 0.8 is that of RFC 8511.",
                HALF,
            ),
        ],
    ),
    (
        "cubic",
        &[
            ("c", "C, in segments per second cubed.", r#"{"default":0.4,"minimum":0}"#),
            ("beta", "What is left of the window after a loss.", MOST),
            ("beta_ecn", "What is left of it after ECN-Echo; 0.85 is that of RFC 8511.", MOST),
            ("fast_convergence", "Whether those who had more give way faster.", YES),
            ("hystart", "Whether the first slow start is HyStart++'s.", YES),
        ],
    ),
    (
        "vegas",
        &[
            (
                "alpha",
                "The window grows while fewer segments than this are queued.",
                r#"{"default":2,"minimum":0}"#,
            ),
            ("beta", "It shrinks while more are queued.", r#"{"default":4,"minimum":0}"#),
            ("gamma", GAMMA, ONE),
            (
                "double_every",
                "In slow start the window doubles once in so many round trips.",
                r#"{"default":1}"#,
            ),
            ("after_loss", AFTER_LOSS, HALF),
        ],
    ),
    (
        "vegas-ns2",
        &[
            ("alpha", "The window grows while fewer segments than this are queued.", ONE),
            ("beta", "It shrinks while more are queued.", r#"{"default":3,"minimum":0}"#),
            ("gamma", GAMMA, ONE),
            ("theta", "The weight.", ONE),
        ],
    ),
    (
        "weighted-vegas",
        &[
            ("theta", "The weight.", ONE),
            (
                "alpha",
                "Segments kept in the queue for each unit of weight.",
                r#"{"default":2,"minimum":0}"#,
            ),
            ("gamma", "Slow start ends when more than this times the weight are queued.", ONE),
            (
                "double_every",
                "In slow start the window doubles once in so many round trips.",
                r#"{"default":2}"#,
            ),
            ("step", "How far the window moves once per round trip.", r#"{"default":"bounded"}"#),
            ("after_loss", AFTER_LOSS, HALF),
        ],
    ),
    ("weighted-reno", &[("theta", "The weight; below 1 it counts as 1.", ONE)]),
    (
        "aggregate-fair",
        &[(
            "omega",
            "As fast as so many connections of the mean round-trip time together. Where nothing is said, their number.",
            r#"{"minimum":0}"#,
        )],
    ),
    (
        "increase-by-k",
        &[
            ("k", "Segments the window grows by in a round trip.", r#"{"default":4,"minimum":0}"#),
            (
                "from",
                "From this round-trip time on. Where nothing is said, from the mean of the aggregate, and from 100 ms until that is known.",
                "{}",
            ),
        ],
    ),
    (
        "dctcp",
        &[
            (
                "gain",
                "Weight of the newest window in the estimate.",
                r#"{"default":0.0625,"minimum":0,"maximum":1}"#,
            ),
            (
                "alpha",
                "The estimate before the first window.",
                r#"{"default":1,"minimum":0,"maximum":1}"#,
            ),
        ],
    ),
    ("constant", &[("rate", "The rate, of payload.", r#"{"default":"10 Mbit/s"}"#)]),
    (
        "copa",
        &[
            ("target", "Segments that are meant to wait.", r#"{"default":2,"minimum":1}"#),
            ("after_loss", "What is left of what is in flight after a loss or an echo.", HALF),
        ],
    ),
    (
        "bbr",
        &[
            (
                "min_rtt_window",
                "The least round-trip time is measured anew when it is this old.",
                r#"{"default":"10 s"}"#,
            ),
            (
                "probe_rtt_time",
                "For so long at least, with four segments in flight.",
                r#"{"default":"200 ms"}"#,
            ),
            ("detect_policers", "Whether policers are looked for.", YES),
        ],
    ),
    (
        "jitter",
        &[
            (
                "uniform",
                "By at most this much in either direction, each value equally likely.",
                "{}",
            ),
            ("normal", "Almost normally, with this standard deviation.", "{}"),
        ],
    ),
    (
        "loss",
        &[
            ("p", "How likely a good link turns bad before the next packet.", "{}"),
            ("r", "How likely a bad link turns good before the next packet.", "{}"),
            ("good", "How likely a good link loses a packet.", r#"{"default":"0 %"}"#),
            ("bad", "How likely a bad link loses a packet.", r#"{"default":"100 %"}"#),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::json;
    use tidegate_core::ack::AckSpec;
    use tidegate_core::allocation::AllocationSpec;
    use tidegate_core::link::{Jitter, Loss};
    use tidegate_core::marking::MarkingSpec;
    use tidegate_core::qdisc::QdiscSpec;
    use tidegate_core::tcp::congestion::CongestionSpec;

    use super::*;
    use crate::policy_file::raw::AckControl;
    use crate::read::Read;
    use crate::tcp::Tcp;

    /// Checks the parameters of every mechanism of a kind; says how many there are.
    fn check<T: DeserializeOwned + PartialEq>(names: &[&str], schema: &Value) -> usize {
        let read = |kind: &str, field: &str, value: Value| {
            let mut table = json!({ "kind": kind });
            table[field] = value;
            serde_json::from_value::<T>(table)
        };
        let mut count = 0;
        for kind in names {
            let plain = serde_json::from_value::<T>(json!({ "kind": kind })).ok();
            let forms = schema["anyOf"].as_array().unwrap();
            let form = forms.iter().find(|it| it["properties"]["kind"]["const"] == *kind).unwrap();
            for (field, form) in form["properties"].as_object().unwrap() {
                let place = format!("{kind}.{field}");
                assert!(field == "kind" || form["description"].is_string(), "{place}");
                count += usize::from(field != "kind");
                if let Some(default) = form.get("default") {
                    assert!(read(kind, field, default.clone()).ok() == plain, "{place}: {default}");
                }
                let number = |keyword: &str| form.get(keyword).and_then(Value::as_f64);
                let taken = |number: f64| read(kind, field, json!(number)).is_ok();
                for (inside, outside, bound) in
                    [(0.0, -0.001, number("minimum")), (0.0, 0.001, number("maximum"))]
                {
                    let Some(bound) = bound.filter(|_| form["type"] == "number") else { continue };
                    assert!(taken(bound + inside), "{place}: {bound} + {inside} is refused");
                    assert!(!taken(bound + outside), "{place}: {bound} + {outside} is taken");
                }
            }
        }
        count
    }

    /// Kills: a schema of losses of which nothing is said; a `bad` that is "0 %" where nothing is written.
    #[test]
    fn tables_of_links_say_what_is_in_them_and_their_defaults() {
        for schema in [Jitter::schema(), Loss::schema()] {
            let table = schema["anyOf"][1]["properties"].as_object().unwrap();
            assert!(table.values().all(|it| it["description"].is_string()), "{schema}");
        }
        let mut table = json!({ "p": "1 %", "r": "30 %" });
        let short = serde_json::from_value::<Loss>(table.clone()).unwrap();
        for (name, field) in Loss::schema()["anyOf"][1]["properties"].as_object().unwrap() {
            let default = field.get("default").or_else(|| table.get(name)).unwrap();
            table[name] = default.clone();
        }
        assert_eq!(serde_json::from_value::<Loss>(table).unwrap(), short);
    }

    #[test]
    fn parameters_have_the_defaults_and_ranges_their_readers_have() {
        let tcp = Tcp::schema();
        let counts = [
            check::<QdiscSpec>(QdiscSpec::NAMES, &QdiscSpec::schema()),
            check::<MarkingSpec>(MarkingSpec::NAMES, &MarkingSpec::schema()),
            check::<AllocationSpec>(AllocationSpec::NAMES, &AllocationSpec::schema()),
            check::<AckSpec>(AckSpec::NAMES, &AckControl::schema()["anyOf"][1]),
            check::<CongestionSpec>(CongestionSpec::NAMES, &tcp["properties"]["congestion"]),
        ];
        assert!(counts.iter().sum::<usize>() > 70, "{counts:?}");
    }
}
