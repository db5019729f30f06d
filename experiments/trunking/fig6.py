"""A router with the room of equation 2 loses management packets only.

Source: trunking, section 7.1, experiment TT1 (c), figure 6; ledger, A003-3.
Differs: see `_network.py`. What waits is sampled every 5 ms, in which four packets leave; the paper
logged every one. Runs take 600 s with nothing left out. What waits most waits as trunks begin, with
the ten packets of RFC 6928 for each connection: of 200 starts (seeds 1 to 200, 5 s) the median is
0.92 of the room, and two lose three packets in all. From 5 s on it is 0.61. With one packet to
begin with, as in those years, none of 200 loses any, the most is 0.78, and `#most` would not hold:
the paper's scheme let more wait later on.
"""

from tidegate import plots
from tidegate.experiment import Experiment

from ._network import BOTTLENECK, GUARANTEES, network, required_buffer, user_loss

fig6 = Experiment(__file__)

VMSS = (1500, 1500)
NEEDED = required_buffer(4, list(VMSS), 0.5)
SECONDS = 600


def run(seed, buffer):
    net = network(
        vmss=VMSS, guarantee=GUARANTEES["a"], buffer=buffer, duration=SECONDS, warmup=0,
        sample="5 ms",
    )  # fmt: skip
    return net.run(seed)


@fig6.run(buffer=[1, 0.5])
def measure(seed, buffer):
    result = run(seed, buffer)
    waiting = result["queue of " + " > ".join(BOTTLENECK)]["bytes"]
    return {"most": waiting.max() / NEEDED, "lost": user_loss(result)}


@fig6.claim("A003-3", "equation 2, bytes", paper=222_348, within=0.005)
def formula(runs):
    return runs.where(buffer=1)["most"] * 0 + NEEDED


@fig6.claim("A003-3", "user packets lost in 600 s", paper=0, at_most=0)
def lost(runs):
    return runs.where(buffer=1)["lost"]


@fig6.claim("A003-3", "most that waits, of equation 2", paper=0.946, at_least=0.80, at_most=1.05)
def most(runs):
    return runs.where(buffer=1)["most"]


@fig6.claim("A003-3", "with half of that room: user packets lost", paper="not said", at_least=1)
def half(runs):
    return runs.where(buffer=0.5)["lost"]


@fig6.figure
def figure(runs):
    figure, (axes,) = plots.panels(["what waits before the link from E to F"])
    table = run(1, 1)["queue of " + " > ".join(BOTTLENECK)]
    axes.plot(table["time_seconds"][::20], table["bytes"][::20] / 1e3, ".", markersize=1)
    axes.axhline(NEEDED / 1e3, label="equation 2")
    axes.set_xlabel("s")
    axes.set_ylabel("kB")
    axes.legend()
    return figure
