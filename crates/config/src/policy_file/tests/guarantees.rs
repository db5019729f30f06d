//! Tests of classes under a scheduler with bounds and ratios (`jobs`), and of their errors.

use super::{PORTS, parse, parsed};
use tidegate_core::scheduler::jobs::{Promises, Search};
use tidegate_core::scheduler::{Ratio, SchedulerSpec, TermValues};
use tidegate_core::{Bytes, Chance, Factor};

const JOBS: &str = "rate = { up = \"10 Mbit/s\", down = \"20 Mbit/s\" }\nscheduler = \"jobs\"\n";

/// The code and the marked line of each error in `text`.
fn errors(text: &str) -> Vec<(String, String)> {
    let (config, found) = parse("test.toml", text, None);
    assert_eq!(config.is_none(), found.has_errors());
    let line = |at: usize| text.lines().nth(at - 1).unwrap_or_default().to_owned();
    let said = serde_json::to_value(found.data()).unwrap();
    let place = |it: &serde_json::Value| {
        let at = usize::try_from(it["line"].as_u64().unwrap()).unwrap();
        (it["code"].as_str().unwrap().to_owned(), line(at))
    };
    said.as_array().unwrap().iter().map(place).collect()
}

fn of(fields: &str) -> Vec<(String, String)> {
    errors(&format!("{PORTS}{JOBS}{fields}"))
}

fn one(code: &str, line: &str) -> Vec<(String, String)> {
    vec![(code.to_owned(), line.to_owned())]
}

#[test]
fn classes_of_jobs_have_bounds_ratios_and_one_buffer() {
    let config = parsed(&format!(
        "{PORTS}rate = {{ up = \"10 Mbit/s\" }}\nscheduler = {{ kind = \"jobs\", victim = \"ns2\" }}\n\
         buffer = \"300 kB\"\n[[class]]\nname = \"gold\"\nloss_bound = \"1 %\"\n\
         delay_ratio = {{ of = \"silver\", factor = 0.5 }}\nloss_ratio = {{ of = \"default\", factor = 2 }}\n\
         [[class]]\nname = \"silver\"\ndelay_bound = \"10 ms\"\nguarantee = {{ up = \"2 Mbit/s\" }}\n"
    ));
    let SchedulerSpec::Jobs(jobs) = &config.gateway.scheduler else { panic!() };
    assert_eq!((jobs.victim, jobs.buffer), (Search::Ns2, Bytes(300_000)));
    let [gold, silver] = config.classes.classes() else { panic!("{:?}", config.classes) };
    let ratio = |of: &str, factor| Ratio { of: of.to_owned(), factor };
    let own = TermValues::default()
        .with(Promises::LOSS_BOUND, Chance::from_ppb(10_000_000))
        .with(Promises::DELAY_RATIO, ratio("silver", Factor::from_millionths(500_000)))
        .with(Promises::LOSS_RATIO, ratio("default", Factor::whole(2)));
    assert_eq!((&gold.own, &silver.own), (&own, &TermValues::default()));
}

/// Catches: a term of `class-tree` that is accepted without effect; an error that marks another
/// line.
#[test]
fn errors_mark_terms_that_the_scheduler_does_not_have() {
    let class = "[[class]]\nname = \"a\"\n";
    for line in [
        "parent = \"default\"",
        "ceiling = \"5 Mbit/s\"",
        "weight = 2",
        "burst = \"9 kB\"",
        "queue = \"red\"",
        "marking = \"reference\"",
    ] {
        let found = of(&format!("{class}{line}\n"));
        assert!(found.contains(&("TG0048".to_owned(), line.to_owned())), "{line}: {found:?}");
    }
    for line in [
        "loss_bound = \"1 %\"",
        "delay_ratio = { of = \"b\", factor = 0.5 }",
        "loss_ratio = { of = \"b\", factor = 0.5 }",
    ] {
        let rate = "rate = { up = \"10 Mbit/s\" }\n";
        let found = errors(&format!("{PORTS}{rate}{class}{line}\n[[class]]\nname = \"b\"\n"));
        assert_eq!(found, one("TG0048", line));
    }
    let buffer = "buffer = \"100 kB\"";
    assert_eq!(errors(&format!("{PORTS}{buffer}\n")), one("TG0048", buffer));
}

/// Classes that share a buffer share the marking of the link. They have no markings of their own.
#[test]
fn classes_with_a_common_buffer_share_the_marking_of_the_link() {
    assert_eq!(of("marking = \"reference\"\n[[class]]\nname = \"a\"\n"), []);
}

#[test]
fn errors_mark_bounds_and_ratios_that_contradict_each_other() {
    let class = |name: &str, line: &str| format!("[[class]]\nname = \"{name}\"\n{line}\n");
    let all = class("a", "guarantee = \"4 Mbit/s\"") + &class("b", "guarantee = \"6 Mbit/s\"");
    assert_eq!(of(&all), one("TG0032", "guarantee = \"6 Mbit/s\""));
    let bound = "delay_bound = \"600 us\"";
    assert_eq!(of(&class("a", bound)), [one("TG0038", bound), one("TG0038", bound)].concat());
    for ratio in ["delay_ratio", "loss_ratio"] {
        let line =
            |of: &str, factor: &str| format!("{ratio} = {{ of = \"{of}\", factor = {factor} }}");
        let wrong = |text: String, code: &str, line: String| {
            assert_eq!(of(&text), one(code, &line));
        };
        wrong(class("a", &line("c", "1")), "TG0049", line("c", "1"));
        wrong(class("a", &line("a", "1")), "TG0049", line("a", "1"));
        wrong(class("a", &line("default", "0")), "TG0049", line("default", "0"));
        wrong(class("a", &line("default", "-1")), "TG0004", line("default", "-1"));
        let circle = class("a", &line("b", "2")) + &class("b", &line("a", "2"));
        wrong(circle, "TG0049", line("b", "2"));
        // TOML itself refuses two fields with the same name.
        let twice = format!("{}\n{}", line("default", "1"), line("default", "2"));
        wrong(class("a", &twice), "TG0001", line("default", "2"));
        let list = format!("{ratio} = [{{ of = \"default\", factor = 1 }}]");
        wrong(class("a", &list), "TG0004", list);
    }
    let loss = "loss_bound = \"1 %\"";
    let wide = format!("packets = 1024\nbuffer = \"2 MB\"\n{}", class("a", loss));
    assert_eq!(of(&wide), one("TG0049", loss));
    assert_eq!(
        of(&format!("buffer = \"1 kB\"\n{}", class("a", loss))),
        one("TG0009", "buffer = \"1 kB\"")
    );
}
