"""Common part of all studies: turns a command line into runs, and executes their rounds in their folders.

A `Study` defines its flags, options, data, rounds, metrics and figures. This module handles presets, seeds, `--repeat`,
checks before slow imports, folders, the worker, the training loop, resuming, interruption and exit statuses.
`bandits.studies` lists all studies.
"""

import abc
import dataclasses
import os
import pathlib
import signal
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from data import objects, table_report
from data.errors import UsageError
from data.settings import Setting, declared, make_options, no_folder, setting
from data.tasks import own
from optimization.options import Length
from optimization.study import cli, divergence, interruption, loggers, presets, results, run_folder, worker_flags
from optimization.study.metrics import Metric

if TYPE_CHECKING:
    from optimization.study import runner


OptionsT = TypeVar("OptionsT")
DataT = TypeVar("DataT")


@dataclasses.dataclass(frozen=True)
class Run(Generic[OptionsT, DataT]):
    """One run of a command.

    Attributes:
      settings: Completed flags, which are recorded in `config.json`.
      options: Options of the study, built from these flags.
      data: What `Study.open` returned for these options.
      folder: Opened folder of the run.
      callbacks: The user's callbacks.
    """

    settings: cli.Settings
    options: OptionsT
    data: DataT
    folder: run_folder.RunFolder
    callbacks: loggers.OwnCallbacks


class Study(abc.ABC, Generic[OptionsT, DataT]):
    """Definition of a study. Only `execute` and what it calls may import TensorFlow.

    Attributes:
      flags: Module that defines the flags, with `define`, `check`, `options` and `default_name`.
      usage: First lines of `--help`.
      presets: Folder of the published settings.
      shown_in_presets: Flags that `--list_presets` shows.
      chosen: The flag that selects what the study compares.
      columns: All metrics, which are the columns of `metrics.csv`.
      headline: Metric that the progress bar shows.
      ranked_by: Default metric by which a grid ranks its runs.
      rounds_per_checkpoint: Default of the flag `--rounds_per_checkpoint`, a number or a function of the settings.
      name_help: Description of the default of `--experiment_name`.
      predictor: Package for predictions and exports; empty if the study has none. See `results.Run`.
    """

    flags: types.ModuleType
    usage: str
    presets: pathlib.Path
    shown_in_presets: Sequence[str]
    chosen: str
    columns: Sequence[Metric]
    headline: Metric
    ranked_by: Metric
    rounds_per_checkpoint: Any
    name_help: str
    predictor: str = ""

    def define(self, flags: cli.FlagSet) -> None:
        """Defines the flags of the study, starting with the group "What is studied"."""
        self.flags.define(flags)

    def resolve(self, settings: cli.Settings) -> cli.Settings:
        """Completes and checks the flags of a run. This reads no files and is idempotent.

        Raises:
          UsageError: If a flag has no effect, or values are incompatible.
        """
        return settings.checked(self.flags.check)

    def options(self, settings: cli.Settings) -> OptionsT:
        """Converts resolved flags to frozen dataclasses, which do not depend on the names of flags."""
        return self.flags.options(settings)

    def strategy(self, settings: cli.Settings) -> str:
        """Printed name of the run's value of the flag `chosen`."""
        return str(settings[self.chosen])

    def recorded_object(self, name: str, value: Any) -> objects.UserObject:
        """The user's object for a setting, with the text that records it.

        Raises:
          UsageError: If the object is not valid for the setting.
        """
        return own.recorded(name, value) if name in ("data", "eval_data") else objects.of(value)

    def default_name(self, settings: cli.Settings) -> str:
        """Default of `--experiment_name`."""
        return self.flags.default_name(settings)

    def notes(self, settings: cli.Settings) -> Sequence[str]:
        """Notes on the resolved flags of a run, such as changed defaults, which are printed before it starts."""
        return ()

    @abc.abstractmethod
    def open(self, options: OptionsT) -> DataT:
        """Opens the data.

        Returns:
          Data with three attributes: `checksum`, a digest that changes when the data does; `report`, which is written
          to `config.json`; and `statistics`, which were computed from the data before the first round and are written
          to `statistics.json`. The last two may be empty.

        Raises:
          UsageError: If the data is missing or invalid.
        """

    @abc.abstractmethod
    def execute(self, run: Run[OptionsT, DataT]) -> int | None:
        """Starts or continues a run; returns the signal that stopped it, if any."""

    def variants(self, settings: cli.Settings) -> Sequence[tuple[str, cli.Settings]]:
        """(folder name, settings) of each run that a command compares. By default, one run in the main folder."""
        return [("", presets.applied(settings, self.presets))]

    def data_key(self, options: OptionsT) -> Any:
        """Key that is equal for runs that share their data. By default, runs do not share data."""
        return options

    def population(self, options: OptionsT, data: DataT) -> int | None:
        """Number of clients from which cohorts are sampled; None if the study does not have `--clients_per_round`.

        The default of that flag does not exceed this number.
        """
        return None

    def check(self, options: OptionsT, data: DataT) -> Sequence[str]:
        """Checks flags that depend on the data.

        Returns:
          Notes and warnings. A command prints each of them once for all of its runs.

        Raises:
          UsageError: If the flags do not fit the data.
        """
        return ()

    def recorded(self, options: OptionsT, data: DataT) -> Mapping[str, Any]:
        """Values to record that depend on the data, or that must be the same when a run is continued."""
        return {}

    def presets_text(self) -> str:
        """Text of `--list_presets`."""

        def rates(name: str) -> dict[str, float]:
            settings = plan(self, flag_set(self).parse([self.chosen, f"--preset={name}"]))[0]
            flags = [flag for flag in sorted(settings, reverse=True) if flag.endswith("learning_rate")]
            return {flag: settings[flag] for flag in sorted(flags, key=len) if settings[flag] is not None}

        return presets.table(self.presets, self.shown_in_presets, rates)

    def start_worker(self, settings: cli.Settings) -> None:
        """Starts or connects to the workers that the flags name, for all runs; see `worker_flags.start`.

        Raises:
          Failure: If a worker does not answer, or the required isolation is refused.
        """
        worker_flags.start(settings)

    def read(self, folder: pathlib.Path) -> results.Run:
        """Reads the results of a run."""
        return results.read(folder, [self.columns], self.predictor)

    def report(self, runs: Sequence[Run[OptionsT, DataT]]) -> None:
        """Writes and prints the results of all runs after all are finished."""


class PlainStudy(Study[OptionsT, DataT]):
    """A study in which each run is a single sequence of rounds."""

    @abc.abstractmethod
    def rounds(self, run: Run[OptionsT, DataT]) -> "runner.Rounds":
        """Rounds for the training loop."""

    def length(self, options: OptionsT) -> Length:
        """Number of rounds, and periods of evaluation and checkpoints. By default, those in the options."""
        return make_options(Length, vars(options))

    @abc.abstractmethod
    def label(self, options: OptionsT) -> str:
        """Label of the progress bar."""

    def execute(self, run: Run[OptionsT, DataT]) -> int | None:
        rounds, length, label = self.rounds(run), self.length(run.options), self.label(run.options)
        outcome = run_rounds(self, rounds, run.folder, length, label=label, callbacks=run.callbacks)
        self.finish(run, rounds, outcome)
        return outcome.signum

    def finish(self, run: Run[OptionsT, DataT], rounds: Any, outcome: "runner.Outcome") -> None:
        """Writes and prints the results of a run, even if it was stopped; `rounds` comes from the method `rounds`."""


@dataclasses.dataclass(frozen=True)
class _Output:
    """Settings of the output."""

    root_output_dir: pathlib.Path = setting("runs", "Folder of all runs", basic=True)
    experiment_name: str = setting(None, "Name of this run's folder", basic=True, check=no_folder)
    repeat: int = setting(
        1, "Number of runs with consecutive seeds, in folders NAME/seed_N; 0 also means 1", basic=True
    )
    rounds_per_checkpoint: int = setting(None, "Rounds between checkpoints; 0 to save only the last")
    callbacks: list = setting(None, "Observer of the run; can be repeated; see docs/own_parts.md", takes_objects=True)
    restart: bool = setting(False, "Start over; an existing run's files are moved, not deleted", basic=True)


def flag_set(study: Study) -> cli.FlagSet:
    """Flags of the program of a study."""
    flags = cli.FlagSet(study.usage)
    flags.group("What is studied")
    flags.file(presets.Presets, "config", presets.read)
    flags.add(Setting("seed", int, "Seed of all randomness", 0, high=2**32 - 1, basic=True))
    study.define(flags)
    about = f"Name of this run's folder (default: {study.name_help}, then _seed_N if N > 0)"
    name, checkpoints = {"help": about, "default": study.default_name}, {"default": study.rounds_per_checkpoint}
    flags.group("Output", *declared(_Output, experiment_name=name, rounds_per_checkpoint=checkpoints))
    flags.group("Where computations run", worker_flags.Workers)
    return flags


def plan(study: Study, settings: cli.Settings) -> list[cli.Settings]:
    """Completes and checks the flags of each run of a command: all seeds of each variant.

    If a command has a single run, and its seed N is not 0, the default name ends in `_seed_N`, so that runs with
    different seeds have different folders.

    Raises:
      UsageError: If a flag has no effect, or values are incompatible.
    """
    runs = []
    try:
        for name, variant in study.variants(settings):
            worker_flags.addresses(variant)
            for seed in cli.seeds(variant):
                one = study.resolve(variant.replace(seed=seed))
                is_named = settings.is_given("experiment_name") or one.repeat > 1 or not seed
                first = one.experiment_name if is_named else f"{one.experiment_name}_seed_{seed}"
                parts = [first, name, f"seed_{seed}" if one.repeat > 1 else ""]
                runs.append(one.replace(experiment_name="/".join(filter(None, parts)), repeat=1))
    except UsageError as error:
        raise presets.located(error, settings) from error
    return runs


def announcement(study: Study, planned: Sequence[cli.Settings]) -> str:
    """Announcement of a command's runs, rounds and folder, in one line."""
    chosen = ", ".join(dict.fromkeys(study.strategy(run) for run in planned))
    tasks = ", ".join(dict.fromkeys(run.task_type for run in planned if "task_type" in run))
    lengths = sorted({run.total_rounds for run in planned})
    shown = " to ".join(f"{length:,}" for length in (lengths[0], lengths[-1])[: len(lengths)])
    rounds = f"{shown} round{'s' * (lengths != [1])}"
    folder = os.path.commonpath([f"{run.root_output_dir}/{run.experiment_name}" for run in planned])
    name = os.path.relpath(folder, planned[0].root_output_dir)
    many, each = (f"{len(planned)} runs of ", " each") if len(planned) > 1 else ("", "")
    what = f"{many}{chosen}{f' on {tasks}' if tasks else ''}, {rounds}{each}"
    return f"{name}: {what}; folder {cli.shown_path(folder)}"


def prepare(study: Study, planned: Sequence[cli.Settings], command: str | None = None) -> list[Run]:
    """Opens the data and then the folders of all runs.

    Args:
      study: Definition of the study.
      planned: The flags of each run.
      command: The command to record; by default, the command of this process.

    Raises:
      UsageError: If data is missing, the flags do not fit it, or a folder cannot be opened.
    """
    runs = []
    for settings, options, data in checked(study, planned):
        callbacks = loggers.OwnCallbacks(settings.callbacks)
        folder = run_folder.RunFolder(f"{settings.root_output_dir}/{settings.experiment_name}", command)
        open_folder(folder, settings.replace(**study.recorded(options, data)), data)
        runs.append(Run(settings, options, data, folder, callbacks))
    return runs


def checked(
    study: Study, planned: Sequence[cli.Settings], *, warns: bool = True
) -> list[tuple[cli.Settings, Any, Any]]:
    """Opens the data, once for all runs that share it, and checks the flags that depend on it.

    Prints each message of `Study.check` once for all runs, or not at all without `warns`.

    Returns:
      For each run: its flags, adapted to the population (see `fitted`), its options and its data.

    Raises:
      UsageError: If data is missing, or the flags do not fit it.
    """
    opened: dict[Any, Any] = {}
    runs: list[tuple[cli.Settings, Any, Any]] = []
    messages: dict[str, None] = {}
    for settings in planned:
        options = study.options(settings)
        key = study.data_key(options)
        if key not in opened:
            opened[key] = study.open(options)
        settings = fitted(study, settings, study.population(options, opened[key]))
        options = study.options(settings)
        messages |= dict.fromkeys(study.check(options, opened[key]))
        runs.append((settings, options, opened[key]))
    if warns and messages:
        print(*messages, sep="\n", file=sys.stderr, flush=True)
    return runs


def fitted(study: Study, settings: cli.Settings, population: int | None) -> cli.Settings:
    """Returns settings in which a cohort size that the user did not set does not exceed the population."""
    if not population or "clients_per_round" in settings.set_by_user:
        return settings
    return settings.replace(clients_per_round=min(settings.clients_per_round, population))


def _data_notes(planned: Sequence[cli.Settings], runs: Sequence[Run]) -> Iterator[str]:
    """Yields notes on each table, and on cohorts whose size the population limits."""
    for data in {id(run.data): run.data for run in runs}.values():
        yield from table_report.lines(data.report)
    name = "clients_per_round"
    pairs = [(before.get(name), run.settings.get(name)) for before, run in zip(planned, runs, strict=True)]
    for size in dict.fromkeys(after for before, after in pairs if before != after):
        yield f"--{name} is reduced to {size}, because there are no more clients."


def open_folder(folder: run_folder.RunFolder, recorded: cli.Settings, data: Any) -> None:
    """Opens the folder of a run, and writes the statistics that were computed from the clients' data before the run.

    Raises:
      UsageError: If the folder cannot be written, or contains a run of another configuration or format.
    """
    folder.open(recorded, data.checksum, data.report, recorded.default)
    if data.statistics:
        folder.write_json(run_folder.STATISTICS_FILE, data.statistics)


def program(study: Study, settings: cli.Settings) -> int:
    """Executes all runs of a command line. Returns 0 if all are finished, or 128 plus the signal that stopped them."""
    if settings.list_presets:
        print(study.presets_text())
        return 0
    runs = open_all(study, settings)
    if stopped := run_all(study, settings, runs):
        again = f"The same command{' without --restart' if settings.restart else ''} continues"
        run, signum = stopped
        print(f"Stopped; finished rounds are saved. {again} {run.folder.path}.", file=sys.stderr)
        return 128 + signum
    return 0


def open_all(study: Study, settings: cli.Settings, command: str | None = None) -> list[Run]:
    """Opens all runs of a command (see `prepare`), and prints their announcement and notes on their data.

    Raises:
      UsageError: See `plan` and `prepare`.
    """
    planned = plan(study, settings)
    notes = dict.fromkeys(note for settings in planned for note in study.notes(settings))
    print(announcement(study, planned), *notes, sep="\n", file=sys.stderr, flush=True)
    runs = prepare(study, planned, command)
    for line in _data_notes(planned, runs):
        print(line, flush=True)
    return runs


def run_all(study: Study, settings: cli.Settings, runs: Sequence[Run]) -> tuple[Run, int] | None:
    """Starts or continues all runs of a command, and writes their results.

    Returns:
      The run that was stopped, and the signal that stopped it; None if all are finished.

    Raises:
      Failure: If a run fails. Earlier results are saved.
    """
    study.start_worker(settings)
    with interruption.held() as received:
        for run in runs:
            interruption.release()
            # A signal that arrives in the last round of a run stops the next run.
            if signum := received[0] if received else _execute(study, run):
                return run, signum
        study.report(runs)
    return None


def _execute(study: Study, run: Run) -> int | None:
    """Executes a run, and reports to its callbacks how it ended; returns the signal that stopped it, if any."""
    status = "failed"
    try:
        signum = study.execute(run)
        status = signal.Signals(signum).name if signum else "finished"
        return signum
    finally:
        run.callbacks.finish(status, study.read)


def run_rounds(
    study: Study, rounds: "runner.Rounds", folder: run_folder.RunFolder, length: Length, *, label: str, **callbacks: Any
) -> "runner.Outcome":
    """Starts or continues the rounds of a run in its folder, and saves the model there when they are finished.

    Warns if the clients' training diverged. For `label`, and for `loggers` and `callbacks`, see `runner.run`.
    """
    from optimization.study import runner

    columns = [*study.columns, *rounds.columns]
    folder.recorded("own_metrics", lambda: {name: vars(name) for name in rounds.columns} or None)
    outcome = runner.run(rounds, folder, length, columns, headline=study.headline, label=label, **callbacks)
    if outcome.signum is None and (weights := rounds.model(outcome.state)):
        folder.save_model(list(weights), list(weights.values()))
    if outcome.round_num:
        table = results.read_metrics(folder.path)
        if warning := divergence.warning(table, study.columns):
            print(f"Warning: {warning}", file=sys.stderr)
    return outcome


def main(study: Study) -> None:
    """Runs a study on this process's command line and exits with its status."""
    cli.main(flag_set(study), lambda settings: program(study, settings))
