//! `tidegate lab up|exec|network|change|down` builds, uses and removes a test network in
//! namespaces.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_core::Rate;
use tidegate_core::units::duration;

use super::{Context, check};
use crate::code::Code;
use crate::lab::{self, Lab, LabRecords, RouteChange};
use crate::output::{Exit, Failure};
use crate::topology;

/// Arguments of `lab`.
#[derive(Debug, clap::Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LabCommand {
    /// Build the network a topology file describes
    Up {
        /// The topology, in TOML
        file: PathBuf,
    },
    /// Run a command on a host of the lab, or on a gateway
    Exec {
        /// Name of the lab, if several are up
        #[arg(long)]
        lab: Option<String>,
        /// Name of the host
        host: String,
        /// The command and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Take the network down, also after a crash
    Down {
        /// Name of the lab, if several are up
        #[arg(long)]
        lab: Option<String>,
    },
    /// Print the state of the lab's network in JSON
    Network {
        /// Name of the lab, if several are up
        #[arg(long)]
        lab: Option<String>,
    },
    /// Change a route while the lab runs, and print the state of the network in JSON
    Change {
        /// Name of the lab, if several are up
        #[arg(long)]
        lab: Option<String>,
        /// Position of the route in the file, from 1
        route: u32,
        /// New rate of the route
        #[arg(long, required_unless_present = "delay")]
        rate: Option<Rate>,
        /// New delay of the route, for packets sent from now on
        #[arg(long, value_parser = duration::parse)]
        delay: Option<Duration>,
    },
    /// Emulate the network of a lab
    #[command(hide = true)]
    Emulate { file: PathBuf, answer: PathBuf, ports: Vec<String> },
    /// Prepare a namespace of a lab
    #[command(hide = true)]
    Prepare {
        #[arg(long)]
        silent: bool,
        wire: Vec<String>,
    },
}

/// Runs the command.
pub(crate) fn run(args: &LabArgs, context: &Context) -> anyhow::Result<Exit> {
    let output = context.output;
    match &args.command {
        LabCommand::Up { file } => return up(file, context),
        LabCommand::Exec { lab, host, command } => {
            return Err(Lab::find(&LabRecords::open()?, lab.as_deref())?.exec(host, command));
        }
        LabCommand::Down { lab } => down(lab.as_deref(), context)?,
        LabCommand::Network { lab } => {
            output.json(&Lab::find(&LabRecords::open()?, lab.as_deref())?.network()?)?;
        }
        LabCommand::Change { lab, route, rate, delay } => {
            let delay_ns = delay.map(|it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX));
            let change = RouteChange { route: *route, rate: *rate, delay_ns };
            output.json(&Lab::find(&LabRecords::open()?, lab.as_deref())?.change(&change)?)?;
        }
        LabCommand::Emulate { file, answer, ports } => lab::emulate(file, answer, ports)?,
        LabCommand::Prepare { silent, wire } => lab::prepare(*silent, wire)?,
    }
    Ok(Exit::Done)
}

fn up(file: &Path, context: &Context) -> anyhow::Result<Exit> {
    let text = check::read(file)?;
    let (topology, found) = topology::parse(&check::name(file), &text);
    check::complain(&found);
    let Some(topology) = topology else { return Ok(Exit::WrongInput) };
    if let Some(mut command) = lab::inside()? {
        return Err(command.exec().into());
    }
    let stem = file.file_stem().map_or_else(String::new, |it| it.to_string_lossy().into_owned());
    let name = topology.name.clone().unwrap_or(stem);
    if !topology::is_name(&name) {
        let message = format!("a lab cannot be called `{}`, as its file is", name.escape_debug());
        let help =
            "add name = \"NAME\" to the file, of 1 to 32 letters, digits, dashes, underscores";
        let failure = Failure::input(Code::BadName, message);
        return Err(Failure { help: help.to_owned(), ..failure }.into());
    }
    let home = file.parent().unwrap_or_else(|| Path::new("."));
    let lab = Lab::up(&LabRecords::open()?, &name, &topology, &text, home, false)?;
    let hosts: Vec<_> = topology.hosts.iter().map(|host| host.name.as_str()).collect();
    let gateways = topology.gateways.iter().map(|it| (it.name.as_str(), lab.socket(&it.name)));
    let gateways: BTreeMap<_, _> = gateways.collect();
    if context.output.is_json() {
        let it = serde_json::json!({ "lab": name, "hosts": hosts, "gateways": gateways });
        context.output.json(&it)?;
        return Ok(Exit::Done);
    }
    let mut said = format!("lab `{name}` is up: {}\n", hosts.join(", "));
    for (gateway, socket) in gateways {
        said += &format!("gateway `{gateway}`: tidegate --socket {} status\n", socket.display());
    }
    said += &format!("next: tidegate lab exec {} COMMAND, tidegate lab down", hosts[0]);
    context.output.text(said)?;
    Ok(Exit::Done)
}

/// Takes the lab down. If no lab is up, this is an error only if the command line names a lab.
fn down(name: Option<&str>, context: &Context) -> anyhow::Result<()> {
    let taken = match Lab::find(&LabRecords::open()?, name) {
        Ok(lab) => {
            let name = lab.name().to_owned();
            lab.down()?;
            Some(name)
        }
        Err(error) => {
            let none = error.downcast_ref::<Failure>();
            let none = none.is_some_and(|it| it.code == Code::NoLab && it.exit == Exit::Failed);
            if !none || name.is_some() {
                return Err(error);
            }
            None
        }
    };
    let text = match &taken {
        Some(name) => format!("lab `{name}` is down"),
        None => "no lab is up".to_owned(),
    };
    if context.output.is_json() {
        context.output.json(&serde_json::json!({ "lab": taken }))?;
    } else {
        context.output.text(text)?;
    }
    Ok(())
}
