"""Many runs: every combination of parameters, each with every seed, on all cores."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, TypeAlias

from tidegate.result import Case, Table

Measure: TypeAlias = Callable[..., Mapping[str, float]]
"""One run: called with ``seed`` and a value for each parameter; returns the results."""


def sweep(
    measure: Measure,
    parameters: Mapping[str, Sequence[Any]] | None = None,
    *,
    seeds: Iterable[int] = range(1, 11),
    jobs: int | None = None,
    engine: str | Executor = "process",
    progress: Callable[[int, int], None] | None = None,
) -> Table:
    """Runs ``measure`` for every combination of ``parameters`` and every seed.

    Each worker takes the next run as soon as it is free. Rows are in the order of the cases.
    Neither their order nor their values depend on the number of workers. After Ctrl-C no further
    run begins. The table then has the finished runs, and its ``complete`` is false.

    Args:
        measure: a function at the top level of a module, so that other processes can import it.
        parameters: values to try, by name.
        seeds: the seeds of the runs of each combination.
        jobs: worker processes. Default: one for each core.
        engine: ``"process"``, ``"ray"`` (a cluster; ``pip install tidegate[ray]``), or any
            executor of :mod:`concurrent.futures`, such as Dask's.
        progress: called with the number of finished runs and of all runs.

    Returns:
        A table with a row for each run: its parameters, ``seed``, and the results.
    """
    todo = cases(parameters or {}, seeds)
    calls = [(measure, case.seed, case.parameters) for case in todo]
    rows = gather(_measure, calls, jobs=jobs, engine=engine, progress=progress)
    return Table.of_runs(list(zip(todo, rows, strict=True)))


def gather(
    call: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    *,
    jobs: int | None = None,
    engine: str | Executor = "process",
    progress: Callable[[int, int], None] | None = None,
    keep: Callable[[int, Any], None] | None = None,
) -> list[Any]:
    """Calls ``call`` with each tuple of ``arguments``, on all workers.

    Returns the results in the order of the arguments. After an interrupt, no further call begins,
    and missing results are ``None``. ``keep`` is called with each result and its index, as soon as
    the result is there.
    """
    answers: list[Any] = [None] * len(arguments)
    with _executor(engine, jobs) as pool:
        futures = {pool.submit(call, *each): number for number, each in enumerate(arguments)}

        def answered(future: Future[Any]) -> None:
            number = futures[future]
            known, answers[number] = answers[number] is not None, future.result()
            if keep and not known:
                keep(number, answers[number])

        try:
            for done, future in enumerate(as_completed(futures), 1):
                answered(future)
                if progress:
                    progress(done, len(arguments))
        except KeyboardInterrupt:
            pass
        finally:
            begun = [future for future in futures if not future.cancel()]
        for future in begun:
            answered(future)
    return answers


def cases(parameters: Mapping[str, Sequence[Any]], seeds: Iterable[int]) -> list[Case]:
    """Every combination of parameters with every seed, in order."""
    seeds = list(seeds)
    values = itertools.product(*parameters.values())
    return [
        Case(dict(zip(parameters, each, strict=True)), seed) for each in values for seed in seeds
    ]


def _measure(measure: Measure, seed: int, parameters: Mapping[str, Any]) -> Mapping[str, float]:
    return measure(seed=seed, **parameters)


@contextmanager
def _executor(engine: str | Executor, jobs: int | None) -> Iterator[Executor]:
    match engine:
        case "process":
            with ProcessPoolExecutor(jobs or os.cpu_count(), initializer=_ignore) as pool:
                yield pool
        case "ray":
            from tidegate.ray_engine import RayExecutor

            with RayExecutor(jobs) as pool:
                yield pool
        case Executor():
            yield engine
        case _:
            raise ValueError(f'engine: {engine!r} is neither "process" nor "ray" nor an executor')


def _ignore() -> None:
    """Ignores Ctrl-C. A terminal sends it to every process, but only the main process reacts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
