"""With held ACKs, no kind of TCP sender stalls or times out.

Source: postack; docs/ledger.md, A001-7 (compatibility) and A001-10 (ten sessions at 20 kbit/s).
Differs: `_network.py` describes the network. Senders are the simulator's Linux TCP with one changed
setting at a time. There is no loss, so every timeout is the gateway's fault. Windows are 64 KiB, or
48 kB with a given window scale or none. The class of 20 kbit/s has ten flows, a warm-up of one
minute and five minutes that count.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import bulk, measured, network

senders = Experiment(__file__)

PLAIN = {"receive_window": "48 kB"}
KINDS: dict[str, dict[str, Any]] = {
    "linux": {},
    "reno": {"congestion": "reno"},
    "vegas": {"congestion": "vegas"},
    "bbr": {"congestion": "bbr", "pacing": True},
    "no SACK": {"recovery": "new-reno"},
    "no timestamps": {"timestamps": False},
    "no scaling": {"window_scaling": False, **PLAIN},
    "scale 0": {"window_scale": 0, **PLAIN},
    "scale 2": {"window_scale": 2},
    "scale 7": {"window_scale": 7},
    "scale 14": {"window_scale": 14},
    "mss 256": {"mss": "256 B"},
    "mss 536": {"mss": "536 B"},
    "mss 8960": {"mss": "8960 B"},
    "an ACK for each": {"ack_every": 1},
    "an ACK for four": {"ack_every": 4},
    "ns-2": {"profile": "ns2-2003"},
    "rfc": {"profile": "rfc"},
}
SLOW = "20 kbit/s"


@senders.run(ack_control=["none", "gate"], sender=[*KINDS, SLOW])
def measure(seed: int, ack_control: str, sender: str) -> dict[str, float]:
    if sender == SLOW:
        profile = {"profile": {"mean": SLOW, "burst": "3028 B"}}
        net = network(
            ack_control,
            flows=10,
            policy=profile,
            tcp={"mss": "536 B"},
            duration="360 s",
            warmup="60 s",
        )
        bulk(net, flows=10)
    else:
        net = network(ack_control, tcp=KINDS[sender])
        bulk(net)
    run = net.run(seed)
    return {**measured(run), "least": run.flows.where(group="bulk")["goodput_bytes"].min()}


def every(runs: Table, column: str, ack_control: str = "gate") -> list[np.ndarray]:
    """A column for each kind of sender, with one number per seed."""
    return [runs.where(ack_control=ack_control, sender=kind)[column] for kind in KINDS]


@senders.claim("A001-7", "worst kind: goodput over that of a queue for each flow", at_least=0.97)
def goodput(runs: Table) -> Numbers:
    pairs = zip(every(runs, "goodput"), every(runs, "goodput", "none"), strict=True)
    return [min(ratios) for ratios in zip(*(gate / fair for gate, fair in pairs), strict=True)]


@senders.claim("A001-7", "worst kind: Jain index", at_least=0.98)
def jain(runs: Table) -> Numbers:
    return [min(kinds) for kinds in zip(*every(runs, "jain"), strict=True)]


@senders.claim("A001-7", "all kinds: timeouts", at_most=0)
def timeouts(runs: Table) -> Numbers:
    return np.sum(every(runs, "timeouts"), axis=0)


@senders.claim("A001-7", "all kinds: retransmitted segments", at_most=0)
def retransmitted(runs: Table) -> Numbers:
    return np.sum(every(runs, "retransmitted"), axis=0)


@senders.claim("A001-10", "20 kbit/s, ten flows: Jain index", at_least=0.9)
def slow_jain(runs: Table) -> Numbers:
    return runs.where(ack_control="gate", sender=SLOW)["jain"]


@senders.claim(
    "A001-10", "20 kbit/s, ten flows: least data of one flow in 5 min, bytes", at_least=37_500
)
def slow_least(runs: Table) -> Numbers:
    return runs.where(ack_control="gate", sender=SLOW)["least"]


@senders.figure
def figure(runs: Table) -> Any:
    figure, (axes,) = plots.panels(["goodput over that of a queue for each flow"])
    figure.set_size_inches(10, 4)
    gate, fair = every(runs, "goodput"), every(runs, "goodput", "none")
    ratios = [(one / other).mean() for one, other in zip(gate, fair, strict=True)]
    axes.plot(list(KINDS), ratios, marker="o", linestyle="")
    axes.tick_params(axis="x", rotation=60)
    axes.set_ylim(bottom=0)
    return figure
