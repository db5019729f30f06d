"""Tables and verdicts of comparisons."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any, TypeAlias

Run: TypeAlias = Mapping[str, Any]
"""The results of a run: numbers by name."""

Near: TypeAlias = Callable[[float, float], bool]
"""Returns True if our value is close enough to another value."""

References: TypeAlias = Mapping[str, float | None]
"""Values of references by name; None for a missing value."""


@dataclass(frozen=True)
class Quantity:
    """A quantity, and its permitted distance from a reference."""

    name: str
    take: Callable[[Run], float]
    form: str
    # Returns True if two values are close enough; `None` for a quantity without a verdict.
    near: Near | None = None

    def far(self, ours: float, references: References) -> list[str]:
        """The names of the references from which `ours` is too far away."""
        return [
            who
            for who, value in references.items()
            if value is not None and self.near and not self.near(ours, value)
        ]

    def cell(self, value: float | None) -> str:
        """The value as text for a table."""
        return "" if value is None else self.form.format(value)


def within(share: float) -> Near:
    """Close enough: the difference is within this fraction of the reference."""
    return lambda ours, other: abs(ours - other) <= share * abs(other)


def factor(most: float, both_below: float = 0.0) -> Near:
    """Close enough: within this factor of the reference, or both below a negligible value."""
    return lambda ours, other: (
        max(ours, other) <= both_below or (0 < ours <= most * other and 0 < other <= most * ours)
    )


def apart(most: float) -> Near:
    """Close enough: the values differ by at most this amount."""
    return lambda ours, other: abs(ours - other) <= most


GOODPUT = Quantity("goodput", lambda run: run["goodput"] / 1e6, "{:.2f} Mbit/s", within(0.02))
DROPS = Quantity("drops", lambda run: run["drops"], "{:.0f}", factor(2))
RECOVERIES = Quantity("recoveries", lambda run: run["recoveries"], "{:.0f}", within(0.25))
TIMEOUTS = Quantity("timeouts", lambda run: run["timeouts"], "{:.0f}")
QUEUE = Quantity("mean queue", lambda run: run["queue"] / 1000, "{:.1f} kB")
LOSS = Quantity(
    "loss", lambda run: 100 * run["drops"] / run["arrivals"], "{:.2f} %", factor(2, both_below=0.05)
)
MARKED = Quantity("marked", lambda run: 100 * run["marks"] / run["packets"], "{:.1f} %")


def utilisation(rate: float) -> Quantity:
    """Utilisation: the used fraction of the link's rate."""
    return Quantity(
        "utilisation", lambda run: 100 * run["throughput"] / rate, "{:.1f} %", within(0.02)
    )


def queue_of(buffer: float) -> Quantity:
    """The mean queue. Close enough is a tenth of the buffer."""
    return Quantity(QUEUE.name, QUEUE.take, QUEUE.form, apart(buffer / 10_000))


def average(runs: Sequence[Run], quantity: Quantity) -> float:
    """The mean over seeds."""
    return mean(map(quantity.take, runs))


@dataclass
class Report:
    """The output of a comparison: printed at once, and kept for the page."""

    said: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Adds a paragraph."""
        print(f"\n{text}", flush=True)
        self.said.append(text)

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Adds a table of markdown. Without rows, adds nothing."""
        lines = [
            "| " + " | ".join(map(str, cells)) + " |"
            for cells in [head, ["---"] * len(head), *rows]
        ]
        if rows:
            self.say(f"**{title}**\n\n" + "\n".join(lines))

    def judged(
        self,
        name: str,
        quantity: Quantity,
        ours: float,
        references: References,
        explained: Mapping[str, float] | None = None,
    ) -> list[str]:
        """A row with our value, the references, and the verdict.

        A value that is too far away fails, unless the reversal of a cause brings it close enough.
        `explained` contains our value with each cause reversed.
        """
        known = {who: value for who, value in references.items() if value is not None}
        ratios = ", ".join(f"{ours / value:.2f}" for value in known.values() if value)
        far = quantity.far(ours, known)
        causes = [
            cause for cause, value in (explained or {}).items() if not quantity.far(value, known)
        ]
        verdict = "holds" if quantity.near and known else ""
        if far and causes:
            verdict = f"outside {', '.join(far)}: {causes[0]}"
        elif far:
            verdict = f"**outside** {', '.join(far)}"
            self.failed.append(
                f"{name}, {quantity.name}: {quantity.cell(ours)} beside {verdict.split('** ')[1]}"
            )
        return [
            name,
            quantity.name,
            quantity.cell(ours),
            *map(quantity.cell, references.values()),
            ratios,
            verdict,
        ]

    def toggled(
        self,
        name: str,
        quantity: Quantity,
        cause: str,
        ours: float,
        without: float,
        references: References,
    ) -> list[str]:
        """A row about a supposed cause. The cause is shown if the verdict changes without it."""
        shown = bool(quantity.far(ours, references)) != bool(quantity.far(without, references))
        if not shown:
            self.failed.append(f"{name}, {quantity.name}: not shown to come from: {cause}")
        cells = [quantity.cell(value) for value in (ours, without, *references.values())]
        return [name, quantity.name, cause, *cells, "shown" if shown else "**not shown**"]


def progress(text: str) -> None:
    """Prints progress on stderr."""
    print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)
