//! A scripted peer, and the expected behaviour of the end point under test.
//!
//! A script has a line for its peer and lines `set NAME = VALUE` for details of the profile. After
//! `expected:` or `recorded:`, it has one line per event. Each line begins with the
//! time in milliseconds:
//! ```text
//! 0.0 write 3000              the application hands over data; also `close`
//! 0.0 > 1 3001                sent: from, to, then `fin` and `cwr`; many segments may be one range
//! 100.0 ack 2001 sack 2501-3001 window 4000 ece echo 2
//! 100.0 = 10 5 300            window and threshold in segments, timeout in ms; `-` is none
//! ```
//!
//! Sequence numbers count from 1. `echo N` echoes the timestamp of the N-th segment sent.

use std::time::Duration;

use tidegate_base::packet::{SackBlocks, TcpFlags, TcpSegment};
use tidegate_base::{Bytes, Time};
use tidegate_tcp::{Config, Connection, EcnMode, Segment};

/// Runs `script` with an end point of `profile` and initial number `isn`. Returns all deviations.
pub(crate) fn play(script: &str, profile: &str, isn: u32) -> Vec<String> {
    let lines: Vec<Vec<&str>> = script
        .lines()
        .map(|line| line.split('#').next().unwrap().split_whitespace().collect())
        .filter(|words: &Vec<&str>| !words.is_empty())
        .collect();
    let peer = lines.iter().find(|words| words[0] == "peer").expect("a script has a peer");
    let sets = lines.iter().filter(|words| words[0] == "set").map(|words| words[1..].join(" "));
    // The kernel of the recordings also used Reno.
    let head = format!("profile = \"{profile}\"\ncongestion = \"reno\"");
    let toml = format!("{head}\n{}", sets.collect::<Vec<_>>().join("\n"));
    let config = toml::from_str(&toml).unwrap();
    let begins = lines.iter().position(|words| ["expected:", "recorded:"].contains(&words[0]));
    let begins = begins.expect("a script says what is expected");
    // Recorded events of a kernel may be late. Events derived from an RFC are exact.
    let slack = if lines[begins][0] == "recorded:" { 3 } else { 0 };
    let mut play = Play::new(Player::new(config, isn, peer), Duration::from_millis(slack));
    for words in &lines[begins + 1..] {
        play.line(words);
    }
    play.compare();
    play.wrong
}

/// A sent segment: time, range, and its FIN and CWR flags.
#[derive(Clone, Debug)]
struct Sent {
    at: Time,
    /// Tolerated deviation of the time.
    slack: Duration,
    from: u64,
    to: u64,
    flags: String,
}

struct Play {
    player: Player,
    /// Time zero of the script.
    zero: Time,
    /// Time of the last event.
    last: Time,
    slack: Duration,
    expected: Vec<Sent>,
    wrong: Vec<String>,
}

impl Play {
    fn new(player: Player, slack: Duration) -> Self {
        let zero = player.now;
        Self { player, zero, last: zero, slack, expected: Vec::new(), wrong: Vec::new() }
    }

    fn line(&mut self, words: &[&str]) {
        let at = self.zero + micros(words[0]);
        match words[1] {
            ">" => {
                self.player.advance(at);
                self.expect(at, &words[2..]);
            }
            "=" => {
                self.player.advance(at);
                self.check_state(words);
            }
            verb => {
                self.player.advance(at);
                self.player.act(verb, &words[2..]);
                self.last = at;
            }
        }
    }

    /// Tolerance for a segment sent `waited` after the previous event. A kernel's timer may be late
    /// by an eighth (Linux, `kernel/time/timer.c`), and its round trips vary.
    fn slack_after(&self, waited: Duration) -> Duration {
        if self.slack.is_zero() { Duration::ZERO } else { self.slack + waited / 6 }
    }

    /// Expects segments from `words[0]` to `words[1]`. The last segment has the flags in the
    /// further words.
    fn expect(&mut self, at: Time, words: &[&str]) {
        let (mut from, end): (u64, u64) = (words[0].parse().unwrap(), words[1].parse().unwrap());
        let segment = self.player.connection.statistics().segment;
        let fin = u64::from(words.contains(&"fin"));
        let slack = self.slack_after(at.since(self.last));
        while from < end {
            let to = if from + segment + fin >= end { end } else { from + segment };
            let flags = if to == end { words[2..].join(" ") } else { String::new() };
            self.expected.push(Sent { at, slack, from, to, flags });
            from = to;
        }
        self.last = at;
    }

    fn check_state(&mut self, words: &[&str]) {
        let now = self.player.connection.statistics();
        let window = (now.congestion_window + now.inflation) / now.segment;
        let threshold = match now.threshold {
            u64::MAX => "-".to_owned(),
            threshold => (threshold / now.segment).to_string(),
        };
        let timeout = u64::try_from(now.timeout.as_millis()).unwrap();
        let theirs = words.get(4).map(|text| text.parse::<u64>().unwrap());
        let most = |theirs: u64| if self.slack.is_zero() { 0 } else { theirs / 20 + 10 };
        let off = theirs.is_some_and(|theirs| timeout.abs_diff(theirs) > most(theirs));
        if off || words[2] != window.to_string() || words[3] != threshold {
            self.wrong.push(format!("{}: {window} {threshold} {timeout}", words.join(" ")));
        }
    }

    /// Compares the sent segments with the expected ones, up to the first difference.
    fn compare(&mut self) {
        let sent = &self.player.sent;
        for index in 0..self.expected.len().max(sent.len()) {
            let (theirs, ours) = (self.expected.get(index), sent.get(index));
            let same = theirs.zip(ours).is_some_and(|(theirs, ours)| {
                let off = ours.at.since(theirs.at).max(theirs.at.since(ours.at));
                let range = (theirs.from, theirs.to) == (ours.from, ours.to);
                range && theirs.flags == ours.flags && off <= theirs.slack
            });
            if !same {
                let (theirs, ours) = (self.show(theirs), self.show(ours));
                self.wrong.push(format!("segment {index}: expected {theirs}, sent {ours}"));
                return;
            }
        }
    }

    fn show(&self, sent: Option<&Sent>) -> String {
        let Some(sent) = sent else { return "nothing".to_owned() };
        let at = sent.at.since(self.zero).as_micros();
        format!("{}.{:03} {}-{} {}", at / 1_000, at % 1_000, sent.from, sent.to, sent.flags)
    }
}

/// The end point under test, the segments it sent, and properties of its peer.
struct Player {
    connection: Connection,
    now: Time,
    isn: u32,
    scale: u8,
    window: u64,
    timestamps: bool,
    sent: Vec<Sent>,
    echoes: Vec<u32>,
}

/// Initial sequence number of the peer.
const PEER: u32 = 70_000;

impl Player {
    /// Opens a connection to the peer that the line describes.
    fn new(mut config: Config, isn: u32, peer: &[&str]) -> Self {
        let value = |name: &str| {
            let at = peer.iter().position(|word| *word == name)?;
            peer.get(at + 1)?.parse::<u64>().ok()
        };
        let has = |name: &str| peer.contains(&name);
        config.details.timestamps = has("timestamps");
        config.receive_window = Bytes(60_000);
        if has("ecn") {
            config.details.ecn = EcnMode::Classic;
        }
        let mut connection = Connection::connect(&config, Time::ZERO, isn);
        let syn = connection.poll_transmit(Time::ZERO).unwrap().segment.header;
        let window = value("window").unwrap_or(60_000);
        let ece = if has("ecn") { TcpFlags::ECE } else { 0 };
        let header = TcpSegment {
            seq: PEER,
            ack: isn.wrapping_add(1),
            timestamps: syn.timestamps.map(|(value, _)| (1, value)),
            window: u16::try_from(window.min(65_535)).unwrap(),
            mss: u16::try_from(value("mss").unwrap()).unwrap(),
            flags: TcpFlags(TcpFlags::SYN | TcpFlags::ACK | ece),
            window_scale: value("scale").map(|scale| u8::try_from(scale).unwrap()),
            sack_permitted: has("sack"),
            ..TcpSegment::default()
        };
        let now = Time::ZERO + Duration::from_millis(value("rtt").unwrap_or(100));
        connection.handle_segment(now, &Segment { header, ..Segment::default() });
        let mut player = Self {
            connection,
            now,
            isn,
            scale: header.window_scale.unwrap_or(0),
            window,
            timestamps: has("timestamps"),
            sent: Vec::new(),
            echoes: Vec::new(),
        };
        player.drain();
        player
    }

    fn drain(&mut self) {
        while let Some(out) = self.connection.poll_transmit(self.now) {
            let header = out.segment.header;
            let len = u64::from(header.sequence_len());
            if len == 0 {
                continue;
            }
            let from = u64::from(header.seq.wrapping_sub(self.isn));
            let bits = [(TcpFlags::FIN, "fin"), (TcpFlags::CWR, "cwr")];
            let set = bits.iter().filter(|(bit, _)| header.flags.any(*bit)).map(|(_, name)| *name);
            let (at, slack, to) = (self.now, Duration::ZERO, from + len);
            let flags = set.collect::<Vec<_>>().join(" ");
            self.sent.push(Sent { at, slack, from, to, flags });
            self.echoes.push(header.timestamps.map_or(0, |(value, _)| value));
        }
    }

    /// Advances the clock and runs the timers on the way.
    fn advance(&mut self, to: Time) {
        for _ in 0..10_000 {
            self.drain();
            let Some(next) = self.connection.poll_timeout().filter(|next| *next <= to) else {
                self.now = self.now.max(to);
                return;
            };
            self.now = self.now.max(next);
        }
        panic!("timers without end at {:?}", self.now);
    }

    fn act(&mut self, verb: &str, words: &[&str]) {
        match verb {
            "write" => self.connection.write(words[0].parse().unwrap()),
            "close" => self.connection.close(),
            "ack" => self.ack(words),
            other => panic!("a script cannot `{other}`"),
        }
        self.drain();
    }

    fn ack(&mut self, words: &[&str]) {
        let number = |text: &str| self.isn.wrapping_add(text.parse().unwrap());
        let mut sack = SackBlocks::default();
        let (mut window, mut flags, mut echo) = (self.window, TcpFlags::ACK, self.echoes.len());
        let mut rest = words[1..].iter();
        while let Some(word) = rest.next() {
            match *word {
                "sack" => {}
                "ece" => flags |= TcpFlags::ECE,
                "window" => window = rest.next().unwrap().parse().unwrap(),
                "echo" => echo = rest.next().unwrap().parse().unwrap(),
                block => {
                    let (from, to) = block.split_once('-').unwrap();
                    assert!(sack.push((number(from), number(to))));
                }
            }
        }
        let clock = u32::try_from(self.now.nanos() / 1_000_000).unwrap();
        let header = TcpSegment {
            seq: PEER + 1,
            ack: number(words[0]),
            timestamps: self.timestamps.then(|| (2 + clock, self.echoes[echo - 1])),
            window: u16::try_from(window >> self.scale).unwrap(),
            flags: TcpFlags(flags),
            has_sack: !sack.is_empty(),
            ..TcpSegment::default()
        };
        self.connection.handle_segment(self.now, &Segment { header, sack, ..Segment::default() });
    }
}

/// Parses milliseconds with up to three decimals.
fn micros(text: &str) -> Duration {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let millis: u64 = whole.parse().unwrap();
    let part: u64 = format!("{part:0<3}").parse().unwrap();
    Duration::from_micros(millis * 1_000 + part)
}
