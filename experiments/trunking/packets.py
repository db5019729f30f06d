"""A router whose room is counted in packets needs equation 2 with packets in place of bytes.

Source: trunking, section 5, equation 2 in bytes, which the actual maximum exceeds by a few percent.
Ledger, R003-6: a credit of VMSS bytes is as many packets as VMSS over the length of the shortest
user packet, rounded up.
Differs: see `_network.py`. The paper's buffers are in bytes. The room in bytes is ample here, and
the packets that wait are counted every 5 ms. All users of a run send packets of one length: 1500,
500 or 200 bytes. Connections have no guarantees, as equation 2 counts these as a part of the link
in bytes.
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
    "R003-6", "packets of 1500 bytes: most that wait, of the formula",
    paper="a few percent more", at_least=0.8, at_most=1.1,
)  # fmt: skip
def long(runs: Table) -> Numbers:
    return of(runs, 1500)


@packets.claim(
    "R003-6", "packets of 500 bytes: most that wait, of the formula",
    paper="a few percent more", at_least=0.8, at_most=1.1,
)  # fmt: skip
def medium(runs: Table) -> Numbers:
    return of(runs, 500)


@packets.claim(
    "R003-6", "packets of 200 bytes: most that wait, of the formula",
    paper="a few percent more", at_least=0.8, at_most=1.1,
)  # fmt: skip
def short(runs: Table) -> Numbers:
    return of(runs, 200)


@packets.claim(
    "R003-6", "packets of 500 bytes: most that wait, of the formula for 1500",
    kind="shown otherwise", at_least=1.5,
)  # fmt: skip
def wrong_length(runs: Table) -> Numbers:
    return of(runs, 500, required_packets(1500))


@packets.claim("R003-6", "user packets lost, all lengths", at_most=0)
def lost(runs: Table) -> Numbers:
    return np.sum([runs.where(packet=it)["lost"] for it in LENGTHS], axis=0)


@packets.figure
def figure(runs: Table) -> Any:
    figure, (axes,) = plots.panels(["packets before the link from E to F"])
    means = [runs.where(packet=it)["most"].mean() for it in LENGTHS]
    axes.plot(LENGTHS, means, marker="o", linestyle="", label="most that waited")
    axes.plot(LENGTHS, [required_packets(it) for it in LENGTHS], marker="_", markersize=20,
              linestyle="", label="formula")  # fmt: skip
    axes.set_xlabel("length of user packets, bytes")
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure
