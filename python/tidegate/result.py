"""The results of a run, as columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.statistics import jain

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


@dataclass(frozen=True)
class Case:
    """A run within a sweep."""

    parameters: Mapping[str, Any]
    seed: int


_SHOWN = 20
"""Maximum number of printed rows."""


class Table:
    """Columns of equal length, by name. If a quantity has a unit, it is the last word of the name.

    >>> table = Table({"rate_bps": [1.0, 3.0], "flow": ["a", "b"]})
    >>> table.where(flow="b")["rate_bps"]
    array([3.])
    """

    def __init__(self, columns: Mapping[str, Any], *, complete: bool = True) -> None:
        self.columns = {name: np.asarray(column) for name, column in columns.items()}
        """The columns, as arrays."""
        self.complete = complete
        """False if the sweep was interrupted before all rows were complete."""

    @classmethod
    def of_runs(cls, runs: Sequence[tuple[Case, Mapping[str, float] | None]]) -> Table:
        """Makes a row for each finished run: its parameters, its seed, and its results."""
        rows = [
            {**case.parameters, "seed": case.seed, **row} for case, row in runs if row is not None
        ]
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name, np.nan) for row in rows] for name in names}
        return cls(columns, complete=len(rows) == len(runs))

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            return self.columns[name]
        except KeyError:
            raise KeyError(f"no column {name!r}; there are {', '.join(self.columns)}") from None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self.columns)})"

    def __str__(self) -> str:
        """The rows with aligned columns. Of a long table, only the first and the last rows."""
        shown: Sequence[int] = range(len(self))
        if len(self) > _SHOWN:
            shown = [*range(_SHOWN // 2), *range(len(self) - _SHOWN // 2, len(self))]
        cells = [
            [
                name,
                *(
                    f"{column[row]:.6g}" if column.dtype.kind == "f" else str(column[row])
                    for row in shown
                ),
            ]
            for name, column in self.columns.items()
        ]
        widths = [max(map(len, column)) for column in cells]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in zip(*cells, strict=True)
        ]
        if len(self) > _SHOWN:
            lines.insert(1 + _SHOWN // 2, f"… {len(self) - _SHOWN} more rows")
        return "\n".join(lines)

    def where(self, **equal: object) -> Table:
        """The rows whose columns have these values."""
        rows = np.ones(len(self), dtype=bool)
        for name, value in equal.items():
            rows &= self[name] == value
        return Table({name: column[rows] for name, column in self.columns.items()})

    def to_pandas(self) -> pandas.DataFrame:
        """As a pandas frame (``pip install tidegate[pandas]``)."""
        import pandas

        return pandas.DataFrame(self.columns)

    def to_polars(self) -> polars.DataFrame:
        """As a polars frame (``pip install tidegate[polars]``)."""
        import polars

        return polars.DataFrame(self.columns)

    def to_arrow(self) -> pyarrow.Table:
        """As an Arrow table (``pip install tidegate[arrow]``)."""
        import pyarrow

        return pyarrow.table(self.columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule interface, by which other libraries can read the table directly."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_parquet(self, path: str | Path) -> None:
        """Writes a Parquet file (``pip install tidegate[arrow]``)."""
        import pyarrow.parquet

        pyarrow.parquet.write_table(self.to_arrow(), path)

    def to_csv(self, path: str | Path) -> None:
        """Writes a CSV file with a line of names."""
        import csv

        with Path(path).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(
                zip(*(column.tolist() for column in self.columns.values()), strict=True)
            )


class Result:
    """The results of one run: tables of columns, for the time after the warm-up."""

    def __init__(self, tables: Mapping[str, Mapping[str, Any]], seed: int) -> None:
        self.seed = seed
        """The seed of the run."""
        self.tables = {name: Table(columns) for name, columns in tables.items()}
        """All tables by name, including the series of probes."""

    def __repr__(self) -> str:
        return f"Result(seed {self.seed}: {', '.join(self.tables)})"

    def __getitem__(self, name: str) -> Table:
        try:
            return self.tables[name]
        except KeyError:
            raise KeyError(f"no table {name!r}; there are {', '.join(self.tables)}") from None

    def windowed(self, name: str = "groups over time", step: int = 1) -> Table:
        """Throughput in each window of a series, in bit/s, for each traffic or each flow.

        Args:
            name: ``"groups over time"`` or ``"goodput over time"``, which every run has, or
                ``"flows of NAME"``, the series of a ``throughput`` probe of that traffic.
            step: samples in a window; an incomplete window at the end is left out.

        Returns:
            ``time_seconds``, the end of each window, a column ``..._bps`` for each ``..._bytes`` of
            the series, ``total_bps``, and ``jain`` of the columns in that window.
        """
        if step < 1:
            raise ValueError(f"step: {step} is no number of samples; at least 1")
        series = self[name]
        time = series["time_seconds"][::step]
        columns: dict[str, np.ndarray] = {"time_seconds": time[1:]}
        rates = []
        for column, arrived in series.columns.items():
            if column.endswith("_bytes"):
                rates.append(np.diff(arrived[::step].astype(float)) * 8 / np.diff(time))
                columns[f"{column.removesuffix('_bytes')}_bps"] = rates[-1]
        if not rates:
            raise KeyError(f"{name!r} counts no bytes that arrived; `throughput` probes do")
        columns["total_bps"] = np.sum(rates, axis=0)
        columns["jain"] = np.array([jain(each) for each in zip(*rates, strict=True)])
        return Table(columns)

    @property
    def groups(self) -> Table:
        """A row for each traffic: flows, throughput and goodput, Jain index, delays."""
        return self["groups"]

    @property
    def flows(self) -> Table:
        """A row for each flow: ends, packets and bytes sent and received, throughput, goodput."""
        return self["flows"]

    @property
    def links(self) -> Table:
        """A row for each direction of a link: packets, drops, marks, utilisation, queue, delays."""
        return self["links"]

    @property
    def drops(self) -> Table:
        """A row for each place and reason of drops or marks."""
        return self["drops"]

    @property
    def aggregates(self) -> Table:
        """A row for each policy and direction of each gateway that had packets."""
        return self["aggregates"]

    @property
    def transfers(self) -> Table:
        """A row for each file, burst or answer, in the order of their arrival."""
        return self["transfers"]
