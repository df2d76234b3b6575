"""Figures of MAB-FL's runs and studies, from their `metrics.csv`, `combinations.csv` and `estimates.csv`."""

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from bandits.mab_fl import flags, metrics
from data import files
from optimization.study import curves as study_curves
from optimization.study import intervals
from optimization.study import panels as drawing

_STATIONARY = "stationary"
_ESTIMATE = "estimate/"  # Before the code of a combination.


def _read(folder: pathlib.Path) -> pd.DataFrame:
    """A run's rounds.

    The column `combination` holds the code of each round's combination; a column `estimate/CODE` holds the estimated
    reward of each combination after the round, where the run has `estimates.csv`.
    """
    rounds = pd.read_csv(folder / "metrics.csv")
    rounds["combination"] = rounds[metrics.ACTION].map(_learned(folder)["combination"])
    if (path := folder / metrics.ESTIMATES_FILE).exists():
        rounds = rounds.join(pd.read_csv(path).set_index("round_num").add_prefix(_ESTIMATE), on="round_num")
    return rounds


def _learned(folder: pathlib.Path) -> pd.DataFrame:
    return pd.read_csv(folder / "combinations.csv", dtype={"combination": str})


def result(folder: pathlib.Path) -> dict[str, Any]:
    """A finished run's columns of `results.csv`."""
    rounds, learned = _read(folder), _learned(folder)
    last, best = rounds.iloc[-1], rounds.loc[rounds[metrics.GLOBAL_AUC].idxmax()]
    favourite = learned.loc[learned["adoptions"].idxmax()]
    return {
        "rounds": int(last["round_num"]),
        "best_round": int(best["round_num"]),
        "validation_auc": last[metrics.BEST_AUC],
        "test_auc": best[metrics.TEST_AUC],
        "favourite": favourite["combination"],
        "favourite_share": favourite["adoptions"] / learned["adoptions"].sum(),
        "communications": int(last[metrics.COMMUNICATIONS]),
    }


def draw_study(study: flags.Study, runs: Mapping[pathlib.Path, Mapping[str, Any]], folder: pathlib.Path) -> None:
    """Draws all figures of a study.

    Args:
      study: The study.
      runs: For each run's folder, the columns, with values, that identify its rounds.
      folder: Folder of the pictures.
    """
    parts = [_read(path).assign(**columns) for path, columns in runs.items()]
    rounds = pd.concat(parts, ignore_index=True)
    for arguments in study.figures:
        options = dict(arguments)
        kind, file, title = options.pop("kind"), options.pop("file"), options.pop("title", "")
        _KINDS[kind](rounds, folder / file, title, **options)


def intervals_by_flags(
    rounds: pd.DataFrame, path: pathlib.Path, title: str, tables: Sequence[str], x: str, colour: str
) -> None:
    """Draws the mean over seeds of each run's highest test AUC with its interval, by two flags."""
    chosen = rounds[rounds["table"].isin(tables)]
    runs = chosen.fillna({colour: _STATIONARY}).groupby([x, colour, "seed"], sort=False)[metrics.TEST_AUC].max()
    groups: dict[str, dict[str, intervals.Interval]] = {}
    for (place, value), seeds in runs.groupby([x, colour]):
        groups.setdefault(_panel_word(x, place), {})[_panel_word(colour, value)] = intervals.of_mean(list(seeds))
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    figure, ((axes,),) = drawing.grid(1, 1, (8, 4.5), title)
    drawing.levels(axes, groups, dict(zip(names, study_curves.styles(names), strict=True)))
    drawing.label(axes, ylabel="highest test AUC of a run (95% interval over seeds)", legend=True)
    files.save_picture(figure, path, dpi=120)


def best_curves(rounds: pd.DataFrame, path: pathlib.Path, title: str, groups: Mapping[str, Sequence[str]]) -> None:
    """Draws the test AUC of each group's best setting: the highest median of the runs' highest test AUC.

    Args:
      rounds: All runs' rounds.
      path: Where to.
      title: The figure's title.
      groups: Tables of settings by label.
    """
    figure, ((axes,),) = drawing.grid(1, 1, (9, 6.5), title)
    looks = study_curves.styles(list(groups))
    for look, (label, chosen) in zip(looks, _best_settings(rounds, groups), strict=True):
        study_curves.draw(axes, _seeds(chosen), metrics.TEST_AUC, label, look)
    drawing.label(axes, xlabel="round", ylabel="test AUC, mean over seeds")
    drawing.add_legend(figure, 2)
    files.save_picture(figure, path, dpi=120)


def _best_settings(rounds: pd.DataFrame, groups: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yields (name, rounds) of each group's setting with the highest median of the runs' highest test AUC."""
    for label, tables in groups.items():
        chosen = rounds[rounds["table"].isin(tables)]
        highest = chosen.groupby(["setting", "seed"])[metrics.TEST_AUC].max()
        setting = highest.groupby("setting").median().idxmax()
        best = chosen[chosen["setting"] == setting]
        values = setting.removeprefix(best["table"].iloc[0]).lstrip("_").replace("_", ", ")
        yield f"{label}: {values}" if values else label, best


def grid(
    rounds: pd.DataFrame,
    path: pathlib.Path,
    title: str,
    across: str,
    down: str | None = None,
    value: str = metrics.TEST_AUC,
    tables: Sequence[str] | None = None,
) -> None:
    """Draws means over seeds with their 95% intervals, a panel for each two values, a line for each table or estimate.

    Args:
      rounds: All runs' rounds.
      path: Where to.
      title: The figure's title.
      across: Flag whose values are the columns; `setting` gives each setting its own.
      down: Flag whose values are the rows; settings without it are the row "stationary". None for a single row.
      value: The column to draw; `estimate` draws those of all combinations.
      tables: Tables of the settings that are drawn; None for all, a line each.
    """
    chosen = rounds[rounds["table"].isin(tables)] if tables else rounds
    chosen = chosen.assign(row=chosen[down].fillna(_STATIONARY) if down else "")
    columns, rows = list(dict.fromkeys(chosen[across])), sorted(set(chosen["row"]), key=str)
    size = (3.4 * len(columns), 2.6 * len(rows) + 0.8)
    figure, panels = drawing.grid(len(rows), len(columns), size, title, sharex="col", sharey="row")
    names = [value]
    if value == "estimate":
        names = _estimate_columns(chosen)
    elif tables is None:
        names = list(dict.fromkeys(chosen["table"]))
    looks = study_curves.styles(names)
    for axes_row, row in zip(panels, rows, strict=True):
        for axes, column in zip(axes_row, columns, strict=True):
            panel = chosen[(chosen["row"] == row) & (chosen[across] == column)]
            for name, look in zip(names, looks, strict=True):
                lines = _seeds(panel[panel["table"] == name] if tables is None else panel)
                drawn = value if tables is None else name
                study_curves.draw(axes, lines, drawn, name.removeprefix(_ESTIMATE), look)
            words = [_panel_word(across, column), *([_panel_word(down, row)] if down else [])]
            drawing.label(axes, title=", ".join(words), xlabel="round" if row == rows[-1] else "")
        axes_row[0].set_ylabel("estimated reward" if value == "estimate" else value)
    if len(names) > 1:
        drawing.add_legend(figure, 6)
    files.save_picture(figure, path, dpi=120)


def _estimate_columns(rounds: pd.DataFrame) -> list[str]:
    """Columns of estimates in these rounds."""
    return [column for column in rounds if column.startswith(_ESTIMATE) and rounds[column].notna().any()]


def _panel_word(flag: str, value: float | str) -> str:
    return value if isinstance(value, str) else f"{flag.removeprefix('rule_').replace('_', ' ')} = {value:g}"


_KINDS: Mapping[str, Callable[..., None]] = {
    "intervals": intervals_by_flags,
    "best": best_curves,
    "grid": grid,
}


def _seeds(rounds: pd.DataFrame) -> list[pd.DataFrame]:
    """Rounds of each seed."""
    return [seed for _, seed in rounds.groupby("seed")]
