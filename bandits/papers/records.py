"""Records of what was played: a CSV file a figure and scale, a row an arm and seed, from which pages are made.

A row holds every measure, what a search picked, rounds, the data's checksum, the project's commit and the machine: a
page is made anew, judged anew and compared by others without a run.
"""

import dataclasses
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bandits.papers import results, standing
from bandits.papers.plan import Figure
from bandits.papers.results import Found, Value
from bandits.results import baselines, runs
from bandits.results.comparison import Landmark, Sampled
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
_ERROR, _SAMPLE = "_error", "sampled_clients"  # Of what a run computed of a sample of the clients; likewise.
_FIXED = ("arm", "seed", "rounds", "data", "commit", "machine")
_WORDS = ("arm", "data", "commit", "machine")
_COMMIT_LENGTH = 12


def of(figure: Figure, found: Mapping[str, Found]) -> "pd.DataFrame":
    """Returns the records of a figure's arms, by arm and seed.

    Args:
      figure: The figure.
      found: What each arm gave; arms whose runs failed are missing.

    Raises:
      UsageError: If a run lacks what is measured; it names the file.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    bounded = standing.column(figure)
    for arm in figure.arms:
        one = found.get(arm.label)
        if one is None:
            continue
        numbers = {measure.name: results.measured(measure, one) for measure in figure.measures}
        on_edge = arm.edges(one.searched)
        edges = {f"{_EDGE}{flag}": int(flag in on_edge) for flag in one.searched if arm.sweeps}
        for index, (seed, table, folder) in enumerate(zip(one.seeds, one.tables, one.folders, strict=True)):
            row = {"arm": arm.label, "seed": seed} | {name: values[index] for name, values in numbers.items()}
            row |= {f"{_PICKED}{flag}": value for flag, value in one.searched.items()}
            row |= edges
            row |= {_DIVERGED: int(seed in one.diverged)} if any(some.diverged for some in found.values()) else {}
            row |= _of_run(runs.read(folder), bounded) if bounded else {}
            row["rounds"] = int(table["round_num"].iloc[-1])
            rows.append(row | provenance(folder))
    table = pd.DataFrame(rows)
    # Once a file: what is the same in all rows is told where it changes.
    return table[[*(name for name in table if name not in _FIXED[2:]), *(name for name in _FIXED[2:] if rows)]]


def _of_run(run: Run, column: Metric) -> dict[str, float]:
    """Returns the recorded rewards of the uniform policy and the best fixed action, with errors if from a sample."""
    row: dict[str, float] = {_UNPAIRED: 1} if runs.is_unpaired([run]) else {}
    for name in baselines.RECORDED:
        found = baselines.recorded([run], column, name)
        if isinstance(found, Sampled):
            row |= {name: found.mean, f"{name}{_ERROR}": found.error, _SAMPLE: found.clients}
        elif isinstance(found, float):
            row[name] = found
    return row


def provenance(folder: pathlib.Path) -> dict[str, str]:
    """Returns a run's checksum of its data, the project's commit, and this machine."""
    content = runs.read_json(folder / "config.json") if (folder / "config.json").exists() else {}
    commit = (content.get("git_commit") or "")[:_COMMIT_LENGTH]
    return {"data": content.get("data_checksum") or "", "commit": commit, "machine": runs.machine()}


def path_of(figure: Figure, folder: pathlib.Path) -> pathlib.Path:
    """Returns where the records of a figure lie below a folder of records."""
    return folder / figure.scale / f"{figure.name}.csv"


def write(table: "pd.DataFrame", path: pathlib.Path) -> None:
    """Writes records whole.

    Raises:
      Failure: If they cannot be written.
    """
    with files.told(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, table.to_csv(index=False, float_format="%.6g").encode())


def check_others(figure: Figure, labels: Collection[str], path: pathlib.Path) -> None:
    """Checks that records of some arms of a figure can join those that a file has of the others.

    Args:
      figure: The figure.
      labels: The arms that are played.
      path: The file; it may be missing.

    Raises:
      UsageError: If it is none of ours, or lacks a measure of the others, or has them of other rounds.
    """
    table = read(path)
    if table is None:
        return
    for arm in figure.arms:
        own = table[table["arm"] == arm.label]
        if arm.label in labels or own.empty:
            continue
        if missing := [measure.name for measure in figure.measures if measure.name not in own]:
            raise UsageError(f"{path} has no {missing[0]} of {arm.label}: play the whole figure.")
        planned = figure.rounds_of(arm)
        if (rounds := int(own["rounds"].max())) != planned:
            raise UsageError(f"{path} has {arm.label} of {rounds} rounds, not {planned}: play the whole figure.")


def joined(figure: Figure, table: "pd.DataFrame | None", path: pathlib.Path) -> "pd.DataFrame | None":
    """Returns the records of some arms together with those that a file has of the others, in the figure's order.

    Args:
      figure: The figure.
      table: Records of some arms; None for none.
      path: The file; it may be missing.

    Raises:
      UsageError: If the file is none of ours, or no arm of it is of the same data and seed as one of the others.
    """
    import pandas as pd

    earlier = read(path)
    if table is None or earlier is None:
        return earlier if table is None else table
    known = earlier.groupby("seed")["data"].agg(lambda some: {*some.fillna("")})
    for seed, data in table[["seed", "data"]].itertuples(index=False):
        if data not in known.get(seed, {data}):
            raise UsageError(f"{path} has arms of other data, not {data}: play the whole figure.")
    order = {arm.label: index for index, arm in enumerate(figure.arms)}
    both = pd.concat([earlier[~earlier["arm"].isin(table["arm"])], table], ignore_index=True)
    both = both.sort_values("arm", key=lambda arms: arms.map(order), kind="stable")
    return both[[*(name for name in both if name not in _FIXED[2:]), *_FIXED[2:]]]


def read(path: pathlib.Path) -> "pd.DataFrame | None":
    """Returns the records of a file; None where there is none.

    Raises:
      UsageError: If it is none of ours; it names the file.
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
    """Returns what of records a figure does not know, or misses in them, in words."""
    labels = {arm.label for arm in figure.arms}
    told = [f"{figure.name} has no arm {arm}" for arm in table["arm"].unique() if arm not in labels]
    return told + [f"there is no {one.name}" for one in figure.measures if one.name not in table]


def values(figure: Figure, table: "pd.DataFrame") -> list[Value]:
    """Returns every number of a figure's records, by arm and measure, beside the text's; of arms that it has still."""
    published = {(one.arm, one.measure): one for one in figure.published}
    rows = []
    names = [measure.name for measure in figure.measures if measure.name in table]
    if not names:
        return []
    of_some_seeds = {measure.name for measure in figure.measures if measure.at == "chosen peak"}
    for arm in figure.arms:
        own = table[table["arm"] == arm.label]
        if own.empty:
            continue
        rounds = int(own["rounds"].max())
        lost = own[own[_DIVERGED] > 0] if _DIVERGED in own else own[:0]
        diverged = frozenset(lost["seed"].astype(int))
        is_unpaired = _UNPAIRED in own and bool(own[_UNPAIRED].any())
        for name in names:
            # Elsewhere a missing number is that of a run which has none, and keeps its seed.
            measured = own[own[name].notna()] if name in of_some_seeds else own
            by_seed = dict(zip(measured["seed"].astype(int), measured[name].astype(float), strict=True))
            stated = published.get((arm.label, name))
            rows.append(Value(arm.label, name, by_seed, rounds, stated, diverged=diverged, is_unpaired=is_unpaired))
        for column in (name for name in own if name.startswith(_PICKED) and own[name].notna().any()):
            flag, value = column.removeprefix(_PICKED), {0: float(own[column].iloc[0])}
            stated, edge = published.get((arm.label, flag)), f"{_EDGE}{flag}"
            is_edge = bool(own[edge].iloc[0]) if edge in own and own[edge].notna().all() else None
            rows.append(Value(arm.label, flag, value, rounds, stated, is_picked=True, is_edge=is_edge))
    stands = standing.stands(figure, rows, _recorded(table))
    return [
        dataclasses.replace(row, stand=stands.get(row.arm)) if row.measure == names[0] and not row.is_picked else row
        for row in rows
    ]


def _recorded(table: "pd.DataFrame") -> dict[str, tuple[Landmark | None, Landmark | None]]:
    """Returns the rewards of the uniform policy and the best fixed action by arm."""
    found: dict[str, tuple[Landmark | None, Landmark | None]] = {}
    for arm, own in table.groupby("arm"):
        chance, constant = (_landmark(own, name) for name in baselines.RECORDED)
        found[str(arm)] = chance, constant
    return found


def _landmark(own: "pd.DataFrame", name: str) -> Landmark | None:
    if name not in own or own[name].isna().any():
        return None
    error = f"{name}{_ERROR}"
    if error in own and own[error].notna().any():
        return Sampled(float(own[name].mean()), float(own[error].max()), int(own[_SAMPLE].max()))
    return baselines.of_seeds(dict(zip(own["seed"].astype(int), own[name].astype(float), strict=True)))


def told(tables: Iterable["pd.DataFrame"], column: str) -> Sequence[str]:
    """Returns the words that a column of records has, once each, in their order."""
    return list(dict.fromkeys(word for table in tables for word in table[column].dropna() if word))
