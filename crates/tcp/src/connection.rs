//! An end point: a sender, a receiver, and the state machine between them.
//!
//! Source: RFC 9293, sections 3.5, 3.6 and 3.10; RFC 5961, sections 3 and 4 (an inexact RST, SYN or
//! ACK gets a challenge ACK); RFC 7323 (timestamps, PAWS, window scaling).

mod handshake;
mod input;
mod output;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tidegate_base::{Factor, Time};

use super::congestion::CongestionControl;
use super::half::Half;
use super::profile::Config;
use super::receiver::Receiver;
use super::segment::Segment;
use super::sender::Sender;
use super::sequence::low;
use super::statistics::{Progress, Statistics};
use handshake::Handshake;

/// A segment to be sent, and the stream offset of its payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outgoing {
    /// The segment.
    pub segment: Segment,
    /// Offset of the payload in the stream that this end sends.
    pub offset: u64,
    /// The payload, SYN or FIN was sent before.
    pub retransmission: bool,
}

/// An event at an end point.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The handshake is complete, and data can flow.
    Established,
    /// Payload arrived at `offset` of the peer's stream; parts of it may have arrived before.
    /// Reported only with [`Config::reports_arrivals`].
    Arrived {
        /// Stream offset of the payload.
        offset: u64,
        /// Length of the payload in bytes.
        len: u64,
    },
    /// More bytes in order are ready for [`read`](Connection::read).
    Readable,
    /// The peer has sent FIN, and all its data has arrived.
    PeerClosed,
    /// Both streams have ended and are acknowledged.
    Closed,
    /// The peer reset the connection.
    Reset,
    /// The connection was given up after too many timeouts.
    TimedOut,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Listen,
    SynSent,
    SynReceived,
    /// ESTABLISHED and the closing states after it; the FINs of both streams distinguish these
    /// states.
    Open,
    TimeWait,
    Closed,
}

/// An end point of a connection.
///
/// After each call that passes a segment, data or the time, drain
/// [`poll_transmit`](Self::poll_transmit) until `None`. If no segment arrives before
/// [`poll_timeout`](Self::poll_timeout), call again at this time.
///
/// Two end points, on a path without delay and loss:
///
/// ```
/// use tidegate_base::Time;
/// use tidegate_tcp::{Config, Connection, Event};
///
/// let config = Config::default();
/// let mut client = Connection::connect(&config, Time::ZERO, 1);
/// let mut server = Connection::listen(&config, Time::ZERO, 2);
/// client.write(100_000);
/// client.close();
///
/// let mut now = Time::ZERO;
/// while server.readable() < 100_000 {
///     let mut quiet = true;
///     while let Some(out) = client.poll_transmit(now) {
///         server.handle_segment(now, &out.segment);
///         quiet = false;
///     }
///     while let Some(out) = server.poll_transmit(now) {
///         client.handle_segment(now, &out.segment);
///         quiet = false;
///     }
///     if quiet {
///         now = [client.poll_timeout(), server.poll_timeout()].into_iter().flatten().min().unwrap();
///     }
/// }
/// assert_eq!(server.poll_event(), Some(Event::Established));
/// assert_eq!(client.timeouts(), 0);
/// ```
pub struct Connection {
    state: State,
    config: Arc<Config>,
    sender: Half,
    receiver: Receiver,
    handshake: Handshake,
    /// Sequence numbers of offset zero of both streams.
    send_base: u32,
    receive_base: u32,
    /// Shifts of the window field (RFC 7323).
    send_scale: u8,
    receive_scale: u8,
    timestamps: bool,
    peer_sack: bool,
    /// The timestamp to echo, and its arrival time.
    recent: u32,
    recent_at: Time,
    /// The acknowledgement number sent last.
    last_ack: u32,
    /// Sequence and acknowledgement number of the segment that last updated the peer's window.
    window_from: (u32, u32),
    /// Sequence number of a reset that must be sent.
    reset: Option<u32>,
    /// The peer closed before this end did.
    passive: bool,
    time_wait_until: Time,
    happened: Happened,
    #[expect(clippy::box_collection, reason = "most connections have none, and there are many")]
    arrived: Option<Box<VecDeque<(u64, u64)>>>,
}

/// Events not fetched yet.
#[derive(Clone, Copy, Debug, Default)]
struct Happened {
    established: bool,
    readable: bool,
    peer_closed: bool,
    /// The final event of the connection.
    end: Option<Ending>,
}

/// The way in which a connection ended.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Closed,
    Reset,
    TimedOut,
}

impl Connection {
    /// Opens a connection: the next poll sends a SYN with the initial sequence number `isn`. Many
    /// connections can share an `Arc` of their settings.
    #[must_use]
    pub fn connect<C: Clone + Into<Arc<Config>>>(config: &C, now: Time, isn: u32) -> Self {
        let mut connection = Self::new(config.clone().into(), isn, State::SynSent);
        connection.handshake.begin(now);
        connection
    }

    /// Waits for a SYN.
    #[must_use]
    pub fn listen<C: Clone + Into<Arc<Config>>>(config: &C, _now: Time, isn: u32) -> Self {
        Self::new(config.clone().into(), isn, State::Listen)
    }

    fn new(config: Arc<Config>, isn: u32, state: State) -> Self {
        Self {
            state,
            sender: Half::default(),
            receiver: Receiver::new(&config),
            handshake: Handshake::new(&config),
            send_base: isn.wrapping_add(1),
            receive_base: 0,
            send_scale: 0,
            receive_scale: 0,
            timestamps: false,
            peer_sack: false,
            recent: 0,
            recent_at: Time::ZERO,
            last_ack: 0,
            window_from: (0, 0),
            reset: None,
            passive: false,
            time_wait_until: Time::MAX,
            happened: Happened::default(),
            arrived: config.reports_arrivals.then(|| Box::new(VecDeque::new())),
            config,
        }
    }

    /// Time of the next timer, if any. An early call is harmless.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Listen | State::Closed => None,
            State::SynSent | State::SynReceived => self.handshake.poll_timeout(),
            State::Open => {
                let sends = self.sender.busy().and_then(Sender::poll_timeout);
                [sends, self.receiver.poll_timeout()].into_iter().flatten().min()
            }
            State::TimeWait => Some(self.time_wait_until),
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.happened.established) {
            return Some(Event::Established);
        }
        if let Some((offset, len)) = self.arrived.as_mut().and_then(|it| it.pop_front()) {
            return Some(Event::Arrived { offset, len });
        }
        if std::mem::take(&mut self.happened.readable) {
            return Some(Event::Readable);
        }
        if std::mem::take(&mut self.happened.peer_closed) {
            return Some(Event::PeerClosed);
        }
        Some(match self.happened.end.take()? {
            Ending::Closed => Event::Closed,
            Ending::Reset => Event::Reset,
            Ending::TimedOut => Event::TimedOut,
        })
    }

    /// The application hands over `bytes` more to send.
    pub fn write(&mut self, bytes: u64) {
        if bytes > 0 {
            self.sender.wake(&self.config).write(bytes);
        }
    }

    /// The application has no more data. A FIN follows the last byte.
    pub fn close(&mut self) {
        match self.state {
            State::Listen => self.state = State::Closed,
            State::Closed => {}
            _ => self.sender.wake(&self.config).finish(),
        }
    }

    /// The application aborts the connection. Unsent data is discarded, and the peer gets a reset.
    ///
    /// Source: RFC 9293, section 3.10.5.
    pub fn abort(&mut self) {
        if matches!(self.state, State::SynReceived | State::Open) {
            self.reset = Some(self.send_base.wrapping_add(low(self.sender.next())));
        }
        self.state = State::Closed;
    }

    /// The application has read `bytes` more bytes of the data that arrived in order.
    pub fn read(&mut self, bytes: u64) {
        self.receiver.read(bytes);
    }

    /// Bytes that arrived in order and that the application has not read.
    #[must_use]
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// True if both streams have ended, or the connection was aborted.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// The congestion control, for reports about the connection's aggregate.
    pub fn congestion(&mut self) -> &mut dyn CongestionControl {
        self.sender.wake(&self.config).congestion_mut()
    }

    /// Gives the connection a weight, if its congestion control has weights.
    pub fn set_weight(&mut self, weight: Factor) {
        self.congestion().set_weight(weight);
    }

    /// Removes the backoff of the running retransmission timer, because evidence other than an ACK
    /// shows that the path works again. The timeout may then be due at once.
    ///
    /// Source: RFC 6069, section 4.
    /// Differs: all doublings of the timeout are removed at once, because the caller has better
    /// evidence. RFC 6069 removes one doubling per ICMP message.
    pub fn hasten(&mut self) {
        let details = &self.config.details;
        match self.state {
            State::SynSent | State::SynReceived => self.handshake.hasten(details),
            _ => {
                if let Some(sender) = self.sender.busy_mut() {
                    sender.hasten(details);
                }
            }
        }
    }

    /// Sends the SYN again at once, in the state SYN-SENT only. Callers use this when they learn
    /// from elsewhere that the peer now listens.
    pub fn knock_again(&mut self) {
        if self.state == State::SynSent {
            self.handshake.retry_at_once();
        }
    }

    /// State and counters of the connection.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.sender.with(&self.config, |sender| self.statistics_with(sender))
    }

    /// Number of expiries of the retransmission timer, equal to `timeouts` in
    /// [`statistics`](Self::statistics).
    #[inline]
    #[must_use]
    pub fn timeouts(&self) -> u32 {
        self.sender.busy().map_or(0, |sender| sender.counters.timeouts)
    }

    /// Bytes by which ACKs may exceed the received data. Zero unless the receiver misbehaves.
    #[must_use]
    pub fn acks_ahead(&self) -> u64 {
        u64::from(self.config.details.acks_ahead) * u64::from(self.config.mss)
    }

    /// The part of [`statistics`](Self::statistics) that callers read after each ACK.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.sender.with(&self.config, |sender| Progress {
            congestion_window: sender.window().congestion,
            segment: sender.window().segment,
            acknowledged: sender.acknowledged(),
            smoothed_rtt: sender.rto().smoothed(),
        })
    }

    fn statistics_with(&self, sender: &Sender) -> Statistics {
        let (window, counters) = (sender.window(), &sender.counters);
        Statistics {
            congestion_window: window.congestion,
            inflation: sender.inflation(),
            threshold: window.threshold,
            segment: window.segment,
            smoothed_rtt: sender.rto().smoothed(),
            least_rtt: sender.rto().least(),
            timeout: sender.rto().timeout(&self.config.details),
            flight: sender.flight(),
            written: sender.written(),
            acknowledged: sender.acknowledged(),
            delivered: sender.delivered(),
            received: self.receiver.received(),
            duplicate: self.receiver.duplicate_bytes,
            segments_sent: counters.segments_sent,
            retransmitted: counters.retransmitted,
            recoveries: counters.recoveries,
            timeouts: counters.timeouts,
            probes: counters.probes,
            spurious: counters.spurious,
            marks: self.receiver.marks,
            echoes: counters.echoes,
            reductions: counters.reductions,
            in_recovery: sender.in_recovery(),
        }
    }

    fn end(&mut self, ending: Ending) {
        self.state = State::Closed;
        self.happened.end = Some(ending);
    }
}

/// Timeouts in a row after which a connection is given up (RFC 9293, section 3.8.3: R2).
///
/// Source: Linux, `tcp_retries2` and `tcp_syn_retries`.
const MOST_TIMEOUTS: u8 = 15;
const MOST_SYNS: u8 = 6;

/// Age beyond which the saved timestamp is not compared (RFC 7323, section 5.5).
const PAWS_LIFE: Duration = Duration::from_secs(24 * 24 * 3_600);
