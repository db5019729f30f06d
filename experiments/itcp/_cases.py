"""Adds claims about one case of an experiment, and about the ratio of two cases."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate import Table
from tidegate.experiment import Experiment
from tidegate.statistics import MEDIAN_RATIO, Numbers

from ._modes import key


def of(runs: Table, case: str, column: str) -> np.ndarray:
    """A column of the runs of a case, in the order of seeds."""
    values: np.ndarray = runs.where(case=case)[column]
    return values


@dataclass(frozen=True)
class Cases:
    """The cases of an experiment. All their claims cite the same id of docs/ledger.md."""

    experiment: Experiment
    acceptance: str

    def claim(self, case: str, column: str, text: str, **bounds: Any) -> None:
        """Adds a claim about one case."""

        def number(runs: Table) -> Numbers:
            return of(runs, case, column)

        number.__name__ = f"{column}_{key(case)}"
        self.experiment.claim(self.acceptance, f"{case}: {text}", **bounds)(number)

    def claim_over(self, case: str, base: str, column: str, text: str, **bounds: Any) -> None:
        """Adds a claim about the ratio of two cases, for each seed."""

        def ratio(runs: Table) -> Numbers:
            count = min(len(of(runs, case, column)), len(of(runs, base, column)))
            return of(runs, case, column)[:count] / of(runs, base, column)[:count]

        ratio.__name__ = f"{column}_{key(case)}_over_{key(base)}"
        text = f"{case} over {base}: {text}"
        self.experiment.claim(self.acceptance, text, statistic=MEDIAN_RATIO, **bounds)(ratio)
