//! `tidegate detach INTERFACE…` removes the bypass programs from ports. These programs forward
//! frames while no gateway runs, and a gateway that has ended leaves them there.

use std::io;

use serde::Serialize;
use tidegate_dataplane::fail_to_wire::detach;
use tidegate_dataplane::{Interface, InterfaceError};

use super::Context;
use crate::code::Code;
use crate::daemon::PortLock;
use crate::output::{Exit, Failure};

/// Arguments of `detach`.
#[derive(Debug, clap::Args)]
pub(crate) struct DetachArgs {
    /// Interfaces to remove the programs from
    #[arg(required = true, value_name = "INTERFACE")]
    interfaces: Vec<String>,
}

/// The result for one port.
#[derive(Debug, Serialize)]
struct Detached<'a> {
    interface: &'a str,
    /// Bypass programs were attached.
    was_attached: bool,
}

/// Removes the bypass programs from the ports. From then on, only a running gateway forwards frames
/// between the ports.
pub(crate) fn run(args: &DetachArgs, context: &Context) -> anyhow::Result<Exit> {
    let found: Result<Vec<_>, _> =
        args.interfaces.iter().map(|name| Interface::find(name)).collect();
    let found = found
        .map_err(|error: InterfaceError| Failure::input(Code::NoInterface, error.to_string()))?;
    let _held: Vec<_> = found.iter().map(PortLock::take).collect::<Result<_, _>>()?;
    let mut detached = Vec::new();
    for interface in &found {
        let was_attached = detach(interface).map_err(|error| failure(interface, &error))?;
        detached.push(Detached { interface: interface.name(), was_attached });
    }
    if context.output.is_json() {
        context.output.json(&serde_json::json!({ "detached": detached }))?;
    } else {
        for it in &detached {
            let what = if it.was_attached { "detached" } else { "nothing was attached" };
            context.output.text(format!("{}: {what}", it.interface))?;
        }
    }
    Ok(Exit::Done)
}

fn failure(interface: &Interface, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::PermissionDenied => Code::NoPrivilege,
        _ => Code::NoBackend,
    };
    Failure::new(code, format!("cannot detach from `{}`: {error}", interface.name()))
}
