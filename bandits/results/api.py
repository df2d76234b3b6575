"""Several runs together in Python: `bandits.compare`, `bandits.report` and `bandits.plot`."""

import os
import pathlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bandits.results import configurations, page
from bandits.results import runs as readers
from data import files
from data.errors import UsageError
from optimization.study import cli
from optimization.study.curves import BANDS
from optimization.study.results import Run, Runs

if TYPE_CHECKING:
    import pandas as pd

    from optimization.study import panels

Several = Run | Runs | Iterable[Run | Runs]


def compare(runs: Several, reference: str | None = None) -> "pd.DataFrame":
    """Compares configurations with a reference over their seeds: Student's t, Holm-adjusted within a task.

    Runs that differ in their seed alone are one configuration. See `comparison.Comparison` for the statistics.

    Example:
      >>> greedy = bandits.run(bandits_type="greedy", repeat=5)
      >>> softmax = bandits.run(bandits_type="softmax", repeat=5)
      >>> bandits.compare([greedy, softmax], reference="greedy")

    Args:
      runs: Runs, or sequences of runs, of one or several tasks.
      reference: Name of a configuration, or a strategy; by default greedy, else the first configuration.

    Returns:
      A row for each configuration but the reference and the baselines. Columns: `task`, `metric`, `configuration`,
      `mean`, `reference`, `reference_mean`, `difference`, `low` and `high` (its 95% interval, not adjusted), `p`
      (adjusted), `seeds` (compared) and `verdict`.

    Raises:
      UsageError: If there is no run, or no configuration is the reference.
    """
    import pandas as pd

    parts = configurations.comparable(_each(runs))
    names = [one.name for part in parts for one in part.configurations]
    if reference and not any(part.named(reference) for part in parts):
        raise UsageError(f"reference={reference!r} is no configuration of these runs: {', '.join(names)}.")
    rows = [
        (
            *(part.title, part.columns[0], one.configuration, one.mean, one.reference, one.reference_mean),
            *(one.difference, one.low, one.high, one.adjusted_p, one.pairs),
            one.significance if one.is_judged else "; ".join(one.notes),
        )
        for part in parts
        for *_, one in part.compared(reference)
    ]
    columns = "task metric configuration mean reference reference_mean difference low high p seeds verdict"
    return pd.DataFrame(rows, columns=columns.split())


def report(
    runs: Several,
    output: str | os.PathLike = "report.html",
    title: str = "Runs",
    reference: str | None = None,
) -> pathlib.Path:
    """Writes one HTML page about runs, as `scripts.report` does: results, differences, curves and commands.

    Example:
      >>> bandits.report([greedy, softmax], "report.html", reference="greedy")

    Args:
      runs: Runs, or sequences of runs.
      output: The page to write, which ends in .html; an earlier page is replaced.
      title: Its title.
      reference: See `compare`.

    Returns:
      The page's path.

    Raises:
      UsageError: If there is no run, no configuration is the reference, or the page cannot be written.
    """
    path = pathlib.Path(cli.user_path(os.fspath(output)))
    files.check_output("output", path, (".html",))
    found = readers.read_all(run.folder for run in _each(runs))
    if found.problems:
        raise UsageError(" ".join(found.problems))
    files.replace(path, page.page(found, title, reference).encode())
    return path


def plot(runs: Several, *names: str, band: str = "ci") -> "panels.Figure":
    """Plots metrics of several runs over rounds; notebooks show the figure.

    Example:
      >>> bandits.plot([greedy, softmax], band="ci").savefig("rewards.png")
      >>> bandits.plot([greedy, softmax], "bandits/average_rewards")

    Args:
      runs: Runs, or sequences of runs. Seeds of one run become their mean and a band.
      *names: Columns of `metrics.csv`; by default those that the study marks for summaries.
      band: `ci`, 95% interval of the seeds' mean; `minmax`, their range; or `sd`, one standard deviation.

    Raises:
      UsageError: If there is no run, or no such metric or band.
    """
    if band not in BANDS:
        raise UsageError(f"band={band!r} must be one of {', '.join(BANDS)}.")
    return Runs(_each(runs)).plot(*names, band=band)


def _each(runs: Several) -> list[Run]:
    """All runs, without repetitions.

    Raises:
      UsageError: If there is none, or an item is not a run.
    """
    groups = runs if isinstance(runs, Iterable) else [runs]
    every = [run for group in groups for run in (group if isinstance(group, Iterable) else [group])]
    if not every or not all(isinstance(run, Run) for run in every):
        raise UsageError("These are not runs, or none at all: pass what bandits.run or bandits.load returns.")
    return list(dict.fromkeys(every))
