"""Records of runs: a CSV file per figure and scale, a row per configuration and seed, from which pages are generated.

A row holds every measure, the values that a search selected, rounds, the data's checksum, the project's commit and the
machine, so that pages and verdicts need no runs.
"""

import dataclasses
import pathlib
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bandits.papers import figure_baselines, results
from bandits.papers.plan import Figure
from bandits.papers.results import ConfigurationRuns, Value
from bandits.results import baselines, former, runs
from bandits.results.former import Landmark, Sampled
from data import files
from data.errors import UsageError
from optimization.study.metrics import Metric
from optimization.study.results import Run

if TYPE_CHECKING:
    import pandas as pd

_PICKED = "picked:"  # Before the name of a searched flag.
_EDGE = "edge:"  # Likewise: whether the pick lies on an edge of the grid, 0 or 1; the declared grid may change later.
_DIVERGED = "diverged"  # Whether the run diverged, 0 or 1; missing where none did.
_UNPAIRED = "unpaired"  # Whether no seed determines the run, likewise.
_ERROR, _SAMPLE = "_error", "sampled_clients"  # Metrics that were computed on a sample of the clients.
_FIXED = ("arm", "seed", "rounds", "data", "commit", "machine")
_WORDS = ("arm", "data", "commit", "machine")
_COMMIT_LENGTH = 12


def of(figure: Figure, found: Mapping[str, ConfigurationRuns]) -> "pd.DataFrame":
    """Records of a figure, by configuration and seed.

    Args:
      figure: The figure.
      found: Finished runs by configuration; failed configurations are missing.

    Raises:
      UsageError: If a run lacks a measure; the message names the file.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    bounded = figure_baselines.column(figure)
    for configuration in figure.configurations:
        one = found.get(configuration.label)
        if one is None:
            continue
        numbers = {measure.name: results.measured(measure, one) for measure in figure.measures}
        on_edge = configuration.edges(one.searched)
        edges = {f"{_EDGE}{flag}": int(flag in on_edge) for flag in one.searched if configuration.sweeps}
        for index, (seed, table, folder) in enumerate(zip(one.seeds, one.tables, one.folders, strict=True)):
            row = {"arm": configuration.label, "seed": seed} | {name: values[index] for name, values in numbers.items()}
            row |= {f"{_PICKED}{flag}": value for flag, value in one.searched.items()}
            row |= edges
            row |= {_DIVERGED: int(seed in one.diverged)} if any(some.diverged for some in found.values()) else {}
            row |= _of_run(runs.read(folder), bounded) if bounded else {}
            row["rounds"] = int(table["round_num"].iloc[-1])
            rows.append(row | provenance(folder))
    table = pd.DataFrame(rows)

    return table[[*(name for name in table if name not in _FIXED[2:]), *(name for name in _FIXED[2:] if rows)]]


def _of_run(run: Run, column: Metric) -> dict[str, float]:
    """Recorded rewards of the uniform policy and the best fixed action, with errors if from a sample."""
    row: dict[str, float] = {_UNPAIRED: 1} if runs.is_unpaired([run]) else {}
    for name in baselines.RECORDED.values():
        found = former.recorded([run], column, name)
        if isinstance(found, Sampled):
            row |= {name: found.mean, f"{name}{_ERROR}": found.error, _SAMPLE: found.clients}
        elif isinstance(found, float):
            row[name] = found
    return row


def provenance(folder: pathlib.Path) -> dict[str, str]:
    """Checksum of a run's data, the project's commit, and this machine."""
    content = runs.read_json(folder / "config.json") if (folder / "config.json").exists() else {}
    commit = (content.get("git_commit") or "")[:_COMMIT_LENGTH]
    return {"data": content.get("data_checksum") or "", "commit": commit, "machine": runs.machine()}


def path_of(figure: Figure, kept: pathlib.Path | None, output: pathlib.Path = pathlib.Path()) -> pathlib.Path:
    """Path of a figure's records below a folder of records; without one, in the figure's output."""
    return kept / figure.scale / f"{figure.name}.csv" if kept else output / f"{figure.name}_records.csv"


def beside(flag: str, path: pathlib.Path) -> pathlib.Path:
    """Folder of records beside the output that a flag names.

    Raises:
      UsageError: If it has none.
    """
    folder = path.parent / "evidence"
    if not any(folder.glob("*/*.csv")):
        raise UsageError(
            f"--{flag}={path} is made from the records in {folder}, which has none: --records writes them."
        )
    return folder


def check_folder(kept: pathlib.Path, name: str) -> None:
    """Creates a folder below that of all records, before the runs.

    Raises:
      UsageError: If it cannot be written.
    """
    try:
        (kept / name).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=kept / name).close()
    except OSError as error:
        raise UsageError(f"--records={kept} cannot be written ({error.strerror}).") from error


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
        own = table[table["arm"] == configuration.label]
        if configuration.label in labels or own.empty:
            continue
        if missing := [measure.name for measure in figure.measures if measure.name not in own]:
            raise UsageError(f"{path} has no {missing[0]} of {configuration.label}: run the whole figure.")
        planned = figure.rounds_of(configuration)
        if (rounds := int(own["rounds"].max())) != planned:
            raise UsageError(
                f"{path} has {configuration.label} of {rounds} rounds, not {planned}: run the whole figure."
            )


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
    both = both.sort_values("arm", key=lambda arms: arms.map(order), kind="stable")
    return both[[*(name for name in both if name not in _FIXED[2:]), *_FIXED[2:]]]


def read(path: pathlib.Path) -> "pd.DataFrame | None":
    """Records of a file; None without a file.

    Raises:
      UsageError: If it holds no records; the message names the file.
    """
    import pandas as pd

    if not path.exists():
        return None
    try:
        table = pd.read_csv(path, dtype=dict.fromkeys(_WORDS, str), na_filter=True)
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
    labels = {configuration.label for configuration in figure.configurations}
    unknown = [
        f"{figure.name} has no configuration {configuration}"
        for configuration in table["arm"].unique()
        if configuration not in labels
    ]
    return unknown + [f"there is no {one.name}" for one in figure.measures if one.name not in table]


def values(figure: Figure, table: "pd.DataFrame") -> list[Value]:
    """Numbers of a figure's records by configuration and measure, with the paper's numbers."""
    published = {(one.configuration, one.measure): one for one in figure.published}
    rows = []
    names = [measure.name for measure in figure.measures if measure.name in table]
    if not names:
        return []
    of_some_seeds = {measure.name for measure in figure.measures if measure.at == "chosen peak"}
    for configuration in figure.configurations:
        own = table[table["arm"] == configuration.label]
        if own.empty:
            continue
        rounds = int(own["rounds"].max())
        lost = own[own[_DIVERGED] > 0] if _DIVERGED in own else own[:0]
        diverged = frozenset(lost["seed"].astype(int))
        is_unpaired = _UNPAIRED in own and bool(own[_UNPAIRED].any())
        for name in names:
            # For other measures a missing number keeps its seed.
            measured = own[own[name].notna()] if name in of_some_seeds else own
            by_seed, stated = _by_seed(measured, name), published.get((configuration.label, name))
            rows.append(
                Value(configuration.label, name, by_seed, rounds, stated, diverged=diverged, is_unpaired=is_unpaired)
            )
        for column in (name for name in own if name.startswith(_PICKED) and own[name].notna().any()):
            flag, value = column.removeprefix(_PICKED), {0: float(own[column].iloc[0])}
            stated, edge = published.get((configuration.label, flag)), f"{_EDGE}{flag}"
            is_edge = bool(own[edge].iloc[0]) if edge in own and own[edge].notna().all() else None
            rows.append(Value(configuration.label, flag, value, rounds, stated, is_picked=True, is_edge=is_edge))
    stands = figure_baselines.compare(figure, rows, _recorded(table))
    return [
        dataclasses.replace(row, baselines=stands.get(row.configuration))
        if row.measure == names[0] and not row.is_picked
        else row
        for row in rows
    ]


def _recorded(table: "pd.DataFrame") -> dict[str, tuple[Landmark | None, Landmark | None]]:
    """Recorded rewards of the uniform policy and the best fixed action, by configuration."""
    found: dict[str, tuple[Landmark | None, Landmark | None]] = {}
    for configuration, own in table.groupby("arm"):
        chance, constant = (_landmark(own, name) for name in baselines.RECORDED.values())
        found[str(configuration)] = chance, constant
    return found


def _landmark(own: "pd.DataFrame", name: str) -> Landmark | None:
    if name not in own or own[name].isna().any():
        return None
    error = f"{name}{_ERROR}"
    if error in own and own[error].notna().any():
        return Sampled(float(own[name].mean()), float(own[error].max()), int(own[_SAMPLE].max()))
    return former.of_seeds(_by_seed(own, name))


def _by_seed(own: "pd.DataFrame", name: str) -> dict[int, float]:
    return dict(zip(own["seed"].astype(int), own[name].astype(float), strict=True))


def distinct(tables: Iterable["pd.DataFrame"], column: str) -> Sequence[str]:
    """Distinct values of a column of records, in their order."""
    return list(dict.fromkeys(word for table in tables for word in table[column].dropna() if word))
