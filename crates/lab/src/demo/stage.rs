//! Runs one phase of the demonstration with real sockets: builds the lab (a test network),
//! generates the traffic, and collects the figures.

use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::figures::{Figures, FlowFigures, jain, pings, rates};
use super::phase::{CLIENT, GATEWAY, Phase, RTTS, server};
use super::view::View;
use crate::clock::Clock;
use crate::code::Code;
use crate::lab::{Lab, LabRecords};
use crate::output::Failure;
use crate::topology::{self, Topology};
use crate::traffic::{Echo, Seen};

/// A process of the phase. Dropping the value ends the process.
struct Actor(Child);

impl Drop for Actor {
    fn drop(&mut self) {
        // The results are ignored: the process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A message of a traffic process.
enum Message {
    Seen(Seen),
    Echo(Echo),
}

/// Interval at which the view is updated.
const LOOK: &str = "250 ms";

/// Interval of the pings from another host.
const PING: &str = "50 ms";

/// Time limit for the first echo. Nothing delays this echo, because no download runs yet.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `phase` for `length`. Returns `None` if it was stopped.
pub(super) fn play(
    records: &LabRecords,
    phase: Phase,
    length: Duration,
    view: &mut View,
    stop: &AtomicBool,
) -> anyhow::Result<Option<Figures>> {
    let text = phase.topology();
    let (topology, found) = topology::parse(phase.name, &text);
    let Some(topology) = topology else {
        return Err(Failure::new(Code::LabFailed, found.render(false)).into());
    };
    view.begin(&phase);
    let name = format!("demo-{}", std::process::id());
    let lab = Lab::up(records, &name, &topology, &text, Path::new("/"), true)?;
    let figures = perform(&lab, &topology, phase, length, view, stop);
    let down = lab.down();
    let figures = figures?;
    down?;
    Ok(figures)
}

fn perform(
    lab: &Lab,
    topology: &Topology,
    phase: Phase,
    length: Duration,
    view: &mut View,
    stop: &AtomicBool,
) -> anyhow::Result<Option<Figures>> {
    let address = |host: usize| topology.hosts[host].addresses[0];
    let servers: Vec<_> = (1..=RTTS.len()).map(address).collect();
    let mut actors = Vec::new();
    for number in 0..RTTS.len() {
        actors.push(serve(lab, &server(number))?);
    }
    let (sender, messages) = channel();
    // The traffic runs longer than it is measured.
    let time = format!("{} ms", (length + PATIENCE).as_millis());
    let mut watch = actor(lab, CLIENT)?;
    watch.args(["watch", "eth0", "--interval", LOOK]);
    actors.push(listen(watch, sender.clone(), Message::Seen)?);
    let mut ping = actor(lab, CLIENT)?;
    ping.args(["ping", &format!("{}:7000", servers[0]), "--every", PING, "--time", &time]);
    actors.push(listen(ping, sender, Message::Echo)?);
    // The ping starts before the downloads in every run, in case the order of the flows has an
    // effect.
    await_echo(&messages)?;
    for server in &servers {
        let mut fetch = actor(lab, CLIENT)?;
        fetch.args(["fetch", &format!("{server}:7000"), "--time", &time]);
        actors.push(Actor(fetch.stdout(Stdio::null()).spawn()?));
    }
    let Some((seen, echoes)) = observe(&messages, length, &servers, view, stop)? else {
        return Ok(None);
    };
    let drops = drops(lab, phase)?;
    Ok(Some(figures(phase, length, &servers, &seen, &echoes, drops)))
}

/// A command that generates traffic on `host`.
fn actor(lab: &Lab, host: &str) -> anyhow::Result<Command> {
    let mut command = lab.command(host, std::env::current_exe()?)?;
    // A key that the user presses to stop the demonstration must not reach these processes.
    command.arg("traffic").stdin(Stdio::null()).process_group(0);
    Ok(command)
}

/// Starts a server, and waits until it listens.
fn serve(lab: &Lab, host: &str) -> anyhow::Result<Actor> {
    let mut command = actor(lab, host)?;
    command.args(["serve", "--congestion", "reno"]).stdout(Stdio::piped());
    let mut server = Actor(command.spawn()?);
    let mut line = String::new();
    if let Some(stdout) = server.0.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    if line.is_empty() {
        let message = format!("the server on `{host}` did not start");
        return Err(Failure::new(Code::LabFailed, message).into());
    }
    Ok(server)
}

/// Starts `command`, and forwards its messages to `to`.
fn listen<T: DeserializeOwned + Send + 'static>(
    mut command: Command,
    to: Sender<Message>,
    wrap: fn(T) -> Message,
) -> anyhow::Result<Actor> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take();
    thread::spawn(move || pass_on(stdout, &to, wrap));
    Ok(Actor(child))
}

fn pass_on<T: DeserializeOwned>(
    from: Option<ChildStdout>,
    to: &Sender<Message>,
    wrap: fn(T) -> Message,
) {
    for line in from.into_iter().flat_map(|stdout| BufReader::new(stdout).lines()) {
        let Ok(line) = line else { return };
        // The last line is a summary in another form, so it is skipped.
        let Ok(message) = serde_json::from_str(&line) else { continue };
        if to.send(wrap(message)).is_err() {
            return;
        }
    }
}

/// Waits for the first echo of the ping.
fn await_echo(messages: &Receiver<Message>) -> anyhow::Result<()> {
    loop {
        match messages.recv_timeout(PATIENCE) {
            Ok(Message::Echo(_)) => return Ok(()),
            Ok(Message::Seen(_)) => {}
            Err(_) => {
                let message = "nothing comes through to the client";
                return Err(Failure::new(Code::LabFailed, message).into());
            }
        }
    }
}

/// Collects messages for `length`. Returns `None` if the demonstration was stopped.
fn observe(
    messages: &Receiver<Message>,
    length: Duration,
    servers: &[IpAddr],
    view: &mut View,
    stop: &AtomicBool,
) -> anyhow::Result<Option<(Vec<Seen>, Vec<Echo>)>> {
    let (clock, mut seen, mut echoes) = (Clock::start(), Vec::<Seen>::new(), Vec::new());
    while clock.elapsed() < length {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match messages.recv_timeout(Duration::from_millis(100)) {
            Ok(Message::Seen(now)) => {
                // Rates are taken over the last second. In a quarter of a second, too few large
                // frames arrive.
                let ago = now.at_ms.saturating_sub(1_000);
                if let Some(before) = seen.iter().find(|it| it.at_ms >= ago) {
                    let (flows, all) = rates(before, &now, servers);
                    let ping = echoes.last().map(|echo: &Echo| echo.rtt_ms);
                    view.update(clock.elapsed(), length, &flows, all, ping);
                }
                seen.push(now);
            }
            Ok(Message::Echo(echo)) => echoes.push(echo),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let message = "the traffic of the demonstration ended early";
                return Err(Failure::new(Code::LabFailed, message).into());
            }
        }
    }
    Ok(Some((seen, echoes)))
}

/// Number of packets dropped so far: by the gateway, and at the bottleneck if it is not the
/// gateway.
fn drops(lab: &Lab, phase: Phase) -> anyhow::Result<[u64; 2]> {
    let elsewhere = lab.network()?.routes.iter().map(|route| route.drops).sum();
    if phase.edge.is_none() {
        return Ok([0, elsewhere]);
    }
    let status: crate::api::Status = crate::client::get(&lab.socket(GATEWAY), "/v1/status")?;
    Ok([status.drops.losses(), elsewhere])
}

fn figures(
    phase: Phase,
    length: Duration,
    servers: &[IpAddr],
    seen: &[Seen],
    echoes: &[Echo],
    [drops, drops_elsewhere]: [u64; 2],
) -> Figures {
    let warm = u64::try_from(length.as_millis() / 3).unwrap_or(u64::MAX);
    let nothing = Seen::default();
    let from = seen.iter().find(|it| it.at_ms >= warm).unwrap_or(&nothing);
    let to = seen.last().unwrap_or(&nothing);
    let (flows, rate_bps) = rates(from, to, servers);
    let flow = |(rtt, rate_bps): (&Duration, &f64)| FlowFigures {
        rtt_ms: u64::try_from(rtt.as_millis()).unwrap_or(u64::MAX),
        rate_bps: *rate_bps,
    };
    Figures {
        name: phase.name,
        parameters: phase.parameters(),
        seconds: Duration::from_millis(to.at_ms.saturating_sub(from.at_ms)).as_secs_f64(),
        jain: (jain(&flows) * 1e4).round() / 1e4,
        rate_bps,
        profile_bps: phase.profile().bps(),
        flows: RTTS.iter().zip(&flows).map(flow).collect(),
        ping_ms: pings(echoes, warm),
        drops,
        drops_elsewhere,
    }
}
