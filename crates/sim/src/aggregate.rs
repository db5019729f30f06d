//! The queue of an aggregate gateway: local connections whose data shares one aggregate connection.
//!
//! The bytes of each local connection (a *file*) wait in a queue of their own. The gateway writes
//! one segment of each waiting file to the aggregate connection, round robin. For files of many
//! segments this is processor sharing. The bytes of one file stay in order. So the *sink*, the
//! receiver of the aggregate connection, can assign each byte to its file by counting.
//!
//! Source: `itcp`, section 1 (many files over one aggregate connection).
//!
//! Differs: the sender of the aggregate connection holds up to [`AHEAD`] unsent segments. Without
//! unsent segments, TCP would treat the sender as idle between two ACKs.

pub(crate) mod adjustment;

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_core::parameters::Written;
use tidegate_core::tcp::Config;
use tidegate_core::{Bytes, Factor, Time};

use crate::routes::{index, number};
use crate::scenario::{Kind, Overflow, Traffic};
use crate::stream::Transfers;
use adjustment::Adjustment;

/// Unsent segments that the sender of the aggregate connection holds.
///
/// Chosen: with two, one full segment remains after each departure, so the sender never counts as
/// idle.
pub(crate) const AHEAD: u64 = 2;

/// An aggregate gateway and its aggregate connection.
pub(crate) struct Aggregate {
    /// The flow of the aggregate connection, and the number of the connection once it is open.
    pub(crate) flow: u32,
    pub(crate) stream: Option<u32>,
    /// Index of the receiver among the [`Sinks`]. Several aggregates may share a receiver.
    pub(crate) sink: usize,
    /// The aggregate connection has failed.
    pub(crate) failed: bool,
    /// The weight of the aggregate connection.
    pub(crate) weight: Factor,
    pub(crate) adjuster: Option<Box<Adjustment>>,
    /// Time at which the queue is next sampled for its mean (only under [`Overflow::Withhold`]).
    pub(crate) sample_due: Time,
    overflow: Overflow,
    segment: u64,
    files: Vec<File>,
    free: Vec<u32>,
    /// Files with waiting bytes, in round-robin order.
    round_robin: VecDeque<u32>,
    /// Files with bytes that the gateway has not read yet for lack of room.
    stopped: VecDeque<u32>,
    /// Number of files in state [`Stop::Parked`].
    parked: usize,
    /// Writes to the aggregate connection that the sink has not read, in order: the file, and the
    /// number of its bytes.
    passing: VecDeque<(u32, u64)>,
    /// Waiting bytes of all files.
    waiting: u64,
    pub(crate) totals: PayloadTotals,
    load: Load,
    pub(crate) withheld: Withheld,
}

/// Payload bytes since the start of the run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct PayloadTotals {
    /// Read from local connections.
    pub(crate) arrived: u64,
    /// Written to the aggregate connection.
    pub(crate) written: u64,
    /// Sent at least once.
    pub(crate) sent: u64,
    /// Read by the sink.
    pub(crate) delivered: u64,
    /// Sent while the gateway was busy.
    pub(crate) busy_sent: u64,
    /// Sent while all gateways with the same sink were busy.
    pub(crate) together_sent: u64,
}

/// Time during which the gateway is busy: at least one file has waiting or unread bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    is_busy: bool,
    since: Time,
    busy: Duration,
}

/// Under [`Overflow::Withhold`], the gateway sends no ACKs to its clients while the mean queue is
/// above the threshold.
#[derive(Default)]
pub(crate) struct Withheld {
    /// ACKs are withheld now, because the mean queue is above the threshold.
    pub(crate) is_on: bool,
    /// Mean of the queue in bytes.
    pub(crate) mean: f64,
    /// Local connections for which the gateway has withheld an ACK.
    pub(crate) streams: Vec<u32>,
}

/// The data of one local connection. A longer connection may carry several transfers.
#[derive(Default)]
struct File {
    flow: u32,
    /// The number of the file's local connection; `None` after the connection has closed.
    stream: Option<u32>,
    /// Payload bytes so far: read from the local connection, written to the aggregate connection,
    /// and read by the sink.
    read: u64,
    written: u64,
    arrived: u64,
    /// Transfers that the client has begun and the sink has not completed, in order.
    parts: VecDeque<Part>,
    /// The file is listed in `round_robin`.
    in_round_robin: bool,
    stop: Stop,
}

/// State of the reading from a local connection: it continues, or has stopped for a reason.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Stop {
    #[default]
    No,
    /// Unread bytes wait for room; the file is listed in `stopped`.
    Queued,
    /// Unread bytes wait, because the file's own buffer is full. The file returns to `stopped` when
    /// the gateway writes one of its segments.
    Parked,
}

/// A transfer of a local connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Part {
    /// The transfer ends at this offset in the local connection.
    pub(crate) at: u64,
    pub(crate) began: Time,
    pub(crate) bytes: u64,
}

impl Aggregate {
    /// A gateway without files. `tcp` are the settings of its aggregate connection.
    pub(crate) fn new(flow: u32, sink: usize, traffic: &Traffic, tcp: &Config) -> Self {
        let (overflow, adjuster) = match &traffic.kind {
            Kind::Aggregate { overflow, weight, .. } => (*overflow, weight.as_deref().cloned()),
            _ => Default::default(),
        };
        let segment = u64::from(tcp.mss);
        // A congestion control with a weight declares the parameter `theta`, whose default is 1.
        let mut changed = tcp.congestion.changed().into_iter();
        let weight = changed.find_map(|(name, value)| match value {
            Written::Number(theta) if name == "theta" => Some(theta),
            _ => None,
        });
        Self {
            flow,
            stream: None,
            sink,
            failed: false,
            weight: weight.unwrap_or(Factor::ONE),
            adjuster: adjuster.map(|config| Box::new(Adjustment::new(config))),
            sample_due: Time::ZERO,
            overflow,
            segment,
            files: Vec::new(),
            free: Vec::new(),
            round_robin: VecDeque::new(),
            stopped: VecDeque::new(),
            parked: 0,
            passing: VecDeque::new(),
            waiting: 0,
            totals: PayloadTotals::default(),
            load: Load::default(),
            withheld: Withheld::default(),
        }
    }

    /// A local connection of `flow` opens. Returns the index of its file.
    pub(crate) fn open(&mut self, flow: u32, stream: u32) -> u32 {
        let file = File { flow, stream: Some(stream), ..File::default() };
        match self.free.pop() {
            Some(place) => {
                self.files[index(place)] = file;
                place
            }
            None => {
                self.files.push(file);
                number(self.files.len() - 1)
            }
        }
    }

    /// The client of `file` begins a transfer.
    pub(crate) fn promise(&mut self, file: u32, part: Part) {
        self.files[index(file)].parts.push_back(part);
    }

    /// The local connection of `file` is closed.
    pub(crate) fn end(&mut self, file: u32) {
        let it = &mut self.files[index(file)];
        it.stream = None;
        self.release_if_done(file);
    }

    /// The local connection of `file` has failed. Returns `true` if a transfer of this file can no
    /// longer complete.
    pub(crate) fn fail(&mut self, file: u32) -> bool {
        let it = &mut self.files[index(file)];
        let before = it.parts.len();
        let reach = if self.failed { it.arrived } else { it.read };
        it.parts.retain(|part| part.at <= reach);
        let loses = it.parts.len() < before;
        self.end(file);
        loses
    }

    /// The aggregate connection has failed. Returns the open local connections, and the flows of
    /// transfers that are lost although their local connections are closed.
    pub(crate) fn break_off(&mut self) -> (Vec<u32>, Vec<u32>) {
        self.failed = true;
        let open = self.files.iter().filter_map(|file| file.stream).collect();
        let closed = self.files.iter().filter(|file| file.stream.is_none());
        let lost = closed.flat_map(|file| file.parts.iter().map(|_| file.flow)).collect();
        (open, lost)
    }

    /// Bytes at the gateway that were never sent: those waiting in files, and those in the sender
    /// of the aggregate connection.
    pub(crate) fn queue(&self) -> u64 {
        self.waiting + self.totals.written - self.totals.sent
    }

    /// Returns `true` if the gateway keeps some local connection from sending.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.stopped.is_empty() || self.parked > 0 || self.withheld.is_on
    }

    /// Free room in bytes: of the whole queue, and of the buffer of `file`.
    fn room(&self, file: u32) -> [u64; 2] {
        match self.overflow {
            Overflow::Grow | Overflow::Withhold { .. } => [u64::MAX; 2],
            Overflow::Slow { queue, buffer } => {
                let waiting = self.files[index(file)].waiting();
                let own = buffer.map_or(u64::MAX, |most| most.0.saturating_sub(waiting));
                [queue.0.saturating_sub(self.queue()), own]
            }
        }
    }

    /// The local connection of `file` holds `readable` bytes. Returns the number of bytes that the
    /// gateway reads now: as many as fit, but none while other files wait to be read. If bytes
    /// remain, the file joins `stopped`.
    pub(crate) fn admit(&mut self, file: u32, readable: u64) -> u64 {
        let waits = !self.stopped.is_empty();
        let [all, own] = self.room(file);
        let bytes = if waits { 0 } else { readable.min(all).min(own) };
        if readable > bytes {
            self.stop(file);
        }
        self.take(file, bytes);
        bytes
    }

    fn stop(&mut self, file: u32) {
        let stop = &mut self.files[index(file)].stop;
        if *stop == Stop::No {
            *stop = Stop::Queued;
            self.stopped.push_back(file);
        }
    }

    /// Removes the first file with room for more bytes from `stopped`. Returns the file, its local
    /// connection, and the number of bytes to read: at most one segment.
    pub(crate) fn resume(&mut self) -> Option<(u32, u32, u64)> {
        while let Some(file) = self.stopped.front().copied() {
            let [all, own] = self.room(file);
            if all == 0 {
                return None;
            }
            self.stopped.pop_front();
            let it = &mut self.files[index(file)];
            if own == 0 {
                it.stop = Stop::Parked;
                self.parked += 1;
                continue;
            }
            it.stop = Stop::No;
            if let Some(stream) = it.stream {
                return Some((file, stream, all.min(own).min(self.segment)));
            }
            self.release_if_done(file);
        }
        None
    }

    /// The gateway has read `bytes` of a file that [`resume`](Self::resume) returned; its local
    /// connection still holds `left` bytes.
    pub(crate) fn resumed(&mut self, file: u32, bytes: u64, left: u64) {
        if left > 0 {
            self.stop(file);
        }
        self.take(file, bytes);
    }

    fn take(&mut self, file: u32, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let it = &mut self.files[index(file)];
        it.read += bytes;
        self.waiting += bytes;
        self.totals.arrived += bytes;
        if !std::mem::replace(&mut it.in_round_robin, true) {
            self.round_robin.push_back(file);
        }
    }

    /// Returns `true` if the sender holds fewer than [`AHEAD`] unsent segments.
    pub(crate) fn lacks(&self) -> bool {
        self.totals.written - self.totals.sent < AHEAD * self.segment
    }

    /// Takes at most one segment from the next file in round-robin order. Returns its length in
    /// bytes.
    pub(crate) fn next(&mut self) -> Option<u64> {
        let file = self.round_robin.pop_front()?;
        let it = &mut self.files[index(file)];
        let bytes = it.waiting().min(self.segment);
        it.written += bytes;
        it.in_round_robin = it.waiting() > 0;
        if it.in_round_robin {
            self.round_robin.push_back(file);
        }
        if it.stop == Stop::Parked {
            it.stop = Stop::Queued;
            self.parked -= 1;
            self.stopped.push_back(file);
        }
        self.waiting -= bytes;
        self.totals.written += bytes;
        match self.passing.back_mut() {
            Some((last, of_last)) if *last == file => *of_last += bytes,
            _ => self.passing.push_back((file, bytes)),
        }
        Some(bytes)
    }

    /// The sink has read another `bytes` bytes. Completes the transfers that end within these
    /// bytes.
    ///
    /// # Panics
    ///
    /// Panics if more bytes arrive than were written.
    pub(crate) fn deliver(&mut self, now: Time, mut bytes: u64, transfers: &mut Transfers) {
        self.totals.delivered += bytes;
        while bytes > 0 {
            let (file, of_file) = self.passing.front_mut().unwrap_or_else(|| {
                panic!("flow {}: {bytes} bytes arrived that nobody wrote", self.flow)
            });
            let (file, taken) = (*file, bytes.min(*of_file));
            *of_file -= taken;
            bytes -= taken;
            if *of_file == 0 {
                self.passing.pop_front();
            }
            let it = &mut self.files[index(file)];
            it.arrived += taken;
            while let Some(part) = it.parts.pop_front_if(|part| part.at <= it.arrived) {
                transfers.push(it.flow, part.began, now, part.bytes);
            }
            self.release_if_done(file);
        }
    }

    fn release_if_done(&mut self, file: u32) {
        let it = &self.files[index(file)];
        let is_over = it.stream.is_none() && it.stop == Stop::No && it.arrived == it.read;
        if is_over && it.flow != NOBODY {
            self.files[index(file)].flow = NOBODY;
            self.free.push(file);
        }
    }

    /// Number of files in the gateway. A file is removed when its local connection is closed and
    /// all its bytes have arrived.
    pub(crate) fn files(&self) -> usize {
        self.files.len() - self.free.len()
    }

    /// Number of local connections that are open, or whose bytes still wait here.
    pub(crate) fn connections(&self) -> usize {
        let is_one = |file: &&File| file.stream.is_some() || file.waiting() > 0;
        self.files.iter().filter(is_one).count()
    }

    /// Bytes that the gateway has read of `file`.
    pub(crate) fn read(&self, file: u32) -> u64 {
        self.files[index(file)].read
    }

    /// Checks the byte counts of the whole queue and of each file.
    ///
    /// # Panics
    ///
    /// Panics if bytes are lost or invented.
    pub(crate) fn check(&self) {
        let PayloadTotals { arrived, written, sent, delivered, .. } = self.totals;
        let passing = |file: Option<u32>| -> u64 {
            let of = |(it, _): &&(u32, u64)| file.is_none_or(|file| file == *it);
            self.passing.iter().filter(of).map(|(_, bytes)| bytes).sum()
        };
        assert_eq!(arrived, written + self.waiting, "flow {}: read and written", self.flow);
        assert_eq!(written, delivered + passing(None), "flow {}: on the way", self.flow);
        assert!(delivered <= sent && sent <= written, "flow {}: sent", self.flow);
        for (number, file) in (0..).zip(&self.files) {
            let on_the_way = passing(Some(number));
            assert_eq!(file.written, file.arrived + on_the_way, "file {number}: on the way");
            assert_eq!(
                file.in_round_robin,
                file.waiting() > 0,
                "file {number}: its place in the round robin"
            );
        }
        let waiting: u64 = self.files.iter().map(File::waiting).sum();
        assert_eq!(self.waiting, waiting, "flow {}: waits in its files", self.flow);
        if let Overflow::Slow { queue, .. } = self.overflow {
            assert!(self.queue() <= queue.0, "flow {}: {} bytes wait", self.flow, self.queue());
        }
    }
}

/// The `flow` of an unused entry in `files`.
const NOBODY: u32 = u32::MAX;

impl File {
    /// Bytes read from the local connection and not yet written to the aggregate connection.
    fn waiting(&self) -> u64 {
        self.read - self.written
    }
}

/// The receivers of all aggregate connections.
#[derive(Default)]
pub(crate) struct Sinks(Vec<Sink>);

/// A receiver of aggregate connections, and the time during which all gateways that send to it are
/// busy.
struct Sink {
    node: u32,
    gateways: u32,
    busy: u32,
    since: Time,
    together: Duration,
}

impl Sinks {
    /// Registers another gateway that sends to `node`. Returns the index of the sink.
    pub(crate) fn add(&mut self, node: u32) -> usize {
        let place = self.0.iter().position(|sink| sink.node == node).unwrap_or_else(|| {
            let (since, together) = (Time::ZERO, Duration::ZERO);
            self.0.push(Sink { node, gateways: 0, busy: 0, since, together });
            self.0.len() - 1
        });
        self.0[place].gateways += 1;
        place
    }

    /// Time during which all gateways that send to this sink were busy.
    pub(crate) fn together(&self, sink: usize, now: Time) -> Duration {
        let it = &self.0[sink];
        it.together + if it.all_busy() { now.since(it.since) } else { Duration::ZERO }
    }
}

impl Sink {
    const fn all_busy(&self) -> bool {
        self.busy == self.gateways
    }

    /// Records that one gateway becomes busy or idle.
    fn change(&mut self, now: Time, is_busy: bool) {
        if self.all_busy() {
            self.together += now.since(self.since);
        }
        self.busy = if is_busy { self.busy + 1 } else { self.busy - 1 };
        self.since = now;
    }
}

impl Aggregate {
    /// Returns `true` if the gateway samples its queue for the mean.
    pub(crate) const fn samples(&self) -> bool {
        matches!(self.overflow, Overflow::Withhold { .. })
    }

    /// Updates the busy times up to `now`. Must be called whenever the queue has changed.
    pub(crate) fn note(&mut self, now: Time, sinks: &mut Sinks) {
        let is_busy = self.queue() > 0 || self.is_blocked();
        if is_busy == self.load.is_busy {
            return;
        }
        self.load.busy = self.busy(now);
        (self.load.is_busy, self.load.since) = (is_busy, now);
        sinks.0[self.sink].change(now, is_busy);
    }

    /// Time during which the gateway was busy: at least one file had waiting or unread bytes.
    pub(crate) fn busy(&self, now: Time) -> Duration {
        let current = if self.load.is_busy { now.since(self.load.since) } else { Duration::ZERO };
        self.load.busy + current
    }

    /// The aggregate connection has sent all bytes below offset `reached` at least once.
    pub(crate) fn count_sent(&mut self, reached: u64, sinks: &Sinks) {
        let new = reached.saturating_sub(self.totals.sent);
        self.totals.sent += new;
        if self.load.is_busy {
            self.totals.busy_sent += new;
        }
        if sinks.0[self.sink].all_busy() {
            self.totals.together_sent += new;
        }
    }

    /// Samples the queue for its mean. When the mean is at most the threshold, returns the local
    /// connections for which the gateway has withheld an ACK.
    ///
    /// Source: `itcp`, section 4 (ACKs are withheld while the mean queue exceeds a threshold).
    /// Differs: the paper does not define the mean; here it is an exponential average.
    pub(crate) fn average(&mut self) -> Vec<u32> {
        let Overflow::Withhold { queue: Bytes(threshold) } = self.overflow else {
            return Vec::new();
        };
        let queue = self.queue();
        let withheld = &mut self.withheld;
        withheld.mean += (crate::draw::real(queue) - withheld.mean) * NEW_SAMPLE;
        withheld.is_on = withheld.mean > crate::draw::real(threshold);
        if withheld.is_on { Vec::new() } else { std::mem::take(&mut withheld.streams) }
    }
}

/// Weight of a new sample in the mean queue. With [`SAMPLE_EVERY`], the mean has a time constant of
/// 0.8 s.
const NEW_SAMPLE: f64 = 0.125;

/// Time between two samples of the queue under [`Overflow::Withhold`].
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
