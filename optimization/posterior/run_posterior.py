"""Federated training with posterior aggregation; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from data import tasks
from data.errors import UsageError
from data.tasks import registry
from optimization.posterior import flags, metrics
from optimization.posterior.flags import PosteriorOptions
from optimization.study import cli, frame, results, run_folder, selector_flags, training_flags

if TYPE_CHECKING:
    from optimization.posterior import experiment
    from optimization.study import runner


class PosteriorStudy(frame.PlainStudy[PosteriorOptions, tasks.Task]):
    """Johansson and Gullbrandson 2022: the server replaces a cohort's models by the mean or a mode of a posterior."""

    flags = flags
    usage = flags.USAGE
    presets = flags.PRESETS
    shown_in_presets = (
        "task_type",
        "model",
        "partition_alpha",
        "client_sampling_alpha",
        "total_rounds",
        "client_learning_rate",
    )
    chosen = "algorithm"
    columns = metrics.COLUMNS
    headline = metrics.ACCURACY
    ranked_by = metrics.RUNNING_ACCURACY
    rounds_per_checkpoint = 25
    name_help = "posterior_TASK_ALGORITHM or PRESET_ALGORITHM"

    def variants(self, settings: cli.Settings) -> Sequence[tuple[str, cli.Settings]]:
        return [("", flags.with_preset(settings))]

    def notes(self, settings: cli.Settings) -> Sequence[str]:
        return flags.notes(settings)

    def open(self, options: PosteriorOptions) -> tasks.Task:
        task = registry.load(options.task)
        if task.multi_label:
            raise UsageError(
                f"--task_type={options.task.task_type} has several labels per example, but recall and precision need "
                "exactly one: choose another --task_type."
            )
        return task

    def population(self, options: PosteriorOptions, task: tasks.Task) -> int:
        return max(0, len(task.clients) - options.server_clients)

    def check(self, options: PosteriorOptions, task: tasks.Task) -> Sequence[str]:
        population, count = self.population(options, task), options.server_clients
        if count and options.cohort_size > population:
            raise UsageError(
                f"--server_data=clients:{count} leaves {population} clients, too few for "
                f"--clients_per_round={options.cohort_size}."
            )
        selector_flags.check_population(options.selection, population, options.cohort_size)
        training_flags.check_states(population, client_algorithm=options.client_algorithm)
        return ()

    def rounds(self, run: frame.Run) -> "experiment.PosteriorRounds":
        from optimization.posterior import experiment

        return experiment.PosteriorRounds(run.options, run.data, run.folder)

    def label(self, options: PosteriorOptions) -> str:
        return options.posterior.name

    def finish(self, run: frame.Run, rounds: Any, outcome: "runner.Outcome") -> None:
        options, folder = run.options, run.folder
        name = f"{options.posterior.name}, seed {options.seed}"
        if outcome.signum:
            return
        table = results.read_metrics(folder.path)
        last = table.iloc[-1]
        means = [f"{column.removeprefix('running/')} {last[column]:.4f}" for column in metrics.RUNNING]
        print(f"{name}: {outcome.round_num} rounds; means of the last {metrics.WINDOW}: {', '.join(means)}")
        if (moved := table[metrics.SHARE_MOVED].mean()) == moved:
            print(
                f"Mean shift moved {moved:.1%} of the parameters (mean over rounds); the others keep the clients' mean."
            )
        print(f"Results in {folder.path}: metrics.csv, config.json, model/weights.npz")
        for line in run_folder.private_notices(folder.path):
            print(line)


STUDY = PosteriorStudy()

if __name__ == "__main__":
    frame.main(STUDY)
