"""Runs a scenario with real hosts: network namespaces with this kernel's TCP.

Source: postack; docs/ledger.md, A001-1 to A001-12 (the expectations of the paper).
Differs: the gateway is the deployed program, and the network is that of `tidegate lab`. Cases that
are compared run in the same seconds, each in a lab of its own, so that a busy machine slows all of
them. One run of all cases belongs to one seed. If a gateway hangs (frames bypass it), all cases are
repeated. Without root, network namespaces or the program, the runs are skipped, and their claims
neither hold nor fail.
"""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np

from tidegate import Scenario, jain, kept

from ...postack._network import FAR, FLOWS, KEPT, RECORD, rules

ROOT = Path(__file__).parents[3]
PATIENCE = 60
"""Timeout of a command in seconds."""

SLACK = 3
"""Seconds for which transfers continue after the measurement."""

TRIES = 3
"""Number of attempts to build a lab."""

AGAIN = 3
"""Maximum number of repetitions of a seed's run because a gateway hung."""

HOSTS = {"near": "10.73.0.1", "far": "10.73.0.2"}
WINDOW = {"window_scaling": False, "receive_window": "65535 B"}
"""TCP settings of simulated hosts for windows of 64 KiB; real hosts use `NOT_SCALED`."""

NOT_SCALED = "echo 0 > /proc/sys/net/ipv4/tcp_window_scaling"

COUNTERS = {
    "TCPTimeouts": "timeouts",
    "RetransSegs": "retransmitted",
    "PAWSEstab": "old",
    "TCPSpuriousRTOs": "spurious",
    "TCPDSACKRecv": "twice",
    "TCPLostRetransmit": "lost_again",
}
"""Counters of the hosts' TCP: the name in `/proc/net`, and the column here. The columns count
timeouts, retransmitted segments, segments rejected as old (PAWS), spurious timeouts, duplicates
that arrived, and retransmissions that were lost again."""


def program() -> Path:
    """The path of the program: TIDEGATE_BIN, or the result of `make build`."""
    return kept.program(ROOT)


def missing() -> str | None:
    """The requirement for labs that this machine lacks, or ``None``."""
    if not program().exists():
        return "the program is not built: make build"
    if os.geteuid() != 0:
        return "namespaces with real hosts need root"
    try:
        subprocess.run(["unshare", "--net", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return "there are no network namespaces here"
    return None


def lacks(congestion: str) -> bool:
    """Returns true if this kernel does not have the congestion control."""
    path = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    return congestion not in path.read_text().split()


def hosts(
    ack_control: str,
    *,
    way: str = "up",
    loss: float = 0,
    tcp: Mapping[str, Any] | None = None,
    seconds: tuple[int, int] = (6, 15),
    policy: Mapping[str, Any] | None = None,
    file: Mapping[str, Any] | None = None,
) -> Scenario:
    """Host ``near`` with a gateway, and host ``far``; for the simulator and for a lab.

    Data goes ``up`` (from ``near``) or ``down``. The network between gateway and ``far`` loses
    ``loss`` percent of the data. ``seconds`` are the lengths of warm-up and of counted time.
    """
    warmup, counted = seconds
    settings = {"profile": "linux", **(tcp or {})}
    net = Scenario(duration=f"{warmup + counted} s", warmup=f"{warmup} s", tcp=settings)
    net.host("near", gateway="edge")
    net.host("far")
    net.gateway("edge", file or {"policy": [rules(ack_control, way, **(policy or {}))]})
    sender = {"up": "near", "down": "far"}[way]
    lossy = {"loss": f"{loss} %"} if loss else {}
    net.route(**{"from": sender, "delay": FAR, **lossy})
    net.route(delay=FAR)
    return net


class Lab:
    """A scenario with real hosts, until the end of the ``with`` block."""

    _numbers = count()

    def __init__(self, net: Scenario) -> None:
        self.name = f"repro-{os.getpid()}-{next(self._numbers)}"
        self._text = f'name = "{self.name}"\n{net.to_toml()}'
        self._gateways = [it["name"] for it in net.tables.get("gateway", ())]
        self._running: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "lab.toml"
            file.write_text(self._text)
            for left in reversed(range(TRIES)):
                try:
                    _run(program(), "lab", "up", file)
                    break
                except RuntimeError:
                    # On a busy machine a process may start so late that the wait for it fails.
                    if not left:
                        raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.kill()
            process.wait()
        subprocess.run([program(), "lab", "down", "--lab", self.name], capture_output=True)

    def command(self, host: str, *words: str | Path) -> list[str | Path]:
        """The command line that runs ``words`` on a host."""
        return [program(), "lab", "exec", "--lab", self.name, host, "--", *words]

    def start(self, host: str, *words: str | Path) -> subprocess.Popen[str]:
        """Starts a process on a host. The end of the lab kills it."""
        process = subprocess.Popen(
            self.command(host, *words), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        self._running.append(process)
        return process

    def shell(self, host: str, line: str) -> str:
        """Runs a shell command on a host, and returns its output."""
        return _run(*self.command(host, "sh", "-c", line))

    def serve(self, host: str, congestion: str) -> None:
        """Starts a server for transfers on a host."""
        words = ["traffic", "serve", "--congestion", congestion]
        server = self.start(host, program(), *words)
        assert line_of(server), "the server does not start"

    def fetch(self, host: str, address: str, *words: str) -> subprocess.Popen[str]:
        """Starts a transfer to a host from the server at an address."""
        more = ["--interval", "100 ms", *words]
        return self.start(host, program(), "traffic", "fetch", f"{address}:7000", *more)

    def status(self) -> Mapping[str, Any]:
        """The answer of the gateway to ``/v1/status``."""
        return self.ask("edge", "status")

    def ask(self, gateway: str, what: str) -> Mapping[str, Any]:
        """The answer of a gateway to ``/v1/WHAT``."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(f"/run/tidegate/lab-{self.name}/{gateway}.sock")
            connection.sendall(f"GET /v1/{what} HTTP/1.0\r\n\r\n".encode())
            said = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        answer: Mapping[str, Any] = json.loads(said.split(b"\r\n\r\n", 1)[1])
        return answer

    def hangs(self) -> int:
        """Number of hangs so far: a gateway got no processor time, and frames bypassed it."""
        return sum(self.ask(it, "status")["hangs"] for it in self._gateways)

    def drops(self) -> dict[str, int]:
        """Packets dropped in the network so far, by reason."""
        said = _run(program(), "lab", "network", "--lab", self.name)
        return dict(json.loads(said)["drops"])

    def aggregate(self, way: str) -> Mapping[str, Any]:
        """The entry of the policy "all" in :meth:`status`, and the uptime of the gateway.

        The entry of a direction exists from the first packet on; the call waits for it.
        """
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            status = self.status()
            for it in status["aggregates"]:
                if it["policy"] == "all" and it["direction"] == way:
                    return {**it, "uptime_ms": status["uptime_ms"]}
            time.sleep(0.1)
        raise RuntimeError(f"nothing went {way}")

    def counters(self) -> dict[str, int]:
        """The `COUNTERS` of both hosts, added up."""
        total = dict.fromkeys(COUNTERS.values(), 0)
        for host in HOSTS:
            lines = self.shell(host, "cat /proc/net/snmp /proc/net/netstat").splitlines()
            for names, values in zip(lines[::2], lines[1::2], strict=True):
                if names.startswith(("Tcp:", "TcpExt:")):
                    for name, value in zip(names.split(), values.split(), strict=True):
                        if name in COUNTERS:
                            total[COUNTERS[name]] += int(value)
        return total


def _run(*words: str | Path) -> str:
    said = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    if said.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {said.stderr}")
    return said.stdout


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a process on a host prints; empty if it ended."""
    assert process.stdout is not None, "processes of labs are started with a pipe"
    return process.stdout.readline()


def side_by_side(
    call: Callable[[str], Mapping[str, float]],
    names: Sequence[str],
) -> dict[str, float]:
    """Calls ``call`` with each of ``names`` at the same time. Returns columns ``"NAME COLUMN"``.

    If a gateway hung and frames bypassed it, all calls are repeated, up to ``AGAIN`` times. Results
    are never a reason to repeat. ``call`` returns the number of hangs in the column ``"hangs"``.
    """
    found: dict[str, float] = {}
    for _ in range(1 + AGAIN):
        with ThreadPoolExecutor(len(names)) as pool:
            pairs = zip(names, pool.map(call, names), strict=True)
            found = {
                f"{name} {column}": value for name, it in pairs for column, value in it.items()
            }
        if not any(found[f"{name} hangs"] for name in names):
            break
    return found


def bulk(
    net: Scenario,
    *,
    way: str = "up",
    congestion: str = "cubic",
    setup: str = "",
    flows: int = FLOWS,
    offload: str = "wire",
    hosts: Mapping[str, str] = HOSTS,
    mtu: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, float]:
    """Runs endless transfers in a lab; returns numbers with the names of `_network.measured`.

    The hosts first run the shell command ``setup``. ``hosts`` has the addresses of the hosts.
    ``mtu`` names, by host, the ports that need an MTU of 9000.
    """
    warmup, duration = (float(text.split()[0]) for text in (net.warmup or "0 s", net.duration))
    sender, receiver = ("near", "far") if way == "up" else ("far", "near")
    net.tables["offload"] = offload
    with Lab(net) as lab:
        for place, ports in (mtu or {}).items():
            for port in ports:
                lab.shell(place, f"ip link set {port} mtu 9000")
        for host in hosts if setup else ():
            lab.shell(host, setup)
        before = lab.counters()
        lab.serve(sender, congestion)
        words = [hosts[sender], "--time", f"{duration + SLACK} s"]
        fetches = [lab.fetch(receiver, *words) for _ in range(flows)]
        time.sleep(warmup)
        first = lab.aggregate(way)
        time.sleep(duration - warmup)
        last = lab.aggregate(way)
        reports = [_reported(fetch) for fetch in fetches]
        counted = {name: n - before[name] for name, n in lab.counters().items()}
        hangs = lab.hangs()
    return {
        **_gained(reports, warmup, duration),
        **_waited(first, last, flows),
        **counted,
        "hangs": hangs,
    }


def _reported(fetch: subprocess.Popen[str]) -> list[dict[str, Any]]:
    said, _ = fetch.communicate(timeout=PATIENCE)
    lines = [json.loads(line) for line in said.splitlines()]
    if not lines or not lines[-1]["intact"]:
        raise RuntimeError(f"a transfer failed: {said}")
    return lines


def _gained(
    reports: Sequence[Sequence[Mapping[str, Any]]], begin: float, end: float
) -> dict[str, float]:
    def rate(lines: Sequence[Mapping[str, Any]]) -> float:
        counted = [line for line in lines if begin * 1e3 <= line["at_ms"] <= end * 1e3]
        (first, *_, last) = counted
        return float(8e3 * (last["bytes"] - first["bytes"]) / (last["at_ms"] - first["at_ms"]))

    rates = np.array([rate(lines) for lines in reports])
    return {"goodput": float(rates.sum()), "jain": jain(rates)}


def _waited(first: Mapping[str, Any], last: Mapping[str, Any], flows: int) -> dict[str, float]:
    """Mean queues by Little's law: rate of departures times mean delay."""
    took = (last["uptime_ms"] - first["uptime_ms"]) / 1e3
    sent, amount = (last["conforming"][it] - first["conforming"][it] for it in ("packets", "bytes"))
    data = (last["waited_ns"] - first["waited_ns"]) / 1e9 / sent * amount / took
    held = [(it["ack_control"] or {}).get("held_ns", 0) for it in (first, last)]
    acks = (held[1] - held[0]) / 1e9 / took
    return {
        "rate": amount * 8 / took,
        "data": data,
        "acks": acks,
        "memory": data + acks * RECORD + flows * KEPT,
        "peak": last["peak_waiting_bytes"],
        "dropped": sum(last["drops"].values()),
    }
