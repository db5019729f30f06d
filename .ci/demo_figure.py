#!/usr/bin/env python3
"""Draws the picture of the README from the results of the demo.

    .ci/demo_figure.py docs/demo.json docs/demo.svg

`make figure` runs the demo first.

Each panel shows one treatment of four downloads: their rates, and the added delay of a ping.
"""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Phases of the demo, and their names in the picture. Each shaper is downstream of the bottleneck.
PANELS = {
    "unmanaged": "no shaper",
    "inbound-fifo": "FIFO shaper",
    "inbound-fq-codel": "FQ-CoDel shaper",
    "inbound-postack": "Tidegate",
}

# Sizes in pixels.
WIDTH, HEIGHT = 860, 410
LEFT, TOP = 70, 64
PANEL, GAP = 172, 22
RATES, DELAYS = 150, 70
BAR = 30
# The axis exceeds its highest bar by this factor, to leave room for a number.
HEADROOM = 1.2

INK, QUIET, LINE = "#1f2933", "#616e7c", "#d2d6dc"
OTHERS, OURS = "#8594a8", "#0b7a75"


@dataclass(frozen=True)
class Scale:
    """A vertical axis with its greatest value and grid step; bottom and height are in pixels."""

    most: float
    step: float
    bottom: float
    height: float

    def at(self, value: float) -> float:
        """The height of a value above the bottom, in pixels."""
        return self.height * min(value, self.most) / self.most


def scale_for(
    values: Sequence[float], steps: Sequence[float], bottom: float, height: float
) -> Scale:
    """The scale with the smallest grid step that needs at most four lines.

    It keeps room for a number above the highest bar.
    """
    highest = max(values) * HEADROOM
    step = next((step for step in steps if highest <= 4 * step), steps[-1])
    return Scale(step * max(1, math.ceil(highest / step)), step, bottom, height)


def text(x: float, y: float, words: str, size: int = 12, **more: str) -> str:
    """A line of text, centred by default."""
    style = {"text_anchor": "middle", "fill": INK, **more}
    names = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" {names}>{words}</text>'


def bar(x: float, width: float, scale: Scale, value: float, fill: str) -> str:
    """A bar that begins at the bottom of its scale."""
    height = scale.at(value)
    top = scale.bottom - height
    return f'<rect x="{x:.1f}" y="{top:.1f}" width="{width}" height="{height:.1f}" fill="{fill}"/>'


def grid(scale: Scale, title: str, unit: str) -> Iterator[str]:
    """The grid lines of a scale, drawn through all panels, with their values."""
    right = LEFT + len(PANELS) * (PANEL + GAP) - GAP
    for number in range(round(scale.most / scale.step) + 1):
        value = number * scale.step
        y = scale.bottom - scale.at(value)
        yield f'<path d="M{LEFT} {y:.1f}H{right}" stroke="{LINE}"/>'
        yield text(LEFT - 8, y + 4, f"{value:g}", 11, text_anchor="end", fill=QUIET)
    yield text(LEFT, scale.bottom - scale.height - 10, f"{title}, {unit}", 12, text_anchor="start")


def added_delays(phase: dict[str, Any]) -> tuple[float, float]:
    """Median and 99th percentile of the ping's delay beyond the path's round-trip time, in ms."""
    ping = phase["ping_ms"]
    median = ping["added"] or 0.0
    path = (ping["p50"] or 0.0) - median
    return median, max((ping["p99"] or 0.0) - path, 0.0)


def panel(
    x: float, title: str, phase: dict[str, Any], rates: Scale, delays: Scale
) -> Iterator[str]:
    """The panel of one treatment."""
    fill = OURS if phase["name"] == "inbound-postack" else OTHERS
    middle = x + PANEL / 2
    yield text(middle, 24, title, 15, font_weight="bold", fill=INK)
    slot = PANEL / len(phase["flows"])
    for number, flow in enumerate(phase["flows"]):
        centre, rate = x + (number + 0.5) * slot, flow["rate_bps"] / 1e6
        yield bar(centre - BAR / 2, BAR, rates, rate, fill)
        yield text(centre, rates.bottom - rates.at(rate) - 4, f"{rate:.1f}", 11)
        yield text(centre, rates.bottom + 15, f"{flow['rtt_ms']} ms", 10, fill=QUIET)
    yield text(middle, rates.bottom + 31, f"together {phase['rate_bps'] / 1e6:.2f}", 11, fill=QUIET)
    for name, added, side in zip(("median", "p99"), added_delays(phase), (-1, 1), strict=True):
        centre = middle + side * slot / 2
        yield bar(centre - BAR / 2, BAR, delays, added, fill)
        yield text(centre, delays.bottom - delays.at(added) - 4, f"{added:.0f}", 11)
        yield text(centre, delays.bottom + 15, name, 10, fill=QUIET)
    lost = phase["drops"] + phase["drops_elsewhere"]
    yield text(middle, delays.bottom + 31, f"{lost} packets dropped", 11, fill=QUIET)


def draw(demo: dict[str, Any]) -> str:
    """The picture as SVG."""
    phases = {phase["name"]: phase for phase in demo["phases"]}
    shown = [(title, phases[name]) for name, title in PANELS.items()]
    all_rates = [flow["rate_bps"] / 1e6 for _, phase in shown for flow in phase["flows"]]
    all_delays = [added for _, phase in shown for added in added_delays(phase)]
    rates = scale_for(all_rates, [1, 2], TOP + RATES, RATES)
    delays = scale_for(all_delays, [50, 100, 200], HEIGHT - 45, DELAYS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="system-ui, sans-serif">',
        "<title>Four downloads over a line of 8 Mbit/s, and a ping</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *grid(rates, "rate of each download", "Mbit/s, by its round-trip time"),
        *grid(delays, "added delay of a ping", "ms"),
    ]
    for number, (title, phase) in enumerate(shown):
        parts += panel(LEFT + number * (PANEL + GAP), title, phase, rates, delays)
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Reads the results, and writes the picture."""
    source, target = map(Path, sys.argv[1:])
    target.write_text(draw(json.loads(source.read_text())))


if __name__ == "__main__":
    main()
