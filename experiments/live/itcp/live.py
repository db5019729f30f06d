"""Two aggregates between real hosts: sojourns of files with fixed and with adjusted weights.

Source: integrated TCP, section 4.2, figures 3 to 5; docs/ledger.md, A002-2 (sojourns under E1) and
A002-4 (shares above loads); the parameters are ours.
Differs: `_live.py` describes the hosts, and `_files.py` their files. The adjusters have P = 50 ms
and C = 60. There are three seeds with files for 180 s. For a seed, each mode has a lab of its own.
The labs run in the same seconds with the same files. After the first 30 s there are five intervals
of 30 s. Modes are compared interval by interval, so a claim has 15 pairs for the sign test, and its
column of seeds shows the number of pairs. A file that is incomplete 10 s after the last one began
counts with its time so far. The simulator runs the same parameters with files of its own, the
control `weighted-vegas` and packets with QUIC's payload.
"""

import json
from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import MEDIAN_RATIO, Numbers

from ...itcp._load import E1
from ...itcp._modes import key
from ..postack._live import PATIENCE, side_by_side
from . import _files
from ._live import (
    ADJUSTER,
    BUFFER,
    CLASSES,
    DELAY,
    DRAIN,
    RATE,
    Sites,
    missing,
    sites,
    undisturbed,
    watch,
)

live = Experiment(__file__, seeds=3, needs=missing)

MODES = ("fixed", "measured", "proportional")
SECONDS, SETTLED, INTERVAL = 180, 30, 30
"""Seconds: length of a run, of its uncounted beginning, and of an interval."""

STARTS = range(SETTLED, SECONDS, INTERVAL)

PAYLOAD, FRAME = 1_412, 1_494
"""Bytes of a full QUIC packet: payload of users, and length on the link with QUIC, UDP, IP and
Ethernet headers."""

LOADS = np.array([each.load for each in E1]) * FRAME / PAYLOAD
"""Offered loads of E1, as fractions of the payload rate of the bottleneck."""

QUANTILES = {"median": 0.5, "p99": 0.99}


@live.run()
def measure(seed: int) -> dict[str, float]:
    with undisturbed():
        found = side_by_side(lambda mode: one_mode(mode, seed), list(MODES))
    for mode in MODES:
        found |= {f"simulated {mode} {name}": it for name, it in simulated(mode, seed).items()}
    return found


def one_mode(mode: str, seed: int, seconds: int = SECONDS) -> dict[str, float]:
    """Runs both aggregates with weights of one law. Returns its numbers."""
    with sites({"kind": mode}) as both:
        running = both.files(seconds, seed)
        seen = watch(both, seconds)
        said = [json.loads(it.communicate(timeout=DRAIN + PATIENCE)[0]) for it in running]
        row = {"hangs": float(both.lab.hangs()), **_refused(both)}
    row |= _shares(seen)
    for number, taken, (count, failed) in zip(CLASSES, said[:2], said[2:], strict=True):
        start, took, wrong = _sojourns(number, seconds, seed, taken)
        row |= _quantiles(number, start, took)
        row |= {
            f"files_{number}": count,
            f"late_{number}": float(count - len(taken)),
            f"wrong_{number}": float(failed + wrong),
        }
    return row


def _refused(both: Sites) -> dict[str, float]:
    """Number of connections that gateways have reset, lost or refused."""
    said = [both.status(f"{name}{number}") for number in CLASSES for name in ("site", "far")]
    of_users = [it["connections"] for it in said]
    lost = sum(it["reset"] + it["lost_after_close"] for it in of_users)
    named = sum(sum(it[kind].values()) for it in of_users for kind in ("refused", "failed"))
    return {"refused": float(lost + named)}


def _sojourns(
    number: int, seconds: int, seed: int, taken: list[list[float]]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Start and sojourn of each file in the order of starts, and the number of wrong sizes."""
    due = np.array(list(_files.files(number, seconds, str(seed))))
    start = due[:, 0]
    took, wrong = seconds + DRAIN - start, 0
    for each, size, sojourn in taken:
        took[int(each)] = sojourn
        wrong += size != due[int(each), 1]
    return start, took, wrong


def _quantiles(number: int, start: np.ndarray, took: np.ndarray) -> dict[str, float]:
    """Quantiles of the sojourns: over all measured files, and by interval."""
    row = {}
    for name, part in QUANTILES.items():
        row[f"{name}_{number}"] = float(np.quantile(took[start >= SETTLED], part))
        for at in STARTS:
            own = took[(start >= at) & (start < at + INTERVAL)]
            row[f"{name}_{number}_{at}"] = float(np.quantile(own, part)) if len(own) else np.nan
    return row


def _shares(seen: dict[str, np.ndarray]) -> dict[str, float]:
    """Shares by weight, and shares of packets while bytes are queued at both gateways."""
    settled = seen["time"] >= SETTLED
    weight = seen["weight"][settled]
    share = weight / weight.sum(axis=1, keepdims=True)
    busy = np.all(seen["waits"], axis=1)
    together = np.diff(seen["sent"], axis=0)[busy[1:] & busy[:-1]].sum(axis=0)
    row = {"all_above": float(np.all(share > LOADS, axis=1).mean())}
    for number in CLASSES:
        row[f"weight_{number}"] = float(weight[:, number - 1].mean())
        row[f"share_{number}"] = float(share[:, number - 1].mean())
        row[f"phi_{number}"] = float(together[number - 1] / max(together.sum(), 1))
    return row


def network(mode: str, seconds: int = SECONDS) -> Scenario:
    """The same aggregates in the simulator."""
    net = Scenario(
        duration=f"{seconds + DRAIN} s", sample="1 s", link_header="14 B",
        tcp={"profile": "linux", "mss": f"{PAYLOAD} B", "receive_window": "16 MiB",
             "window_scale": 10},
    )  # fmt: skip
    net.router("r")
    net.host("server")
    net.link("r", "server", rate=f"{RATE} bit/s", delay=DELAY,
             queue={"kind": "drop-tail", "limit": f"{BUFFER} B"})  # fmt: skip
    for number, each in zip(CLASSES, E1, strict=True):
        site, client, files = f"site{number}", f"client{number}", f"files{number}"
        net.hosts(site, client)
        net.link(site, "r", rate="1 Gbit/s", delay="10 us")
        net.link(client, site, rate="1 Gbit/s", delay="10 us")
        net.traffic(
            files, "arrivals", client, site, start="10 s", stop=f"{seconds} s",
            every=f"{round(_files.INTERVAL * 1e6)} us",
            size={"pareto": {"mean": f"{each.mean / _files.PART:.0f} B", "shape": each.index}},
        )  # fmt: skip
        net.traffic(
            f"long{number}", "aggregate", site, "server", of=[files], start=f"{number - 1} s",
            tcp={"congestion": {"kind": "weighted-vegas", "theta": ADJUSTER["weight"]}},
            weight={**ADJUSTER, "kind": mode},
        )  # fmt: skip
        net.probe("aggregate", traffic=f"long{number}")
    return net


def simulated(mode: str, seed: int, seconds: int = SECONDS) -> dict[str, float]:
    """Measures the aggregates in the simulator."""
    run, row = network(mode, seconds).run(seed), {}
    series = [run[f"aggregate long{number}"] for number in CLASSES]
    settled = series[0]["time_seconds"] >= SETTLED
    share = np.array([it["weight_share"][settled] for it in series], dtype=float).T
    row["all_above"] = float(np.all(share > LOADS, axis=1).mean())
    for number in CLASSES:
        files = run["transfers"].where(group=f"files{number}")
        took = files["took_seconds"].astype(float)[files["began_seconds"] >= SETTLED]
        row |= {f"{name}_{number}": float(np.quantile(took, it)) for name, it in QUANTILES.items()}
        row[f"weight_{number}"] = float(series[number - 1]["weight"][settled].mean())
    return row


def claim(ref: str, mode: str, column: str, text: str, **bounds: Any) -> None:
    """Adds a claim about a number of a mode, with one number for each seed."""

    def number(runs: Table) -> Numbers:
        values: np.ndarray = runs[f"{mode} {column}"]
        return values

    number.__name__ = f"{key(mode)}_{column}"
    live.claim(ref, f"live, {mode}: {text}", **bounds)(number)


def claim_over(mode: str, column: str, text: str, **bounds: Any) -> None:
    """Adds a claim about a mode relative to fixed weights, with a number for each interval."""

    def ratio(runs: Table) -> Numbers:
        pairs = [runs[f"{mode} {column}_{at}"] / runs[f"fixed {column}_{at}"] for at in STARTS]
        return np.concatenate(pairs)

    ratio.__name__ = f"{column}_{mode}_over_fixed"
    text = f"live, {mode} over fixed: {text}, intervals of 30 s"
    live.claim("A002-2", text, statistic=MEDIAN_RATIO, **bounds)(ratio)


LATE, MIDDLE = "99 % quantile of sojourns of class", "median sojourn of class"
FEW = "15 pairs cannot decide: the interval is below 1, but not all of it is below 0.5"
GIVEN_AWAY = (
    "weight 2 falls until its share is below its load, because the service rate while busy "
    "includes the share of an idle aggregate. Weight 1 does not fall: its service while busy was "
    "9.9 Mbit/s in a run of 45 s, hardly more than its load. In the simulator, without the pacing "
    "of quinn, it was 12.3 Mbit/s"
)
ADJUSTED: dict[str, tuple[dict[str, Any], str | None]] = {
    "measured": ({"paper": "significant improvement"}, GIVEN_AWAY),
    "proportional": ({}, None),
}
for mode, (more, why) in ADJUSTED.items():
    claim_over(mode, "p99_1", f"{LATE} 1", at_most=0.5, why=FEW, **more)
    claim_over(mode, "median_1", f"{MIDDLE} 1", at_most=1)
    claim_over(mode, "median_2", f"{MIDDLE} 2", at_most=1.5)
    claim("A002-4", mode, "all_above", "part of the time with phi_i > rho_i for both",
          at_least=0.9, why=why)  # fmt: skip


@live.claim("A002-2", "live: files lost, cut or refused, all modes", at_most=0)
def intact(runs: Table) -> Numbers:
    columns = [f"{mode} {it}" for mode in MODES for it in ("wrong_1", "wrong_2", "refused")]
    return np.sum([runs[it] for it in columns], axis=0)


for mode in MODES:
    for where in ("", "simulated "):
        for name, text in (("median", MIDDLE), ("p99", LATE)):
            for number in CLASSES:
                claim("A002-2", f"{where}{mode}", f"{name}_{number}", f"{text} {number} (s)",
                      kind="context")  # fmt: skip
        for number in CLASSES:
            claim("A002-4", f"{where}{mode}", f"weight_{number}", f"mean weight {number}",
                  kind="context")  # fmt: skip
        if where or mode == "fixed":
            claim("A002-4", f"{where}{mode}", "all_above",
                  "part of the time with phi_i > rho_i for both", kind="context")  # fmt: skip
    claim("A002-4", mode, "phi_1", "share of packets of class 1 while both gateways have a queue",
          kind="context")  # fmt: skip


@live.figure
def figure(runs: Table) -> Any:
    titles = [f"{name} sojourn, class {number}" for name in QUANTILES for number in CLASSES]
    figure, panels = plots.panels(titles, columns=2)
    columns = [f"{name}_{number}" for name in QUANTILES for number in CLASSES]
    for axes, column in zip(panels, columns, strict=True):
        for offset, where in ((-0.2, ""), (0.2, "simulated ")):
            place = np.arange(len(MODES)) + offset
            own = np.array([runs[f"{where}{mode} {column}"] for mode in MODES])
            axes.bar(place, own.mean(axis=1), width=0.4, label=where.strip() or "live")
            for values in own.T:
                axes.plot(place, values, "k.", markersize=3)
        if column.startswith("p99"):
            axes.set_yscale("log")
        axes.set_ylabel("seconds; dots: seeds")
        axes.set_xticks(range(len(MODES)), MODES)
        axes.legend()
    return figure
