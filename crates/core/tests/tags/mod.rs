//! ACK control of connections in VLANs.

use tidegate_core::Machine;
use tidegate_core::gateway::FlowSurvey;
use tidegate_core::packet::NO_VLAN;

use super::{Duration, Run, SECOND};

/// Kills: a connection whose directions have different tags left as two flows, on which ACK control does nothing.
#[test]
fn acks_are_held_whatever_the_tags_of_the_two_directions_are() {
    for vlans in [[7, 7], [10, 20], [NO_VLAN, 20], [10, NO_VLAN]] {
        let mut run = Run::new(None);
        (run.port, run.vlans) = (SECOND, vlans);
        run.shake_hands();
        run.data(0, 20);
        assert_eq!(run.ack(2), 0, "{vlans:?}: it is held");
        assert_eq!(run.leave(), 1, "{vlans:?}: it goes on");
        assert_eq!(run.gateway.pool().in_use(), 0);
    }
}

/// Two tenants with equal addresses, ports and numbers under one policy.
///
/// Kills: flows told by addresses alone; a SYN with ACK of one tenant that joins the flow of the other; one of them
/// left out of the report.
#[test]
fn two_tenants_with_equal_addresses_under_one_policy_stay_apart() {
    let mut run = Run::new(None);
    run.port = SECOND;
    for vlan in [10, 11] {
        run.vlans = [vlan; 2];
        run.shake_hands();
    }
    let opened = run.gateway.report().flows;
    assert_eq!(opened, 3);
    // The data of the first tenant waits. The second has sent nothing, so its ACKs of old data pass.
    run.vlans = [10; 2];
    run.data(0, 20);
    assert_eq!(run.ack(2), 0, "the first tenant's ACK is held");
    run.vlans = [11; 2];
    run.now += Duration::from_millis(1);
    assert_eq!(run.gateway.report().flows, 3);
    // Under a third tag the answer may be that of either tenant.
    run.vlans = [11, 20];
    run.shake_hands();
    assert_eq!(run.gateway.report().flows, 4);
    run.leave();
    assert_eq!(run.gateway.pool().in_use(), 0);
    let mut survey = FlowSurvey::of_most(64);
    while run.gateway.survey_flows(run.now, &mut survey) {
        survey.sort();
    }
    let reports = survey.report();
    let up = reports.iter().filter(|it| it.direction == "up" && it.src.ends_with(":2000"));
    let mut vlans: Vec<_> = up.map(|it| it.vlans.clone()).collect();
    vlans.sort_unstable();
    assert_eq!(vlans, [[10], [11]]);
}
