"""A router with a buffer counted in packets needs equation 2 in packets instead of bytes.

Source: trunking, section 5, equation 2 in bytes, which the actual maximum exceeds by a few percent;
docs/ledger.md, R003-6 (the buffer of a router). A credit of VMSS bytes may arrive as VMSS / (length
of the shortest user packet) packets, rounded up.
Differs: `_network.py` describes the network. The paper's buffers are in bytes. Here the buffer has
ample bytes, and the queued packets are counted every 5 ms. All user packets of a run have the same
length: 1500, 500 or 200 bytes. Trunks have no guarantees, because equation 2 expresses guarantees
as a fraction of the link in bytes.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ._network import ALPHA, BOTTLENECK, CONNECTIONS, network, user_loss

packets = Experiment(__file__)

LENGTHS = [1500, 500, 200]
VMSS = 1500
TRUNKS = 2
SECONDS = 100

AMPLE = 8
"""Factor on the buffer of equation 2, so that its bytes do not limit the number of packets."""


def required_packets(packet: int) -> int:
    """Buffer in packets: N (alpha + (alpha + 1) ceil(VMSS / packet))."""
    return TRUNKS * CONNECTIONS * (ALPHA + (ALPHA + 1) * -(-VMSS // packet))


@packets.run(packet=LENGTHS)
def measure(seed: int, packet: int) -> dict[str, float]:
    net = network(
        vmss=(VMSS, VMSS), guarantee=(0, 0), buffer=AMPLE, duration=SECONDS, warmup=0,
        sample="5 ms", early=False, spread=True, packet=packet,
    )  # fmt: skip
    run = net.run(seed)
    most = run["queue of " + " > ".join(BOTTLENECK)]["packets"].max()
    return {"most": most, "lost": user_loss(run)}


def of(runs: Table, packet: int, needed: int | None = None) -> np.ndarray:
    """The greatest queue in packets, divided by the number from the formula."""
    return runs.where(packet=packet)["most"] / (needed or required_packets(packet))


@packets.claim(
    "R003-6", "packets of 1500 bytes: longest queue over the formula",
    paper="a few percent more", at_least=0.8, at_most=1.1,
)  # fmt: skip
def long(runs: Table) -> Numbers:
    return of(runs, 1500)


@packets.claim(
    "R003-6", "packets of 500 bytes: longest queue over the formula",
    paper="a few percent more", at_least=0.8, at_most=1.1,
)  # fmt: skip
def medium(runs: Table) -> Numbers:
    return of(runs, 500)


@packets.claim(
    "R003-6", "packets of 200 bytes: longest queue over the formula",
    paper="a few percent more", at_least=0.8, at_most=1.1,
)  # fmt: skip
def short(runs: Table) -> Numbers:
    return of(runs, 200)


@packets.claim(
    "R003-6", "packets of 500 bytes: longest queue over the formula for 1500 bytes",
    kind="shown otherwise", at_least=1.5,
)  # fmt: skip
def wrong_length(runs: Table) -> Numbers:
    return of(runs, 500, required_packets(1500))


@packets.claim("R003-6", "user packets lost, all lengths", at_most=0)
def lost(runs: Table) -> Numbers:
    return np.sum([runs.where(packet=it)["lost"] for it in LENGTHS], axis=0)


@packets.figure
def figure(runs: Table) -> Any:
    figure, (axes,) = plots.panels(["packets in the queue of the link from E to F"])
    means = [runs.where(packet=it)["most"].mean() for it in LENGTHS]
    axes.plot(LENGTHS, means, marker="o", linestyle="", label="longest queue")
    axes.plot(LENGTHS, [required_packets(it) for it in LENGTHS], marker="_", markersize=20,
              linestyle="", label="formula")  # fmt: skip
    axes.set_xlabel("length of user packets, bytes")
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure
