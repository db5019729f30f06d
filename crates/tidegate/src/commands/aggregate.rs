//! `tidegate aggregate FILE`, and its subcommands.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use tidegate_config::aggregate::{self, AggregateConfig};
use tokio::signal::unix::{SignalKind, signal};

use super::check::{complain, name};
use super::Context;
use crate::aggregate::{Gateway, make_key, public_of};
use crate::files;
use crate::log::Log;
use crate::output::Exit;

/// What `aggregate` is told.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    /// The file of the aggregate gateway
    #[arg(required = true)]
    file: Option<PathBuf>,

    /// Log more
    #[arg(long, short)]
    verbose: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the private key of a gateway, and print the public key that its peer needs
    Key {
        /// Where the private key goes; if it is there, only its public key is printed
        file: PathBuf,
    },
}

/// Does what the arguments say.
pub(crate) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    match (&args.command, &args.file) {
        (Some(Command::Key { file }), _) => key(file, context),
        (None, Some(file)) => {
            let log = Log::start(args.verbose);
            let ended = start(file, context);
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

/// What the file says, or the end of the program.
fn load(file: &Path, context: &Context) -> anyhow::Result<Result<AggregateConfig, Exit>> {
    let text = files::read_any(file, files::MOST).map_err(|error| error.of(file))?;
    let (config, found) = aggregate::parse(&name(file), &text);
    complain(&found);
    if config.is_none() && context.output.is_json() {
        context.output.json(&serde_json::json!({ "ok": false, "findings": found.data() }))?;
    }
    Ok(config.ok_or(Exit::WrongInput))
}

fn start(file: &Path, context: &Context) -> anyhow::Result<Exit> {
    let config = match load(file, context)? {
        Ok(config) => config,
        Err(exit) => return Ok(exit),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(config));
    runtime.shutdown_background();
    ended
}

async fn serve(config: AggregateConfig) -> anyhow::Result<Exit> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (listen, peer) = (config.listen, config.peer);
    let gateway = Gateway::start(config)?;
    tracing::info!("aggregate gateway on {listen}, peer {peer}");
    let exit = tokio::select! {
        () = gateway.run() => Exit::Failed,
        _ = terminate.recv() => Exit::Done,
        _ = interrupt.recv() => Exit::Done,
    };
    tracing::info!("stopped");
    Ok(exit)
}
