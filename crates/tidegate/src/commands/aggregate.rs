//! `tidegate aggregate FILE` runs an aggregate gateway, which carries the TCP connections of users
//! over one connection to its peer gateway. Subcommands make the gateway's key and show its state.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use tidegate_config::aggregate::{self, AggregateConfig};
use tidegate_core::Rate;
use tokio::signal::unix::{SignalKind, signal};

use super::Context;
use super::check::{complain, name};
use super::run::loopback;
use super::status::{listed, size};
use crate::aggregate::{AggregateStatus, Gateway, make_key, public_of};
use crate::client;
use crate::daemon::{self, Limits, Seats, Socket};
use crate::files;
use crate::log::Log;
use crate::output::Exit;

/// Arguments of `aggregate`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct AggregateArgs {
    /// The file of the aggregate gateway
    #[arg(required = true)]
    file: Option<PathBuf>,

    /// Also serve Prometheus metrics at this loopback address, such as 127.0.0.1:9124
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    metrics: Option<SocketAddr>,

    /// Log more
    #[arg(long, short)]
    verbose: bool,

    #[command(subcommand)]
    command: Option<AggregateCommand>,
}

#[derive(Debug, Subcommand)]
enum AggregateCommand {
    /// Make the private key of a gateway, and print the public key that its peer needs
    Key {
        /// The file of the private key; if it exists, only its public key is printed
        file: PathBuf,
    },
    /// Show the state of the running aggregate gateway
    Status,
}

/// The control socket of an aggregate gateway; `--socket` overrides it.
const SOCKET: &str = "/run/tidegate-aggregate.sock";

fn socket(context: &Context) -> &Path {
    let of_gateway = context.socket == Path::new(crate::cli::SOCKET);
    if of_gateway { Path::new(SOCKET) } else { &context.socket }
}

/// Runs the command.
pub(crate) fn run(args: &AggregateArgs, context: &Context) -> anyhow::Result<Exit> {
    match (&args.command, &args.file) {
        (Some(AggregateCommand::Key { file }), _) => key(file, context),
        (Some(AggregateCommand::Status), _) => status(context),
        (None, Some(file)) => {
            let log = Log::start(args.verbose);
            let ended = start(file, args, context);
            log.finish();
            ended
        }
        (None, None) => Ok(Exit::WrongInput),
    }
}

fn key(file: &Path, context: &Context) -> anyhow::Result<Exit> {
    let public = if file.exists() { public_of(file) } else { make_key(file) }?;
    if context.output.is_json() {
        context.output.json(&serde_json::json!({ "public_key": public }))?;
    } else {
        context.output.text(public)?;
    }
    Ok(Exit::Done)
}

/// The configuration in the file. If the file is invalid, returns the exit code of the program.
fn load(file: &Path, context: &Context) -> anyhow::Result<Result<AggregateConfig, Exit>> {
    let text = files::read_any(file, files::MOST).map_err(|error| error.of(file))?;
    let (config, found) = aggregate::parse(&name(file), &text);
    complain(&found);
    if config.is_none() && context.output.is_json() {
        context.output.json(&serde_json::json!({ "ok": false, "findings": found.data() }))?;
    }
    Ok(config.ok_or(Exit::WrongInput))
}

fn start(file: &Path, args: &AggregateArgs, context: &Context) -> anyhow::Result<Exit> {
    let config = match load(file, context)? {
        Ok(config) => config,
        Err(exit) => return Ok(exit),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(config, args, context));
    runtime.shutdown_background();
    ended
}

async fn serve(
    config: AggregateConfig,
    args: &AggregateArgs,
    context: &Context,
) -> anyhow::Result<Exit> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // The socket is locked first. A second gateway must not change the firewall rules of the first.
    let socket = Socket::open(socket(context))?;
    let metrics = match args.metrics {
        Some(address) => Some(daemon::listen(address).await?),
        None => None,
    };
    let (listen, peer) = (config.listen, config.peer);
    let gateway = Gateway::start(config)?;
    let descriptors = Limits::descriptors();
    let seats = [Limits::control(descriptors), Limits::metrics(descriptors)].map(Seats::new);
    let ([routes, pages], farewell) = (gateway.routes(), gateway.farewell());
    tracing::info!("aggregate gateway on {listen}, peer {peer}");
    let exit = tokio::select! {
        () = gateway.run() => Exit::Failed,
        () = daemon::serve(socket, metrics, &seats, routes, pages) => Exit::Failed,
        _ = terminate.recv() => Exit::Done,
        _ = interrupt.recv() => Exit::Done,
    };
    farewell.say().await;
    tracing::info!("stopped");
    Ok(exit)
}

fn status(context: &Context) -> anyhow::Result<Exit> {
    let status: AggregateStatus = client::get(socket(context), "/v1/aggregate")?;
    if context.output.is_json() {
        context.output.json(&status)?;
    } else {
        context.output.text(show(&status).trim_end())?;
    }
    Ok(if status.peer.is_up { Exit::Done } else { Exit::Degraded })
}

fn show(it: &AggregateStatus) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:<12} {value}");
    };
    let (peer, of_users) = (&it.peer, &it.connections);
    let state = if peer.is_up { "up" } else { "DOWN" };
    let rtt = peer.rtt_us.map_or_else(String::new, |us| format!(", rtt {}", millis(us)));
    line("peer", format!("{} is {state}{rtt}, {} times connected", peer.address, peer.links));
    line(
        "window",
        format!(
            "{}, {} of {} packets lost",
            size(peer.window_bytes),
            peer.lost_packets,
            peer.sent_packets
        ),
    );
    line(
        "connections",
        format!(
            "{} of at most {}; {} taken here, {} opened for the peer",
            of_users.now, of_users.most, of_users.taken, of_users.opened
        ),
    );
    line(
        "bytes",
        format!(
            "{} to the peer, {} from it, {} wait",
            size(it.sent_bytes),
            size(it.received_bytes),
            size(it.queue_bytes)
        ),
    );
    line("refused", listed(&of_users.refused));
    line("failed", listed(&of_users.failed));
    line(
        "reset",
        format!(
            "{}, of them {} that were stalled; {} lost bytes after their client had closed",
            of_users.reset, of_users.expelled, of_users.lost_after_close
        ),
    );
    let weight = &it.weight;
    line(
        "weight",
        format!(
            "{} ({}); rounds: {}",
            thousandths(weight.thousandths),
            weight.kind,
            listed(&weight.decisions)
        ),
    );
    if let Some(round) = &weight.round {
        let service = round
            .service_bps
            .map_or_else(|| "unknown".to_owned(), |bps| Rate::from_bps(bps).to_string());
        line(
            "last round",
            format!(
                "busy {} %, offered {}, service {service}",
                round.busy_thousandths / 10,
                Rate::from_bps(round.offered_bps)
            ),
        );
    }
    text
}

fn millis(micros: u64) -> String {
    format!("{} ms", thousandths(micros))
}

/// Formats a number that is given in thousandths.
fn thousandths(n: u64) -> String {
    format!("{}.{:03}", n / 1_000, n % 1_000)
}
