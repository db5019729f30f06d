"""Two trunks that share a link of 10 Mbit/s, each full of UDP packets.

Source: trunking, section 7.1, figure 3; ledger, TT1.
Differs: the paper calls its 10 Mbit/s Ethernet 1200 KB/s; the bottleneck carries exactly these
9.6 Mbit/s, counted from the IP header on. Management packets take 52 bytes (TCP with timestamps),
a length the paper does not print: its buffer needs 49.6. They are TCP as the RFCs have it, NewReno
without SACK, whose receiver lets 64 KiB of the virtual stream be out, as systems of those years
did. The simple RED-like scheme of its router is not printed either: `trunk-fifo` drops none up to
half of MP_Th waiting on average, all at MP_Th, and a part that grows in proportion in between.
Hosts send 9.6 Mbit/s each.
"""

from typing import Any

import numpy as np

from tidegate import Result, Scenario, Table, plots
from tidegate.experiment import Experiment

RATE = 1_200_000
"""Rate of the bottleneck, bytes per second."""
BOTTLENECK_RATE = "9.6 Mbit/s"

ALPHA, MANAGEMENT = 8, 52
"""Management packets per connection that may wait, and the length of one."""

CONNECTIONS = 4
"""Number of connections of each trunk."""

KB = 1_000

VMSS = (3000, 1500)
GUARANTEES = {"a": (400, 200), "b": (200, 400)}
"""Guarantees of trunks 1 and 2 in KB/s, in experiments (a) and (b)."""

SECONDS = 400
"""Length of a run of figures 4 and 5 in seconds; the first ``WARMUP`` seconds do not count."""
WARMUP = 20

BOTTLENECK = ("e", "f.wan")


def required_buffer(
    connections: int,
    vmss: list[int],
    guaranteed: float,
    management: int = MANAGEMENT,
    alpha: int = ALPHA,
) -> int:
    """Buffer in bytes by equation 2, for one trunk with these ``connections`` for each VMSS."""
    each = [alpha * management + (alpha + 1) * size for size in vmss]
    return round(connections * sum(each) / (1 - guaranteed))


def network(
    *,
    vmss: tuple[int, int],
    guarantee: tuple[int, int],
    connections: int = 4,
    buffer: float = 1.0,
    duration: int = SECONDS,
    sample: str = "1 s",
    warmup: int = WARMUP,
    early: bool = True,
    spread: bool = False,
    alpha: int = ALPHA,
    packet: int = 1500,
    begins: int | None = None,
) -> Scenario:
    """Trunks 1 and 2 from ``b`` and ``d`` to ``f``, with VMSS in bytes and guarantees in KB/s.

    Flow 1 goes from ``a`` to ``g``, and flow 2 from ``c`` to ``h``. The router ``e`` has ``buffer``
    times the buffer of equation 2, and with ``early`` it drops like RED. Flows stop 2 s before the
    run ends. They start 3 ms apart; with ``spread`` each starts at a random time in the first
    0.2 s. ``alpha`` is that of equation 1, and ``packet`` the length of user packets in bytes. The
    first slow start of a management connection ends at ``begins`` packets, by default at 8.
    """
    net = Scenario(duration=f"{duration} s", warmup=f"{warmup} s", sample=sample, link_header="0 B")
    part = KB * sum(guarantee) / RATE
    needed = required_buffer(connections, list(vmss), part, alpha=alpha)
    queue = {
        "kind": "trunk-fifo",
        "limit": f"{round(buffer * needed)} B",
        "threshold": 2 * connections * alpha,
        "early": early,
    }
    trunks = []
    for n, (size, guaranteed) in enumerate(zip(vmss, guarantee, strict=True)):
        it = trunk(f"t{n + 1}", f"192.0.2.{n + 1}", size, guaranteed, connections)
        it["tcp"] |= {} if begins is None else {"initial_threshold": begins}
        trunks.append(it)
    for gateway, ends in (("b", trunks[:1]), ("d", trunks[1:])):
        user = {"name": "user", "action": "pass", "trunk": ends[0]["name"]}
        net.gateway(gateway, {"trunk": ends, "policy": [user]})
    net.gateway("f", {"trunk": [reverse(it) for it in trunks]})
    net.router("e")
    for host, gateway in (("a", "b"), ("c", "d"), ("g", "f"), ("h", "f")):
        net.host(host, gateway=gateway)
    net.link("b.wan", "e", rate=BOTTLENECK_RATE)
    net.link("d.wan", "e", rate=BOTTLENECK_RATE)
    net.link("e", "f.wan", rate=BOTTLENECK_RATE, delay="10 ms", queue=queue)
    for n, (sender, receiver) in enumerate((("a", "g"), ("c", "h"))):
        udp: dict[str, Any] = {"rate": BOTTLENECK_RATE, "packet": f"{packet} B"}
        udp["stop"] = f"{duration - 2} s"
        start = {"uniform": ["0 s", "0.2 s"]} if spread else f"{3 * n} ms"
        net.traffic(f"flow{n + 1}", "cbr", sender, receiver, start=start, **udp)
    net.probe("queue", *BOTTLENECK)
    return net


def trunk(name: str, local: str, vmss: int, guarantee: int, connections: int) -> dict[str, Any]:
    """The end of a trunk to ``f``."""
    return {
        "name": name,
        "local": local,
        "peer": "192.0.2.9",
        "connections": connections,
        "vmss": f"{vmss} B",
        "guarantee": f"{8 * guarantee} kbit/s",
        "queue": {"kind": "drop-tail", "limit": "150 kB"},
        "tcp": {"recovery": "new-reno", "receive_window": "64 KiB"},
    }


def reverse(trunk: dict[str, Any]) -> dict[str, Any]:
    """The other end of a trunk."""
    return {**trunk, "local": trunk["peer"], "peer": trunk["local"]}


def measured(run: Result) -> dict[str, float]:
    """For each trunk the mean and least rate in KB/s, and the deviation as a part of the mean."""
    row: dict[str, float] = {}
    for n, rate in enumerate(rates(run), 1):
        row |= {f"mean_{n}": rate.mean(), f"least_{n}": rate.min()}
        row[f"deviation_{n}"] = rate.std() / rate.mean()
    row["link"] = (row["mean_1"] + row["mean_2"]) * KB / RATE
    return row


def rates(run: Result) -> list[np.ndarray]:
    """Rate of each flow in each second that counts, in KB/s."""
    table = run.windowed()
    time = table["time_seconds"]
    counted = (time > WARMUP) & (time <= SECONDS - 2)
    return [table[f"flow{n}_bps"][counted] / 8 / KB for n in (1, 2)]


def user_loss(run: Result) -> int:
    """User packets that were lost between the gateways, in a run without a warm-up."""
    flows, drops = run.flows, run.drops
    before = [drops.where(place=gateway)["dropped_packets"].sum() for gateway in ("b", "d")]
    return int(flows["sent_packets"].sum() - flows["received_packets"].sum() - sum(before))


def claim_shares(figure: Experiment, case: str, paper: tuple[int, int]) -> None:
    """The claims of experiment (a) or (b): shares in KB/s, steadiness, and guarantees."""

    def claim(ref: str, text: str, column: str, over: int = 1, **bounds: Any) -> None:
        def measured(runs: Table) -> np.ndarray:
            return runs[column] / over

        measured.__name__ = column
        figure.claim(ref, text, **bounds)(measured)

    claim("A003-1", "both, of the link", "link", paper=1, at_least=0.97)
    for n in (1, 2):
        claim("A003-1", f"trunk {n}, KB/s", f"mean_{n}", paper=paper[n - 1], within=0.05)
        text = f"deviation of one second, of the mean: trunk {n}"
        claim("A003-1", text, f"deviation_{n}", at_most=0.15)
        text = f"least of any second, of the guarantee: trunk {n}"
        claim("A003-2", text, f"least_{n}", GUARANTEES[case][n - 1], paper=1, at_least=0.98)


def draw(run: Result) -> Any:
    """The rate of each trunk over time, a point for each second, and its running average."""
    figure, (axes,) = plots.panels(["each second, and the running average"])
    for n, rate in enumerate(rates(run), 1):
        time = WARMUP + 1 + np.arange(len(rate))
        smooth = np.empty_like(rate)
        smooth[0] = rate[0]
        for at in range(1, len(rate)):
            smooth[at] = 0.95 * smooth[at - 1] + 0.05 * rate[at]
        (points,) = axes.plot(time, rate, ".", markersize=2)
        axes.plot(time, smooth, color=points.get_color(), label=f"trunk {n}")
    axes.set_xlabel("s")
    axes.set_ylabel("KB/s")
    axes.set_ylim(0)
    axes.legend()
    return figure
