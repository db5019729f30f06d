"""``tidegate-repro``: reproduces the papers' figures and judges every claim."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tidegate.experiment import Experiment, Verdict, discover, run_case
from tidegate.report import write_report
from tidegate.result import Case, Table
from tidegate.sweep import gather

EXIT_DONE, EXIT_FAILED, EXIT_WRONG_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code: 0 all hold, 1 some do not, 2 wrong input."""
    options = _parser().parse_args(arguments)
    root = _experiments(options.experiments)
    if root is None:
        return _wrong(
            "there is no folder `experiments` here or above; say where: --experiments DIR"
        )
    chosen = _chosen(discover(root), options.prefixes)
    if not chosen:
        return _wrong(
            f"no experiment begins with {' or '.join(options.prefixes)}; see `tidegate-repro list`"
        )
    code: int = options.command(chosen, options)
    return code


def measure(experiments: Iterable[Experiment], options: argparse.Namespace) -> dict[str, Table]:
    """Makes every run of the experiments in one pool; a table of runs for each."""
    cases = [(each, case) for each in experiments for case in each.cases(options.seeds)]
    calls = [(each.file, each.id, case.seed, case.parameters) for each, case in cases]
    rows = gather(run_case, calls, jobs=options.jobs, engine=options.engine, progress=_progress)
    if any(row is None for row in rows):
        raise KeyboardInterrupt
    tables: dict[str, list[tuple[Case, Mapping[str, float]]]] = {}
    for (each, case), row in zip(cases, rows, strict=True):
        tables.setdefault(each.id, []).append((case, row))
    return {id: Table.of_runs(runs) for id, runs in tables.items()}


def _list(experiments: Sequence[Experiment], _: argparse.Namespace) -> int:
    for each in experiments:
        print(f"{each.id:32} {len(each.claims):2} claims  {each.title}")
    return EXIT_DONE


def _check(experiments: Sequence[Experiment], options: argparse.Namespace) -> int:
    runs = measure(experiments, options)
    return _say(experiments, runs, options)


def _report(experiments: Sequence[Experiment], options: argparse.Namespace) -> int:
    runs = measure(experiments, options)
    write_report(experiments, runs, options.out)
    return _say(experiments, runs, options)


def _say(
    experiments: Sequence[Experiment], runs: Mapping[str, Table], options: argparse.Namespace
) -> int:
    verdicts = [claim.judge(runs[each.id]) for each in experiments for claim in each.claims]
    if options.json:
        json.dump({"claims": [verdict.as_dict() for verdict in verdicts]}, sys.stdout, indent=1)
        print()
    else:
        print("\n".join(map(_line, verdicts)))
    return EXIT_DONE if all(verdict.holds for verdict in verdicts) else EXIT_FAILED


def _line(verdict: Verdict) -> str:
    claim = verdict.claim
    mark = "holds" if verdict.holds else "DOES NOT HOLD"
    line = f"{mark:13} {claim.id}: {claim.text}; paper {claim.paper}, ours {verdict.ours}"
    return line if verdict.holds or claim.why is None else f"{line}\n{'':14}why: {claim.why}"


def _chosen(experiments: Mapping[str, Experiment], prefixes: Sequence[str]) -> list[Experiment]:
    wanted = tuple(prefix.removesuffix("...").rstrip("…") for prefix in prefixes) or ("",)
    return [each for id, each in experiments.items() if id.startswith(wanted)]


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
        ("list", _list, "the experiments and how much they claim"),
        ("check", _check, "run them and judge every claim; exit code 1 if one does not hold"),
        ("report", _report, "run them and write the chapter of the documentation, with figures"),
    ):
        sub = commands.add_parser(name, help=what, description=what)
        sub.add_argument("prefixes", nargs="*", metavar="ID", help="which: all whose id begins so")
        sub.add_argument(
            "--experiments", type=Path, metavar="DIR", help="default: the nearest `experiments`"
        )
        sub.add_argument(
            "--seeds", type=_count, metavar="N", help="default: as each experiment says"
        )
        sub.add_argument(
            "--jobs", type=_count, metavar="N", help="processes; default: one for each core"
        )
        sub.add_argument(
            "--engine", default="process", choices=["process", "ray"], help="where runs are made"
        )
        sub.add_argument("--json", action="store_true", help="for machines to read")
        sub.add_argument(
            "--out", type=Path, default=Path("docs/reproduce"), metavar="DIR", help="of `report`"
        )
        sub.set_defaults(command=command)
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
