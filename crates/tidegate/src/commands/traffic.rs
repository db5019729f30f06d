//! `tidegate traffic serve|watch|fetch|ping`: the programs that generate and count traffic on the
//! hosts of a lab.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tidegate_core::Bytes;
use tidegate_core::units::duration;

use super::Context;
use crate::output::Exit;
use crate::traffic::{Ping, Sender, Server, Transfer, ping, transfer, watch};

/// Arguments of `traffic`.
#[derive(Debug, clap::Args)]
pub(crate) struct TrafficArgs {
    #[command(subcommand)]
    command: TrafficCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TrafficCommand {
    /// Send and receive over TCP as clients request, and echo UDP
    Serve {
        /// Address and port
        #[arg(default_value = "[::]:7000")]
        address: SocketAddr,
        /// Congestion control to send with, such as `reno`
        #[arg(long)]
        congestion: Option<String>,
    },
    /// Count the packets that arrive at an interface; prints a line of JSON per interval
    Watch {
        /// The interface
        interface: String,
        /// How often to report
        #[arg(long, default_value = "500 ms", value_parser = duration::parse)]
        interval: Duration,
    },
    /// Make one transfer; prints a line of JSON per interval
    Fetch(Fetch),
    /// Measure round trips of small datagrams; prints a line of JSON per echo
    Ping {
        /// Address and port of a server (`serve`)
        server: SocketAddr,
        /// Address to send from
        #[arg(long)]
        from: Option<IpAddr>,
        /// Interval between two datagrams
        #[arg(long, default_value = "20 ms", value_parser = duration::parse)]
        every: Duration,
        /// Duration of the measurement
        #[arg(long, default_value = "10 s", value_parser = duration::parse)]
        time: Duration,
        /// How long to wait for the last echoes
        #[arg(long, default_value = "2 s", value_parser = duration::parse)]
        patience: Duration,
    },
}

#[derive(Debug, clap::Args)]
struct Fetch {
    /// Address and port of a server (`serve`)
    server: SocketAddr,
    /// Send to the server instead of receiving
    #[arg(long)]
    upload: bool,
    /// Bytes to transfer [default: as many as possible within the time]
    #[arg(long)]
    bytes: Option<Bytes>,
    /// Longest duration of the transfer
    #[arg(long, value_parser = duration::parse, required_unless_present = "bytes")]
    time: Option<Duration>,
    /// Address to connect from
    #[arg(long)]
    from: Option<IpAddr>,
    /// Congestion control to send with, such as `reno`
    #[arg(long)]
    congestion: Option<String>,
    /// Interval between two reports
    #[arg(long, default_value = "500 ms", value_parser = duration::parse)]
    interval: Duration,
}

/// Runs the command.
pub(crate) fn run(args: &TrafficArgs, context: &Context) -> anyhow::Result<Exit> {
    let output = context.output;
    match &args.command {
        TrafficCommand::Serve { address, congestion } => {
            let server = Server::bind(*address, congestion.as_deref())?;
            // The parent process waits for this line to learn the address.
            output.json(&serde_json::json!({ "address": server.address()? }))?;
            server.run()?;
            Ok(Exit::Done)
        }
        TrafficCommand::Watch { interface, interval } => {
            watch(interface, *interval, |seen| output.json(&seen).is_ok())?;
            Ok(Exit::Done)
        }
        TrafficCommand::Fetch(fetch) => {
            // The last line holds the result. Earlier lines only show the progress.
            let outcome = transfer(&fetch.transfer(), |progress| drop(output.json(&progress)))?;
            output.json(&outcome)?;
            Ok(if outcome.complete && outcome.intact { Exit::Done } else { Exit::Failed })
        }
        &TrafficCommand::Ping { server, from, every, time, patience } => {
            let it = Ping { server, from, every, time, patience };
            output.json(&ping(&it, |echo| drop(output.json(&echo)))?)?;
            Ok(Exit::Done)
        }
    }
}

impl Fetch {
    fn transfer(&self) -> Transfer {
        Transfer {
            server: self.server,
            sender: if self.upload { Sender::Client } else { Sender::Server },
            bytes: self.bytes.map(|bytes| bytes.0),
            time: self.time,
            from: self.from,
            congestion_control: self.congestion.clone(),
            interval: self.interval,
        }
    }
}
