"""Compares two versions of this project: `python -m scripts.compare_versions --old=CHECKOUT`."""

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
from optimization.study import cli, run_folder
from optimization.study.settings import setting
from scripts import version_runs

if TYPE_CHECKING:
    import numpy as np

_USAGE = """
Runs an older checkout and this one on this machine, and compares tables, weights and checkpoints bit for bit.

  compare_versions --old=../before                          # all settings, a few rounds each
  compare_versions --old=../before --settings=plain,ads
  compare_versions --old=../before --speed                  # how long rounds take instead

Finished runs stay in --output, and run again only after a change of the sources. Exit status 1: the versions differ.
"""
_SHOWN = 3  # Differences of a setting.
_TURNS = 5
_BENCHMARKS = {"emnist": 10, "stackoverflow": 40}  # Measured rounds of each.
_FIGURES = ("seconds_per_round", "cpu_seconds_per_round", "first_round_seconds")


class _Flags:
    """Flags.

    Attributes:
      old: Folder of the older checkout.
      new: Folder of the newer checkout (default: that of this program).
      settings: Settings to run, separated by commas (default: all).
      output: Folder of the runs.
      speed: Measure the time of rounds, alternately, instead of comparing results.
    """

    old: pathlib.Path = setting()
    new: pathlib.Path = setting()
    settings: str = setting(only={"speed": False})
    output: pathlib.Path = setting("compared_versions")
    speed: bool = setting(False)


def define() -> cli.FlagSet:
    """Flags of `compare_versions`."""
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
    result = f"same, but for expected differences: {setting.reason}" if any(size for _, size in differing) else "same"
    if unexpected:
        more = [f"and {len(unexpected) - _SHOWN} more"] if len(unexpected) > _SHOWN else []
        result = f"differs: {'; '.join(unexpected[:_SHOWN] + more)}"
    print("; ".join([f"{setting.name}: {result}", *added]), flush=True)
    return not unexpected


def differences(old: pathlib.Path, new: pathlib.Path, is_resumed: bool = False) -> Iterator[tuple[str, float]]:
    """Compares all tables and archives of two folders of runs.

    Args:
      old: Folder of runs.
      new: Another one.
      is_resumed: Whether the runs in `new` were interrupted. They then also evaluated and saved at that round: their
        additional files, and cells that are empty in `old`, are not compared.

    Yields:
      The place of a difference, in words, and its size: infinite if it is no number, 0 for an additional column.
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
        old_values, new_values = before[place], after[place]
        if (old_values.shape, old_values.dtype) != (new_values.shape, new_values.dtype):
            was, now = (f"{values.dtype}{list(values.shape)}" for values in (old_values, new_values))
            yield f"{' '.join(place)} was {was}, is {now}", np.inf
            continue
        differs = (old_values != new_values) & ~(pd.isna(old_values) & (is_resumed | pd.isna(new_values)))
        is_other = np.ravel(differs)
        if is_other.any():
            rounds, size = before.get((place[0], "round_num"), ()), np.inf
            if old_values.dtype.kind in "biuf":
                sizes = np.abs(np.subtract(new_values.ravel()[is_other], old_values.ravel()[is_other], dtype=float))
                # Large integers can differ and be equal as floats.
                size = float(np.nan_to_num(sizes, nan=np.inf, posinf=np.inf).max()) or np.inf
            since = f" from round {rounds[is_other.argmax()]}" if len(rounds) else ""
            yield f"{' '.join(place)}{since}, by up to {size:.2g}", size


def _values(folder: pathlib.Path, renamed: Mapping[str, str]) -> "dict[tuple[str, str], np.ndarray]":
    """All columns of tables, except seconds, and all arrays of archives, by file and name.

    Args:
      folder: Folder of the files.
      renamed: New names of checkpoints' fields.
    """
    import numpy as np
    import pandas as pd

    values = {}
    for path in sorted([*folder.rglob("*.csv"), *folder.rglob("*.parquet")]):
        table = pd.read_csv(path, float_precision="round_trip") if path.suffix == ".csv" else pd.read_parquet(path)
        for name, column in table.items():
            if "seconds" not in name:
                values[str(path.relative_to(folder)), name] = column.to_numpy()
    for path in sorted(folder.rglob("*.npz")):
        fields, names = path.parents[1] / "fields.json", {}
        if path.parent.name == "checkpoints" and fields.exists():
            of_leaves = [renamed.get(name, name) for name in json.loads(fields.read_text())]
            names = {f"leaf_{index:04d}": name for index, name in enumerate(of_leaves)} | {"leaves": None}
        with np.load(path, allow_pickle=False) as archive:
            # Checksums repeat what the tables show.
            for name in (name for name in archive.files if not name.startswith(run_folder.CHECKSUM)):
                if (known := names.get(name, name)) is not None:
                    values[str(path.relative_to(folder)), known] = archive[name]
    return values


def measure_speed(old: version_runs.Side, new: version_runs.Side, output: pathlib.Path) -> None:
    """Measures both alternately, since a machine's speed drifts; prints medians, and writes all values to `speed.json`.

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
    for what, rounds in _BENCHMARKS.items():
        result = folder / f"{what}.json"
        flags = f"--what={what}", f"--rounds={rounds}", f"--output={result}"
        version_runs.run(side.command("scripts.benchmark", *flags), folder / f"{what}.txt")
        seconds = json.loads(result.read_text())
        measured |= {f"{what} {name}": seconds[name] for name in _FIGURES}
    return measured


if __name__ == "__main__":
    cli.main(define(), program)
