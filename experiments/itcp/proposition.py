"""If sum(rho_i + eps) < 1, finitely many updates of the weights bring all shares above the loads.

Source: integrated TCP, section 3.1, proposition 1, figure 2, appendix B; docs/ledger.md, A002-8
(proposition 1 in random cases).
Differs: the model is the paper's. One connection changes at a time, chosen at random among those
that may change. Increases know the exact difference of share and load, as the proof assumes.
Decreases may go below 1 (assumption iv); the case "limit" has the paper's lower limit of 1.

In a state in which no weight may change, one share is below its load although its weight is the
largest, and all other shares are below rho_j + eps. Such a state requires rho + (N - 1) eps >= 1.
The proposition therefore also holds under the weaker condition rho + (N - 1) eps < 1.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import SHARE, Numbers

from ._adjust import BETA, CAUTION, EPSILON, MOST
from ._load import E1, E3

proposition = Experiment(__file__)

TRIED = 100
"""Number of random loads and weights per seed. Ten seeds make 1,000 searches."""

UPDATES = 2_000
"""A search that takes more updates counts as failed."""

FOUR = [it.load for it in E3]

LEAST_LOAD = 0.02
"""The least load of a connection. A smaller load would need a weight below 1."""


def updates(
    loads: list[float], weights: list[float], epsilon: float, chance: Random, least: float = 0.0
) -> Iterator[tuple[int, list[float]]]:
    """Yields the changed connection and all weights after each update, until none may change.

    Connections with a share below their load increase first. If none can increase, connections with
    a share of rho_i + eps or more decrease.
    """
    w = list(weights)
    while True:
        total = sum(w)
        lacking = [n for n, load in enumerate(loads) if w[n] / total <= load]
        if not lacking:
            return
        able = [n for n in lacking if w[n] < MOST]
        if able:
            n = chance.choice(able)
            lack = loads[n] * total - w[n]
            w[n] = min(MOST, w[n] + CAUTION * (lack + epsilon * w[n]))
        else:
            rich = [n for n, load in enumerate(loads)
                    if w[n] / total >= load + epsilon and w[n] > least]  # fmt: skip
            if not rich:
                return
            n = chance.choice(rich)
            w[n] = max(least, w[n] * (1 - BETA))
        yield n, list(w)


def search(
    loads: list[float], weights: list[float], epsilon: float, chance: Random, least: float = 0.0
) -> tuple[bool, int, float]:
    """Returns true if all shares end above their loads, the number of updates, and a check value.

    The check value, for lemma 2, is the largest `phi_i' - (rho_i + eps)` after an increase.
    """
    count, excess, w = 0, -1.0, list(weights)
    for n, after in updates(loads, weights, epsilon, chance, least):
        if after[n] > w[n]:
            excess = max(excess, after[n] / sum(after) - loads[n] - epsilon)
        count, w = count + 1, after
        if count == UPDATES:
            break
    total = sum(w)
    reached = all(each / total > load for each, load in zip(w, loads, strict=True))
    return reached, count, excess


def random_case(case: str, chance: Random) -> tuple[list[float], list[float], float]:
    """Random loads and weights. Their eps is below the condition's limit, as in E3, or above."""
    if case == "E3":
        return FOUR, [chance.uniform(1, MOST) for _ in FOUR], EPSILON
    count = chance.randint(2, 8)
    rho = chance.uniform(LEAST_LOAD * count, 0.95)
    parts = [-np.log(1 - chance.random()) for _ in range(count)]
    spare = rho - LEAST_LOAD * count
    loads = [LEAST_LOAD + spare * it / sum(parts) for it in parts]
    weights = [chance.uniform(1, MOST) for _ in loads]
    if case == "beyond":
        return loads, weights, chance.uniform(1, 2) * (1 - rho) / (count - 1)
    return loads, weights, chance.uniform(0.01, 0.99) * (1 - rho) / count


@proposition.run(case=["within", "limit", "E3", "beyond"])
def measure(seed: int, case: str) -> dict[str, float]:
    chance = Random(f"{seed} {case}")
    results = []
    for _ in range(TRIED):
        loads, weights, epsilon = random_case(case, chance)
        least = 1.0 if case == "limit" else 0.0
        results.append(search(loads, weights, epsilon, chance, least))
    reached, counts, excess = zip(*results, strict=True)
    return {
        "reached": float(np.mean(reached)), "all": float(all(reached)),
        "updates": float(max(counts)), "excess": float(max(excess)),
    }  # fmt: skip


@proposition.claim(
    "A002-8", "sum(rho_i + eps) < 1: seeds in which all 100 searches reach phi_i > rho_i for all i",
    paper="in finite time", at_least=0.65, statistic=SHARE,
)  # fmt: skip
def reached(runs: Table) -> Numbers:
    return runs.where(case="within")["all"]


@proposition.claim("A002-8", "most updates that a search of a seed takes", kind="context")
def most(runs: Table) -> Numbers:
    return runs.where(case="within")["updates"]


@proposition.claim(
    "A002-8", "lemma 2: largest phi_i - (rho_i + eps) after an increase",
    paper="at most 0", at_most=0,
)  # fmt: skip
def lemma_2(runs: Table) -> Numbers:
    return runs.where(case="within")["excess"]


@proposition.claim(
    "A002-8", "E3, sum(rho_i + eps) = 1.08: seeds in which all 100 searches still reach it",
    at_least=0.65, statistic=SHARE,
)  # fmt: skip
def four(runs: Table) -> Numbers:
    return runs.where(case="E3")["all"]


@proposition.claim(
    "A002-8", "rho + (N - 1) eps > 1: searches that reach it", kind="shown otherwise", at_most=0.99
)
def beyond(runs: Table) -> Numbers:
    return runs.where(case="beyond")["reached"]


@proposition.claim(
    "A002-8", "sum(rho_i + eps) < 1, weights at least 1: searches that reach it", at_least=0.99
)
def limit(runs: Table) -> Numbers:
    return runs.where(case="limit")["reached"]


STARTS = ((2.0, 9.0), (10.0, 10.0), (1.5, 3.0), (9.0, 8.0))


@proposition.figure
def figure(_runs: Table) -> Any:
    loads = [it.load for it in E1]
    figure, (plane, four) = plots.panels(
        ["figure 2: the plane of both weights, E1", "E3: shares and loads"]
    )
    w = np.linspace(0, MOST, 2)
    steepest, flattest = (1 - loads[0]) / loads[0], loads[1] / (1 - loads[1])
    plane.fill_between(w, flattest * w, steepest * w, alpha=0.2, label="both shares above loads")
    for start in STARTS:
        chance = Random("figure")
        path = np.array([start, *(it for _, it in updates(loads, list(start), EPSILON, chance))])
        plane.plot(path[:, 0], path[:, 1], ".-", linewidth=1)
    plane.set_xlabel("weight 1")
    plane.set_ylabel("weight 2")
    plane.set_xlim(0, MOST + 0.5)
    plane.set_ylim(0, MOST + 0.5)
    plane.legend(fontsize="small")
    begin = [MOST] * len(FOUR)
    path = np.array([begin, *(it for _, it in updates(FOUR, begin, EPSILON, Random("figure")))])
    shares = path / path.sum(axis=1, keepdims=True)
    for number, load in enumerate(FOUR):
        (line,) = four.plot(shares[:, number], ".-", label=f"subnet {number + 1}")
        four.axhline(load, linestyle=":", color=line.get_color(), linewidth=1)
    four.set_xlabel("updates; dotted: loads")
    four.set_ylabel("share")
    four.set_ylim(bottom=0)
    four.legend(fontsize="small")
    return figure
