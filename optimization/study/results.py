"""Reads the run folders of any study."""

import collections
import dataclasses
import importlib
import io
import json
import math
import os
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from data import files
from data.errors import UsageError, counted
from optimization.study import run_folder
from optimization.study.metrics import Metric

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from optimization.study import panels

_ASIDE = re.compile(r"before_restart_\d+")  # Folders that `--restart` moved aside.


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Run:
    """Contents of a run's folder. Two runs are equal only if they are the same object.

    Attributes:
      folder: Path of the run's folder.
      metrics: `metrics.csv`, with only numeric columns and one row per finished round.
      flags: All flags and their values.
      command: The command line, quoted for a shell.
      privacy: Content of `privacy.json`; empty without this file.
      data_report: Report on the data; may be empty.
      columns: Metrics of the studies to which the run may belong, and the run's own.
      bounds: Content of `bounds.json`: rewards of the uniform policy and the best fixed action, and the range of
        rewards; empty without this file.
      predictor: Package with the modules `predictions` and `exports`; empty if the study has no predictions.
    """

    folder: pathlib.Path
    metrics: "pd.DataFrame"
    flags: Mapping[str, Any]
    command: str
    privacy: Mapping[str, Any]
    data_report: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    columns: Sequence[Metric] = ()
    bounds: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    predictor: str = ""

    def __repr__(self) -> str:
        last = int(self.metrics["round_num"].iloc[-1])
        return f"<run {self.folder}, {counted(last, 'round')}>"

    @property
    def weights(self) -> "dict[str, np.ndarray] | None":
        """Final weights of the model by name; None before the end, or if the study has no model.

        Raises:
          UsageError: If the file is damaged.
        """
        path = self.folder / run_folder.MODEL_FILE
        return files.read_arrays(path) if path.is_file() else None

    def predict(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Predicted rewards and the policy's probabilities on new contexts, from the run's final model.

        Columns are encoded with the statistics that the run learned from its clients. If a policy parameter follows a
        schedule, the next deployment's value is used.

        Example:
          >>> run = bandits.run(table=frame, client_column="store", label_column="bought")
          >>> run.predict(frame.head())["probability"]

        Args:
          frame: The feature columns of the run's table, and the columns that define which actions are offered. Other
            columns are ignored.

        Returns:
          float64, with the frame's index. Each column is a pair: `predicted_reward` or `probability`, and the name of
          the action (its number, if --reward_columns=all and all rows offer the same actions). If actions have
          features, there is instead one row for each offered action, with the index of its row in the frame. The
          columns are then `action` (if actions have ids), `predicted_reward` and `probability`.

        Raises:
          UsageError: If the run is not one of run_federated on a table or a log of your own, or has no model yet; or if
            the frame lacks a column.
        """
        return self._module("predictions").predict(self, frame)

    def export(self, path: str | os.PathLike) -> pathlib.Path:
        """Writes the final model, with its preprocessing and policy, for use without this project.

        The folder gets `saved_model` (TensorFlow), `model.tflite` (TensorFlow Lite, only for numbers and categories)
        and `signature.json`, which describes the inputs and names the actions. See docs/deploy.md.

        Example:
          >>> bandits.load("runs/shop").export("shop_model")

        Args:
          path: The folder; an earlier export in it is replaced.

        Returns:
          The folder.

        Raises:
          UsageError: If the run cannot predict, has no feature column, or has a policy that samples random numbers; or
            if the folder contains anything other than an export.
        """
        return self._module("exports").export(self, pathlib.Path(path))

    def _module(self, name: str) -> Any:
        if not self.predictor:
            raise UsageError(
                f"The run in {self.folder} cannot predict: only runs of run_federated on a table, or on a log of "
                "your own, can."
            )
        return importlib.import_module(f"{self.predictor}.{name}")

    def plot(self, *names: str) -> "panels.Figure":
        """Plots metrics over rounds; by default those that the study marks as drawn.

        Example:
          >>> run.plot("bandits/average_rewards").savefig("reward.png")

        Raises:
          UsageError: If a name is not one of the run's metrics.
        """
        return Runs([self]).plot(*names)


class Runs(Sequence[Run]):
    """Several runs, such as the seeds of a configuration."""

    def __init__(self, runs: Iterable[Run]):
        self._runs = list(runs)

    def __len__(self) -> int:
        return len(self._runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...

    @overload
    def __getitem__(self, index: slice) -> "Runs": ...

    def __getitem__(self, index: int | slice) -> "Run | Runs":
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __repr__(self) -> str:
        return f"<{len(self)} runs: {', '.join(self._groups())}>"

    @property
    def metrics(self) -> "pd.DataFrame":
        """Metrics of all runs, concatenated, with columns `run` (equal for a configuration's seeds) and `seed`."""
        import pandas as pd

        parts = []
        for label, runs in self._groups().items():
            for run in runs:
                owner = {"run": label, "seed": run.flags.get("seed")}
                parts.append(pd.DataFrame(owner, run.metrics.index).join(run.metrics))
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["run", "seed"])

    def _groups(self) -> dict[str, list[Run]]:
        """Runs by name. NAME/seed_0 and NAME/seed_1 share a name; so do NAME and NAME_seed_1 if only seeds differ."""
        groups: dict[tuple[pathlib.Path, str], list[Run]] = {}
        for run in self._runs:
            groups.setdefault(_configuration(run), []).append(run)
        taken = collections.Counter(folder for folder, _ in groups)
        folders = [key[0] if taken[key[0]] == 1 else runs[0].folder for key, runs in groups.items()]
        return dict(zip(labels(folders), groups.values(), strict=True))

    def plot(self, *names: str, band: str = "ci") -> "panels.Figure":
        """Plots metrics as the mean over seeds with a band; by default those that the study marks as drawn.

        Args:
          *names: Names of the metrics to plot.
          band: Kind of band over seeds, one of `curves.BANDS`.

        Raises:
          UsageError: If a name is not one of the metrics, or there is no run.
        """
        from optimization.study import panels

        if not self._runs:
            raise UsageError("There are no runs to plot.")
        present = dict.fromkeys(column for run in self._runs for column in run.metrics if column != "round_num")
        if unknown := [name for name in names if name not in present]:
            raise UsageError(f"There is no metric {unknown[0]}: the metrics are {', '.join(present)}.")
        declared: dict[str, Metric] = {
            metric: metric for run in self._runs for metric in run.columns if metric in present
        }
        plotted = [metric for metric in declared.values() if metric.drawn]
        plotted = plotted or [metric for metric in declared.values() if metric.in_summary]
        finite = {name for run in self._runs for name, values in run.metrics.items() if values.abs().lt(math.inf).any()}
        shown = names or [metric for metric in plotted if metric in finite] or list(present)[:1]
        titles = {declared.get(name, name): declared[name].about if name in declared else name for name in shown}
        tables = {label: [run.metrics for run in group] for label, group in self._groups().items()}
        return panels.draw(tables, titles, bounds=[run.bounds for run in self._runs], kind=band)


def find(folder: pathlib.Path) -> dict[pathlib.Path, list[pathlib.Path]]:
    """Folders of the runs in a folder, at any depth, by name.

    The runs NAME/seed_N, which differ only in their seed, share the name NAME. Folders inside a run are skipped, such
    as those of its first phase and of the files that `--restart` moved aside.

    Raises:
      UsageError: If there is no run.
    """
    runs = _find(folder, frozenset())
    if not runs:
        raise UsageError(f"There is no metrics.csv in {folder}: name the folder of a run.")
    return runs


def _find(folder: pathlib.Path, above: frozenset[tuple[int, int]]) -> dict[pathlib.Path, list[pathlib.Path]]:
    """Runs in a folder; `above` holds its parent folders, because a link could lead back to them."""
    try:
        with os.scandir(folder) as entries:
            is_folder_of = {entry.name: entry.is_dir() for entry in entries}
    except OSError:
        return {}
    names = sorted(name for name, is_folder in is_folder_of.items() if is_folder and not name.startswith("."))
    if seeds := [folder / name for name in names if _is_seed(folder / name)]:
        return {folder: sorted(seeds, key=lambda path: int(path.name.removeprefix("seed_")))}
    if any(is_folder_of.get(name) is False for name in ("metrics.csv", "config.json")):
        return {folder.parent if _is_seed(folder) else folder: [folder]}
    status = folder.stat()
    here = (status.st_dev, status.st_ino)
    if here in above:
        return {}
    below = (folder / name for name in names if not _ASIDE.fullmatch(name))
    return {name: runs for path in below for name, runs in _find(path, above | {here}).items()}


def _configuration(run: Run) -> tuple[pathlib.Path, str]:
    """Path without the seed and, unless the path alone identifies the configuration, flags without the seed."""
    if _is_seed(run.folder):
        return run.folder.parent, ""
    apart = {*run_folder.FREE_FLAGS, "seed"}
    flags = {name: value for name, value in run.flags.items() if name not in apart}
    name = run.folder.name.removesuffix(f"_seed_{run.flags.get('seed')}")
    return run.folder.with_name(name), json.dumps(flags, sort_keys=True, default=str)


def _is_seed(folder: pathlib.Path) -> bool:
    return re.fullmatch(r"seed_\d+", folder.name) is not None


def labels(folders: Iterable[pathlib.Path]) -> list[str]:
    """Names of the folders or, if these are not unique, paths from the folder that contains all of them."""
    folders = list(folders)
    names = [folder.name for folder in folders]
    if len(set(names)) == len(set(folders)):
        return names
    return [os.path.relpath(folder, os.path.commonpath(folders)) for folder in folders]


def read(folder: pathlib.Path, studies: Iterable[Sequence[Metric]], predictor: str = "") -> Run:
    """Reads a run's folder.

    Args:
      folder: Path of the run's folder.
      studies: The metrics of each study to which the run may belong.
      predictor: See `Run`.

    Raises:
      UsageError: If a file is missing, damaged, in another format or not from a run; the message names the file.
    """
    config = read_json(folder / "config.json")
    flags, command = config.get("flags"), newest_command(config)
    if not isinstance(flags, dict) or not command:
        raise UsageError(f"{folder / 'config.json'} lacks a run's flags and command: name the folder of a run.")
    run_folder.check_format(folder, config)
    flags = run_folder.renamed(flags)
    for name, kind in (("seed", int), ("task_type", str), ("data_file", str)):
        if not isinstance(flags.get(name), kind | None):
            raise UsageError(f"{folder / 'config.json'} is damaged: its flag {name} has an invalid value.")
    privacy = read_json(folder / run_folder.PRIVACY_FILE) if (folder / run_folder.PRIVACY_FILE).exists() else {}
    own = [Metric(name, **known) for name, known in config.get("own_metrics", {}).items()]
    return Run(
        folder=folder,
        metrics=read_metrics(folder),
        flags=flags,
        command=command,
        privacy=privacy,
        data_report=config.get("data_report") or {},
        columns=[*(metric for columns in studies for metric in columns), *own],
        bounds=read_bounds(folder),
        predictor=predictor,
    )


def read_bounds(folder: pathlib.Path) -> dict[str, Any]:
    """Content of a run's `bounds.json`; empty without this file.

    Raises:
      UsageError: If the file is damaged; the message names it.
    """
    path = folder / run_folder.BOUNDS_FILE
    bounds = read_json(path) if path.exists() else {}
    if not all(
        isinstance(group, dict) and all(isinstance(value, int | float | None) for value in group.values())
        for group in bounds.values()
    ):
        raise UsageError(f"{path} is damaged: it must map names to numbers.")
    return bounds


def newest_command(config: Mapping[str, Any]) -> str:
    """Command of a run's last start, which matches its flags; empty if none is recorded."""
    later = config.get("continuations")
    last = later[-1] if isinstance(later, list) and later else config
    command = last.get("command") if isinstance(last, dict) else None
    return command if isinstance(command, str) else ""


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
      UsageError: If the file is missing or damaged; the message names the file.
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not readable ({getattr(error, 'strerror', None) or error}).") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} is damaged: it is not a JSON object.")
    return content


def read_metrics(folder: pathlib.Path, rounds: int | None = None) -> "pd.DataFrame":
    """Reads the `metrics.csv` in a run's folder, up to the round `rounds` if that is given.

    Raises:
      UsageError: If the file is missing, damaged, not from a run, or has no finished round.
    """
    import pandas as pd

    path = folder / "metrics.csv"
    try:
        text = path.read_text()
        # A crash can leave the last line half written.
        table = pd.read_csv(io.StringIO(text[: text.rfind("\n") + 1]))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not readable ({getattr(error, 'strerror', None) or error}).") from error
    if "round_num" not in table:
        raise UsageError(f"{path} has no column round_num: it is not the metrics of a run.")
    if table.empty:
        raise UsageError(f"{path} has no finished round yet.")
    words = [column for column in table if not pd.api.types.is_numeric_dtype(table[column])]
    if words or not pd.api.types.is_integer_dtype(table["round_num"]) or not table["round_num"].is_unique:
        raise UsageError(f"{path} is damaged: a value is not valid in its column {words[0] if words else 'round_num'}.")
    return table if rounds is None else table[table["round_num"] <= rounds]
