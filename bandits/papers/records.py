"""Records of runs: a CSV file per figure and scale, a row per configuration and seed, from which pages are generated.

A row holds every measure, the values that a search selected, rounds, the data's checksum, the project's commit and the
machine, so that pages and verdicts need no runs.
"""

import pathlib
import tempfile
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from bandits.papers.plan import Figure
from bandits.results import runs
from bandits.results.configuration import Configuration
from data import files
from data.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

_FIXED = ("arm", "seed", "rounds", "data", "commit", "machine")
_WORDS = ("arm", "data", "commit", "machine")
_COMMIT_LENGTH = 12


def of(found: Mapping[str, Configuration]) -> "pd.DataFrame":
    """Records of a figure's finished configurations, by configuration and seed; see `results.of_runs`."""
    import pandas as pd

    tables = []
    for label, configuration in found.items():
        rows = configuration.values.rename_axis("seed").reset_index()
        rows.insert(0, "arm", label)
        tables.append(rows.join(pd.DataFrame([provenance(run.folder) for run in configuration.runs])))
    return _ordered(pd.concat(tables, ignore_index=True))


def _ordered(table: "pd.DataFrame") -> "pd.DataFrame":
    return table[[*(name for name in table if name not in _FIXED[2:]), *_FIXED[2:]]]


def provenance(folder: pathlib.Path) -> dict[str, str]:
    """Checksum of a run's data, the project's commit, and this machine."""
    content = runs.read_json(folder / "config.json") if (folder / "config.json").exists() else {}
    commit = (content.get("git_commit") or "")[:_COMMIT_LENGTH]
    return {"data": content.get("data_checksum") or "", "commit": commit, "machine": runs.machine()}


def path_of(figure: Figure, folder: pathlib.Path | None, output: pathlib.Path = pathlib.Path()) -> pathlib.Path:
    """Path of a figure's records below a folder of records; without one, in the figure's output."""
    return folder / figure.scale / f"{figure.name}.csv" if folder else output / f"{figure.name}_records.csv"


def beside(flag: str, path: pathlib.Path) -> pathlib.Path:
    """Folder of records beside the output that a flag names.

    Raises:
      UsageError: If it has none.
    """
    folder = path.parent / "evidence"
    if not any(folder.glob("*/*.csv")):
        source = f"the records in {folder}, which has none"
        raise UsageError(f"--{flag}={path} is made from {source}: --records writes them.")
    return folder


def check_folder(folder: pathlib.Path) -> None:
    """Creates a folder of records before the runs.

    Raises:
      UsageError: If it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UsageError(f"--records={folder.parent} cannot be written ({error.strerror}).") from error


def write(table: "pd.DataFrame", path: pathlib.Path) -> None:
    """Writes records whole.

    Raises:
      Failure: If they cannot be written.
    """
    with files.write_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, table.to_csv(index=False, float_format="%.6g").encode())


def check_others(figure: Figure, labels: Collection[str], path: pathlib.Path) -> None:
    """Checks that records of some configurations of a figure can join a file's records of the others.

    Args:
      figure: The figure.
      labels: The configurations that are run.
      path: The file; it may be missing.

    Raises:
      UsageError: If the file holds no records, or its records lack a measure or have other numbers of rounds.
    """
    table = read(path)
    if table is None:
        return
    for configuration in figure.configurations:
        rows = table[table["arm"] == configuration.label]
        if configuration.label in labels or rows.empty:
            continue
        if missing := [measure.name for measure in figure.measures if measure.name not in rows]:
            raise UsageError(f"{path} has no {missing[0]} of {configuration.label}: run the whole figure.")
        planned = figure.first_run(configuration).rounds
        if (rounds := int(rows["rounds"].max())) != planned:
            found = f"{configuration.label} of {rounds} rounds, not {planned}"
            raise UsageError(f"{path} has {found}: run the whole figure.")


def joined(figure: Figure, table: "pd.DataFrame | None", path: pathlib.Path) -> "pd.DataFrame | None":
    """Records of some configurations together with a file's records of the others, in the figure's order.

    Args:
      figure: The figure.
      table: Records of some configurations; None for none.
      path: The file; it may be missing.

    Raises:
      UsageError: If the file holds no records, or its records are of other data.
    """
    import pandas as pd

    earlier = read(path)
    if table is None or earlier is None:
        return earlier if table is None else table
    known = earlier.groupby("seed")["data"].agg(lambda some: {*some.fillna("")})
    for seed, data in table[["seed", "data"]].itertuples(index=False):
        if data not in known.get(seed, {data}):
            raise UsageError(f"{path} has configurations of other data, not {data}: run the whole figure.")
    order = {configuration.label: index for index, configuration in enumerate(figure.configurations)}
    both = pd.concat([earlier[~earlier["arm"].isin(table["arm"])], table], ignore_index=True)
    return _ordered(both.sort_values("arm", key=lambda labels: labels.map(order), kind="stable"))


def read(path: pathlib.Path) -> "pd.DataFrame | None":
    """Records of a file; None without a file.

    Raises:
      UsageError: If it holds no records; the message names the file.
    """
    import pandas as pd

    if not path.exists():
        return None
    try:
        table = pd.read_csv(path, dtype=dict.fromkeys(_WORDS, str))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} holds no records ({error}).") from error
    if missing := [name for name in _FIXED if name not in table]:
        raise UsageError(f"{path} holds no records: it has no column {missing[0]}.")
    if table.empty:
        raise UsageError(f"{path} holds no records: it has no row.")
    for name in table.columns.difference(_WORDS):
        is_missing = name in _FIXED and table[name].isna().any()
        if is_missing or not pd.api.types.is_numeric_dtype(table[name]):
            raise UsageError(f"{path} holds no records: its column {name} has other things than numbers.")
    return table


def strays(figure: Figure, table: "pd.DataFrame") -> list[str]:
    """Configurations that a figure does not have and measures that records lack, in words."""
    unknown = set(table["arm"]) - {configuration.label for configuration in figure.configurations}
    lacking = [measure.name for measure in figure.measures if measure.name not in table]
    found = [f"{figure.name} has no configuration {label}" for label in table["arm"].unique() if label in unknown]
    return found + [f"there is no {name}" for name in lacking]


def distinct(table: "pd.DataFrame", column: str) -> Sequence[str]:
    """Distinct values of a column of records, in their order."""
    return list(dict.fromkeys(word for word in table[column].dropna() if word))
