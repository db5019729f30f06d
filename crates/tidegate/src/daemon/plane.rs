//! The data plane from the view of the control thread, which starts it, queries it, changes it, and
//! stops it. The data plane is the thread that forwards packets.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_core::{Machine, PacketPool, Time};
use tidegate_dataplane::fail_to_wire::Guard;
use tidegate_dataplane::trunk::TrunkPort;
use tidegate_dataplane::{
    Clock, Driver, FailToWire, Heartbeat, Inbox, Live, Monotonic, Options, Port, PortCounters,
    Remote, Stopped, Wish, inbox, keep_time,
};
use tidegate_gateway::policy::PolicySet;
use tidegate_gateway::report::{Bypassed, ClassReport, FlowReport, Report};
use tidegate_gateway::{FlowSurvey, Gateway, GatewayConfig, Generation, Survey};
use tokio::sync::oneshot;

use super::trunks::Seeded;
use super::{Installed, PortLock, aside, policy_set};
use crate::api::Ports;
use crate::code::Code;
use crate::output::Failure;

/// A gateway (the data plane) that runs in a thread of its own.
pub(crate) struct Plane {
    remote: Remote<Gateway, Wire>,
    /// Sends the answers for which no task waits any more to another thread, which drops them.
    /// Dropping a large answer takes long.
    unread: Sender<Box<dyn Send>>,
    /// Locked during a change of policies or classes. Such changes may force a survey (a report
    /// collected in parts) to start over too often. Then the survey takes this lock too.
    still: tokio::sync::Mutex<()>,
    ports: Ports,
    guard: Guard,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// State of the data plane at one instant.
pub(crate) struct PlaneSnapshot {
    /// The report of the gateway.
    pub(crate) report: Report,
    /// Counters of the ports, LAN first. Empty in a test.
    pub(crate) ports: Vec<PortCounters>,
    /// Number of times that the loop of the data plane hung.
    pub(crate) hangs: u64,
    /// The longest processor time of a single command. During a policy change, a single iteration
    /// of the loop also counts.
    pub(crate) occupied: Duration,
    /// The time of the last hang.
    pub(crate) hung_at: Time,
    /// Number of bypassed frames per port. Empty without bypass programs.
    pub(crate) bypassed: Vec<Bypassed>,
    /// `true` if frames bypass the gateway because there is nothing to manage.
    pub(crate) passing: bool,
    /// The time of this snapshot.
    pub(crate) now: Time,
}

/// The open ports, owned by the thread of the data plane.
#[derive(Default)]
pub(crate) struct Opened {
    /// LAN, then WAN. Empty in a test.
    pub(crate) ports: Vec<Box<dyn Port>>,
    /// The bypass programs, which forward frames while no gateway runs.
    pub(crate) wire: Wire,
    /// How the ports were opened, for reports.
    pub(crate) about: Ports,
    /// Locks that keep other gateways off the ports.
    pub(crate) held: Vec<PortLock>,
}

/// Poll interval while waiting for the end of a policy change.
const LOOK: Duration = Duration::from_millis(1);

/// Number of polls, at intervals of [`LOOK`], that wait for the end of the data plane. All polls
/// together take twice the longest time in which the data plane sends its queued packets.
const ENDS: u32 = 4_000;

/// Number of times that a survey (a report that is collected in parts) may start over. After that,
/// further changes must wait for it.
///
/// Chosen: a survey starts over so often only while changes follow each other without a pause.
const ATTEMPTS: u32 = 4;

/// The bypass programs, if enabled.
pub(crate) type Wire = Option<FailToWire>;

impl Plane {
    /// Starts a gateway with the configuration `installed`, between the ports that `open` opens.
    pub(crate) fn start(
        installed: &Installed,
        open: impl FnOnce(&Installed, &Monotonic, &mut PacketPool) -> Result<Opened, Failure>
        + Send
        + 'static,
    ) -> Result<Self, Failure> {
        let failed = |error| Failure::new(Code::NoBackend, format!("cannot start: {error}"));
        let (remote, inbox) = inbox().map_err(failed)?;
        let (unread, discarded) = mpsc::channel::<Box<dyn Send>>();
        let discard = thread::Builder::new().name("discard".to_owned());
        discard.spawn(move || discarded.into_iter().for_each(drop)).map_err(failed)?;
        let (sender, opened) = mpsc::channel();
        let policies = policy_set(&installed.config)?;
        let installed = installed.clone();
        let drive = move || drive(&installed, policies, open, inbox, &sender);
        let thread = thread::Builder::new().name("data plane".to_owned()).spawn(drive);
        let thread = thread.map_err(failed)?;
        let (ports, guard) = opened.recv().map_err(|_| stopped(Stopped))??;
        let (thread, still) = (Mutex::new(Some(thread)), tokio::sync::Mutex::default());
        Ok(Self { remote, unread, still, ports, guard, thread })
    }

    /// How the ports were opened.
    pub(crate) const fn ports(&self) -> &Ports {
        &self.ports
    }

    /// The guard that checks the attached programs. Without bypass programs it checks nothing.
    pub(crate) const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Runs `question` between two iterations of the loop, and returns its answer.
    pub(crate) async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Live<'_, Gateway, Wire>) -> R + Send + 'static,
    ) -> Result<R, Failure> {
        let (sender, answer) = oneshot::channel();
        let unread = self.unread.clone();
        let post = self.remote.post(move |live| {
            if let Err(answer) = sender.send(question(live)) {
                // An error is impossible: the thread that receives answers ends last.
                let _ = unread.send(Box::new(answer));
            }
        });
        post.map_err(stopped)?;
        answer.await.map_err(|_| stopped(Stopped))
    }

    /// As [`ask`](Self::ask), for a change of classes. First waits for a survey that has started
    /// over too often.
    pub(crate) async fn change<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Live<'_, Gateway, Wire>) -> R + Send + 'static,
    ) -> Result<R, Failure> {
        let _still = self.still.lock().await;
        self.ask(change).await
    }

    /// Collects the report, the port counters and the bypass counters. The report leaves out the
    /// classes.
    pub(crate) async fn look(&self) -> Result<PlaneSnapshot, Failure> {
        let (report, _) = self.survey(Survey::of_policies()).await?;
        let report = report.unwrap_or_default();
        self.ask(|live| PlaneSnapshot {
            report,
            ports: live.ports.iter().map(|port| port.counters()).collect(),
            hangs: live.hangs,
            occupied: live.occupied,
            hung_at: live.hung_at,
            bypassed: live.heartbeat.as_ref().map_or_else(Vec::new, FailToWire::bypassed),
            passing: live.heartbeat.passing(),
            now: live.now,
        })
        .await
    }

    /// The classes that share the link: those for the upload direction first, sorted by name.
    pub(crate) async fn classes(&self) -> Result<Vec<ClassReport>, Failure> {
        Ok(self.survey(Survey::of_classes()).await?.1)
    }

    /// The flows that `survey` selects. The data plane lists them in parts of limited size, and
    /// forwards packets in between.
    pub(crate) async fn flows(&self, mut survey: FlowSurvey) -> Result<Vec<FlowReport>, Failure> {
        let mut more = true;
        while more {
            let part =
                self.ask(move |live| (live.machine.survey_flows(live.now, &mut survey), survey));
            (more, survey) = part.await?;
            survey = aside(move || {
                survey.sort();
                survey
            })
            .await?;
        }
        Ok(survey.report())
    }

    /// Share of the live flows that the policies in force have classified. A flow is live if it had
    /// a packet within the last `span`. Returns 1 if no flow is live.
    pub(crate) async fn classified(&self, span: Duration) -> Result<f64, Failure> {
        let [mut live, mut current] = [0, 0];
        for part in 0.. {
            let ask = self.ask(move |live| live.machine.classified(live.now, span, part));
            let Some([more, of_these]) = ask.await? else { break };
            (live, current) = (live + more, current + of_these);
        }
        Ok(if live == 0 { 1.0 } else { f64::from(current) / f64::from(live) })
    }

    /// The report and the classes that `survey` selects. The data plane adds one part of limited
    /// size at a time, and forwards packets in between. After a change of policies or classes, the
    /// survey starts over. After [`ATTEMPTS`] restarts, further changes wait for it.
    async fn survey(
        &self,
        mut survey: Survey,
    ) -> Result<(Option<Report>, Vec<ClassReport>), Failure> {
        let (mut more, mut still) = (true, None);
        while more {
            if survey.attempts() > ATTEMPTS && still.is_none() {
                still = Some(self.still.lock().await);
            }
            let part = self.ask(move |live| {
                let more = live.machine.survey(&mut survey);
                (more, more && live.machine.is_installing(), survey)
            });
            let waits;
            (more, waits, survey) = part.await?;
            if waits {
                tokio::time::sleep(LOOK).await;
            }
        }
        drop(still);
        aside(move || survey.report()).await
    }

    /// Puts `policies`, `config` and the trunks `ends` in force. Returns the number of the new
    /// configuration (its generation).
    ///
    /// The data plane works in parts of limited length, and forwards packets in between. Work whose
    /// time grows with the number of policies is done in other threads.
    pub(crate) async fn install(
        &self,
        config: GatewayConfig,
        policies: PolicySet,
        mut ends: Seeded,
    ) -> Result<u64, Failure> {
        let _still = self.still.lock().await;
        let running = self.ask(|live| live.machine.shared_policies()).await?;
        let (generation, config) =
            aside(move || (Generation::new(policies, running, &config), config)).await?;
        let begin = self.ask(move |live| {
            // Frames must come to the gateway before the new policies are in force.
            live.set_passing(false);
            live.machine.reconfigure(live.now, &config);
            for ((end, _), number) in ends.iter_mut().zip(live.machine.trunk_numbers()) {
                end.number = number;
            }
            if let Some(wan) = TrunkPort::among_mut(live.ports) {
                wan.end_trunks(ends);
            }
            live.machine.begin_install(live.now, generation)
        });
        begin.await?.map_err(|error| Failure::new(Code::Busy, error.to_string()))?;
        while self.ask(|live| live.machine.is_installing()).await? {
            tokio::time::sleep(LOOK).await;
        }
        let end = self.ask(|live| (live.machine.take_retired(), live.machine.generation()));
        let (retired, generation) = end.await?;
        aside(move || drop(retired)).await?;
        Ok(generation)
    }

    /// Lets frames bypass the gateway while it has nothing to manage and no packet waits in it.
    pub(crate) fn settle(&self) {
        // The result is ignored: after the end of the loop, frames bypass the gateway anyway.
        let _ = self.remote.post(|live| {
            if live.heartbeat.passing() != live.machine.is_transparent() {
                live.set_passing(live.machine.is_transparent());
            }
        });
    }

    /// Sends all queued packets, lets frames bypass the gateway, and waits until this is done.
    pub(crate) fn stop(&self) {
        // The results are ignored: a loop that has already stopped needs no request.
        let _ = self.remote.post(|live| live.machine.release_all(live.now));
        let _ = self.remote.stop();
        let thread = self.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        for _ in 0..ENDS {
            if thread.is_finished() {
                break;
            }
            crate::clock::Clock::rest(LOOK);
        }
        if !thread.is_finished() {
            tracing::error!("the data plane does not end; its packets are lost");
        } else if thread.join().is_err() {
            tracing::error!("the data plane ended by a panic");
        }
    }

    /// Returns `true` if the loop has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        thread.as_ref().is_some_and(JoinHandle::is_finished)
    }
}

/// The thread of the data plane: opens the ports, reports whether this succeeded, and runs the
/// loop.
fn drive(
    installed: &Installed,
    policies: PolicySet,
    open: impl FnOnce(&Installed, &Monotonic, &mut PacketPool) -> Result<Opened, Failure>,
    inbox: Inbox<Gateway, Wire>,
    sender: &Sender<Result<(Ports, Guard), Failure>>,
) {
    let mut clock = Monotonic::start();
    let settings = GatewayConfig { seed: seed(), ..installed.config.gateway.clone() };
    let mut gateway = Gateway::new(&settings, policies, clock.now());
    let opened = match open(installed, &clock, gateway.pool()) {
        Ok(opened) => opened,
        Err(failure) => return drop(sender.send(Err(failure))),
    };
    let Opened { ports, wire, mut about, held: _held } = opened;
    if !ports.is_empty() {
        about.notes.push(keep_time(Wish::default()).to_string());
    }
    let guard = wire.as_ref().map_or_else(Guard::default, FailToWire::guard);
    drop(sender.send(Ok((about, guard))));
    Driver::new(gateway, ports, wire, inbox, Options::default()).run(&mut clock);
}

fn stopped(error: Stopped) -> Failure {
    Failure::new(Code::NoGateway, error.to_string())
}

/// A random seed for hashing, so remote hosts cannot make their flows collide.
fn seed() -> u64 {
    // The keys of the standard library's hash maps are random in each process.
    RandomState::new().build_hasher().finish()
}
