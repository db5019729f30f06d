"""``tidegate-repro``: reproduces the papers' figures and judges every claim."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidegate.experiment import FIRST_SEED, Experiment, Verdict, discover, run_case
from tidegate.kept import Kept
from tidegate.report import OVERVIEW, draw_figure, recount, summary, tally, write_report
from tidegate.result import Case, Table
from tidegate.statistics import samples_for
from tidegate.sweep import gather

PILOT_SEEDS = 40

ALL = "all"
"""The name that selects all experiments."""

EXIT_DONE, EXIT_FAILED, EXIT_WRONG_INPUT, EXIT_INTERRUPTED = 0, 1, 2, 130


class Interrupted(Exception):
    """Ctrl-C interrupted the command before all runs were made."""

    def __init__(self, finished: Mapping[Experiment, Table], done: int, all: int) -> None:
        super().__init__(f"interrupted after {done} of {all} runs")
        self.finished = finished
        """The experiments whose runs are complete."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Exit code 0: done, 1: a claim does not hold, 2: wrong input."""
    options = _parser().parse_args(arguments)
    root = _experiments(options.experiments)
    if root is None:
        return _wrong(
            "there is no folder `experiments` here or above; say where: --experiments DIR"
        )
    every = discover(root)
    chosen = _chosen(every, options.names)
    if not chosen:
        return _wrong(
            f"no paper or experiment {' or '.join(options.names)}; see `tidegate-repro list`"
        )
    options.every = list(every.values())
    options.parted = {each.paper for each in every.values() if each not in chosen}
    options.root = root.resolve().parent
    options.docs = options.root / "docs" / "reproduce"
    try:
        code: int = options.command(chosen, options)
    except Interrupted as interrupted:
        return _stopped(interrupted, options)
    return code


def measure(
    experiments: Sequence[Experiment], options: argparse.Namespace, first: int = FIRST_SEED
) -> dict[str, Table]:
    """Makes all missing runs of the experiments in one pool; returns a table for each."""
    kept = Kept(options.keep, options.root)
    cases = [(each, case) for each in experiments for case in each.cases(options.seeds, first)]
    rows = [kept.find(each, case) for each, case in cases]
    missing = [number for number, row in enumerate(rows) if row is None]
    todo = [cases[number] for number in missing]
    calls = [(each.file, each.id, case.seed, case.parameters) for each, case in todo]
    made = gather(
        run_case,
        calls,
        jobs=options.jobs,
        engine=options.engine,
        progress=_progress,
        keep=lambda number, row: kept.add(*todo[number], row),
    )
    for number, row in zip(missing, made, strict=True):
        rows[number] = row
    runs: dict[str, list[tuple[Case, Mapping[str, float] | None]]]
    runs = {each.id: [] for each in experiments}
    for (each, case), row in zip(cases, rows, strict=True):
        runs[each.id].append((case, row))
    tables = {id: Table.of_runs(own) for id, own in runs.items()}
    if not all(table.complete for table in tables.values()):
        finished = {each: tables[each.id] for each in experiments if tables[each.id].complete}
        raise Interrupted(finished, len(rows) - rows.count(None), len(rows))
    return tables


def _list(experiments: Sequence[Experiment], _: argparse.Namespace) -> int:
    for each in experiments:
        print(f"{each.id:32} {len(each.claims):2} claims  {each.title}")
    return EXIT_DONE


def _check(experiments: Sequence[Experiment], options: argparse.Namespace) -> int:
    verdicts = _judge(experiments, measure(experiments, options, options.first_seed))
    print(_json(verdicts) if options.json else "\n".join([*map(_line, verdicts), tally(verdicts)]))
    judged = (verdict for verdict in verdicts if verdict.claim.judged)
    return EXIT_DONE if all(verdict.holds for verdict in judged) else EXIT_FAILED


def _plan(experiments: Sequence[Experiment], options: argparse.Namespace) -> int:
    options.seeds = options.seeds or PILOT_SEEDS
    planned = [
        each for each in experiments if any(it.margin for it in each.claims) and not each.missing
    ]
    runs = measure(planned, options, first=1)
    for each in planned:
        for claim in (claim for claim in each.claims if claim.margin):
            try:
                needed = samples_for(claim.margin, claim.measure(runs[each.id]), claim.statistic)
                print(f"{claim.id}: {needed} seeds for a margin of {claim.margin:g}")
            except ValueError as error:
                print(f"{claim.id}: {error}; say more with --seeds")
    return EXIT_DONE


def _report(experiments: Sequence[Experiment], options: argparse.Namespace) -> int:
    out = options.out or options.docs
    parted = options.parted & {each.paper for each in experiments}
    if absent := [paper for paper in sorted(parted) if not (out / f"{paper}.md").exists()]:
        return _wrong(f"there is no page of {', '.join(absent)} to write a part of; name all of it")
    runs = measure(experiments, options)
    write_report(experiments, runs, out, options.every)
    verdicts = _judge(experiments, runs)
    print(_json(verdicts) if options.json else summary(verdicts))
    return EXIT_DONE


def _recount(_: Sequence[Experiment], options: argparse.Namespace) -> int:
    out = options.out or options.docs
    recount(options.every, out)
    print(out / OVERVIEW)
    return EXIT_DONE


def _figure(experiments: Sequence[Experiment], options: argparse.Namespace) -> int:
    runs = measure(experiments, options)
    for each in experiments:
        for path in draw_figure(each, runs[each.id], options.out or Path()):
            print(path)
    return EXIT_DONE


def _stopped(interrupted: Interrupted, options: argparse.Namespace) -> int:
    """Reports the finished experiments after Ctrl-C."""
    verdicts = [it for each, runs in interrupted.finished.items() for it in each.judge(runs)]
    if verdicts:
        print(_json(verdicts) if options.json else summary(verdicts))
    written = f"what finished is in {options.keep}" if options.keep else "nothing was written"
    print(f"tidegate-repro: {interrupted}; {written}", file=sys.stderr)
    return EXIT_INTERRUPTED


def _judge(experiments: Sequence[Experiment], runs: Mapping[str, Table]) -> list[Verdict]:
    return [verdict for each in experiments for verdict in each.judge(runs[each.id])]


def _json(verdicts: Sequence[Verdict]) -> str:
    return json.dumps({"claims": [verdict.as_dict() for verdict in verdicts]}, indent=1)


def _line(verdict: Verdict) -> str:
    claim = verdict.claim
    mark = verdict.word if verdict.holds or not claim.judged else verdict.word.upper()
    parts = [f"{mark:13} {claim.id}: {claim.text}"]
    if claim.kind != "paper":
        parts.append(claim.kind)
    if claim.paper is not None:
        parts.append(f"paper {claim.paper}")
    if claim.judged:
        parts.append(f"tolerance ours {claim.bounds}" if claim.tolerance_is_ours else claim.bounds)
    line = "; ".join([*parts, f"{claim.statistic.name} {verdict.ours}"])
    return f"{line}\n{'':14}why: {verdict.reason}" if verdict.reason else line


def _chosen(experiments: Mapping[str, Experiment], names: Sequence[str]) -> list[Experiment]:
    """The experiments with these names, and all experiments of these papers."""
    wanted = {it.removesuffix("...").rstrip("…").rstrip("/") for it in names} or {ALL}
    return [each for id, each in experiments.items() if wanted & {id, each.paper, ALL}]


def _experiments(given: Path | None) -> Path | None:
    here = Path.cwd()
    candidates = [given] if given else [folder / "experiments" for folder in (here, *here.parents)]
    return next((folder for folder in candidates if folder.is_dir()), None)


def _progress(done: int, all: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {all} runs", end="\n" if done == all else "", file=sys.stderr)


def _wrong(message: str) -> int:
    print(f"tidegate-repro: {message}", file=sys.stderr)
    return EXIT_WRONG_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tidegate-repro", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command, what in (
        ("list", _list, "list the experiments, with their numbers of claims"),
        ("check", _check, "run them and judge every claim; exit code 1 if one does not hold"),
        ("plan", _plan, "compute the number of seeds that decides each claim, from pilot runs"),
        ("figure", _figure, "run them and draw the figure of each, as SVG and PNG"),
        (
            "report",
            _report,
            "run them, write their pages or sections, and list all verdicts",
        ),
        ("recount", _recount, "run nothing; count the verdicts on the pages"),
    ):
        sub = commands.add_parser(name, help=what, description=what)
        sub.add_argument(
            "names",
            nargs="*",
            metavar="ID",
            help="an experiment (PAPER/EXPERIMENT), a PAPER, or `all`; default: all",
        )
        sub.add_argument(
            "--experiments", type=Path, metavar="DIR", help="default: the nearest `experiments`"
        )
        sub.add_argument(
            "--seeds", type=_count, metavar="N", help="number of seeds; default: each experiment's"
        )
        if command is _check:
            sub.add_argument(
                "--first-seed", type=_count, metavar="N", default=FIRST_SEED,
                help="the seeds are N, N + 1, ...; default: %(default)s",
            )  # fmt: skip
        sub.add_argument(
            "--jobs", type=_count, metavar="N", help="processes; default: one for each core"
        )
        sub.add_argument(
            "--engine", default="process", choices=["process", "ray"], help="what executes the runs"
        )
        sub.add_argument(
            "--keep", type=Path, metavar="FILE",
            help="keep the results of runs in FILE, also after Ctrl-C; the same program does not "
            "repeat a kept run; delete FILE when an experiment has changed",
        )  # fmt: skip
        sub.add_argument("--json", action="store_true", help="print JSON")
        sub.add_argument(
            "--out", type=Path, metavar="DIR",
            help="folder for files; default: docs/reproduce for `report`, `.` for `figure`",
        )  # fmt: skip
        sub.set_defaults(command=command)
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
