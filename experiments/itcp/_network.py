"""Subnets send files through one bottleneck. Each gateway carries its files over one connection.

Source: integrated TCP, section 4.
Differs: the paper prints neither packet size, headers, alpha, initial weight nor the order in which
aggregates start. Packets have 1,000 B of payload and 40 B of headers, and loads count the payload.
Aggregate connections start 1 s apart, before any file, with alpha = beta = 1 packet and weight 10.
The gateway is a host that ends local connections. In the mode `separate` it is a router.

Modes: `fixed` weights of 10; the adjusters `literal`, `measured` and `proportional` of
`_adjust.py`; `by load`, fixed weights in proportion to the loads; and `separate`, in which each
client has its own Vegas connections to the server. All modes of one seed have the same files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate import Result, Scenario

from ._adjust import EVERY, MOST, SAMPLES
from ._load import CLIENTS, PACKET, RATE, Class, ccdf, slope

HEADER = 40
"""Bytes of the IP and TCP headers of a packet."""

ADJUSTED = ("literal", "measured", "proportional")
"""Modes whose weights follow the load."""

PAYLOAD = PACKET / (PACKET + HEADER)
"""Fraction of the bottleneck's rate that carries payload."""

BUFFER = 10_000 * (PACKET + HEADER)
"""Buffer of the bottleneck, bytes."""

FIRST_FILE = 10
"""Start of the first files in seconds. The aggregates connect before this time."""

GIANT_START = 600
"""Start of the giant file in seconds."""

SAMPLE = 10.0
"""Seconds between two samples of queues and weights."""

PERIOD = 1.5 * SAMPLES * EVERY
"""Mean seconds between two decisions of an adjuster."""

SETTLED = 10 * PERIOD
"""Seconds of ten update periods. Claims of A002-4 (shares exceed the loads) count later samples."""

TCP: dict[str, Any] = {
    "profile": "ns2-2003", "mss": f"{PACKET} B",
    "receive_window": "16 MiB", "window_scale": 10,
}  # fmt: skip

VEGAS: dict[str, Any] = {"kind": "vegas-ns2", "alpha": 1, "beta": 1}


@dataclass(frozen=True)
class Setup:
    """Variants of the network; the defaults are the paper's."""

    seconds: int = 20_000
    samples: int = SAMPLES
    """C of the adjusters: number of samples in a round."""
    weight: float = MOST
    """Initial weight."""
    adjuster: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters of the adjusters."""
    control: Mapping[str, Any] = field(default_factory=lambda: VEGAS)
    """Congestion control of aggregate connections, without its weight."""
    queue: Mapping[str, Any] = field(
        default_factory=lambda: {"kind": "drop-tail", "limit": f"{BUFFER} B"}
    )
    """Queue of the bottleneck."""
    far: str = "10 ms"
    """Delay between a gateway and the router, each way."""
    clients: int = CLIENTS
    sample: float = SAMPLE
    giant: int = 0
    """Size in bytes of an additional file of class 2 at `GIANT_START`; 0 for none."""
    cross: Mapping[str, Any] | None = None
    """Congestion control of greedy connections beside the subnets; None if there are none."""
    crosses: int = 1
    """Number of greedy connections."""
    stop: Mapping[int, float] = field(default_factory=dict)
    """Seconds at which half of the clients of a subnet stop, by the number of the subnet."""
    paths: Sequence[tuple[float, int, str]] = ()
    """Changes of the path between gateway and router: time in seconds, number of the subnet, and
    the new delay of each direction."""


def loads(classes: Sequence[Class]) -> np.ndarray:
    """Offered loads, as fractions of the payload rate of the bottleneck."""
    return np.array([each.load / PAYLOAD for each in classes])


def network(classes: Sequence[Class], mode: str, setup: Setup) -> Scenario:
    """The subnets with these classes of files, a sending host ``server``, and the router ``r``."""
    net = Scenario(
        duration=f"{setup.seconds} s", sample=f"{round(setup.sample * 1e3)} ms", link_header="0 B",
        tcp={**TCP, "congestion": VEGAS},
    )  # fmt: skip
    net.router("r")
    net.host("server")
    back = {"queue": {"kind": "drop-tail", "limit": f"{BUFFER} B"}}
    net.link(
        "r", "server", rate=f"{RATE * 8:.0f} bit/s", delay="10 ms", queue=dict(setup.queue),
        back=back,
    )  # fmt: skip
    for number, each in enumerate(classes, 1):
        gateway, clients = f"gw{number}", [f"c{number}-{it}" for it in range(setup.clients)]
        if mode == "separate":
            net.router(gateway)
        else:
            net.host(gateway)
        net.link(gateway, "r", rate="100 Mbit/s", delay=setup.far)
        net.hosts(*clients)
        for client in clients:
            net.link(client, gateway, rate="100 Mbit/s", delay="1 ms")
        groups = _files(net, number, each, clients, mode, setup)
        if mode != "separate":
            _aggregate(net, number, groups, classes, mode, setup)
    for at, number, delay in setup.paths:
        for ends in ((f"gw{number}", "r"), ("r", f"gw{number}")):
            net.change(f"{at:.0f} s", *ends, delay=delay)
    if setup.cross:
        net.host("cross")
        net.link("cross", "r", rate="100 Mbit/s", delay=setup.far)
        net.traffic("cross", "greedy", "cross", "server", flows=setup.crosses,
                    start={"uniform": [f"{FIRST_FILE} s", f"{2 * FIRST_FILE} s"]},
                    tcp={"congestion": dict(setup.cross)})  # fmt: skip
    return net


def _files(
    net: Scenario, number: int, own: Class, clients: list[str], mode: str, setup: Setup
) -> list[str]:
    """Adds the files of one subnet, and returns the names of their groups."""
    to = "server" if mode == "separate" else f"gw{number}"
    fields: dict[str, Any] = {
        "every": f"{round(setup.clients / own.arrivals * 1e6)} us", "start": f"{FIRST_FILE} s",
        "size": {"pareto": {"mean": f"{own.mean:.0f} B", "shape": own.index}},
    }  # fmt: skip
    half = len(clients) // 2 if number in setup.stop else len(clients)
    net.traffic(f"files{number}", "arrivals", clients[:half], to, **fields)
    groups = [f"files{number}"]
    if number in setup.stop:
        stop = f"{setup.stop[number]:.0f} s"
        net.traffic(f"less{number}", "arrivals", clients[half:], to, stop=stop, **fields)
        groups.append(f"less{number}")
    if setup.giant and number == 2:
        net.traffic("giant", "file", clients[0], to, size=f"{setup.giant} B",
                    start=f"{GIANT_START} s")  # fmt: skip
        groups.append("giant")
    return groups


def _aggregate(
    net: Scenario, number: int, groups: list[str], classes: Sequence[Class], mode: str, setup: Setup
) -> None:
    """Adds the aggregate connection of one subnet, and its probe."""
    largest = max(each.load for each in classes)
    theta = MOST * classes[number - 1].load / largest if mode == "by load" else setup.weight
    more: dict[str, Any] = {}
    if mode in ADJUSTED:
        more["weight"] = {
            "kind": mode, "samples": setup.samples, "weight": theta, **setup.adjuster
        }  # fmt: skip
    net.traffic(
        f"long{number}", "aggregate", f"gw{number}", "server", of=groups,
        start=f"{number - 1} s",
        tcp={"congestion": {**setup.control, "theta": round(theta, 3)}}, **more,
    )  # fmt: skip
    net.probe("aggregate", traffic=f"long{number}")


def sojourns(run: Result, number: int) -> np.ndarray:
    """Transfer times of the complete files of a class, in seconds."""
    return run["transfers"].where(group=f"files{number}")["took_seconds"].astype(float)


def measured(run: Result, classes: Sequence[Class], mode: str) -> dict[str, float]:
    """Sojourns of the files of each class; with aggregates also shares, weights and queues."""
    row: dict[str, float] = {}
    for number, _ in enumerate(classes, 1):
        took = sojourns(run, number)
        row |= {
            f"mean_{number}": float(took.mean()),
            f"median_{number}": float(np.median(took)),
            f"p99_{number}": float(np.quantile(took, 0.99)),
            f"slope_{number}": slope(took),
            f"files_{number}": float(len(took)),
        }
    if mode != "separate":
        row |= _shares(run, classes)
    return row


def _shares(run: Result, classes: Sequence[Class]) -> dict[str, float]:
    """Mean shares by weight after `SETTLED`, and measured shares while all aggregates are busy."""
    row: dict[str, float] = {}
    series = [run[f"aggregate long{number}"] for number, _ in enumerate(classes, 1)]
    settled = series[0]["time_seconds"] > SETTLED
    first = int(np.argmax(settled)) if settled.any() else 0
    together = np.array(
        [float(it["together_sent_bytes"][-1] - it["together_sent_bytes"][first]) for it in series]
    )
    above = np.ones(len(settled), dtype=bool)
    for number, (own, load) in enumerate(zip(series, loads(classes), strict=True), 1):
        share = own["weight_share"].astype(float)
        above &= share > load
        row |= {
            f"share_{number}": float(share[first:].mean()),
            f"last_share_{number}": float(share[len(share) // 2 :].mean()),
            f"phi_{number}": float(together[number - 1] / max(together.sum(), 1)),
            f"above_{number}": float((share[first:] > load).mean()),
            f"weight_{number}": float(own["weight"][first:].mean()),
            f"queue_{number}": float(own["queue_bytes"].max()),
            f"busy_{number}": float(own["busy_seconds"][-1] / own["time_seconds"][-1]),
            f"outside_{number}": float(((own["weight"] < 1) | (own["weight"] > MOST)).sum()),
        }
    changes = np.array([np.diff(it["weight"].astype(float)) != 0 for it in series])
    row["together"] = float(changes.all(axis=0).sum() / max(changes.any(axis=0).sum(), 1))
    row["all_above"] = float(above[first:].mean())
    row["until"] = _until(series[0]["time_seconds"], above)
    return row


def _until(time: np.ndarray, above: np.ndarray) -> float:
    """Seconds until all shares exceed their loads for the first time, or the length of the run."""
    return float(time[np.argmax(above)] if above.any() else time[-1])


TAIL_X = np.geomspace(0.05, 200, 25)
"""Sojourn times, in seconds, at which runs store the tail of their distribution for the figures."""

MOMENTS = 40
"""Number of times at which runs store shares for the figures."""


def curves(run: Result, classes: Sequence[Class], mode: str) -> dict[str, float]:
    """Points of the figures: tails of sojourns, and shares by weight over time."""
    row: dict[str, float] = {}
    for number, _ in enumerate(classes, 1):
        tail = ccdf(sojourns(run, number), TAIL_X)
        row |= {f"tail_{number}_{at}": float(it) for at, it in enumerate(tail)}
        if mode != "separate":
            share = run[f"aggregate long{number}"]["weight_share"].astype(float)
            at = np.linspace(0, len(share) - 1, MOMENTS).astype(int)
            row |= {f"moment_{number}_{n}": float(it) for n, it in enumerate(share[at])}
    return row


def curve(rows: Any, name: str, number: int, count: int) -> np.ndarray:
    """Points of a curve of one class, as a mean over the seeds."""
    return np.array([float(np.mean(rows[f"{name}_{number}_{at}"])) for at in range(count)])
