"""In the simplified model, shares converge to rho_i / rho, whether weights decay or grow.

Source: integrated TCP, section 3.1, equation (12); docs/ledger.md, A002-5.
Differs: the paper calls the system stable if eps < 1 - rho, where "stable" means that all weights
decay to 0. The shares converge in both cases, because the eigenvalue of the eigenvector rho is
greater than all others. With the paper's limits 1 and n, the weights stop at the lower limit. The
shares then end above the loads: a weight above 1 has the share rho_i / (1 - eps). In equation (11),
the decrease does not depend on the load. There, the largest share ends at its load without a
margin.

Equation (12) is `w_i' = 0.5 (rho_i sum(w) - w_i + eps w_i)`, or `w' = A w` with
`A = 0.5 (rho 1^T - (1 - eps) I)`. Its eigenvalues are `0.5 (rho + eps - 1)` with the eigenvector
rho, and `0.5 (eps - 1)` for all other eigenvectors.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import SHARE, Numbers

from ._adjust import BETA, CAUTION, EPSILON, MOST
from ._load import E1, E3

ode = Experiment(__file__)

LOADS = {name: np.array([it.load for it in own]) for name, own in (("E1", E1), ("E3", E3))}

TIME, STEPS = 60.0, 6_000
"""Length of a run in mean times between two updates of a weight, and number of its steps."""

GROWING = 0.1
"""Excess of eps over 1 - rho in the case "grows"."""

CASES = {
    f"{name}, {kind}": (name, kind)
    for name in LOADS
    for kind in ("decays", "grows", "limits", "(11)")
}

LIMITED = ("limits", "(11)")
"""Kinds whose weights stay within 1 and n."""

FIRST, LAST = 5.0, 15.0
"""Times between which the rate of convergence is measured, in the same unit."""


def matrix(loads: np.ndarray, epsilon: float) -> np.ndarray:
    """The matrix A of equation (12)."""
    count = len(loads)
    return 0.5 * (np.outer(loads, np.ones(count)) - (1 - epsilon) * np.eye(count))


def solve(
    loads: np.ndarray, kind: str, start: np.ndarray, time: float = TIME
) -> tuple[np.ndarray, np.ndarray]:
    """Times and weights, solved by the fourth-order Runge-Kutta method."""
    epsilon, step = epsilon_of(kind, loads), time / STEPS
    a = matrix(loads, epsilon)

    def change(w: np.ndarray) -> np.ndarray:
        if kind != "(11)":
            return a @ w
        lack = loads * w.sum() - w
        return np.where(lack > 0, CAUTION * (lack + epsilon * w), -BETA * w)

    weights, w = [start], start
    for _ in range(STEPS):
        k1 = change(w)
        k2 = change(w + step / 2 * k1)
        k3 = change(w + step / 2 * k2)
        k4 = change(w + step * k3)
        w = w + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        if kind in LIMITED:
            w = np.clip(w, 1.0, MOST)
        weights.append(w)
    return np.linspace(0, time, STEPS + 1), np.array(weights)


def epsilon_of(kind: str, loads: np.ndarray) -> float:
    """The paper's eps; in the case "grows", an eps above 1 - rho."""
    return 1 - loads.sum() + GROWING if kind == "grows" else EPSILON


def start_of(seed: int, count: int) -> np.ndarray:
    """Random weights between 1 and n."""
    return np.random.default_rng(seed).uniform(1, MOST, count)


@ode.run(case=list(CASES))
def measure(seed: int, case: str) -> dict[str, float]:
    name, kind = CASES[case]
    loads = LOADS[name]
    rho, epsilon = loads.sum(), epsilon_of(kind, loads)
    time, weights = solve(loads, kind, start_of(seed, len(loads)))
    shares = weights / weights.sum(axis=1, keepdims=True)
    away = np.abs(shares - loads / rho).max(axis=1)
    first, last = np.searchsorted(time, [FIRST, LAST])
    found = np.sort(np.linalg.eigvals(matrix(loads, epsilon)).real)
    expected = np.sort([0.5 * (rho + epsilon - 1)] + [0.5 * (epsilon - 1)] * (len(loads) - 1))
    size = np.linalg.norm(weights, axis=1)
    return {
        "eigenvalues": float(np.abs(found - expected).max()),
        "grows": float(size[-1] > size[STEPS // 2]),
        "away": float((np.abs(shares[-1] - loads / rho) / (loads / rho)).max()),
        "rate": float(np.log(away[first] / max(away[last], 1e-300)) / (LAST - FIRST) / (rho / 2)),
        "unequal": float(np.abs(shares[-1] * len(loads) - 1).max()),
        "margin": float((shares[-1] - loads).min()),
    }


def claim(text: str, case: str, column: str, **bounds: Any) -> None:
    """Adds a claim of A002-5 about one case."""

    def measured(runs: Table) -> Numbers:
        values: np.ndarray = runs.where(case=case)[column]
        return values

    measured.__name__ = f"{column}_{case.replace(', ', '_').strip(')').replace('(', '').lower()}"
    ode.claim("A002-5", f"{case}: {text}", **bounds)(measured)


for name in LOADS:
    claim("largest error of an eigenvalue", f"{name}, decays", "eigenvalues",
          paper="0.5 (rho + eps - 1), 0.5 (eps - 1), ...", at_most=1e-9)  # fmt: skip
    claim("eps < 1 - rho: seeds whose weights grow", f"{name}, decays", "grows",
          paper="stable", at_most=0.35, statistic=SHARE)  # fmt: skip
    claim("eps > 1 - rho: seeds whose weights grow", f"{name}, grows", "grows",
          paper="unstable", at_least=0.65, statistic=SHARE)  # fmt: skip
    for kind in ("decays", "grows"):
        claim("largest relative error of a share against rho_i / rho",
              f"{name}, {kind}", "away", at_most=0.01)  # fmt: skip
        claim("rate of convergence of the shares, over 0.5 rho", f"{name}, {kind}", "rate",
              at_least=0.95, at_most=1.05)  # fmt: skip
    claim("weights within 1 and n: least phi_i - rho_i at the end", f"{name}, limits", "margin",
          at_least=0.02)  # fmt: skip
    claim("weights within 1 and n: largest relative distance of a share from equal shares",
          f"{name}, limits", "unequal", kind="shown otherwise", at_least=0.1)  # fmt: skip
    claim("equation (11), weights within 1 and n: least phi_i - rho_i at the end",
          f"{name}, (11)", "margin", kind="shown otherwise", at_most=0.005)  # fmt: skip


@ode.figure
def figure(_runs: Table) -> Any:
    titles = {
        "decays": "eps < 1 - rho: weights decay", "grows": "eps > 1 - rho: weights grow",
        "limits": "weights within 1 and n", "(11)": "equation (11) and limits",
    }  # fmt: skip
    figure, panels = plots.panels([f"{name}, {it}" for name in LOADS for it in titles.values()], 4)
    cases = [(name, kind) for name in LOADS for kind in titles]
    for axes, (name, kind) in zip(panels, cases, strict=True):
        loads = LOADS[name]
        start = np.full(len(loads), MOST)
        time, weights = solve(loads, kind, start)
        shares = weights / weights.sum(axis=1, keepdims=True)
        for number, load in enumerate(loads):
            (line,) = axes.plot(time, shares[:, number], label=f"share {number + 1}")
            axes.axhline(load, linestyle=":", color=line.get_color(), linewidth=1)
        size = axes.twinx()
        size.plot(time, weights.sum(axis=1), color="gray", linewidth=1)
        size.set_ylabel("sum of the weights")
        axes.set_ylim(0, 0.8)
        axes.set_xlabel("time (updates); dotted: loads")
    panels[0].legend(fontsize="small")
    return figure
