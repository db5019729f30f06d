"""A trunk for each site protects small transfers from the greedy transfers of other sites.

Source: trunking, section 7.3, experiment TT3, figure 10; docs/ledger.md, A003-6 (web transfers).
Differs: `_web.py` describes the small transfers, and `_network.py` the trunks. The paper leaves
some parameters open. They were chosen once, so that two cases come near the paper's numbers: the
web alone (a), and the web beside ftp (b). The middle router is 35 ms from the clients. There are 22
clients, and each of two sites has 10 ftp sessions with windows of 64 KiB. Case (c) follows from
these choices. In all cases the middle router has the buffer of equation 2 for three trunks, 167 kB;
without trunks it is Drop-Tail.
"""

from typing import Any

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import MEDIAN_RATIO, Numbers

from ._network import ALPHA, BOTTLENECK_RATE, required_buffer, reverse, trunk
from ._web import BSD, measured, ratio, steps, transfers

fig10 = Experiment(__file__)

CASES = ["a", "b", "c"]
"""The web alone (a), the web beside ftp (b), and with a trunk for each site (c)."""

SECONDS = 600
SITES = (1, 2, 3)
"""Numbers of the sites; the first has the web server."""
CLIENTS, SESSIONS = 22, 10
CONNECTIONS, VMSS = 4, 1500


def sites(case: str) -> Scenario:
    """Three sites that send to a fourth through a router in the middle."""
    tcp = {**BSD, "ack_delay": "100 ms", "receive_window": "64 KiB"}
    net = Scenario(duration=f"{SECONDS} s", link_header="0 B", tcp=tcp)
    trunks = [trunk(f"t{n}", f"192.0.2.{n}", VMSS, 0, CONNECTIONS) for n in SITES]
    queue: dict[str, Any] = {"kind": "drop-tail"}
    if case == "c":
        queue = {"kind": "trunk-fifo", "threshold": len(trunks) * CONNECTIONS * ALPHA}
    room = required_buffer(CONNECTIONS, [VMSS] * len(trunks), 0)
    for n, it in zip(SITES, trunks, strict=True):
        user = {"name": "user", "action": "pass", "trunk": it["name"]}
        net.gateway(f"site{n}", {"trunk": [it], "policy": [user]} if case == "c" else {})
        net.host(f"host{n}", gateway=f"site{n}")
        net.link(f"site{n}.wan", "middle", rate=BOTTLENECK_RATE)
    net.router("middle")
    net.gateway("end", {"trunk": [reverse(it) for it in trunks]} if case == "c" else {})
    net.host("clients", gateway="end")
    queue["limit"] = f"{room} B"
    net.link("middle", "end.wan", rate=BOTTLENECK_RATE, delay="35 ms", queue=queue)
    transfers(net, "host1", "clients", CLIENTS)
    if case != "a":
        start = {"uniform": ["0 s", "1 s"]}
        for n in SITES[1:]:
            net.traffic(f"ftp{n}", "greedy", f"host{n}", "clients", flows=SESSIONS, start=start)
    return net


@fig10.run(case=CASES)
def measure(seed: int, case: str) -> dict[str, float]:
    return measured(sites(case).run(seed), SECONDS)


@fig10.claim("A003-6", "(a) throughput of the web alone, KB/s", paper=453, within=0.1)
def alone(runs: Table) -> Numbers:
    return runs.where(case="a")["rate"]


@fig10.claim("A003-6", "(b) throughput beside ftp, over that alone", paper=0.27, at_most=0.5)
def beside(runs: Table) -> Numbers:
    return ratio(runs, "rate", "b", "a")


@fig10.claim("A003-6", "throughput with trunks, over that alone", kind="context")
def below(runs: Table) -> Numbers:
    return ratio(runs, "rate", "c", "a")


@fig10.claim("A003-6", "throughput, trunks over none", paper=1.95, at_least=1.5)
def rate(runs: Table) -> Numbers:
    return ratio(runs, "rate", "c", "b")


@fig10.claim("A003-6", "mean delay, trunks over none", paper=0.52, at_most=0.7)
def mean(runs: Table) -> Numbers:
    return ratio(runs, "mean", "c", "b")


@fig10.claim(
    "A003-6",
    "deviation of delay, trunks over none",
    paper=0.24,
    at_most=0.5,
    statistic=MEDIAN_RATIO,
)
def deviation(runs: Table) -> Numbers:
    return ratio(runs, "deviation", "c", "b")


@fig10.claim(
    "A003-6",
    "longest delay, trunks over none",
    paper=0.25,
    at_most=0.5,
    statistic=MEDIAN_RATIO,
)
def most(runs: Table) -> Numbers:
    return ratio(runs, "most", "c", "b")


@fig10.claim("A003-6", "mean delay, web alone over trunks", paper=0.58, at_most=1)
def mean_alone(runs: Table) -> Numbers:
    return ratio(runs, "mean", "a", "c")


@fig10.claim(
    "A003-6",
    "deviation of delay, web alone over trunks",
    paper=0.30,
    at_most=1,
    statistic=MEDIAN_RATIO,
)
def deviation_alone(runs: Table) -> Numbers:
    return ratio(runs, "deviation", "a", "c")


@fig10.claim(
    "A003-6",
    "longest delay, web alone over trunks",
    paper=0.46,
    at_most=1,
    statistic=MEDIAN_RATIO,
)
def most_alone(runs: Table) -> Numbers:
    return ratio(runs, "most", "a", "c")


@fig10.figure
def figure(runs: Table) -> Any:
    figure, (axes,) = plots.panels(["time of a transfer of 8 KB"])
    names = ["(a) the web alone", "(b) beside ftp", "(c) with trunks"]
    steps(axes, [sites(case).run(1) for case in CASES], names, 5)
    return figure
