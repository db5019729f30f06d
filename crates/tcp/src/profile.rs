//! Profiles: the settings of a TCP stack of some era, such as ns-2 of 2003 or Linux 6.
//!
//! Papers seldom state these settings, such as the initial window or the delay of ACKs, but the
//! curves in the papers depend on them. A scenario file names a profile, and can override each
//! setting ([`Details`]).

mod known;

use std::time::Duration;

use serde::Deserialize;

use known::{LINUX, NS2, RFC};

use tidegate_base::packet::LEAST_MSS;
use tidegate_base::parameters::{Declared, Parameter};
use tidegate_base::{Bytes, choice, parameters};

use super::congestion::{CongestionSpec, Counting};

choice! {
    /// The stack that an end point imitates.
    #[derive(Default, Hash)]
    pub enum Profile {
        /// ns-2 of the papers' years: NewReno, data in one direction only, and an ACK for each segment. The
        /// window grows per ACK, and ECN can reduce it to one segment.
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
        /// Fast retransmit without fast recovery. After three duplicate ACKs, the sender enters
        /// slow start with a window of one segment, as after a timeout (4.3BSD-Tahoe, doi
        /// 10.1145/52325.52356).
        Tahoe = "tahoe",
        /// The first new ACK ends recovery (RFC 2581, section 3.2).
        Reno = "reno",
        /// Partial ACKs repair one loss each (RFC 6582).
        NewReno = "new-reno",
        /// Selective acknowledgements repair losses (RFC 6675). If the peer offers no SACK, the
        /// sender recovers as with `NewReno`.
        Sack = "sack",
    }
}

choice! {
    /// The effect of duplicate ACKs during a loss recovery without SACK.
    pub enum Duplicates {
        /// Each duplicate ACK enlarges the window by a segment (RFC 6582).
        Inflate = "inflate",
        /// Each duplicate ACK counts as one delivered segment, as a SACK block would (Linux).
        Deliver = "deliver",
    }
}

choice! {
    /// The estimate of the bytes in flight during a loss recovery with SACK.
    pub enum Pipe {
        /// The scoreboard of SACK blocks counts them (RFC 6675, `SetPipe`).
        Scoreboard = "scoreboard",
        /// A counter of segments in flight: each ACK subtracts one segment, and a partial ACK
        /// subtracts two. Three duplicate ACKs start the recovery and release only the
        /// retransmission. Every hole is then repaired once, before new data is sent. SACK blocks
        /// are forgotten when a recovery ends or the timer expires (ns-2's `Sack1`, after doi
        /// 10.1145/235160.235162).
        Estimate = "estimate",
    }
}

choice! {
    /// Limited transmit: each of the first two duplicate ACKs releases one new segment.
    pub enum LimitedTransmit {
        /// Never.
        Off = "off",
        /// Only before a fast recovery (RFC 3042).
        Open = "open",
        /// Before a fast recovery, and in the slow start after a timeout. In this slow start, each
        /// duplicate ACK releases a retransmission (ns-2).
        Always = "always",
    }
}

choice! {
    /// The kind of ECN that the end point offers.
    pub enum EcnMode {
        /// None.
        Off = "off",
        /// RFC 3168: the receiver repeats ECN-Echo until the sender has set CWR.
        Classic = "classic",
        /// The receiver reports exactly the marked segments (RFC 8257, section 3.2).
        Accurate = "accurate",
    }
}

choice! {
    /// The quantity from which the sender computes its reduced window after a loss or an ECN-Echo.
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
    /// The rule for a congestion window that the application does not fill.
    pub enum IdleRule {
        /// An idle sender keeps its window. The window grows even while the application does not
        /// fill it (ns-2).
        Keep = "keep",
        /// If the sender transmits nothing for one retransmission timeout, its window falls to the
        /// restart window (RFC 5681, section 4.1). The window grows even while the application does
        /// not fill it.
        Restart = "restart",
        /// The window halves for every retransmission timeout without transmissions. It does not
        /// grow while the application does not fill it (RFC 2861, as in Linux).
        Halve = "halve",
        /// An idle sender keeps its window for five minutes. The window grows only if at least half
        /// of it was used. A loss reduces the used part, not the whole window (RFC 7661).
        Validate = "validate",
    }
}

choice! {
    /// The part of the retransmission timeout to which the lower bound `rto_min` applies.
    pub enum Floor {
        /// The whole timeout (RFC 6298, section 2.4).
        Timeout = "timeout",
        /// Only the variation term, which is added to the smoothed round-trip time (Linux).
        Variation = "variation",
    }
}

choice! {
    /// Detection of spurious timeouts.
    pub enum Spurious {
        /// None.
        Off = "off",
        /// The timestamp that the first ACK echoes (RFC 3522).
        Timestamps = "timestamps",
        /// Timestamps, the ACKs after a timeout (F-RTO, RFC 5682), and D-SACK (RFC 3708), as in Linux.
        All = "all",
    }
}

/// Defines [`Details`], and the reader of the same fields in a file.
macro_rules! details {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty,)+) => {
        /// The settings of an end point that a [`Profile`] decides.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub struct Details {
            $($(#[doc = $doc])+ pub $name: $type,)+
        }

        parameters! {
            /// The settings of an end point, as a file writes them.
            Described {
                /// The stack that the end point imitates.
                profile: Option<Profile> = None;
                /// The congestion control, by name or as a table. Default: that of the profile.
                congestion: Option<CongestionSpec> = None;
                /// Largest segment that is sent and accepted, without headers. Default: 1460 B.
                mss: Option<Bytes> = None;
                /// Size of the receive buffer: the most bytes accepted and not yet read. Default: 4 MiB.
                receive_window: Option<Bytes> = None;
                /// Window scale in the SYN. Default: the least that can express `receive_window`.
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
    /// Number of segments that may be sent before the first ACK of data. It is one if a SYN was
    /// lost (RFC 5681, section 3.1).
    initial_window: u32,
    /// Window in segments at which the first slow start ends. By default it does not end before a loss
    /// (RFC 5681, section 3.1).
    initial_threshold: Option<u32>,
    /// A lost SYN sets the slow start threshold to two segments, as any timeout does. The
    /// backed-off timeout stays until the first measurement of a round-trip time (ns-2).
    syn_loss_is_a_timeout: bool,
    /// The unit by which the window grows: ACKs, or acknowledged bytes.
    counting: Counting,
    /// Number of segments that the receiver answers with one ACK. With 1, each segment gets an ACK.
    ack_every: u8,
    /// The longest delay of an ACK.
    ack_delay: Duration,
    /// The receiver may delay the ACK of a duplicate of the newest segment, like the ACK of a new
    /// segment (ns-2). Otherwise the receiver answers the duplicate at once (RFC 5681, section
    /// 4.2).
    delays_copies: bool,
    /// Number of segments, at the beginning and after a loss, that the receiver answers at once.
    quick_acks: u8,
    /// Retransmission timeout before the first measurement of a round-trip time.
    rto_initial: Duration,
    /// Lower bound of the retransmission timeout, or of the part that `rto_floor` names.
    rto_min: Duration,
    /// Upper bound of the retransmission timeout.
    rto_max: Duration,
    /// The part of the retransmission timeout that `rto_min` bounds.
    rto_floor: Floor,
    /// Step of the TCP clock. Round-trip times and timeouts are whole multiples of this step. Zero:
    /// an exact clock.
    clock_granularity: Duration,
    /// Each ACK measures a round-trip time. Otherwise the sender measures one segment at a time.
    rtt_every_ack: bool,
    /// A measured round-trip time is the number of clock steps that begin during the round trip.
    /// After four timeouts in a row, the next measurement replaces the smoothed round-trip time
    /// (4.3BSD, ns-2).
    rtt_in_steps: bool,
    /// The method that finds and repairs lost segments.
    recovery: Recovery,
    /// The effect of duplicate ACKs during a loss recovery without SACK.
    duplicates: Duplicates,
    /// Most new segments that one ACK releases during a recovery of `new-reno`. 0: no limit.
    recovery_burst: u8,
    /// Inflation is the enlargement of the window by duplicate ACKs during a recovery of
    /// `new-reno`. A partial ACK is subtracted from the inflation down to one segment, and then
    /// from the window (ns-2).
    inflation_stays: bool,
    /// The estimate of the bytes in flight during a recovery with SACK.
    pipe: Pipe,
    /// Most SACK blocks in an ACK. With timestamps there is room for three.
    sack_blocks: u8,
    /// SACK blocks report only the ranges of the last `sack_blocks` arrivals beyond a hole. Otherwise older ranges
    /// fill the free places.
    sack_recent_only: bool,
    /// The first SACK block reports a segment that arrived twice (RFC 2883).
    dsack: bool,
    /// At the end of a recovery without SACK, the window is at most the bytes in flight and one segment (RFC
    /// 6582, section 3.2, step 3, option 1). Otherwise the window is the threshold (option 2).
    eased_exit: bool,
    /// The window also grows on the ACK that ends a recovery (ns-2 without SACK, Linux).
    grow_on_exit: bool,
    /// During a recovery the window falls in proportion to the delivered bytes: proportional rate reduction
    /// (RFC 6937, RFC 9937).
    prr: bool,
    /// The sender finds losses by time: RACK (RFC 8985).
    rack: bool,
    /// With SACK and without RACK: if a recovery has nothing else to send, the sender repeats the last
    /// segment without an acknowledgement, once (RFC 6675, section 4, `NextSeg`, rule 4).
    rescue: bool,
    /// Before the timeout, the sender repeats its last segment to reveal a loss at the end of its data: tail
    /// loss probe (RFC 8985, section 7).
    tail_loss_probe: bool,
    /// Time that a tail loss probe waits in addition to two round-trip times.
    probe_slack: Duration,
    /// The phases in which each of the first two duplicate ACKs releases a segment.
    limited_transmit: LimitedTransmit,
    /// The SYN offers timestamps (RFC 7323).
    timestamps: bool,
    /// The SYN offers window scaling (RFC 7323).
    window_scaling: bool,
    /// The kind of ECN that the SYN offers.
    ecn: EcnMode,
    /// A SYN without an answer is repeated without the offer of ECN (RFC 3168, section 6.1.1.1).
    ecn_fallback: bool,
    /// Least window in segments after a loss. The threshold stays at two or more.
    loss_floor: u32,
    /// After a loss or an ECN-Echo, the threshold is rounded down to whole segments. The window is not (ns-2).
    whole_threshold: bool,
    /// Least window in segments after an ECN-Echo.
    ecn_floor: u32,
    /// After an ECN-Echo the window falls gradually, with each delivered segment (Linux). Otherwise it falls at
    /// once.
    echo_gradually: bool,
    /// After an ECN-Echo at a window of one segment, the sender waits for a retransmission timeout (RFC 3168,
    /// section 6.1.2).
    echo_at_one_waits: bool,
    /// The window also grows on an ACK that carries ECN-Echo.
    grow_on_echo: bool,
    /// Thresholds, and the bytes that a recovery releases, are whole segments (Linux).
    counts_segments: bool,
    /// A timeout during a fast recovery reduces the threshold once more (RFC 5681, equation 4). Otherwise the
    /// reduction at the start of the recovery is the only one (Linux).
    timeout_reduces_again: bool,
    /// The quantity from which the sender computes its reduced window after a loss or an ECN-Echo.
    reduce_from: ReduceFrom,
    /// The method that detects spurious timeouts.
    spurious: Spurious,
    /// The rule for a congestion window that the application does not fill.
    idle: IdleRule,
    /// The sender paces: it spreads its segments over the round-trip time.
    pacing: bool,
    /// If less than half of the buffer was left, the receiver sends a window update as soon as
    /// reads have enlarged the receive window by two segments (RFC 9293, section 3.8.6.2.2).
    /// Without this setting, it sends the update only if less than a segment was left.
    window_updates: bool,
    /// Time for which a closed connection still answers segments: the TIME-WAIT state.
    time_wait: Duration,
    /// Misbehaviour: the sender ignores the receive window of its peer.
    ignores_window: bool,
    /// Misbehaviour (ACK division): an ACK acknowledges at most this number of bytes, so that each segment gets
    /// several ACKs. 0: no limit.
    ack_step: u32,
    /// Misbehaviour (optimistic ACKs): ACKs acknowledge this number of segments more than were received, and
    /// hide losses. 0: none.
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
    /// Window scale in the SYN. `None`: the least that can express `receive_window`.
    pub window_scale: Option<u8>,
    /// The profile's details, with overrides.
    pub details: Details,
    /// The connection reports each arrival of new data as an [`Event`](super::Event), for drivers
    /// that keep the bytes.
    pub reports_arrivals: bool,
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
            reports_arrivals: false,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new(Profile::default())
    }
}

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
    fn a_file_names_a_profile_and_overrides_single_details() {
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
    fn impossible_settings_are_refused_by_name() {
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
