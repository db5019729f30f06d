//! ACK control of connections in VLANs and tunnels. ACK control holds ACKs to slow down the sender.

use tidegate_core::Machine;
use tidegate_core::packet::{
    Direction, Endpoint, FlowKey, NO_VLAN, Outer, Protocol, Tunnel, TunnelKind,
};
use tidegate_gateway::FlowSurvey;

use super::{Duration, Run, SECOND};

/// Catches: a connection that counts as two flows because its directions have different VLAN tags,
/// so that no ACK is held.
#[test]
fn acks_are_held_for_any_tags_of_the_two_directions() {
    for vlans in [[7, 7], [10, 20], [NO_VLAN, 20], [10, NO_VLAN]] {
        let mut run = Run::new(None);
        (run.port, run.vlans) = (SECOND, vlans);
        run.shake_hands();
        run.data(0, 20);
        assert_eq!(run.ack(2), 0, "{vlans:?}: it is held");
        assert_eq!(run.drain(), 1, "{vlans:?}: it goes on");
        assert_eq!(run.gateway.pool().in_use(), 0);
    }
}

/// GRE tunnels upstream and downstream. `may_edit` is `false` for a direction whose GRE header has
/// checksums or sequence numbers, so that the gateway may not change its packets.
fn gre([up, down]: [bool; 2]) -> [Option<Outer>; 2] {
    let (src, dst) = (Endpoint::v4([192, 0, 2, 1], 0), Endpoint::v4([198, 51, 100, 1], 0));
    let key = FlowKey { src, dst, protocol: Protocol(47) };
    let outer = |may_edit| {
        let mut outer = Outer::default();
        outer.push(Tunnel { key, kind: TunnelKind::Gre, id: None, vlan: NO_VLAN, may_edit });
        outer
    };
    [Some(outer(up)), Some(outer(down).reverse())]
}

/// Catches: a tunnel with checksums in one direction that counts as two tunnels, so that no ACK is
/// held; ACKs created for a direction that has checksums.
#[test]
fn acks_in_a_tunnel_with_checksums_at_one_end_are_held_whole() {
    for may_edit in [[true, true], [true, false], [false, true]] {
        let mut run = Run::new(None);
        (run.port, run.outers) = (SECOND, gre(may_edit));
        run.shake_hands();
        run.data(0, 20);
        let before = run.gateway.report().absorbed;
        assert_eq!(run.ack(1) + run.ack(2), 0, "{may_edit:?}: they are held");
        let absorbed = run.gateway.report().absorbed - before;
        assert_eq!(absorbed > 0, may_edit == [true; 2], "{may_edit:?}: {absorbed} are absorbed");
        assert!(run.drain() > 0, "{may_edit:?}: they go on");
        assert_eq!(run.gateway.pool().in_use(), 0);
    }
}

/// Two tenants with equal addresses, ports and sequence numbers use the same policy.
///
/// Catches: flows distinguished by addresses alone; a SYN-ACK of one tenant that joins the flow of
/// the other tenant; a tenant that is missing in the report.
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
    // The data of the first tenant waits. The second tenant has sent nothing, so its ACKs of old
    // data pass.
    run.vlans = [10; 2];
    run.data(0, 20);
    assert_eq!(run.ack(2), 0, "the first tenant's ACK is held");
    run.vlans = [11; 2];
    run.now += Duration::from_millis(1);
    assert_eq!(run.gateway.report().flows, 3);
    // With a third tag, the SYN-ACK may belong to either tenant.
    run.vlans = [11, 20];
    run.shake_hands();
    assert_eq!(run.gateway.report().flows, 4);
    run.drain();
    assert_eq!(run.gateway.pool().in_use(), 0);
    let mut survey = FlowSurvey::of_most(64);
    while run.gateway.survey_flows(run.now, &mut survey) {
        survey.sort();
    }
    let reports = survey.report();
    let up = reports.iter().filter(|it| it.direction == Direction::Up && it.src.ends_with(":2000"));
    let mut vlans: Vec<_> = up.map(|it| it.vlans.clone()).collect();
    vlans.sort_unstable();
    assert_eq!(vlans, [[10], [11]]);
}
