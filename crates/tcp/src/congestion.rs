//! Congestion controls: they decide how much data may be in flight.
//!
//! The sender detects acknowledged, lost and marked data, and selects retransmissions. A congestion control
//! only sets the window. To add one, write `congestion/<name>.rs` with a `Config` and its `build`. Then add
//! its `mod` line, and its line in `registry!` below.
//!
//! The sender and its profile own the properties of the stack: the initial window, floors of the
//! window, growth on an ACK with ECN-Echo, and the quantity that a loss reduces. The profile also
//! selects the unit in which the window grows ([`Counting`]). The sender paces if the congestion
//! control does not. `Config` holds the properties of the congestion control.

mod aggregate_fair;
mod bbr;
mod constant;
pub mod copa;
mod cubic;
mod dctcp;
mod growth;
mod hystart;
mod increase_by_k;
mod newreno;
mod reno;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod toy_network;
mod vegas;
mod vegas_ns2;
mod weighted_reno;
mod weighted_vegas;

use std::time::Duration;

use tidegate_base::registry;
use tidegate_base::{Factor, Rate, Time};

pub use growth::Counting;

/// Congestion window and slow start threshold, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Window {
    /// Congestion window (RFC 5681, section 2).
    pub congestion: u64,
    /// Slow start threshold: below it the window grows exponentially.
    pub threshold: u64,
    /// Size of a full segment, which converts between segments and bytes.
    pub segment: u64,
    /// The least window after a reduction: two segments (RFC 5681, section 3.1), or the profile's
    /// value for this signal. The sender sets this field before every signal.
    pub floor: u64,
}

impl Window {
    /// In slow start the window grows exponentially. RFC 5681, section 3.1 leaves open which phase
    /// applies when window and threshold are equal; here it is congestion avoidance.
    #[must_use]
    pub const fn in_slow_start(&self) -> bool {
        self.congestion < self.threshold
    }
}

/// An acknowledgement and the sender's state after it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ack {
    /// Arrival time of the ACK.
    pub now: Time,
    /// Bytes that the ACK newly acknowledges, cumulatively or selectively.
    pub bytes: u64,
    /// Bytes in flight before the ACK, by the sender's own count.
    pub flight_before: u64,
    /// Bytes in flight after the ACK.
    pub flight: u64,
    /// Stream offset up to which all data is acknowledged.
    pub acknowledged: u64,
    /// The highest stream offset sent so far.
    pub sent: u64,
    /// Round-trip time measured by this ACK, if any.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time (RFC 6298).
    pub smoothed_rtt: Duration,
    /// Least round-trip time seen.
    pub least_rtt: Duration,
    /// The ACK carries ECN-Echo.
    pub echo: bool,
    /// Acknowledged bytes that count as marked: all of `bytes` if the ACK carries ECN-Echo,
    /// otherwise none.
    pub marked: u64,
    /// The window may grow. Three conditions hold: the window limited the sender (RFC 7661), the
    /// sender is not in recovery, and the ACK carries no ECN-Echo (RFC 3168, section 6.1.2) unless
    /// the profile ignores it.
    pub may_grow: bool,
    /// The sender is repairing losses, after a fast retransmission or a timeout.
    pub in_recovery: bool,
    /// Bytes found lost since the previous ACK.
    pub lost: u64,
    /// Delivery rate, if this ACK allows an estimate.
    pub delivery: Option<Delivery>,
}

/// An estimate of the delivery rate.
///
/// Source: draft-cheng-iccrg-delivery-rate-estimation, section 3.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Delivery {
    /// The rate at which bytes are delivered.
    pub rate: Rate,
    /// Bytes delivered since the connection began.
    pub delivered: u64,
    /// `delivered` at the time when the sampled packet was sent.
    pub delivered_before: u64,
    /// The sample may be low because the sender had nothing to send.
    pub application_limited: bool,
}

/// The reason for a reduction of the window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Signal {
    /// Packets were lost, according to three duplicate ACKs, SACK or RACK. Reported at most once
    /// per window.
    Loss,
    /// The ACK carries ECN-Echo. Reported at most once per window.
    Echo,
    /// The retransmission timer expired.
    Timeout {
        /// `true` if the timer expired for the same segment before.
        again: bool,
    },
}

/// An algorithm that sets the congestion window, and optionally the pacing rate.
///
/// # Call order
///
/// 1. [`on_start`](Self::on_start) is called once, before all other calls.
/// 2. [`on_ack`](Self::on_ack) follows each ACK that acknowledges or marks bytes. If the ACK also reveals
///    a loss or a mark, [`on_signal`](Self::on_signal) follows, at most once per window.
/// 3. [`on_undo`](Self::on_undo) follows a reduction that proved spurious.
///
/// The sender owns the [`Window`]. It sets `floor` before each signal, and limits the flight to
/// `congestion` after each call.
///
/// # Time
///
/// Times are those of the ACKs, and do not run backwards. An algorithm has no timer: it acts only when
/// it is called.
///
/// # Example
///
/// Reno doubles its window in slow start, and halves it after a loss.
///
/// ```
/// use std::time::Duration;
/// use tidegate_base::Time;
/// use tidegate_tcp::congestion::{Ack, CongestionSpec, Counting, Signal, Window};
///
/// let mut reno = CongestionSpec::Reno(Default::default()).build(Counting::RFC);
/// let segment = 1_000;
/// let mut window =
///     Window { congestion: 10 * segment, threshold: u64::MAX, segment, floor: 2 * segment };
/// let rtt = Duration::from_millis(50);
/// reno.on_start(&window, Some(rtt));
/// for number in 1..=10 {
///     let ack = Ack {
///         now: Time::from_millis(50),
///         bytes: segment,
///         flight_before: 10 * segment,
///         flight: 9 * segment,
///         acknowledged: number * segment,
///         sent: (number + 10) * segment,
///         rtt: Some(rtt),
///         smoothed_rtt: rtt,
///         least_rtt: rtt,
///         echo: false,
///         marked: 0,
///         may_grow: true,
///         in_recovery: false,
///         lost: 0,
///         delivery: None,
///     };
///     reno.on_ack(&mut window, &ack);
/// }
/// assert_eq!(window.congestion, 20 * segment);
///
/// reno.on_signal(Time::from_millis(100), &mut window, 20 * segment, Signal::Loss);
/// assert_eq!(window.threshold, 10 * segment);
/// ```
pub trait CongestionControl: Send {
    /// The connection is established. `rtt` is the round-trip time of the handshake, if it was
    /// measured.
    fn on_start(&mut self, _window: &Window, _rtt: Option<Duration>) {}

    /// Grows or shrinks the window after an ACK that acknowledges or marks any bytes.
    ///
    /// The window grows only if [`may_grow`](Ack::may_grow) is set. In recovery the sender itself
    /// sets `window.congestion` (NewReno, PRR), unless [`keeps_window`](Self::keeps_window) is
    /// true.
    fn on_ack(&mut self, window: &mut Window, ack: &Ack);

    /// Sets `window.threshold` to the window after the reduction, at least `window.floor`. The
    /// sender then reduces `window.congestion` to this threshold.
    ///
    /// `flight` is the base of the reduction: the bytes sent and not acknowledged cumulatively,
    /// without the segments of limited transmit (`FlightSize` of RFC 5681). With the profiles of
    /// ns-2 and Linux, `flight` is the window instead.
    fn on_signal(&mut self, now: Time, window: &mut Window, flight: u64, signal: Signal);

    /// The last reduction was spurious (RFC 4015, F-RTO, DSACK). The sender has already restored
    /// the window.
    fn on_undo(&mut self, _now: Time, _window: &mut Window) {}

    /// The sender is about to send after `idle` without a transmission and with nothing in flight.
    fn on_idle(&mut self, _now: Time, _window: &mut Window, _idle: Duration) {}

    /// Reports a new mean round-trip time of the connection's aggregate, and the number of its
    /// connections.
    fn on_aggregate(&mut self, _mean_rtt: Duration, _connections: u32) {}

    /// Sets the weight: the number of ordinary connections whose total rate this connection should
    /// get. Algorithms without weights ignore the call.
    fn set_weight(&mut self, _weight: Factor) {}

    /// The pacing rate; `None` leaves pacing to the sender.
    fn pacing_rate(&self, _window: &Window) -> Option<Rate> {
        None
    }

    /// The algorithm uses the mean round-trip time of the aggregate: see
    /// [`on_aggregate`](Self::on_aggregate).
    fn wants_aggregate(&self) -> bool {
        false
    }

    /// The algorithm uses [`Ack::delivery`]. The sender estimates the delivery rate only in this
    /// case.
    fn wants_delivery_rate(&self) -> bool {
        false
    }

    /// The algorithm sets `window.congestion` itself, in recovery as well.
    fn keeps_window(&self) -> bool {
        false
    }
}

registry! {
    /// A congestion control, as a scenario file names it. The sender's profile selects the unit in
    /// which the window grows.
    CongestionSpec, "a congestion control", build(counting: Counting) -> CongestionControl:
    /// Additive increase, multiplicative decrease, with byte counting (RFC 5681, RFC 3465).
    Reno => reno, "reno";
    /// NewReno as in ns-2: one segment per round trip, counted in ACKs.
    NewReno => newreno, "newreno";
    /// Growth by a cubic function of time, and HyStart++ (RFC 9438, RFC 9406).
    Cubic => cubic, "cubic";
    /// Keeps a fixed number of its own segments in the queue.
    Vegas => vegas, "vegas";
    /// Vegas as in ns-2, with the weight of `itcp`.
    VegasNs2 => vegas_ns2, "vegas-ns2";
    /// Vegas with shares in proportion to weights (`itcp`).
    WeightedVegas => weighted_vegas, "weighted-vegas";
    /// Reno with shares in proportion to weights.
    WeightedReno => weighted_reno, "weighted-reno";
    /// Growth by the square of the round-trip time: equal rates within an aggregate.
    AggregateFair => aggregate_fair, "aggregate-fair";
    /// Growth by several segments per round trip for connections with a long round-trip time.
    IncreaseByK => increase_by_k, "increase-by-k";
    /// Reduction in proportion to the marked part of the data (RFC 8257).
    Dctcp => dctcp, "dctcp";
    /// Measures the rate and the round-trip time of the path (version 1, as in Linux).
    Bbr => bbr, "bbr";
    /// Keeps few segments in the queue, and measures them by their delay (Copa).
    Copa => copa, "copa";
    /// A constant rate despite losses: a sender that ignores congestion.
    Constant => constant, "constant";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct File {
        control: CongestionSpec,
    }

    fn read(text: &str) -> Result<CongestionSpec, String> {
        let file: Result<File, _> = toml::from_str(&format!("control = {text}"));
        file.map(|file| file.control).map_err(|error| error.to_string())
    }

    #[test]
    fn every_control_goes_by_its_name_and_has_defaults() {
        for name in CongestionSpec::NAMES {
            let spec = read(&format!("\"{name}\"")).unwrap();
            assert_eq!(spec.name(), *name);
            assert_eq!(read(&format!("{{ kind = \"{name}\" }}")), Ok(spec.clone()));
            drop(spec.build(Counting::RFC));
        }
    }

    #[test]
    fn fields_are_read_with_their_units_and_bounds() {
        let beta = reno::Config { beta: Factor::from_millionths(800_000), ..Default::default() };
        assert_eq!(read("{ kind = \"reno\", beta = 0.8 }"), Ok(CongestionSpec::Reno(beta)));
        let bytes = Counting::Bytes { limit: 8, after_timeout: 1 };
        let counting = reno::Config { counting: Some(bytes), ..Default::default() };
        let text = "{ kind = \"reno\", counting = { bytes = { limit = 8, after_timeout = 1 } } }";
        assert_eq!(read(text), Ok(CongestionSpec::Reno(counting)));
        for (text, expected) in [
            ("\"bic\"", "reno, newreno"),
            ("{ kind = \"reno\", betta = 0.8 }", "betta"),
            ("{ kind = \"cubic\", beta = 1.5 }", "at most 1"),
            ("{ kind = \"dctcp\", gain = -1 }", "a number from 0"),
            ("{ kind = \"increase-by-k\", from = 3 }", "has no unit"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected) || error.contains("reno"), "{text}: {error}");
        }
    }
}
