//! `tidegate run FILE` runs the gateway until it is stopped.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Context, check};
use crate::daemon::{self, Agent, ControlServers, Daemon, Installed, Limits, Plane, Socket, Store};
use crate::documents::Documents;
use crate::files;
use crate::host;
use crate::log::{Log, Losses};
use crate::output::{Exit, Failure};

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The policy file
    file: PathBuf,

    /// Also serve Prometheus metrics at this loopback address, such as 127.0.0.1:9123
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    metrics: Option<SocketAddr>,

    /// Directory for the last good policies of each source [default: $STATE_DIRECTORY, else /var/lib/tidegate]
    #[arg(long, value_name = "DIRECTORY")]
    state: Option<PathBuf>,

    /// Log more
    #[arg(long, short)]
    verbose: bool,
}

/// Parses a loopback address. Other addresses are refused, because metrics have no access control.
pub(super) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "write for example 127.0.0.1:9123")?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("not on loopback, and metrics have no protection".to_owned()),
    }
}

/// Runs the gateway until it is stopped.
pub(crate) fn run(args: &RunArgs, context: &Context) -> anyhow::Result<Exit> {
    let log = Log::start(args.verbose);
    let ended = start(args, context, &log);
    log.finish();
    ended
}

fn start(args: &RunArgs, context: &Context, log: &Log) -> anyhow::Result<Exit> {
    // SIGHUP reads the file again, which a pipe does not permit. So a pipe is refused at the start.
    let text = files::read_regular(&args.file, files::MOST);
    let text = text.map_err(|error| error.of(&args.file))?.text;
    // A later policy file may come from another directory, so the path must be absolute.
    let file = std::path::absolute(&args.file)?;
    let documents = Documents::gather(&file, text)?;
    let (config, found) = documents.parse(Some(&host::look()));
    if config.is_none() {
        return check::refuse(&found, context);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(control(args, context, documents, log.losses()));
    // A long request that is still running ends with the process.
    runtime.shutdown_background();
    ended
}

async fn control(
    args: &RunArgs,
    context: &Context,
    mut documents: Documents,
    losses: &Losses,
) -> anyhow::Result<Exit> {
    let socket = Socket::open(&context.socket)?;
    let metrics = match args.metrics {
        Some(address) => Some(daemon::listen(address).await?),
        None => None,
    };
    let signals = Signals::new()?;
    let agent = Agent::new(Store::new(state(args)));
    agent.first_sets(&mut documents, true).await;
    let (config, found) = documents.parse(Some(&host::look()));
    let config = config.ok_or_else(|| Failure::from(&found))?;
    let policies = config.policies.len();
    let installed = Installed::read(documents, config)?.warned(&found);
    let plane = Plane::start(&installed, daemon::open)?;
    installed.log_warnings();
    announce(&plane, policies);
    let daemon = Daemon::new(plane, installed, true, losses.clone(), agent);
    let limits = Limits::descriptors();
    let limits = [Limits::control(limits), Limits::metrics(limits)];
    let Signals { mut hangup, mut terminate, mut interrupt } = signals;
    let exit = tokio::select! {
        () = ControlServers::new(daemon.clone(), socket, metrics, limits).serve() => Exit::Failed,
        () = watch(&daemon) => Exit::Failed,
        () = reload(&daemon, &mut hangup) => Exit::Failed,
        () = daemon.follow_sources() => Exit::Failed,
        () = daemon.report_to_sources() => Exit::Failed,
        _ = terminate.recv() => Exit::Done,
        _ = interrupt.recv() => Exit::Done,
    };
    daemon.stop();
    tracing::info!("stopped");
    Ok(exit)
}

/// The directory that keeps the last good policies of each source.
fn state(args: &RunArgs) -> PathBuf {
    let by_systemd = || std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
    args.state.clone().or_else(by_systemd).unwrap_or_else(|| PathBuf::from("/var/lib/tidegate"))
}

fn announce(plane: &Plane, policies: usize) {
    let ports = plane.ports();
    tracing::info!("{} to {} on {}, {policies} policies", ports.lan, ports.wan, ports.backend);
    for note in &ports.notes {
        tracing::info!("{note}");
    }
    tracing::info!("fail-to-wire: {}", ports.fail_to_wire.words());
}

/// The signals that the gateway handles.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}

/// Interval between two checks of the data plane.
const WATCH: Duration = Duration::from_secs(1);

/// Monitors the data plane. Returns if it has ended, or if the interface of a port was replaced.
async fn watch(daemon: &Daemon) {
    let mut watch = tokio::time::interval(WATCH);
    loop {
        watch.tick().await;
        daemon.settle();
        daemon.look_at_trunks().await;
        if daemon.has_ended() {
            tracing::error!("the data plane has ended by itself");
            return;
        }
        if daemon.is_over() {
            return;
        }
    }
}

/// Reads the policy file again at each SIGHUP. Signals during a reload cause one more reload.
async fn reload(daemon: &Arc<Daemon>, hangup: &mut Signal) {
    while hangup.recv().await.is_some() {
        daemon.reload().await;
    }
}
