//! The TCP connections of a run. Each has two TCP end points of the core, with an application above
//! each.

use std::sync::Arc;

use tidegate_core::packet::FlowKey;
use tidegate_core::tcp::{Config, Connection, Statistics};
use tidegate_core::{Time, report};

use crate::prefetch::prefetch;
use crate::routes::{index, number};

/// All connections, by number. Numbers of closed connections are used again.
#[derive(Default)]
pub(crate) struct Streams {
    all: Vec<Stream>,
    free: Vec<u32>,
}

/// A connection. Side 0 is at the sender of the flow's data, side 1 at its receiver.
pub(crate) struct Stream {
    pub(crate) flow: u32,
    /// Distinguishes successive connections that have the same number.
    pub(crate) life: u16,
    /// Addresses and ports of packets from side 0 to side 1.
    pub(crate) key: FlowKey,
    pub(crate) ends: [StreamEnd; 2],
    /// Start time, and size in bytes, of the current transfer.
    pub(crate) began: Time,
    pub(crate) size: u64,
    /// Smoothed round-trip time of side 0 in nanoseconds, as it is in the sum of its group; zero
    /// before it is known.
    pub(crate) rtt: u64,
    /// For each side, the neighbouring connection in a chain of relays (chains `Each` and `Asks`).
    pub(crate) other: [Option<u32>; 2],
    /// Index of its file at the aggregate gateway, if it is a local connection.
    pub(crate) file: Option<u32>,
    /// The connection has failed.
    pub(crate) failed: bool,
    open: bool,
}

/// One end of a connection, and the application above it.
pub(crate) struct StreamEnd {
    pub(crate) tcp: Connection,
    /// Time of its entry in the agenda; [`Time::MAX`] for none.
    pub(crate) armed: Time,
    /// Bytes that the application has written.
    pub(crate) written: u64,
    /// The application writes more data whenever little is left to send.
    pub(crate) endless: bool,
    /// The application waits until all written data is acknowledged.
    pub(crate) awaits_acks: bool,
    /// The kind of application that reads.
    pub(crate) reader: Reader,
    /// The peer has sent its last byte, which has arrived but may be unread.
    pub(crate) ended: bool,
    /// Bytes that the application has read.
    pub(crate) received: u64,
    /// The application acts when it has read this number of bytes; `u64::MAX` for none.
    pub(crate) expects: u64,
}

/// The application above one end of a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Reader {
    /// A host: reads all data at once.
    #[default]
    Host,
    /// A relay that still forwards.
    Relay,
    /// An aggregate gateway, at its end of a local connection.
    Gateway,
    /// An aggregate gateway, at its end of the aggregate connection.
    Aggregate,
    /// The receiver of an aggregate connection.
    Sink,
}

/// An end of a connection: the connection's number times two, plus the side.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct EndId(pub(crate) u32);

impl EndId {
    pub(crate) const fn new(stream: u32, side: usize) -> Self {
        Self(stream << 1 | if side == 0 { 0 } else { 1 })
    }

    pub(crate) const fn stream(self) -> u32 {
        self.0 >> 1
    }

    pub(crate) const fn side(self) -> usize {
        if self.0 & 1 == 0 { 0 } else { 1 }
    }

    pub(crate) const fn peer(self) -> Self {
        Self(self.0 ^ 1)
    }
}

impl StreamEnd {
    fn new(tcp: Connection) -> Self {
        Self {
            tcp,
            armed: Time::MAX,
            written: 0,
            endless: false,
            awaits_acks: false,
            reader: Reader::Host,
            ended: false,
            received: 0,
            expects: u64::MAX,
        }
    }

    /// Returns `true` if the application reads only what it can store or forward.
    pub(crate) const fn passes_on(&self) -> bool {
        matches!(self.reader, Reader::Relay | Reader::Gateway)
    }

    /// The application writes `bytes` more.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
        self.tcp.write(bytes);
    }
}

impl Streams {
    /// No connections yet; room for `streams` of them.
    pub(crate) fn with_capacity(streams: usize) -> Self {
        Self { all: Vec::with_capacity(streams), free: Vec::new() }
    }

    /// Opens a connection of `flow`; side `opener` sends the SYN. `configs` and `isns` (initial
    /// sequence numbers) are those of side 0 and side 1.
    pub(crate) fn open(
        &mut self,
        now: Time,
        flow: u32,
        key: FlowKey,
        opener: usize,
        configs: [&Arc<Config>; 2],
        isns: [u32; 2],
    ) -> u32 {
        let end = |side: usize| {
            StreamEnd::new(if side == opener {
                Connection::connect(configs[side], now, isns[side])
            } else {
                Connection::listen(configs[side], now, isns[side])
            })
        };
        let (number, life) = match self.free.pop() {
            Some(number) => (number, self.all[index(number)].life.wrapping_add(1)),
            None => (number(self.all.len()), 0),
        };
        let ends = [end(0), end(1)];
        let (began, size) = (now, 0);
        let (rtt, file, other, failed, open) = (0, None, [None; 2], false, true);
        let stream = Stream { flow, life, key, ends, began, size, rtt, file, other, failed, open };
        match self.all.get_mut(index(number)) {
            Some(place) => *place = stream,
            None => self.all.push(stream),
        }
        number
    }

    /// Frees the number of a closed connection for reuse.
    pub(crate) fn release(&mut self, number: u32) {
        self.all[index(number)].open = false;
        self.free.push(number);
    }

    pub(crate) fn get(&self, number: u32) -> &Stream {
        &self.all[index(number)]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Stream {
        &mut self.all[index(number)]
    }

    pub(crate) fn end_mut(&mut self, end: EndId) -> &mut StreamEnd {
        &mut self.all[index(end.stream())].ends[end.side()]
    }

    /// Prefetches an end. Does nothing if there is no such connection.
    #[inline]
    pub(crate) fn fetch(&self, end: EndId) {
        if let Some(stream) = self.all.get(index(end.stream())) {
            prefetch(&stream.life);
            prefetch(&stream.ends[end.side()]);
        }
    }

    /// The open connections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.all.iter().filter(|stream| stream.open)
    }
}

report! {
    /// Counters of the senders of a flow, summed over its connections.
    #[derive(Copy, Eq)]
    pub(crate) SenderCounts, counted {
        /// Bytes that were acknowledged.
        acknowledged: u64 => { column "acknowledged_bytes" };
        /// Segments that were sent again.
        retransmitted: u64 => { column "retransmitted_segments" };
        /// Fast recoveries.
        recoveries: u64 => { column "recoveries" };
        /// Retransmission timeouts.
        timeouts: u64 => { column "timeouts" };
        /// Reductions of the window because of ECN marks.
        reductions: u64 => { column "ecn_reductions" };
    }
}

impl SenderCounts {
    /// Adds the counters of one sender.
    pub(crate) fn add(&mut self, of: &Statistics) {
        self.acknowledged += of.acknowledged;
        self.retransmitted += of.retransmitted;
        self.timeouts += u64::from(of.timeouts);
        self.recoveries += u64::from(of.recoveries);
        self.reductions += u64::from(of.reductions);
    }
}

/// Completed transfers: one row each, every field is a column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transfers {
    pub(crate) flow: Vec<u32>,
    pub(crate) began: Vec<Time>,
    pub(crate) ended: Vec<Time>,
    pub(crate) bytes: Vec<u64>,
}

impl Transfers {
    /// Adds a completed transfer.
    pub(crate) fn push(&mut self, flow: u32, began: Time, ended: Time, bytes: u64) {
        self.flow.push(flow);
        self.began.push(began);
        self.ended.push(ended);
        self.bytes.push(bytes);
    }
}
