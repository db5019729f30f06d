//! Live test: real traffic of the Linux stack through two ports on packet sockets. A super-packet
//! is several frames of a flow that the kernel handles as one (GSO, GRO).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(unsafe_code, reason = "system calls that no library offers safely")]
#![expect(clippy::disallowed_methods, reason = "the stack of the kernel takes its own time")]

mod common;

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{Network, SERVER};
use tidegate_core::packet::Packet;
use tidegate_core::{PacketPool, Reason, Time};
use tidegate_dataplane::{
    AfPacket, Frame, Interface, InterfaceError, Offload, PacketMemory, Port, PortCounters,
    VnetHeader, Wish, keep_time,
};

const LIMIT: Duration = Duration::from_secs(20);

/// Test bytes that repeat only after 251 * 256 bytes.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from((i % 251) ^ (i / 251 % 256)).unwrap()).collect()
}

/// Sends `len` bytes over TCP to the server, which returns them. Returns `true` if they come back
/// intact.
fn echo(network: &Network, address: &str, len: usize) -> bool {
    let address = SocketAddr::new(address.parse::<IpAddr>().unwrap(), 7);
    let listener = network.server.run(move || TcpListener::bind(address).unwrap());
    let server = network.server.spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        stream.write_all(&received).unwrap();
        received == pattern(len)
    });
    let client = network.client.spawn(move || {
        let mut stream = TcpStream::connect_timeout(&address, LIMIT).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        stream.write_all(&pattern(len)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received == pattern(len)
    });
    client.join().unwrap() && server.join().unwrap()
}

fn set_offloads(network: &Network, on: bool) {
    for (host, name) in [(&network.client, "c0"), (&network.server, "s0")] {
        host.run(move || {
            let interface = Interface::find(name).unwrap();
            for offload in [Offload::TxChecksum, Offload::Tso, Offload::Gso] {
                interface.set_offload(offload, on).unwrap();
            }
            assert!(interface.is_veth());
            assert_eq!(interface.offload(Offload::Tso).unwrap(), on);
        });
    }
}

#[test]
fn tcp_with_every_offload_passes_as_super_packets_and_intact() {
    let Some(network) = Network::new(1_500) else { return };
    let forwarding = network.forward();
    for address in SERVER {
        assert!(echo(&network, address, 4 << 20));
    }
    let (longest, segments) =
        forwarding.remote.ask(|live| (live.machine.longest, live.machine.most_segments)).unwrap();
    assert!(longest > 3_000 && segments > 1, "{longest} bytes, {segments} segments");
}

/// Catches: super-packets that stay whole on a slow link; frames with wrong checksums.
#[test]
fn for_a_slow_link_super_packets_are_split_and_arrive_intact() {
    let Some(network) = Network::new(1_500) else { return };
    let forwarding = network.forward();
    forwarding.remote.ask(|live| live.machine.cuts = true).unwrap();
    for address in SERVER {
        assert!(echo(&network, address, 1 << 20));
    }
    let (longest, segments, counters) = forwarding
        .remote
        .ask(|live| {
            let counters: Vec<PortCounters> = live.ports.iter().map(|it| it.counters()).collect();
            (live.machine.longest, live.machine.most_segments, counters)
        })
        .unwrap();
    assert_eq!((longest, segments), (1_514, 1), "{counters:?}");
    // Each port received fewer packets than the other one sent, so super-packets arrived.
    assert!(counters[0].received < counters[1].sent, "{counters:?}");
    assert_eq!(statistic(&network, "snmp", "Tcp:", "InCsumErrors"), 0);
}

#[test]
fn tcp_without_offloads_passes_intact_also_in_jumbo_frames() {
    let Some(network) = Network::new(9_000) else { return };
    set_offloads(&network, false);
    let forwarding = network.forward();
    for address in SERVER {
        assert!(echo(&network, address, 4 << 20));
    }
    assert_eq!(forwarding.remote.ask(|live| live.machine.longest).unwrap(), 9_014);
    let counters: Vec<PortCounters> = forwarding
        .remote
        .ask(|live| live.ports.iter().map(|port| port.counters()).collect())
        .unwrap();
    // A frame that a port sends must not arrive at the same port, where it would be received again.
    assert_eq!(counters[0].received, counters[1].sent, "{counters:?}");
    assert_eq!(counters[1].received, counters[0].sent, "{counters:?}");
}

/// A counter of the server's stack, from the two lines of `file` that begin with `group`.
fn statistic(network: &Network, file: &'static str, group: &'static str, name: &str) -> u64 {
    let path = format!("/proc/thread-self/net/{file}");
    let text = network.server.run(move || std::fs::read_to_string(path).unwrap());
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let names = lines.next().unwrap().split(' ');
    let found = names.zip(lines.next().unwrap().split(' ')).find(|(n, _)| *n == name);
    found.unwrap().1.parse().unwrap()
}

#[test]
fn rewritten_headers_have_valid_checksums_finished_by_the_stack_or_by_hardware() {
    let Some(network) = Network::new(1_500) else { return };
    for host in [&network.client, &network.server] {
        host.run(|| std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1").unwrap());
    }
    let forwarding = network.forward();
    forwarding.remote.ask(|live| live.machine.rewrite = true).unwrap();
    for on in [true, false] {
        set_offloads(&network, on);
        for address in SERVER {
            assert!(echo(&network, address, 200_000));
        }
    }
    assert!(forwarding.remote.ask(|live| live.machine.rewritten).unwrap() > 100);
    assert_eq!(statistic(&network, "snmp", "Tcp:", "InCsumErrors"), 0);
    assert_eq!(statistic(&network, "snmp", "Ip:", "InHdrErrors"), 0);
    assert!(statistic(&network, "netstat", "IpExt:", "InCEPkts") > 0);
}

#[test]
fn datagrams_arrive_once_and_in_order() {
    const WINDOW: u32 = 32;
    let Some(network) = Network::new(1_500) else { return };
    let _forwarding = network.forward();
    // The client itself must keep the order of its packets. Its kernel sends the packets that wait
    // for the first ARP answer from another thread, so an exchange precedes the test. The test
    // thread is pinned, because frames of a thread that moves can be reordered.
    assert!(echo(&network, SERVER[0], 1));
    network.client.run(|| {
        assert!(keep_time(Wish { realtime: None, ..Wish::default() }).cpu.is_some());
    });
    let socket = network.server.run(|| UdpSocket::bind((SERVER[0], 9)).unwrap());
    let server = network.server.spawn(move || {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        let mut buffer = [0; 1_500];
        for expected in 0..40 * WINDOW {
            let (len, from) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!(buffer[..4], expected.to_be_bytes(), "{len} bytes");
            if (expected + 1) % WINDOW == 0 {
                socket.send_to(&buffer[..4], from).unwrap();
            }
        }
    });
    network.client.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        for n in 0..40 * WINDOW {
            let mut datagram = n.to_be_bytes().to_vec();
            datagram.resize(if n % 2 == 0 { 4 } else { 1_472 }, 0);
            socket.send_to(&datagram, (SERVER[0], 9)).unwrap();
            if (n + 1) % WINDOW == 0 {
                assert_eq!(socket.recv(&mut [0; 4]).unwrap(), 4);
            }
        }
    });
    server.join().unwrap();
}

#[test]
fn a_frame_longer_than_the_outgoing_mtu_is_dropped_and_counted() {
    let Some(network) = Network::new(1_500) else { return };
    network.gateway.ip("link set p1 mtu 1300");
    let forwarding = network.forward();
    network.client.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(&[0; 1_400], (SERVER[0], 9)).unwrap();
    });
    // The frame of this later exchange arrives after the long frame, so the long frame has been
    // processed.
    assert!(echo(&network, SERVER[0], 1_000));
    let drops = forwarding.remote.ask(|live| live.ports[1].counters().drops).unwrap();
    assert_eq!((drops.of(Reason::TooLong), drops.total()), (1, 1));
}

/// A port for crafted frames, in place of a host's network stack.
struct Raw {
    pool: PacketPool,
    memory: PacketMemory,
    port: AfPacket,
}

impl Raw {
    fn open(name: &str) -> Self {
        let memory = PacketMemory::new(64, AfPacket::BUFFER).unwrap();
        let port = AfPacket::open(&Interface::find(name).unwrap(), &memory).unwrap();
        Self { pool: PacketPool::with_capacity(64), memory, port }
    }

    fn send(&mut self, bytes: &[u8], vnet: VnetHeader) {
        let len = u32::try_from(bytes.len()).unwrap();
        let packet = self.pool.insert(Packet { len, ..Packet::default() }).unwrap();
        self.memory.set_frame(&packet, Frame { offset: 0, vnet });
        self.memory.bytes_mut(&packet, len).copy_from_slice(bytes);
        self.port.send(&mut self.pool, packet);
        self.port.flush(&mut self.pool);
        assert_eq!(self.port.counters().sent, 1);
    }

    /// Waits for a frame that ends with `bytes`.
    fn receive(&mut self, bytes: &[u8]) -> (Vec<u8>, VnetHeader) {
        let start = std::time::Instant::now();
        while start.elapsed() < LIMIT {
            let Some(packet) = self.port.receive(&mut self.pool, Time::ZERO) else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            let found = self.memory.bytes(&packet, self.pool[&packet].len).to_vec();
            let vnet = self.memory.frame(&packet).vnet;
            self.pool.release(packet);
            if found.ends_with(&bytes[bytes.len() - 32..]) {
                return (found, vnet);
            }
        }
        panic!("no such frame");
    }
}

/// Sends a crafted frame from the client. Returns the frame that reaches the server.
fn carry(network: &Network, frame: &[u8], vnet: VnetHeader) -> (Vec<u8>, VnetHeader) {
    let (ready, opened) = std::sync::mpsc::channel();
    let expected = frame.to_vec();
    let server = network.server.spawn(move || {
        let mut raw = Raw::open("s0");
        ready.send(()).unwrap();
        raw.receive(&expected)
    });
    opened.recv().unwrap();
    let frame = frame.to_vec();
    network.client.run(move || Raw::open("c0").send(&frame, vnet));
    server.join().unwrap()
}

/// A broadcast frame with these VLAN tags, followed by `rest`.
fn tagged(tags: &[u32], rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1]);
    tags.iter().for_each(|tag| frame.extend(tag.to_be_bytes()));
    frame.extend(rest);
    frame
}

#[test]
fn a_vlan_tag_that_the_kernel_removed_from_the_frame_is_restored() {
    let Some(network) = Network::new(1_500) else { return };
    let _forwarding = network.forward();
    let rest = [&[0x88, 0xb5][..], &pattern(100)].concat();
    // An 802.1Q tag with a priority; an 802.1ad tag; an 802.1Q tag inside an 802.1ad tag.
    for tags in [&[0x8100_a064][..], &[0x88a8_0065], &[0x88a8_0065, 0x8100_0066]] {
        let frame = tagged(tags, &rest);
        assert_eq!(carry(&network, &frame, VnetHeader::default()).0, frame, "{tags:x?}");
    }
}

#[test]
fn a_tagged_super_packet_stays_whole_and_its_checksum_unfinished() {
    let Some(network) = Network::new(1_500) else { return };
    let forwarding = network.forward();
    let payload = pattern(3 * 1_000);
    let mut ip = vec![0x45, 0, 0x0b, 0xe0, 0, 1, 0, 0, 64, 6, 0, 0, 10, 7, 0, 1, 10, 7, 0, 2];
    assert_eq!(ip.len() + 20 + payload.len(), 0x0be0);
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let tcp = [0, 7, 0, 7, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0];
    let frame = tagged(&[0x8100_0064], &[&[8, 0][..], &ip, &tcp, &payload].concat());
    let vnet = VnetHeader {
        flags: 1,
        gso_type: 1,
        hdr_len: 58,
        gso_size: 1_000,
        csum_start: 38,
        csum_offset: 16,
    };
    let (received, its) = carry(&network, &frame, vnet);
    assert_eq!(received, frame);
    assert_eq!((its.checksum_span(), its.segment_size()), (Some((38, 54)), Some(1_000)));
    assert_eq!(forwarding.remote.ask(|live| live.machine.most_segments).unwrap(), 3);
}

#[test]
fn a_super_packet_of_datagrams_arrives_as_separate_datagrams() {
    let Some(network) = Network::new(1_500) else { return };
    let forwarding = network.forward();
    let socket = network.server.run(|| UdpSocket::bind((SERVER[0], 9)).unwrap());
    network.client.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let size: libc::c_int = 1_000;
        let (fd, len) = (std::os::fd::AsRawFd::as_raw_fd(&socket), 4);
        let value = std::ptr::from_ref(&size).cast();
        // SAFETY: `value` points at the four bytes of `size`.
        let set = unsafe { libc::setsockopt(fd, libc::SOL_UDP, libc::UDP_SEGMENT, value, len) };
        assert_eq!(set, 0);
        socket.send_to(&pattern(9_500), (SERVER[0], 9)).unwrap();
    });
    let received = network.server.run(move || {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        let mut buffer = [0; 2_000];
        let datagrams = (0..10).map(|_| {
            let len = socket.recv(&mut buffer).unwrap();
            buffer[..len].to_vec()
        });
        datagrams.collect::<Vec<_>>()
    });
    assert!(received[..9].iter().all(|datagram| datagram.len() == 1_000));
    assert_eq!(received.concat(), pattern(9_500));
    assert_eq!(forwarding.remote.ask(|live| live.machine.most_segments).unwrap(), 10);
}

#[test]
fn a_port_that_goes_down_and_up_again_continues() {
    let Some(network) = Network::new(1_500) else { return };
    let forwarding = network.forward();
    assert!(echo(&network, SERVER[0], 1_000));
    network.gateway.ip("link set p1 down");
    network.client.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(&[0; 100], (SERVER[0], 9)).unwrap();
    });
    network.gateway.ip("link set p1 up");
    network.gateway.wait_for("p1");
    network.server.wait_for("s0");
    assert!(echo(&network, SERVER[0], 1_000));
    let counters = forwarding.remote.ask(|live| live.ports[1].counters()).unwrap();
    assert!((1..=2).contains(&counters.events.receive_errors), "{counters:?}");
    assert_eq!(counters.drops.of(Reason::Refused), counters.events.send_errors);
}

#[test]
fn a_port_whose_interface_is_removed_lets_the_loop_sleep() {
    let Some(network) = Network::new(1_500) else { return };
    let forwarding = network.forward();
    assert!(echo(&network, SERVER[0], 1_000));
    network.gateway.ip("link del p1");
    std::thread::sleep(Duration::from_millis(50));
    let before = forwarding.waits.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(200));
    let waits = forwarding.waits.load(Ordering::Relaxed) - before;
    assert!(waits < 20, "{waits} waits in 200 ms");
    assert!(
        forwarding.remote.ask(|live| live.ports[1].counters().events.receive_errors).unwrap() > 0
    );
}

#[test]
fn frames_in_the_socket_are_dropped_and_counted_and_sent_frames_are_not_received() {
    const FRAMES: u64 = 70;
    let Some(network) = Network::new(1_500) else { return };
    let (command, todo) = std::sync::mpsc::channel();
    let (sender, opened) = std::sync::mpsc::channel();
    let gateway = network.gateway.spawn(move || {
        let mut raw = Raw::open("p0");
        sender.send(()).unwrap();
        todo.recv().unwrap();
        (raw.port.drop_arrived(&mut raw.pool, &|| 0), raw.port.counters().drops.of(Reason::Stale))
    });
    opened.recv().unwrap();
    let frame = tagged(&[], &[&[0x88, 0xb5][..], &pattern(100)].concat());
    for (host, name) in [(&network.client, "c0"), (&network.gateway, "p0")] {
        let frame = frame.clone();
        host.run(move || {
            (0..FRAMES).for_each(|_| Raw::open(name).send(&frame, VnetHeader::default()));
        });
    }
    command.send(()).unwrap();
    let (dropped, stale) = gateway.join().unwrap();
    assert_eq!(dropped, stale);
    // The client's stack may have sent a few packets of its own.
    assert!((FRAMES..FRAMES + 10).contains(&dropped), "{dropped}");
}

#[test]
fn without_the_privilege_the_error_names_the_privilege() {
    let Some(network) = Network::new(1_500) else { return };
    let error = network.gateway.run(|| {
        let thread = std::thread::spawn(|| {
            // SAFETY: the call takes no pointers. A direct system call changes only this thread, unlike the
            // function of libc.
            let result = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
            let interface = Interface::find("p0").unwrap();
            let memory = PacketMemory::new(8, AfPacket::BUFFER).unwrap();
            let down = interface.set_up(false).unwrap_err();
            (result == 0).then(|| [AfPacket::open(&interface, &memory).unwrap_err(), down])
        });
        thread.join().unwrap()
    });
    let Some(errors) = error else { return eprintln!("skipped: there is nobody to become") };
    for error in errors {
        assert!(matches!(error, InterfaceError::NoPrivilege { .. }), "{error}");
        assert!(error.to_string().contains("CAP_NET_RAW"));
    }
}

/// The same test in a user namespace, in which the process has no privilege outside.
#[test]
fn packet_sockets_work_without_root() {
    let test = "tcp_with_every_offload_passes_as_super_packets_and_intact";
    let output = Command::new("unshare")
        .args(["-Urn", "--kill-child"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .output();
    let output = match output {
        Ok(output) => format!("{output:?}"),
        Err(error) => return eprintln!("skipped: {error}"),
    };
    if output.contains("unshare failed") || output.contains("skipped") {
        return eprintln!("skipped: no user namespaces here: {output}");
    }
    assert!(output.contains("1 passed"), "{output}");
}
