//! Authentication of trunk packets: how two gateways agree on session keys, and how they refuse
//! forged and replayed packets.
//!
//! An operator gives both gateways the same secret key. Each gateway draws a random *nonce* when it
//! starts. A *hello* message holds the nonce of its sender, and the last nonce that the sender has
//! received. A gateway that finds its own nonce in a hello knows that the hello is recent. Both
//! then know two nonces, and neither gateway chose both. The secret and these nonces yield the keys
//! of the *session*, one for each direction. The session keys authenticate all later packets, which
//! are numbered. Packets recorded in an earlier session therefore fail the check.
//!
//! ```text
//! A asking                                  B asking
//!    hello: own a, heard none  ---------->     a is unverified: answer once
//!              <----------  hello: own b, heard a
//! A agreed on (a, b)
//!    hello: own a, heard b  ------------->  B agreed on (a, b)
//!              <----------  hello: own b, heard a
//!    segments, user packets  <-------->     segments, user packets
//! ```
//!
//! A nonce serves one session. A peer may send another nonce because it has restarted, or an
//! attacker may replay an earlier hello. The table shows the states of an end, and the effect of a
//! hello:
//!
//! | state | own nonce | hello without own nonce | hello with own nonce and the session's peer nonce | hello with own nonce and another peer nonce |
//! |---|---|---|---|---|
//! | asking | new | answer | | agreed, answer |
//! | agreed | of the session | answer | the peer is alive | renewing with a new nonce, answer |
//! | renewing | new; the session continues | answer | | agreed on a new session, answer |
//!
//! A hello without this end's nonce may have been recorded long ago. The answer repeats the nonce
//! of that hello, so a live peer finds its own nonce in the answer. Each such nonce is answered at
//! most once a second, and changes nothing else. Replayed hellos therefore cannot suppress the
//! answer to a live peer.
//!
//! A hello states the [`Form`] of the trunk: whether user packets are encapsulated in datagrams, by
//! which mechanism the trunk finds its share of the path, and whether connections have weights. An
//! end refuses a hello with another form, so that no session begins.
//!
//! The authentication tag of a packet is SipHash-2-4 with 128 bits of output. This MAC for
//! short messages takes at most half the time of BLAKE3. BLAKE3 derives the MAC keys of 128 bits
//! from the secret.
//!
//! - A tag covers a user packet completely. An accepted packet was thus sent by the other end in
//!   this session, and is accepted only once.
//! - Nothing is encrypted.
//! - The tag does not cover the outer IP header, because routers change its DS codepoint, ECN field
//!   and hop limit. The keys depend on the addresses and the port.
//!
//! Source: RFC 4303, section 3.4.3 (check the tag before the anti-replay window); RFC 6479;
//! "SipHash: a fast short-input PRF" (INDOCRYPT 2012), sections 2.4 and 5, and its reference code
//! for 128 bits.

use std::net::IpAddr;
use std::time::Duration;

use siphasher::sip128::SipHasher24;
use tidegate_core::Time;
use tidegate_core::tcp::Segment;

use super::message::{LONGEST, MOST, Message, Nonce, USER};
use super::replay::Window;
use super::{Form, Refusal, Refusals};

/// The secret that both gateways of a trunk share.
#[derive(Clone)]
pub struct Key(pub [u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The addresses and the port of a trunk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ends {
    /// The address of this end.
    pub local: IpAddr,
    /// The address of the other end.
    pub peer: IpAddr,
    /// The UDP port at both ends.
    pub port: u16,
}

impl Ends {
    /// The same ends as seen by the peer.
    #[must_use]
    pub const fn reverse(self) -> Self {
        Self { local: self.peer, peer: self.local, port: self.port }
    }
}

/// The content of an accepted datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Opened {
    /// A hello of the peer.
    Hello {
        /// The peer's nonce, if an answer is due now. Pass it to [`answer`](Session::answer).
        answer: Option<Nonce>,
    },
    /// A segment of a management connection.
    Segment {
        /// Index of the connection: the sending port minus the trunk's first port.
        channel: u8,
        /// The segment, without its ECN field.
        segment: Segment,
    },
    /// A user packet: see [`user_packet`].
    User,
}

/// The user packet in `datagram`, which [`open`](Session::open) returned as [`Opened::User`].
#[must_use]
pub fn user_packet(datagram: &[u8]) -> &[u8] {
    datagram.get(USER_HEADER..datagram.len().saturating_sub(TAG_LEN)).unwrap_or_default()
}

/// Bytes of a tag.
const TAG_LEN: usize = 16;
const USER_HEADER: usize = 7;

const _: () =
    assert!(tidegate_core::trunk::TAG_LEN == 16 && tidegate_core::trunk::USER_HEADER == 7);

/// Most unverified nonces that are answered per second, about 50 kbit/s of answers. To use up the
/// limit, an attacker would have to record hellos of as many restarts of the peer.
const ANSWERS: usize = 64;

const SECOND: Duration = Duration::from_secs(1);

/// One end of a trunk's session.
#[derive(Debug)]
pub struct Session {
    /// MAC keys of hellos: first for sent hellos, then for received hellos.
    hellos: [MacKey; 2],
    secret: Key,
    ends: Ends,
    /// The secret from which this end derives its nonces. It differs in each run.
    random: Key,
    /// Form of this end. `difference` is the setting in which the peer's last hello differed.
    form: Form,
    difference: Option<Refusal>,
    /// Number of nonces derived so far.
    made: u64,
    /// This end's nonce.
    own: Nonce,
    /// The peer's nonce in the last hello that contained this end's nonce. Hellos repeat it.
    heard: Nonce,
    state: SessionState,
    /// Last time at which a datagram proved that the peer is alive.
    alive: Option<Time>,
    /// Unverified nonces, possibly replayed, that were answered in the present second; and the
    /// start of that second.
    answered: (Vec<Nonce>, Time),
    sessions: u64,
    refused: Refusals,
    /// Buffer for the datagram of a segment, reused by each segment.
    authenticated: Vec<u8>,
}

/// The states of the table above.
#[derive(Debug)]
enum SessionState {
    /// No session exists. The present nonce is unused.
    Asking,
    /// A session with the present nonce exists.
    Agreed(Agreed),
    /// A session with an earlier nonce exists. The present nonce is unused.
    Renewing(Agreed),
}

impl SessionState {
    const fn session(&self) -> Option<&Agreed> {
        match self {
            Self::Asking => None,
            Self::Agreed(session) | Self::Renewing(session) => Some(session),
        }
    }

    const fn session_mut(&mut self) -> Option<&mut Agreed> {
        match self {
            Self::Asking => None,
            Self::Agreed(session) | Self::Renewing(session) => Some(session),
        }
    }
}

/// A session that both ends have agreed on.
#[derive(Debug)]
struct Agreed {
    peer: Nonce,
    send: MacKey,
    receive: MacKey,
    /// Two packet-number spaces, [`SEGMENT`] and [`USER_PACKET`]: the last number sent, and the
    /// anti-replay window of numbers received.
    sent: [u64; 2],
    taken: [Window; 2],
}

impl Session {
    /// An end that has received nothing yet. `random` must differ in each run.
    #[must_use]
    pub fn new(key: &Key, ends: Ends, random: [u8; 32]) -> Self {
        let hello = |ends: Ends| MacKey::derive(HELLO, key, ends, &[]);
        let mut session = Self {
            hellos: [hello(ends), hello(ends.reverse())],
            secret: key.clone(),
            ends,
            random: Key(random),
            form: Form::default(),
            difference: None,
            made: 0,
            own: [0; 16],
            heard: [0; 16],
            state: SessionState::Asking,
            alive: None,
            answered: (Vec::new(), Time::ZERO),
            sessions: 0,
            refused: Refusals::default(),
            authenticated: Vec::with_capacity(LONGEST + TAG_LEN),
        };
        session.renew();
        session
    }

    /// Sets the form that both ends must share.
    #[must_use]
    pub const fn like(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    /// The setting in which the last hello of the peer differed from this end. While a difference
    /// exists, hellos begin no session.
    #[must_use]
    pub const fn difference(&self) -> Option<Refusal> {
        self.difference
    }

    /// The ends of the trunk.
    #[must_use]
    pub const fn ends(&self) -> Ends {
        self.ends
    }

    /// Returns `true` if a session exists, so that segments can be sent.
    #[must_use]
    pub const fn is_agreed(&self) -> bool {
        self.state.session().is_some()
    }

    /// Number of sessions so far.
    #[must_use]
    pub const fn sessions(&self) -> u64 {
        self.sessions
    }

    /// The last time when a datagram proved that the peer is alive.
    #[must_use]
    pub const fn alive(&self) -> Option<Time> {
        self.alive
    }

    /// Counts of refused datagrams.
    #[must_use]
    pub const fn refused(&self) -> &Refusals {
        &self.refused
    }

    /// A hello for the peer. Send one at the start and then periodically.
    #[must_use]
    pub fn hello(&self) -> Vec<u8> {
        self.answer(self.heard)
    }

    /// The hello that answers a hello with the nonce `heard`.
    #[must_use]
    pub fn answer(&self, heard: Nonce) -> Vec<u8> {
        let message = Message::Hello { form: self.form, own: self.own, heard };
        let mut bytes = Vec::new();
        authenticated(&message, &self.hellos[0], &mut bytes).unwrap_or_default().to_vec()
    }

    /// Encodes and authenticates a segment of the connection `channel`. `None` without a session,
    /// or if a field of the segment is too large.
    #[must_use]
    pub fn authenticate(&mut self, channel: u8, segment: &Segment) -> Option<&[u8]> {
        let agreed = self.state.session_mut()?;
        let number = agreed.sent[SEGMENT] + 1;
        let message = Message::Segment { channel, number, segment: *segment };
        let bytes = authenticated(&message, &agreed.send, &mut self.authenticated)?;
        agreed.sent[SEGMENT] = number;
        Some(bytes)
    }

    /// Authenticates a user packet in place. `datagram` consists of room for the header, the
    /// packet, and room for the tag. Returns the packet number. `None` without a session.
    #[must_use]
    pub fn authenticate_user(&mut self, datagram: &mut [u8]) -> Option<u64> {
        let agreed = self.state.session_mut().filter(|_| self.form.encapsulates)?;
        let number = agreed.sent[USER_PACKET] + 1;
        let (bytes, tag) = datagram.split_last_chunk_mut::<TAG_LEN>()?;
        let [first, rest @ ..] = bytes.first_chunk_mut::<USER_HEADER>()?;
        *first = USER;
        rest.copy_from_slice(number.to_be_bytes().get(2..).filter(|_| number <= MOST)?);
        *tag = agreed.send.of(bytes);
        agreed.sent[USER_PACKET] = number;
        Some(number)
    }

    /// Counts a datagram that `open` accepted but a later check refused.
    pub fn refuse(&mut self, refusal: Refusal) {
        self.refused.count(refusal);
    }

    /// Authenticates and decodes a datagram.
    ///
    /// # Errors
    ///
    /// The reason for a refusal, which is also counted.
    pub fn open(&mut self, now: Time, datagram: &[u8]) -> Result<Opened, Refusal> {
        let opened = self.take(now, datagram);
        if let Err(refusal) = opened {
            self.refused.count(refusal);
        }
        opened
    }

    fn take(&mut self, now: Time, datagram: &[u8]) -> Result<Opened, Refusal> {
        let (bytes, tag) = datagram.split_last_chunk::<TAG_LEN>().ok_or(Refusal::Malformed)?;
        if let [USER, rest @ ..] = bytes {
            let number = rest.first_chunk().ok_or(Refusal::Malformed)?;
            return self.take_user(now, bytes, *number, tag);
        }
        match Message::read(bytes)? {
            Message::Hello { form, own, heard } => {
                if !self.hellos[1].fits(bytes, tag) {
                    return Err(Refusal::Forged);
                }
                self.difference = form.difference(self.form);
                if let Some(refusal) = self.difference {
                    return Err(refusal);
                }
                let answer = self.listen(now, own, heard).then_some(own);
                Ok(Opened::Hello { answer })
            }
            Message::Segment { channel, number, segment } => {
                let agreed = self.state.session_mut().ok_or(Refusal::NoSession)?;
                if !agreed.receive.fits(bytes, tag) {
                    return Err(Refusal::Forged);
                }
                if !agreed.taken[SEGMENT].take(number) {
                    return Err(Refusal::Replayed);
                }
                self.alive = Some(now);
                Ok(Opened::Segment { channel, segment })
            }
        }
    }

    fn take_user(
        &mut self,
        now: Time,
        bytes: &[u8],
        [a, b, c, d, e, f]: [u8; 6],
        tag: &[u8; TAG_LEN],
    ) -> Result<Opened, Refusal> {
        let agreed = self.state.session_mut().ok_or(Refusal::NoSession)?;
        if !agreed.receive.fits(bytes, tag) {
            return Err(Refusal::Forged);
        }
        if !self.form.encapsulates {
            return Err(Refusal::Encapsulation);
        }
        let number = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        if !agreed.taken[USER_PACKET].take(number) {
            return Err(Refusal::Replayed);
        }
        self.alive = Some(now);
        Ok(Opened::User)
    }

    /// Processes a hello with the peer's nonce `peer` that repeats the nonce `heard`. Returns
    /// `true` if an answer is due.
    fn listen(&mut self, now: Time, peer: Nonce, heard: Nonce) -> bool {
        if heard != self.own {
            return self.may_answer(now, peer);
        }
        self.heard = peer;
        match &self.state {
            SessionState::Agreed(session) if session.peer == peer => {
                self.alive = Some(now);
                false
            }
            SessionState::Agreed(_) => {
                self.renew();
                true
            }
            SessionState::Asking | SessionState::Renewing(_) => {
                self.agree(peer);
                self.alive = Some(now);
                true
            }
        }
    }

    /// Begins a session with this end's nonce and the nonce `peer`.
    fn agree(&mut self, peer: Nonce) {
        let own = self.own;
        let way = |ends, nonces: [Nonce; 2]| {
            MacKey::derive(SEGMENTS, &self.secret, ends, nonces.as_flattened())
        };
        self.state = SessionState::Agreed(Agreed {
            peer,
            send: way(self.ends, [own, peer]),
            receive: way(self.ends.reverse(), [peer, own]),
            sent: [0; 2],
            taken: [Window::default(), Window::default()],
        });
        self.sessions += 1;
    }

    /// Derives an unused nonce for this end. An existing session continues.
    fn renew(&mut self) {
        self.made += 1;
        self.answered.0.clear();
        let mut nonce = [0; 16];
        let random = blake3::keyed_hash(&self.random.0, &self.made.to_be_bytes());
        nonce.copy_from_slice(&random.as_bytes()[..16]);
        self.own = nonce;
        self.state = match std::mem::replace(&mut self.state, SessionState::Asking) {
            SessionState::Agreed(session) => SessionState::Renewing(session),
            state => state,
        };
    }

    /// Returns `true` if the unverified nonce `peer` is to be answered now. Each nonce is answered
    /// once per second, and at most [`ANSWERS`] nonces are.
    fn may_answer(&mut self, now: Time, peer: Nonce) -> bool {
        let (answered, since) = &mut self.answered;
        if now.since(*since) >= SECOND {
            answered.clear();
            *since = now;
        }
        let may = answered.len() < ANSWERS && !answered.contains(&peer);
        if may {
            answered.push(peer);
        }
        may
    }
}

/// Encodes `message` and its tag into the buffer `bytes`.
fn authenticated<'a>(message: &Message, key: &MacKey, bytes: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    bytes.clear();
    message.write(bytes)?;
    let tag = key.of(bytes);
    bytes.extend_from_slice(&tag);
    Some(bytes)
}

/// Indices of the two packet-number spaces.
const SEGMENT: usize = 0;
const USER_PACKET: usize = 1;

const HELLO: &str = "tidegate trunk version 2, hello";
const SEGMENTS: &str = "tidegate trunk version 2, segments of a session";

/// Computes authentication tags with one key.
#[derive(Clone)]
struct MacKey(SipHasher24);

impl std::fmt::Debug for MacKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MacKey(..)")
    }
}

impl MacKey {
    /// The MAC for `purpose`, for packets from the first of `ends` to the second. `more` also
    /// enters into the key.
    fn derive(purpose: &str, key: &Key, ends: Ends, more: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(purpose);
        hasher.update(&key.0);
        for address in [ends.local, ends.peer] {
            let address = match address {
                IpAddr::V4(it) => it.to_ipv6_mapped(),
                IpAddr::V6(it) => it,
            };
            hasher.update(&address.octets());
        }
        hasher.update(&ends.port.to_be_bytes()).update(more);
        let mut key = [0; 16];
        hasher.finalize_xof().fill(&mut key);
        Self(SipHasher24::new_with_key(&key))
    }

    fn of(&self, bytes: &[u8]) -> [u8; TAG_LEN] {
        self.0.hash(bytes).as_bytes()
    }

    /// Returns `true` if `tag` is the tag of `bytes`. The comparison takes constant time.
    fn fits(&self, bytes: &[u8], tag: &[u8; TAG_LEN]) -> bool {
        constant_time_eq::constant_time_eq_16(&self.of(bytes), tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three vectors of SipHash's reference code for 128 bits.
    #[test]
    fn a_tag_is_equal_to_the_tag_of_the_reference_code() {
        let bytes: [u8; 63] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let key = bytes.first_chunk().unwrap();
        let tag =
            |len| u128::from_be_bytes(MacKey(SipHasher24::new_with_key(key)).of(&bytes[..len]));
        assert_eq!(tag(0), 0xa381_7f04_ba25_a8e6_6df6_7214_c755_0293);
        assert_eq!(tag(15), 0x5493_e999_33b0_a811_7e08_ec0f_97cf_c3d9);
        assert_eq!(tag(63), 0x5150_d177_2f50_834a_503e_069a_973f_bd7c);
    }
}
