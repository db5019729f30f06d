"""Stores completed runs of experiments in a file, so that they need not be repeated."""

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
"""The measured numbers of a run."""


class Kept:
    """A file with a line of JSON for each completed run. Without a path, nothing is stored.

    A stored run is valid only for the same mechanisms. These are the native part of this package,
    and the program for experiments between real hosts, if there is one. Changes of the experiment
    itself are not detected: delete the file after such a change.
    """

    def __init__(self, path: Path | None, root: Path) -> None:
        self._path = path
        self._made_by = _digest(Path(_native.__file__), program(root))
        self._rows: dict[str, Row] = {}
        for line in path.read_text().splitlines() if path and path.exists() else []:
            with contextlib.suppress(json.JSONDecodeError):  # An incomplete last line.
                run = json.loads(line)
                if run["made_by"] == self._made_by:
                    self._rows[run["run"]] = run["measured"]

    def find(self, experiment: Experiment, case: Case) -> Row | None:
        """The measured numbers of this run; None if it is not in the file."""
        return self._rows.get(_name(experiment, case))

    def add(self, experiment: Experiment, case: Case, row: Row) -> None:
        """Writes this run to the file immediately."""
        if self._path is None:
            return
        measured = {name: float(value) for name, value in row.items()}
        run = {"run": _name(experiment, case), "made_by": self._made_by, "measured": measured}
        with self._path.open("a") as file:
            file.write(json.dumps(run) + "\n")


def program(root: Path) -> Path:
    """The program for real hosts: the one in TIDEGATE_BIN, or the result of `make build`."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    return Path(os.environ.get("TIDEGATE_BIN", target / "dist" / "tidegate"))


def _name(experiment: Experiment, case: Case) -> str:
    parameters: dict[str, Any] = dict(sorted(case.parameters.items()))
    return json.dumps([experiment.id, case.seed, parameters], default=str)


def _digest(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        if path.exists():
            digest.update(path.read_bytes())
    return digest.hexdigest()
