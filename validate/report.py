"""Tables of what was compared, and verdicts."""

import sys
from dataclasses import dataclass
from statistics import mean
from typing import Callable


@dataclass(frozen=True)
class Quantity:
    """Something a run tells, and how near it must come to a reference."""

    name: str
    take: Callable[[dict], float]
    form: str
    # Whether two values are near enough to each other; `None` where it is only shown.
    near: Callable[[float, float], bool] | None = None


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
LOSS = Quantity("loss", lambda run: 100 * run["drops"] / run["arrivals"], "{:.2f} %", factor(2, both_below=0.5))
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


def row(name, quantity, ours, references):
    """The cells of one quantity; `references` are values by name, `None` where there is none."""
    known = {who: value for who, value in references.items() if value is not None}
    ratios = [f"{ours / value:.2f}" if value else "" for value in known.values()]
    far = [who for who, value in known.items() if quantity.near and not quantity.near(ours, value)]
    verdict = "" if not quantity.near or not known else f"**outside** {', '.join(far)}" if far else "holds"
    cells = [quantity.form.format(value) if value is not None else "" for value in references.values()]
    return [name, quantity.name, quantity.form.format(ours), *cells, ", ".join(ratios), verdict], bool(far)


def table(title, head, rows):
    """Prints a table of markdown."""
    print(f"\n### {title}\n")
    for cells in [head, ["---"] * len(head), *rows]:
        print("| " + " | ".join(map(str, cells)) + " |")
    sys.stdout.flush()


def progress(text):
    """Says how far it is."""
    print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)
