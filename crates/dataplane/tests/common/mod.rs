//! Hosts on virtual cables for live tests. A host is a thread in its own network namespace. The
//! namespace ends with the thread.

#![expect(unsafe_code, reason = "system calls that no library offers safely")]

use std::io;
use std::os::fd::BorrowedFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use tidegate_core::packet::TcpFlags;
use tidegate_core::{Machine, Packet, PacketId, PacketPool, PortId, Time};
use tidegate_dataplane::{
    AfPacket, Alarm, Bare, Clock, Driver, Interface, Monotonic, Options, PacketMemory, Port,
    PortCounters, Remote, Wish, inbox, keep_time,
};

/// A host: a thread that runs the jobs sent to it.
pub(crate) struct Host {
    jobs: Sender<Box<dyn FnOnce() + Send>>,
    /// The thread that owns the network namespace.
    thread: i32,
}

impl Host {
    /// A host without interfaces. Fails if the process may not create a namespace.
    pub(crate) fn new() -> io::Result<Self> {
        let (jobs, todo) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let (born, ready) = mpsc::channel();
        thread::spawn(move || {
            // SAFETY: the call takes no pointers; only this thread changes its namespace.
            let result = match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
                // SAFETY: the call takes no arguments.
                0 => Ok(unsafe { libc::gettid() }),
                _ => Err(io::Error::last_os_error()),
            };
            born.send(result).unwrap();
            todo.iter().for_each(|job| job());
        });
        let host = Self { jobs, thread: ready.recv().unwrap()? };
        host.ip("link set lo up");
        Ok(host)
    }

    /// Runs `job` in the host and returns its result. Threads that `job` starts are in the host
    /// too.
    pub(crate) fn run<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> R {
        let (sender, result) = mpsc::channel();
        self.jobs.send(Box::new(move || sender.send(job()).unwrap())).unwrap();
        result.recv().expect("the job panicked")
    }

    /// Runs `job` in the host concurrently.
    pub(crate) fn spawn<R: Send + 'static>(
        &self,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> thread::JoinHandle<R> {
        self.run(move || thread::spawn(job))
    }

    /// The output of an `ip` command in the host.
    pub(crate) fn ip(&self, arguments: &str) -> String {
        let arguments = arguments.to_owned();
        self.run(move || {
            let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
            assert!(output.status.success(), "ip {arguments}: {output:?}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        })
    }

    /// Waits until `interface` carries frames. Before that, the kernel silently drops frames.
    pub(crate) fn wait_for(&self, interface: &str) {
        for _ in 0..1_000 {
            if self.ip(&format!("-o link show {interface}")).contains("state UP") {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("{interface} does not come up");
    }
}

/// A client and a server with a gateway between them: `c0` - `p0`, `p1` - `s0`.
pub(crate) struct Network {
    pub(crate) client: Host,
    pub(crate) gateway: Host,
    pub(crate) server: Host,
}

/// Addresses of the server, for both IP versions.
pub(crate) const SERVER: [&str; 2] = ["10.7.0.2", "fd07::2"];

impl Network {
    /// The network with cables and addresses. If the process may not create it, prints the reason
    /// and returns `None`.
    pub(crate) fn new(mtu: u32) -> Option<Self> {
        let hosts = || Ok::<_, io::Error>([Host::new()?, Host::new()?, Host::new()?]);
        let [client, gateway, server] = match hosts() {
            Ok(hosts) => hosts,
            Err(error) => {
                eprintln!("skipped: no network namespaces here ({error}); try `unshare -Urn`");
                return None;
            }
        };
        for (host, end, port, number) in [(&client, "c0", "p0", 1), (&server, "s0", "p1", 2)] {
            gateway.ip(&format!("link add {end} mtu {mtu} type veth peer name {port} mtu {mtu}"));
            gateway.ip(&format!("link set {end} netns {}", host.thread));
            gateway.ip(&format!("link set {port} addrgenmode none up"));
            host.ip(&format!("link set {end} addrgenmode none up"));
            host.ip(&format!("addr add 10.7.0.{number}/24 dev {end}"));
            host.ip(&format!("addr add fd07::{number}/64 dev {end} nodad"));
        }
        for (host, name) in [(&client, "c0"), (&gateway, "p0"), (&gateway, "p1"), (&server, "s0")] {
            host.wait_for(name);
        }
        Some(Self { client, gateway, server })
    }

    /// Forwards between the ports until the returned value is dropped.
    pub(crate) fn forward(&self) -> Forwarding {
        let (sender, ready) = mpsc::channel();
        let waits = Arc::new(AtomicU32::new(0));
        let counted = waits.clone();
        let thread = self.gateway.spawn(move || {
            // The thread is pinned to a processor to keep the order of frames. It has no real-time
            // priority, because it would delay tests that run at the same time.
            assert!(keep_time(Wish { realtime: None, ..Wish::default() }).cpu.is_some());
            let memory = PacketMemory::new(PACKETS, AfPacket::BUFFER).unwrap();
            let open = |name| -> Box<dyn Port> {
                Box::new(AfPacket::open(&Interface::find(name).unwrap(), &memory).unwrap())
            };
            let ports = vec![open("p0"), open("p1")];
            let (remote, inbox) = inbox().unwrap();
            let driver = Driver::new(Watch::new(), ports, (), inbox, Options::default());
            sender.send(remote).unwrap();
            let (mut machine, ..) = driver.run(&mut Counting(Monotonic::start(), counted));
            assert_eq!(machine.pool().in_use(), 0, "a packet was forgotten");
        });
        Forwarding { remote: ready.recv().unwrap(), waits, thread: Some(thread) }
    }
}

const PACKETS: u32 = 1_024;

/// The host's clock, with a counter of waits.
struct Counting(Monotonic, Arc<AtomicU32>);

impl Clock for Counting {
    fn now(&mut self) -> Time {
        self.0.now()
    }

    fn wait(
        &mut self,
        alarm: Option<Alarm>,
        ports: &mut dyn Iterator<Item = BorrowedFd<'_>>,
        inbox: BorrowedFd<'_>,
    ) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.wait(alarm, ports, inbox)
    }
}

/// A running forwarder.
pub(crate) struct Forwarding {
    pub(crate) remote: Remote<Watch>,
    /// Number of times that the loop has gone to sleep.
    pub(crate) waits: Arc<AtomicU32>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        if thread::panicking() {
            let counters = self.remote.ask(|live| {
                live.ports.iter().map(|port| port.counters()).collect::<Vec<PortCounters>>()
            });
            eprintln!("{counters:#?}");
        }
        let _ = self.remote.stop();
        let result = self.thread.take().unwrap().join();
        assert!(result.is_ok() || thread::panicking());
    }
}

/// The bare forwarder, with statistics of forwarded packets.
pub(crate) struct Watch {
    bare: Bare,
    pub(crate) longest: u32,
    pub(crate) most_segments: u16,
    /// Rewrites every packet: sets the congestion mark on ECN-capable packets, and halves every TCP
    /// window.
    pub(crate) rewrite: bool,
    /// Super-packets are to be split on arrival.
    pub(crate) cuts: bool,
    pub(crate) rewritten: u32,
}

impl Watch {
    fn new() -> Self {
        Self {
            bare: Bare::new(PACKETS),
            longest: 0,
            most_segments: 0,
            rewrite: false,
            cuts: false,
            rewritten: 0,
        }
    }
}

impl Machine for Watch {
    fn pool(&mut self) -> &mut PacketPool {
        self.bare.pool()
    }

    fn handle_packet(&mut self, now: Time, port: PortId, packet: PacketId) {
        let seen = &mut self.bare.pool()[&packet];
        if self.rewrite {
            rewrite(seen);
        }
        let (len, segments, rewritten) = (seen.len, seen.segments, seen.rewritten);
        self.longest = self.longest.max(len);
        self.most_segments = self.most_segments.max(segments);
        self.rewritten += u32::from(rewritten);
        self.bare.handle_packet(now, port, packet);
    }

    fn poll_transmit(&mut self, now: Time, port: PortId) -> Option<PacketId> {
        self.bare.poll_transmit(now, port)
    }

    fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        self.bare.poll_timeout(now)
    }

    fn wants_frames(&self, _port: PortId) -> bool {
        self.cuts
    }
}

fn rewrite(packet: &mut Packet) {
    packet.mark_congestion();
    if let Some(tcp) = &mut packet.tcp
        && !tcp.flags.any(TcpFlags::SYN)
    {
        tcp.window /= 2;
        packet.rewritten = true;
    }
}
