"""Four classes with guarantees at one bottleneck, with greedy and on-off flows in each.

Source: marking, section 5.2.
Differs: `_network.py` describes the network. The fractions in the paper's table of guarantees are
unreadable. Runs use 1/2 and 1/4; claims judge the runs with 1/2. The paper prints no packet length;
here packets have 500 B.
"""

from typing import Any

import numpy as np

from tidegate import Result, Scenario

from ._network import PAPER, STEP, WARMUP, flows, scenario, uniform

RATE, BUFFER = 45_000_000, 250_000
"""Rate of the bottleneck in bit/s, and its buffer in bytes."""

CLASSES = (1, 2, 3, 4)
GREEDY, ON_OFF = 3, {1: 5, 2: 10, 3: 15, 4: 20}
"""Number of greedy flows in each class, and of on-off flows by class."""

GREEDY_RTT, SHORTEST, LONGEST = 0.044, 0.044, 0.080
"""Base round-trip time of greedy flows, and the range for on-off flows, in seconds."""

BOUND, PROMISED = 0.010, 5_000_000
"""Delay bound of class 1 in seconds, and its guaranteed rate in bit/s."""

FACTORS = {"1/2": 0.5, "1/4": 0.25}
"""Possible values of the unreadable fractions, for ratios of delay and of loss."""

HEURISTIC: dict[str, Any] = {
    "kind": "heuristic", **PAPER, "interval": "100 ms", "threshold": "25000 B"
}  # fmt: skip

REGULATION: dict[str, dict[str, Any]] = {
    "JoBS": {},
    "regulated": {"marking": HEURISTIC},
    "one round": {"marking": {**HEURISTIC, "rounds": "next"}},
    "coverage": {"marking": "coverage"},
}
"""Fields of `[gateway]`: the paper's (a) JoBS alone, (b) JoBS with marking, (b) with one projected
round, and our coverage marking."""

RATE_WINDOW = 0.5
"""Length in seconds of the windows over which rates and delays are measured."""


def policy(regulation: str, factor: float, buffer: int = BUFFER) -> dict[str, Any]:
    """The policy file with the classes ``c1`` to ``c4``, one for each DS codepoint."""
    first = {"guarantee": f"{PROMISED} bit/s", "delay_bound": "10 ms", "loss_bound": "1 %"}
    classes: list[dict[str, Any]] = [{"name": "c1", **first}]
    for each in (2, 3):
        ratio = {"of": f"c{each + 1}", "factor": factor}
        classes.append({"name": f"c{each}", "delay_ratio": ratio, "loss_ratio": ratio})
    classes.append({"name": "c4"})
    policies = [
        {
            "name": f"p{each}",
            "match": {"dscp": each, "direction": "up"},
            "action": "pass",
            "class": f"c{each}",
        }
        for each in CLASSES
    ]
    gateway = {
        "rate": {"up": f"{RATE} bit/s"},
        "scheduler": {"kind": "jobs", "output": "arrivals"},
        "buffer": f"{buffer} B",
        **REGULATION[regulation],
    }
    return {"gateway": gateway, "class": classes, "policy": policies}


def network(
    regulation: str, factor: float, seed: int, *, profile: str = "ns2-2003", **times: Any
) -> Scenario:
    """The paper's network. All flows start at 0 s."""
    net = scenario(
        policy(regulation, factor), profile=profile, bound=f"{round(BOUND * 1e3)} ms", **times
    )
    for each in CLASSES:
        flows(net, f"greedy{each}", "greedy", [GREEDY_RTT] * GREEDY, dscp=each)
        rtts = uniform(seed, f"class {each}", ON_OFF[each], SHORTEST, LONGEST)
        flows(net, f"bursts{each}", "on-off", rtts, dscp=each)
    return net


def of_class(run: Result, each: int, what: str) -> list[np.ndarray]:
    """A column of the probe `passage`, for the greedy and for the on-off flows of a class."""
    series = run["passage edge up"]
    return [series[f"{kind}{each}_{what}"].astype(float) for kind in ("greedy", "bursts")]


def counted(run: Result, each: int, what: str) -> float:
    """Increase of a counter of a class after the warm-up."""
    passed = run["passages"]
    rows = [passed.where(group=f"{kind}{each}") for kind in ("greedy", "bursts")]
    return float(sum(row[what].sum() for row in rows))


def rates(run: Result, each: int) -> np.ndarray:
    """Rate of a class in each window of 0.5 s after the warm-up, bit/s."""
    sent: np.ndarray = np.sum(of_class(run, each, "departed_bytes"), axis=0)
    every, first = round(RATE_WINDOW / STEP), round(WARMUP / STEP)
    return np.diff(sent[first::every]) * 8 / RATE_WINDOW


def delays(run: Result, each: int) -> np.ndarray:
    """Mean delay of a class in each window of 0.5 s; NaN if its queue was empty at a sample.

    The mean is weighted by the packets of greedy and of on-off flows.
    """
    every, first = round(RATE_WINDOW / STEP), round(WARMUP / STEP)
    packets = [np.diff(it[first:]) for it in of_class(run, each, "departed_packets")]
    means = [np.nan_to_num(it[first + 1 :]) for it in of_class(run, each, "delay_mean_seconds")]
    waits: np.ndarray = np.sum(of_class(run, each, "waiting_bytes"), axis=0)[first + 1 :]
    windows = len(waits) // every
    shape = (windows, every)
    sums = np.sum([n * mean for n, mean in zip(packets, means, strict=True)], axis=0)
    sums, count = (it[: windows * every] for it in (sums, np.sum(packets, axis=0)))
    backlogged = (waits[: windows * every].reshape(shape) > 0).all(axis=1)
    mean = sums.reshape(shape).sum(axis=1) / np.maximum(count.reshape(shape).sum(axis=1), 1)
    return np.where(backlogged, mean, np.nan)


def briefly(run: Result, each: int) -> float:
    """Delay ratio of the next class to this class, over samples with both queues backlogged.

    With a marking, classes hardly ever have a queue during a whole window of 0.5 s.
    """
    first = round(WARMUP / STEP)
    both, means = np.array(True), []
    for number in (each, each + 1):
        waits: np.ndarray = np.sum(of_class(run, number, "waiting_bytes"), axis=0)[first:] > 0
        both = both & waits[1:] & waits[:-1]
    for number in (each, each + 1):
        packets = [np.diff(it[first:])[both] for it in of_class(run, number, "departed_packets")]
        delay = of_class(run, number, "delay_mean_seconds")
        waited = [
            n * np.nan_to_num(it[first + 1 :][both]) for n, it in zip(packets, delay, strict=True)
        ]
        means.append(np.sum(waited) / max(np.sum(packets), 1))
    return float(means[1] / means[0]) if means[0] else float("nan")


def measured(run: Result) -> dict[str, float]:
    """Delays and rates of class 1, losses, variation of rates, ratios of neighbouring classes."""
    row: dict[str, float] = {"dropped": float(run["passages"]["dropped_packets"].sum())}
    late = counted(run, 1, "late_packets") / counted(run, 1, "departed_packets")
    longest = run["passages"]["delay_max_seconds"]
    firsts = np.isin(run["passages"]["group"], ["greedy1", "bursts1"])
    row |= {"late": late, "longest": float(longest[firsts].max())}
    every, windows = {}, {}
    for each in CLASSES:
        every[each], windows[each] = rates(run, each), delays(run, each)
        row[f"loss_{each}"] = counted(run, each, "dropped_bytes") / counted(
            run, each, "arrived_bytes"
        )
        row[f"rate_{each}"] = float(every[each].mean())
        row[f"cv_{each}"] = float(every[each].std() / every[each].mean())
    row["least"] = float(every[1].min())
    row["short"] = float((every[1] < PROMISED).mean())
    row["sum"] = float(sum(it.mean() for it in every.values()) / RATE)
    for each in (2, 3):
        ratio = windows[each + 1] / windows[each]
        row[f"delays_{each}"] = float(np.nanmedian(ratio)) if np.isfinite(ratio).any() else np.nan
        lost = row[f"loss_{each}"]
        row[f"losses_{each}"] = row[f"loss_{each + 1}"] / lost if lost else np.nan
        row[f"briefly_{each}"] = briefly(run, each)
    row["cv"] = float(np.mean([row[f"cv_{each}"] for each in CLASSES]))
    return row
