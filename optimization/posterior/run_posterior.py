"""Federated training by posterior aggregation; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from data import files
from data.errors import UsageError
from data.tasks import registry
from optimization.posterior import flags, metrics, server_data
from optimization.posterior.flags import PosteriorOptions
from optimization.study import cli, frame, results, selector_flags

if TYPE_CHECKING:
    from optimization.posterior import experiment
    from optimization.study import runner


class PosteriorStudy(frame.PlainStudy[PosteriorOptions, server_data.ServedTask]):
    """Johansson and Gullbrandson 2022: the server aggregates a cohort's models to a posterior's mean or mode."""

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

    def notes(self, settings: cli.Settings) -> Sequence[str]:
        return flags.notes(settings)

    def data_key(self, options: PosteriorOptions) -> Hashable:
        return options.task, options.server_clients, options.server_file

    def open(self, options: PosteriorOptions) -> server_data.ServedTask:
        task = registry.load(options.task)
        if task.multi_label:
            raise UsageError(
                f"--task_type={options.task.task_type} gives examples several labels; recall and precision need one "
                "label each."
            )
        return server_data.ServedTask(**vars(task), server_features=server_data.server_features(options, task))

    def population(self, options: PosteriorOptions, task: server_data.ServedTask) -> int:
        return max(0, len(task.clients) - options.server_clients)

    def check(self, options: PosteriorOptions, task: server_data.ServedTask) -> Sequence[str]:
        population, count = self.population(options, task), options.server_clients
        if count and options.cohort_size > population:
            raise UsageError(
                f"--server_data=clients:{count} leaves {population} clients: --clients_per_round={options.cohort_size}."
            )
        selector_flags.check_population(options.selection, population, options.cohort_size)
        return ()

    def rounds(self, run: frame.Run) -> "experiment.PosteriorRounds":
        from optimization.posterior import experiment

        return experiment.PosteriorRounds(run.options, run.data, run.folder.path)

    def label(self, options: PosteriorOptions) -> str:
        return options.posterior.name

    def finish(self, run: frame.Run, rounds: Any, outcome: "runner.Outcome") -> None:
        options, folder = run.options, run.folder
        name = f"{options.posterior.name}, seed {options.seed}"
        if not outcome.round_num:
            return
        table = results.read_metrics(folder.path)
        metrics.draw_run(table, folder.path / "accuracy.png", f"{options.task.task_type}: {name}")
        if outcome.signum:
            return
        lines = metrics.results(table, options.thresholds)
        files.replace(folder.path / "results.csv", lines.to_csv(index=False, float_format="%.6g").encode())
        print(f"{name}: {outcome.round_num} rounds; running means of {metrics.WINDOW} rounds:")
        print(lines.to_string(index=False, float_format="{:.4f}".format, na_rep="-"))
        if (moved := table[metrics.SHARE_MOVED].mean()) == moved:
            print(
                f"Mean shift moved {moved:.1%} of the parameters (mean over rounds); the others keep the clients' mean."
            )
        print(f"Results in {folder.path}: metrics.csv, results.csv, accuracy.png, config.json, model/weights.npz")


STUDY = PosteriorStudy()

if __name__ == "__main__":
    frame.main(STUDY)
