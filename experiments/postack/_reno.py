"""A model of Reno with whole packets within TCR's window, one round trip at a time.

Source: postack, ledger section 4 (the formula) and R001-3 (the window); RFC 5681, RFC 6582.
Differs: this model shares no code with the simulator. A loss halves the window, and its repair
takes a round trip. In other round trips the window grows by a packet, up to the window of TCR.
Random numbers select the lost packets. The ledger's formula 1/(1 + p W^2/8) makes four more
assumptions. Each can be switched on in the model:

- `even`: losses are evenly spaced.
- `fluid`: windows are real numbers that grow with each ACK up to W.
- `at_once`: the repair of a loss takes no time.
- `copies`: a retransmitted packet counts as goodput.
"""

from functools import cache
from random import Random

from ._network import FLOWS, RATE

WINDOW = RATE / FLOWS * 0.0522 / 8 / 1514
"""W: number of frames that a flow's share of the rate carries in one round trip, 10.8."""

SHOWN = 13
"""The window that TCR advertises: W plus one segment, in whole segments (R001-3)."""

ASSUMED = {"even": True, "fluid": True, "at_once": True, "copies": True}
"""All assumptions of the formula."""


def formula(percent: float) -> float:
    """Goodput within TCR's window over goodput without loss: 1/(1 + p W^2/8)."""
    return 1 / (1 + percent / 100 * WINDOW**2 / 8)


@cache
def reno(
    percent: float,
    seed: int = 1,
    even: bool = False,
    fluid: bool = False,
    at_once: bool = False,
    copies: bool = False,
    rounds: int = 20_000,
) -> float:
    """The same ratio for Reno with whole packets, over a number of round trips."""
    chance = Random(seed)
    most = WINDOW if fluid else SHOWN
    window, arrived, due, recovers = float(most), 0.0, 0.0, False
    for _ in range(rounds):
        sent = min(window + (0.5 if fluid and not recovers else 0), WINDOW)
        hit = sum(chance.random() < percent / 100 for _ in range(int(sent + chance.random())))
        due += sent * percent / 100
        lost = int(due) if even else hit
        due -= int(due)
        arrived += sent - (0 if copies else lost)
        if lost and not recovers:
            window = max(window / 2 if fluid else window // 2, 2)
        elif not recovers:
            window = min(window + 1, most)
        recovers = bool(lost) and not recovers and not at_once
    return arrived / rounds / WINDOW
