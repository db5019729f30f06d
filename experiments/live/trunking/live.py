"""Two trunks share a path of real hosts by their guarantees and VMSS, and lose no user packet.

Source: trunking, section 7.1, experiment TT1 (a), (b) and (c), figures 3 to 6; docs/ledger.md,
A003-1 (average rates) and A003-3 (no user packet lost).
Differs: `_live.py` describes hosts and trunks, and `_network.py` the paper's network. All cases run
at the same time, with 15 s of warm-up and 200 s of measurement, for five seeds; three seeds are as
long as the paper's 600 s. The router's queue and the rates of single seconds (A003-2) are not
recorded; `fig4` and `fig5` have them. Losses are counted from the start on.
"""

import time

import numpy as np

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ...trunking._network import GUARANTEES, KB, RATE, VMSS
from ..postack._live import missing, side_by_side
from ._live import SINK, lab_of, script, sent, user_loss

live = Experiment(__file__, seeds=5, needs=missing)

EQUAL = (1500, 1500)
CASES = {
    "a": (VMSS, GUARANTEES["a"], 1),
    "b": (VMSS, GUARANTEES["b"], 1),
    "c": (EQUAL, GUARANTEES["a"], 1),
    "half": (EQUAL, GUARANTEES["a"], 0.5),
}
"""For each case: VMSS, guarantees, and the router's buffer as a multiple of equation 2's."""

WARMUP, SECONDS = 15, 200
SITES = (1, 2)


@live.run()
def measure(seed: int) -> dict[str, float]:
    def run(case: str) -> dict[str, float]:
        vmss, guarantee, buffer = CASES[case]
        trunks = [
            {"vmss": size, "guarantee": part} for size, part in zip(vmss, guarantee, strict=True)
        ]
        with lab_of(trunks, delay="10 ms", buffer=buffer) as lab:
            for site in SITES:
                script(lab, f"host{site}", "flood", SINK, str(RATE))
            time.sleep(WARMUP)
            begin, before = time.monotonic(), [sent(lab, site) for site in SITES]
            time.sleep(SECONDS)
            took = time.monotonic() - begin
            rates = [
                (sent(lab, site) - it) / took / KB for site, it in zip(SITES, before, strict=True)
            ]
            lost = user_loss(lab)
            hangs = lab.hangs()
        return {"rate_1": rates[0], "rate_2": rates[1], "lost": lost, "hangs": hangs}

    return side_by_side(run, list(CASES))


def claim_rates(case: str, paper: tuple[int, int]) -> None:
    """Adds claims that both trunks have the rates of the paper."""
    for site in SITES:

        def measured(runs: Table, column: str = f"{case} rate_{site}") -> np.ndarray:
            return runs[column]

        measured.__name__ = f"rate_{case}_{site}"
        text = f"live, ({case}): trunk {site}, KB/s"
        live.claim("A003-1", text, paper=paper[site - 1], within=0.08)(measured)


claim_rates("a", (800, 400))
claim_rates("b", (600, 600))


@live.claim("A003-1", "live, (a): both trunks' rate over the link's", paper=1, at_least=0.97)
def link(runs: Table) -> Numbers:
    return (runs["a rate_1"] + runs["a rate_2"]) * KB / RATE


@live.claim("A003-3", "live, (c): user packets lost on the path, for each seed", paper=0, at_most=0)
def lost(runs: Table) -> Numbers:
    return runs["c lost"]


@live.claim("A003-3", "live, (a) and (b): user packets lost on the path", at_most=0)
def lost_of_shares(runs: Table) -> Numbers:
    return runs["a lost"] + runs["b lost"]


@live.claim(
    "A003-3",
    "live, half of equation 2's buffer: user packets lost",
    at_least=1,
    kind="shown otherwise",
)
def half(runs: Table) -> Numbers:
    return runs["half lost"]
