//! The parameters of the rate adjusters of aggregate connections.

use super::Parameter;

/// The parameters of rate adjusters, the same for each kind.
pub(super) const ADJUSTER: &[Parameter] = &[
    ("samples", "Samples of a round.", r#"{"default":180,"minimum":3,"maximum":10000}"#),
    (
        "every",
        "Time between two samples; not below the round-trip time.",
        r#"{"default":"500 ms"}"#,
    ),
    ("weight", "The initial weight.", r#"{"default":10,"minimum":1}"#),
    ("least", "The least weight.", r#"{"default":1,"minimum":1}"#),
    (
        "most",
        "The greatest weight: a number, or \"connections\" for that of local connections.",
        r#"{"default":10}"#,
    ),
    (
        "epsilon",
        "With \"literal\": the share that is wanted above the load.",
        r#"{"default":0.1,"minimum":0,"exclusiveMaximum":1}"#,
    ),
    (
        "margin",
        "With \"measured\": the part of the load that the share is to exceed it by.",
        r#"{"default":0.1,"minimum":0,"exclusiveMaximum":1}"#,
    ),
    (
        "service",
        "With \"measured\": the service rate of all busy time, or \"contended\": of the samples with the least rates.",
        r#"{"default":"mean"}"#,
    ),
    (
        "beta",
        "A decrease takes this part of the weight.",
        r#"{"default":0.2,"minimum":0,"exclusiveMaximum":1}"#,
    ),
    (
        "low_threshold",
        "With \"literal\": no increase while the mean queue is below this part of `max_queue`.",
        r#"{"default":0.2,"minimum":0}"#,
    ),
    (
        "high_threshold",
        "With \"literal\": an increase, and no decrease, while the mean queue is above this part of `max_queue`.",
        r#"{"default":1,"minimum":0}"#,
    ),
    (
        "max_queue",
        "With \"literal\": the queue to which the thresholds refer.",
        r#"{"default":"200 MB"}"#,
    ),
];
