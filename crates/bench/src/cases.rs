//! The benchmark cases. Each case repeats one operation among many flows, policies or classes.

mod ack_control;
mod authentication;
mod classes;
mod files;
mod flows;
mod frames;
mod gateway;
mod live;
mod meters;
mod mixes;
mod policies;
mod queues;
mod sharing;
mod swaps;
mod timers;
mod trunks;

use std::fs;
use std::hint::black_box;

pub(crate) use ack_control::{GROUP, answered as answered_gateway};
use anyhow::{Context, bail};
pub(crate) use classes::classified as classified_gateway;
pub(crate) use gateway::idle as idle_gateway;
pub(crate) use mixes::MIXES;
use tidegate_core::random::Random;

use crate::number::real;

/// An operation that can be repeated.
pub(crate) trait Case {
    /// Repeats the operation. The result depends on every repetition, so that the compiler cannot
    /// remove any.
    fn run(&mut self, operations: u64) -> u64;
}

/// The case `name` with `size` flows, policies or classes.
fn build(name: &str, size: u32, seed: u64) -> anyhow::Result<Box<dyn Case>> {
    let random = Random::new(seed, 0);
    Ok(match name.split_once('/').unwrap_or((name, "")) {
        ("token-bucket", "") => Box::new(meters::Buckets::new(size, random)),
        ("flow-look-up", "") => Box::new(flows::Lookup::new(size, seed, random)),
        ("timer", "set-cancel") => Box::new(timers::SetCancel::new(size, random)),
        ("timer", "set-fire") => Box::new(timers::SetFire::new(size, random)),
        ("first-match", mix) => Box::new(policies::FirstMatch::new(mix, size, random)?),
        ("known-flow", mix) => Box::new(gateway::known_flows(mix, size, seed)?),
        ("gateway", "unmanaged") => Box::new(gateway::unmanaged(size, seed)?),
        ("gateway", "shaped") => Box::new(gateway::shaped(size, seed)?),
        ("marking", kind) => Box::new(gateway::marked(kind, size, seed)?),
        ("gateway", "postack") => Box::new(ack_control::postack(size, seed)?),
        ("gateway", "trunked") => Box::new(trunks::Trunked::new(size, seed)?),
        ("trunk", "authenticated") => Box::new(authentication::Authenticated::new(size, seed)?),
        ("live", what) => Box::new(live::Live::new(what, size, seed)?),
        ("queue", discipline) => Box::new(queues::Queue::new(discipline, size, random)?),
        ("class", "busy") => Box::new(classes::Busy::new(size, random)),
        ("class", "sparse") => Box::new(classes::Sparse::new(size, random)),
        ("class", "change") => Box::new(classes::Change::new(size, random)),
        ("class", "add") => Box::new(classes::Add::new(size, random)),
        ("class-command", what) => Box::new(classes::Commanded::new(what, size, random)?),
        ("check", "policies") => Box::new(files::Check::policies(size)),
        ("check", "errors") => Box::new(files::Check::errors(size)),
        ("swap" | "commit" | "scrape", of) => {
            let what = name.split_once('/').map_or(name, |(what, _)| what);
            Box::new(swaps::Calls::new(what, of, size)?)
        }
        ("wire", "describe") => Box::new(frames::Describe::new(size)),
        ("wire", "rewrite") => Box::new(frames::Rewrite::new(size)),
        (allocation, "backlog") => Box::new(sharing::Backlog::new(allocation, size, random)?),
        (allocation, "sparse") => Box::new(sharing::SparseMembers::new(allocation, size, random)?),
        _ => bail!("there is no case \"{name}\""),
    })
}

/// Processor time in nanoseconds of one operation.
pub(crate) fn time(name: &str, operations: u64, size: u32, seed: u64) -> anyhow::Result<f64> {
    let mut case = build(name, size, seed)?;
    let before = processor_time()?;
    black_box(case.run(operations));
    Ok(real(processor_time()? - before) / real(operations.max(1)))
}

/// Processor time in nanoseconds of this process.
pub(crate) fn processor_time() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/self/schedstat")?;
    let number = text.split_whitespace().next().and_then(|number| number.parse().ok());
    number.context("/proc/self/schedstat has no number")
}

/// The numbers below a bound in random order. The order is repeated without end.
struct Order {
    numbers: Vec<u32>,
    at: usize,
}

impl Order {
    fn new(below: u32, random: &mut Random) -> Self {
        let mut numbers: Vec<u32> = (0..below.max(1)).collect();
        for at in (1..numbers.len()).rev() {
            numbers.swap(at, any_index(at + 1, random));
        }
        Self { numbers, at: 0 }
    }

    fn next(&mut self) -> u32 {
        self.at = if self.at + 1 < self.numbers.len() { self.at + 1 } else { 0 };
        self.numbers[self.at]
    }
}

fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A random index into a list of `len` entries.
fn any_index(len: usize, random: &mut Random) -> usize {
    index(random.below(u64::try_from(len).unwrap_or(u64::MAX)))
}

/// A random number of 16 bits.
fn port(random: &mut Random) -> u16 {
    u16::try_from(random.below(1 << 16)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_random_and_complete() {
        let mut order = Order::new(100, &mut Random::new(1, 0));
        let mut all: Vec<u32> = (0..100).map(|_| order.next()).collect();
        assert!(!all.is_sorted());
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }
}
