"""Federated training by posterior aggregation; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from data import files
from data.errors import UsageError
from data.tasks import registry
from optimization.posterior import flags, metrics, server_data
from optimization.posterior.flags import PosteriorOptions
from optimization.posterior.server_data import ServedTask
from optimization.study import cli, frame, selector_flags

if TYPE_CHECKING:
    from optimization.posterior import experiment


class PosteriorStudy(frame.PlainStudy[PosteriorOptions, ServedTask]):
    """Johansson and Gullbrandson 2022: the server makes a posterior's mean, or mode, of a cohort's models."""

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

    def define(self, flag_set: cli.FlagSet) -> None:
        flags.define(flag_set)

    def resolve(self, settings: cli.Settings) -> cli.Settings:
        return flags.resolve(settings)

    def options(self, settings: cli.Settings) -> PosteriorOptions:
        return flags.options(settings)

    def notes(self, settings: cli.Settings) -> Sequence[str]:
        return flags.notes(settings)

    def length(self, options: PosteriorOptions) -> frame.Length:
        return frame.Length(options.total_rounds, 0, options.rounds_per_checkpoint)

    def data_key(self, options: PosteriorOptions) -> Hashable:
        return options.task, options.server_clients, options.server_file

    def open(self, options: PosteriorOptions) -> ServedTask:
        task = registry.load(options.task)
        if task.multi_label:
            raise UsageError(
                f"--task_type={options.task.task_type} gives examples several labels; recall and precision need one "
                "label each."
            )
        return ServedTask(**vars(task), server_features=server_data.features(options, task))

    def population(self, options: PosteriorOptions, task: ServedTask) -> int:
        return max(0, len(task.clients) - options.server_clients)

    def check(self, options: PosteriorOptions, task: ServedTask) -> None:
        population = self.population(options, task)
        if options.cohort_size > population:
            of_task = f"the task's {len(task.clients)} clients"
            if options.server_clients:
                of_task += f" without those of --server_data=clients:{options.server_clients}"
            raise UsageError(f"--clients_per_round={options.cohort_size} is more than {of_task}.")
        selector_flags.check_population(options.selection, population, options.cohort_size)

    def rounds(self, run: frame.Run) -> "experiment.PosteriorRounds":
        from optimization.posterior import experiment

        return experiment.PosteriorRounds(run.options, run.data, run.folder.path)

    def label(self, options: PosteriorOptions) -> str:
        return options.posterior.name

    def finish(self, run: frame.Run, played: frame.Played) -> None:
        import pandas as pd

        from optimization.posterior import figures

        options, folder, outcome = run.options, run.folder, played.outcome
        told = f"{options.posterior.name}, seed {options.seed}"
        if outcome.round_num:
            title = f"{options.task.task_type}: {told}"
            figures.draw_run(folder.metrics_path, folder.path / "accuracy.png", title)
        if outcome.signum:
            return
        rounds = pd.read_csv(folder.metrics_path)
        results = metrics.results(rounds, options.thresholds)
        files.replace(folder.path / "results.csv", results.to_csv(index=False, float_format="%.6g").encode())
        print(f"{told}: {outcome.round_num} rounds; running means of {metrics.WINDOW} rounds:")
        print(results.to_string(index=False, float_format="{:.4f}".format, na_rep="-"))
        if (moved := rounds[metrics.SHARE_MOVED].mean()) == moved:
            print(
                f"Mean shift moved {moved:.1%} of the parameters (mean over rounds); the others keep the clients' mean."
            )
        print(f"Results in {folder.path}: metrics.csv, results.csv, accuracy.png, config.json, model/weights.npz")


STUDY = PosteriorStudy()

if __name__ == "__main__":
    frame.main(STUDY)
