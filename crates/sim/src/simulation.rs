//! A scenario, run.

use std::ops::ControlFlow;

use tidegate_core::wheel::TimerWheel;

use crate::engine::{Engine, Progress};
use crate::results::Results;
use crate::scenario::{Problem, Scenario};

/// A scenario about to be run.
///
/// ```
/// # use std::time::Duration;
/// # use std::ops::ControlFlow;
/// # use tidegate_core::{Rate, link::LinkConfig};
/// # use tidegate_sim::{Scenario, Simulation, scenario::*};
/// let host = |name: &str| Node { name: name.into(), kind: NodeKind::Host(Host::default()) };
/// let scenario = Scenario {
///     nodes: vec![host("a"), host("b")],
///     links: vec![Link::new(End::of("a"), End::of("b"), LinkConfig::default())],
///     traffic: vec![Traffic {
///         name: "telephony".into(),
///         kind: Kind::Constant { rate: Rate::from_kbps(64), packet: 214 },
///         pairs: vec![Pair { from: "a".into(), to: "b".into() }],
///         ..Traffic::default()
///     }],
///     ..Scenario::default()
/// };
/// let simulation = Simulation::new(&scenario).unwrap();
/// let results = simulation.run(|_| ControlFlow::Continue(())).unwrap();
/// assert_eq!(results.table("flows").unwrap().whole("received_packets"), [374]);
/// ```
pub struct Simulation {
    scenario: Scenario,
    engine: Engine<TimerWheel>,
}

/// Why a run came to no results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// Whoever looked at its progress broke it off.
    #[error("the run was interrupted")]
    Interrupted,
}

impl Simulation {
    /// Makes the network of a scenario.
    ///
    /// # Errors
    ///
    /// Everything about the scenario that cannot be.
    pub fn new(scenario: &Scenario) -> Result<Self, Vec<Problem>> {
        let problems = scenario.check();
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self { scenario: scenario.clone(), engine: Engine::new(scenario) })
    }

    /// Runs it to its end. Every few milliseconds of real time `look` is told how far it is, and may
    /// break it off.
    ///
    /// # Errors
    ///
    /// If `look` broke it off.
    ///
    /// # Panics
    ///
    /// If at the end a packet or a byte is not accounted for: then the simulator is wrong.
    pub fn run(
        mut self,
        look: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Results, Stopped> {
        if self.engine.play(look).is_break() {
            return Err(Stopped::Interrupted);
        }
        self.engine.check_conservation();
        Ok(Results::new(&self.scenario, self.engine))
    }
}
