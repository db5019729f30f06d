"""Two aggregates between real hosts: deployed gateways share one bottleneck.

Source: integrated TCP, section 4 (subnets E1).
Differs: each aggregate has a client, a gateway at the client, and a far gateway with a server of
its own. All except the clients are hosts of a `tidegate lab`, whose network is the bottleneck. The
bottleneck has 20 Mbit/s, and files have an eighth of E1's sizes. So the loads and the number of
files in flight are those of E1. Lengths on the link include 14 bytes of Ethernet. Aggregate
connections start 1 s apart before any file, with weight 10. Clients and servers run `_files.py`.
All processes have real-time priority: three labs take 1.8 cores, and other work on the machine must
not delay them.
"""

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tidegate import Scenario

from ..postack import _live as namespaces
from ..postack._live import PATIENCE, Lab, line_of, program

RATE = 20_000_000
"""Rate of the bottleneck, bit/s."""

DELAY = "20 ms"
"""Delay of each direction."""

BUFFER = 10_000 * 1_494
"""Buffer of the bottleneck in bytes: the paper's 10,000 packets, at the frame length of QUIC."""

ADJUSTER: dict[str, Any] = {"samples": 60, "every": "50 ms", "weight": 10, "most": 10}
"""C (samples of a round), P (interval), initial and greatest weight (Table I of the paper)."""

ROUND = 1.5 * 60 * 0.05
"""Mean seconds between two decisions of an adjuster."""

CLASSES = (1, 2)
LOOK = 0.25
"""Seconds between two status requests to the gateways."""

DRAIN = 10
"""Seconds for which files may still arrive after the last file has begun."""

REUSE = (
    "echo 1 > /proc/sys/net/ipv4/tcp_tw_reuse; "
    "echo '1024 65535' > /proc/sys/net/ipv4/ip_local_port_range"
)
"""Shell commands that allow a host to open 160 connections a second."""

PORT = 4755

CORES = 2
"""Number of cores that three labs at the same time need (1.8)."""


def missing() -> str | None:
    """The requirement for aggregates that this machine lacks, or ``None``."""
    if (os.cpu_count() or 1) < CORES:
        return "three labs of aggregate gateways need two cores"
    if not shutil.which("nft"):
        return "aggregate gateways need nft: apt-get install nftables"
    return namespaces.missing()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Starts processes of this block with real-time priority.

    Only one such block runs at a time.
    """
    lock = Path(tempfile.gettempdir()) / "tidegate-itcp-live.lock"
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        try:
            yield
        finally:
            os.sched_setscheduler(0, *before)


def hosts() -> Scenario:
    """The hosts of a lab: for each class a client, its gateway, and the far gateway."""
    net = Scenario(duration="1 s")
    for number in CLASSES:
        for name in ("client", "site", "far"):
            net.host(f"{name}{number}")
    sites = [f"site{number}" for number in CLASSES]
    net.route(**{"from": sites}, rate=f"{RATE} bit/s", delay=DELAY,
              queue={"kind": "drop-tail", "limit": f"{BUFFER} B"})  # fmt: skip
    net.route(delay=DELAY)
    return net


def address(number: int, name: str) -> str:
    """The address of a host in the lab, which numbers hosts in the order of the file."""
    place = 3 * (number - 1) + {"client": 1, "site": 2, "far": 3}[name]
    return f"10.73.0.{place}"


def server(number: int) -> str:
    """The address of a server."""
    return f"10.75.{number}.1"


class Sites:
    """The running gateways of two aggregates."""

    def __init__(self, lab: Lab, folder: Path, weight: Mapping[str, Any]) -> None:
        self.lab, self.folder = lab, folder
        for number in CLASSES:
            self._connect(number)
            self._start(number, weight)

    def _connect(self, number: int) -> None:
        """Connects a client to its gateway by a cable, and gives the server its address."""
        client, site = (f"tidegate-{self.lab.name}-{it}{number}" for it in ("client", "site"))
        words = f"link add lan netns {client} type veth peer name lan netns {site}"
        subprocess.run(["ip", *words.split()], check=True)
        near, gateway = f"10.74.{number}.2", f"10.74.{number}.1"
        up = "ip link set lan up && ip address add"
        to = f"ip route add {server(number)} via {gateway}"
        self.lab.shell(f"client{number}", f"{up} {near}/24 dev lan && {to}; {REUSE}")
        self.lab.shell(f"site{number}", f"{up} {gateway}/24 dev lan")
        self.lab.shell(f"far{number}", f"ip address add {server(number)}/32 dev lo; {REUSE}")

    def _start(self, number: int, weight: Mapping[str, Any]) -> None:
        """Starts both gateways of an aggregate, and waits until they are connected."""
        names = (f"site{number}", f"far{number}")
        ends = {name: address(number, name.rstrip("12")) for name in names}
        keys = {name: self._key(name) for name in names}
        networks = (f"{server(number)}/32", f"10.74.{number}.0/24")
        for name, other, network in zip(names, names[::-1], networks, strict=True):
            local = {
                "listen": f"{ends[name]}:{PORT}", "peer": f"{ends[other]}:{PORT}",
                "key_file": str(self.folder / f"{name}.key"), "peer_key": keys[other],
                "reachable": [f"{server(number)}/32"], "on_peer_down": "refuse",
                "destinations": [network],
                "weight": {**ADJUSTER, **weight},
            }  # fmt: skip
            self._run(name, local)
        ends_at = time.monotonic() + PATIENCE
        while not self.status(names[0])["peer"]["is_up"]:
            assert time.monotonic() < ends_at, f"{names[0]} does not find its peer"
            time.sleep(0.1)
        time.sleep(1)

    def _key(self, name: str) -> str:
        words = [str(program()), "aggregate", "key", str(self.folder / f"{name}.key")]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()

    def _run(self, name: str, aggregate: Mapping[str, Any]) -> None:
        """Starts a gateway, and waits until it answers."""
        file = self.folder / f"{name}.toml"
        lines = [f"{key} = {_toml(value)}" for key, value in aggregate.items()]
        file.write_text("\n".join(["[aggregate]", *lines]))
        process = self.lab.start(
            name, program(), "aggregate", file, "--socket", self._socket(name)
        )  # fmt: skip
        ends_at = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < ends_at:
            try:
                self.status(name)
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"the gateway {name} does not start")

    def _socket(self, name: str) -> Path:
        return self.folder / f"{name}.sock"

    def status(self, name: str) -> Mapping[str, Any]:
        """The answer of a gateway to ``/v1/aggregate``."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(str(self._socket(name)))
            connection.sendall(b"GET /v1/aggregate HTTP/1.0\r\n\r\n")
            said = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        answer: Mapping[str, Any] = json.loads(said.split(b"\r\n\r\n", 1)[1])
        return answer

    def files(self, seconds: int, seed: int) -> list[subprocess.Popen[str]]:
        """Starts servers and clients. Returns their processes, servers first."""
        script, last = Path(__file__).with_name("_files.py"), str(seconds + DRAIN)
        servers = [
            self.lab.start(f"far{number}", sys.executable, script, "receive", last)
            for number in CLASSES
        ]
        for each in servers:
            assert line_of(each), "no server"
        clients = [
            self.lab.start(f"client{number}", sys.executable, script, "send", server(number),
                           str(number), str(seconds), str(seed))
            for number in CLASSES
        ]  # fmt: skip
        return servers + clients


@contextmanager
def sites(weight: Mapping[str, Any]) -> Iterator[Sites]:
    """A lab with two aggregates whose weights follow this law."""
    with TemporaryDirectory() as folder, Lab(hosts()) as lab:
        yield Sites(lab, Path(folder), weight)


def watch(both: Sites, seconds: float) -> dict[str, np.ndarray]:
    """Samples both aggregates: times, weights, packets sent, and whether bytes are queued."""
    rows, start = [], time.monotonic()
    while (now := time.monotonic() - start) < seconds:
        said = [both.status(f"site{number}") for number in CLASSES]
        rows.append((
            now,
            [it["weight"]["thousandths"] / 1e3 for it in said],
            [it["peer"]["sent_packets"] for it in said],
            [it["queue_bytes"] > 0 for it in said],
        ))  # fmt: skip
        time.sleep(LOOK)
    names = ("time", "weight", "sent", "waits")
    return {name: np.array([row[at] for row in rows]) for at, name in enumerate(names)}


def _toml(value: Any) -> str:
    """Writes a value of strings, numbers, lists and tables as TOML."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {_toml(each)}" for key, each in value.items())
        return f"{{ {inner} }}"
    return json.dumps(value)
