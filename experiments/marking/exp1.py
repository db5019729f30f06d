"""With predictive marking, a bottleneck that 240 flows share drops no packet and has a short queue.

Source: marking, section 5.1, figures 3, 4 and 5.
Differs: `_network.py` describes the network. A seventh algorithm, `coverage`, is ours. The packets
of one round trip of a flow are a round. For each flow, the paper predicts one round, until the last
flow's next round begins. Flows with short round trips send several rounds in this time. `reference`
and `heuristic` count all of them here. With one round they lose packets, which two claims show. In
the figure, goodput is the payload that applications received, in packets of 500 B; data after a
lost packet counts when the loss is repaired. Claims compare throughput and goodput by the number of
packets that arrive twice: retransmitted packets minus dropped ones. Markings have the same buffer
of 150,000 B as Drop-Tail.
"""

from typing import Any

import numpy as np

from tidegate import Result, Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import SHARE, Numbers

from ._network import PACKET, PAPER, PAYLOAD, STEP, WARMUP, WINDOW, flows, scenario, total, uniform

RATE, BUFFER = 10_000_000, 150_000
"""Rate of the bottleneck in bit/s, and its buffer in bytes."""

GREEDY, ON_OFF = 60, 180
SHORTEST, LONGEST = 0.024, 0.180
"""Least and greatest base round-trip time, in seconds."""

FIFO: dict[str, Any] = {"kind": "drop-tail", "limit": f"{BUFFER} B"}
RED: dict[str, Any] = {
    "kind": "red", "limit": f"{BUFFER} B", "packet": f"{PACKET} B", "min": "37500 B",
    "max": "75000 B", "max_p": "10 %", "weight": "0.2 %", "gentle": True, "wait": True,
    "ecn": True, "mark_up_to": "10 %",
}  # fmt: skip
"""The paper's parameters. As in ns-2, RED marks up to ``max_p`` and drops above it."""


def pi(a: str, b: str) -> dict[str, Any]:
    """PI with 160 samples a second and a target of 100,000 B."""
    return {
        "kind": "pi", "limit": f"{BUFFER} B", "packet": f"{PACKET} B", "target": "100000 B",
        "every": "6250 us", "gains": {"a": float(a), "b": float(b)}, "ecn": True,
    }  # fmt: skip


HEURISTIC: dict[str, Any] = {
    "kind": "heuristic",
    **PAPER,
    "interval": "1 s",
    "threshold": "12500 B",
}


def reference(**changed: Any) -> dict[str, Any]:
    """The reference algorithm with the paper's parameters, changed by ``changed``."""
    return {"queue": FIFO, "marking": {"kind": "reference", **PAPER, **changed}}


ALGORITHMS: dict[str, dict[str, Any]] = {
    "Drop-Tail": {"queue": FIFO},
    "RED": {"queue": RED},
    "PI approximate": {"queue": pi("0.2395e-4", "0.2388e-4")},
    "PI exact": {"queue": pi("1.643e-4", "1.628e-4")},
    "reference": reference(),
    "heuristic": {"queue": FIFO, "marking": HEURISTIC},
    "coverage": {"queue": FIFO, "marking": "coverage"},
}

LITERAL = {
    "reference, one round": reference(rounds=1),
    "heuristic, one round": {"queue": FIFO, "marking": {**HEURISTIC, "rounds": "next"}},
}
"""Algorithms that predict one round for each flow, as in the paper, even for a short round trip."""

SWEPT = {
    **{f"reference, K = {k}": reference(k=k) for k in (30, 100)},
    **{f"reference, a = {a}": reference(a=a) for a in (0.7, 0.8, 0.99)},
    "reference, K = 100, a = 0.7": reference(k=100, a=0.7),
}

BESIDE = ["Drop-Tail", "reference", "heuristic", "coverage"]
"""Algorithms that also run with the TCP profiles of today."""

CASES: dict[str, tuple[dict[str, Any], str]] = {
    **{name: (it, "ns2-2003") for name, it in (ALGORITHMS | LITERAL | SWEPT).items()},
    **{
        f"{name}, {profile}": (ALGORITHMS[name], profile)
        for name in BESIDE
        for profile in ("rfc", "linux")
    },
}
"""For each case: fields of `[gateway]` in addition to its rate, and the profile of the senders."""

exp1 = Experiment(__file__, more={"case": {"reference": 40, "reference, one round": 40}})


def network(case: str, seed: int, **times: Any) -> Scenario:
    """The paper's network with the algorithm and the senders of a case."""
    gateway, profile = CASES[case]
    rate = {"rate": {"up": f"{RATE} bit/s"}}
    net = scenario({"gateway": {**rate, **gateway}}, profile=profile, **times)
    for name, kind, count in (("greedy", "greedy", GREEDY), ("bursts", "on-off", ON_OFF)):
        rtts = uniform(seed, name, count, SHORTEST, LONGEST)
        flows(net, name, kind, rtts, start={"uniform": ["0 s", "5 s"]})
    return net


def series(run: Result) -> dict[str, np.ndarray]:
    """Loss, throughput, goodput and queue after the warm-up.

    Loss and rates have one value per window of 0.25 s; rates are fractions of the link's rate. The
    queue is in bytes, with one value per sample.
    """
    every = round(WINDOW / STEP)
    first = round(WARMUP / STEP)

    def gained(column: np.ndarray) -> np.ndarray:
        return np.diff(column[first::every])

    arrived, dropped = (gained(total(run, it)) for it in ("arrived_packets", "dropped_packets"))
    per_window = RATE / 8 * WINDOW
    received, read = (
        gained(np.sum([it for name, it in run[table].columns.items() if name.endswith("_bytes")],
                      axis=0).astype(float))
        for table in ("groups over time", "goodput over time")
    )  # fmt: skip
    return {
        "time": WARMUP + WINDOW * np.arange(1, len(arrived) + 1),
        "loss": dropped / arrived,
        "throughput": received / per_window,
        "goodput": read * PACKET / PAYLOAD / per_window,
        "queue": total(run, "waiting_bytes")[first:],
    }


@exp1.run(case=list(CASES))
def measure(seed: int, case: str) -> dict[str, float]:
    run = network(case, seed).run(seed)
    passed, over = run["passages"], series(run)
    arrived, dropped = (int(passed[it].sum()) for it in ("arrived_packets", "dropped_packets"))
    again = int(run.flows["retransmitted_segments"].sum()) - dropped
    return {
        "loss": float(dropped / arrived),
        "dropped": float(dropped),
        "marked": float(passed["marked_packets"].sum() / passed["departed_packets"].sum()),
        "throughput": float(over["throughput"].mean()),
        "twice": float(again / run.flows["received_packets"].sum()),
        "queue": float(passed["waiting_mean_bytes"].sum()),
        "deviation": float(over["queue"].std()),
        "longest": float(over["queue"].max()),
        "timeouts": float(run.flows["timeouts"].sum()),
    }


def of(runs: Table, case: str, column: str) -> np.ndarray:
    """A column of one case, with one number per seed."""
    values: np.ndarray = runs.where(case=case)[column]
    return values


def over(runs: Table, case: str, other: str, column: str) -> np.ndarray:
    """Ratio of a column in two cases, for each seed that both have."""
    count = min(len(of(runs, case, column)), len(of(runs, other, column)))
    return of(runs, case, column)[:count] / of(runs, other, column)[:count]


@exp1.claim("A004-1", "Drop-Tail: loss", paper=0.12, at_least=0.08, at_most=0.16)
def loss_drop_tail(runs: Table) -> Numbers:
    return of(runs, "Drop-Tail", "loss")


@exp1.claim(
    "A004-2", "reference: seeds without a drop from 10 s on", paper="none lost", at_least=0.9,
    statistic=SHARE,
)  # fmt: skip
def none_lost(runs: Table) -> Numbers:
    return (of(runs, "reference", "dropped") == 0).astype(float)


@exp1.claim(
    "A004-2", "reference with one round of each flow: loss", kind="shown otherwise", at_least=0.005
)
def loss_reference_literal(runs: Table) -> Numbers:
    return of(runs, "reference, one round", "loss")


@exp1.claim(
    "A004-2", "heuristic with one round of each flow: loss over Drop-Tail's",
    kind="shown otherwise", at_least=0.3,
)  # fmt: skip
def loss_heuristic_literal(runs: Table) -> Numbers:
    return over(runs, "heuristic, one round", "Drop-Tail", "loss")


@exp1.claim("A004-2", "heuristic: loss", paper="rarely any", at_most=0.005)
def loss_heuristic(runs: Table) -> Numbers:
    return of(runs, "heuristic", "loss")


@exp1.claim("A004-2", "heuristic: loss over Drop-Tail's", paper="rarely any", at_most=0.1)
def loss_heuristic_over(runs: Table) -> Numbers:
    return over(runs, "heuristic", "Drop-Tail", "loss")


@exp1.claim("A004-2", "coverage: loss over Drop-Tail's", at_most=0.1)
def loss_coverage_over(runs: Table) -> Numbers:
    return over(runs, "coverage", "Drop-Tail", "loss")


@exp1.claim("A004-2", "PI exact: loss", paper="most losses avoided", at_most=0.02)
def loss_pi_exact(runs: Table) -> Numbers:
    return of(runs, "PI exact", "loss")


@exp1.claim(
    "A004-2", "RED: loss over Drop-Tail's", paper="almost as much as Drop-Tail", at_least=0.5
)
def loss_red(runs: Table) -> Numbers:
    return over(runs, "RED", "Drop-Tail", "loss")


@exp1.claim(
    "A004-2", "PI approximate: loss over Drop-Tail's", paper="almost as Drop-Tail", at_least=0.5
)
def loss_pi_approximate(runs: Table) -> Numbers:
    return over(runs, "PI approximate", "Drop-Tail", "loss")


def claim_rates(name: str, paper: bool) -> None:
    """Adds claims that an algorithm uses the whole link, nearly all of it for new data."""
    key = name.replace(" ", "_").replace("-", "_").lower()
    printed: dict[str, Any] = {"paper": "about the link's rate"} if paper else {}

    def throughput(runs: Table) -> Numbers:
        return of(runs, name, "throughput")

    throughput.__name__ = f"throughput_{key}"
    exp1.claim("A004-3", f"{name}: throughput over the link's rate", at_least=0.97, **printed)(
        throughput
    )
    if name in ("PI exact", "reference", "heuristic", "coverage"):

        def twice(runs: Table) -> Numbers:
            return of(runs, name, "twice")

        twice.__name__ = f"twice_{key}"
        printed = {"paper": "goodput about throughput"} if paper else {}
        text = f"{name}: part of the throughput that arrives twice"
        exp1.claim("A004-3", text, at_most=0.01, **printed)(twice)


for each in ALGORITHMS:
    claim_rates(each, each != "coverage")


SHORT = (
    "both deviate by 16 to 19 kB. The mean queue of `reference` is 28 kB, a third of the mean "
    "queue of `heuristic`, so it is often empty"
)
ONE_TEST = (
    "this marking tests one sum, at the longest round trip. It permits any backlog that does not "
    "overflow the buffer by then, so the queue is about half full. `reference` tests each time "
    "slot, and marks at the peaks of the rounds before then. Neither loses the packets that "
    "Drop-Tail loses"
)


def claim_queue(name: str, paper: str | None, least: float, most: float) -> None:
    """Adds a claim about the mean queue of one algorithm, in bytes."""

    def queue(runs: Table) -> Numbers:
        return of(runs, name, "queue")

    queue.__name__ = f"queue_{name.replace(' ', '_').replace('-', '_').lower()}"
    text = f"{name}: mean queue, bytes"
    why = ONE_TEST if name in ("heuristic", "coverage") else None
    exp1.claim("A004-4", text, paper=paper, at_least=least, at_most=most, why=why)(queue)


claim_queue("Drop-Tail", "almost always full", 0.85 * BUFFER, np.inf)
claim_queue("RED", "about 75,000", 55_000, 95_000)
claim_queue("PI exact", "100,000", 80_000, 120_000)
claim_queue("reference", "about 40,000", 25_000, 60_000)
claim_queue("heuristic", "about 40,000", 25_000, 60_000)
claim_queue("coverage", None, 25_000, 60_000)


@exp1.claim(
    "A004-4", "deviation of the queue, reference over heuristic",
    paper="almost constant; oscillates", at_most=1, why=SHORT,
)  # fmt: skip
def steadier(runs: Table) -> Numbers:
    return over(runs, "reference", "heuristic", "deviation")


@exp1.claim("A004-4", "PI approximate: mean queue, bytes", kind="context")
def queue_pi_approximate(runs: Table) -> Numbers:
    return of(runs, "PI approximate", "queue")


def claim_swept(number: int, case: str) -> None:
    """Adds a claim about the loss with other parameters of the tracker."""

    def swept(runs: Table) -> Numbers:
        return of(runs, case, "loss")

    swept.__name__ = f"swept_{number}"
    exp1.claim("A004-5", f"{case}: loss", paper="almost identical", at_most=0.0005)(swept)


for number, each in enumerate(SWEPT):
    claim_swept(number, each)


FLOOR = (
    "240 senders with a least window of two segments keep 240 kB in flight. Buffer and path hold "
    "278 kB at most, and marks cannot make a window smaller"
)


def claim_beside(name: str, profile: str) -> None:
    """Adds a claim about the loss with senders that the paper does not have."""

    def beside(runs: Table) -> Numbers:
        return of(runs, f"{name}, {profile}", "loss")

    beside.__name__ = f"loss_{name.replace('-', '_').lower()}_{profile}"
    exp1.claim("A004-2, other senders", f"{name}, {profile}: loss", kind="context", why=FLOOR)(
        beside
    )


for each in BESIDE:
    for profile in ("rfc", "linux"):
        claim_beside(each, profile)


@exp1.figure
def figure(_runs: Table) -> Any:
    every = {name: series(network(name, 1).run(1)) for name in ALGORITHMS}
    figure, panels = plots.panels(list(every), columns=4)
    for axes, over in zip(panels, every.values(), strict=True):
        queue = over["queue"][:: round(WINDOW / STEP)]
        time = WARMUP + WINDOW * np.arange(len(queue))
        axes.plot(time, queue / BUFFER, label="queue, of the buffer", linewidth=1)
        axes.plot(over["time"], over["loss"], label="loss", linewidth=1)
        axes.plot(over["time"], over["goodput"], label="goodput, of the link", linewidth=1)
        axes.set_xlabel("time (s)")
        axes.set_ylim(0, 1.1)
    panels[0].legend(fontsize="small")
    return figure
