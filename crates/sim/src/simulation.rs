//! A scenario, run.

use std::io::{self, Write};
use std::ops::ControlFlow;

use tidegate_core::wheel::TimerWheel;

use crate::capture::Capture;
use crate::engine::{Engine, Progress};
use crate::network::Lane;
use crate::results::Results;
use crate::scenario::{Problem, Scenario, Way};

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
pub struct Simulation<'a> {
    scenario: &'a Scenario,
    engine: Engine<'a, TimerWheel>,
}

/// Why a run came to no results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// Whoever looked at its progress broke it off.
    #[error("the run was interrupted")]
    Interrupted,
    /// A capture could not be written.
    #[error("a capture could not be written: {0}")]
    Capture(#[from] io::Error),
}

impl<'a> Simulation<'a> {
    /// Makes the network of a scenario.
    ///
    /// # Errors
    ///
    /// Everything about the scenario that cannot be.
    pub fn new(scenario: &'a Scenario) -> Result<Self, Vec<Problem>> {
        let problems = scenario.check();
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self { scenario, engine: Engine::new(scenario) })
    }

    /// Writes what arrives over link `way` to `out`, in the classic pcap format; says whether there is
    /// such a link. `out` had better be buffered. A link has one capture.
    ///
    /// A [`Probe::Capture`](crate::scenario::Probe::Capture) only says that a capture is wanted: who
    /// runs the scenario gives it its place.
    pub fn capture(&mut self, way: &Way, out: Box<dyn Write + Send>) -> bool {
        let ways = self.scenario.links.iter().flat_map(|link| link.ways());
        let mut lanes = ways.zip(&mut self.engine.network.lanes);
        let lane = lanes.find(|((there, _), _)| there == way);
        lane.map(|(_, lane)| lane.capture(Capture::new(out))).is_some()
    }

    /// Runs it to its end. Every few milliseconds of real time `look` is told how far it is, and may
    /// break it off.
    ///
    /// # Errors
    ///
    /// If `look` broke it off, or a capture could not be written.
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
        let lanes = &mut self.engine.network.lanes;
        lanes.iter_mut().filter_map(Lane::captured).try_for_each(Capture::finish)?;
        Ok(Results::new(self.scenario, self.engine))
    }
}
