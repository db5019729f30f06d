//! Profiles: details of an end point that papers leave open and that shape their curves.
//!
//! A profile stands for the stack of an era. A file can override each detail.

mod known;

use std::time::Duration;

use serde::Deserialize;

use known::{LINUX, NS2, RFC};

use tidegate_base::parameters::{Declared, Parameter};
use tidegate_base::{Bytes, choice, parameters};

use super::congestion::{CongestionSpec, Counting};

choice! {
    /// The stack that an end point imitates.
    #[derive(Default, Hash)]
    pub enum Profile {
        /// ns-2 of the papers' years: one-way TCP, NewReno, an ACK for every segment, growth counted in
        /// ACKs, windows down to one segment on ECN.
        Ns2 = "ns2-2003",
        /// The IETF's standards track.
        Rfc = "rfc" [default],
        /// Linux 6, with its default settings.
        Linux = "linux",
    }
}

choice! {
    /// Detection and repair of lost segments.
    pub enum Recovery {
        /// Fast retransmit without fast recovery. Three duplicate ACKs start slow start from one
        /// segment, as a timeout does (4.3BSD-Tahoe, doi 10.1145/52325.52356).
        Tahoe = "tahoe",
        /// The first new ACK ends recovery (RFC 2581, section 3.2).
        Reno = "reno",
        /// Partial ACKs repair one loss each (RFC 6582).
        NewReno = "new-reno",
        /// Selective acknowledgements repair losses (RFC 6675). Without SACK from the peer, as
        /// `NewReno`.
        Sack = "sack",
    }
}

choice! {
    /// Effect of duplicate ACKs in a recovery without SACK.
    pub enum Duplicates {
        /// They widen the window (RFC 6582).
        Inflate = "inflate",
        /// Each duplicate ACK counts as one delivered segment, as a SACK block would (Linux).
        Deliver = "deliver",
    }
}

choice! {
    /// Estimate of the bytes in flight in a recovery with SACK.
    pub enum Pipe {
        /// The count of the scoreboard (RFC 6675, `SetPipe`).
        Scoreboard = "scoreboard",
        /// A counter: each ACK takes one segment from it, a partial ACK two. Three duplicate ACKs start
        /// the recovery and release only the retransmission. Every hole is then repaired once, before
        /// new data is sent. SACK blocks are forgotten when a recovery ends or the timer expires
        /// (ns-2's `Sack1`, after doi 10.1145/235160.235162).
        Estimate = "estimate",
    }
}

choice! {
    /// Limited transmit: the first two duplicate ACKs release one segment each.
    pub enum LimitedTransmit {
        /// Never.
        Off = "off",
        /// Before fast recovery (RFC 3042).
        Open = "open",
        /// Also in the slow start after a timeout, where a retransmission is released (ns-2).
        Always = "always",
    }
}

choice! {
    /// ECN capability of the end point.
    pub enum EcnMode {
        /// No.
        Off = "off",
        /// RFC 3168: the receiver repeats ECN-Echo until the sender has set CWR.
        Classic = "classic",
        /// The receiver reports exactly the marked segments (RFC 8257, section 3.2).
        Accurate = "accurate",
    }
}

choice! {
    /// The base of a reduction of the window.
    pub enum ReduceFrom {
        /// The bytes in flight (RFC 5681, equation 4).
        Flight = "flight",
        /// The window in use: the smaller of congestion window and receive window (ns-2).
        Window = "window",
        /// The congestion window (Linux).
        Congestion = "congestion",
    }
}

choice! {
    /// Treatment of a window that the application does not use.
    pub enum IdleRule {
        /// The window stays, and grows even if unused (ns-2).
        Keep = "keep",
        /// After a retransmission timeout without transmissions the window falls to the restart window
        /// (RFC 5681, section 4.1). It grows even if unused.
        Restart = "restart",
        /// The window halves for every retransmission timeout without transmissions. It does not grow
        /// while unused (RFC 2861, as in Linux).
        Halve = "halve",
        /// The window stays for five minutes, and does not grow unless half of it was used. A loss
        /// reduces the used part (RFC 7661).
        Validate = "validate",
    }
}

choice! {
    /// The part of the retransmission timeout that has a lower bound.
    pub enum Floor {
        /// The whole timeout (RFC 6298, section 2.4).
        Timeout = "timeout",
        /// The term that is added to the smoothed round-trip time (Linux).
        Variation = "variation",
    }
}

choice! {
    /// Detection of spurious timeouts.
    pub enum Spurious {
        /// No detection.
        Off = "off",
        /// The timestamp that the first ACK echoes (RFC 3522).
        Timestamps = "timestamps",
        /// Timestamps, the ACKs after a timeout (F-RTO, RFC 5682), and D-SACK (RFC 3708), as in Linux.
        All = "all",
    }
}

/// Makes [`Details`] and the fields that a file may set.
macro_rules! details {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty,)+) => {
        /// Every detail of an end point that a [`Profile`] decides.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub struct Details {
            $($(#[doc = $doc])+ pub $name: $type,)+
        }

        parameters! {
            /// An end point as written in a file.
            Described {
                /// The stack that the end point imitates.
                profile: Option<Profile> = None;
                /// The congestion control, by name or as a table. Default: that of the profile.
                congestion: Option<CongestionSpec> = None;
                /// Largest segment that is sent and accepted, without headers. Default: 1460 B.
                mss: Option<Bytes> = None;
                /// Size of the receive buffer: the most bytes accepted and not yet read. Default: 4 MiB.
                receive_window: Option<Bytes> = None;
                /// Window scale that is offered. Default: the least that can express `receive_window`.
                window_scale: Option<u8> = None;
                $($(#[doc = $doc])+ $name: Option<$type> = None;)+
            }
        }

        impl Described {
            /// The profile's details, with the overrides of the file.
            fn details(&self) -> Details {
                let mut details = self.profile.unwrap_or_default().details();
                $(if let Some(set) = self.$name { details.$name = set; })+
                details
            }
        }
    };
}

details! {
    /// Segments that may be sent before the first ACK of data; one if a SYN was lost (RFC 5681,
    /// section 3.1).
    initial_window: u32,
    /// Segments at which the first slow start ends. Without it, the threshold is arbitrarily high (RFC 5681,
    /// section 3.1).
    initial_threshold: Option<u32>,
    /// A lost SYN is a timeout like any other: it also sets the threshold, to two segments, and the
    /// timeout stays backed off until the first measurement (ns-2).
    syn_loss_is_a_timeout: bool,
    /// What the window grows by.
    counting: Counting,
    /// Segments a receiver answers with one ACK; 1 is an ACK for each.
    ack_every: u8,
    /// How long an ACK may be delayed.
    ack_delay: Duration,
    /// A copy of the newest segment in order counts like a new segment for the delayed ACK (ns-2);
    /// otherwise it is answered at once (RFC 5681, section 4.2).
    delays_copies: bool,
    /// Segments at the beginning, and after a loss, that are answered at once.
    quick_acks: u8,
    /// Retransmission timeout before the first measurement.
    rto_initial: Duration,
    /// Its least value, by `rto_floor`.
    rto_min: Duration,
    /// Its greatest value.
    rto_max: Duration,
    /// What `rto_min` bounds.
    rto_floor: Floor,
    /// The clock's step: round-trip times and timeouts are whole multiples of it; zero for none.
    clock_granularity: Duration,
    /// Every ACK measures a round-trip time; otherwise one segment at a time is timed.
    rtt_every_ack: bool,
    /// The estimator counts in steps of the clock: a round-trip time is the number of steps that
    /// began in it. After four timeouts in a row the next one starts the mean afresh (4.3BSD, ns-2).
    rtt_in_steps: bool,
    /// How lost segments are found and repaired.
    recovery: Recovery,
    /// What duplicate ACKs do in a recovery without SACK.
    duplicates: Duplicates,
    /// Most new segments that one ACK releases in a recovery of `new-reno`; 0 for no limit.
    recovery_burst: u8,
    /// In a recovery of `new-reno`, a partial ACK leaves at least one segment of the window's
    /// inflation, and takes the other segments that it acknowledges from the window itself (ns-2).
    inflation_stays: bool,
    /// What counts as in flight in a recovery with SACK.
    pipe: Pipe,
    /// SACK blocks an ACK tells at most; beside timestamps there is room for three.
    sack_blocks: u8,
    /// SACK blocks repeat the ranges of the last `sack_blocks` arrivals beyond a hole; otherwise free
    /// places are filled with older ranges.
    sack_recent_only: bool,
    /// A segment that arrived twice is reported in the first SACK block (RFC 2883).
    dsack: bool,
    /// Recovery without SACK ends with no larger a window than what is out then, and a segment (RFC
    /// 6582, section 3.2, step 3, option 1); otherwise with the threshold (option 2).
    eased_exit: bool,
    /// The ACK that ends recovery lets the window grow like any other (ns-2 without SACK, Linux).
    grow_on_exit: bool,
    /// In recovery the window comes down in proportion to what is delivered (RFC 6937, RFC 9937).
    prr: bool,
    /// Losses are found by time (RFC 8985).
    rack: bool,
    /// With SACK and without RACK: once in a recovery with nothing else to send, the last segment not
    /// known to have arrived is sent again (RFC 6675, section 4, `NextSeg`, rule 4).
    rescue: bool,
    /// A lost tail is probed for before the timeout (RFC 8985, section 7).
    tail_loss_probe: bool,
    /// What a tail loss probe waits for beyond two round-trip times.
    probe_slack: Duration,
    /// When the first two duplicate ACKs let one segment go each.
    limited_transmit: LimitedTransmit,
    /// Timestamps are offered (RFC 7323).
    timestamps: bool,
    /// Window scaling is offered (RFC 7323).
    window_scaling: bool,
    /// Whether ECN is offered.
    ecn: EcnMode,
    /// A SYN that found no answer is sent again without the offer of ECN (RFC 3168, section
    /// 6.1.1.1).
    ecn_fallback: bool,
    /// Segments that a loss leaves of the window at least; the threshold stays at two or more.
    loss_floor: u32,
    /// After a loss or ECN-Echo the threshold is cut to whole segments, the window is not (ns-2).
    whole_threshold: bool,
    /// The same for ECN-Echo.
    ecn_floor: u32,
    /// After ECN-Echo the window comes down as segments are delivered (Linux); otherwise at once.
    echo_gradually: bool,
    /// ECN-Echo at a window of one segment holds everything back for a timeout (RFC 3168, section
    /// 6.1.2).
    echo_at_one_waits: bool,
    /// The window also grows on an ACK that carries ECN-Echo.
    grow_on_echo: bool,
    /// Thresholds, and what a recovery lets go, are whole segments (Linux).
    counts_segments: bool,
    /// A timeout in fast recovery sets the threshold anew (RFC 5681, equation 4); otherwise one
    /// reduction is enough for what was out (Linux).
    timeout_reduces_again: bool,
    /// What a reduction of the window starts from.
    reduce_from: ReduceFrom,
    /// How timeouts that were not called for are found out.
    spurious: Spurious,
    /// What becomes of a window that was not used.
    idle: IdleRule,
    /// Segments are spread over the round-trip time.
    pacing: bool,
    /// An ACK reports at once that the application's reads have opened the window by much (RFC 9293,
    /// section 3.8.6.2.2); otherwise only when less than a segment of it was left.
    window_updates: bool,
    /// How long a closed connection answers what was on its way.
    time_wait: Duration,
    /// Misbehaviour: the sender sends beyond the window of its peer.
    ignores_window: bool,
    /// Misbehaviour: an ACK advances by at most this many bytes, so each segment brings several ACKs (ACK
    /// division). 0: no limit.
    ack_step: u32,
    /// Misbehaviour: ACKs exceed the data received by this many segments, and hide losses (optimistic ACKs).
    /// 0: none.
    acks_ahead: u8,
}

impl Profile {
    /// The profile's default congestion control.
    #[must_use]
    pub fn congestion(self) -> CongestionSpec {
        match self {
            Self::Ns2 => CongestionSpec::NewReno(Default::default()),
            Self::Rfc => CongestionSpec::Reno(Default::default()),
            Self::Linux => CongestionSpec::Cubic(Default::default()),
        }
    }

    /// The profile's details.
    #[must_use]
    pub const fn details(self) -> Details {
        match self {
            Self::Ns2 => NS2,
            Self::Rfc => RFC,
            Self::Linux => LINUX,
        }
    }
}

/// Settings of an end point.
///
/// A file holds them in one table: `profile`, `congestion`, `mss`, `receive_window`,
/// `window_scale`, and any of the [`Details`] by its name.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(try_from = "Described")]
pub struct Config {
    /// The stack that the end point imitates.
    pub profile: Profile,
    /// The congestion control.
    pub congestion: CongestionSpec,
    /// Largest segment that is sent and accepted, in bytes without headers. Options reduce the
    /// payload.
    pub mss: u16,
    /// Size of the receive buffer: the most bytes accepted and not yet read.
    pub receive_window: Bytes,
    /// Window scale that is offered; `None` for the least that can express `receive_window`.
    pub window_scale: Option<u8>,
    /// The profile's details, with overrides.
    pub details: Details,
    /// Each arrival of new data is reported as an [`Event`](super::Event), for drivers that keep
    /// the bytes.
    pub tell_arrivals: bool,
}

impl Config {
    /// Descriptions of the fields of a table in a file.
    #[must_use]
    pub fn parameters() -> Vec<Parameter> {
        Described::parameters()
    }

    /// An end point with this profile, its default congestion control, segments of 1,460 bytes and
    /// a receive window of 4 MiB.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            congestion: profile.congestion(),
            mss: 1_460,
            receive_window: Bytes(4 << 20),
            window_scale: None,
            details: profile.details(),
            tell_arrivals: false,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new(Profile::default())
    }
}

/// The least maximum segment size that leaves room for options.
///
/// Source: Linux, `TCP_MIN_MSS`.
pub(super) const LEAST_MSS: u16 = 88;

/// The largest window that RFC 7323 can express (section 2.3).
const LARGEST_WINDOW: Bytes = Bytes((1 << 30) - 1);

impl TryFrom<Described> for Config {
    type Error = String;

    fn try_from(described: Described) -> Result<Self, String> {
        let default = Self::new(described.profile.unwrap_or_default());
        let details = described.details();
        let mss = match described.mss {
            None => default.mss,
            Some(mss) => u16::try_from(mss.0)
                .ok()
                .filter(|mss| *mss >= LEAST_MSS)
                .ok_or_else(|| format!("`mss` is {mss}: write {LEAST_MSS} B to 65535 B"))?,
        };
        let window = described.receive_window.unwrap_or(default.receive_window);
        if window > LARGEST_WINDOW || window < Bytes(u64::from(mss)) {
            return Err(format!("`receive_window` is {window}: write one `mss` to 1023 MiB"));
        }
        if described.window_scale.is_some_and(|scale| scale > 14) {
            return Err("`window_scale` is at most 14 (RFC 7323)".to_owned());
        }
        let shift = described.window_scale.unwrap_or(14);
        let shown = Bytes(u64::from(u16::MAX) << if details.window_scaling { shift } else { 0 });
        if described.receive_window.is_some_and(|window| window > shown) {
            return Err(format!("`receive_window` is {window}: with this scaling at most {shown}"));
        }
        check(&details)?;
        Ok(Self {
            congestion: described.congestion.unwrap_or(default.congestion),
            mss,
            receive_window: window,
            window_scale: described.window_scale,
            details,
            ..default
        })
    }
}

fn check(details: &Details) -> Result<(), String> {
    if !(1..=1_000).contains(&details.initial_window) {
        return Err("`initial_window` is 1 to 1000 segments".to_owned());
    }
    if details.initial_threshold.is_some_and(|segments| segments < 2) {
        return Err("`initial_threshold` is at least 2 segments".to_owned());
    }
    if details.ack_every == 0 {
        return Err("`ack_every` is at least 1".to_owned());
    }
    if details.rto_min > details.rto_max || details.rto_initial > details.rto_max {
        return Err("`rto_min` and `rto_initial` are at most `rto_max`".to_owned());
    }
    if details.rto_min.is_zero() || details.rto_initial.is_zero() {
        return Err("`rto_min` and `rto_initial` are more than zero".to_owned());
    }
    for (floor, name) in [(details.loss_floor, "loss_floor"), (details.ecn_floor, "ecn_floor")] {
        if !(1..=2).contains(&floor) {
            return Err(format!("`{name}` is 1 or 2 segments"));
        }
    }
    if !(1..=4).contains(&details.sack_blocks) {
        return Err("`sack_blocks` is 1 to 4".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_a_profile_and_sets_single_details_otherwise() {
        let config: Config = toml::from_str(
            "profile = \"linux\"\nmss = \"1000 B\"\nrto_min = \"1 s\"\nrecovery = \"new-reno\"",
        )
        .unwrap();
        let expected = Details {
            rto_min: Duration::from_secs(1),
            recovery: Recovery::NewReno,
            ..Profile::Linux.details()
        };
        assert_eq!((config.mss, config.details), (1_000, expected));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (text, name) in [
            ("mss = \"10 B\"", "mss"),
            ("receive_window = \"2000 MiB\"", "receive_window"),
            ("receive_window = \"100 B\"", "receive_window"),
            ("window_scale = 15", "window_scale"),
            ("receive_window = \"66 kB\"\nwindow_scaling = false", "receive_window"),
            ("receive_window = \"1 MB\"\nwindow_scale = 3", "receive_window"),
            ("initial_window = 0", "initial_window"),
            ("initial_threshold = 1", "initial_threshold"),
            ("ack_every = 0", "ack_every"),
            ("rto_min = \"61 s\"", "rto_min"),
            ("rto_min = \"0 s\"", "rto_min"),
            ("ecn_floor = 3", "ecn_floor"),
            ("loss_floor = 0", "loss_floor"),
            ("sack_blocks = 5", "sack_blocks"),
            ("windowscale = 1", "windowscale"),
        ] {
            let error = toml::from_str::<Config>(text).unwrap_err().to_string();
            assert!(error.contains(name), "{text}: {error}");
        }
    }
}
