//! Tests bandwidth classes with guarantees for rate, delay and loss. Requests show the guarantees
//! and change them at run time. Other policy files replace the scheduler by a tree of classes and
//! back.

use serde_json::json;

use super::*;

fn file(jobs: bool) -> String {
    let rate = "rate = { up = \"10 Mbit/s\", down = \"20 Mbit/s\" }\n";
    let names = ["gold", "silver"].map(|name| format!("[[class]]\nname = \"{name}\"\n"));
    let [gold, silver] = names;
    if jobs {
        format!(
            "{NOTHING}{rate}scheduler = \"jobs\"\n{gold}loss_bound = \"1 %\"\n\
             delay_ratio = {{ of = \"silver\", factor = 0.5 }}\n{silver}"
        )
    } else {
        format!("{NOTHING}{rate}{gold}weight = 2\n{silver}")
    }
}

/// The guarantees of the class called `name` in the upload direction: terms and values.
fn promises(classes: &Classes, name: &str) -> Vec<(String, f64)> {
    let of = |it: &&crate::api::Class| {
        it.name == name && it.direction == tidegate_core::packet::Direction::Up
    };
    let class = classes.classes.iter().find(of).unwrap();
    class.promises.iter().map(|it| (it.term.to_string(), it.promised)).collect()
}

/// Catches: a scheduler that stays although the new file names another scheduler; a request that
/// sets a field which the scheduler does not support; changes checked by the rules of the previous
/// scheduler.
#[tokio::test]
async fn guarantees_are_shown_and_changed_and_the_scheduler_is_replaced() {
    let fixture = Fixture::new(&file(false)).await;
    let before: Classes = fixture.get("/v1/classes").await;
    assert!(before.classes.iter().all(|it| it.promises.is_empty() && it.delays.is_none()));
    let refused = fixture.change("gold", json!({ "loss_bound": "1 %" })).await.unwrap_err();
    assert_eq!(refused.downcast_ref::<Failure>().unwrap().code.name(), "TG0048");

    let applied = fixture.apply(&file(true), None).await.unwrap();
    let what: Vec<_> = applied.changes.iter().map(ToString::to_string).collect();
    assert!(what.iter().any(|it| it.contains("scheduler")), "{what:?}");
    let classes: Classes = fixture.get("/v1/classes").await;
    let of_gold = [("loss_bound".to_owned(), 0.01), ("delay_ratio".to_owned(), 0.5)];
    assert_eq!(promises(&classes, "gold"), of_gold);
    let wider = json!({ "loss_bound": "2 %", "delay_ratio": { "of": "default", "factor": 0.25 } });
    let changed = fixture.change("gold", wider).await.unwrap();
    assert_eq!(promises(&changed, "gold")[1].1, 0.25);
    let none = fixture.change("gold", json!({ "loss_bound": "none" })).await.unwrap();
    assert_eq!(promises(&none, "gold").len(), 1);
    for (name, body, code) in [
        ("gold", json!({ "weight": 2 }), "TG0048"),
        ("gold", json!({ "delay_ratio": { "of": "gold", "factor": 2 } }), "TG0049"),
        ("gold", json!({ "loss_ratio": { "of": "nobody", "factor": 2 } }), "TG0049"),
        ("gold", json!({ "guarantee": "10 Mbit/s" }), "TG0032"),
        ("silver", json!({ "delay_bound": "1 us" }), "TG0038"),
    ] {
        let error = fixture.change(name, body).await.unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert_eq!(failure.code.name(), code, "{failure}");
    }
    for (class, code) in [
        (json!({ "name": "bronze", "queue": "red" }), "TG0048"),
        (json!({ "name": "bronze", "parent": "gold" }), "TG0048"),
    ] {
        let refused = fixture.post::<Classes>("/v1/classes", class.clone()).await.unwrap_err();
        assert_eq!(refused.downcast_ref::<Failure>().unwrap().code.name(), code, "{class}");
    }
    let rights = json!({ "loss_ratio": { "of": "gold", "factor": 2 } });
    let bronze = json!({ "name": "bronze", "rights": rights });
    let added: Classes = fixture.post("/v1/classes", bronze).await.unwrap();
    assert_eq!(promises(&added, "bronze"), [("loss_ratio".to_owned(), 2.0)]);

    let applied = fixture.apply(&file(false), None).await.unwrap();
    assert_eq!(applied.undone, ["bronze", "gold"]);
    let classes: Classes = fixture.get("/v1/classes").await;
    assert!(classes.classes.iter().all(|it| it.promises.is_empty()));
    assert_eq!(classes.classes.iter().filter(|it| it.weight == 2).count(), 2);
}

/// Catches: an error in a request that does not say which field is wrong.
#[tokio::test]
async fn an_error_in_a_change_names_its_field() {
    let fixture = Fixture::new(&file(false)).await;
    let message = |error: anyhow::Error| error.downcast_ref::<Failure>().unwrap().message.clone();
    for (body, begin) in [
        (json!({ "guarantee": "5 Mbit/s", "ceiling": 40 }), "ceiling: "),
        (json!({ "ceiling": { "up": "40" } }), "ceiling: `40` has no unit"),
        (json!({ "weight": "heavy" }), "weight: "),
        (json!({ "wait": 3 }), "wait: unknown field `wait`, expected one of `guarantee`, "),
    ] {
        let said = message(fixture.change("gold", body).await.unwrap_err());
        assert!(said.starts_with(begin), "{said}");
    }
    let new = json!({ "name": "web", "rights": { "burst": 9.5 } });
    let said = message(fixture.post::<Classes>("/v1/classes", new).await.unwrap_err());
    assert!(said.starts_with("rights.burst: "), "{said}");
}
