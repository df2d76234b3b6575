"""Compares strategies of client selection; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bandits.client_selection import flags, metrics
from bandits.client_selection.flags import SelectionOptions
from data import files, tasks
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization.study import cli, frame, selector_flags

if TYPE_CHECKING:
    from bandits.client_selection import experiment
    from optimization.study import runner


class ClientSelectionStudy(frame.PlainStudy[SelectionOptions, tasks.Task]):
    """Cho et al. 2020: federated training whose clients are chosen at random or by their losses."""

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
        from bandits.client_selection import figures

        folder = pathlib.Path(os.path.commonpath([run.folder.path for run in runs]))
        names_of = {}
        for run in runs:
            names = {"selector": run.options.selection.name, "cohort": run.options.cohort_size}
            names_of[run.folder.path] = names | {"seed": run.options.seed}
        rounds, clients = figures.read(names_of)
        task = runs[0].options.task
        title = f"Client selection, {task.task_type}, {clients['client'].nunique()} clients"
        results = figures.table(rounds)
        files.replace(folder / "results.csv", results.to_csv(index=False, float_format="%.6g").encode())
        figures.draw_client_losses(clients, folder / "client_losses.png", title)
        print(results.to_string(index=False, float_format="{:.3f}".format))
        files_of_runs = "metrics.csv, private_clients.csv of each run"
        print(f"Results in {folder}: results.csv, client_losses.png; {files_of_runs}")


STUDY = ClientSelectionStudy()

if __name__ == "__main__":
    frame.main(STUDY)
