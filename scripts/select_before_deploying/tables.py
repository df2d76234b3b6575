"""The study's records, a row a task, logging seed, estimator and release, and the table that is made of them."""

import math
import pathlib
from typing import TYPE_CHECKING

from bandits.evaluation.estimates import LABELS
from data import files
from optimization.study import intervals

if TYPE_CHECKING:
    import pandas as pd

SCORES, CANDIDATES = "scores.csv", "candidates.csv"
CHANCE = "chance"  # No estimator, but what they are compared with.
_LABELS = {**LABELS, CHANCE: "none: one at random"}
_KEYS = ["estimator", "epsilon", "times"]


def write(scores: "pd.DataFrame", candidates: "pd.DataFrame", folder: pathlib.Path) -> None:
    """Writes the records, each file whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for table, name in ((scores, SCORES), (candidates, CANDIDATES)):
        files.replace(folder / name, table.to_csv(index=False, float_format="%.6g").encode())


def read(folder: pathlib.Path) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Returns the records of a folder."""
    import pandas as pd

    scores, candidates = (pd.read_csv(folder / name) for name in (SCORES, CANDIDATES))
    return scores, candidates


def of_scores(scores: "pd.DataFrame") -> str:
    """Returns a table in Markdown, a line an estimator and release: means over logging seeds with 95% intervals."""
    tasks = list(dict.fromkeys(scores["task"]))
    lines = [
        "| privacy | estimator | " + " | ".join(f"`{task}`: rho | regret" for task in tasks) + " |",
        "|---|---|" + "---|---|" * len(tasks),
    ]
    for (estimator, epsilon, times), rows in scores.groupby(_KEYS, sort=False, dropna=False):
        cells = [_privacy(epsilon, times), _LABELS[estimator]]
        for task in tasks:
            own = rows[rows["task"] == task]
            cells += [_told(own["rho"].tolist(), 2), _told(own["regret"].tolist(), 3)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def of_candidates(candidates: "pd.DataFrame") -> str:
    """Returns a table in Markdown of the candidates' true rewards, likewise."""
    lines = ["| task | candidate | true reward |", "|---|---|---|"]
    for (task, candidate), rows in candidates.groupby(["task", "candidate"], sort=False):
        lines.append(f"| `{task}` | {candidate} | {_told(rows['true'].tolist(), 3)} |")
    return "\n".join(lines) + "\n"


def _privacy(epsilon: float, times: int) -> str:
    if math.isnan(epsilon):
        return "none"
    if math.isinf(epsilon):
        return "bounds, no noise"
    return f"epsilon {epsilon:g}" + (f", {times} times the clients" if times > 1 else "")


def _told(values: list[float], digits: int) -> str:
    if not values:
        return ""
    mean, low, high, _ = intervals.of_mean(values)
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
