"""Whether two versions of this project do the same: `python -m scripts.compare_versions --old=CHECKOUT`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import json
import os
import pathlib
import shutil
import statistics
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from data import files
from data.errors import Failure, UsageError
from optimization.study import cli
from optimization.study.settings import setting
from scripts import version_runs

if TYPE_CHECKING:
    import numpy as np

_USAGE = """
Runs an older checkout and this one on this machine, and compares tables, weights and checkpoints bit for bit.

  compare_versions --old=../before                          # all settings, a few rounds each
  compare_versions --old=../before --settings=plain,ads
  compare_versions --old=../before --speed                  # how long rounds take instead

What was run stays in --output, and is not run again unless the sources have changed. Exit status 1: not the same.
"""
_SHOWN = 3  # Differences of a setting.
_TURNS = 5
# Key of the benchmark's JSON -> its flags.
_BENCHMARKS = {
    "main": ("--rounds=10", "--cohorts=64", "--populations=3400"),
    "stackoverflow": ("--task=stackoverflow", "--rounds=40", "--cohorts=64", "--populations=3400"),
}
_FIGURES = ("seconds_per_round", "cpu_seconds_per_round", "first_round_after_start_seconds")


class _Flags:
    """Flags.

    Attributes:
      old: Folder of the older checkout.
      new: Folder of the newer one (default: the one that this program is of).
      settings: Settings to run, separated by commas (default: all).
      output: Folder of what is run.
      speed: Measure rounds of both in turns, instead of comparing what they give.
    """

    old: pathlib.Path = setting()
    new: pathlib.Path = setting()
    settings: str = setting(only={"speed": False})
    output: pathlib.Path = setting("compared_versions")
    speed: bool = setting(False)


def define() -> cli.FlagSet:
    """Returns the flags of `compare_versions`."""
    flags = cli.FlagSet(_USAGE)
    flags.group(_Flags)
    return flags


def program(settings: cli.Settings) -> int:
    """Runs and compares; returns 1 if something differs."""
    settings = settings.settled()
    if not settings.old:
        raise UsageError("--old is missing: name the folder of an older checkout.")
    known, output, sides = version_runs.settings(), pathlib.Path(settings.output), []
    for flag, path in (("old", settings.old), ("new", settings.new or pathlib.Path(__file__).resolve().parents[1])):
        checkout = pathlib.Path(path)
        if not (checkout / "scripts" / "python").is_file():
            raise UsageError(f"--{flag}: {checkout} is no checkout of this project: it has no scripts/python.")
        sides.append(version_runs.Side.of(flag, checkout, output))
    names = settings.settings.split(",") if settings.settings else list(known)
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"--settings: {unknown[0]!r} is none of {', '.join(known)}.")
    if output.exists() and not output.is_dir():
        raise UsageError(f"--output: {output} is a file, not a folder.")
    if settings.speed:
        measure_speed(sides[0], sides[1], output)
        return 0
    return int(not all([_is_same(known[name], *sides) for name in names]))


def _is_same(setting: version_runs.Setting, old: version_runs.Side, new: version_runs.Side) -> bool:
    """Runs and compares a setting, and prints a line on it."""
    try:
        after = new.run(setting)
        differing = list(differences(old.run(setting), after))
        if setting.is_resumed:
            differing += [
                (f"resumed: {where}", size) for where, size in differences(after, new.run(setting, True), True)
            ]
    except Failure as error:
        print(f"{setting.name}: failed: {error}", flush=True)
        return False
    unexpected = [
        where
        for where, size in differing
        if size > setting.tolerance and not set(setting.expected) & set(where.replace(",", "").split())
    ]
    added = dict.fromkeys(where for where, size in differing if not size)
    told = f"same, but for what is expected: {setting.reason}" if any(size for _, size in differing) else "same"
    if unexpected:
        more = [f"and {len(unexpected) - _SHOWN} more"] if len(unexpected) > _SHOWN else []
        told = f"differs: {'; '.join(unexpected[:_SHOWN] + more)}"
    print("; ".join([f"{setting.name}: {told}", *added]), flush=True)
    return not unexpected


def differences(old: pathlib.Path, new: pathlib.Path, is_resumed: bool = False) -> Iterator[tuple[str, float]]:
    """Compares all tables and archives of two folders of runs.

    Args:
      old: Folder of runs.
      new: Another one.
      is_resumed: Whether the runs in `new` stopped on the way. They then also evaluated and saved there: what only they
        have, and cells that are empty in `old`, are not compared.

    Yields:
      Where they differ, in words, and the largest difference: infinite where it is no number, 0 where a table only has
      a column more.
    """
    import numpy as np
    import pandas as pd

    before, after = _values(old, version_runs.renamed_fields()), _values(new, {})
    if not before:
        yield "there is nothing to compare", np.inf
    tables = {file for file, _ in before if file.endswith(".csv")}
    for place in dict.fromkeys((*before, *(() if is_resumed else after))):
        if place not in before and place[0] in tables:
            yield f"new column {place[1]}", 0.0
            continue
        if place not in before or place not in after:
            yield f"{' '.join(place)} is {'missing' if place in before else 'new'}", np.inf
            continue
        one, other = before[place], after[place]
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            was, now = (f"{values.dtype}{list(values.shape)}" for values in (one, other))
            yield f"{' '.join(place)} was {was}, is {now}", np.inf
            continue
        is_other = np.ravel((one != other) & ~(pd.isna(one) & (is_resumed | pd.isna(other))))
        if is_other.any():
            rounds, size = before.get((place[0], "round_num"), ()), np.inf
            if one.dtype.kind in "biuf":
                sizes = np.abs(np.subtract(other.ravel()[is_other], one.ravel()[is_other], dtype=float))
                # Whole numbers may differ by less than floats of their size can.
                size = float(np.nan_to_num(sizes, nan=np.inf, posinf=np.inf).max()) or np.inf
            since = f" from round {rounds[is_other.argmax()]}" if len(rounds) else ""
            yield f"{' '.join(place)}{since}, by up to {size:.2g}", size


def _values(folder: pathlib.Path, renamed: Mapping[str, str]) -> "dict[tuple[str, str], np.ndarray]":
    """Returns all columns of tables, but for seconds, and all arrays of archives, by file and name.

    Args:
      folder: Where the files lie.
      renamed: Other names for fields of checkpoints.
    """
    import numpy as np
    import pandas as pd

    found = {}
    for path in sorted([*folder.rglob("*.csv"), *folder.rglob("*.parquet")]):
        table = pd.read_csv(path, float_precision="round_trip") if path.suffix == ".csv" else pd.read_parquet(path)
        for name, column in table.items():
            if "seconds" not in name:
                found[str(path.relative_to(folder)), name] = column.to_numpy()
    for path in sorted(folder.rglob("*.npz")):
        fields, names = path.parents[1] / "fields.json", {}
        if path.parent.name == "checkpoints" and fields.exists():
            of_leaves = [renamed.get(name, name) for name in json.loads(fields.read_text())]
            names = {f"leaf_{index:04d}": name for index, name in enumerate(of_leaves)} | {"leaves": None}
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                if (known := names.get(name, name)) is not None:
                    found[str(path.relative_to(folder)), known] = archive[name]
    return found


def measure_speed(old: version_runs.Side, new: version_runs.Side, output: pathlib.Path) -> None:
    """Measures both in turns, since a machine's speed drifts; prints medians and writes all values to `speed.json`.

    Raises:
      Failure: If a program ends in an error.
    """
    values: dict[str, tuple[list[float], list[float]]] = {}
    for turn in range(_TURNS):
        for place, side in sorted(enumerate((old, new)), reverse=bool(turn % 2)):
            for what, value in _measure_once(side, output / "speed").items():
                values.setdefault(what, ([], []))[place].append(value)
        files.replace(output / "speed.json", json.dumps(values, indent=2).encode() + b"\n")
        print(f"Turn {turn + 1} of {_TURNS} is done; load average {os.getloadavg()[0]:.1f}.", flush=True)
    print(f"{'median':<50}{'old':>9}{'new':>9}{'ratio':>9}")
    for what, both in values.items():
        before, after = map(statistics.median, both)
        print(f"{what:<50}{before:>9.3f}{after:>9.3f}{after / before:>9.3f}")


def _measure_once(side: version_runs.Side, folder: pathlib.Path) -> dict[str, float]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    measured: dict[str, float] = {}
    for key, flags in _BENCHMARKS.items():
        result = folder / f"{key}.json"
        version_runs.run(side.command("scripts.benchmark", *flags, f"--output={result}"), folder / f"{key}.txt")
        seconds = json.loads(result.read_text())[key]
        measured |= {f"{key.replace('main', 'emnist')} {name}": seconds[name] for name in _FIGURES}
    return measured


if __name__ == "__main__":
    cli.main(define(), program)
