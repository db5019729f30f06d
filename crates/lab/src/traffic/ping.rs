//! Measures round-trip times of small datagrams, like those of calls and games.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::stream::is_timeout;
use crate::clock::Clock;

/// A series of echo requests.
#[derive(Clone, Debug)]
pub struct Ping {
    /// Address of the server.
    pub server: SocketAddr,
    /// Source address.
    pub from: Option<IpAddr>,
    /// Interval between two requests.
    pub every: Duration,
    /// Duration of the series.
    pub time: Duration,
    /// Time to wait for the last echoes.
    pub patience: Duration,
}

/// The result of a series.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Pings {
    /// Datagrams sent.
    pub sent: u64,
    /// Echoes received.
    pub received: u64,
    /// Median round-trip time in milliseconds.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the round-trip times in milliseconds.
    pub p99_ms: Option<f64>,
}

/// An echo that was received.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Echo {
    /// Time of the request, in milliseconds since the series began.
    pub at_ms: u64,
    /// Round-trip time in milliseconds.
    pub rtt_ms: f64,
}

/// Sends a series of echo requests, and passes each received echo to `report`.
///
/// # Errors
///
/// If no socket can be opened.
pub fn ping(it: &Ping, mut report: impl FnMut(Echo)) -> io::Result<Pings> {
    let any: IpAddr = match it.server {
        SocketAddr::V4(_) => [0; 4].into(),
        SocketAddr::V6(_) => [0; 16].into(),
    };
    let socket = UdpSocket::bind((it.from.unwrap_or(any), 0))?;
    socket.connect(it.server)?;
    let (clock, mut pings, mut rtts) = (Clock::start(), Pings::default(), Vec::new());
    let mut next = Duration::ZERO;
    loop {
        let now = clock.elapsed();
        let asking = now < it.time;
        if !asking && (pings.received == pings.sent || now >= it.time + it.patience) {
            break;
        }
        if now >= next && asking {
            // The result is ignored: a datagram dropped by a full queue on this host counts as
            // lost.
            let _ = socket.send(&nanos(now).to_be_bytes());
            pings.sent += 1;
            next += it.every;
        }
        let until = if asking { next.min(it.time) } else { it.time + it.patience };
        if let Some(sent) = echo(&socket, until.saturating_sub(clock.elapsed()))? {
            let rtt = clock.elapsed().saturating_sub(sent);
            report(Echo { at_ms: nanos(sent) / 1_000_000, rtt_ms: rtt.as_secs_f64() * 1e3 });
            pings.received += 1;
            rtts.push(rtt);
        }
    }
    rtts.sort_unstable();
    pings.p50_ms = percentile(&rtts, 50);
    pings.p99_ms = percentile(&rtts, 99);
    Ok(pings)
}

/// Waits for the next echo. Returns the time at which it was requested.
fn echo(socket: &UdpSocket, wait: Duration) -> io::Result<Option<Duration>> {
    socket.set_read_timeout(Some(wait.max(Duration::from_micros(1))))?;
    let mut datagram = [0; 8];
    match socket.recv(&mut datagram) {
        Ok(8) => Ok(Some(Duration::from_nanos(u64::from_be_bytes(datagram)))),
        // No server listens yet, so the datagram counts as lost.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(None),
        Err(error) if !is_timeout(&error) => Err(error),
        Ok(_) | Err(_) => Ok(None),
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A percentile of `sorted`, in milliseconds.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Option<f64> {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(at).map(|rtt| rtt.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_echoes_count_as_lost() {
        let server = super::super::Server::bind(([127, 0, 0, 1], 0).into(), None).unwrap();
        let mut it = Ping {
            server: server.address().unwrap(),
            from: None,
            every: Duration::from_millis(5),
            time: Duration::from_millis(50),
            patience: Duration::from_secs(20),
        };
        std::thread::spawn(move || server.run());
        let pings = ping(&it, drop).unwrap();
        assert!((1..=10).contains(&pings.sent) && pings.received == pings.sent, "{pings:?}");
        assert!(pings.p50_ms <= pings.p99_ms && pings.p50_ms.is_some());
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
        (it.server, it.patience) = (nobody.local_addr().unwrap(), Duration::from_millis(5));
        let pings = ping(&it, drop).unwrap();
        assert!(pings.sent > 0 && pings.received == 0 && pings.p50_ms.is_none());
    }

    #[test]
    fn percentiles_are_values_of_the_series() {
        let rtts: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&rtts, 50), Some(100.0));
        assert_eq!(percentile(&rtts, 99), Some(198.0));
        assert_eq!(percentile(&rtts[..1], 99), Some(1.0));
        assert_eq!(percentile(&[], 50), None);
    }
}
