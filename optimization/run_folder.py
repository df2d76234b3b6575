"""A run is a folder: config.json, metrics.csv, checkpoints, model, figure, TensorBoard events.

Checkpoints are written whole, then renamed; the newest readable one counts. A folder belongs to one configuration:
another one is refused.
"""

import csv
import fcntl
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from data.errors import UsageError

PRIVACY_FILE = "privacy.json"
_KEPT_CHECKPOINTS = 3
_PACKAGES = ("tensorflow", "tensorflow-federated", "tensorflow-privacy", "dp-accounting", "numpy")
# Flags that say where and how to run, or where values come from, not what: they may change between a start and its
# continuation.
FREE_FLAGS = {
    "cache_dir",
    "data_dir",
    "experiment_name",
    "max_concurrent_threads",
    "preset",
    "root_output_dir",
    "rounds_per_checkpoint",
    "tff_workers",
}


class RunFolder:
    """One run's files."""

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        self.metrics_path = self.path / "metrics.csv"
        self.config_path = self.path / "config.json"
        self._checkpoints = self.path / "checkpoints"

    def open(
        self, flag_values: Mapping[str, Any], data_checksum: str, data_report: Mapping[str, Any] | None = None
    ) -> None:
        """Makes the folder, or checks that it holds this very run.

        Args:
          flag_values: All flags.
          data_checksum: Digest of the data.
          data_report: What became of the data, to record.

        Raises:
          UsageError: If it cannot be written, or holds another configuration's run.
        """
        try:
            self._checkpoints.mkdir(parents=True, exist_ok=True)
            # Locked against other processes until this object or the process is gone.
            self._lock = open(self.path / ".lock", "w")  # noqa: SIM115
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"Another program is running in {self.path}: wait for it, or choose another --experiment_name."
            ) from error
        except OSError as error:
            raise UsageError(
                f"The output folder {self.path} cannot be written ({error.strerror}): "
                "choose another one with --root_output_dir or --experiment_name."
            ) from error
        config = {
            "flags": dict(sorted(flag_values.items())),
            "seed": flag_values.get("seed"),
            "data_checksum": data_checksum,
            "data_report": dict(data_report or {}),
            "versions": versions(),
            "git_commit": _git_commit(),
            "command": sys.argv,
        }
        if self.config_path.exists():
            self._check_same(config)
        self.write_json("config.json", config)

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Writes a JSON file of the folder whole."""
        replace_file(self.path / name, json.dumps(content, indent=2).encode() + b"\n")

    def _check_same(self, config: Mapping[str, Any]) -> None:
        try:
            before = json.loads(self.config_path.read_text())
            old, new = before["flags"], json.loads(json.dumps(config["flags"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self.config_path} is not readable: choose another --experiment_name.") from error
        changed = [
            f"--{name} was {old.get(name)}, is {new.get(name)}"
            for name in sorted({*old, *new} - FREE_FLAGS)
            if old.get(name) != new.get(name)
            # A run may be made longer: no round depends on how many follow.
            and not (name == "total_rounds" and (old.get(name) or 0) < new[name])
        ]
        if before.get("data_checksum") != config["data_checksum"]:
            changed.append("the data has another checksum")
        if changed:
            raise UsageError(
                f"{self.path} holds a run with other settings: {'; '.join(changed)}. "
                "Choose another --experiment_name, or delete the folder."
            )

    def save_checkpoint(self, round_num: int, leaves: Sequence[np.ndarray]) -> None:
        """Writes a checkpoint whole, then removes the oldest beyond the last three."""
        path = self._checkpoints / f"round_{round_num:08d}.npz"
        part = path.with_suffix(f".npz.part{os.getpid()}")
        with open(part, "wb") as file:
            np.savez(file, **{f"leaf_{index:04d}": leaf for index, leaf in enumerate(leaves)})
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        # Newer ones were not readable, or this run would have continued from them: they displace none.
        readable = [file for file, number in self._checkpoint_files() if number <= round_num]
        for old in readable[_KEPT_CHECKPOINTS:]:
            old.unlink(missing_ok=True)
        for stale in self._checkpoints.glob("*.part*"):
            stale.unlink(missing_ok=True)

    def _checkpoint_files(self) -> Iterator[tuple[pathlib.Path, int]]:
        """Yields checkpoints and their rounds, newest first."""
        for path in sorted(self._checkpoints.glob("round_*.npz"), reverse=True):
            if match := re.fullmatch(r"round_(\d+)\.npz", path.name):
                yield path, int(match[1])

    def newest_checkpoint(self, template: Sequence[np.ndarray], last_round: int) -> tuple[int, list] | None:
        """Returns the newest readable checkpoint up to a round.

        Args:
          template: Leaves of the shapes and dtypes to expect.
          last_round: Newer ones are left aside.

        Returns:
          (round, leaves), or None if there is none. Unreadable ones are named on stderr.
        """
        for path, round_num in self._checkpoint_files():
            if round_num > last_round:
                continue
            try:
                with np.load(path, allow_pickle=False) as archive:
                    leaves = [archive[f"leaf_{index:04d}"] for index in range(len(template))]
                    if len(archive.files) != len(template):
                        raise ValueError("another number of arrays")
                for leaf, like in zip(leaves, template, strict=True):
                    if leaf.shape != np.shape(like) or leaf.dtype != np.asarray(like).dtype:
                        raise ValueError("arrays of other shapes")
                return round_num, leaves
            except Exception as error:  # What NumPy and zipfile raise over a damaged archive is almost anything.
                print(
                    f"Warning: checkpoint {path} is not readable ({error}); trying the one before.",
                    file=sys.stderr,
                )
        return None

    def save_model(self, names: Sequence[str], weights: Sequence[np.ndarray]) -> pathlib.Path:
        """Writes `model/weights.npz`, a named array a weight, and returns its path."""
        path = self.path / "model" / "weights.npz"
        path.parent.mkdir(exist_ok=True)
        part = path.with_suffix(".part")
        with open(part, "wb") as file:
            np.savez(file, **dict(zip(names, weights, strict=True)))
        os.replace(part, path)
        return path


class MetricsFile:
    """`metrics.csv`: one row a round, flushed at once, readable at any time."""

    def __init__(self, path: pathlib.Path, columns: Sequence[str], last_round: int):
        """Opens the file for the rounds after `last_round`, dropping rows of later rounds.

        Args:
          path: The file.
          columns: Column names, `round_num` first.
          last_round: The round that the run continues from; 0 for a new one.
        """
        self._columns = list(columns)
        self.rows: list[dict[str, str]] = []
        if path.exists() and last_round:
            with open(path, newline="") as file:
                rows = [row for row in csv.DictReader(file) if _is_whole(row)]
            self.rows = [row for row in rows if int(row["round_num"]) <= last_round]
        part = path.with_suffix(".part")
        with open(part, "w", newline="") as file:
            self._writer(file).writeheader()
            self._writer(file).writerows(self.rows)
        os.replace(part, path)
        self._file = open(path, "a", newline="")  # noqa: SIM115

    def _writer(self, file) -> csv.DictWriter:
        return csv.DictWriter(file, self._columns, restval="", lineterminator="\n")

    def write(self, row: Mapping[str, Any]) -> None:
        """Appends one row; columns without a value stay empty."""
        self._writer(self._file).writerow(row)
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _is_whole(row: Mapping[str, str | None]) -> bool:
    """Returns whether a row of `metrics.csv` is complete; a crash can leave the last line half written."""
    return None not in row.values() and row["round_num"].isdecimal()


def find_model(path: str) -> pathlib.Path:
    """Returns the weights' file of a run: the file, its folder or the run's folder may be named.

    Raises:
      UsageError: If there is none.
    """
    given = pathlib.Path(path)
    for file in (given, given / "weights.npz", given / "model" / "weights.npz"):
        if file.is_file():
            return file
    raise UsageError(f"--initial_model_path={path} holds no model: name the folder of a finished run.")


def load_model(path: str, shapes: Mapping[str, tuple[int, ...]]) -> tuple[np.ndarray, ...]:
    """Reads weights that `RunFolder.save_model` wrote.

    Args:
      path: See `find_model`.
      shapes: Weight names and shapes of the model to fill.

    Returns:
      float32 arrays in the order of `shapes`.

    Raises:
      UsageError: If there is no such file, or its weights are not this model's.
    """
    file = find_model(path)
    try:
        with np.load(file, allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
    except Exception as error:  # What NumPy and zipfile raise over a damaged archive is almost anything.
        raise UsageError(f"--initial_model_path: {file} is not readable ({error}).") from error
    if {name: array.shape for name, array in found.items()} != dict(shapes):
        raise UsageError(
            f"--initial_model_path: {file} holds another model than the task's; was it trained for this --task_type?"
        )
    return tuple(found[name].astype(np.float32) for name in shapes)


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that a run's numbers depend on."""
    return {
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in _PACKAGES},
    }


def replace_file(path: pathlib.Path, content: bytes) -> None:
    """Writes a file whole, then renames it into place."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)


def _git_commit() -> str | None:
    """Returns the project's commit, marked when the tree has changes; None outside a checkout."""
    root = pathlib.Path(__file__).resolve().parent.parent
    command = [
        "git",
        "-C",
        str(root),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=40",
        "--exclude=*",
    ]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
