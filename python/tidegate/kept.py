"""Runs of experiments that are kept in a file, so that what was made once is not made again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from tidegate import _native
from tidegate.experiment import Experiment
from tidegate.result import Case

Row: TypeAlias = Mapping[str, float]
"""What a run measured."""


class Kept:
    """A file with a line of JSON for each run, or none.

    A run counts only beside the same mechanisms: this package's native part, and the program of
    experiments between real hosts if there is one. Whether the experiment is still what it was is
    not looked at: delete the file when it is not.
    """

    def __init__(self, path: Path | None, root: Path) -> None:
        self._path = path
        self._made_by = _digest(Path(_native.__file__), program(root))
        self._rows: dict[str, Row] = {}
        for line in path.read_text().splitlines() if path and path.exists() else []:
            with contextlib.suppress(json.JSONDecodeError):  # an end while it was written
                run = json.loads(line)
                if run["made_by"] == self._made_by:
                    self._rows[run["run"]] = run["measured"]

    def find(self, experiment: Experiment, case: Case) -> Row | None:
        """What this run measured; nothing if it was not made yet."""
        return self._rows.get(_name(experiment, case))

    def add(self, experiment: Experiment, case: Case, row: Row) -> None:
        """Keeps this run too, at once."""
        if self._path is None:
            return
        measured = {name: float(value) for name, value in row.items()}
        run = {"run": _name(experiment, case), "made_by": self._made_by, "measured": measured}
        with self._path.open("a") as file:
            file.write(json.dumps(run) + "\n")


def program(root: Path) -> Path:
    """The program between real hosts: what TIDEGATE_BIN names, or what `make build` left."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    return Path(os.environ.get("TIDEGATE_BIN", target / "release" / "tidegate"))


def _name(experiment: Experiment, case: Case) -> str:
    parameters: dict[str, Any] = dict(sorted(case.parameters.items()))
    return json.dumps([experiment.id, case.seed, parameters], default=str)


def _digest(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        if path.exists():
            digest.update(path.read_bytes())
    return digest.hexdigest()
