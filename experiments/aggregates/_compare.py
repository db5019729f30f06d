"""What one setting gives over another with the same seed: figures 7, 8 and 11.

Source: aggregates, sections 4.2.2 and 4.2.3.
Differs: the paper's network has a source of background traffic, of which it says nothing. Where
connections are policed, figures 8 and 11 are made without any, and with four endless downloads of
others on the access link. The paper prints no gain, only that there is one. Without others the
total gains less than 1 %, which no figure shows: the four fill the access link either way.
"""

from typing import Any

import numpy as np

from tidegate import Table
from tidegate.experiment import Experiment, paired

OTHERS = {0: "", 4: ", four others on the access link"}
"""Number of other downloads, with the words for them in the text of a claim."""

ONE_BY_ONE: dict[str, Any] = {"kind": "partitioned", "depth": "rtt"}


def gain(runs: Table, policed: str, column: str, cross: int) -> np.ndarray:
    """A column with this policing over its value with a policer for each flow, by seed."""
    cell = runs.where(cross=cross)
    return paired(cell.where(policed=policed), cell.where(policed="one by one"), column)


NO_GAIN: dict[str, Any] = {"kind": "shown otherwise", "at_least": 0.99, "at_most": 1.01}
"""Bounds for the total when nobody else competes for the link."""


def claim_gains(figure: Experiment, ref: str, policed: str) -> None:
    """Claims that the compliant rate grows, and also the total rate if others share the link."""
    for cross, place in OTHERS.items():
        for column, what in (("total", "total"), ("compliant", "compliant")):

            def measured(runs: Table, column: str = column, cross: int = cross) -> np.ndarray:
                return gain(runs, policed, f"{column}_bps", cross)

            measured.__name__ = f"{column}_cross" if cross else column
            more: dict[str, Any] = {"at_least": 1, "margin": 0.02 if cross else 0.005}
            figure.claim(
                f"{ref}{place}",
                f"{what} throughput, {policed} over one by one",
                paper="> 1",
                **(more if cross or column == "compliant" else NO_GAIN),
            )(measured)
