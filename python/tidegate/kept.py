"""Runs of experiments that are kept in a file, so that what was made once is not made again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from tidegate import _native
from tidegate.experiment import Experiment
from tidegate.result import Case

Row: TypeAlias = Mapping[str, float]
"""What a run measured."""


class Kept:
    """A file with a line of JSON for each run, or none.

    A run counts only beside the same mechanisms: this package's native part and, if
    ``TIDEGATE_BIN`` names it, the program of experiments between real hosts. Whether the
    experiment is still what it was is not looked at: delete the file when it is not.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._made_by = _digest(_native.__file__, os.environ.get("TIDEGATE_BIN"))
        self._rows: dict[str, Row] = {}
        if path and path.exists():
            for line in path.read_text().splitlines():
                run = json.loads(line)
                if run["made_by"] == self._made_by:
                    self._rows[run["run"]] = run["measured"]

    def find(self, experiment: Experiment, case: Case) -> Row | None:
        """What this run measured; nothing if it was not made yet."""
        return self._rows.get(_name(experiment, case))

    def add(self, made: Iterable[tuple[Experiment, Case, Row]]) -> None:
        """Keeps these runs too."""
        if self._path is None:
            return
        lines = []
        for experiment, case, row in made:
            run = _name(experiment, case)
            measured = {name: float(value) for name, value in row.items()}
            lines.append(
                json.dumps({"run": run, "made_by": self._made_by, "measured": measured}) + "\n"
            )
        with self._path.open("a") as file:
            file.writelines(lines)


def _name(experiment: Experiment, case: Case) -> str:
    parameters: dict[str, Any] = dict(sorted(case.parameters.items()))
    return json.dumps([experiment.id, case.seed, parameters], default=str)


def _digest(*paths: str | None) -> str:
    digest = hashlib.sha256()
    for path in paths:
        if path:
            digest.update(Path(path).read_bytes())
    return digest.hexdigest()
