"""Loss express does harm, and so do copies of lost segments that overtake their flow.

Source: postack, ledger R001-14 (option "loss express", and priority of what is sent again).
Differs: see `_network.py`. The ledger has no numbers for them. Windows are grown and few packets
are lost, so that ACKs are held for longer than a round trip when one is; at 1 % there is nothing
to hurry. 120 seeds, because some differences are small.

With loss express more timers of senders expire, and more is sent again (`#again-reno`). Senders may
get used to shorter holds and then meet longer ones again; this was not looked into. Where copies of
lost segments go first, senders take the segments that were overtaken for lost and send them again,
which arrive twice (`#twice-reno`). Where the rest of their flow goes before them, this does not
happen (`#twice-flow-reno`, `#with-flow-one-reno`).
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import bulk, measured, network

express = Experiment(__file__, seeds=120)

SIGNALS: dict[str, dict[str, Any]] = {
    "gate": {"kind": "postack"},
    "express": {"kind": "postack", "loss_express": True},
    "first": {"kind": "postack", "retransmissions": "first"},
    "flow-first": {"kind": "postack", "retransmissions": "flow-first"},
}
LOSSES = [0.02, 0.1, 1.0]
CONTROLS = ["reno", "cubic"]
MSS = 1_448


@express.run(signal=list(SIGNALS), congestion=CONTROLS, loss=LOSSES)
def measure(seed: int, signal: str, congestion: str, loss: float) -> dict[str, float]:
    tcp = {"congestion": congestion}
    net = network(SIGNALS[signal], window=None, loss=f"{loss} %", tcp=tcp)
    bulk(net)
    run = net.run(seed)
    flows = run.flows.where(group="bulk")
    received = flows["received_packets"].sum() - flows["goodput_bytes"].sum() / MSS
    return {**measured(run), "twice": float(received)}


def compare(
    runs: Table, column: str, congestion: str, loss: float, signal: str
) -> list[np.ndarray]:
    """A column with the signal, and with the usual gate."""
    cell = runs.where(congestion=congestion, loss=loss)
    return [cell.where(signal=it)[column] for it in (signal, "gate")]


def ratio(runs: Table, congestion: str, loss: float, signal: str = "express") -> np.ndarray:
    hurried, usual = compare(runs, "goodput", congestion, loss, signal)
    return hurried / usual


def more(
    runs: Table, column: str, congestion: str, loss: float, signal: str = "express"
) -> np.ndarray:
    hurried, usual = compare(runs, column, congestion, loss, signal)
    return hurried - usual


@express.claim(
    "R001-14",
    "0.1 %, Reno: goodput with loss express over without",
    kind="shown otherwise",
    at_most=1,
)
def tenth_reno(runs: Table) -> Numbers:
    return ratio(runs, "reno", 0.1)


@express.claim("R001-14", "0.1 %, CUBIC: goodput", kind="shown otherwise", at_most=1)
def tenth_cubic(runs: Table) -> Numbers:
    return ratio(runs, "cubic", 0.1)


@express.claim(
    "R001-14",
    "0.1 %, Reno: more timeouts in a run than without",
    kind="shown otherwise",
    at_least=0,
)
def timeouts_reno(runs: Table) -> Numbers:
    return more(runs, "timeouts", "reno", 0.1)


@express.claim("R001-14", "0.1 %, CUBIC: more timeouts", kind="shown otherwise", at_least=0)
def timeouts_cubic(runs: Table) -> Numbers:
    return more(runs, "timeouts", "cubic", 0.1)


@express.claim("R001-14", "0.1 %, Reno: more segments sent again than without", at_least=1)
def again_reno(runs: Table) -> Numbers:
    return more(runs, "retransmitted", "reno", 0.1)


@express.claim("R001-14", "0.1 %, CUBIC: more segments sent again", at_least=1)
def again_cubic(runs: Table) -> Numbers:
    return more(runs, "retransmitted", "cubic", 0.1)


@express.claim(
    "R001-14", "1 %, Reno: goodput with loss express over without", at_least=0.98, at_most=1.02
)
def one_reno(runs: Table) -> Numbers:
    return ratio(runs, "reno", 1.0)


@express.claim("R001-14", "1 %, CUBIC: goodput", at_least=0.98, at_most=1.02)
def one_cubic(runs: Table) -> Numbers:
    return ratio(runs, "cubic", 1.0)


@express.claim(
    "R001-14", "0.1 %, Reno: goodput with what is sent again first, over without", at_least=0.99
)
def first_tenth_reno(runs: Table) -> Numbers:
    return ratio(runs, "reno", 0.1, "first")


@express.claim("R001-14", "0.1 %, CUBIC: the same", at_least=0.99)
def first_tenth_cubic(runs: Table) -> Numbers:
    return ratio(runs, "cubic", 0.1, "first")


@express.claim("R001-14", "1 %, Reno: the same", kind="shown otherwise", at_most=0.995)
def first_one_reno(runs: Table) -> Numbers:
    return ratio(runs, "reno", 1.0, "first")


@express.claim("R001-14", "1 %, CUBIC: the same", kind="shown otherwise", at_most=0.995)
def first_one_cubic(runs: Table) -> Numbers:
    return ratio(runs, "cubic", 1.0, "first")


@express.claim(
    "R001-14", "1 %, Reno: more segments arrive twice with what is sent again first", at_least=1
)
def twice_reno(runs: Table) -> Numbers:
    return more(runs, "twice", "reno", 1.0, "first")


@express.claim("R001-14", "1 %, CUBIC: the same", at_least=1)
def twice_cubic(runs: Table) -> Numbers:
    return more(runs, "twice", "cubic", 1.0, "first")


@express.claim(
    "R001-14",
    "1 %, Reno: goodput with what is sent again and its flow first",
    at_least=0.995,
    at_most=1.005,
)
def with_flow_one_reno(runs: Table) -> Numbers:
    return ratio(runs, "reno", 1.0, "flow-first")


@express.claim("R001-14", "1 %, CUBIC: the same", at_least=0.995, at_most=1.005)
def with_flow_one_cubic(runs: Table) -> Numbers:
    return ratio(runs, "cubic", 1.0, "flow-first")


@express.claim(
    "R001-14", "1 %, Reno: more segments arrive twice with it and its flow first", at_most=10
)
def twice_flow_reno(runs: Table) -> Numbers:
    return more(runs, "twice", "reno", 1.0, "flow-first")


@express.claim("R001-14", "1 %, CUBIC: the same", at_most=10)
def twice_flow_cubic(runs: Table) -> Numbers:
    return more(runs, "twice", "cubic", 1.0, "flow-first")


@express.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["goodput, Mbit/s", "more timeouts"])
    for axes, column, unit in zip(panels, ("goodput", "timeouts"), (1e6, 1), strict=True):
        for signal in SIGNALS:
            for congestion in CONTROLS:
                cell = runs.where(signal=signal, congestion=congestion)
                means = [cell.where(loss=it)[column].mean() / unit for it in LOSSES]
                axes.plot(LOSSES, means, marker="o", label=f"{congestion.upper()}, {signal}")
        axes.set_xscale("log")
        axes.set_xlabel("loss, %")
        axes.legend()
    return figure
