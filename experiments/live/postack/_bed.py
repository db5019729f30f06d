"""A test bed in which a gateway between two real hosts can be killed.

Source: docs/ledger.md, A001-11 (connections recover after `kill -9`); the test bed of
`tests/src/testbed.rs`.
Differs: the labs of `_live.py` create a gateway's ports in a namespace that ends with the gateway.
Here the ports stay after the gateway's end, with the programs that forward frames for a dead
gateway. Each host has a network namespace. There is no delay between hosts. A host sends at most 30
Mbit/s, with complete checksums and without super-packets, as on a wire.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from ._live import PATIENCE, program

HOSTS = {"lan": "10.83.0.1", "wan": "10.83.0.2"}
"""Addresses of the hosts, by the port of the gateway that leads to the host."""
PORT = 7000

OFFLOADS = "tx off tso off gso on gro on txvlan off"

LINE = "tbf rate 30mbit burst 16kb limit 200kb"
"""The queueing discipline of the hosts, which limits their rate."""


def lacks_bed() -> str | None:
    """The tool for the test bed that this machine lacks, or ``None`` if all tools are there."""
    for tool in (["ip", "-V"], ["tc", "-V"], ["ethtool", "--version"]):
        try:
            subprocess.run(tool, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return f"there is no {tool[0]} here"
    return None


class Bed:
    """Two hosts and a gateway between them, until the end of the ``with`` block."""

    _numbers = count()

    def __init__(self, policies: str, backend: str) -> None:
        self._name = f"repro-{os.getpid()}-{next(self._numbers)}"
        self._policies = f'[gateway]\nlan = "lan"\nwan = "wan"\nbackend = "{backend}"\n\n{policies}'
        self._running: list[subprocess.Popen[str]] = []
        self._folder = TemporaryDirectory()
        self._socket = str(Path(self._folder.name) / "socket")

    def __enter__(self) -> Self:
        try:
            self._connect()
            self._gateway = self._start_gateway()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.kill()
            process.wait()
        for place in ("lan", "mid", "wan"):
            subprocess.run(["ip", "netns", "delete", self._space(place)], capture_output=True)
        self._folder.cleanup()

    def _space(self, place: str) -> str:
        return f"{self._name}-{place}"

    def _connect(self) -> None:
        for place in ("lan", "mid", "wan"):
            _run("ip", "netns", "add", self._space(place))
        self._on("mid", "sysctl", "-q", "net.ipv6.conf.all.disable_ipv6=1")
        self._on("mid", "sysctl", "-q", "net.ipv6.conf.default.disable_ipv6=1")
        for host, address in HOSTS.items():
            middle, space = self._space("mid"), self._space(host)
            words = f"link add {host} netns {middle} type veth peer name eth0 netns {space}"
            _run("ip", *words.split())
            self._on(host, "ethtool", "-K", "eth0", *OFFLOADS.split())
            self._on(host, "ip", "address", "add", f"{address}/24", "dev", "eth0")
            self._on(host, "ip", "link", "set", "lo", "up")
            self._on(host, "ip", "link", "set", "eth0", "up")
            self._on(host, "tc", "qdisc", "replace", "dev", "eth0", "root", *LINE.split())
            self._on("mid", "ip", "link", "set", host, "up")

    def _on(self, place: str, *words: str) -> str:
        return _run("ip", "netns", "exec", self._space(place), *words)

    def _start(self, place: str, *words: str, **more: Any) -> subprocess.Popen[str]:
        # `ip netns exec` replaces itself by the program, so a signal to this process reaches the
        # program.
        process = subprocess.Popen(
            ["ip", "netns", "exec", self._space(place), program(), *words],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **more,
        )  # fmt: skip
        self._running.append(process)
        return process

    def _start_gateway(self) -> subprocess.Popen[str]:
        file = Path(self._folder.name) / "policies.toml"
        file.write_text(self._policies)
        words = ["--socket", self._socket, "run", "--state", self._folder.name, str(file)]
        gateway = self._start("mid", *words, stderr=subprocess.DEVNULL)
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            if gateway.poll() is not None:
                raise RuntimeError(f"the gateway ended with {gateway.returncode}")
            try:
                self.status()
            except (RuntimeError, json.JSONDecodeError):
                time.sleep(0.1)
            else:
                return gateway
        raise RuntimeError("the gateway does not answer")

    def status(self) -> Mapping[str, Any]:
        """The status that the gateway reports."""
        words = [str(program()), "--socket", self._socket, "status", "--json"]
        said = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        if not said.stdout:
            raise RuntimeError(said.stderr)
        status: Mapping[str, Any] = json.loads(said.stdout)
        return status

    def kill(self) -> float:
        """Kills the gateway with SIGKILL, and returns the time of :func:`time.monotonic`."""
        at = time.monotonic()
        self._gateway.send_signal(signal.SIGKILL)
        self._gateway.wait()
        return at

    def serve(self, host: str, congestion: str) -> None:
        """Starts a server for transfers on a host."""
        server = self._start(host, "traffic", "serve", "--congestion", congestion)
        assert server.stdout is not None and server.stdout.readline(), "no server"

    def fetch(self, host: str, server: str, *words: str) -> subprocess.Popen[str]:
        """Starts a transfer from the server on another host. It prints JSON every 20 ms."""
        address = f"{HOSTS[server]}:{PORT}"
        return self._start(host, "traffic", "fetch", address, "--interval", "20 ms", *words)


def _run(*words: str) -> str:
    said = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    if said.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {said.stderr}")
    return said.stdout
