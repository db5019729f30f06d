"""Results of the simulator also hold between real hosts, with similar numbers.

Source: postack; docs/ledger.md, A001-1 to A001-4, A001-7 and A001-12 (rate, buffer, goodput,
compatibility, and agreement with the simulator).
Differs: `_live.py` describes labs of real hosts. Senders use Reno, CUBIC or BBR of this kernel;
four flows go up. Runs without loss have windows of 64 KiB, runs with 1 % of loss have windows
without a limit. Three cases run at the same time: a queue for each flow ("none"), ACKs held
("gate") and TCR ("tcr"). The published claims `#memory…` count 16 bytes for a held ACK; a record
now has 20.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

from ...postack._network import RATE, measured
from ._live import COUNTERS, NOT_SCALED, WINDOW, bulk, hosts, lacks, missing, side_by_side

live = Experiment(__file__, seeds=14, needs=missing)

CONTROLS = ["reno", "cubic", "bbr"]
SHOWN = ["none", "gate", "tcr"]
LOSSES = [0, 1]


@live.run(where=["simulated", "live"], congestion=CONTROLS, loss=LOSSES)
def measure(seed: int, where: str, congestion: str, loss: float) -> dict[str, float]:
    tcp = {"congestion": congestion, "pacing": congestion == "bbr", **({} if loss else WINDOW)}

    def run(ack_control: str) -> dict[str, float]:
        net = hosts(ack_control, loss=loss, tcp=tcp, seconds=(6, 30 if loss else 15))
        net.tables["seed"] = seed
        if where == "live":
            return bulk(net, congestion=congestion, setup="" if loss else NOT_SCALED)
        net.traffic("bulk", "greedy", "near", "far", flows=4)
        return {**dict.fromkeys(COUNTERS.values(), 0), "hangs": 0, **measured(net.run(seed))}

    if where == "live" and lacks(congestion):
        raise RuntimeError(f"this kernel has no {congestion}")

    return side_by_side(run, SHOWN)


def farthest(columns: Iterable[np.ndarray], point: float) -> np.ndarray:
    """For each seed, the value that is farthest from a point."""
    values = np.array([np.asarray(column) for column in columns])
    at = np.abs(values - point).argmax(axis=0)
    return values[at, np.arange(values.shape[1])]


def cells(
    runs: Table, loss: float, where: str = "live", controls: Sequence[str] = CONTROLS
) -> list[Table]:
    """The runs of each congestion control."""
    return [runs.where(where=where, congestion=it, loss=loss) for it in controls]


def of_simulated(
    runs: Table, loss: float, congestion: str, ack_controls: Sequence[str] = SHOWN
) -> np.ndarray:
    """Live goodput over the simulator's, for the ACK control with the greatest difference."""
    real, virtual = (cells(runs, loss, it, [congestion])[0] for it in ("live", "simulated"))
    pairs = [real[f"{it} goodput"] / virtual[f"{it} goodput"] for it in ack_controls]
    return farthest(pairs, 1)


def buffer(cell: Table, column: str = "data") -> np.ndarray:
    """The queue with ACKs held, divided by the data in a queue for each flow."""
    return cell[f"gate {column}"] / cell["none data"]


def apart(runs: Table, congestion: str) -> np.ndarray:
    """The live ratio of the queues minus the simulated ratio."""
    real, virtual = (cells(runs, 0, it, [congestion])[0] for it in ("live", "simulated"))
    return buffer(real) - buffer(virtual)


def filled(runs: Table, controls: Sequence[str]) -> list[np.ndarray]:
    """Rate without loss over the policy's rate, for each congestion control and ACK control."""
    return [cell[f"{it} rate"] / RATE for cell in cells(runs, 0, controls=controls) for it in SHOWN]


def over(cell: Table, ack_control: str, column: str = "goodput") -> np.ndarray:
    return cell[f"gate {column}"] / cell[f"{ack_control} {column}"]


def more(runs: Table, loss: float, *names: str) -> np.ndarray:
    """Counters with the gate minus those with a queue for each flow, summed over all controls."""
    return sum(
        cell[f"gate {it}"] - cell[f"none {it}"] for cell in cells(runs, loss) for it in names
    )


@live.claim("A001-12", "Reno: live goodput over the simulator's", at_least=0.95, at_most=1.05)
def agree_reno(runs: Table) -> Numbers:
    return of_simulated(runs, 0, "reno")


@live.claim("A001-12", "CUBIC: live goodput over the simulator's", at_least=0.95, at_most=1.05)
def agree_cubic(runs: Table) -> Numbers:
    return of_simulated(runs, 0, "cubic")


@live.claim("A001-12", "BBR: live goodput over the simulator's", at_least=0.95, at_most=1.05)
def agree_bbr(runs: Table) -> Numbers:
    return of_simulated(runs, 0, "bbr")


@live.claim(
    "A001-12",
    "1 %, Reno, gate: live goodput over the simulator's",
    at_least=0.95,
    at_most=1.05,
)
def agree_lossy_reno(runs: Table) -> Numbers:
    return of_simulated(runs, 1, "reno", ["gate"])


@live.claim(
    "A001-12", "1 %, Reno, TCR: live goodput over the simulator's", at_least=0.95, at_most=1.05
)
def agree_lossy_tcr(runs: Table) -> Numbers:
    return of_simulated(runs, 1, "reno", ["tcr"])


@live.claim(
    "A001-12",
    "1 %, Reno, a queue for each flow: live goodput over the simulator's",
    at_least=0.95,
    at_most=1.05,
)
def agree_lossy_none(runs: Table) -> Numbers:
    return of_simulated(runs, 1, "reno", ["none"])


@live.claim(
    "A001-12",
    "1 %, CUBIC, gate: live goodput over the simulator's",
    at_least=0.95,
    at_most=1.05,
)
def agree_lossy_cubic(runs: Table) -> Numbers:
    return of_simulated(runs, 1, "cubic", ["gate"])


@live.claim(
    "A001-12", "1 %, CUBIC, TCR: live goodput over the simulator's", at_least=0.95, at_most=1.05
)
def agree_lossy_cubic_tcr(runs: Table) -> Numbers:
    return of_simulated(runs, 1, "cubic", ["tcr"])


@live.claim(
    "A001-12",
    "1 %, CUBIC, a queue for each flow: live goodput over the simulator's",
    at_least=0.95,
    at_most=1.05,
)
def agree_lossy_cubic_none(runs: Table) -> Numbers:
    return of_simulated(runs, 1, "cubic", ["none"])


@live.claim(
    "A001-12",
    "1 %, BBR, gate: live goodput over the simulator's",
    at_least=0.95,
    at_most=1.05,
)
def agree_lossy_bbr(runs: Table) -> Numbers:
    return of_simulated(runs, 1, "bbr", ["gate"])


@live.claim(
    "A001-12", "Reno: ratio of queued data, live minus simulated", at_least=-0.02, at_most=0.02
)
def apart_reno(runs: Table) -> Numbers:
    return apart(runs, "reno")


@live.claim(
    "A001-12", "CUBIC: ratio of queued data, live minus simulated", at_least=-0.02, at_most=0.02
)
def apart_cubic(runs: Table) -> Numbers:
    return apart(runs, "cubic")


@live.claim(
    "A001-12",
    "BBR: ratio of queued data, live minus simulated",
    at_least=-0.02,
    at_most=0.02,
    margin=0.01,
    why="the difference is in a queue for each flow: the simulator's BBR queues 46 kB there, and "
    "Linux's BBR 50 to 66 kB with fourteen seeds. The cause is unknown. With ACKs held both agree",
)
def apart_bbr(runs: Table) -> Numbers:
    return apart(runs, "bbr")


@live.claim(
    "A001-1",
    "live: throughput over the policy's rate, worst of all",
    at_least=0.98,
    at_most=1.02,
    why="the worst case is BBR, with TCR in nine seeds and with the gate in five. BBR "
    "requests less than the rate, in the simulator too. For 0.2 s in ten, each "
    "connection has only four packets in flight (ProbeRTT), and this happens twice in "
    "the 15 s that count. A queue for each flow has 0.982 of the rate, the gate 0.981 "
    "and TCR 0.978. The gate and TCR leave no queue that fills the link meanwhile. Reno "
    "and CUBIC fill the rate in all three cases (`#rate-filling`)",
)
def rate(runs: Table) -> Numbers:
    return farthest(filled(runs, CONTROLS), 1)


@live.claim(
    "A001-1", "live, Reno and CUBIC: throughput over the policy's rate, worst of all",
    at_least=0.98, at_most=1.02,
)  # fmt: skip
def rate_filling(runs: Table) -> Numbers:
    return farthest(filled(runs, CONTROLS[:2]), 1)


@live.claim("A001-1", "live: Jain index, worst of all", at_least=0.98)
def jain(runs: Table) -> Numbers:
    return farthest([cell[f"{it} jain"] for cell in cells(runs, 0) for it in SHOWN], 1)


@live.claim("A001-1", "live, 1 %: Jain index with the gate, worst of all", at_least=0.97)
def jain_lossy(runs: Table) -> Numbers:
    return farthest([cell["gate jain"] for cell in cells(runs, 1)], 1)


@live.claim("A001-2", "live, Reno and CUBIC: queued data, relative to a queue for each flow",
            paper=0.04, at_most=0.03)  # fmt: skip
def data(runs: Table) -> Numbers:
    return farthest([buffer(it) for it in cells(runs, 0, controls=CONTROLS[:2])], 0)


@live.claim("A001-2", "live, Reno and CUBIC: queued data and held ACKs, relative to the same",
            paper=0.04, at_most=0.04)  # fmt: skip
def memory(runs: Table) -> Numbers:
    return farthest([buffer(it, "memory") for it in cells(runs, 0, controls=CONTROLS[:2])], 0)


@live.claim(
    "A001-2",
    "live, BBR: queued data and held ACKs, relative to a queue for each flow",
    at_most=0.06,
    why="the queue for each flow is smaller: BBR paces and does not fill its window, so that 50 to "
    "80 kB wait in the queue instead of Reno's 206 kB. The gate holds no more of BBR than of Reno "
    "(`#memory-bbr-of-reno`)",
)
def memory_bbr(runs: Table) -> Numbers:
    return buffer(cells(runs, 0, controls=["bbr"])[0], "memory")


@live.claim(
    "A001-2",
    "live, BBR: queued data and held ACKs, relative to Reno in a queue for each flow",
    at_most=0.04,
)
def memory_bbr_of_reno(runs: Table) -> Numbers:
    reno, bbr = cells(runs, 0, controls=["reno", "bbr"])
    return bbr["gate memory"] / reno["none data"]


@live.claim("A001-3", "live, 1 %, Reno: goodput, gate over TCR", paper=1.1, at_least=1.08)
def tcr_reno(runs: Table) -> Numbers:
    return over(cells(runs, 1)[0], "tcr")


@live.claim("A001-3", "live, 1 %, CUBIC: goodput, gate over TCR", paper=1.1, at_least=1.08)
def tcr_cubic(runs: Table) -> Numbers:
    return over(cells(runs, 1)[1], "tcr")


@live.claim(
    "A001-4",
    "live: goodput over that of a queue for each flow, farthest from 1",
    at_least=0.97,
    at_most=1.03,
)
def goodput(runs: Table) -> Numbers:
    return farthest([over(it, "none") for it in cells(runs, 0)], 1)


@live.claim(
    "A001-4",
    "live, 1 %: goodput over that of a queue for each flow, farthest from 1",
    at_least=0.97,
    at_most=1.03,
)
def goodput_lossy(runs: Table) -> Numbers:
    return farthest([over(it, "none") for it in cells(runs, 1)], 1)


@live.claim("A001-7", "live: segments rejected as old (PAWS), with the gate", at_most=0)
def old(runs: Table) -> Numbers:
    return np.sum([cell["gate old"] for loss in LOSSES for cell in cells(runs, loss)], axis=0)


@live.claim("A001-7", "live: timeouts, gate minus a queue for each flow", at_most=0)
def timeouts(runs: Table) -> Numbers:
    return more(runs, 0, "timeouts", "spurious")


@live.claim(
    "A001-7",
    "live, 1 %: timeouts, gate minus a queue for each flow",
    at_most=0,
    margin=1,
    why="both have equally many timeouts, and runs cannot show that one of two equal numbers is at "
    "most the other. Some losses cost a timeout with any gateway. Timeouts without a loss would be "
    "the gateway's fault, and there are none (`#spurious-lossy`)",
)
def timeouts_lossy(runs: Table) -> Numbers:
    return more(runs, 1, "timeouts")


@live.claim(
    "A001-7", "live, 1 %: timeouts without a loss, gate minus a queue for each flow", at_most=0
)
def spurious_lossy(runs: Table) -> Numbers:
    return more(runs, 1, "spurious")


@live.claim(
    "A001-7", "live: segments that arrived twice, gate minus a queue for each flow", at_most=0
)
def twice(runs: Table) -> Numbers:
    return more(runs, 0, "twice")
