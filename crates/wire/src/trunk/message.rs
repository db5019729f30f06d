//! Layout of the messages between two trunk gateways, without the authentication tag.
//!
//! All numbers are big-endian. The upper half of the first byte is the version, and the lower half
//! is the kind:
//!
//! | kind | then |
//! |---|---|
//! | 1, hello | the form (1), 2 bytes zero, the nonce of its sender (16), the last nonce received from the peer (16) |
//! | 2, segment | channel (1), number (6), presence bits (1), control bits (1), sequence number (4), acknowledgement (4), window (2), payload of the virtual stream (2), options |
//! | 3, user packet | number (6), an IP packet |
//!
//! The form states the settings of the trunk that must be equal at both ends. It is a sum of bits:
//! 1 if user packets travel in datagrams, 2 for probing by `epochs`, 4 for probing by `vegas`, and
//! 8 for management connections with a weight. Older gateways do not know bits 4 and 8, and refuse
//! hellos with these bits as malformed.
//!
//! Options follow in the order of their presence bits: timestamps (8 bytes), SACK permitted (0),
//! window scale (1), MSS (2), and SACK blocks (8 each). The upper presence bits hold the number of
//! SACK blocks. A tag of 16 bytes ends each datagram.
//!
//! Most management packets are a segment with timestamps: 46 bytes of UDP payload, which makes 74
//! bytes over IPv4 and 94 over IPv6. The trunk sends one management packet per VMSS (virtual
//! maximum segment size) of user bytes. At a VMSS of 1,500 bytes, the overhead is 4.9 or 6.3 %.

use tidegate_core::packet::{Ecn, SackBlocks, TcpFlags, TcpSegment};
use tidegate_core::tcp::Segment;
use tidegate_core::trunk::Probing;

use super::Refusal;

/// A random number that identifies one run of a gateway. All zeros mean that no nonce is known.
pub type Nonce = [u8; 16];

/// Settings of a trunk that must be equal at both ends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Form {
    /// User packets travel inside UDP datagrams.
    pub encapsulates: bool,
    /// The mechanism by which the trunk finds its share of the path.
    pub probing: Probing,
    /// With management connections: the trunk has a weight, which also sets its largest number of
    /// connections. Always `false` with `vegas`, where each end may choose a weight alone.
    pub weighted: bool,
}

impl Form {
    /// The first setting in which the two forms differ. `None` if they are equal.
    pub(super) fn difference(self, other: Self) -> Option<Refusal> {
        let same = [
            (self.encapsulates == other.encapsulates, Refusal::Encapsulation),
            (self.probing == other.probing, Refusal::Probing),
            (self.weighted == other.weighted, Refusal::Weight),
        ];
        same.into_iter().find(|(same, _)| !same).map(|(_, refusal)| refusal)
    }

    const fn byte(self) -> u8 {
        let probing = match self.probing {
            Probing::Management => 0,
            Probing::Epochs => EPOCHS,
            Probing::Vegas => VEGAS,
        };
        let encapsulates = if self.encapsulates { ENCAPSULATES } else { 0 };
        let weighted = if self.weighted { WEIGHTED } else { 0 };
        encapsulates | probing | weighted
    }

    /// Decodes a form. `None` for a byte that no gateway writes.
    fn of(byte: u8) -> Option<Self> {
        let probing = match byte & (EPOCHS | VEGAS) {
            0 => Probing::Management,
            EPOCHS => Probing::Epochs,
            VEGAS => Probing::Vegas,
            _ => return None,
        };
        let (encapsulates, weighted) = (byte & ENCAPSULATES != 0, byte & WEIGHTED != 0);
        Some(Self { encapsulates, probing, weighted }).filter(|it| it.byte() == byte)
    }
}

/// Bits of an encoded [`Form`].
const ENCAPSULATES: u8 = 1;
const EPOCHS: u8 = 2;
const VEGAS: u8 = 4;
const WEIGHTED: u8 = 8;

/// A trunk message other than a user packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Message {
    /// Announces a gateway to its peer.
    Hello {
        /// The form of the trunk at the sender.
        form: Form,
        /// The sender's nonce.
        own: Nonce,
        /// The last nonce that the sender received from its peer.
        heard: Nonce,
    },
    /// A segment of a management connection.
    Segment {
        /// Index of the connection: the sending port minus the trunk's first port.
        channel: u8,
        /// Packet number within the session, counted from one.
        number: u64,
        /// The segment. Its ECN codepoint travels in the IP header.
        segment: Segment,
    },
}

/// Version of this protocol.
pub const VERSION: u8 = 2;

const HELLO: u8 = 1;
const SEGMENT: u8 = 2;

/// The first byte of a datagram that contains a user packet.
pub const USER: u8 = VERSION << 4 | 3;

/// The largest packet number, which no session lasts long enough to reach.
pub const MOST: u64 = (1 << 48) - 1;

const TIMESTAMPS: u8 = 1;
const SACK_PERMITTED: u8 = 2;
const WINDOW_SCALE: u8 = 4;
const LARGEST: u8 = 8;
/// Position of the lowest of the presence bits that hold the number of SACK blocks.
const BLOCKS: u8 = 4;

/// Length of the longest message without its tag.
pub const LONGEST: usize = HEAD + 8 + 1 + 2 + 4 * 8;

/// Length of a segment message up to its options.
const HEAD: usize = 22;

impl Message {
    /// Appends the encoded message to `bytes`. `None` if a value does not fit into its field.
    /// `bytes` may then end with a part of the message.
    #[must_use]
    pub fn write(&self, bytes: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Hello { form, own, heard } => {
                bytes.extend([VERSION << 4 | HELLO, form.byte(), 0, 0]);
                bytes.extend(own);
                bytes.extend(heard);
            }
            Self::Segment { channel, number, segment } => {
                let number = Some(*number).filter(|number| *number <= MOST)?;
                let kind = u64::from(VERSION << 4 | SEGMENT) << 8 | u64::from(*channel);
                write_segment(kind << 48 | number, segment, bytes)?;
            }
        }
        Some(())
    }

    /// Decodes a message. `bytes` is a datagram without its tag.
    ///
    /// # Errors
    ///
    /// If the version differs, or if `bytes` is not exactly one message.
    pub fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let (first, rest) = bytes.split_first().ok_or(Refusal::Malformed)?;
        if first >> 4 != VERSION {
            return Err(Refusal::Version);
        }
        let mut rest = Undecoded(rest);
        let message = match first & 0xf {
            HELLO => rest.hello(),
            SEGMENT => rest.segment(),
            _ => None,
        };
        message.filter(|_| rest.0.is_empty()).ok_or(Refusal::Malformed)
    }
}

/// Appends `first` (kind, channel and packet number), and the fields of a segment.
fn write_segment(first: u64, segment: &Segment, bytes: &mut Vec<u8>) -> Option<()> {
    let TcpSegment { timestamps, window_scale, mss, sack_permitted, .. } = segment.header;
    let blocks = segment.sack.as_slice();
    let flag = |there: bool, bit: u8| if there { bit } else { 0 };
    let there = flag(timestamps.is_some(), TIMESTAMPS)
        | flag(sack_permitted, SACK_PERMITTED)
        | flag(window_scale.is_some(), WINDOW_SCALE)
        | flag(mss > 0, LARGEST)
        | u8::try_from(blocks.len()).ok()? << BLOCKS;
    let payload = u16::try_from(segment.header.payload).ok()?;
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&first.to_be_bytes());
    head[8..10].copy_from_slice(&[there, segment.header.flags.0]);
    head[10..18].copy_from_slice(&pair(segment.header.seq, segment.header.ack));
    head[18..20].copy_from_slice(&segment.header.window.to_be_bytes());
    head[20..].copy_from_slice(&payload.to_be_bytes());
    bytes.extend_from_slice(&head);
    if let Some((value, echo)) = timestamps {
        bytes.extend_from_slice(&pair(value, echo));
    }
    bytes.extend(window_scale);
    if mss > 0 {
        bytes.extend_from_slice(&mss.to_be_bytes());
    }
    for (first, end) in blocks {
        bytes.extend_from_slice(&pair(*first, *end));
    }
    Some(())
}

/// Two 32-bit words as eight bytes.
fn pair(first: u32, second: u32) -> [u8; 8] {
    (u64::from(first) << 32 | u64::from(second)).to_be_bytes()
}

/// The bytes not yet decoded.
struct Undecoded<'a>(&'a [u8]);

impl Undecoded<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn half(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn hello(&mut self) -> Option<Message> {
        let [form, 0, 0] = self.take()? else { return None };
        let form = Form::of(form)?;
        Some(Message::Hello { form, own: self.take()?, heard: self.take()? })
    }

    fn segment(&mut self) -> Option<Message> {
        let [channel, a, b, c, d, e, f] = self.take()?;
        let number = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let [there, flags] = self.take()?;
        let mut header = TcpSegment {
            seq: self.word()?,
            ack: self.word()?,
            window: self.half()?,
            payload: self.half()?.into(),
            flags: TcpFlags(flags),
            sack_permitted: there & SACK_PERMITTED != 0,
            ..TcpSegment::default()
        };
        if there & TIMESTAMPS != 0 {
            header.timestamps = Some((self.word()?, self.word()?));
        }
        if there & WINDOW_SCALE != 0 {
            let [shift] = self.take()?;
            header.window_scale = Some(shift).filter(|shift| *shift <= MAX_SHIFT);
            header.window_scale?;
        }
        if there & LARGEST != 0 {
            header.mss = Some(self.half()?).filter(|mss| *mss > 0)?;
        }
        let mut sack = SackBlocks::default();
        for _ in 0..there >> BLOCKS {
            sack.push((self.word()?, self.word()?)).then_some(())?;
        }
        header.has_sack = !sack.is_empty();
        let segment = Segment { header, sack, ecn: Ecn::NotEct };
        Some(Message::Segment { channel, number, segment })
    }
}

/// The largest window scale (RFC 7323, section 2.3).
const MAX_SHIFT: u8 = 14;
