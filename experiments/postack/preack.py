"""A relay that acknowledges early keeps the rate filled, despite losses beyond the relay.

Source: postack; docs/ledger.md, R001-21 (PreAck).
Differs: `_network.py` describes the network. `Kind::Relay` in `crates/sim/src/scenario/traffic.rs`
lists the differences between a relay and PreAck. Relays are next to the gateway, on its WAN side.
The gateway limits the senders to the rate; packets are lost between relays and receivers. A relay
buffers 64 KiB of a flow in addition to a receive window of 64 KiB. At the end of the warm-up it can
hold 1.5 % of the measured bytes. It forwards data with Reno like the senders, or with BBR, which
does not reduce its rate at every loss. Runs without a warm-up count the acknowledged bytes that
never arrive. The paper prints a gain of 45 %, but neither the losses nor the senders. So each loss
rate and both senders have a claim.
"""

from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import FLOWS, bulk, network

preack = Experiment(__file__)

LOSSES = [0, 1, 2, 5]
RENO = {"profile": "linux", "congestion": "reno"}
ONWARD = {"reno": RENO, "bbr": {**RENO, "congestion": "bbr"}}
BUFFER = "64 KiB"

SENDERS = {
    "tcr": ("tcr", None),
    "gate": ("gate", None),
    "relay, reno": ("tcr", "reno"),
    "relay, bbr": ("tcr", "bbr"),
}
"""The ACK control at the gateway, and the congestion control of the relay; None for no relay."""


def scenario(ack_control: str, onward: str | None, loss: float, **run: Any) -> Scenario:
    tcp = {"congestion": "reno"}
    net = network(ack_control, window=None, loss=f"{loss} %" if loss else None, tcp=tcp,
                  relays=True, **run)  # fmt: skip
    if onward is None:
        bulk(net)
    else:
        bulk(net, sides="lr", tcp={"receive_window": BUFFER})
        relays, receivers = ([f"{side}{n}" for n in range(FLOWS)] for side in "rw")
        fields: dict[str, Any] = {"of": "bulk", "buffer": BUFFER, "tcp": ONWARD[onward]}
        net.traffic("onward", "relay", relays, receivers, **fields)
    return net


@preack.run(senders=list(SENDERS), loss=LOSSES)
def measure(seed: int, senders: str, loss: float) -> dict[str, float]:
    ack_control, onward = SENDERS[senders]
    last = "onward" if onward else "bulk"
    run = scenario(ack_control, onward, loss).run(seed)
    whole = scenario(ack_control, onward, loss, warmup="0 s").run(seed).flows
    acknowledged = whole.where(group="bulk")["acknowledged_bytes"].astype(float)
    there = whole.where(group=last)["goodput_bytes"].astype(float)
    return {
        "goodput": run.groups.where(group=last)["goodput_bps"][0],
        "nowhere": float(np.maximum(acknowledged - there, 0).mean()),
    }


RENO_TOO = (
    "the relay sends with Reno too, and losses keep its window small. A relay only removes the "
    "part of the path between sender and relay, which is short here. With BBR at the relay the "
    "paper's gain is reached from 2 % on (`#two-bbr`, `#five-bbr`)"
)
FULL = (
    "at 1 % TCR alone has more than 1/1.45 of the rate (`loss`), so even the whole rate would be "
    "less than the paper's gain"
)


def gain(runs: Table, senders: str, percent: float, over: str = "tcr") -> np.ndarray:
    cell = runs.where(loss=percent)
    return cell.where(senders=senders)["goodput"] / cell.where(senders=over)["goodput"]


def nowhere(runs: Table, senders: str, percent: int = 1) -> np.ndarray:
    return runs.where(senders=senders, loss=percent)["nowhere"]


@preack.claim("R001-21", "no loss: goodput, relay with Reno over TCR alone", at_least=0.99)
def none_reno(runs: Table) -> Numbers:
    return gain(runs, "relay, reno", 0)


@preack.claim("R001-21", "no loss: goodput, relay with BBR over TCR alone", at_least=0.99)
def none_bbr(runs: Table) -> Numbers:
    return gain(runs, "relay, bbr", 0)


@preack.claim("R001-21", "1 %: goodput, relay with Reno over TCR alone", paper=">= 1.45",
              at_least=1.45, why=FULL)  # fmt: skip
def one_reno(runs: Table) -> Numbers:
    return gain(runs, "relay, reno", 1)


@preack.claim("R001-21", "1 %: goodput, relay with BBR over TCR alone", paper=">= 1.45",
              at_least=1.45, why=FULL)  # fmt: skip
def one_bbr(runs: Table) -> Numbers:
    return gain(runs, "relay, bbr", 1)


@preack.claim("R001-21", "2 %: goodput, relay with BBR over TCR alone", paper=">= 1.45",
              at_least=1.45)  # fmt: skip
def two_bbr(runs: Table) -> Numbers:
    return gain(runs, "relay, bbr", 2)


@preack.claim("R001-21", "2 %: goodput, relay with Reno over TCR alone", paper=">= 1.45",
              at_least=1.45, why=RENO_TOO)  # fmt: skip
def two_reno(runs: Table) -> Numbers:
    return gain(runs, "relay, reno", 2)


@preack.claim("R001-21", "5 %: goodput, relay with Reno over TCR alone", paper=">= 1.45",
              at_least=1.45, why=RENO_TOO)  # fmt: skip
def five_reno(runs: Table) -> Numbers:
    return gain(runs, "relay, reno", 5)


@preack.claim("R001-21", "5 %: goodput, relay with BBR over TCR alone", paper=">= 1.45",
              at_least=1.45)  # fmt: skip
def five_bbr(runs: Table) -> Numbers:
    return gain(runs, "relay, bbr", 5)


@preack.claim("R001-21, PostACK", "1 %: goodput, relay with BBR over the gate", at_least=1)
def one_gate(runs: Table) -> Numbers:
    return gain(runs, "relay, bbr", 1, over="gate")


@preack.claim("R001-21, PostACK", "5 %: goodput, relay with BBR over the gate", at_least=1.3)
def five_gate(runs: Table) -> Numbers:
    return gain(runs, "relay, bbr", 5, over="gate")


@preack.claim(
    "R001-21, end to end",
    "1 %, relay with Reno: bytes of a flow acknowledged but not delivered at the end",
    at_least=1,
)
def nowhere_reno(runs: Table) -> Numbers:
    return nowhere(runs, "relay, reno")


@preack.claim("R001-21, end to end", "1 %, relay with BBR: such bytes", at_least=1)
def nowhere_bbr(runs: Table) -> Numbers:
    return nowhere(runs, "relay, bbr")


@preack.claim("R001-21, end to end", "1 %, TCR alone: such bytes", at_most=0)
def nowhere_tcr(runs: Table) -> Numbers:
    return nowhere(runs, "tcr")


@preack.claim("R001-21, end to end", "1 %, gate: such bytes", at_most=0)
def nowhere_gate(runs: Table) -> Numbers:
    return nowhere(runs, "gate")


@preack.figure
def figure(runs: Table) -> Any:
    titles = ["goodput, Mbit/s", "acknowledged but not delivered, kB per flow"]
    figure, panels = plots.panels(titles)
    for axes, column, unit in zip(panels, ("goodput", "nowhere"), (1e6, 1e3), strict=True):
        for senders in SENDERS:
            cell = runs.where(senders=senders)
            means = [cell.where(loss=it)[column].mean() / unit for it in LOSSES]
            axes.plot(LOSSES, means, marker="o", label=senders)
        axes.set_xlabel("loss, %")
        axes.set_ylim(bottom=0)
        axes.legend()
    return figure
