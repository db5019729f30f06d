#!/usr/bin/env python3
"""Writes test vectors: the segments that ns-2.35 sends under 256 random loss patterns.

usage: patterns.py [PATH]; ns-2.35 is the Debian package `ns2`.

Tahoe, Reno, Newreno and Sack1 each run 32 patterns with an ACK for every segment, and 32 with
delayed ACKs. The seed is fixed. Every run has its own pattern.
"""

import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count, groupby
from pathlib import Path
from random import Random
from typing import TypeAlias

VECTORS = Path(__file__).resolve().parents[2] / "crates/tcp/tests/vectors/ns2"
SEED = 2003
VARIANTS = ("Tahoe", "Reno", "Newreno", "Sack1")
EACH = 32
# Values that are not round, so that few events coincide. Rounding would decide the order of such
# events.
LINKS = ("7.3Mb", "97.317ms")
HEADER = """\
# Segments that ns-2.35 sends under random loss patterns: written by validate/ns2/patterns.py (seed 2003)
# with golden.tcl. Variant, window, queue, drop, numbers of dropped packets | each data segment sent:
# microseconds since the previous segment, `xN` for N such segments in a row, and the number of the
# segment if it is not the next number.
"""


def few(draw: Random) -> Iterable[int]:
    """Two to six single losses over several windows."""
    return draw.sample(range(2, 160), draw.randint(2, 6))


def many(draw: Random) -> Iterable[int]:
    """Independent losses: retransmissions are also lost, and timeouts follow."""
    chance = draw.uniform(0.02, 0.2)
    return [number for number in range(300) if draw.random() < chance]


def bursts(draw: Random) -> Iterable[int]:
    """Runs of losses, after which retransmissions may be lost."""
    lost = set()
    for _ in range(draw.randint(1, 3)):
        first = draw.randint(3, 120)
        lost |= {first + number for number in range(draw.randint(2, 12)) if draw.random() < 0.8}
    return lost


def copies(draw: Random) -> Iterable[int]:
    """A few losses, then losses of most segments one window later (the retransmissions)."""
    first = draw.randint(8, 60)
    lost = {first + draw.randint(0, 8) for _ in range(draw.randint(1, 4))}
    again = first + draw.randint(10, 30)
    return lost | {again + number for number in range(draw.randint(2, 16)) if draw.random() < 0.5}


def whole(draw: Random) -> Iterable[int]:
    """Loss of a whole window, then single losses in the slow start after the timeout."""
    first = draw.randint(5, 50)
    after = {first + 35 + draw.randint(0, 40) for _ in range(draw.randint(0, 5))}
    return set(range(first, first + draw.randint(20, 34))) | after


def repeated(draw: Random) -> Iterable[int]:
    """A run of losses that may last longer than the window.

    Retransmissions after timeouts, or SYNs, are lost too.
    """
    first = draw.randint(0, 40)
    return set(range(first, first + (draw.randint(3, 33) if first > 2 else draw.randint(1, 3))))


def queue(_draw: Random) -> Iterable[int]:
    """Losses of a short queue only."""
    return [99999]


def deep(draw: Random) -> Iterable[int]:
    """Losses with a queue so long that the timeout depends on the round-trip time."""
    first = draw.randint(250, 450)
    lost = {first + draw.randint(0, 30) for _ in range(draw.randint(1, 8))}
    return lost | {first + draw.randint(50, 250) for _ in range(draw.randint(5, 60))}


Pattern: TypeAlias = tuple[int | None, int, int, int, list[int]]
"""Segments to send (`None` for endless), window, queue limit, seconds, losses."""


def pattern(draw: Random, number: int) -> Pattern:
    """Draws the pattern with this number."""
    kinds = (few, many, bursts, copies, whole, repeated, queue, deep)
    kind = kinds[number % len(kinds)]
    window = draw.choice((8, 20, 28, 28, 60))
    limit = draw.randint(5, 25) if kind is queue or draw.random() < 0.2 else 1000
    if kind in (queue, deep):
        window = 1000
    lost = sorted(kind(draw))
    segments = None
    if kind is repeated or draw.random() < 0.4:
        # The last segment is near one of the losses.
        ends = [number for number in lost if 4 < number < 200] or [draw.randint(20, 120)]
        segments = max(3, draw.choice(ends) + draw.randint(-3, 6))
    return segments, window, limit, 30 if kind is repeated else 10, lost


def compact(lines: list[str]) -> str:
    """The times and numbers of the sent segments, in one line."""
    words: list[str] = []
    at = last = 0
    for line in lines:
        time, number = map(int, line.split())
        words.append(f"{time - at}" + (f":{number}" if number != last + 1 else ""))
        at, last = time, number
    runs = ((word, len(list(same))) for word, same in groupby(words))
    return " ".join(word if n == 1 else f"{word}x{n}" for word, n in runs)


def run(job: tuple[str, int]) -> tuple[str, int]:
    """Runs ns-2 and returns a line of the vectors.

    If events are simultaneous, draws another pattern.
    """
    variant, number = job
    for attempt in count():
        draw = Random(f"{SEED} {variant} {number} {attempt}")
        segments, window, limit, seconds, lost = pattern(draw, number)
        name = variant if segments is None else f"{variant}*{segments}"
        numbers = " ".join(map(str, lost))
        command = [
            "ns",
            "golden.tcl",
            name,
            str(window),
            str(limit),
            str(seconds),
            "drop",
            numbers,
            *LINKS,
        ]
        out = subprocess.run(
            command, cwd=VECTORS, check=True, capture_output=True, text=True
        ).stdout.splitlines()
        if out and "tie" not in out:
            return f"{name} {window} {limit} drop {numbers}|{compact(out)}\n", attempt
    raise AssertionError("attempts do not end")


def main() -> None:
    """Writes the vectors."""
    jobs = [
        (variant + delayed, number)
        for variant in VARIANTS
        for delayed in ("", "+delayed")
        for number in range(EACH)
    ]
    with ThreadPoolExecutor(2) as pool:
        lines, again = zip(*pool.map(run, jobs), strict=True)
    into = Path(sys.argv[1]) if len(sys.argv) > 1 else VECTORS / "patterns.txt"
    into.write_text(HEADER + "".join(lines))
    print(f"{len(lines)} patterns; drawn again: {sum(again)}")


if __name__ == "__main__":
    main()
