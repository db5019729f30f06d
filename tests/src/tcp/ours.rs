//! The end of the test connection that uses the core's TCP endpoint, with its data and the emulated
//! links.

use std::error::Error;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use tidegate_core::packet::TcpFlags;
use tidegate_core::tcp::{Config, Connection, Event, Outgoing, Segment};
use tidegate_core::{Packet, Time};
use tidegate_dataplane::{Alarm, Clock, Monotonic, Tun};
use tidegate_wire::segment;

use super::content::{Content, Received, checksum};
use super::kernel::Kernel;
use super::path::Path;
use super::trace::{KernelTrace, Sample};
use super::{KERNEL, Outcome, Setup, Side, ours};
use crate::wait::now;

/// The running endpoint of the core.
pub(super) struct Ours<'a> {
    setup: &'a Setup,
    tun: Tun,
    clock: Monotonic,
    beginning: Instant,
    path: Path,
    connection: Connection,
    /// The kernel's initial sequence number, once it is known.
    peer_isn: Option<u32>,
    /// The received bytes, in the order of the stream.
    arrived: Vec<u8>,
    trace: Vec<Sample>,
    next_sample: Time,
}

/// An Ethernet header that is put before IPv4 packets. The core expects such a header, but TUN
/// devices have none.
const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];

/// Size of a buffer for the longest packet of a TUN device with the default MTU.
const LONGEST: usize = 2_048;

/// Initial sequence number of Tidegate's endpoint. It is so high that the sequence numbers soon
/// wrap.
const ISN: u32 = u32::MAX - 100_000;

impl<'a> Ours<'a> {
    pub(super) fn new(setup: &'a Setup, tun: Tun) -> Self {
        let mut clock = Monotonic::start();
        let start = clock.now();
        let config = Config { reports_arrivals: true, ..setup.endpoint.clone() };
        let open = match setup.opens {
            Side::Ours => Connection::connect,
            Side::Kernel => Connection::listen,
        };
        let mut connection = open(&config, start, ISN);
        connection.write(setup.ours_sends);
        if setup.opens == Side::Ours {
            connection.close();
        }
        let arrived = vec![0; usize::try_from(setup.kernel_sends).unwrap_or(0)];
        Self {
            setup,
            tun,
            clock,
            beginning: now(),
            path: Path::new(&setup.link, setup.mark_one_in, setup.seed),
            connection,
            peer_isn: None,
            arrived,
            trace: Vec::new(),
            next_sample: start,
        }
    }

    /// Runs until both ends have received all data and the connection is closed.
    pub(super) fn run(mut self, kernel: Kernel) -> Result<Outcome, Box<dyn Error>> {
        let looking = self.setup.trace.map(|every| KernelTrace::start(self.beginning, every));
        while !(self.connection.is_closed() && kernel.is_finished()) {
            let now = self.clock.now();
            if now > Time::ZERO + self.setup.limit {
                return Err(format!("not done in time: {:?}", self.connection.statistics()).into());
            }
            self.take_in(now)?;
            self.send(now)?;
            self.look(now);
            self.wait();
        }
        let kernel_trace = looking.map(KernelTrace::finish).unwrap_or_default();
        self.outcome(kernel.finish()?, kernel_trace)
    }

    /// Puts packets of the kernel on the emulated link to the endpoint, and delivers packets that
    /// have arrived over this link.
    fn take_in(&mut self, now: Time) -> Result<(), Box<dyn Error>> {
        let mut buffer = [0; LONGEST];
        while let Some(len) = self.tun.receive(&mut buffer)? {
            self.path.to_ours.send(now, [&ETHERNET, &buffer[..len]].concat());
        }
        while let Some((frame, packet)) = self.path.to_ours.poll(now) {
            if let Some((segment, payload)) = self.meant_for_us(&frame, &packet) {
                self.handle(now, &segment, payload)?;
            }
        }
        Ok(())
    }

    fn meant_for_us<'f>(&self, frame: &'f [u8], packet: &Packet) -> Option<(Segment, &'f [u8])> {
        let ports = (packet.key.src.port, packet.key.dst.port);
        segment::read(frame, packet).filter(|_| ports == (KERNEL.port(), ours().port()))
    }

    fn handle(
        &mut self,
        now: Time,
        segment: &Segment,
        payload: &[u8],
    ) -> Result<(), Box<dyn Error>> {
        let header = &segment.header;
        if header.flags.any(TcpFlags::SYN) {
            self.peer_isn = Some(header.seq);
        }
        let first = self.peer_isn.unwrap_or_default().wrapping_add(1);
        let received = self.connection.statistics().received;
        // The sequence number has only 32 bits, so it fits several offsets of the stream. The
        // offset nearest to the next expected byte is meant.
        let low = u32::try_from(received % (1 << 32)).unwrap_or_default();
        let ahead = header.seq.wrapping_sub(first).wrapping_sub(low).cast_signed();
        let begins = received.saturating_add_signed(ahead.into());
        self.connection.handle_segment(now, segment);
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Arrived { offset, len } => {
                    let from =
                        usize::try_from(offset.checked_sub(begins).ok_or("an early arrival")?)?;
                    let (at, len) = (usize::try_from(offset)?, usize::try_from(len)?);
                    let bytes = payload.get(from..from + len).ok_or("more than there was")?;
                    let place = self.arrived.get_mut(at..at + len).ok_or("more than was sent")?;
                    place.copy_from_slice(bytes);
                }
                Event::Readable => self.connection.read(self.connection.readable()),
                Event::Established if self.setup.opens == Side::Kernel => self.connection.close(),
                Event::Reset | Event::TimedOut => return Err(format!("{event:?}").into()),
                Event::Established | Event::PeerClosed | Event::Closed => {}
            }
        }
        Ok(())
    }

    /// Puts segments of the endpoint on the emulated link to the kernel, and delivers packets that
    /// have arrived over this link.
    fn send(&mut self, now: Time) -> Result<(), Box<dyn Error>> {
        while let Some(Outgoing { segment, offset, .. }) = self.connection.poll_transmit(now) {
            let len = usize::try_from(segment.header.payload)?;
            let payload = Content::OURS.bytes(offset, len);
            let frame = segment::frame(ours(), KERNEL, &segment, payload);
            self.path.to_kernel.send(now, frame.bytes());
        }
        while let Some((frame, _)) = self.path.to_kernel.poll(now) {
            self.tun.send(&frame[ETHERNET.len()..])?;
        }
        Ok(())
    }

    fn look(&mut self, now: Time) {
        let Some(every) = self.setup.trace.filter(|_| now >= self.next_sample) else { return };
        self.next_sample = now + every;
        let said = self.connection.statistics();
        let segments = |bytes: u64| millis(bytes * 1_000 / said.segment.max(1));
        let threshold = if said.threshold == u64::MAX { 0.0 } else { segments(said.threshold) };
        self.trace.push(Sample {
            at: self.beginning.elapsed().as_secs_f64(),
            window: segments(said.congestion_window),
            threshold,
            rtt: said.smoothed_rtt.unwrap_or_default().as_secs_f64() * 1_000.0,
            acknowledged: said.acknowledged,
            retransmitted: said.retransmitted,
        });
    }

    fn wait(&mut self) {
        let sample = self.setup.trace.map(|_| self.next_sample);
        let until = [self.connection.poll_timeout(), self.path.ready_at(), sample];
        // The kernel's end may finish without sending a packet, so this wait has a limit.
        let latest = self.clock.now() + Duration::from_millis(100);
        let at = until.into_iter().flatten().fold(latest, Time::min);
        self.clock.wait(Some(Alarm { at, exact: true }), &mut std::iter::empty(), self.tun.as_fd());
    }

    fn outcome(
        self,
        at_kernel: Received,
        kernel_trace: Vec<Sample>,
    ) -> Result<Outcome, Box<dyn Error>> {
        let said = self.connection.statistics();
        let bytes = said.received;
        let whole = self.arrived.get(..usize::try_from(bytes)?).ok_or("more than was sent")?;
        let at_ours = Received {
            bytes,
            checksum: checksum([whole].into_iter()),
            expected: Content::KERNELS.checksum(self.setup.kernel_sends),
        };
        Ok(Outcome {
            seconds: self.beginning.elapsed().as_secs_f64(),
            at_ours,
            at_kernel,
            segments: (said.segments_sent, said.retransmitted),
            recoveries: (said.recoveries, said.timeouts),
            marks: (said.marks, said.echoes),
            reductions: said.reductions,
            lost: (self.path.to_kernel.lost(), self.path.to_ours.lost()),
            kernel_retransmitted: kernel_trace.last().map_or(0, |last| last.retransmitted),
            trace: self.trace,
            kernel_trace,
        })
    }
}

/// Converts a number of thousandths to a real number.
fn millis(thousandths: u64) -> f64 {
    f64::from(u32::try_from(thousandths).unwrap_or(u32::MAX)) / 1_000.0
}
