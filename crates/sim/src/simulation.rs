//! Runs a scenario: the crate's main type.

use std::io::{self, Write};
use std::ops::ControlFlow;

use tidegate_core::wheel::TimerWheel;

use crate::capture::Capture;
use crate::engine::{Engine, Progress};
use crate::network::Lane;
use crate::results::Results;
use crate::scenario::{Problem, Scenario, Way};

/// A scenario ready to run.
///
/// # Call order
///
/// 1. [`new`](Self::new) checks the scenario and builds its network.
/// 2. [`capture`](Self::capture) may record the packets of links.
/// 3. [`run`](Self::run) consumes the simulation and returns the [`Results`].
///
/// # Time
///
/// Time is virtual: it jumps from event to event, and reads no clock. A scenario and a seed give
/// the same results, bit for bit, on any machine. At the end, the simulator checks that no packet
/// and no byte was lost from its accounts.
///
/// # Examples
///
/// A constant stream of packets over a link without a rate:
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
///
/// A file of 1 MB takes a second at 8 Mbit/s. The handshake, slow start and the headers add to this
/// time:
///
/// ```
/// use std::ops::ControlFlow;
/// use std::time::Duration;
/// use tidegate_core::{Bytes, Rate, link::LinkConfig};
/// use tidegate_sim::{Scenario, Simulation, scenario::*};
///
/// let host = |name: &str| Node { name: name.into(), kind: NodeKind::Host(Host::default()) };
/// let (rate, delay) = (Some(Rate::from_mbps(8)), Duration::from_millis(20));
/// let line = LinkConfig { rate, delay, ..LinkConfig::default() };
/// let scenario = Scenario {
///     nodes: vec![host("server"), host("client")],
///     links: vec![Link::new(End::of("server"), End::of("client"), line)],
///     traffic: vec![Traffic {
///         name: "download".into(),
///         kind: Kind::File { size: Distribution::Constant(Bytes(1_000_000)) },
///         pairs: vec![Pair { from: "server".into(), to: "client".into() }],
///         ..Traffic::default()
///     }],
///     ..Scenario::default()
/// };
/// let run = || {
///     let simulation = Simulation::new(&scenario).unwrap();
///     simulation.run(|_| ControlFlow::Continue(())).unwrap()
/// };
/// let results = run();
/// let took = results.table("transfers").unwrap().real("took_seconds")[0];
/// assert!((1.1..1.2).contains(&took), "{took}");
/// assert_eq!(results.table("flows").unwrap().whole("retransmitted_segments"), [0]);
/// assert_eq!(results.fingerprint, run().fingerprint);
/// ```
pub struct Simulation<'a> {
    scenario: &'a Scenario,
    engine: Engine<'a, TimerWheel>,
}

/// Why a run ended without results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// The progress function interrupted the run.
    #[error("the run was interrupted")]
    Interrupted,
    /// A capture could not be written.
    #[error("a capture could not be written: {0}")]
    Capture(#[from] io::Error),
}

impl<'a> Simulation<'a> {
    /// Builds the network of a scenario.
    ///
    /// # Errors
    ///
    /// All errors of the scenario.
    pub fn new(scenario: &'a Scenario) -> Result<Self, Vec<Problem>> {
        let problems = scenario.check();
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self { scenario, engine: Engine::new(scenario) })
    }

    /// Captures the packets that arrive over the link direction `way` into `out`, in the classic
    /// pcap format. Returns `false` if there is no such link. `out` should be buffered. A link
    /// direction has at most one capture.
    ///
    /// A [`Probe::Capture`](crate::scenario::Probe::Capture) only states that a capture is wanted;
    /// the caller provides the output with this function.
    pub fn capture(&mut self, way: &Way, out: Box<dyn Write + Send>) -> bool {
        let ways = self.scenario.links.iter().flat_map(|link| link.ways());
        let mut lanes = ways.zip(&mut self.engine.network.lanes);
        let lane = lanes.find(|((there, _), _)| there == way);
        lane.map(|(_, lane)| lane.capture(Capture::new(out))).is_some()
    }

    /// Runs the scenario to its end. Every few milliseconds of real time, the run calls `look` with
    /// the progress; `look` can interrupt the run.
    ///
    /// # Errors
    ///
    /// If `look` interrupted the run, or a capture could not be written.
    ///
    /// # Panics
    ///
    /// If a packet or a byte is missing from the accounts at the end. This is an error of the
    /// simulator.
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
