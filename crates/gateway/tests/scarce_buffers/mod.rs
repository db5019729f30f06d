//! Held ACKs while nearly all packet buffers are in use, for every allocation, ACK control and pool
//! size. ACK control holds ACKs to slow down the sender. An allocation shares the tokens of a
//! policy between its flows.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::{Bytes, Machine, PacketId, Rate, Time};
use tidegate_gateway::Gateway;
use tidegate_gateway::policy::{Action, Profile};

use super::port_reuse::CONTROLS;
use super::{Run, policy};

/// Allocations, as policy files name them.
const ALLOCATIONS: [&str; 6] =
    ["partitioned", "sequential", "fcfs", "lru", "logical-partitions", "drr"];

/// Pool sizes, from too few buffers for a handshake and a stretch ACK up to the default of a small
/// gateway.
const POOLS: [u32; 5] = [8, 16, 64, 1_024, 4_096];

/// A sender upstream of a shaper with half of the link's rate, and packets that occupy other
/// buffers.
struct Scarce {
    run: Run,
    pool: u32,
    others: Vec<PacketId>,
    /// Number of segments sent, and number of segments acknowledged.
    sent: u32,
    acked: u32,
}

impl Scarce {
    fn new(allocation: &str, control: &str, pool: u32) -> Self {
        let text = format!("allocation = '{allocation}'\ncontrol = {control}");
        let table: toml::Table = toml::from_str(&text).unwrap();
        let mut policy = policy(None);
        let Action::Shape { ack_control, conditioning, .. } = &mut policy.action else {
            unreachable!()
        };
        *ack_control = Some(table["control"].clone().try_into().unwrap());
        conditioning.allocation = table["allocation"].clone().try_into().unwrap();
        let profile = Profile::new(Rate::from_mbps(5), None, Bytes(3_028), Bytes(1_514));
        conditioning.profile = profile.unwrap();
        let mut run = Run::of(pool, vec![policy], None);
        run.gateway.pool().make_copies();
        Self { run, pool, others: Vec::new(), sent: 0, acked: 0 }
    }

    fn free(&mut self) -> u32 {
        self.pool - self.run.gateway.pool().in_use()
    }

    /// Occupies buffers until only `free` are unused.
    fn occupy_all_but(&mut self, free: u32) {
        let pool = self.run.gateway.pool();
        self.others.drain(..).for_each(|id| pool.release(id));
        while self.free() > free {
            let id = self.run.gateway.pool().insert(Default::default()).unwrap();
            self.others.push(id);
        }
    }

    fn send(&mut self, segments: u32) {
        for _ in 0..segments.min(self.free()) {
            self.run.data(self.sent, 1);
            self.sent += 1;
        }
    }

    /// The receiver acknowledges up to `segments` further segments.
    fn ack(&mut self, segments: u32) {
        if self.free() > 0 {
            self.acked = (self.acked + segments).min(self.sent);
            self.run.ack(self.acked);
            self.run.gateway.pool().copies().for_each(drop);
        }
    }

    /// Runs until all packets have departed. Returns the number of ACKs that are held for ever.
    fn end(mut self) -> u32 {
        self.occupy_all_but(self.pool);
        for _ in 0..100 {
            self.run.drain();
            let now = self.run.now;
            let Some(at) = self.run.gateway.poll_timeout(now) else { break };
            self.run.now = at.max(now);
        }
        self.run.gateway.report().aggregates[0].acks.held
    }
}

/// A new flow has no held ACKs. Its first ACK acknowledges many segments, at a time when few
/// buffers are free.
///
/// Catches: a stretch ACK whose first step departs because buffers are scarce, and whose remainder
/// is held for ever.
#[test]
fn a_stretch_ack_released_in_steps_departs_completely_although_buffers_are_scarce() {
    for pool in POOLS {
        for (allocation, control) in
            ALLOCATIONS.iter().flat_map(|it| CONTROLS.map(|control| (it, control)))
        {
            let mut it = Scarce::new(allocation, control, pool);
            it.send(pool / 2);
            it.occupy_all_but(2);
            it.ack(pool / 2);
            assert_eq!(it.end(), 0, "{allocation}, {control}, {pool} buffers");
        }
    }
}

/// An event in the life of the flow.
#[derive(Clone, Copy, Debug)]
enum Event {
    Data(u32),
    Ack(u32),
    Free(u32),
    Passes(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (1_u32..30).prop_map(Event::Data),
        3 => (1_u32..40).prop_map(Event::Ack),
        1 => (1_u32..12).prop_map(Event::Free),
        1 => (0_u64..40).prop_map(Event::Passes),
    ]
}

/// Runs until `end`.
fn passes(run: &mut Run, end: Time) {
    while run.now < end {
        run.out(Gateway::WAN);
        run.out(Gateway::LAN);
        let next = run.gateway.poll_timeout(run.now).unwrap_or(end);
        run.now = run.now.max(next.min(end));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Catches: an ACK that is held for ever, after any history of the flow.
    #[test]
    fn no_ack_is_held_for_ever_with_any_allocation_ack_control_and_pool_size(
        allocation in prop::sample::select(&ALLOCATIONS),
        control in prop::sample::select(&CONTROLS),
        pool in prop::sample::select(&POOLS),
        events in prop::collection::vec(event(), 1..50),
    ) {
        let mut it = Scarce::new(allocation, control, pool);
        for event in events {
            match event {
                Event::Data(segments) => it.send(segments),
                Event::Ack(segments) => it.ack(segments),
                Event::Free(free) => it.occupy_all_but(free),
                Event::Passes(ms) => {
                    let end = it.run.now + Duration::from_millis(ms);
                    passes(&mut it.run, end);
                }
            }
        }
        prop_assert_eq!(it.end(), 0);
    }
}
