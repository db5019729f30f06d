"""Compares the scheduler `jobs` with the authors' JoBS in ns-2, for classes with guarantees.

There are two networks: `cn2002` with the parameters of the authors' own script, and experiment 2 of
the paper `marking` without its marking. Our scheduler runs with two options for comparison: `victim
= "ns2"` searches like ns-2 for the class that loses a packet, and `output = "arrivals"` follows the
authors' code.
"""

import json
import os
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from .measure import MOST, run
from .ours import nanoseconds, program, table, value
from .report import Quantity, Report, average, within

HERE = Path(__file__).parent

PACKET = 500  # bytes
CLASSES = (1, 2, 3, 4)
SEEDS = (1, 2, 3)
UNTIL, SINCE = 70, 10  # s
RATE = 45_000_000  # bit/s
STEP = 0.5  # s; windows of throughput
NEAR = 0.15  # relative tolerance; implementations differ packet by packet
# ns-2's timer keeps running while no data is outstanding. When it expires, the window falls to one
# segment (`slow_start_restart_`, `TcpAgent::timeout`). In experiment 2, many pauses last longer
# than this timer.
IDLE = "restart"
CN2002_BUFFER, EXP2_BUFFER = 400, 500  # packets; as in ns2/jobs.tcl


@dataclass
class Class:
    """Counts of one class at the link, from `SINCE` on."""

    arrived: int = 0
    dropped: int = 0
    departed: int = 0
    late: int = 0
    delays: float = 0.0  # s, sum
    longest: float = 0.0  # s


def figures(all: Mapping[int, Class], rates: Mapping[int, Sequence[float]]) -> dict[str, float]:
    """Delay in ms, loss in percent, throughput in Mbit/s by class, and ratios of classes."""
    said: dict[str, float] = {}
    for each, it in all.items():
        said |= {
            f"delay {each}": 1e3 * it.delays / max(it.departed, 1),
            f"longest {each}": 1e3 * it.longest,
            f"late {each}": 100 * it.late / max(it.departed, 1),
            f"loss {each}": 100 * it.dropped / max(it.arrived, 1),
            f"rate {each}": sum(rates[each]) / len(rates[each]),
            f"least {each}": min(rates[each]),
        }
    for each in (2, 3):
        for what, ratio in (("delay", "delays"), ("loss", "losses")):
            of = said[f"{what} {each}"]
            said[f"{ratio} {each}"] = said[f"{what} {each + 1}"] / of if of else float("nan")
    return said


def of_events(lines: Iterable[str], bound: float) -> dict[str, float]:
    """The figures of an ns-2 trace of one queue. A delay above `bound` counts as late."""
    entered: dict[str, float] = {}
    all = {each: Class() for each in CLASSES}
    sent = {each: [0] * round((UNTIL - SINCE) / STEP) for each in CLASSES}
    for line in lines:
        kind, at, _, _, _, _, _, flow, _, _, _, packet = line.split()
        if kind not in "+-d":
            continue
        now, it = float(at), all[int(flow)]
        if kind == "+":
            entered[packet] = now
            it.arrived += now >= SINCE
            continue
        began = entered.pop(packet, now)
        if now < SINCE:
            continue
        if kind == "d":
            it.dropped += 1
            continue
        it.departed += 1
        it.delays += now - began
        it.longest = max(it.longest, now - began)
        it.late += now - began > bound
        window = min(int((now - SINCE) / STEP), len(sent[1]) - 1)
        sent[int(flow)][window] += PACKET
    rates = {each: [8e-6 * it / STEP for it in sent[each]] for each in CLASSES}
    return figures(all, rates)


def ns2(network: str, seed: int, ratio: int) -> dict[str, float]:
    """Runs ns-2, and reads its trace while it runs."""
    bound = NETWORKS[network].bound
    with tempfile.TemporaryDirectory() as folder:
        pipe, flows = Path(folder) / "trace", Path(folder) / "flows"
        os.mkfifo(pipe)
        flows.write_text("".join(f"{c} {rtt:.9f} {kind}\n" for c, rtt, kind in drawn(seed)))
        words = [
            f"network={network}", f"trace={pipe}", f"flows={flows}", f"seed={seed}",
            f"until={UNTIL}", f"rdc={ratio}",
        ]  # fmt: skip
        command = ["timeout", str(MOST), "ns", str(HERE / "ns2/jobs.tcl"), *words]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        with pipe.open() as trace:
            said = of_events(trace, bound)
        if process.wait() != 0:
            raise subprocess.CalledProcessError(process.returncode, command)
    return said


def drawn(seed: int) -> list[tuple[int, float, str]]:
    """The flows of experiment 2: class, base round-trip time in s, greedy | onoff."""
    chance = random.Random(seed)
    flows = [(each, 0.044, "greedy") for each in CLASSES for _ in range(3)]
    for each, count in zip(CLASSES, (5, 10, 15, 20), strict=True):
        flows += [(each, chance.uniform(0.044, 0.080), "onoff") for _ in range(count)]
    return flows


def policy(buffer: int, guaranteed: Mapping[str, str], delays: int, losses: int) -> str:
    """A gateway with the four classes of a JoBS link."""
    classes = [table("class", name="c1", **guaranteed)]
    for each in (2, 3, 4):
        terms: dict[str, Any] = {}
        if each < 4:
            terms = {
                "delay_ratio": {"of": f"c{each + 1}", "factor": 1 / delays},
                "loss_ratio": {"of": f"c{each + 1}", "factor": 1 / losses},
            }
        classes.append(table("class", name=f"c{each}", **terms))
    policies = [
        table(
            "policy",
            name=f"p{each}",
            match={"dscp": each, "direction": "up"},
            action="pass",
            **{"class": f"c{each}"},
        )
        for each in CLASSES
    ]
    head = (
        f'[gateway]\nlan = "lan"\nwan = "wan"\nrate = {{ up = "{RATE} bit/s" }}\n'
        f'scheduler = {{ kind = "jobs", victim = "ns2", output = "arrivals" }}\n'
        f'buffer = "{buffer * PACKET} B"\n'
    )
    return "\n".join([head, *classes, *policies])


def head(seed: int, bound: float) -> list[str]:
    """The first tables of a scenario: the run, and the probe of the first gateway."""
    tcp = {
        "profile": "ns2-2003",
        "mss": f"{PACKET - 40} B",
        "rto_min": "1 s",
        "ecn": "classic",
        "ack_delay": "100 ms",
    }
    run_table = {
        "duration": f"{UNTIL} s",
        "warmup": f"{SINCE} s",
        "sample": nanoseconds(STEP),
        "link_header": "0 B",
        "tcp": tcp,
    }
    lines = "".join(f"{name} = {value(it)}\n" for name, it in run_table.items())
    probe = table("probe", kind="passage", gateway="g0", direction="up", bound=nanoseconds(bound))
    return [f'name = "jobs"\nseed = {seed}\n[run]\n{lines}', probe]


def pair(name: str, ends: tuple[str, str], rate: str, delay: str) -> list[str]:
    """A sender and a receiver, connected to the two `ends` of the network."""
    parts = [table("host", name=f"{name}-{side}") for side in "sd"]
    links = ((f"{name}-s", ends[0]), (ends[1], f"{name}-d"))
    return parts + [
        table("link", **{"from": near, "to": far}, rate=rate, delay=delay) for near, far in links
    ]


def traffic(names: Sequence[str], each: int, group: str, **fields: Any) -> str:
    """Traffic of a class between the pairs of hosts with these names."""
    ends = {"from": [f"{it}-s" for it in names], "to": [f"{it}-d" for it in names]}
    return table("traffic", name=f"{group}{each}", dscp=each, **ends, **fields)


def cn2002(seed: int, ratio: int) -> str:
    """Four routers in a row, joined by three gateways."""
    terms = {"delay_bound": "2 ms", "loss_bound": "0.5 %"}
    text = policy(CN2002_BUFFER, terms, ratio, 2)
    parts = head(seed, NETWORKS["cn2002"].bound)
    parts += [table("router", name=f"r{n}") for n in range(4)]
    chance = random.Random(seed)
    limited = {"receive_window": f"{50 * (PACKET - 40)} B", "ack_every": 2}

    def bursts() -> dict[str, Any]:
        """A flow that gets more data after each pause, even if earlier data is still unsent."""
        at, writes = chance.expovariate(1 / 0.2), []
        while at < UNTIL:
            writes.append([nanoseconds(at), f"{chance.randint(300, 1000) * (PACKET - 40)} B"])
            at += chance.expovariate(1 / 0.2)
        return {"kind": "trace", "protocol": "tcp", "trace": writes, "tcp": limited}

    def pareto(rate: str, on: str, off: str) -> dict[str, Any]:
        draw = {
            name: {"pareto": {"mean": mean, "shape": 1.9}}
            for name, mean in (("on", on), ("off", off))
        }
        return {"kind": "on-off", "protocol": "udp", "rate": rate, "packet": f"{PACKET} B", **draw}

    for hop in range(3):
        parts.append(table("gateway", name=f"g{hop}", inline=text))
        parts.append(table("link", **{"from": f"r{hop}", "to": f"g{hop}.lan"}))
        parts.append(table("link", **{"from": f"g{hop}.wan", "to": f"r{hop + 1}"}, delay="3 ms"))
        for each in CLASSES:
            names = [f"h{hop}c{each}n{n}" for n in range(each)]
            for name in names:
                parts += pair(name, (f"r{hop}", f"r{hop + 1}"), "10 Mbit/s", "1 ms")
            if each == 4:
                parts.append(
                    traffic(names, 4, f"h{hop}c", **pareto("2200 kbit/s", "120 ms", "100 ms"))
                )
            for n, name in enumerate(names if each < 4 else []):
                parts.append(traffic([name], each, f"h{hop}n{n}c", **bursts()))
    for each in CLASSES:
        parts += pair(f"u{each}", ("r0", "r3"), "100 Mbit/s", "1 ms")
        greedy = {"kind": "greedy", "tcp": limited}
        kind = greedy if each < 4 else pareto("5 Mbit/s", "10 ms", "10 ms")
        parts.append(traffic([f"u{each}"], each, "u", start="10 s", **kind))
    return "\n".join(parts)


def exp2(seed: int, ratio: int) -> str:
    """62 flows through one gateway."""
    terms = {"guarantee": "5 Mbit/s", "delay_bound": "10 ms", "loss_bound": "1 %"}
    parts = head(seed, NETWORKS["exp2"].bound)
    parts += [table("router", name=name) for name in ("near", "far")]
    parts.append(table("gateway", name="g0", inline=policy(EXP2_BUFFER, terms, ratio, 2)))
    parts.append(table("link", **{"from": "near", "to": "g0.lan"}))
    parts.append(table("link", **{"from": "g0.wan", "to": "far"}))
    bursts = {
        "kind": "on-off",
        "size": {"exponential": f"{300 * (PACKET - 40)} B"},
        "off": {"exponential": "1 s"},
    }
    members: dict[tuple[int, str], list[str]] = {}
    for number, (each, rtt, kind) in enumerate(drawn(seed)):
        parts += pair(f"f{number}", ("near", "far"), "1 Gbit/s", nanoseconds(rtt / 4))
        members.setdefault((each, kind), []).append(f"f{number}")
    for (each, kind), names in members.items():
        fields: dict[str, Any] = {"kind": "greedy"} if kind == "greedy" else bursts
        tcp = {"initial_window": 1, "idle": IDLE}
        parts.append(traffic(names, each, kind, tcp=tcp, **fields))
    return "\n".join(parts)


@dataclass(frozen=True)
class Network:
    """A network to compare."""

    name: str
    text: Callable[[int, int], str]
    bound: float  # s; delay bound of class 1
    ratio: int  # delay ratio of neighbouring classes


NETWORKS = {
    "cn2002": Network("jobs-cn2002", cn2002, 0.002, 4),
    "exp2": Network("experiment 2 (a)", exp2, 0.010, 2),
}


def ours(network: str, seed: int, ratio: int) -> dict[str, float]:
    """The results of our simulator."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(NETWORKS[network].text(seed, ratio))
        file.flush()
        out, _ = run([program(), "sim", file.name, "--json"])
    tables = json.loads(out)["tables"]
    all = {each: Class() for each in CLASSES}
    for row in tables["passages"]:
        it = all[int(row["group"][-1])]
        it.arrived += row["arrived_packets"]
        it.dropped += row["dropped_packets"]
        it.departed += row["departed_packets"]
        it.late += row["late_packets"]
        it.delays += row["delay_mean_seconds"] * row["departed_packets"]
        it.longest = max(it.longest, row["delay_max_seconds"])
    series = [row for row in tables["passage g0 up"] if row["time_seconds"] >= SINCE]
    rates: dict[int, list[float]] = {}
    for each in CLASSES:
        sums = [
            sum(row[name] for name in row if name.endswith(f"{each}_departed_bytes"))
            for row in series
        ]
        rates[each] = [8e-6 * (b - a) / STEP for a, b in pairwise(sums)]
    return figures(all, rates)


def quantities() -> list[Quantity]:
    """Mean delay, loss and rate of each class, and the ratios. The longest delay is not judged."""

    def taken(name: str, form: str, judged: bool) -> Quantity:
        near = within(NEAR) if judged else None
        return Quantity(name, lambda run: run[name], form, near)

    every = []
    for each in CLASSES:
        every.append(taken(f"delay {each}", "{:.2f} ms", True))
        every.append(taken(f"loss {each}", "{:.2f} %", True))
        every.append(taken(f"rate {each}", "{:.2f} Mbit/s", True))
    for each in (2, 3):
        every.append(taken(f"delays {each}", "{:.2f}", True))
        every.append(taken(f"losses {each}", "{:.2f}", True))
    every.append(taken("late 1", "{:.2f} %", False))
    every.append(taken("longest 1", "{:.1f} ms", False))
    every.append(taken("least 1", "{:.2f} Mbit/s", False))
    return every


def jobs(report: Report, pool: Executor) -> None:
    """Adds the tables of both networks to the report."""
    for key, network in NETWORKS.items():
        theirs = [pool.submit(ns2, key, seed, network.ratio) for seed in SEEDS]
        own = [pool.submit(ours, key, seed, network.ratio) for seed in SEEDS]
        said = {"ours": [it.result() for it in own], "ns-2": [it.result() for it in theirs]}
        rows = [
            report.judged(
                network.name,
                each,
                average(said["ours"], each),
                {"ns-2": average(said["ns-2"], each)},
            )
            for each in quantities()
        ]
        head = ["network", "quantity", "ours", "ns-2", "ours to it", "verdict"]
        report.table(f"JoBS: {network.name}", head, rows)
