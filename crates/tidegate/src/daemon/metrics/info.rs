//! Info metrics: the mechanisms of policies, of classes and of the link, as labels of the value 1.
//!
//! A query joins them with a counter of the same policy or class. The names come from the registries
//! of mechanisms.

use super::{Page, labels};
use crate::api::{Class, Mechanisms, Status};

/// Adds the info metrics of the link, of policies with packets, and of classes.
pub(super) fn write(status: &Status, classes: &[Class], page: &mut Page) {
    let mut metric = |name: &str, help: &str, kinds: &[&str], each: &[Place<'_>]| {
        let sample = |(place, mechanisms): &Place<'_>| {
            let all = mechanisms.by_kind().into_iter();
            let kinds = all.filter(|(kind, _)| kinds.contains(kind));
            (labels(&place.iter().copied().chain(kinds).collect::<Vec<_>>()), 1.0)
        };
        page.metric(name, "gauge", help, each.iter().map(sample));
    };
    let link = [("up", &status.up), ("down", &status.down)];
    let link = link.map(|(way, it)| (vec![("direction", way)], &it.mechanisms));
    let help = "Mechanisms of the access link. A label is empty where the link has no such mechanism. Always 1.";
    metric("tidegate_link_info", help, &["scheduler", "queue", "marking"], &link);
    let policies = status.aggregates.iter().map(|it| {
        let place = vec![("policy", it.policy.as_str()), ("direction", it.direction.name())];
        (place, &it.mechanisms)
    });
    let help = "Mechanisms of the policy. A label is empty where the policy has no such mechanism. Always 1.";
    let kinds = ["queue", "allocation", "marking", "ack_control"];
    metric("tidegate_policy_info", help, &kinds, &policies.collect::<Vec<_>>());
    let classes = classes.iter().map(|it| {
        (vec![("class", it.name.as_str()), ("direction", it.direction.name())], &it.mechanisms)
    });
    let help = "Scheduler of the class, and mechanisms of its queue. A label is empty where the class has no such mechanism. Always 1.";
    let kinds = ["scheduler", "queue", "marking"];
    metric("tidegate_class_info", help, &kinds, &classes.collect::<Vec<_>>());
}

/// The labels that name a policy, a class or a direction of the link, and its mechanisms.
type Place<'a> = (Vec<(&'static str, &'a str)>, &'a Mechanisms);
