//! An end point: a sender, a receiver, and the state machine between them.
//!
//! Source: RFC 9293, sections 3.5, 3.6 and 3.10; RFC 5961, sections 3 and 4 (what is not exactly right
//! is challenged, not obeyed); RFC 7323 (timestamps, PAWS, window scaling).

mod handshake;
mod input;
mod output;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::congestion::CongestionControl;
use super::half::Half;
use super::profile::Config;
use super::receiver::Receiver;
use super::segment::Segment;
use super::sender::Sender;
use super::sequence::low;
use super::statistics::{Progress, Statistics};
use crate::{Factor, Time};
use handshake::Handshake;

/// A segment to be sent, and where its payload is taken from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outgoing {
    /// The segment.
    pub segment: Segment,
    /// Place of its payload in the stream this end sends.
    pub offset: u64,
    /// Its payload, or its SYN or FIN, was sent before.
    pub retransmission: bool,
}

/// What happened at an end point.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// Both ends agree: data flows.
    Established,
    /// Payload at this place of the peer's stream came in; some of it may have been there before.
    /// Only with [`Config::tell_arrivals`].
    Arrived {
        /// Its place in the stream.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// There is more to [`read`](Connection::read) in order.
    Readable,
    /// The peer has sent all it had, and all of it is here.
    PeerClosed,
    /// Both streams have ended and were acknowledged.
    Closed,
    /// The peer reset the connection.
    Reset,
    /// The peer did not answer for too long.
    TimedOut,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Listen,
    SynSent,
    SynReceived,
    /// ESTABLISHED and all states after it, told apart by who has finished.
    Open,
    TimeWait,
    Closed,
}

/// An end point of a connection.
///
/// Hand in segments with [`handle_segment`](Self::handle_segment), drain
/// [`poll_transmit`](Self::poll_transmit) until `None` after everything that happens, and come back
/// at [`poll_timeout`](Self::poll_timeout).
pub struct Connection {
    state: State,
    config: Arc<Config>,
    sender: Half,
    receiver: Receiver,
    handshake: Handshake,
    /// Sequence numbers of place zero of either stream.
    send_base: u32,
    receive_base: u32,
    /// Shifts of the window field (RFC 7323).
    send_scale: u8,
    receive_scale: u8,
    timestamps: bool,
    peer_sack: bool,
    /// The timestamp to echo, and when it came.
    recent: u32,
    recent_at: Time,
    /// The acknowledgement number sent last.
    last_ack: u32,
    /// Sequence and acknowledgement number of the segment the peer's window was taken from.
    window_from: (u32, u32),
    /// A reset is to be sent with this sequence number.
    reset: Option<u32>,
    /// The peer finished before we did.
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
    /// The last event there is.
    end: Option<Ending>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Closed,
    Reset,
    TimedOut,
}

impl Connection {
    /// Opens a connection: a SYN waits to be sent. Sequence numbers begin at `isn`. Many connections
    /// can share an `Arc` of their settings.
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
            arrived: config.tell_arrivals.then(|| Box::new(VecDeque::new())),
            config,
        }
    }

    /// When to come back, if nothing happens before. Early is harmless.
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

    /// The next thing that happened.
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

    /// The application has no more to send: a FIN follows the last byte.
    pub fn close(&mut self) {
        match self.state {
            State::Listen => self.state = State::Closed,
            State::Closed => {}
            _ => self.sender.wake(&self.config).finish(),
        }
    }

    /// The application gives the connection up: what was not sent is not, and the peer is told by a reset.
    ///
    /// Source: RFC 9293, section 3.10.5.
    pub fn abort(&mut self) {
        if matches!(self.state, State::SynReceived | State::Open) {
            self.reset = Some(self.send_base.wrapping_add(low(self.sender.next())));
        }
        self.state = State::Closed;
    }

    /// The application has read `bytes` more of what arrived in order.
    pub fn read(&mut self, bytes: u64) {
        self.receiver.read(bytes);
    }

    /// Bytes that arrived in order and were not read.
    #[must_use]
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// Whether both streams have ended, or the connection was given up.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Its congestion control, for what an aggregate tells it.
    pub fn congestion(&mut self) -> &mut dyn CongestionControl {
        self.sender.wake(&self.config).congestion_mut()
    }

    /// Gives the connection a weight, if its congestion control has weights.
    pub fn set_weight(&mut self, weight: Factor) {
        self.congestion().set_weight(weight);
    }

    /// Something else than an acknowledgement says that a path which was gone may be there again: what is due at
    /// the end of a timeout that was backed off is due at the end of one that was not, which may be now.
    ///
    /// Source: RFC 6069, section 4. Differs: there an ICMP message for each retransmission takes back one
    /// doubling; here whoever calls knows more, and takes back all.
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

    /// The peer is there, as is known from elsewhere, and was not when this end sent its SYN, if that is all it has
    /// sent: it sends it again at once.
    pub fn knock_again(&mut self) {
        if self.state == State::SynSent {
            self.handshake.anew();
        }
    }

    /// Its state and counts.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.sender.with(&self.config, |sender| self.statistics_with(sender))
    }

    /// Expiries of the retransmission timer, as [`statistics`](Self::statistics) has them.
    #[inline]
    #[must_use]
    pub fn timeouts(&self) -> u32 {
        self.sender.busy().map_or(0, |sender| sender.counters.timeouts)
    }

    /// Bytes by which ACKs may exceed the data received: zero unless the receiver misbehaves.
    #[must_use]
    pub fn acks_ahead(&self) -> u64 {
        u64::from(self.config.details.acks_ahead) * u64::from(self.config.mss)
    }

    /// What of [`statistics`](Self::statistics) is asked for after each acknowledgement.
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

/// Windows and connections that are not used any more (RFC 9293, section 3.8.3: R2).
///
/// Source: Linux, `tcp_retries2` and `tcp_syn_retries`.
const MOST_TIMEOUTS: u8 = 15;
const MOST_SYNS: u8 = 6;

/// Timestamps older than this say nothing (RFC 7323, section 5.5).
const PAWS_LIFE: Duration = Duration::from_secs(24 * 24 * 3_600);
