"""Compares two versions of this project: `python -m scripts.compare_versions --old=CHECKOUT`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import dataclasses
import gzip
import hashlib
import json
import os
import pathlib
import random
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from data import files
from data.errors import Failure, UsageError
from data.settings import setting
from optimization.study import cli, interruption, run_folder

_USAGE = """
Runs an older checkout and this one on this machine, and compares tables, weights and checkpoints bit for bit.

  compare_versions --old=../before                          # all settings, a few rounds each
  compare_versions --old=../before --settings=plain,ads

Finished runs stay in --output, and are repeated only if the sources change. Exit status 1 means that versions differ.
"""
_SHOWN = 3  # Number of differences shown per setting.
_SOURCES = ("bandits", "data", "optimization")
_SETTINGS = pathlib.Path(__file__).with_name("compare_versions.toml")
_FIELDS = pathlib.Path(__file__).resolve().with_name("version_fields.py")
_SHARED = "shared"


@dataclasses.dataclass(frozen=True)
class Setting:
    """A table of compare_versions.toml, with its `name`. The first comment of that file explains the other fields."""

    name: str
    binary: str
    flags: str
    rounds: int = 0
    is_resumed: bool = False
    tolerance: float = 0.0
    expected: Sequence[str] = ()
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Side:
    """A checkout, and the folder of its runs, which is named after its role and the digest of its sources."""

    checkout: pathlib.Path
    folder: pathlib.Path

    @classmethod
    def of(cls, role: str, checkout: pathlib.Path, output: pathlib.Path) -> "Side":
        """Creates the side with the role `old` or `new`."""
        digest = hashlib.sha256()
        for path in sorted(path for package in _SOURCES for path in (checkout / package).rglob("*")):
            if path.suffix in (".py", ".toml"):
                digest.update(f"{path.relative_to(checkout)}\0".encode() + path.read_bytes())
        return cls(checkout, output / f"{role}_{digest.hexdigest()[:12]}")

    def run(self, setting: Setting, is_resumed: bool = False) -> pathlib.Path:
        """Runs a setting, and returns the folder of its runs.

        Args:
          setting: The setting.
          is_resumed: Whether the run is stopped after half of its rounds and then resumed.

        Raises:
          Failure: If a run fails.
        """
        half = self._run(setting, "half", setting.rounds // 2) if is_resumed else None
        return self._run(setting, "resumed" if is_resumed else "whole", setting.rounds, half)

    def _run(self, setting: Setting, name: str, rounds: int, half_run: pathlib.Path | None = None) -> pathlib.Path:
        root, data = self.folder / setting.name, self.folder.parent / "data"
        folder, done = root / name, root / f"{name}_done.txt"
        description = f"{setting.binary} {setting.flags} {rounds}"
        if done.exists() and done.read_text() == description:
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        root.mkdir(parents=True, exist_ok=True)
        if half_run:
            shutil.copytree(half_run, folder)
        _make_posts(data / "stackexchange_posts.jsonl.gz")
        output = [f"--root_output_dir={root}", f"--experiment_name={name}", "--seed=3", f"--total_rounds={rounds}"]
        places = {"data": data, "tables": self.checkout / "data" / "examples", "runs": self.folder}
        flags = setting.flags.format_map(places).split() + (output if rounds else [f"--output_dir={folder}"])
        words = [str(self.checkout / "scripts" / "python"), str(_FIELDS), setting.binary, *flags]
        run(words, root / f"{name}_log.txt")
        files.replace(done, description.encode())
        return folder


@dataclasses.dataclass(frozen=True)
class _Flags:
    """Flags."""

    old: pathlib.Path = setting(None, "Folder of the older checkout")
    new: pathlib.Path = setting(None, "Folder of the newer checkout (default: this program's checkout)")
    settings: str = setting(None, "Settings to run, separated by commas (default: all)")
    output: pathlib.Path = setting("compared_versions", "Folder of the runs")


def define() -> cli.FlagSet:
    """Flags of `compare_versions`."""
    return cli.FlagSet(_USAGE).group("Flags", _Flags)


def program(settings: cli.Settings) -> int:
    """Runs and compares both versions, and returns 1 if they differ or a run fails, otherwise 0."""
    if not settings.old:
        raise UsageError("--old is missing: name the folder of an older checkout.")
    known, output, sides = known_settings(), pathlib.Path(settings.output), []
    for flag, path in (("old", settings.old), ("new", settings.new or pathlib.Path(__file__).resolve().parents[1])):
        checkout = pathlib.Path(path)
        if not (checkout / "scripts" / "python").is_file():
            raise UsageError(f"--{flag}: {checkout} is not a checkout of this project: it has no scripts/python.")
        sides.append(Side.of(flag, checkout, output))
    names = settings.settings.split(",") if settings.settings else list(known)
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"--settings: {unknown[0]!r} is not one of {', '.join(known)}.")
    if output.exists() and not output.is_dir():
        raise UsageError(f"--output: {output} is a file, not a folder.")
    return int(not all([_is_same(known[name], *sides) for name in names]))


def _is_same(setting: Setting, old: Side, new: Side) -> bool:
    """Runs a setting with both versions, compares the results, and prints a line about it."""
    try:
        after = new.run(setting)
        differing = list(differences(old.run(setting), after))
        if setting.is_resumed:
            of_resumed = differences(after, new.run(setting, True), True)
            differing += [(f"resumed: {where}", size) for where, size in of_resumed]
    except Failure as error:
        print(f"{setting.name}: failed: {error}", flush=True)
        return False
    unexpected = [
        where
        for where, size in differing
        if size > setting.tolerance and not set(setting.expected) & set(where.replace(",", "").split())
    ]
    added = dict.fromkeys(where for where, size in differing if not size)
    result = f"same, except as expected: {setting.reason}" if any(size for _, size in differing) else "same"
    if unexpected:
        more = [f"and {len(unexpected) - _SHOWN} more"] if len(unexpected) > _SHOWN else []
        result = f"differs: {'; '.join(unexpected[:_SHOWN] + more)}"
    print("; ".join([f"{setting.name}: {result}", *added]), flush=True)
    return not unexpected


def differences(old: pathlib.Path, new: pathlib.Path, is_resumed: bool = False) -> Iterator[tuple[str, float]]:
    """Compares all tables and archives of two folders of runs.

    Args:
      old: Folder with runs of the old version.
      new: Folder with runs of the new version.
      is_resumed: Whether the runs in `new` were interrupted. They then have an additional evaluation and checkpoint in
        the round of the interruption, so additional files, and cells that are empty in `old`, are not compared.

    Yields:
      Description of each difference, and its size: infinite if it is not a number, 0 for a new column.
    """
    before, after = _values(old), _values(new)
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
                # Different large integers can be equal as floats.
                size = float(np.nan_to_num(sizes, nan=np.inf, posinf=np.inf).max()) or np.inf
            since = f" from round {rounds[is_other.argmax()]}" if len(rounds) else ""
            yield f"{' '.join(place)}{since}, by up to {size:.2g}", size


def _values(folder: pathlib.Path) -> dict[tuple[str, str], np.ndarray]:
    """All columns of tables, except times in seconds, and all arrays of archives, by file and name."""
    values = {}
    for path in sorted([*folder.rglob("*.csv"), *folder.rglob("*.parquet")]):
        table = pd.read_csv(path, float_precision="round_trip") if path.suffix == ".csv" else pd.read_parquet(path)
        for name, column in table.items():
            if "seconds" not in name:
                values[str(path.relative_to(folder)), name] = column.to_numpy()
    for path in sorted(folder.rglob("*.npz")):
        fields, names = path.parents[1] / "fields.json", {}
        if path.parent.name == "checkpoints" and fields.exists():
            of_leaves = json.loads(fields.read_text())
            names = {f"leaf_{index:04d}": name for index, name in enumerate(of_leaves)} | {"leaves": None}
        with np.load(path, allow_pickle=False) as archive:
            # Checksums only depend on tables, which are compared anyway.
            for name in (name for name in archive.files if not name.startswith(run_folder.CHECKSUM)):
                if (known := names.get(name, name)) is not None:
                    values[str(path.relative_to(folder)), known] = archive[name]
    return values


def known_settings() -> dict[str, Setting]:
    """All settings by name."""
    tables = tomllib.loads(_SETTINGS.read_text())
    shared = tables.pop(_SHARED)
    for table in tables.values():
        for name, flags in shared.items():
            table["flags"] = table["flags"].replace(f"{{{name}}}", flags)
    return {name: Setting(name, **table) for name, table in tables.items()}


def run(words: Sequence[str], log: pathlib.Path) -> None:
    """Runs a command of a checkout, and writes its output to `log`.

    Raises:
      Failure: If the command fails.
    """
    # `-m` searches the working directory first, so this runs the modules of the checkout, not those of this process.
    folder = pathlib.Path(words[0]).parents[1]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with open(log, "wb") as file:
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        )
    stopped: list[int] = []

    def stop(signum: int) -> None:
        stopped.append(signum)
        process.send_signal(signum)

    with interruption.answered(stop):
        status = process.wait()
    if stopped:
        sys.exit(128 + stopped[0])
    if status:
        raise Failure(f"{shlex.join(words)} ended with status {status}: see {log}.")


def _make_posts(path: pathlib.Path) -> None:
    """Writes generated posts of 60 users, whose tags are the words with one digit, unless the file exists."""
    if path.exists():
        return
    generator, lines = random.Random(0), []
    for index in range(900):
        words = [f"word{int(generator.expovariate(0.03))}" for _ in range(generator.randrange(3, 30))]
        post = {"site": "made", "user": f"made/{index % 60}", "title": words[0], "body": " ".join(words)}
        lines.append(json.dumps(post | {"tags": sorted({word for word in words if len(word) == len("word1")})}))
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, gzip.compress("\n".join(lines).encode() + b"\n", mtime=0))


if __name__ == "__main__":
    cli.main(define(), program)
