//! Debts and held ACKs of a flow when a swap replaces the policy set. ACK control holds ACKs to
//! slow down the sender. A debt arises if data passes before its tokens exist.

use std::time::Duration;

use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Machine, Rate};
use tidegate_gateway::GatewayConfig;
use tidegate_gateway::policy::{Action, PolicySet, Profile};

use super::{Gateway, Generation, Run, policy};

const RATE: Rate = Rate::from_mbps(2);
const FRAME: u64 = 1_514;

/// The difference between two successive policy sets.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// The policy gets another queue.
    Queue,
    /// The flow gets another policy, and sends before the swap is completed.
    Policy,
    /// The flow gets another policy, and the swap is completed before the flow sends.
    AtOnce,
}

/// Policy set number `n`. Its policy lets data pass at once, and charges the data.
fn passing(change: Change, n: u32) -> PolicySet {
    let mut policy = policy(None);
    let Action::Shape { conditioning, queue, ack_control } = &mut policy.action else {
        unreachable!()
    };
    let burst = match change {
        Change::Queue => FRAME,
        Change::Policy | Change::AtOnce => FRAME + u64::from(n % 2),
    };
    conditioning.profile = Profile::new(RATE, None, Bytes(burst), Bytes(FRAME)).unwrap();
    *ack_control = Some(toml::from_str("kind = 'postack'\nplacement = 'download'").unwrap());
    match change {
        Change::Queue if n % 2 == 1 => *queue = QdiscSpec::DropTail(Default::default()),
        Change::Queue => {}
        Change::Policy | Change::AtOnce => policy.name = format!("all-{n}"),
    }
    PolicySet::new(vec![policy]).unwrap()
}

/// Data that passes before its tokens exist is a debt, which later policies must still pay. In 0.8
/// s with 200 swaps at 2 Mbit/s, the sum of three amounts may pass: the bytes at the rate, two
/// seconds of permitted debt, and a frame for each swap.
///
/// Catches: a debt that is forgiven when a shaper is replaced, when a flow is removed from its
/// aggregate, or when an aggregate without waiting packets is removed.
#[test]
fn no_swap_forgives_a_debt() {
    for change in [Change::Queue, Change::Policy, Change::AtOnce] {
        let mut run = Run::with(4_096, passing(change, 0), Vec::new());
        let open = GatewayConfig { rate: [None; 2], ..run.gateway.config().clone() };
        run.gateway.reconfigure(run.now, &open);
        let begun = run.now;
        let (mut sent, mut passed) = (0, 0);
        for n in 1..=200 {
            match change {
                Change::AtOnce | Change::Queue => {
                    run.gateway.install(run.now, passing(change, n));
                }
                Change::Policy => {
                    let policies = run.gateway.shared_policies();
                    let config = run.gateway.config();
                    let next = Generation::new(passing(change, n), policies, config);
                    while run.gateway.go_on_installing(run.now) {}
                    run.gateway.begin_install(run.now, next).unwrap();
                    run.data(sent, 1);
                    sent += 1;
                    while run.gateway.go_on_installing(run.now) {}
                }
            }
            // The sender responds to its ACKs, and sends less than they permit.
            run.data(sent, 10);
            sent += 10;
            passed += run.out(Gateway::WAN);
            run.ack(sent);
            run.now += Duration::from_millis(4);
        }
        let time = run.now.since(begun);
        let most = RATE.bytes_in(time + Duration::from_secs(2)).0 + (200 + 20) * FRAME;
        let passed = u64::try_from(passed).unwrap() * FRAME;
        assert!(passed <= most, "{change:?}: {passed} bytes passed, but only {most} are paid for");
        assert!(passed >= RATE.bytes_in(time).0, "{change:?}: {passed} bytes");
        run.drain();
    }
}

/// If a flow moves to another policy with `postack`, this policy knows the last ACK that departed.
/// It therefore holds the other ACKs and releases them step by step. It makes no difference whether
/// the flow's next packet arrives before or after the slice (the step of the swap) that moves it.
///
/// Catches: a sequence state of the flow that is lost when its shaper is replaced or its aggregate
/// is removed; a sequence state that is read after the held ACKs were removed.
#[test]
fn acks_stay_held_when_the_flow_moves_to_another_policy() {
    // At 100 Mbit/s, the data waits at the link, and the aggregate holds only ACKs.
    let fast = (Rate::from_mbps(100), 100 * FRAME);
    let slow = (RATE, FRAME);
    for ((rate, burst), sliced) in [(slow, false), (slow, true), (fast, false), (fast, true)] {
        let named = |n: u32| {
            let mut policy = policy(None);
            let Action::Shape { conditioning, ack_control, .. } = &mut policy.action else {
                unreachable!()
            };
            *ack_control = Some(toml::from_str("kind = 'postack'").unwrap());
            let burst = Bytes(burst + u64::from(n % 2));
            conditioning.profile = Profile::new(rate, None, burst, Bytes(FRAME)).unwrap();
            policy.name = format!("all-{n}");
            PolicySet::new(vec![policy]).unwrap()
        };
        let mut run = Run::with(4_096, named(0), Vec::new());
        run.gateway.pool().make_copies();
        run.data(0, 60);
        (1..20).for_each(|n| _ = run.ack(2 * n));
        let held = |run: &Run| run.gateway.report().aggregates[0].acks.held;
        let before = held(&run);
        assert!(before > 5, "{before} ACKs are held");
        let mut passed = 0;
        for n in 1..=20 {
            let policies = run.gateway.shared_policies();
            let next = Generation::new(named(n), policies, run.gateway.config());
            while run.gateway.go_on_installing(run.now) {}
            run.gateway.begin_install(run.now, next).unwrap();
            if sliced && n == 1 {
                run.data(60, 1);
            }
            while run.gateway.go_on_installing(run.now) {}
            passed += run.out(Gateway::LAN);
        }
        assert!(
            passed <= 2,
            "{rate}, {sliced}: {passed} ACKs departed at 20 swaps without a pause"
        );
        assert!(held(&run) + 2 >= before, "{rate}, {sliced}: {} of {before}", held(&run));
        run.drain();
        run.now += Duration::from_secs(2);
        run.drain();
        assert_eq!(held(&run), 0);
        assert_eq!(run.gateway.report().aggregates[0].policy, "all-20");
        assert_eq!(run.gateway.pool().in_use(), 0);
    }
}
