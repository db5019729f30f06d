//! The client: makes one transfer over one TCP connection, and counts its bytes.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde::Serialize;
use socket2::{Domain, Socket, Type};

use super::pin_congestion_control;
use super::request::{Receipt, Request, Sender};
use super::stream::{is_timeout, receive, send};
use crate::clock::Clock;

/// A transfer.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Address of the server.
    pub server: SocketAddr,
    /// The end that sends.
    pub sender: Sender,
    /// Bytes to transfer. `None` means as many as the time permits.
    pub bytes: Option<u64>,
    /// Time limit, if any.
    pub time: Option<Duration>,
    /// Source address.
    pub from: Option<IpAddr>,
    /// Congestion control of the sending end.
    pub congestion_control: Option<String>,
    /// Interval of reports.
    pub interval: Duration,
}

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Progress {
    /// Milliseconds since the transfer began.
    pub at_ms: u64,
    /// Bytes transferred so far.
    pub bytes: u64,
}

/// The result of a transfer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Outcome {
    /// The progress at its end.
    #[serde(flatten)]
    pub end: Progress,
    /// Is `true` if all requested bytes have arrived.
    pub complete: bool,
    /// Is `true` if the bytes that arrived are unchanged.
    pub intact: bool,
}

impl Transfer {
    fn connect(&self) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(self.server), Type::STREAM, None)?;
        pin_congestion_control(&socket, self.congestion_control.as_deref())?;
        if let Some(address) = self.from {
            socket.bind(&SocketAddr::from((address, 0)).into())?;
        }
        match self.time {
            Some(time) => socket.connect_timeout(&self.server.into(), time)?,
            None => socket.connect(&self.server.into())?,
        }
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(self.interval))?;
        stream.set_write_timeout(Some(self.interval))?;
        Ok(stream)
    }
}

/// Reports the progress, at most once per interval.
struct Reporter<F> {
    clock: Clock,
    interval: Duration,
    next: Duration,
    report: F,
}

impl<F: FnMut(Progress)> Reporter<F> {
    fn update(&mut self, bytes: u64) -> Progress {
        let elapsed = self.clock.elapsed();
        let at_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let progress = Progress { at_ms, bytes };
        if elapsed >= self.next {
            (self.report)(progress);
            self.next = elapsed + self.interval;
        }
        progress
    }
}

/// Makes a transfer, and reports its progress to `report`.
///
/// # Errors
///
/// If the connection fails or breaks.
pub fn transfer(it: &Transfer, report: impl FnMut(Progress)) -> io::Result<Outcome> {
    let clock = Clock::start();
    let mut reporter = Reporter { clock, interval: it.interval, next: it.interval, report };
    let in_time = || it.time.is_none_or(|time| clock.elapsed() < time);
    let bytes = it.bytes.unwrap_or(u64::MAX);
    let mut connection = match it.connect() {
        Ok(connection) => connection,
        // The time limit expired before the connection was established.
        Err(error) if it.time.is_some() && is_timeout(&error) => {
            let complete = it.bytes.is_none_or(|bytes| bytes == 0);
            return Ok(Outcome { end: reporter.update(0), complete, intact: true });
        }
        Err(error) => return Err(error),
    };
    Request { sender: it.sender, bytes }.write(&mut connection)?;
    let receipt = match it.sender {
        Sender::Server => receive(&mut connection, bytes, |so_far| {
            reporter.update(so_far);
            in_time()
        })?,
        Sender::Client => {
            send(&mut connection, bytes, |so_far| {
                reporter.update(so_far);
                in_time()
            })?;
            connection.shutdown(Shutdown::Write)?;
            // The server still has to receive the bytes in flight. There is no time limit for them.
            connection.set_read_timeout(None)?;
            Receipt::read(&mut connection)?
        }
    };
    let complete = it.bytes.is_none_or(|bytes| receipt.bytes == bytes);
    Ok(Outcome { end: reporter.update(receipt.bytes), complete, intact: receipt.intact })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::Server;
    use super::*;

    #[test]
    fn both_directions_arrive_intact_with_the_requested_congestion_control() {
        let server = Server::bind(([127, 0, 0, 1], 0).into(), Some("reno")).unwrap();
        let mut it = Transfer {
            server: server.address().unwrap(),
            sender: Sender::Server,
            bytes: Some(3_000_000),
            time: Some(Duration::from_secs(60)),
            from: Some([127, 0, 0, 2].into()),
            congestion_control: Some("reno".to_owned()),
            interval: Duration::from_millis(100),
        };
        thread::spawn(move || server.run());
        for sender in [Sender::Server, Sender::Client] {
            it.sender = sender;
            let outcome = transfer(&it, drop).unwrap();
            assert!(outcome.complete && outcome.intact, "{outcome:?}");
            assert_eq!(outcome.end.bytes, 3_000_000);
        }
        it.congestion_control = Some("bolt".to_owned());
        let error = transfer(&it, drop).unwrap_err().to_string();
        assert!(error.contains("`bolt`"), "{error}");
    }
}
