//! Tests of parameters in files: names, defaults, and error messages for refused values.

use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
struct File {
    adjuster: Config,
}

fn read(text: &str) -> Result<Config, String> {
    let file: Result<File, _> = toml::from_str(&format!("adjuster = {text}"));
    file.map(|file| file.adjuster).map_err(|error| error.to_string())
}

#[test]
fn a_kind_goes_by_its_name_and_has_the_defaults_of_the_paper() {
    for (name, kind) in
        LawKind::NAMES.iter().zip([LawKind::Fixed, LawKind::Literal, LawKind::Measured])
    {
        let expected = Config { kind, ..Config::default() };
        assert_eq!(kind.name(), *name);
        assert_eq!(read(&format!("\"{name}\"")), Ok(expected.clone()));
        assert_eq!(read(&format!("{{ kind = \"{name}\" }}")), Ok(expected));
    }
    assert_eq!(LawKind::ABOUT.len(), LawKind::NAMES.len());
    assert_eq!(Config::default().round(), Duration::from_secs(90));
    assert_eq!(Config::default().check(), Ok(()));
}

#[test]
fn all_parameters_are_read_with_their_units() {
    let text = r#"{ kind = "measured", samples = 60, every = "50 ms", weight = 2.5, least = 2, most = "connections",
        epsilon = 0.05, margin = 0.2, service = "contended", beta = 0.1, low_threshold = 0.1, high_threshold = 0.9, max_queue = "64 MiB" }"#;
    let expected = Config {
        kind: LawKind::Measured,
        samples: 60,
        every: Duration::from_millis(50),
        weight: Factor::from_millionths(2_500_000),
        least: Factor::whole(2),
        most: Most::Connections,
        epsilon: Factor::from_millionths(50_000),
        margin: Factor::from_millionths(200_000),
        service: ServiceSamples::Contended,
        beta: Factor::from_millionths(100_000),
        low_threshold: Factor::from_millionths(100_000),
        high_threshold: Factor::from_millionths(900_000),
        max_queue: Bytes(64 << 20),
    };
    assert_eq!(read(&text.replace('\n', " ")), Ok(expected));
}

/// Catches: a range that is not checked, or a bound that is off by one.
#[test]
fn bad_parameters_are_refused_with_advice() {
    for (text, expected) in [
        ("\"slope\"", "fixed"),
        ("{ kind = \"literal\", sample = 3 }", "sample"),
        ("{ samples = 2 }", "`samples` must be from 3"),
        ("{ samples = 10001 }", "`samples` must be from 3"),
        ("{ every = \"0 s\" }", "`every` must be above zero"),
        ("{ samples = 10000, every = \"9 s\" }", "at most a day"),
        ("{ every = 1 }", "has no unit"),
        ("{ beta = 1 }", "must be below 1"),
        ("{ beta = -0.1 }", "a number from 0"),
        ("{ epsilon = 1 }", "must be below 1"),
        ("{ margin = 1.5 }", "must be below 1"),
        ("{ low_threshold = 1 }", "below `high_threshold`"),
        ("{ max_queue = \"0 B\" }", "`max_queue` must be above zero"),
        ("{ service = \"least\" }", "contended"),
        ("{ most = 0 }", "a whole number from 1"),
        ("{ most = \"hosts\" }", "connections"),
        ("{ least = 0.5 }", "`least` must be at least 1"),
        ("{ least = 11 }", "`most` must be at least `least`"),
        ("{ weight = 11 }", "from `least` to `most`"),
        ("{ weight = 0.9 }", "`weight` must be at least 1"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    for text in [
        "{ samples = 3, beta = 0.999999, epsilon = 0.999999 }",
        "{ low_threshold = 0.99 }",
        "{ most = 1, weight = 1 }",
        "{ weight = 1000, most = \"connections\" }",
    ] {
        assert!(read(text).is_ok(), "{text}");
    }
}

#[test]
fn a_path_has_a_round_trip_time_of_at_most_the_sampling_interval() {
    let config = config(LawKind::Literal);
    assert_eq!(config.check_path(Duration::from_millis(100)), Ok(()));
    assert!(config.check_path(Duration::from_millis(101)).unwrap_err().contains("shorter"));
    assert!(config.check_path(Duration::ZERO).unwrap_err().contains("zero"));
}

/// The two experiments of `itcp`, section 5.
///
/// Catches: `epsilon` counted only once, in place of once for each gateway.
#[test]
fn the_sum_of_proposition_1_is_that_of_the_paper() {
    let demanded = |loads: &[u64]| {
        let loads: Vec<Factor> =
            loads.iter().map(|it| Factor::from_millionths(it * 10_000)).collect();
        Config::default().demanded(&loads).millionths()
    };
    assert_eq!((demanded(&[52, 24]), demanded(&[28, 8, 8, 24])), (960_000, 1_080_000));
}
