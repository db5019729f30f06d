//! Large requests on the control socket of a live gateway: the largest body that it accepts, and
//! the cost of an `apply` of 60 MB.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tidegate_e2e::{Gateway, Testbed, now, pause, run};

use crate::number::real;
use crate::report::{Line, Report};

/// The largest body that the API promises to accept.
const LARGEST: usize = 64 << 20;

/// The applied file: its size in bytes, and its number of policies. Comments fill the file up to
/// this size.
const APPLIED: usize = 60_000_000;
const POLICIES: u32 = 50_000;

const BACKEND: &str = "af-packet";

/// Limit for the time of an `apply`, relative to a `check` of the same file.
const TIME: f64 = 3.0;

/// Limit for the growth of the gateway's memory during the `apply`, relative to the size of the
/// request. Measured: 7.7.
const MEMORY: f64 = 10.0;

/// Limit for the time of a `status` request during the `apply`, relative to the time of the
/// `apply`. If `status` had to wait for the `apply`, this ratio would be 1.
const STATUS: f64 = 0.1;

/// Pause between two `status` requests.
const SPACING: Duration = Duration::from_millis(5);

const LIMIT: Duration = Duration::from_secs(120);

/// Adds the costs of large requests to `report`.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    report.section("Large requests on the control socket");
    let Some(bed) = Testbed::new() else {
        report.skip("large requests; there are no network namespaces: run it as root");
        return Ok(());
    };
    let gateway = bed.gateway(BACKEND, "");
    let socket = Socket::of(&gateway);
    largest(&socket, report)?;
    apply(&bed, &gateway, &socket, report)
}

/// Sends a body of the largest size, and a body of one byte more. Adds the number of wrong answers
/// to `report`.
fn largest(socket: &Socket, report: &mut Report) -> anyhow::Result<()> {
    let mut wrong = 0;
    let mut said = Vec::new();
    for (len, right) in [(LARGEST, 200), (LARGEST + 1, 413)] {
        let (status, _) = socket.post("/v1/plan", &body(&file(0, 0), len)?)?;
        wrong += u64::from(status != right);
        said.push(format!("{status} for {len} bytes"));
    }
    let what = "wrong answers to a body of 64 MiB, and to one of a byte more".to_owned();
    let beside = said.join(", ");
    report.add(Line { what, value: real(wrong), unit: "answers", most: Some(0.0), beside });
    Ok(())
}

/// Adds to `report` the time and memory of an `apply`, and the time of `status` requests that are
/// sent during the `apply`.
fn apply(
    bed: &Testbed,
    gateway: &Gateway<'_>,
    socket: &Socket,
    report: &mut Report,
) -> anyhow::Result<()> {
    let text = file(POLICIES, APPLIED);
    let path = bed.file("large.toml", &text);
    let start = now();
    run(bed.tidegate(&["check"]).arg(path), LIMIT);
    let checked = start.elapsed();

    let body = body(&text, 0)?;
    let before = (gateway.status(), memory(gateway, "VmRSS")?);
    // Resets the gateway's peak memory (`VmHWM`).
    fs::write(format!("/proc/{}/clear_refs", gateway.id()), "5")?;
    let done = AtomicBool::new(false);
    let (applied, asked) = thread::scope(|scope| {
        let asked = scope.spawn(|| ask_until(&done, socket));
        let start = now();
        let answer = socket.post("/v1/apply", &body);
        let applied = start.elapsed();
        done.store(true, Ordering::Relaxed);
        let (status, said) = answer?;
        anyhow::ensure!(status == 200, "`apply` is answered by {status}: {said:.200}");
        let asked =
            asked.join().map_err(|_| anyhow::anyhow!("the thread that asks panicked"))??;
        anyhow::Ok((applied, asked))
    })?;
    let peak = memory(gateway, "VmHWM")?;
    let after = gateway.status();

    let [applied, checked] = [applied, checked].map(|it| it.as_secs_f64());
    let add = |report: &mut Report, what: &str, value, most, beside| {
        report.add(Line { what: what.to_owned(), value, unit: "x", most, beside });
    };
    let of = "an `apply` of 60 MB with 50,000 policies";
    let beside = format!("{applied:.2} s, {checked:.2} s");
    add(report, &format!("{of}, to a `check` of the file"), applied / checked, Some(TIME), beside);
    let (grown, size) = (peak.saturating_sub(before.1), u64::try_from(body.len())?);
    let beside = format!("{} MB beyond {} MB", grown / 1_000_000, before.1 / 1_000_000);
    let what = "growth of memory at its peak, to the length of the request";
    add(report, what, real(grown) / real(size), Some(MEMORY), beside);
    let Asked { longest, count } = asked;
    let beside = format!("{longest:?}, of {count}");
    let what = "longest `status` during the `apply`, to the time of the `apply`";
    add(report, what, longest.as_secs_f64() / applied, Some(STATUS), beside);
    let hangs = |status: &Value| status["hangs"].as_u64().context("no hangs in the status");
    let value = real(hangs(&after)? - hangs(&before.0)?);
    let what = "hangs of the data plane during the `apply`".to_owned();
    report.add(Line { what, value, unit: "hangs", most: None, beside: String::new() });
    Ok(())
}

/// Statistics of `status` requests: the longest time until an answer, and their number.
struct Asked {
    longest: Duration,
    count: u64,
}

/// Requests the status repeatedly until `done`, and at least once.
fn ask_until(done: &AtomicBool, socket: &Socket) -> anyhow::Result<Asked> {
    let mut asked = Asked { longest: Duration::ZERO, count: 0 };
    loop {
        let start = now();
        let (status, said) = socket.request("GET", "/v1/status", &[])?;
        anyhow::ensure!(status == 200, "`status` is answered by {status}: {said}");
        asked.longest = asked.longest.max(start.elapsed());
        asked.count += 1;
        if done.load(Ordering::Relaxed) {
            return Ok(asked);
        }
        pause(SPACING);
    }
}

/// Memory of `gateway` in bytes: the current one (`VmRSS`), or the peak (`VmHWM`).
fn memory(gateway: &Gateway<'_>, name: &str) -> anyhow::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{}/status", gateway.id()))?;
    let line = text.lines().find(|line| line.starts_with(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    Ok(kilobytes.with_context(|| format!("no {name} in\n{text}"))? << 10)
}

/// A policy file of `len` bytes with `policies` policies, each for its own host. Comments fill the
/// file up to `len`.
fn file(policies: u32, len: usize) -> String {
    let mut text = format!("[gateway]\nlan = \"lan\"\nwan = \"wan\"\nbackend = \"{BACKEND}\"\n");
    for number in 0..policies {
        let [_, a, b, c] = number.to_be_bytes();
        text += &format!(
            "[[policy]]\nname = \"host-{number}\"\nmatch = {{ src = \"10.{a}.{b}.{c}\" }}\n\
             action = \"shape\"\nprofile = {{ mean = \"5 Mbit/s\", burst = \"64 KiB\" }}\n"
        );
    }
    while text.len() < len {
        text += &format!("# {}\n", "x".repeat((len - text.len()).min(100).saturating_sub(3)));
    }
    text
}

/// Body of a request that sends the file `text`, padded to at least `len` bytes.
fn body(text: &str, len: usize) -> anyhow::Result<Vec<u8>> {
    let mut body = serde_json::to_vec(&json!({ "file": "large.toml", "text": text }))?;
    // JSON permits trailing white space.
    body.resize(len.max(body.len()), b' ');
    Ok(body)
}

/// The control socket of a gateway.
struct Socket(PathBuf);

impl Socket {
    /// The control socket of `gateway`. The path goes through `/proc`, because the gateway has its
    /// own mount namespace with its own `/run`.
    fn of(gateway: &Gateway<'_>) -> Self {
        Self(format!("/proc/{}/root/run/tidegate.sock", gateway.id()).into())
    }

    fn post(&self, path: &str, body: &[u8]) -> anyhow::Result<(u16, String)> {
        self.request("POST", path, body)
    }

    /// Sends a request on a new connection. Returns the status and the text of the answer.
    fn request(&self, method: &str, path: &str, body: &[u8]) -> anyhow::Result<(u16, String)> {
        let mut stream = UnixStream::connect(&self.0)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        // A server that refuses a body for its length does not read it, so writing the body may
        // fail.
        let written = stream.write_all(body);
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.split_whitespace().nth(1).and_then(|it| it.parse().ok());
        match (status, written) {
            (Some(status), _) => Ok((status, answer)),
            (None, Err(error)) => Err(error.into()),
            (None, Ok(())) => bail!("no status in {answer:?}"),
        }
    }
}
