"""The place of the queue decides how long web requests take: on the path, or at the sending site.

Source: Bundler (EuroSys 2021, doi 10.1145/3447786.3456260), figure 7. Its published gain is a
median slowdown that is 28 % lower. The trunk with epochs has to reproduce this gain first.
Differs: `_site.py` describes the sites and their requests. The slowdown of a request is the time it
takes, divided by the time that a request of its size takes on an empty network. Requests that have
not ended do not count. Lost user packets are counted twice: on the path alone, and on the path and
at the gateways together.
"""

from typing import Any

import numpy as np

from tidegate import Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import MEDIAN_RATIO, Numbers

from ._site import CONTROLS, network, requests, slowdowns

site_to_site = Experiment(__file__, seeds=80)
# Ten seeds did not decide two claims. With 80 seeds, the runs can show a difference of `MATTERS`.

DURATION, WARMUP = 60, 5
"""Length of a run and of its warm-up, in seconds."""

SIZES = {"small": (0, 1e4), "medium": (1e4, 1e6), "large": (1e6, np.inf)}
"""Classes of requests by their size in bytes."""


@site_to_site.run(control=list(CONTROLS))
def measure(seed: int, control: str) -> dict[str, float]:
    net = network(control, duration=DURATION, warmup=WARMUP)
    requests(net)
    run = net.run(seed)
    size, slow = slowdowns(run, WARMUP)
    row = {"median": np.median(slow), "p99": np.percentile(slow, 99)}
    for name, (low, high) in SIZES.items():
        part = slow[(size >= low) & (size < high)]
        middle, tail = np.percentile(part, [50, 99]) if len(part) else (np.nan, np.nan)
        row |= {f"median_{name}": middle, f"p99_{name}": tail}
    drops = run.drops
    user = drops["reason"] != "aqm"
    path = drops["place"] == "path > right.wan"
    row["lost_path"] = drops["dropped_packets"][user & path].sum()
    row["lost"] = drops["dropped_packets"][user].sum()
    return row


def ratio(runs: Table, control: str, over: str, column: str) -> np.ndarray:
    return runs.where(control=control)[column] / runs.where(control=over)[column]


@site_to_site.claim(
    "Bundler",
    "epochs: median slowdown, relative to no control",
    paper=0.72,
    at_most=0.72,
    statistic=MEDIAN_RATIO,
)
def published(runs: Table) -> Numbers:
    return ratio(runs, "epochs", "none", "median")


@site_to_site.claim(
    "Bundler",
    "epochs: p99 slowdown, relative to no control",
    paper="less",
    at_most=1,
    statistic=MEDIAN_RATIO,
)
def published_tail(runs: Table) -> Numbers:
    return ratio(runs, "epochs", "none", "p99")


SLOWER = (
    "CUBIC increases its rate until management packets are lost. The router's queue delays packets "
    "by 0.9 ms on average and 5 ms at times; with epochs it is 0.35 ms and 1.4 ms"
)

SAME = "with both, equally many bytes wait at the router; management packets take 1.7 % of the path"

MATTERS = 0.02
"""A smaller difference between two 99th percentiles does not matter."""

NEARLY = (
    "its management packets are those of the trunk, which leave a queue at the router "
    "(`trunk-tail`)"
)


@site_to_site.claim(
    "beyond",
    "trunk: p99 slowdown, relative to epochs",
    at_most=1,
    why=SLOWER,
    statistic=MEDIAN_RATIO,
)
def trunk_tail(runs: Table) -> Numbers:
    return ratio(runs, "trunk", "epochs", "p99")


@site_to_site.claim(
    "beyond",
    "trunk and PostACK: p99 slowdown, relative to epochs",
    at_most=1,
    why=NEARLY,
    statistic=MEDIAN_RATIO,
)
def postack_tail(runs: Table) -> Numbers:
    return ratio(runs, "postack", "epochs", "p99")


@site_to_site.claim(
    "beyond",
    "Copa: p99 slowdown, relative to epochs",
    at_most=1,
    margin=MATTERS,
    why=SAME,
    statistic=MEDIAN_RATIO,
)
def copa_tail(runs: Table) -> Numbers:
    return ratio(runs, "copa", "epochs", "p99")


@site_to_site.claim(
    "beyond",
    "Copa and PostACK: p99 slowdown, relative to epochs",
    at_most=1,
    margin=MATTERS,
    statistic=MEDIAN_RATIO,
)
def copa_postack_tail(runs: Table) -> Numbers:
    return ratio(runs, "copa-postack", "epochs", "p99")


@site_to_site.claim(
    "beyond",
    "Copa, new flows first: p99 slowdown, relative to epochs",
    at_most=1,
    statistic=MEDIAN_RATIO,
)
def first_tail(runs: Table) -> Numbers:
    return ratio(runs, "copa-first", "epochs", "p99")


@site_to_site.claim(
    "beyond",
    "new flows first in both: p99 slowdown of Copa, relative to epochs",
    at_most=1,
    margin=MATTERS,
    why=SAME,
    statistic=MEDIAN_RATIO,
)
def alike_tail(runs: Table) -> Numbers:
    return ratio(runs, "copa-first", "epochs-first", "p99")


@site_to_site.claim("beyond", "trunk: user packets lost", at_most=0)
def trunk_loss(runs: Table) -> Numbers:
    return runs.where(control="trunk")["lost"]


@site_to_site.claim("beyond", "trunk and PostACK: user packets lost", at_most=0)
def postack_loss(runs: Table) -> Numbers:
    return runs.where(control="postack")["lost"]


@site_to_site.claim("beyond", "Copa: user packets lost", at_most=0)
def copa_loss(runs: Table) -> Numbers:
    return runs.where(control="copa")["lost"]


@site_to_site.claim("beyond", "Copa and PostACK: user packets lost", at_most=0)
def copa_postack_loss(runs: Table) -> Numbers:
    return runs.where(control="copa-postack")["lost"]


@site_to_site.claim("beyond", "Copa, new flows first: user packets lost", at_most=0)
def first_loss(runs: Table) -> Numbers:
    return runs.where(control="copa-first")["lost"]


@site_to_site.claim("beyond", "epochs: user packets lost on the path", at_most=0)
def epochs_loss(runs: Table) -> Numbers:
    return runs.where(control="epochs")["lost_path"]


@site_to_site.figure
def figure(runs: Table) -> Any:
    figure, panels = plots.panels(["median", "99th percentile"])
    for axes, column in zip(panels, ("median", "p99"), strict=True):
        for n, control in enumerate(CONTROLS):
            cell = runs.where(control=control)
            means = [cell[f"{column}_{name}"].mean() for name in SIZES]
            axes.bar(np.arange(len(SIZES)) + n / 9, means, width=0.11, label=control)
        axes.set_xticks(np.arange(len(SIZES)) + 0.33, SIZES)
        axes.set_ylabel("slowdown")
        axes.set_yscale("log")
        axes.legend()
    return figure
