//! Thousands of TCP connections between two hosts of a test bed. Each host runs one process, which
//! implements the host's end of all connections on a packet socket.
//!
//! With ten thousand connections, the kernel's TCP needs too much processor time for each packet: a
//! machine with two processors does not reach 0.5 Gbit/s. So both ends use Tidegate's own TCP, and
//! the kernel only carries their frames. The kernel knows neither their IP addresses nor their MAC
//! addresses.
//!
//! The receiver sends an ACK for each segment, but only one ACK for two segments that arrive
//! together. The benchmark `many_connections` compares several forwarders on this load. With each
//! forwarder, there are about four ACKs for five segments.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tidegate_core::tcp::{Config, Connection, Details, Event, Profile, Segment, Statistics};
use tidegate_core::wheel::TimerWheel;
use tidegate_core::{Packet, PacketId, PacketPool, Time};
use tidegate_dataplane::{AfPacket, Clock as _, Frame, Interface, Monotonic, PacketMemory, Port};
use tidegate_e2e::pause;
use tidegate_wire::segment;

/// The sender opens its connections in groups of `GROUP`, with the time `BETWEEN` between two
/// groups. Otherwise, the first windows of all connections would arrive at once.
const GROUP: usize = 20;
const BETWEEN: Duration = Duration::from_millis(10);

/// Interval at which an end checks for frames, like the interrupt moderation of a network card.
const GATHER: Duration = Duration::from_micros(100);

/// Payload in bytes of a full segment with timestamps.
const SEGMENT: u64 = 1_448;

/// Ports of the connections. The sender uses `FIRST` and the following ports; the receiver listens
/// on `LISTENS`.
const FIRST: u16 = 10_000;
const LISTENS: u16 = 7_007;

/// Largest number of frames that an end processes before it reads the clock again.
const MOST_RECEIVED: usize = 256;

/// Number of frame buffers.
const PACKETS: u32 = 4_096;

/// Offset of a frame in its buffer, which leaves room for a VLAN tag.
const OFFSET: u32 = 64;

/// The sending or the receiving end of the connections.
#[derive(Clone, Copy, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum End {
    /// Opens the connections, and keeps data in flight on each.
    Sender,
    /// Accepts the connections, and reads all data.
    Receiver,
}

impl End {
    const fn host(self) -> (Ipv4Addr, [u8; 6]) {
        match self {
            Self::Sender => (Ipv4Addr::new(10, 83, 1, 1), [2, 0, 0, 0, 1, 1]),
            Self::Receiver => (Ipv4Addr::new(10, 83, 1, 2), [2, 0, 0, 0, 1, 2]),
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }

    /// Address and port of connection `number` at this end.
    fn address(self, number: usize) -> SocketAddr {
        let port = match self {
            Self::Sender => FIRST + u16::try_from(number).unwrap_or(0),
            Self::Receiver => LISTENS,
        };
        (self.host().0, port).into()
    }
}

/// Runs one end of `number` connections on interface `eth0` for `time`. The sender keeps `window`
/// segments in flight on each. Every second, prints the number of open connections, sent segments
/// and retransmissions.
pub(crate) fn keep_busy(end: End, number: usize, window: u64, time: Duration) -> Result<()> {
    let memory = PacketMemory::new(PACKETS, AfPacket::BUFFER)?;
    let port = AfPacket::open(&Interface::find("eth0")?, &memory)?;
    let mut clock = Monotonic::start();
    let mut ends = Ends::new(end, number, window * SEGMENT, port, memory);
    let mut printed = Time::ZERO;
    loop {
        let now = clock.now();
        if now.since(Time::ZERO) >= time {
            return Ok(());
        }
        ends.step(now)?;
        if now >= printed {
            printed = now + Duration::from_secs(1);
            println!("{}", ends.progress());
        }
        let now = clock.now();
        pause((now + Duration::from_nanos(1)).round_up_to(GATHER).since(now));
    }
}

/// All connections of one end.
struct Ends {
    end: End,
    /// Number of connections after all groups are open. A sender opens one group after the other.
    number: usize,
    connections: Vec<Connection>,
    /// Number of established connections.
    established: usize,
    config: Arc<Config>,
    /// Bytes that each connection keeps in flight.
    window: u64,
    /// For each connection, the bytes that were acknowledged when the sender last wrote data.
    acknowledged: Vec<u64>,
    timers: TimerWheel,
    /// The interface accepts no more frames. This end neither reads nor writes until the interface
    /// accepts frames again.
    full: bool,
    /// The connection that still had segments to send when the interface became full.
    waiting: Option<usize>,
    port: AfPacket,
    pool: PacketPool,
    memory: PacketMemory,
    /// Reused buffer for the headers of a frame.
    headers: Vec<u8>,
}

impl Ends {
    fn new(end: End, number: usize, window: u64, port: AfPacket, memory: PacketMemory) -> Self {
        let congestion = Profile::Rfc.congestion();
        let details = Details { ack_every: 1, ..Profile::Linux.details() };
        let config = Arc::new(Config { congestion, details, ..Config::new(Profile::Linux) });
        let listening = if end == End::Receiver { number } else { 0 };
        let listen = |_| Connection::listen(&config, Time::ZERO, 1);
        Self {
            end,
            number,
            connections: (0..listening).map(listen).collect(),
            established: 0,
            window,
            acknowledged: vec![0; number],
            timers: TimerWheel::new(),
            full: false,
            waiting: None,
            port,
            pool: PacketPool::with_capacity(PACKETS),
            memory,
            headers: Vec::new(),
            config,
        }
    }

    /// Handles all events up to `now`, but at most [`MOST_RECEIVED`] frames.
    fn step(&mut self, now: Time) -> Result<()> {
        self.flush();
        if let Some(number) = self.waiting.take_if(|_| !self.full) {
            self.drive(now, number)?;
        }
        self.open(now)?;
        for _ in 0..MOST_RECEIVED {
            if self.full {
                break;
            }
            let Some(packet) = self.port.receive(&mut self.pool, now) else { break };
            self.receive(now, &packet)?;
            self.pool.release(packet);
        }
        while !self.full
            && let Some(number) = self.timers.pop(now)
        {
            self.drive(now, usize::try_from(number)?)?;
        }
        self.flush();
        Ok(())
    }

    fn flush(&mut self) {
        self.port.flush(&mut self.pool);
        self.full = self.port.unsent();
    }

    fn progress(&self) -> String {
        let of_all = |of: fn(&Statistics) -> u64| -> u64 {
            self.connections.iter().map(|connection| of(&connection.statistics())).sum()
        };
        let (sent, again) = (of_all(|it| it.segments_sent), of_all(|it| it.retransmitted));
        format!("{} {sent} {again}", self.established)
    }

    /// Opens the connections whose start time has come.
    fn open(&mut self, now: Time) -> Result<()> {
        let groups = now.since(Time::ZERO).as_nanos() / BETWEEN.as_nanos();
        let due = usize::try_from(groups)?.saturating_mul(GROUP).min(self.number);
        while self.connections.len() < due && !self.full {
            let number = self.connections.len();
            let mut connection = Connection::connect(&self.config, now, 1);
            connection.write(self.window);
            self.connections.push(connection);
            self.drive(now, number)?;
        }
        Ok(())
    }

    /// Hands the frame of `packet` to its connection.
    fn receive(&mut self, now: Time, packet: &PacketId) -> Result<()> {
        let described = self.pool[packet];
        let of_ours = match self.end {
            End::Sender => described.key.dst.port,
            End::Receiver => described.key.src.port,
        };
        let number = usize::from(of_ours.wrapping_sub(FIRST));
        let bytes = self.memory.bytes(packet, described.len);
        let read = segment::read(&bytes, &described);
        let (Some((segment, _)), Some(connection)) = (read, self.connections.get_mut(number))
        else {
            return Ok(());
        };
        drop(bytes);
        connection.handle_segment(now, &segment);
        self.drive(now, number)
    }

    /// Does all possible work for connection `number`: reads the received data, writes more data,
    /// and sends its segments.
    fn drive(&mut self, now: Time, number: usize) -> Result<()> {
        let connection = &mut self.connections[number];
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Established => self.established += 1,
                Event::Readable => connection.read(connection.readable()),
                Event::Reset | Event::TimedOut => bail!("connection {number} ended: {event:?}"),
                Event::Arrived { .. } | Event::PeerClosed | Event::Closed => {}
            }
        }
        if self.end == End::Sender {
            let acknowledged = connection.progress().acknowledged;
            connection.write(acknowledged - self.acknowledged[number]);
            self.acknowledged[number] = acknowledged;
        }
        loop {
            if self.full {
                self.waiting = Some(number);
                break;
            }
            let Some(outgoing) = self.connections[number].poll_transmit(now) else { break };
            self.send(number, &outgoing.segment)?;
        }
        let timer = u32::try_from(number)?;
        match self.connections[number].poll_timeout() {
            Some(at) => self.timers.set(timer, at),
            None => _ = self.timers.cancel(timer),
        }
        Ok(())
    }

    /// Sends `segment` of connection `number`. Its payload is zeros.
    fn send(&mut self, number: usize, segment: &Segment) -> Result<()> {
        let (from, to) = (self.end, self.end.other());
        let mut frame =
            segment::frame(from.address(number), to.address(number), segment, Vec::new());
        (frame.source, frame.destination) = (from.host().1, to.host().1);
        let payload = segment.header.payload;
        self.headers.clear();
        frame.append_before(usize::try_from(payload)?, &mut self.headers);
        let len = u32::try_from(self.headers.len())? + payload;
        let packet = Packet { len, segments: 1, ..Packet::default() };
        let packet = self.pool.insert(packet).context("no buffer is free")?;
        self.memory.set_frame(&packet, Frame { offset: OFFSET, ..Frame::default() });
        let mut bytes = self.memory.bytes_mut(&packet, len);
        let (headers, zeros) = bytes.split_at_mut(self.headers.len());
        headers.copy_from_slice(&self.headers);
        zeros.fill(0);
        drop(bytes);
        self.port.send(&mut self.pool, packet);
        if !self.port.can_send() {
            self.flush();
        }
        Ok(())
    }
}
