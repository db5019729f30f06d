"""Compares one policing scheme with another at the same seed, for figures 7, 8 and 11.

Source: aggregates, sections 4.2.2 and 4.2.3.
Differs: the paper's network has background traffic, which the paper does not describe. Figures 8
and 11 police the connections twice: without background traffic, and beside four endless downloads
on the access link. The paper prints no gain, only that one exists. Without background traffic the
total rate gains less than 1 %, and no figure shows it. The four connections fill the access link
with either scheme.
"""

from typing import Any

import numpy as np

from tidegate import Table
from tidegate.experiment import Experiment, paired

OTHERS = {0: "", 4: ", four others on the access link"}
"""Number of downloads in the background, and the words for them in the text of a claim."""

ONE_BY_ONE: dict[str, Any] = {"kind": "partitioned", "depth": "rtt"}


def gain(runs: Table, policed: str, column: str, cross: int) -> np.ndarray:
    """A column with this policing, divided by the same with one policer per flow, for each seed."""
    cell = runs.where(cross=cross)
    return paired(cell.where(policed=policed), cell.where(policed="one by one"), column)


NO_GAIN: dict[str, Any] = {"kind": "shown otherwise", "at_least": 0.99, "at_most": 1.01}
"""Bounds for the total rate when no background traffic competes for the link."""


def claim_gains(figure: Experiment, ref: str, policed: str) -> None:
    """Claims that the in-profile rate grows.

    Beside background traffic, the total rate also grows.
    """
    for cross, place in OTHERS.items():
        for column, what in (("total", "total"), ("compliant", "compliant")):

            def measured(runs: Table, column: str = column, cross: int = cross) -> np.ndarray:
                return gain(runs, policed, f"{column}_bps", cross)

            measured.__name__ = f"{column}_cross" if cross else column
            more: dict[str, Any] = {"at_least": 1, "margin": 0.02 if cross else 0.005}
            figure.claim(
                f"{ref}{place}",
                f"{what} throughput, {policed} over one policer per flow",
                paper="> 1",
                **(more if cross or column == "compliant" else NO_GAIN),
            )(measured)
