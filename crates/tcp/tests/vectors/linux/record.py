#!/usr/bin/env python3
"""Records how a Linux sender responds to the ACKs of a scripted peer: `record.py SCRIPT...`.

Needs root. Each script runs in its own network namespace with a TUN device. Over this device, a real
socket of the kernel connects to this program, which acts as the peer. Below the script's own lines, the
program writes the segments that the kernel sends, and the kernel's window after each step. A test then
replays the script against the sender of `tidegate-tcp`.

A script:

    # comment
    peer mss 1000 window 60000 scale 7 sack timestamps ecn     (options of the SYN-ACK; `paced`: the socket paces)
    set initial_window 4                                       (only for `tidegate-tcp`; the kernel has 10)
    0 write 20000            at 0 ms the application writes
    100 ack 2001             at 100 ms an ACK: sequence numbers count from 1
    100 ack 2001 sack 3001-4001 5001-6001 window 1000 ece echo 3
    300 close

`echo N` echoes the timestamp of the N-th segment that the kernel sent. Without `echo N`, the ACK echoes
the timestamp of the last segment.

There are two kinds of recorded lines. `T > from to [fin] [cwr]` is a sent range: segments that follow
each other within a millisecond form one range. `T = cwnd ssthresh timeout` is the state after a step,
in segments and milliseconds.
"""

import ctypes
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import time

CLONE_NEWNET = 0x40000000
LOCAL, PEER, PORT = "10.77.0.1", "10.77.0.2", 7777
MSG_EOR = 0x80
SO_MAX_PACING_RATE = 47
FIN, SYN, RST, PSH, ACK, ECE, CWR = 1, 2, 4, 8, 16, 64, 128


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(src_port, dst_port, seq, ack, flags, window, options=b"", ecn=0):
    options += b"\1" * (-len(options) % 4)
    offset = (20 + len(options)) // 4
    tcp = struct.pack("!HHIIBBHHH", src_port, dst_port, seq % 2**32, ack % 2**32, offset << 4, flags, window, 0, 0)
    tcp += options
    pseudo = socket.inet_aton(PEER) + socket.inet_aton(LOCAL) + struct.pack("!BBH", 0, 6, len(tcp))
    total = checksum(pseudo + tcp)
    tcp = tcp[:16] + struct.pack("!H", total) + tcp[18:]
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, ecn, 20 + len(tcp), 0, 0, 64, 6, 0, socket.inet_aton(PEER), socket.inet_aton(LOCAL))
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    return ip + tcp


class Run:
    def __init__(self, peer):
        self.peer = peer
        self.tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self.tun, 0x400454CA, struct.pack("16sH", b"tcpvec", 0x0001 | 0x1000))
        for command in (
            "ip link set lo up",
            f"ip addr add {LOCAL}/24 dev tcpvec",
            "ip link set tcpvec up",
            "sysctl -qw net.ipv4.tcp_no_metrics_save=1 net.ipv6.conf.all.disable_ipv6=1",
            f"sysctl -qw net.ipv4.tcp_ecn={1 if 'ecn' in peer else 0}",
            f"sysctl -qw net.ipv4.tcp_timestamps={1 if 'timestamps' in peer else 0}",
        ):
            subprocess.run(command.split(), check=True, stderr=subprocess.DEVNULL)
        self.log, self.sent, self.base, self.start = [], [], 0, 0.0
        self.window = int(peer.get("window", 60000))
        self.scale = int(peer.get("scale", 0))

    def now(self):
        return (time.clock_gettime(time.CLOCK_MONOTONIC) - self.start) * 1000

    def segments(self, until):
        """Yields the time and bytes of each TCP packet that the kernel sends before `until` (in ms)."""
        while True:
            left = (until - self.now()) / 1000
            ready, _, _ = select.select([self.tun], [], [], max(left, 0))
            if not ready:
                return
            while True:
                try:
                    data = os.read(self.tun, 65536)
                except BlockingIOError:
                    break
                if data[0] >> 4 == 4 and data[9] == 6:
                    yield self.now(), data
            if left < 0:
                return

    def note(self, until):
        for at, data in self.segments(until):
            header = (data[0] & 15) * 4
            tcp = data[header:]
            seq, ack, offset, flags = struct.unpack("!IIBB", tcp[4:14])
            length = len(tcp) - (offset >> 4) * 4
            if length == 0 and not flags & (FIN | RST) and seq == self.base + self.top():
                continue
            start = (seq - self.base) % 2**32
            end = start + length + (1 if flags & FIN else 0)
            self.sent.append((start, end, self.timestamp(tcp, offset)))
            words = ["fin"] * bool(flags & FIN) + ["cwr"] * bool(flags & CWR)
            last = self.log[-1].split() if self.log else []
            if len(last) == 4 and last[1] == ">" and int(last[3]) == start and at - float(last[0]) < 1:
                self.log.pop()
                at, start = float(last[0]), int(last[2])
            self.log.append(" ".join([f"{at:.1f}", ">", str(start), str(end)] + words))

    def top(self):
        return max((end for _, end, _ in self.sent), default=1)

    @staticmethod
    def timestamp(tcp, offset):
        options, at = tcp[20 : (offset >> 4) * 4], 0
        while at < len(options) and options[at]:
            if options[at] == 1:
                at += 1
                continue
            if options[at] == 8:
                return struct.unpack("!I", options[at + 2 : at + 6])[0]
            at += options[at + 1]
        return None

    def connect(self):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.setsockopt(socket.IPPROTO_TCP, 13, b"reno")
        if "paced" in self.peer:
            self.sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("Q", 10**9))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        try:
            self.sock.connect((PEER, PORT))
        except BlockingIOError:
            pass
        self.start = time.clock_gettime(time.CLOCK_MONOTONIC)
        _, data = next(self.segments(1000))
        tcp = data[20:]
        self.port, _, seq, _, offset, flags = struct.unpack("!HHIIBB", tcp[:14])
        self.base = seq  # the first byte of data is number 1
        value = self.timestamp(tcp, offset)
        options = struct.pack("!BBH", 2, 4, int(self.peer.get("mss", 1460)))
        if "sack" in self.peer:
            options += b"\4\2"
        if "scale" in self.peer:
            options += struct.pack("!BBB", 3, 3, self.scale)
        if "timestamps" in self.peer:
            options += struct.pack("!BBII", 8, 10, 1, value)
        flags = SYN | ACK | (ECE if "ecn" in self.peer else 0)
        time.sleep(int(self.peer.get("rtt", 100)) / 1000)
        os.write(self.tun, packet(PORT, self.port, 0, seq + 1, flags, min(self.window, 65535), options))
        self.start = time.clock_gettime(time.CLOCK_MONOTONIC)
        for _ in self.segments(3):
            pass

    def ack(self, words):
        number, rest = int(words[0]), words[1:]
        blocks, flags, echo, window = [], ACK, len(self.sent), self.window
        while rest:
            word = rest.pop(0)
            if word == "sack":
                while rest and "-" in rest[0]:
                    blocks.append(tuple(map(int, rest.pop(0).split("-"))))
            elif word == "ece":
                flags |= ECE
            elif word == "window":
                window = int(rest.pop(0))
            elif word == "echo":
                echo = int(rest.pop(0))
        options = b""
        if "timestamps" in self.peer:
            options += b"\1\1" + struct.pack("!BBII", 8, 10, 2 + int(self.now()), self.sent[echo - 1][2])
        if blocks:
            options += b"\1\1" + struct.pack("!BB", 5, 2 + 8 * len(blocks))
            for left, right in blocks:
                options += struct.pack("!II", (self.base + left) % 2**32, (self.base + right) % 2**32)
        os.write(self.tun, packet(PORT, self.port, 1, self.base + number, flags, window >> self.scale, options))

    def info(self):
        raw = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        words = struct.unpack("24I", raw[8:104])
        return words[18], words[17], words[0] // 1000

    def step(self, at, verb, words):
        self.note(at)
        self.log.append(f"{self.now():.1f} {verb} {' '.join(words)}".rstrip())
        if verb == "write":
            # Each segment has its own buffer. Otherwise the kernel may delay a part of a buffer, to send
            # more data at once.
            for start in range(0, int(words[0]), 1000):
                self.sock.send(b"x" * min(1000, int(words[0]) - start), MSG_EOR)
        elif verb == "ack":
            self.ack(list(words))
        elif verb == "close":
            self.sock.shutdown(socket.SHUT_WR)
        self.note(self.now() + 1.5)
        if verb != "wait":
            self.state()

    def state(self):
        cwnd, threshold, timeout = self.info()
        shown = "-" if threshold > 2**30 else str(threshold)
        self.log.append(f"{self.now():.1f} = {cwnd} {shown} {timeout}")


def offsets_of_info():
    """Checks the positions of snd_ssthresh and snd_cwnd among the 32-bit words of `tcp_info`.

    Eight bytes of flags precede these words.
    """
    names = "rto ato snd_mss rcv_mss unacked sacked lost retrans fackets last_data_sent last_ack_sent " \
        "last_data_recv last_ack_recv pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd".split()
    assert names.index("snd_ssthresh") == 17 and names.index("snd_cwnd") == 18


def record(path):
    lines = [line.rstrip("\n") for line in open(path)]
    script = [line for line in lines if not (len(line.split()) > 1 and line.split()[1] in (">", "="))]
    if "recorded:" in script:
        script = script[: script.index("recorded:")]
    peer, steps = {}, []
    for line in script:
        words = line.split("#")[0].split()
        if not words or words[0] == "set":
            continue
        if words[0] == "peer":
            rest = words[1:]
            while rest:
                word = rest.pop(0)
                peer[word] = rest.pop(0) if rest and rest[0].isdigit() else True
        else:
            steps.append((float(words[0]), words[1], words[2:]))
    run = Run(peer)
    run.connect()
    for at, verb, words in steps:
        run.step(at, verb, words)
    text = "\n".join(script).rstrip() + "\n\nrecorded:\n" + "\n".join(run.log) + "\n"
    open(path, "w").write(text)


if __name__ == "__main__":
    offsets_of_info()
    for path in sys.argv[1:]:
        child = os.fork()
        if child == 0:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.unshare(CLONE_NEWNET) != 0:
                sys.exit("a network namespace needs root")
            try:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
            except PermissionError:
                pass
            record(path)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(path, "ok" if status == 0 else "FAILED")
