"""Ten real flows share 20 kbit/s, and all of them progress.

Source: postack; docs/ledger.md, A001-10 (ten sessions in a class of 20 kbit/s).
Differs: `_live.py` describes labs of real hosts. Segments have 536 bytes. After 30 s of warm-up,
120 s count; the simulated runs in `senders` are longer.
"""

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._live import bulk, hosts, missing
from .live_senders import ROUTE

live_slow = Experiment(__file__, seeds=3, needs=missing)


@live_slow.run()
def measure(seed: int) -> dict[str, float]:
    slow = {"profile": {"mean": "20 kbit/s", "burst": "3028 B"}}
    net = hosts("gate", policy=slow, seconds=(30, 120))
    return bulk(net, setup=f"{ROUTE} advmss 536", flows=10)


@live_slow.claim("A001-10", "live: 20 kbit/s, ten flows: Jain index", at_least=0.9)
def jain(runs: Table) -> Numbers:
    return runs["jain"]


@live_slow.claim(
    "A001-10",
    "live: 20 kbit/s, ten flows: throughput over the rate",
    at_least=0.98,
    at_most=1.02,
)
def rate(runs: Table) -> Numbers:
    return runs["rate"] / 20_000
