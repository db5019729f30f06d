"""Tables of what was compared, and verdicts."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import mean


@dataclass(frozen=True)
class Quantity:
    """Something a run tells, and how near it must come to a reference."""

    name: str
    take: Callable[[dict], float]
    form: str
    # Whether two values are near enough to each other; `None` where it is only shown.
    near: Callable[[float, float], bool] | None = None

    def far(self, ours, references):
        """The names of the references, given as values by name, that `ours` is not near enough to."""
        return [who for who, value in references.items() if value is not None and self.near and not self.near(ours, value)]

    def cell(self, value):
        """The value as it stands in a table."""
        return "" if value is None else self.form.format(value)


def within(share):
    """Within this share of the reference."""
    return lambda ours, other: abs(ours - other) <= share * abs(other)


def factor(most, both_below=0.0):
    """Within this factor of the reference, or both below a value that says "none to speak of"."""
    return lambda ours, other: max(ours, other) <= both_below or (
        0 < ours <= most * other and 0 < other <= most * ours)


def apart(most):
    """At most this far apart."""
    return lambda ours, other: abs(ours - other) <= most


GOODPUT = Quantity("goodput", lambda run: run["goodput"] / 1e6, "{:.2f} Mbit/s", within(0.02))
DROPS = Quantity("drops", lambda run: run["drops"], "{:.0f}", factor(2))
RECOVERIES = Quantity("recoveries", lambda run: run["recoveries"], "{:.0f}", within(0.25))
TIMEOUTS = Quantity("timeouts", lambda run: run["timeouts"], "{:.0f}")
QUEUE = Quantity("mean queue", lambda run: run["queue"] / 1000, "{:.1f} kB")
LOSS = Quantity("loss", lambda run: 100 * run["drops"] / run["arrivals"], "{:.2f} %", factor(2, both_below=0.05))
MARKED = Quantity("marked", lambda run: 100 * run["marks"] / run["packets"], "{:.1f} %")


def utilisation(rate):
    """Of a link of this rate."""
    return Quantity("utilisation", lambda run: 100 * run["throughput"] / rate, "{:.1f} %", within(0.02))


def queue_of(buffer):
    """Mean queue, to a tenth of the buffer."""
    return Quantity(QUEUE.name, QUEUE.take, QUEUE.form, apart(buffer / 10_000))


def average(runs, quantity):
    """The mean over seeds."""
    return mean(map(quantity.take, runs))


@dataclass
class Report:
    """What a part of the comparison says: on stdout as it comes, and kept for the page."""

    said: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def say(self, text):
        """A paragraph."""
        print(f"\n{text}", flush=True)
        self.said.append(text)

    def table(self, title, head, rows):
        """A table of markdown; none if it has no rows."""
        lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in [head, ["---"] * len(head), *rows]]
        if rows:
            self.say(f"**{title}**\n\n" + "\n".join(lines))

    def judged(self, name, quantity, ours, references, explained=()):
        """A row: ours beside references by name, and whether it is near enough to them.

        It fails if it is not, unless one of the causes in `explained`, which are values by name, when
        toggled makes it so.
        """
        known = {who: value for who, value in references.items() if value is not None}
        ratios = ", ".join(f"{ours / value:.2f}" for value in known.values() if value)
        far = quantity.far(ours, known)
        causes = [cause for cause, value in dict(explained).items() if not quantity.far(value, known)]
        verdict = "holds" if quantity.near and known else ""
        if far and causes:
            verdict = f"outside {', '.join(far)}: {causes[0]}"
        elif far:
            verdict = f"**outside** {', '.join(far)}"
            self.failed.append(f"{name}, {quantity.name}: {quantity.cell(ours)} beside {verdict.split('** ')[1]}")
        return [name, quantity.name, quantity.cell(ours), *map(quantity.cell, references.values()), ratios, verdict]

    def toggled(self, name, quantity, cause, ours, without, references):
        """A row about a cause: it is shown if with it and without it the verdicts differ."""
        shown = bool(quantity.far(ours, references)) != bool(quantity.far(without, references))
        if not shown:
            self.failed.append(f"{name}, {quantity.name}: not shown to come from: {cause}")
        cells = [quantity.cell(value) for value in (ours, without, *references.values())]
        return [name, quantity.name, cause, *cells, "shown" if shown else "**not shown**"]


def progress(text):
    """Says how far it is."""
    print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)
