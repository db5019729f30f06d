"""A trunk with epochs beside cross traffic: TCP that fills the queue, web requests, UDP.

Source: Bundler (EuroSys 2021, doi 10.1145/3447786.3456260), its evaluation beside cross traffic:
beside persistent elastic flows a bundle gets 12 to 18 % less than its flows would without it.
Differs: the path of `_site.py`, with a queue of three bandwidth-delay products or of 1.5. Four
downloads go from one site to the other. From 5 to 45 of 60 seconds, one kind of other traffic runs
beside them. TCP traffic is 1, 4 or 10 CUBIC downloads, or 4 Reno downloads, all with the access
links of sites. Web requests have at most 100 kB and offer a quarter of the rate. UDP sends at half
of the rate. A share is the rate of the four downloads in the last 25 of these seconds, over their
rate in the same run without a trunk. The bounds were fixed before anything was measured. The lower
bound is 0.7: the 0.82 of the source minus an allowance for another sawtooth of TCP. The upper bound
is 1/0.7, so that the trunk does not starve the cross traffic.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._site import BUFFER, BUFFERS, RATE, policy

beside_tcp = Experiment(__file__)

DOWNLOADS = 4
"""Number of downloads from site to site."""

FROM, UNTIL, END = 5, 45, 60
"""Seconds at which the cross traffic starts and stops, and at which the run ends."""

FULL = {"full": 1.0, "half": 0.5}
"""Buffer of the bottleneck, as a fraction of the buffer in `_site.py`."""

FILL: dict[str, dict[str, Any]] = {
    f"{n} {congestion}": {"flows": n, "tcp": {"congestion": congestion}}
    for n, congestion in ((1, "cubic"), (4, "cubic"), (10, "cubic"), (4, "reno"))
}
"""TCP connections of the cross traffic, which fill the queue."""

SHORT = "100 kB"
"""Size of the longest web request, small enough that no request lasts long."""


def network(others: str, room: str, control: str) -> Scenario:
    """Two sites, two other hosts, and the traffic of all four."""
    net = Scenario(duration=f"{END} s", sample="100 ms", tcp={"profile": "linux"})
    ends = [("192.0.2.1", "192.0.2.2"), ("192.0.2.2", "192.0.2.1")]
    for gateway, (local, peer) in zip(("left", "right"), ends, strict=True):
        net.gateway(gateway, policy(control, local, peer) | {"gateway": BUFFERS})
    net.host("server", gateway="left")
    net.host("client", gateway="right")
    net.hosts("other", "sink")
    net.router("path", "exit")
    for edge, router in (("left.wan", "path"), ("other", "path"), ("right.wan", "exit")):
        net.link(edge, router, rate="1 Gbit/s")
    net.link("sink", "exit", rate="1 Gbit/s")
    queue = {"kind": "drop-tail", "limit": f"{round(BUFFER * FULL[room])} B"}
    net.link("path", "exit", rate=f"{RATE} bit/s", delay="25 ms", queue=queue)
    start = {"uniform": ["0 s", "1 s"]}
    net.traffic("site", "greedy", "server", "client", flows=DOWNLOADS, start=start)
    cross(net, others)
    net.probe("queue", "path", "exit")
    return net


def cross(net: Scenario, others: str) -> None:
    """Adds the cross traffic."""
    span: dict[str, Any] = {
        "start": {"uniform": [f"{FROM} s", f"{FROM + 1} s"]},
        "stop": f"{UNTIL} s",
    }
    if others in FILL:
        net.traffic("others", "greedy", "other", "sink", **FILL[others], **span)
    elif others == "web":
        size, every = {"uniform": ["1 B", SHORT]}, f"{round(8 * 50_000 / (RATE / 4) * 1e9)} ns"
        net.traffic("others", "arrivals", "other", "sink", size=size, every=every, **span)
    else:
        net.traffic("others", "cbr", "other", "sink", rate=f"{RATE // 2} bit/s", **span)


@beside_tcp.run(
    case=[f"{others}, {room}" for others in FILL for room in FULL] + ["web, full", "udp, full"],
    control=["none", "epochs"],
)
def measure(seed: int, case: str, control: str) -> dict[str, float]:
    others, room = case.split(", ")
    run = network(others, room, control).run(seed)
    rates = run.windowed()
    time, site, rest = (rates[name] for name in ("time_seconds", "site_bps", "others_bps"))
    beside = (time > UNTIL - 25) & (time <= UNTIL)
    queue = run["queue of path > exit"]
    delay = 8e3 * queue["bytes"] / RATE
    met = (queue["time_seconds"] > FROM + 2) & (queue["time_seconds"] <= UNTIL)
    after = queue["time_seconds"] > UNTIL + 5
    return {
        "site": site[beside].mean() / RATE,
        "both": (site + rest)[beside].mean() / RATE,
        "delay": delay[met].mean(),
        "delay_after": delay[after].mean(),
        "site_after": site[time > UNTIL + 5].mean() / RATE,
    }


def share(runs: Table, cases: Sequence[str]) -> np.ndarray:
    """Rate of the site divided by its rate without a trunk, as a mean over the cases."""
    parts = []
    for case in cases:
        cell = runs.where(case=case)
        with_trunk, without = (cell.where(control=it)["site"] for it in ("epochs", "none"))
        parts.append(with_trunk / without)
    return np.mean(parts, axis=0)


def fill(room: str) -> list[str]:
    return [f"{others}, {room}" for others in FILL]


SLOW = (
    "after the cross traffic has filled the queue, the trunk restarts with half of its rate, and "
    "grows as slowly as CUBIC until the end of the run"
)

FIRST = (
    "without a trunk, downloads that start before Reno keep three quarters of the path. With a "
    "trunk they restart with half. Reno grows slowly, so a check can find the queue empty. The "
    "trunk then keeps it empty until Reno has filled it again"
)

WHY = {"1 cubic": SLOW, "4 reno": FIRST}
"""Known reasons for the shares that are too small."""


def claim_share(others: str) -> None:
    """Claims the share beside one kind of cross traffic, for both sizes of the buffer."""

    def fair(runs: Table) -> Numbers:
        return share(runs, [f"{others}, {room}" for room in FULL])

    fair.__name__ = "beside_" + others.replace(" ", "_")
    text = f"beside {others}: rate of the bundle, relative to a run without a trunk"
    bounds: dict[str, Any] = {"at_least": 0.7, "at_most": 1 / 0.7}
    beside_tcp.claim("Bundler", text, paper=0.82, why=WHY.get(others), **bounds)(fair)


def with_epochs(runs: Table, case: str, column: str) -> np.ndarray:
    return runs.where(case=case, control="epochs")[column]


for each in FILL:
    claim_share(each)


@beside_tcp.claim(
    "beyond", "from 5 s after the end of TCP cross traffic: mean delay of the queue, ms", at_most=10
)
def returns(runs: Table) -> Numbers:
    cases = [case for room in FULL for case in fill(room)]
    return np.max([with_epochs(runs, case, "delay_after") for case in cases], axis=0)


@beside_tcp.claim(
    "beyond", "from 5 s after the end of TCP cross traffic: bundle's part of the path", at_least=0.9
)
def returns_rate(runs: Table) -> Numbers:
    cases = [case for room in FULL for case in fill(room)]
    return np.min([with_epochs(runs, case, "site_after") for case in cases], axis=0)


@beside_tcp.claim("beyond", "beside short requests: mean delay of the queue, ms", at_most=15)
def web_delay(runs: Table) -> Numbers:
    return with_epochs(runs, "web, full", "delay")


@beside_tcp.claim(
    "beyond",
    "beside short requests: rate of the bundle, relative to one without a trunk",
    at_least=0.7,
)
def web_rate(runs: Table) -> Numbers:
    return share(runs, ["web, full"])


@beside_tcp.claim("beyond", "beside UDP at half the rate: mean delay of the queue, ms", at_most=10)
def udp_delay(runs: Table) -> Numbers:
    return with_epochs(runs, "udp, full", "delay")


@beside_tcp.claim(
    "beyond", "beside UDP at half the rate: part of the path that both use together", at_least=0.9
)
def udp_rate(runs: Table) -> Numbers:
    return with_epochs(runs, "udp, full", "both")


@beside_tcp.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(list(FULL))
    for axes, room in zip(panels, FULL, strict=True):
        for n, control in enumerate(("none", "epochs")):
            cells = [runs.where(case=case, control=control)["site"] for case in fill(room)]
            means = [cell.mean() for cell in cells]
            axes.bar(np.arange(len(FILL)) + n / 3, means, width=0.3, label=control)
        axes.set_xticks(np.arange(len(FILL)) + 1 / 6, FILL)
        axes.set_ylabel("rate of the bundle over the path's rate")
        axes.legend()
    return figure
