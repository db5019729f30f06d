"""Between real hosts, trunks protect small transfers from a UDP flood and from greedy TCP.

Source: trunking, section 7.3, experiment TT3, figure 10; docs/ledger.md, A003-6 (web transfers
beside other traffic).
Differs: `_live.py` describes hosts and trunks; `fig10.py` lists the values that the paper does not
print. In place of the paper's ftp, one other site sends UDP at the rate of the whole bottleneck,
and another site has ten CUBIC connections. TCP is this kernel's, whose first window holds a whole
transfer. There are 20 clients. A run has 60 s and begins 5 s after the other traffic. A transfer
that is unfinished at the end counts with its time so far, which favours the case without trunks.

With trunks the router has four and a half times the buffer of equation 2, as in `fig9.py`. Here
trunks start on an idle link, and lost user packets count from the start on. With the buffer of
equation 2 itself, 35 packets were lost with two seeds. The case without trunks is run with both
buffers, since Drop-Tail fills any buffer. Claims compare with the better of both results. If the
machine sends the flood too slowly, the case without trunks improves, so the claims are harder to
meet.
"""

import json
import time

import numpy as np

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ...trunking._network import RATE
from ..postack._live import PATIENCE, Lab, line_of, missing, side_by_side
from ._live import SINK, lab_of, script, user_loss

live_web = Experiment(__file__, seeds=5, needs=missing)

CASES = {"a": 1, "b": 1, "roomy b": 4.5, "c": 4.5}
"""Web alone (a), web beside other traffic with two buffers (b), and a trunk for each site (c).

The numbers are the router's buffer as a multiple of that of equation 2.
"""

CLIENTS, SESSIONS = 20, 10
SETTLED, SECONDS = 5, 60
SIZE = 8192
TRUNKS = [{"vmss": 1500, "guarantee": 0}] * 3


@live_web.run()
def measure(seed: int) -> dict[str, float]:
    def run(case: str) -> dict[str, float]:
        with lab_of(TRUNKS, delay="35 ms", carried=case == "c", buffer=CASES[case]) as lab:
            server = script(lab, "host1", "serve")
            assert line_of(server), "the web server does not start"
            if case != "a":
                script(lab, "host2", "flood", SINK, str(RATE))
                lab.serve("host3", "cubic")
                for _ in range(SESSIONS):
                    lab.fetch("sink", "10.73.0.3", "--time", f"{SECONDS + 2 * SETTLED} s")
            time.sleep(SETTLED)
            begin, before = time.monotonic(), flooded(lab)
            words = ["fetch", "10.73.0.1", str(CLIENTS), str(SECONDS)]
            said, _ = script(lab, "sink", *words).communicate(timeout=SECONDS + PATIENCE)
            blast = (flooded(lab) - before) / (time.monotonic() - begin) / RATE
            lost = user_loss(lab)
            hangs = lab.hangs()
        answer = json.loads(said)
        took = 1000 * np.array(answer["took"] + answer["waiting"])
        return {
            "rate": len(answer["took"]) * SIZE / 1024 / SECONDS,
            "mean": took.mean(),
            "deviation": took.std(),
            "most": took.max(),
            "lost": lost,
            "blast": blast,
            "hangs": hangs,
        }

    return side_by_side(run, list(CASES))


def flooded(lab: Lab) -> int:
    """Bytes of frames that the flooding site has sent."""
    return int(lab.shell("host2", "cat /sys/class/net/eth0/statistics/tx_bytes"))


def ratio(runs: Table, column: str, better: np.ufunc = np.minimum) -> np.ndarray:
    """A column with trunks, divided by the better value of the two cases without trunks."""
    return runs[f"c {column}"] / better(runs[f"b {column}"], runs[f"roomy b {column}"])


@live_web.claim("A003-6", "live: throughput, trunks over none", paper=1.95, at_least=1.5)
def rate(runs: Table) -> Numbers:
    return ratio(runs, "rate", np.maximum)


@live_web.claim("A003-6", "live: mean delay, trunks over none", paper=0.52, at_most=0.7)
def mean(runs: Table) -> Numbers:
    return ratio(runs, "mean")


@live_web.claim("A003-6", "live: deviation of delay, trunks over none", paper=0.24,
                at_most=0.5)  # fmt: skip
def deviation(runs: Table) -> Numbers:
    return ratio(runs, "deviation")


@live_web.claim("A003-6", "live: longest delay, trunks over none", paper=0.25,
                at_most=0.5)  # fmt: skip
def most(runs: Table) -> Numbers:
    return ratio(runs, "most")


@live_web.claim("A003-6", "live: mean delay, web alone over trunks", paper=0.58, at_most=1)
def mean_alone(runs: Table) -> Numbers:
    return runs["a mean"] / runs["c mean"]


@live_web.claim("G4", "live: user packets lost on the path with trunks", paper=0, at_most=0)
def lost(runs: Table) -> Numbers:
    return runs["c lost"]
