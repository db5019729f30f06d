"""Compares our TCP end point with this host's kernel, over a TUN device in a network namespace."""

import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from statistics import mean, median
from typing import Any, TypeAlias

from .ours import target
from .report import Quantity, Report, progress, within

Trace: TypeAlias = Sequence[Mapping[str, float]]
"""Samples of a sender over time."""

MEGABYTES = 100
EACH_WAY = f"ours_sends = {MEGABYTES}_000_000\nkernel_sends = {MEGABYTES}_000_000\n"
TRANSFERS: dict[str, tuple[dict[str, int], str]] = {  # name: (sysctls of the kernel, the setup)
    "a good link": ({}, '[endpoint]\nprofile = "rfc"\n[link]\ndelay = "1 ms"'),
    "0.05 % lost, SACK": (
        {},
        'opens = "kernel"\n[endpoint]\nprofile = "linux"\n[link]\ndelay = "1 ms"\nloss = "0.05 %"',
    ),
    "0.05 % lost, no SACK": (
        {"tcp_sack": 0, "tcp_timestamps": 0},
        '[endpoint]\nprofile = "ns2-2003"\n[link]\ndelay = "1 ms"\nloss = "0.05 %"',
    ),
    "disorder and 0.02 % lost": (
        {},
        '[endpoint]\nprofile = "rfc"\n[link]\ndelay = "2 ms"\njitter = "500 us"\nreorder = true\n'
        'loss = "0.02 %"',
    ),
    "one in 2000 marked": (
        {"tcp_ecn": 1},
        'mark_one_in = 2000\n[endpoint]\nprofile = "rfc"\necn = "classic"\n[link]\ndelay = "1 ms"',
    ),
}
SECONDS = 40
REPETITIONS = 3
RATE = 10e6  # bit/s


def try_out(kernel: Mapping[str, int], setup: str) -> dict[str, Any]:
    """Runs a setup in a namespace with these sysctls."""
    words = [f"net.ipv4.{name}={value}" for name, value in kernel.items()]
    script = (
        f"sysctl -qw {' '.join(words)} && " if words else ""
    ) + f"exec {target() / 'release/e2e-tcp'}"
    command = ["unshare", "--net", "sh", "-c", script]
    said = subprocess.run(command, input=setup, capture_output=True, text=True)
    if said.returncode != 0:
        raise RuntimeError(f"{setup}\n{said.stderr}")
    result: dict[str, Any] = json.loads(said.stdout)
    return result


def transfers(report: Report, pool: Executor) -> None:
    """Sends a hundred megabytes in both directions at once, which must arrive intact."""
    jobs = {
        name: pool.submit(try_out, kernel, f'limit = "600 s"\n{EACH_WAY}{setup}')
        for name, (kernel, setup) in TRANSFERS.items()
    }
    rows = []
    for name, job in jobs.items():
        progress(name)
        run = job.result()
        ends = [run["at_ours"], run["at_kernel"]]
        intact = all(
            end["bytes"] == MEGABYTES * 10**6 and end["checksum"] == end["expected"] for end in ends
        )
        rows.append(
            [
                name,
                f"{run['seconds']:.0f} s",
                "{}, {}".format(*run["lost"]),
                run["segments"][1],
                "{}, {}".format(*run["recoveries"]),
                run["reductions"],
                "intact" if intact else "**damaged**",
            ]
        )
        if not intact:
            report.failed.append(f"{name}: damaged")
    progress("")
    report.table(
        f"{MEGABYTES} MB each way at once, with Linux {platform.release()}",
        [
            "link",
            "took",
            "lost to the kernel, to ours",
            "ours sent again",
            "our recoveries, timeouts",
            "our answers to marks",
            "both files",
        ],
        rows,
    )


def reductions(trace: Trace) -> list[tuple[float, float]]:
    """The window before and after each decrease by at least a tenth, from ten seconds on."""
    found: list[tuple[float, float, float]] = []
    peak = 0.0
    low: float | None = None
    for sample in trace:
        window = sample["window"]
        if low is not None and window > low:
            found.append((sample["at"], peak, low))
            peak, low = window, None
        elif low is not None or window < 0.9 * peak:
            low = window
        else:
            peak = max(peak, window)
    return [(peak, low) for at, peak, low in found if at >= 10]


def seen(trace: Trace) -> dict[str, float]:
    """Goodput, round-trip time and window of a trace, until the last byte is acknowledged."""
    whole = next(
        n for n, sample in enumerate(trace) if sample["acknowledged"] == trace[-1]["acknowledged"]
    )
    trace = trace[: whole + 1]
    steady = [sample for sample in trace if sample["at"] >= 10]
    falls = reductions(trace)
    span = steady[-1]["at"] - steady[0]["at"]
    return {
        "goodput": (steady[-1]["acknowledged"] - steady[0]["acknowledged"]) * 8 / span / 1e6,
        "window": mean(sample["window"] for sample in steady),
        "falls": len(falls),
        "peak": mean(peak for peak, _ in falls),
        "kept": 100 * mean(low / peak for peak, low in falls),
        "rtt": mean(sample["rtt"] for sample in steady),
    }


def windows(report: Report, pool: Executor) -> None:
    """Compares the window of our sender over time with the window of the kernel's sender.

    Our sender sends to the kernel's receiver, and the kernel's sender to ours.
    """
    link = (
        f'[link]\ndelay = "25 ms"\nrate = "{RATE:.0f} bit/s"\n'
        'queue = { kind = "drop-tail", limit = "62.5 kB" }\n'
    )
    amount = round(RATE / 8 * SECONDS * 0.93)
    setups = {
        (control, sender): f'limit = "300 s"\ntrace = "50 ms"\ncongestion = "{control}"\n'
        f"{sender}_sends = {amount}\n"
        f'[endpoint]\nprofile = "linux"\ncongestion = "{control}"\n{link}'
        for control in ("reno", "cubic")
        for sender in ("ours", "kernel")
    }
    jobs = {
        (which, repetition): pool.submit(try_out, {}, setup)
        for repetition in range(REPETITIONS)
        for which, setup in setups.items()
    }
    runs_of: dict[tuple[str, str], list[dict[str, float]]] = {}
    for ((control, sender), _), job in jobs.items():
        progress(f"{control}, {sender}")
        run = job.result()
        runs_of.setdefault((control, sender), []).append(
            seen(run["trace" if sender == "ours" else "kernel_trace"])
        )
    # On a busy machine, bursts of packets cause losses. So the median over several runs counts.
    traces = {
        which: {name: median(run[name] for run in runs) for name in runs[0]}
        for which, runs in runs_of.items()
    }
    progress("")
    quantities = [
        Quantity("goodput", lambda it: it["goodput"], "{:.2f} Mbit/s", within(0.02)),
        Quantity("reductions", lambda it: it["falls"], "{:.0f}", within(0.25)),
        Quantity("window before", lambda it: it["peak"], "{:.1f}", within(0.1)),
        Quantity("kept of it", lambda it: it["kept"], "{:.0f} %", within(0.1)),
        Quantity("mean window", lambda it: it["window"], "{:.1f}", within(0.1)),
        Quantity("mean RTT", lambda it: it["rtt"], "{:.0f} ms", within(0.1)),
    ]
    rows = []
    for control in ("reno", "cubic"):
        for quantity in quantities:
            references = {"the kernel's": quantity.take(traces[control, "kernel"])}
            rows.append(
                report.judged(control, quantity, quantity.take(traces[control, "ours"]), references)
            )
    report.table(
        f"Windows over 10 Mbit/s, 50 ms, 62.5 kB, beside Linux {platform.release()}",
        ["control", "quantity", "ours", "the kernel's", "ratio", "verdict"],
        rows,
    )
