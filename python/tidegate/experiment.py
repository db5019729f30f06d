"""Experiments of papers: their runs, their claims, and the verdicts.

An experiment is a file under ``experiments/<paper>/``, or under ``experiments/live/<paper>/`` if it
needs real hosts. Its id is ``<paper>/<file name>``. Its docstring begins with its result, and names
its ``Source:`` and, under ``Differs:``, every deviation with its reason::

    fig7 = Experiment(__file__, seeds=10)

    @fig7.run(allocation=["sequential", "fcfs"])
    def measure(seed: int, allocation: str) -> dict[str, float]:
        run = scenario(allocation).run(seed)
        return {"jain": jain(run.flows["goodput_bps"])}

    @fig7.claim("A000-6", "sequential service is unfair", paper=0.43, at_most=0.70)
    def sequential(runs):
        return runs.where(allocation="sequential")["jain"]
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from tidegate.result import Case, Table
from tidegate.statistics import MEAN, Estimate, Numbers, Statistic
from tidegate.sweep import cases

Run: TypeAlias = Callable[..., Mapping[str, float]]
"""Called with ``seed`` and a value for each variant; returns the measured numbers."""

FIRST_SEED = 1001
"""First seed of the runs that decide verdicts. The command ``plan`` uses lower seeds."""

Samples: TypeAlias = Callable[[Table], Numbers]
"""Computes a number for each seed from the table of all runs."""

Kind: TypeAlias = Literal["paper", "ours", "shown otherwise", "context"]
"""The origin of a claim.

``paper``: a number or an order that the paper prints. ``ours``: a claim of this project.
``shown otherwise``: a variant of a claim that is shown to fail, or an effect shown to be absent.
``context``: a number that explains others. It has no bounds, is not judged and never counts.
"""

KINDS: tuple[Kind, ...] = get_args(Kind)

AT_BOUND = "at the bound"
"""Marks the reason of a claim whose estimate is closer to a bound than the claim's margin."""


@dataclass(frozen=True)
class Claim:
    """A sentence about an experiment, with bounds for the measured number that decides it."""

    id: str
    """The full id: ``<paper key>/<experiment>#<claim>``."""
    text: str
    kind: Kind
    paper: float | str | None
    """The number that the paper prints, or an order in words; None if it prints nothing."""
    at_least: float
    at_most: float
    measure: Samples
    margin: float
    """Smallest distance from a bound that matters. A closer estimate is "at the bound"."""
    why: str | None
    """The reason, if the claim is known not to hold."""
    statistic: Statistic
    """Reduces the numbers of all seeds to the judged one."""

    def judge(self, runs: Table) -> Verdict:
        """Judges whether the statistic over the seeds satisfies the bounds with 95 % confidence."""
        return Verdict(self, self.statistic.estimate(self.measure(runs)))

    def skip(self, missing: str) -> Verdict:
        """The verdict of a claim that was not tried, because ``missing`` is missing."""
        return Verdict(self, Estimate(np.nan, np.nan, np.nan, 0), missing)

    @property
    def short(self) -> str:
        """The claim's id within the experiment."""
        return self.id.split("#")[1]

    @property
    def judged(self) -> bool:
        """True if the claim can fail. A claim of the kind ``context`` cannot."""
        return self.kind != "context"

    @property
    def tolerance_is_ours(self) -> bool:
        """True for a claim of the paper whose bounds the paper does not print.

        A bound counts as printed if it is a number that the paper prints. If the paper prints an
        order, the bounds 1 (of a ratio) and 0 (of a difference) count as printed.
        """
        printed = (0, 1) if isinstance(self.paper, str) else (self.paper,)
        bounds = (each for each in (self.at_least, self.at_most) if np.isfinite(each))
        return self.kind == "paper" and not all(each in printed for each in bounds)

    @property
    def bounds(self) -> str:
        """The bounds of the estimate, in words."""
        least = f"≥ {self.at_least:.4g}" if np.isfinite(self.at_least) else ""
        most = f"≤ {self.at_most:.4g}" if np.isfinite(self.at_most) else ""
        return f"{least} and {most}" if least and most else least or most


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim: its estimate from the runs, and the result of the comparison."""

    claim: Claim
    ours: Estimate
    """The estimate over the seeds with its interval; NaN if the claim was skipped."""
    missing: str | None = None
    """The missing requirement, if the claim was not tried."""

    @property
    def holds(self) -> bool:
        """True if the claim is judged and the whole interval is within its bounds."""
        claim, ours = self.claim, self.ours
        return claim.judged and claim.at_least <= ours.low and ours.high <= claim.at_most

    @property
    def at_bound(self) -> bool:
        """True if a bound is inside the interval, and both ends are within its margin."""
        low, high, margin = self.ours.low, self.ours.high, self.claim.margin
        bounds = (self.claim.at_least, self.claim.at_most)
        return any(low <= it <= high and max(it - low, high - it) < margin for it in bounds)

    @property
    def word(self) -> str:
        """``holds``, ``does not hold``, ``undecided`` (too few seeds), ``skipped`` or ``context``.

        If the estimate is at a bound, more seeds cannot move it away. So the claim does not hold.
        """
        if not self.claim.judged:
            return "context"
        if self.holds or self.missing:
            return "skipped" if self.missing else "holds"
        outside = self.ours.high < self.claim.at_least or self.ours.low > self.claim.at_most
        return "does not hold" if outside or self.at_bound else "undecided"

    @property
    def reason(self) -> str:
        """The known reason why the claim does not hold; empty if it holds."""
        if self.missing:
            return self.missing
        if self.holds or not self.claim.judged:
            return ""
        statistic, margin = self.claim.statistic.name, self.claim.margin
        near = f"its {statistic} is {AT_BOUND}, less than {margin:g} from it"
        parts = [near if self.at_bound else "", self.claim.why or ""]
        return "; ".join(filter(None, parts))

    def as_dict(self) -> dict[str, Any]:
        """The verdict as a dictionary, for JSON."""
        claim, ours = self.claim, self.ours
        return {
            "id": claim.id, "claim": claim.text, "kind": claim.kind, "paper": claim.paper,
            "tolerance_is_ours": claim.tolerance_is_ours, "statistic": claim.statistic.name,
            "ours": _number(ours.value), "low": _number(ours.low), "high": _number(ours.high),
            "holds": self.holds if claim.judged else None,
        }  # fmt: skip


@dataclass(eq=False)
class Experiment:
    """One figure or table of a paper."""

    file: str
    seeds: int = 10
    """Number of seeds for each combination of variants. The value 1 means that runs are
    deterministic."""
    more: Mapping[str, Mapping[Any, int]] = field(default_factory=dict)
    """Variants that need more seeds: for each parameter and value, the number of seeds."""
    needs: Callable[[], str | None] = lambda: None
    """Returns a requirement that this machine lacks for the experiment, or None if it lacks
    none."""
    id: str = field(init=False)
    """``<paper key>/<file name>``."""
    variants: Mapping[str, Sequence[Any]] = field(default_factory=dict, init=False)
    measure: Run = field(init=False)
    claims: list[Claim] = field(default_factory=list, init=False)
    draw: Callable[[Table], Any] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        path = Path(self.file)
        self.id = f"{path.parent.name}/{path.stem}"
        EXPERIMENTS[self.id] = self

    def run(self, **variants: Sequence[Any]) -> Callable[[Run], Run]:
        """Registers the decorated function as the run, called for each seed and each variant."""

        def register(measure: Run) -> Run:
            self.variants, self.measure = variants, measure
            return measure

        return register

    def claim(
        self,
        ref: str,
        text: str,
        *,
        paper: float | str | None = None,
        kind: Kind | None = None,
        at_least: float = -np.inf,
        at_most: float = np.inf,
        within: float | None = None,
        margin: float = 0,
        statistic: Statistic = MEAN,
        why: str | None = None,
    ) -> Callable[[Samples], Samples]:
        """Registers the decorated function as the measure of a claim: a number for each seed.

        Args:
            ref: the number of the claim in the ledger, such as ``A000-6``.
            text: the claim, in words.
            paper: the number or the order that the paper prints. Without it the claim is ours.
            kind: ``"shown otherwise"`` or ``"context"``. Other claims need no kind: with ``paper``
                they are the paper's, without it ours.
            at_least: the lowest permitted end of the confidence interval.
            at_most: the highest permitted end.
            within: the permitted relative distance from ``paper``, instead of the two bounds.
            margin: the smallest distance from a bound that matters. The claim does not hold if the
                estimate is shown to be closer to a bound.
            statistic: reduces the numbers of all seeds to the judged one.
            why: the known reason why the claim does not hold.
        """
        kind = kind or ("ours" if paper is None else "paper")
        if within is not None:
            if paper is None or isinstance(paper, str):
                raise ValueError(f"{self.id}: {text!r}: only a number can be within {within}")
            at_least, at_most = paper * (1 - within), paper * (1 + within)
        self._check(text, kind, paper, bounded=bool(np.isfinite([at_least, at_most]).any()))

        def register(measure: Samples) -> Samples:
            name = f"{self.id}#{measure.__name__.replace('_', '-')}"
            self.claims.append(
                Claim(
                    name, f"{ref}: {text}", kind, paper, at_least, at_most, measure, margin, why,
                    statistic,
                )
            )  # fmt: skip
            return measure

        return register

    def _check(self, text: str, kind: str, paper: float | str | None, bounded: bool) -> None:
        """Raises an error if the kind of a claim contradicts its arguments."""
        claim = f"{self.id}: the claim {text!r}"
        if kind not in KINDS:
            raise ValueError(f"{claim} has the kind {kind!r}; there are {', '.join(KINDS)}")
        if (kind, paper is None) in (("paper", True), ("ours", False)):
            raise ValueError(f"{claim} is the paper's if and only if `paper` says what it prints")
        if kind != "context" and not bounded:
            raise ValueError(f"{claim} has no bound and could not fail: make it context")
        if kind == "context" and bounded:
            raise ValueError(f"{claim} is context, which is not judged: it takes no bounds")

    def figure(self, draw: Callable[[Table], Any]) -> Callable[[Table], Any]:
        """Registers the decorated function, which draws a matplotlib figure from the runs."""
        self.draw = draw
        return draw

    @cached_property
    def missing(self) -> str | None:
        """The requirement that this machine lacks for a run."""
        return self.needs()

    def judge(self, runs: Table) -> list[Verdict]:
        """The verdicts on all claims."""
        if self.missing:
            return [claim.skip(self.missing) for claim in self.claims]
        return [claim.judge(runs) for claim in self.claims]

    @property
    def paper(self) -> str:
        """Key of the paper."""
        return self.id.split("/")[0]

    @property
    def name(self) -> str:
        """The experiment's id within the paper."""
        return self.id.split("/")[1]

    def cases(self, seeds: int | None = None, first: int = FIRST_SEED) -> list[Case]:
        """Each combination of variants with each seed. ``seeds`` replaces their number."""
        if self.missing:
            return []
        seeds = 1 if self.seeds == 1 else seeds
        most = seeds or max(self.seeds, *(max(it.values()) for it in self.more.values()), 0)
        every = cases(self.variants, range(first, first + most))
        return [it for it in every if it.seed < first + (seeds or self._seeds(it.parameters))]

    def _seeds(self, variant: Mapping[str, Any]) -> int:
        return max(self.seeds, *(it.get(variant[name], 0) for name, it in self.more.items()), 0)

    @property
    def title(self) -> str:
        """The first sentence of the module docstring."""
        return self.text.split("\n\n")[0].replace("\n", " ")

    @property
    def text(self) -> str:
        """The module docstring."""
        return inspect.getdoc(inspect.getmodule(self.measure)) or ""


def paired(over: Table, under: Table, column: str) -> np.ndarray:
    """The ratio of a column in two modes, for each seed. Both modes have the same seeds."""
    count = min(len(over), len(under))
    if not np.array_equal(over["seed"][:count], under["seed"][:count]):
        raise ValueError(f"{column}: the runs that are compared have other seeds")
    ratio: np.ndarray = over[column][:count] / under[column][:count]
    return ratio


EXPERIMENTS: dict[str, Experiment] = {}
"""All loaded experiments, by id."""


LIVE = "live"
"""The folder of experiments with real hosts. It is not a part of their ids."""


def root_of(path: Path) -> Path:
    """The folder ``experiments`` that contains the file of an experiment."""
    above = path.resolve().parents[1]
    return above.parent if above.name == LIVE else above


def files(root: Path, paper: str, name: str) -> list[Path]:
    """The files under ``root`` whose paper and name match these patterns, in alphabetical order."""
    return sorted(path for place in (root, root / LIVE) for path in place.glob(f"{paper}/{name}"))


def discover(root: Path) -> dict[str, Experiment]:
    """Loads every experiment under ``root``, in alphabetical order."""
    for path in files(root.resolve(), "*", "*.py"):
        if not path.name.startswith("_"):
            load(path)
    return dict(sorted(EXPERIMENTS.items(), key=lambda item: _natural(item[0])))


@cache
def load(path: Path) -> None:
    """Loads the experiment in a file. Its relative imports find modules in the same folder."""
    top = root_of(path).parent
    if str(top) not in sys.path:
        sys.path.insert(0, str(top))
    importlib.import_module(".".join(path.resolve().relative_to(top).with_suffix("").parts))


def run_case(file: str, id: str, seed: int, parameters: Mapping[str, Any]) -> Mapping[str, float]:
    """Makes one run of an experiment, in a process that may not have loaded it yet."""
    if id not in EXPERIMENTS:
        load(Path(file))
    try:
        return EXPERIMENTS[id].measure(seed=seed, **parameters)
    except Exception as error:
        error.add_note(f"in {id}, seed {seed}, {dict(parameters)}")
        raise


def _number(value: float) -> float | None:
    """Replaces NaN by None, because JSON has no NaN."""
    return value if np.isfinite(value) else None


def _natural(text: str) -> list[tuple[bool, int, str]]:
    """Sort key that places ``fig10`` after ``fig9``."""

    def parts() -> Iterator[tuple[bool, int, str]]:
        digits = ""
        for letter in f"{text} ":
            if letter.isdigit():
                digits += letter
                continue
            if digits:
                yield (False, int(digits), "")
                digits = ""
            yield (True, 0, letter)

    return list(parts())
