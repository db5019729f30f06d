"""Two trunks full of UDP packets share a link of 10 Mbit/s.

Source: trunking, section 7.1, figure 3 (experiment TT1).
Differs: in the paper, the 10 Mbit/s Ethernet carries 1200 KB/s. The bottleneck here carries exactly
these 9.6 Mbit/s, counted from the IP header on. The paper does not print the length of management
packets; they have 52 bytes here (TCP with timestamps), and its buffer size requires 49.6. They are
TCP as in the RFCs: NewReno without SACK. The receiver's window is 64 KiB of the virtual stream, as
in systems of that time. The router's "simple RED-like scheme" is not printed either. Our
`trunk-fifo` drops no management packet up to a mean queue of MP_Th / 2, all above MP_Th, and a
linearly growing fraction in between. Each host sends 9.6 Mbit/s.
"""

from typing import Any

import numpy as np

from tidegate import Result, Scenario, Table, plots
from tidegate.experiment import Experiment

RATE = 1_200_000
"""Rate of the bottleneck, bytes per second."""
BOTTLENECK_RATE = "9.6 Mbit/s"

ALPHA, MANAGEMENT = 8, 52
"""Alpha, the number of management packets per connection that may wait; and their length in
bytes."""

CONNECTIONS = 4
"""Number of connections of each trunk."""

KB = 1_000

VMSS = (3000, 1500)
GUARANTEES = {"a": (400, 200), "b": (200, 400)}
"""Guarantees of trunks 1 and 2 in KB/s, in experiments (a) and (b)."""

SECONDS = 400
"""Length in seconds of a run for figures 4 and 5. The first ``WARMUP`` seconds do not count."""
WARMUP = 20

BOTTLENECK = ("e", "f.wan")


def required_buffer(
    connections: int,
    vmss: list[int],
    guaranteed: float,
    management: int = MANAGEMENT,
    alpha: int = ALPHA,
) -> int:
    """Buffer in bytes by equation 2.

    Each element of ``vmss`` belongs to a trunk with this many connections.
    """
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
    """Trunks 1 and 2 from ``b`` and ``d`` to ``f``, for flows ``a`` to ``g`` and ``c`` to ``h``.

    Args:
        vmss: VMSS of both trunks, bytes.
        guarantee: guarantees of both trunks, KB/s.
        connections: management connections of each trunk.
        buffer: buffer of the router ``e``, as a multiple of equation 2's.
        duration: length of the run in seconds; flows stop 2 s earlier.
        sample: time between two samples.
        warmup: seconds that do not count.
        early: the router drops early, like RED, instead of by equation 1.
        spread: flows start at random in the first 0.2 s instead of 3 ms apart.
        alpha: alpha of equation 1.
        packet: length of user packets, bytes.
        begins: window in packets at which a management connection ends its first slow start.
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
    """The sending end of a trunk to ``f``, as in a policy file."""
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
    """The other end of a trunk, as in a policy file."""
    return {**trunk, "local": trunk["peer"], "peer": trunk["local"]}


def measured(run: Result) -> dict[str, float]:
    """For each trunk, the mean and least rate in KB/s, and the deviation divided by the mean."""
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
    """Adds the claims of experiment (a) or (b): shares in KB/s, steadiness, and guarantees."""

    def claim(ref: str, text: str, column: str, over: int = 1, **bounds: Any) -> None:
        def measured(runs: Table) -> np.ndarray:
            return runs[column] / over

        measured.__name__ = column
        figure.claim(ref, text, **bounds)(measured)

    claim("A003-1", "rate of both trunks over the link's", "link", paper=1, at_least=0.97)
    for n in (1, 2):
        claim("A003-1", f"trunk {n}, KB/s", f"mean_{n}", paper=paper[n - 1], within=0.05)
        text = f"trunk {n}: deviation of the rate of one second, over its mean"
        claim("A003-1", text, f"deviation_{n}", at_most=0.15)
        text = f"trunk {n}: least rate of any second, over the guarantee"
        claim("A003-2", text, f"least_{n}", GUARANTEES[case][n - 1], paper=1, at_least=0.98)


def draw(run: Result) -> Any:
    """Draws the rate of each trunk: a point for each second, and the running average."""
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
