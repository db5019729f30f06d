"""Aggregates beside other traffic: separate connections at 200 ms, RED, and Reno, CUBIC and BBR.

Source: integrated TCP, sections 1, 2 and 5 (open questions); docs/ledger.md, A002-7 (other traffic
at the bottleneck).
Differs: `_network.py` describes the network. Runs use the two subnets E1, last 4,000 s and have
fixed weights of 10. In some cases one greedy connection shares the bottleneck. The buffer is the
paper's 10,000 packets ("large"), 100 packets ("small", twice the bandwidth-delay product), or RED
with the same 100 packets. "carried" is the goodput of both aggregates divided by their offered
load. The aggregate connection has no mode switch such as that of Nimbus. The case "switched" uses
weighted Reno with weight 10 all the time. No switch can do better beside Reno.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment

from ._cases import Cases, of
from ._load import E1, PACKET
from ._network import BUFFER, FIRST_FILE, HEADER, Setup, network, sojourns

beside = Experiment(__file__, seeds=6)

SECONDS = 4_000

FAR = "90 ms"
"""Delay between gateway and router. It makes a round-trip time of 202 ms."""

SHORT = 50_000
"""Largest size of a short file, bytes. The smallest file of class 1 has 39,000 bytes."""

PACKETS = 100
LIMIT = PACKETS * (PACKET + HEADER)

QUEUES: dict[str, dict[str, Any]] = {
    "large": {"kind": "drop-tail", "limit": f"{BUFFER} B"},
    "small": {"kind": "drop-tail", "limit": f"{LIMIT} B"},
    "RED": {
        "kind": "red", "limit": f"{LIMIT} B", "packet": f"{PACKET + HEADER} B",
        "min": f"{LIMIT // 8} B", "max": f"{LIMIT // 2} B", "max_p": "10 %", "weight": "0.2 %",
        "gentle": True,
    },
}  # fmt: skip
"""RED starts to drop at an eighth of the buffer."""

CROSS = {"Reno": "newreno", "CUBIC": "cubic", "BBR": "bbr"}

RENO = {"kind": "weighted-reno"}

CASES: dict[str, tuple[str, Setup]] = {
    "far, aggregates": ("fixed", Setup(seconds=SECONDS, far=FAR)),
    "far, separate": ("separate", Setup(seconds=SECONDS, far=FAR)),
    "alone, RED": ("fixed", Setup(seconds=SECONDS, queue=QUEUES["RED"])),
    "alone, separate": ("separate", Setup(seconds=SECONDS)),
    "alone, aggregates": ("fixed", Setup(seconds=SECONDS)),
}
for name, kind in CROSS.items():
    for queue in QUEUES if name == "Reno" else ("large", "small"):
        own = Setup(seconds=SECONDS, queue=QUEUES[queue], cross={"kind": kind})
        CASES[f"{name}, {queue}"] = ("fixed", own)
CASES["Reno, small, separate"] = (
    "separate", Setup(seconds=SECONDS, queue=QUEUES["small"], cross={"kind": "newreno"})
)  # fmt: skip
CASES["Reno, small, switched"] = (
    "fixed",
    Setup(seconds=SECONDS, queue=QUEUES["small"], cross={"kind": "newreno"}, control=RENO),
)


@beside.run(case=list(CASES))
def measure(seed: int, case: str) -> dict[str, float]:
    mode, own = CASES[case]
    run = network(E1, mode, own).run(seed)
    offered = sum(each.mean * each.arrivals for each in E1) * (SECONDS - FIRST_FILE) * 8
    groups = run.groups
    ours = np.array([not str(it).startswith("cross") for it in groups["group"]])
    carriers = np.array([str(it).startswith("long") for it in groups["group"]])
    counted = carriers if mode != "separate" else ours
    row = {"carried": float(groups["goodput_bps"][counted].sum()) * SECONDS / offered}
    if own.cross:
        row["cross"] = float(groups["goodput_bps"][~ours].sum()) / 1e6
    for number in (1, 2):
        files = run["transfers"].where(group=f"files{number}")
        took = sojourns(run, number)
        row[f"median_{number}"] = float(np.median(took)) if len(took) else float(SECONDS)
        short = took[files["bytes"] <= SHORT]
        row[f"short_{number}"] = float(short.mean()) if len(short) else float(SECONDS)
    return row


about = Cases(beside, "A002-7")
QUEUED = "both aggregates keep 20 packets in the queue, and RED drops from 12 packets on"


for number in (1, 2):
    about.claim_over("far, aggregates", "far, separate", f"short_{number}",
               f"mean time of files up to 50 kB, class {number}",
               paper="the motive of aggregation", at_most=1)  # fmt: skip
about.claim_over("far, aggregates", "far, separate", "median_1", "median sojourn of class 1",
           paper="the motive of aggregation", at_most=1)  # fmt: skip
about.claim_over("alone, aggregates", "alone, separate", "short_1",
           "mean time of files up to 50 kB, class 1, round trip of 42 ms",
           kind="context")  # fmt: skip
CARRIED = "goodput of both aggregates over their offered load"
about.claim(
    "Reno, large", "carried", CARRIED, paper="Vegas performs poorly beside Reno", at_most=0.5
)
about.claim(
    "Reno, small", "carried", CARRIED, paper="Vegas performs poorly beside Reno", at_most=0.8
)
about.claim_over(
    "Reno, RED", "Reno, small", "carried", CARRIED, paper="more competitive", at_least=1
)
for name in ("CUBIC", "BBR"):
    for queue in ("large", "small"):
        about.claim(f"{name}, {queue}", "carried", CARRIED, kind="context")
about.claim_over("Reno, small, switched", "Reno, small", "carried", CARRIED, at_least=1)
about.claim("Reno, small, separate", "carried", "goodput of separate connections over offered load",
      kind="context")  # fmt: skip
about.claim_over("alone, RED", "alone, aggregates", "median_1", "median sojourn of class 1",
           at_most=1.1, why=QUEUED)  # fmt: skip


@beside.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["load carried beside one greedy connection",
                                   "short files of class 1, mean seconds"])  # fmt: skip
    crossed = [case for case, (_, own) in CASES.items() if own.cross]
    quiet = [case for case, (_, own) in CASES.items() if not own.cross]
    for axes, cases, column in ((panels[0], crossed, "carried"), (panels[1], quiet, "short_1")):
        axes.barh(range(len(cases)), [np.median(of(runs, it, column)) for it in cases])
        axes.set_yticks(range(len(cases)), cases, fontsize="small")
        axes.invert_yaxis()
    panels[0].axvline(1, color="gray", linewidth=1)
    return figure
