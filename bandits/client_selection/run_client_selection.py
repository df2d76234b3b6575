"""Compares client-selection strategies; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from bandits.client_selection import flags, metrics
from bandits.client_selection.flags import SelectionOptions
from data import files, tasks
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization.study import cli, frame, selector_flags

if TYPE_CHECKING:
    from bandits.client_selection import experiment
    from optimization.study import runner

_FINAL = [metric for metric in metrics.COLUMNS if metric.evaluated]
_PER_ROUND = [metrics.MODEL_TRANSFERS, metrics.LOSS_POLLS]


def final_table(rounds: pd.DataFrame) -> pd.DataFrame:
    """Final metrics with standard deviations over seeds, and communication per round, by cohort size and selector.

    Standard deviations divide by n - 1, as in all tables of this project. They are NaN for a single seed.

    Args:
      rounds: Metrics of all rounds of all runs, with columns `selector`, `cohort` and `seed`.
    """
    by_run = rounds.groupby(["cohort", "selector", "seed"], sort=False)
    runs = by_run[_FINAL].last().join(by_run[_PER_ROUND].mean())
    runs = runs.rename(columns=lambda column: column.partition("/")[2])
    by_setting = runs.groupby(["cohort", "selector"], sort=False)
    summary = by_setting.mean()
    for position, name in enumerate(runs.columns[: len(_FINAL)]):
        summary.insert(2 * position + 1, f"{name}_deviation", by_setting[name].std())
    summary.insert(0, "seeds", by_setting.size())
    return summary.reset_index()


class ClientSelectionStudy(frame.PlainStudy[SelectionOptions, tasks.Task]):
    """Cho et al. 2020: federated training in which clients are chosen at random or by their losses."""

    flags = flags
    usage = flags.USAGE
    presets = flags.PRESETS
    shown_in_presets = ("client_selection", "clients_per_round", "repeat")
    chosen = "client_selection"
    columns = metrics.COLUMNS
    headline = metrics.LOSS
    ranked_by = metrics.GLOBAL_LOSS
    rounds_per_checkpoint = 100
    name_help = "client_selection_TASK_SELECTOR"

    def variants(self, settings: cli.Settings) -> Sequence[tuple[str, cli.Settings]]:
        return flags.variants(settings)

    def data_key(self, options: SelectionOptions) -> TaskOptions:
        return options.task

    def open(self, options: SelectionOptions) -> tasks.Task:
        return registry.load(options.task)

    def population(self, options: SelectionOptions, task: tasks.Task) -> int:
        return len(task.clients)

    def check(self, options: SelectionOptions, task: tasks.Task) -> Sequence[str]:
        selector_flags.check_population(options.selection, self.population(options, task), options.cohort_size)
        return ()

    def rounds(self, run: frame.Run) -> "experiment.SelectionRounds":
        from bandits.client_selection import experiment

        return experiment.SelectionRounds(run.options, run.data)

    def label(self, options: SelectionOptions) -> str:
        return f"{options.selection.name}, m = {options.cohort_size}, seed {options.seed}"

    def finish(self, run: frame.Run, rounds: Any, outcome: "runner.Outcome") -> None:
        if not outcome.signum:
            files.replace(run.folder.path / "private_clients.csv", rounds.clients_csv(outcome.state))

    def report(self, runs: Sequence[frame.Run]) -> None:
        folder = pathlib.Path(os.path.commonpath([run.folder.path for run in runs]))
        tables = []
        for run in runs:
            owner = {
                "selector": run.options.selection.name,
                "cohort": run.options.cohort_size,
                "seed": run.options.seed,
            }
            tables.append(pd.read_csv(run.folder.metrics_path).assign(**owner))
        results = final_table(pd.concat(tables, ignore_index=True))
        files.replace(folder / "results.csv", results.to_csv(index=False, float_format="%.6g").encode())
        print(results.to_string(index=False, float_format="{:.3f}".format))
        print(f"Results in {folder}: results.csv; metrics.csv, private_clients.csv of each run")


STUDY = ClientSelectionStudy()

if __name__ == "__main__":
    frame.main(STUDY)
