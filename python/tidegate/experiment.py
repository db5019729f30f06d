"""Experiments of papers: what is run, what the paper claims of it, and whether that holds.

An experiment is a file under ``experiments/<paper>/``. Its docstring begins with what it shows and
names its ``Source:`` and, under ``Differs:``, every deviation with its reason::

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
from typing import Any, TypeAlias

import numpy as np

from tidegate.result import Case, Table
from tidegate.statistics import Estimate
from tidegate.sweep import cases

Run: TypeAlias = Callable[..., Mapping[str, float]]
"""Called with ``seed`` and a value for each variant, returns what it measured."""

FIRST_SEED = 1001
"""Verdicts rest on seeds from here on; how many are needed is found out with those below."""

Samples: TypeAlias = Callable[[Table], Sequence[float]]
"""From all runs, a number for each seed."""


@dataclass(frozen=True)
class Claim:
    """A sentence about an experiment that measurements decide."""

    id: str
    """``<paper key>/<experiment>#<claim>``."""
    text: str
    paper: float | str
    """What the paper says, a number where it prints one."""
    at_least: float
    at_most: float
    measure: Samples
    margin: float
    """A mean less than this from a bound is at the bound; 0: no distance is too small to matter."""
    why: str | None
    """If it is known not to hold: the reason."""

    def judge(self, runs: Table) -> Verdict:
        """Whether the mean over the seeds is, to 95 % confidence, where the claim says."""
        return Verdict(self, Estimate.of(self.measure(runs)))

    def skip(self, missing: str) -> Verdict:
        """That it was not tried, for want of something."""
        return Verdict(self, Estimate(np.nan, np.nan, np.nan, 0), missing)

    @property
    def short(self) -> str:
        """Its id within the experiment."""
        return self.id.split("#")[1]

    @property
    def bounds(self) -> str:
        """Where the mean is if it holds, in words."""
        least = f"≥ {self.at_least:.4g}" if np.isfinite(self.at_least) else ""
        most = f"≤ {self.at_most:.4g}" if np.isfinite(self.at_most) else ""
        return f"{least} and {most}" if least and most else least or most


@dataclass(frozen=True)
class Verdict:
    """How a claim fared."""

    claim: Claim
    ours: Estimate
    """The mean over the seeds, and its interval; of what was not tried, no number."""
    missing: str | None = None
    """If it was not tried: what for."""

    @property
    def holds(self) -> bool:
        """Whether the whole interval is within the bounds."""
        return self.claim.at_least <= self.ours.low and self.ours.high <= self.claim.at_most

    @property
    def at_bound(self) -> bool:
        """Whether a bound is within the interval, and all of it less than the margin from there."""
        low, high, margin = self.ours.low, self.ours.high, self.claim.margin
        bounds = (self.claim.at_least, self.claim.at_most)
        return any(low <= it <= high and max(it - low, high - it) < margin for it in bounds)

    @property
    def word(self) -> str:
        """``holds``, ``does not hold``, ``undecided``: too few seeds to tell, or ``skipped``.

        A mean at a bound is not shown to be within, however many seeds there are: the claim
        does not hold.
        """
        if self.holds or self.missing:
            return "skipped" if self.missing else "holds"
        outside = self.ours.high < self.claim.at_least or self.ours.low > self.claim.at_most
        return "does not hold" if outside or self.at_bound else "undecided"

    @property
    def reason(self) -> str:
        """Why it does not hold, as far as it is known; nothing if it does."""
        if self.missing:
            return self.missing
        near = f"its mean is at the bound, less than {self.claim.margin:g} from it"
        parts = [near if self.at_bound else "", self.claim.why or ""]
        return "" if self.holds else "; ".join(filter(None, parts))

    def as_dict(self) -> dict[str, Any]:
        """For machines to read."""
        claim, ours = self.claim, self.ours
        return {
            "id": claim.id, "claim": claim.text, "paper": claim.paper, "ours": _number(ours.mean),
            "low": _number(ours.low), "high": _number(ours.high), "holds": self.holds,
        }  # fmt: skip


@dataclass(eq=False)
class Experiment:
    """One figure or table of a paper."""

    file: str
    seeds: int = 10
    """Of each combination of variants; 1: chance has no part in it, whoever asks for more."""
    more: Mapping[str, Mapping[Any, int]] = field(default_factory=dict)
    """Variants with more seeds than that, by parameter and value."""
    needs: Callable[[], str | None] = lambda: None
    """Says what a machine lacks on which it cannot be run: it is skipped there. None if nothing."""
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
        """Makes the decorated function what is run: for each seed and each variant."""

        def register(measure: Run) -> Run:
            self.variants, self.measure = variants, measure
            return measure

        return register

    def claim(
        self,
        ref: str,
        text: str,
        *,
        paper: float | str,
        at_least: float = -np.inf,
        at_most: float = np.inf,
        within: float | None = None,
        margin: float = 0,
        why: str | None = None,
    ) -> Callable[[Samples], Samples]:
        """Makes the decorated function the measure of a claim: a number for each seed.

        Args:
            ref: the acceptance number it decides, such as ``A000-6``.
            text: the claim, in words.
            paper: what the paper says.
            at_least: where the confidence interval of the mean may begin for the claim to hold.
            at_most: where it may end.
            within: instead of these: how far from ``paper`` it may be, as a fraction of it.
            margin: the smallest distance from a bound that matters. A mean that is shown to be
                nearer is at the bound, and the claim does not hold.
            why: if it does not hold: the reason, as far as it is known.
        """
        if within is not None:
            if isinstance(paper, str):
                raise ValueError(f"{self.id}: {text!r} cannot be within {within} of words")
            at_least, at_most = paper * (1 - within), paper * (1 + within)
        if not np.isfinite(at_least) and not np.isfinite(at_most):
            raise ValueError(f"{self.id}: the claim {text!r} has no bound and could not fail")

        def register(measure: Samples) -> Samples:
            name = f"{self.id}#{measure.__name__.replace('_', '-')}"
            self.claims.append(
                Claim(name, f"{ref}: {text}", paper, at_least, at_most, measure, margin, why)
            )
            return measure

        return register

    def figure(self, draw: Callable[[Table], Any]) -> Callable[[Table], Any]:
        """Makes the decorated function what draws the figure: a matplotlib one, from the runs."""
        self.draw = draw
        return draw

    @cached_property
    def missing(self) -> str | None:
        """What is missing here to run it."""
        return self.needs()

    def judge(self, runs: Table) -> list[Verdict]:
        """How each of its claims fared."""
        if self.missing:
            return [claim.skip(self.missing) for claim in self.claims]
        return [claim.judge(runs) for claim in self.claims]

    @property
    def paper(self) -> str:
        """Key of the paper."""
        return self.id.split("/")[0]

    @property
    def name(self) -> str:
        """Its id within the paper."""
        return self.id.split("/")[1]

    def cases(self, seeds: int | None = None, first: int = FIRST_SEED) -> list[Case]:
        """Every run there is to make; ``seeds`` instead of what the experiment says."""
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
        """The first sentence of the file."""
        return self.text.split("\n\n")[0].replace("\n", " ")

    @property
    def text(self) -> str:
        """What the file says of itself."""
        return inspect.getdoc(inspect.getmodule(self.measure)) or ""


EXPERIMENTS: dict[str, Experiment] = {}
"""All that have been loaded, by id."""


def discover(root: Path) -> dict[str, Experiment]:
    """Loads every experiment under ``root``, in order of their names."""
    for path in sorted(root.resolve().glob("*/*.py")):
        if not path.name.startswith("_"):
            load(path)
    return dict(sorted(EXPERIMENTS.items(), key=lambda item: _natural(item[0])))


@cache
def load(path: Path) -> None:
    """Loads the experiment in a file; relative imports find what stands beside it."""
    root = path.parents[1]
    if str(root.parent) not in sys.path:
        sys.path.insert(0, str(root.parent))
    importlib.import_module(f"{root.name}.{path.parent.name}.{path.stem}")


def run_case(file: str, id: str, seed: int, parameters: Mapping[str, Any]) -> Mapping[str, float]:
    """One run of an experiment, in a process that may not have loaded it yet."""
    if id not in EXPERIMENTS:
        load(Path(file))
    try:
        return EXPERIMENTS[id].measure(seed=seed, **parameters)
    except Exception as error:
        error.add_note(f"in {id}, seed {seed}, {dict(parameters)}")
        raise


def _number(value: float) -> float | None:
    """For JSON, which has no NaN."""
    return value if np.isfinite(value) else None


def _natural(text: str) -> list[tuple[bool, int, str]]:
    """Sorts ``fig10`` behind ``fig9``."""

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
