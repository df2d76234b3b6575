"""Folder of a run: its files, and what they disclose about the clients.

Checkpoints are written completely and then renamed. A run continues from the newest readable checkpoint. Checkpoints
may contain secrets, such as seeds of privacy noise, so only their owner can read them. A folder belongs to a single
configuration and format. A run with another one is refused and leaves the folder unchanged, unless `--restart` moves
the old files aside.
"""

import contextlib
import datetime
import enum
import fcntl
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import numpy as np

from data import files
from data.errors import Failure, UsageError
from optimization.study import cli

# Format of run folders and grids. Increase it when older folders can no longer be read or continued.
FORMAT = 3
PRIVACY_FILE = "privacy.json"
STATISTICS_FILE = "statistics.json"
BOUNDS_FILE = "bounds.json"
KERAS_FILE = "architecture.json"  # The user's Keras model, without its weights.
SIMULATOR_FILE = "simulator.json"
CLIENT_REWARDS_FILE = "client_rewards.json"  # Rewards of held-out clients.
EVALUATED_CLIENTS_FILE = "private_client_evaluation.json"  # Rewards of clients who participate in training.
MODEL_FILE = pathlib.Path("model", "weights.npz")
POLICY_FILE = pathlib.Path("model", "policy_sums.npz")  # Deployed sums of the user's policy.
_CONFIG = "config.json"
_NUM_CHECKPOINTS = 3
CHECKSUM = "checksum_"  # Prefix, before a table's name, of the entry of a checkpoint that holds the table's checksum.
_OBJECT = "python_"
_RESTART = "restart"
_ROUNDS = "total_rounds"
_ASIDE = "before_restart_"
INTERACTIONS = "interactions"
DEPLOYED_MODELS = "models"
CLIENT_REPORT_FILE = "private_client_rewards.json"
ADAPTED_FILE = "private_adapted_rewards.json"
EXPORT = "export"
CLIENT_MODELS, CLIENT_VARIATES, CLIENT_SUMS = (f"private_client_{kind}" for kind in ("models", "variates", "sums"))
# What the folders of clients' states hold.
_OF_CLIENTS = {
    CLIENT_MODELS: "a model of each client that participated",
    CLIENT_VARIATES: "clients' mean gradients",
    CLIENT_SUMS: "sums over each client's interactions",
}
_SUBFOLDERS = ("checkpoints", "model", INTERACTIONS, DEPLOYED_MODELS, *_OF_CLIENTS, EXPORT)
_HAS_CHECKPOINTS = "has_checkpoints"
RESTORE = "restore a copy, or give --restart, which moves the old files aside and starts over."
_ELSEWHERE = "choose another --experiment_name, or give --restart, which moves the old files aside."
_PACKAGES = ("tensorflow", "tensorflow-federated", "tensorflow-privacy", "dp-accounting", "numpy")
# Flags that do not affect results. They may change when a run is continued.
FREE_FLAGS = {"cache_dir", "config", "data_dir", "experiment_name", "export", "preset", "root_output_dir"}
FREE_FLAGS |= {"isolation", "max_concurrent_threads", "runtime", "tff_workers"}
FREE_FLAGS |= {"callbacks", _RESTART, "rounds_per_checkpoint"}


class Disclosure(enum.StrEnum):
    """Kind of information that a file discloses. Only files of the first kind may be published."""

    RELEASED = "released under the guarantee, or independent of the clients' data"
    AGGREGATE = "counts, digests, aggregates and categories from participating clients, without noise"
    HELD_OUT = "rewards of held-out clients, whom epsilon does not protect either"
    PRIVATE = "as private as the data"


# Patterns of paths in the folder of a run with privacy noise. They also apply in an earlier phase's folder, `init/`.
DISCLOSURES: Mapping[Disclosure, tuple[str, ...]] = {
    Disclosure.RELEASED: ("model/weights.npz", KERAS_FILE, "models/period_*.npz", "finished.json", ".lock"),
    Disclosure.AGGREGATE: (
        "model/policy_sums.npz",
        "metrics.csv",
        "reward.png",
        "ads.png",
        "events.*",
        "log.txt",
        "bounds.json",
        "simulator.json",
        "statistics.json",
        "config.json",
        "export/*",
        "export/saved_model/*",
        "export/saved_model/*/*",
        "privacy.json",
    ),
    Disclosure.HELD_OUT: ("client_rewards.json",),
    Disclosure.PRIVATE: ("private_*", "private_*/*", "interactions/*", "checkpoints/*"),
}
NOTICE = (
    "Epsilon covers only the model, not the rewards that this run prints. privacy.json lists under `files` what "
    "each file discloses, and which files may be published."
)


def private_notices(path: pathlib.Path) -> list[str]:
    """Lines to print after a run whose folder contains states of clients; empty for other runs."""
    held = {path / name: content for name, content in _OF_CLIENTS.items() if (path / name).is_dir()}
    return [f"Keep {each} and the checkpoints private: they hold {content}." for each, content in held.items()]


def with_disclosures(report: Mapping[str, Any]) -> dict[str, Any]:
    """Content of `privacy.json`: a mechanism's report and, under `files`, what the run's files disclose."""
    return {**report, "files": {str(kind): list(patterns) for kind, patterns in DISCLOSURES.items()}}


@contextlib.contextmanager
def claiming(path: pathlib.Path, what: str = "program") -> Iterator[TextIO]:
    """Creates a folder and yields a lock, which keeps other processes out of the folder while it is open.

    Args:
      path: Path of the folder.
      what: Description of the lock's holder, for the error message.

    Raises:
      UsageError: If another process holds the lock, or the folder or a file that the block writes cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = open(path / ".lock", "w")  # noqa: SIM115
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    except BlockingIOError as error:
        raise UsageError(
            f"Another {what} is running in {path}: wait for it, or choose another --experiment_name."
        ) from error
    except OSError as error:
        raise UsageError(
            f"The output folder {path} cannot be written ({error.strerror}): "
            "choose another one with --root_output_dir or --experiment_name."
        ) from error


def renamed(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Recorded flags under their current names. Earlier versions recorded a user's policy as `python_policy`."""
    old = {name.removeprefix(_OBJECT): value for name, value in flags.items() if name.startswith(_OBJECT)}
    return {name: value for name, value in flags.items() if not name.startswith(_OBJECT)} | old


def check_format(path: pathlib.Path, config: Mapping[str, Any], what: str = "run") -> None:
    """Refuses a folder that has another format.

    Raises:
      UsageError: If the format differs.
    """
    if (recorded_format := config.get("format")) != FORMAT:
        raise UsageError(
            f"{path} holds a {what} of format {recorded_format}, but this version reads only format {FORMAT}: "
            + (_ELSEWHERE if what == "run" else "choose another --experiment_name.")
        )


class RunFolder:
    """Files of a run.

    Attributes:
      path, metrics_path, config_path: Paths of the folder, of `metrics.csv` and of `config.json`.
      command: The command to record for this start.
      flags: All flags except `restart`, once the folder is opened.
      checksums: For each table, a function that returns the checksum of its rows up to a round.
      expected_checksums: For each table, the checksum in the checkpoint from which the run continues.
    """

    def __init__(self, path: str | os.PathLike, command: str | None = None):
        """Sets the path, and the command to record for this start (default: the command of this process)."""
        self.command = command or cli.command_line()
        self.path = pathlib.Path(path)
        self.metrics_path = self.path / "metrics.csv"
        self.config_path = self.path / _CONFIG
        self._checkpoints = self.path / "checkpoints"
        self._config: dict[str, Any] = {}
        self.flags: Mapping[str, Any] = {}
        self._start: dict[str, Any] | None = None
        self.checksums: dict[str, Callable[[int], str]] = {}
        self.expected_checksums: dict[str, str] = {}

    def open(
        self,
        flag_values: Mapping[str, Any],
        data_checksum: str,
        data_report: Mapping[str, Any] | None = None,
        default: Callable[[str], Any] = lambda _: None,
    ) -> None:
        """Creates the folder, or checks that an existing folder contains this run.

        Args:
          flag_values: All flags; `restart` moves the files of an existing run aside.
          data_checksum: Digest that changes when the data does.
          data_report: Report on the data, which is recorded.
          default: Function from a flag to its default, for runs that were recorded before the flag existed.

        Raises:
          UsageError: If the folder cannot be written, or contains a run of another configuration or format.
        """
        is_new = bool(flag_values.get(_RESTART))
        if not is_new:
            self._check_format()
        with claiming(self.path) as self._lock:
            if is_new:
                self._move_aside()
            self._checkpoints.mkdir(exist_ok=True)
            self._checkpoints.chmod(0o700)
            for folder in (self.path, *map(self.path.joinpath, _SUBFOLDERS)):
                for stale in folder.glob("*.part[0-9]*"):  # Left by a process that was killed.
                    stale.unlink()
        self.flags = flags = {name: value for name, value in sorted(flag_values.items()) if name != _RESTART}
        start = {
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "git_commit": _git_commit(),
            "versions": versions(),
            "command": self.command,
        }
        if self.config_path.exists():
            before = self._read_config()
            added = {name: default(name) for name in flags if name not in before["flags"]}
            self._check_same(added | before["flags"], flags, before.get("data_checksum") == data_checksum)
            # Written only when the run continues, so that a folder that turns out to be damaged stays unchanged.
            self._config = before | {"flags": flags}
            self._start = start
        else:
            self._config = {
                "format": FORMAT,
                "flags": flags,
                "seed": flag_values.get("seed"),
                "data_checksum": data_checksum,
                "data_report": dict(data_report or {}),
                **start,
            }
            self.write_json(_CONFIG, self._config)

    def close(self) -> None:
        """Lets other processes open the folder."""
        self._lock.close()

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Writes a JSON file to the folder, either completely or not at all."""
        files.replace(self.path / name, json.dumps(content, indent=2).encode() + b"\n")

    def record_continuation(self, after_round: int) -> None:
        """Records a continuation in `config.json`, unless this is the first start."""
        if self._start is not None:
            earlier = self._config.get("continuations", [])
            self._record(continuations=[*earlier, self._start | {"after_round": after_round}])

    def recorded(self, name: str, first: Callable[[], Any]) -> Any:
        """Value of `name` in `config.json`. If there is none yet, records `first()`, unless that is None."""
        if name not in self._config and (value := first()) is not None:
            self._record(**{name: value})
        return self._config.get(name)

    def _record(self, **values: Any) -> None:
        self._config |= values
        self.write_json(_CONFIG, self._config)

    def _read_config(self) -> dict[str, Any]:
        try:
            config = json.loads(self.config_path.read_text())
            return config | {"flags": renamed(config["flags"])}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self.config_path} is not readable: {_ELSEWHERE}") from error

    def _check_format(self) -> None:
        if self.config_path.exists():
            check_format(self.path, self._read_config())
        elif self.metrics_path.exists() or any(self._checkpoint_files()):
            raise UsageError(f"{self.path} lacks its config.json, so its run cannot continue: {_ELSEWHERE}")

    def _move_aside(self) -> None:
        """Moves all files of a run into a new folder next to them."""
        paths = [path for path in self.path.iterdir() if path.is_file() and path.name != ".lock"]
        paths += [path for path in map(self.path.joinpath, _SUBFOLDERS) if path.is_dir() and any(path.iterdir())]
        if not paths:
            return
        taken = [path.name.removeprefix(_ASIDE) for path in self.path.glob(f"{_ASIDE}[0-9]*")]
        number = 1 + max((int(number) for number in taken if number.isdecimal()), default=0)
        aside = self.path / f"{_ASIDE}{number}"
        aside.mkdir()
        for path in paths:
            path.rename(aside / path.name)
        print(f"The previous run's files are in {aside}.", file=sys.stderr)

    def _check_same(self, before: Mapping[str, Any], flags: Mapping[str, Any], is_same_data: bool) -> None:
        old, new = json.loads(json.dumps(before)), json.loads(json.dumps(flags))
        # A run can be extended unless its noise is planned for an epsilon, which depends on the number of rounds.
        is_longer = old.get("target_epsilon") is None and (old.get(_ROUNDS) or 0) < (new.get(_ROUNDS) or 0)
        names = sorted({*old, *new} - FREE_FLAGS - ({_ROUNDS} if is_longer else set()))
        now = {name: f"is {new[name]}" if name in new else "but is not a flag in this version" for name in names}
        changed = [f"--{name} was {old.get(name)}, {now[name]}" for name in names if old.get(name) != new.get(name)]
        if not is_same_data:
            changed.append("the data has a different checksum")
        if changed:
            text = f"{self.path} holds a run with other settings: {'; '.join(changed)}."
            raise UsageError(f"{text} To start a new run, {_ELSEWHERE}")

    def save_checkpoint(self, round_num: int, leaves: Sequence[np.ndarray]) -> None:
        """Writes a checkpoint, and removes all but the newest three."""
        arrays = {"leaves": len(leaves)} | {f"leaf_{index:04d}": leaf for index, leaf in enumerate(leaves)}
        arrays |= {CHECKSUM + name: np.array(checksum(round_num)) for name, checksum in self.checksums.items()}
        path = self._checkpoints / f"round_{round_num:08d}.npz"
        if path.is_dir():  # It was skipped as unreadable.
            with files.write_errors(path):
                path.rename(f"{path}.folder")
        files.save_arrays(path, arrays, mode=0o600)
        # The run did not continue from checkpoints of later rounds, so these were unreadable and do not count.
        readable = [file for file, number in self._checkpoint_files() if number <= round_num and file.is_file()]
        for old in readable[_NUM_CHECKPOINTS:]:
            old.unlink(missing_ok=True)
        if not self._config.get(_HAS_CHECKPOINTS):
            self._record(**{_HAS_CHECKPOINTS: True})

    def checkpoint_rounds(self) -> list[int]:
        """Rounds of the checkpoints, newest first."""
        return [round_num for _, round_num in self._checkpoint_files()]

    def _checkpoint_files(self) -> Iterator[tuple[pathlib.Path, int]]:
        """Yields checkpoints and their rounds, newest first."""
        for path in sorted(self._checkpoints.glob("round_*.npz"), reverse=True):
            if match := re.fullmatch(r"round_(\d+)\.npz", path.name):
                yield path, int(match[1])

    def newest_checkpoint(self, template: Sequence[np.ndarray], last_round: int) -> tuple[int, list] | None:
        """Newest readable checkpoint up to a round.

        Args:
          template: Leaves with the expected shapes and dtypes.
          last_round: Last round to consider; newer checkpoints are ignored.

        Returns:
          The round and the leaves, or None if no checkpoint was ever written. Warnings on stderr name unreadable ones.

        Raises:
          Failure: If all checkpoints are missing or unreadable, or the newest readable one has another structure.
        """
        is_damaged = False
        for path, round_num in self._checkpoint_files():
            if round_num > last_round:
                continue
            try:
                with np.load(path, allow_pickle=False) as archive:
                    leaves = [archive[f"leaf_{index:04d}"] for index in range(int(archive["leaves"]))]
                    differs = [_kind(leaf) for leaf in leaves] != [_kind(leaf) for leaf in template]
                    if differs and archive.zip.testzip():
                        raise ValueError("wrong checksum")
                    checksums = {name: str(archive[name]) for name in archive.files if name.startswith(CHECKSUM)}
            except Exception as error:  # NumPy and zipfile raise many kinds of errors for a damaged file.
                is_damaged = True
                print(f"Warning: checkpoint {path} is not readable ({error}): trying an older one.", file=sys.stderr)
                continue
            if differs:
                raise Failure(
                    f"{path} holds the state of a different version of the program. Continue with that version, or "
                    + _ELSEWHERE
                )
            self.expected_checksums = {name.removeprefix(CHECKSUM): value for name, value in checksums.items()}
            return round_num, leaves
        if is_damaged or self._config.get(_HAS_CHECKPOINTS):
            raise Failure(f"{self._checkpoints} has no readable checkpoint, so the run cannot continue: {RESTORE}")
        return None

    def save_model(self, names: Sequence[str], weights: Sequence[np.ndarray]) -> pathlib.Path:
        """Writes each weight as a named array to `model/weights.npz`, and returns the path of this file."""
        path = self.path / MODEL_FILE
        with files.write_errors(path):
            path.parent.mkdir(exist_ok=True)
        files.save_arrays(path, dict(zip(names, weights, strict=True)))
        return path


def _kind(leaf: Any) -> tuple[tuple[int, ...], np.dtype]:
    return np.shape(leaf), np.asarray(leaf).dtype


def find_model(path: str) -> pathlib.Path:
    """Finds the weights file of a run, given the path of the file, of its folder or of the run's folder.

    Raises:
      UsageError: If there is no such file.
    """
    named = pathlib.Path(path)
    for file in (named, named / MODEL_FILE.name, named / MODEL_FILE):
        if file.is_file():
            return file
    raise UsageError(f"--initial_model_path={path} holds no model: name the folder of a finished run.")


def read_model(path: str) -> dict[str, np.ndarray]:
    """Reads the weights that `RunFolder.save_model` wrote, by name; see `find_model`.

    Raises:
      UsageError: If there is no such file, it is not readable, or its weights are not finite.
    """
    file = find_model(path)
    try:
        weights = files.read_arrays(file)
    except UsageError as error:
        raise UsageError(f"--initial_model_path: {error}") from error
    if not all(array.dtype.kind == "f" and np.isfinite(array).all() for array in weights.values()):
        raise UsageError(f"--initial_model_path: {file} holds weights that are not finite: name another model.")
    return weights


def load_model(path: str, shapes: Mapping[str, tuple[int, ...]]) -> tuple[np.ndarray, ...]:
    """Reads weights that `RunFolder.save_model` wrote.

    Args:
      path: See `find_model`.
      shapes: Weight names and shapes of the model to fill.

    Returns:
      float32 arrays in the order of `shapes`.

    Raises:
      UsageError: See `read_model`; also if the file contains another model's weights.
    """
    weights = read_model(path)
    if {name: array.shape for name, array in weights.items()} != dict(shapes):
        raise UsageError(
            f"--initial_model_path={path} holds a model for another task: name one trained for this --task_type."
        )
    return tuple(weights[name].astype(np.float32) for name in shapes)


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a run's numbers depend on."""
    packages = {package: importlib.metadata.version(package) for package in _PACKAGES}
    return {"python": platform.python_version(), **packages}


def _git_commit() -> str | None:
    """Git commit of the project, marked if the tree has uncommitted changes; None outside a checkout."""
    root = pathlib.Path(__file__).resolve().parents[2]
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
