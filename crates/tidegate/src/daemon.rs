//! The daemon: runs the gateway in a thread of its own (the data plane), and serves the control
//! socket.

mod agent;
mod classes;
mod explain;
mod metered;
mod metrics;
mod plane;
mod port_alarms;
mod port_lock;
mod ports;
mod refusal;
mod reload;
mod report;
mod save;
mod seats;
mod server;
mod trunk_report;
mod trunks;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_config::Findings;
use tidegate_core::gateway::FlowSurvey;
use tidegate_core::policy::{Class, PolicySet};
use tidegate_dataplane::trunk::{TrunkEnd, TrunkPort};
use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};
use tokio::time::Instant;

pub(crate) use agent::{Agent, Store};
pub(crate) use explain::explain;
pub(crate) use metrics::{Labels, Page, float, labels};
pub(crate) use plane::Plane;
pub(crate) use port_lock::PortLock;
pub(crate) use ports::open;
pub(crate) use refusal::Refusal;
pub(crate) use seats::{Limits, Seats};
pub(crate) use server::{ControlServers, PAGE, Socket, answer, listen, serve, unknown};
use trunk_report::Rates;
use watch::PortWatch;

use crate::api::{Applied, Explanation, Flows, Plan, Proposal, Question, Status, Trunks};
use crate::code::Code;
use crate::config::Config;
use crate::describe::{self, Change};
use crate::documents::Documents;
use crate::host;
use crate::log::Losses;
use crate::output::Failure;
use crate::replace::Staged;

/// The running gateway, and the operations of the control socket.
pub(crate) struct Daemon {
    plane: Plane,
    started: Instant,
    /// The policy file named on the command line, which a restart reads again.
    started_file: PathBuf,
    /// Policy files are checked against this host's interfaces. False in tests without real ports.
    fits_host: bool,
    /// Locked only briefly, so status requests never wait long.
    state: Mutex<InForce>,
    /// Locked during a whole change, including its comparison with the running configuration.
    changing: Mutex<()>,
    /// Locked while the policy file is replaced, even after the request has timed out.
    saving: Arc<Mutex<()>>,
    /// Permits for long requests. At most [`LONG`] such requests wait or run.
    long: Semaphore,
    /// Lets one long request run at a time.
    working: Mutex<()>,
    /// Locked while the report for a status is collected, which may be large.
    looking: Mutex<()>,
    /// Locked while a list of all classes or flows is collected.
    listing: Mutex<()>,
    watch: std::sync::Mutex<PortWatch>,
    rates: Mutex<Rates>,
    losses: Losses,
    agent: Arc<Agent>,
}

/// The configuration in force, and the change that awaits confirmation.
struct InForce {
    installed: Arc<Installed>,
    /// Number of the configuration in force, counted from 1.
    generation: u64,
    pending: Option<Pending>,
    /// The alarm of the last reload, if it failed.
    alarm: Option<String>,
    /// The alarm of a rollback, until another change is confirmed or another file is applied.
    rolled_back: Option<String>,
}

/// A compiled configuration that is or was in force.
#[derive(Clone)]
pub(crate) struct Installed {
    documents: Documents,
    config: Config,
    /// The trunks of the configuration. Their keys were read together with the file.
    ends: Vec<TrunkEnd>,
    /// Classes changed at run time, which override `config`. `None` marks a removed class.
    live: BTreeMap<String, Option<Class>>,
    /// Warnings about the policy files, one per line.
    warnings: Vec<String>,
}

/// Treatment of run-time changes of classes when another configuration is put in force.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Live {
    /// The changes stay in force, except for classes that the file itself changes.
    Kept,
    /// The file replaces the changes.
    Undone,
}

/// A change that is rolled back unless an operator confirms it.
struct Pending {
    before: Arc<Installed>,
    deadline: Instant,
}

/// Maximum number of long requests that wait or run. An operator or a program sends a few.
const LONG: usize = 8;

/// Maximum number of live flows that an explanation lists.
const LIVE: usize = 20;

impl Daemon {
    /// A daemon for the running `plane`.
    pub(crate) fn new(
        plane: Plane,
        installed: Installed,
        fits_host: bool,
        losses: Losses,
        agent: Agent,
    ) -> Arc<Self> {
        let names = [installed.config.lan.as_str(), installed.config.wan.as_str()];
        let watch = if fits_host {
            PortWatch::new(names, plane.guard().clone())
        } else {
            PortWatch::default()
        };
        Arc::new(Self {
            plane,
            started: Instant::now(),
            started_file: installed.documents.file.clone(),
            fits_host,
            state: Mutex::new(InForce {
                installed: Arc::new(installed),
                generation: 1,
                pending: None,
                alarm: None,
                rolled_back: None,
            }),
            changing: Mutex::default(),
            saving: Arc::default(),
            long: Semaphore::new(LONG),
            working: Mutex::default(),
            looking: Mutex::default(),
            listing: Mutex::default(),
            watch: std::sync::Mutex::new(watch),
            rates: Mutex::default(),
            losses,
            agent: Arc::new(agent),
        })
    }

    /// The differences between `proposal` and the running configuration.
    pub(crate) async fn plan(&self, proposal: Proposal) -> Result<Plan, Refusal> {
        let _permit = self.long_permit().await?;
        let next = self.read(proposal).await?;
        let installed = self.installed().await;
        Ok(aside(move || installed.plan(&next)).await?)
    }

    /// Puts `proposal` in force. With `confirm_ms`, rolls it back unless it is confirmed in time.
    pub(crate) async fn apply(self: &Arc<Self>, proposal: Proposal) -> Result<Applied, Refusal> {
        if proposal.save && proposal.confirm_ms.is_some() {
            let message = "a saved set cannot be rolled back: leave out `save` or `confirm_ms`";
            return Err(Failure::input(Code::BadRequest, message).into());
        }
        let permit = self.long_permit().await?;
        self.apply_in(permit, proposal).await
    }

    /// As [`apply`](Self::apply), for a caller that already has the permit for a long request.
    async fn apply_in(
        self: &Arc<Self>,
        _permit: LongPermit<'_>,
        proposal: Proposal,
    ) -> Result<Applied, Refusal> {
        self.must_be_confirmed().await?;
        let (confirm_ms, save) = (proposal.confirm_ms, proposal.save);
        let next = self.read(proposal).await?;
        let staged = if save { Some(self.stage(&next).await?) } else { None };
        let daemon = self.clone();
        let replace = async move { daemon.replace(next, Live::Undone, confirm_ms, staged).await };
        whole(replace).await
    }

    /// Replaces the running configuration by `next`. If `staged` is given, it becomes the policy
    /// file for a restart.
    async fn replace(
        self: &Arc<Self>,
        mut next: Installed,
        live: Live,
        confirm_ms: Option<u64>,
        staged: Option<Staged>,
    ) -> Result<Applied, Refusal> {
        let _changing = self.changing.lock().await;
        self.must_be_confirmed().await?;
        let before = self.installed().await;
        if live == Live::Kept {
            // An operator may have changed a class at run time while `next` was compiled.
            next.keep_live(&before);
        }
        let next = Arc::new(next);
        let (running, coming) = (before.clone(), next.clone());
        let Plan { changes, undone } = aside(move || running.plan(&coming)).await?;
        can_change(&changes)?;
        let generation = self.install(next.clone()).await?;
        next.log_warnings();
        let saved = self.put_or_undo(staged, &before).await?;
        for class in &undone {
            tracing::warn!(
                class,
                "the file replaces changes of this class that were made while the gateway ran"
            );
        }
        let other_file = !before.documents.is_same_file(&self.installed().await.documents);
        let mut state = self.state.lock().await;
        // Older alarms concern the previous policy file. They stay if only the policies of a source
        // (repository) have changed.
        if other_file || saved.file.is_some() {
            (state.alarm, state.rolled_back) = (None, None);
        }
        if let Some(confirm) = confirm_ms.map(Duration::from_millis) {
            state.pending = Some(Pending { before, deadline: Instant::now() + confirm });
            self.roll_back_after(confirm, generation);
        }
        tracing::info!(generation, changes = changes.len(), "policies changed");
        if live == Live::Undone {
            self.agent.renew();
        }
        if let Some(doubt) = saved.doubt {
            state.alarm = Some(format!("generation {generation}: {}", doubt.message));
            return Err(doubt.into());
        }
        let restart_reads = self.other_at_restart(&state.installed.documents);
        Ok(Applied { generation, changes, undone, confirm_ms, restart_reads, saved: saved.file })
    }

    /// The policy file that a restart reads, if it differs from the file of `documents`.
    fn other_at_restart(&self, documents: &Documents) -> Option<String> {
        let other = documents.file != self.started_file;
        other.then(|| self.started_file.display().to_string())
    }

    /// Waits until no other long request runs. Fails if [`LONG`] requests already wait or run.
    async fn long_permit(&self) -> Result<LongPermit<'_>, Failure> {
        let busy = |_| Failure::new(Code::Busy, format!("{LONG} long requests wait already"));
        let permit = self.long.try_acquire().map_err(busy)?;
        Ok(self.permit_with(permit).await)
    }

    /// As [`long_permit`](Self::long_permit), but waits instead of failing. Used for requests that
    /// no client would repeat.
    async fn patient_permit(&self) -> Result<LongPermit<'_>, Failure> {
        let closed = |error| Failure::new(Code::System, format!("the daemon ends: {error}"));
        let permit = self.long.acquire().await.map_err(closed)?;
        Ok(self.permit_with(permit).await)
    }

    async fn permit_with<'a>(&'a self, permit: SemaphorePermit<'a>) -> LongPermit<'a> {
        LongPermit { _working: self.working.lock().await, _permit: permit }
    }

    /// The configuration in force.
    async fn installed(&self) -> Arc<Installed> {
        self.state.lock().await.installed.clone()
    }

    /// Fails while a change is unconfirmed.
    async fn must_be_confirmed(&self) -> Result<(), Failure> {
        match self.state.lock().await.pending {
            None => Ok(()),
            Some(_) => {
                let message = "the change before this one is not confirmed yet";
                Err(Failure::new(Code::Unconfirmed, message))
            }
        }
    }

    /// Confirms the pending change.
    pub(crate) async fn confirm(&self) -> Result<Applied, Refusal> {
        let _changing = self.changing.lock().await;
        let mut state = self.state.lock().await;
        if state.pending.take().is_none() {
            let message = "no change waits to be confirmed";
            return Err(Failure::new(Code::NothingToConfirm, message).into());
        }
        state.rolled_back = None;
        let generation = state.generation;
        let restart_reads = self.other_at_restart(&state.installed.documents);
        drop(state);
        self.keep_sets();
        tracing::info!(generation, "policies confirmed");
        let (changes, undone) = (Vec::new(), Vec::new());
        Ok(Applied { generation, changes, undone, confirm_ms: None, restart_reads, saved: None })
    }

    /// The current state. The report of the data plane may belong to a later generation.
    pub(crate) async fn status(&self) -> Result<Status, Failure> {
        // The generation is read first, because a change may come into force in between.
        let (installed, generation, deadline) = {
            let state = self.state.lock().await;
            let deadline = state.pending.as_ref().map(|pending| pending.deadline);
            (state.installed.clone(), state.generation, deadline)
        };
        let seen = self.plane.look().await?;
        let trunks = self.trunks().await?.trunks;
        let mismatches = trunk_report::mismatches(&trunks);
        let unresponsive: Vec<_> =
            seen.report.unresponsive.iter().map(report::unresponsive).collect();
        let frames = port_alarms::of(&seen, self.plane.ports());
        let file = installed.documents.file.display().to_string();
        let whole = aside(move || {
            let status = report::status(seen);
            let idle_policies = report::idle(&installed.config.policies, &status.aggregates);
            Status { idle_policies, ..status }
        });
        let whole = whole.await?;
        let alarms = self.alarms(&*self.state.lock().await).into_iter();
        let alarms = alarms.chain(frames).chain(unresponsive).chain(mismatches).collect();
        let now = Instant::now();
        let left = |deadline: Instant| millis(deadline.saturating_duration_since(now));
        Ok(Status {
            file,
            started_file: self.started_file.display().to_string(),
            ports: self.plane.ports().clone(),
            uptime_ms: millis(now.saturating_duration_since(self.started)),
            // This generation was compiled from `file`, even if another is being installed.
            generation,
            unconfirmed_ms: deadline.map(left),
            alarms,
            ..whole
        })
    }

    /// All alarms in force.
    fn alarms(&self, state: &InForce) -> Vec<String> {
        let ports = self.look_at_ports().alarms();
        let sources = self.agent.alarms();
        let of_files = state.alarm.iter().chain(&state.rolled_back).cloned();
        of_files.chain(ports).chain(sources).chain(self.losses.alarm()).collect()
    }

    /// The busiest flows, at most `most`.
    pub(crate) async fn flows(&self, most: usize) -> Result<Flows, Failure> {
        let flows = self.plane.flows(FlowSurvey::of_most(most)).await?;
        let installed = self.installed().await;
        aside(move || Flows { flows: report::flows(flows, &installed.config) }).await
    }

    /// The trunks that end at this gateway.
    pub(crate) async fn trunks(&self) -> Result<Trunks, Failure> {
        let ask = self.plane.ask(|live| {
            let peers = TrunkPort::among(live.ports).map_or_else(Vec::new, TrunkPort::peers);
            (live.machine.trunks(), peers, live.machine.config().clone())
        });
        let (trunks, peers, config) = ask.await?;
        let rates = self.rates.lock().await;
        Ok(Trunks { trunks: trunk_report::trunks(&trunks, &peers, &config, &rates) })
    }

    /// Measures the rates of the trunks. Must be called about once a second.
    pub(crate) async fn look_at_trunks(&self) {
        // An error means that the data plane has stopped and has no trunks.
        if let Ok(trunks) = self.plane.ask(|live| live.machine.trunks()).await {
            self.rates.lock().await.look(Instant::now(), &trunks);
        }
    }

    /// Explains which policy applies to the packet in `question`, and lists the live flows that
    /// match it.
    pub(crate) async fn explain(&self, question: Question) -> Result<Explanation, Refusal> {
        let _permit = self.long_permit().await?;
        let only = explain::filter(&question)?;
        let flows = self.plane.flows(FlowSurvey::of_those(only, LIVE)).await?;
        let installed = self.installed().await;
        let explained = aside(move || {
            let config = &installed.config;
            let explanation = explain(config, &question)?;
            Ok::<_, Failure>(Explanation { flows: report::flows(flows, config), ..explanation })
        });
        Ok(explained.await??)
    }

    /// Sends all queued packets and ends the data plane. Frames then bypass the gateway.
    pub(crate) fn stop(&self) {
        self.plane.stop();
    }

    /// Lets frames bypass the gateway while there is nothing to manage. Must be called
    /// periodically.
    pub(crate) fn settle(&self) {
        self.plane.settle();
    }

    /// Returns `true` if the data plane has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.plane.has_ended()
    }

    /// Returns `true` if a port was replaced by another interface. Only a restart of the gateway
    /// opens the new interface.
    pub(crate) fn is_over(&self) -> bool {
        self.look_at_ports().is_over()
    }

    fn look_at_ports(&self) -> std::sync::MutexGuard<'_, PortWatch> {
        let mut watch = self.watch.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        watch.look();
        watch
    }

    /// Compiles `proposal` together with the policy sets of its sources. Reads its key files.
    async fn read(&self, proposal: Proposal) -> Result<Installed, Refusal> {
        if proposal.save {
            return self.read_to_save(proposal).await;
        }
        let Proposal { file, text, included, .. } = proposal;
        let sets = self.installed().await.documents.sets.clone();
        let (file, text, included) = (file.into(), text.into(), included.into());
        self.compile(Documents { file, text, included, sets }).await
    }

    /// Compiles `documents`, and reads the key files that they name.
    async fn compile(&self, mut documents: Documents) -> Result<Installed, Refusal> {
        let fits_host = self.fits_host;
        let read = move || {
            let host = fits_host.then(host::look);
            let (config, found) = documents.parse(host.as_ref());
            let Some(config) = config else { return Err(Refusal::Findings(found)) };
            // The policy set of a source is dropped if the file does not name the source any more.
            // It would be out of date if a later file named the source again.
            let named = |name: &String| config.sources.iter().any(|source| source.name == *name);
            documents.sets.retain(|name, _| named(name));
            Ok(Installed::read(documents, config)?.warned(&found))
        };
        aside(read).await?
    }

    /// Puts `next` in force, including the class changes made at run time. Returns the new
    /// generation.
    ///
    /// The caller must hold `changing`.
    async fn install(&self, next: Arc<Installed>) -> Result<u64, Failure> {
        let coming = next.clone();
        let compiled = aside(move || {
            let running = coming.running();
            let policies = policy_set(&running)?;
            Ok::<_, Failure>((running.gateway, policies, trunks::seeded(coming.ends.clone())?))
        });
        let (gateway, policies, ends) = compiled.await??;
        let generation = self.plane.install(gateway, policies, ends).await?;
        let mut state = self.state.lock().await;
        (state.installed, state.generation) = (next, generation);
        self.agent.installed();
        Ok(generation)
    }

    fn roll_back_after(self: &Arc<Self>, wait: Duration, generation: u64) {
        let daemon = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            daemon.roll_back(generation).await;
        });
    }

    /// Restores the configuration that preceded `generation`, if `generation` is still unconfirmed.
    async fn roll_back(&self, generation: u64) {
        let _changing = self.changing.lock().await;
        let (before, lost) = {
            let state = self.state.lock().await;
            if state.generation != generation {
                return;
            }
            let Some(Pending { before, .. }) = &state.pending else { return };
            (before.clone(), state.installed.live.keys().cloned().collect::<Vec<_>>())
        };
        let alarm = match self.install(before).await {
            Ok(_) => {
                let classes = match lost.join(", ") {
                    none if none.is_empty() => none,
                    some => format!(", and what was changed of classes meanwhile: {some}"),
                };
                format!("generation {generation} was not confirmed and is rolled back{classes}")
            }
            Err(failure) => format!("generation {generation} cannot be rolled back: {failure}"),
        };
        tracing::warn!("{alarm}");
        let mut state = self.state.lock().await;
        (state.pending, state.rolled_back) = (None, Some(alarm));
    }
}

/// The permit to run a long request. Dropping it ends the request's exclusive run.
struct LongPermit<'a> {
    _working: MutexGuard<'a, ()>,
    _permit: SemaphorePermit<'a>,
}

impl Installed {
    /// A configuration without class changes made at run time: `config`, compiled from `documents`.
    ///
    /// Reads the key files now. A rollback then does not depend on their later content.
    pub(crate) fn read(documents: Documents, config: Config) -> Result<Self, Failure> {
        let ends = trunks::ends_at_wan(&config)?;
        Ok(Self { documents, config, ends, live: BTreeMap::new(), warnings: Vec::new() })
    }

    /// Adds the warnings in `found`.
    pub(crate) fn warned(self, found: &Findings) -> Self {
        Self { warnings: found.warnings(), ..self }
    }

    /// Logs the warnings about the documents.
    pub(crate) fn log_warnings(&self) {
        self.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    }

    /// Copies the run-time changes of classes from `running`, except for classes that the file
    /// changes.
    fn keep_live(&mut self, running: &Self) {
        let written = |installed: &Self, name: &str| {
            installed.config.classes.classes().iter().find(|class| class.name == name).cloned()
        };
        let stays = |name: &str| written(running, name) == written(self, name);
        let live = running.live.iter().filter(|(name, _)| stays(name));
        self.live = live.map(|(name, class)| (name.clone(), class.clone())).collect();
    }

    /// The changes that `next` would make, and the run-time class changes that it would undo.
    fn plan(&self, next: &Self) -> Plan {
        let changes = self.changes_to(next);
        let undone = self.undone_by(&changes);
        Plan { changes, undone }
    }

    /// The differences between the running configuration and `next`.
    fn changes_to(&self, next: &Self) -> Vec<Change> {
        let mut changes = describe::changes(&self.running(), &next.config);
        changes.extend(trunks::other_keys(self, next));
        changes
    }
}

/// The policy set of `config`.
pub(crate) fn policy_set(config: &Config) -> Result<PolicySet, Failure> {
    config.policy_set().map_err(|error| Failure::input(Code::DuplicateName, error.to_string()))
}

/// Runs `work` in another thread, so other requests are not delayed.
async fn aside<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, Failure> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.map_err(|error| Failure::new(Code::System, format!("a request failed: {error}")))
}

/// Completes `change` even if the client disconnects. After half a change, the gateway would run
/// policies that the daemon does not know and could not roll back.
async fn whole<R: Send + 'static>(
    change: impl Future<Output = Result<R, Refusal>> + Send + 'static,
) -> Result<R, Refusal> {
    let ended = tokio::spawn(change).await;
    ended.map_err(|error| Failure::new(Code::System, format!("a change failed: {error}")))?
}

fn can_change(changes: &[Change]) -> Result<(), Failure> {
    let fixed = describe::need_restart(changes);
    if fixed.is_empty() {
        return Ok(());
    }
    let list: Vec<_> = fixed.iter().map(ToString::to_string).collect();
    let message = format!("this needs a restart: {}", list.join("; "));
    Err(Failure::input(Code::NeedsRestart, message))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
