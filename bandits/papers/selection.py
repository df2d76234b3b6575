"""Can one choose rates and exploration from a log, before deploying? A figure whose runs write logs.

Of each task there are an initial model, candidates that start from it, and deployments that write logs; all are a
grid's runs. `selection_scores` says how well estimates from the logs choose among the candidates. Nothing here reads
data or imports TensorFlow.
"""

import contextlib
import dataclasses
import itertools
import math
import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bandits import studies
from bandits.evaluation import reward_model
from bandits.evaluation.bounds import Bounds
from bandits.evaluation.estimates import LABELS
from bandits.papers import plan, records
from bandits.plans.executors import Executor
from bandits.plans.outcomes import FAILED, unfinished
from bandits.plans.plan import Configuration, Run, as_text
from bandits.plans.sweep import Sweep
from bandits.results import tables
from data.errors import Failure, UsageError
from optimization.study import cli, intervals, presets

if TYPE_CHECKING:
    import pandas as pd

NAME = "select_before_deploying"  # In `--figure`.
ABOUT = "Can rates and exploration be chosen from a log, before deploying? --arms are its tasks"
REPEAT = 5  # Logging deployments per task.
CANDIDATE_SEED = 100  # Also of the initial model; no log has it.
SCORES, CANDIDATES = "scores.csv", "candidates.csv"
_RECORDS = "selection"  # Folder of the permanent records.
RANDOM = "chance"  # A random choice, as a baseline of the estimators.
_DRAWS = 100  # Noise samples of private values, per log.
_SETTINGS = pathlib.Path(__file__).parent / "published" / f"{NAME}.toml"
_INITIAL_MODEL = "--initial_model_path"
_LABELS = {**LABELS, RANDOM: "none: one at random"}
_KEYS = ["estimator", "epsilon", "times"]


@dataclasses.dataclass(frozen=True)
class Study:
    """The study on one task.

    Attributes:
      name: Name of the task.
      initial: The run whose model all others start from.
      logs: The logging deployments.
      models: The candidates' models: a search of rates, with a run for each point.
      temperatures: Softmax temperatures; each model with each temperature is a candidate.
      reward_model: Flags of `evaluate_policy` for the training of the estimators' model.
      largest_weight: W of private values.
      max_rows_per_client: m of private values.
      epsilons: Privacy losses of private values.
      populations: How many clients each client of a log represents when noise is added.
    """

    name: str
    initial: Configuration
    logs: Configuration
    models: Configuration
    temperatures: Sequence[float]
    reward_model: str
    largest_weight: float
    max_rows_per_client: int
    epsilons: Sequence[float]
    populations: Sequence[int]

    @property
    def bounds(self) -> Bounds:
        """Largest contribution of a client to private values."""
        return Bounds(self.largest_weight, self.max_rows_per_client)

    def reward_model_settings(self, seed: int) -> cli.Settings:
        """Flags of the reward model of the log with this seed.

        Raises:
          UsageError: If they are invalid.
        """
        flags = cli.FlagSet("")
        flags.group(reward_model.RewardModel, cli.Setting("seed", int, "of the model's training and its folds", seed))
        with plan.naming(NAME, f"{self.name}: reward_model"):
            return flags.parse([self.name, *self.reward_model.split()]).settled()


class Runs(NamedTuple):
    """Runs of a study: of the initial model, and all others, which start from it."""

    initial: list[Run]
    logs: list[Run]
    candidates: list[Run]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The studies that are reproduced.

    Attributes:
      studies: The studies.
      repeat: Logging deployments of each.
      base: Flags that all runs share.
      folder: Folder of all output.
      records: Folder of permanent records, if any.
    """

    studies: Sequence[Study]
    repeat: int
    base: tuple[str, ...]
    folder: pathlib.Path
    records: pathlib.Path | None = None
    binary = "run_federated"

    @property
    def runs(self) -> pathlib.Path:
        """Folder of all runs; absolute, as runs name the initial model's folder."""
        return self.folder.resolve() / "runs"

    def runs_of(self, study: Study) -> Runs:
        """Runs of a study.

        Raises:
          UsageError: If their flags are invalid.
        """

        def runs(configuration: Configuration, seeds: Sequence[int], *flags: str) -> list[Run]:
            return configuration.runs(self.binary, seeds, (*self.base, *flags), self.runs)

        with plan.naming(NAME, study.name):
            initial = runs(study.initial, [CANDIDATE_SEED])
            start = f"{_INITIAL_MODEL}={self.runs / initial[0].name}"
            logs, candidates = runs(study.logs, range(self.repeat), start), runs(study.models, [CANDIDATE_SEED], start)
            return Runs(initial, logs, candidates)

    def check(self) -> None:
        """Checks the flags of all runs, and creates the records' folder.

        Raises:
          UsageError: If they are invalid, a study could have no result, or the folder cannot be written.
        """
        for study in self.studies:
            study.reward_model_settings(0)
            runs = self.runs_of(study)
            logging, problem = runs.logs[0].settings, ""
            if len(runs.candidates) * len(study.temperatures) < 2:
                problem = "sweep and temperatures must name two candidates at least."
            elif logging.task_type == "logged":
                problem = "a log does not have the rewards of other actions: choose a task with labels."
            elif logging.reward_drift:
                problem = f"with --reward_drift={logging.reward_drift} a policy has no single true reward."
            if problem:
                raise UsageError(f"--figure={NAME}, {study.name}: {problem}")
        if self.records:
            records.check_folder(self.records, _RECORDS)

    def planned(self) -> list[tuple[Run, int]]:
        """All runs, which count once each; their initial model does not change their time."""
        found = [run for study in self.studies for some in self.runs_of(study) for run in some]
        own = [tuple(word for word in run.arguments if not word.startswith(_INITIAL_MODEL)) for run in found]
        return [(dataclasses.replace(run, arguments=words), 1) for run, words in zip(found, own, strict=True)]

    def left(self) -> list[Run]:
        """Unfinished runs that could run now."""
        found = []
        for initial, *others in map(self.runs_of, self.studies):
            found += unfinished(initial, self.runs) or unfinished(itertools.chain(*others), self.runs)
        return found

    def run(self, executor: Executor) -> None:
        """Runs what is missing, the initial models first.

        Raises:
          Failure: If a run fails; it names its folder.
        """
        metric = studies.load(studies.STUDIES[self.binary]).ranked_by
        sweep = Sweep(self.runs, executor, metric, smallest=metric.better == "down")
        with contextlib.closing(sweep):
            every = [self.runs_of(study) for study in self.studies]
            initial = [run for one in every for run in one.initial]
            for stage in (initial, [run for one in every for run in (*one.logs, *one.candidates)]):
                sweep.run(stage)
                for outcome in sweep.outcomes.values():
                    if outcome.status == FAILED:
                        raise Failure(f"{self.runs / outcome.run.name}: {outcome.error}")

    def reproduce(self, executor: Executor | None) -> int:
        """Runs what is missing, and reports if all runs are finished; returns the exit status."""
        if executor:
            self.run(executor)
        if left := self.left():
            print(f"{len(left)} runs of {NAME} are not finished, so nothing is reported.")
            return 1
        self.report()
        return 0

    def report(self) -> None:
        """Evaluates the candidates by each log, writes the tables, and prints them; imports TFF."""
        import pandas as pd

        from optimization.runtime import worker_process

        with worker_process.importing():
            from bandits.papers import selection_scores
        rows: dict[str, list[dict[str, Any]]] = {SCORES: [], CANDIDATES: []}
        for study in self.studies:
            _, logs, candidates = self.runs_of(study)
            for log in logs:
                scores, rewards = selection_scores.of_log(study, log, candidates, self.runs, _DRAWS)
                rows[SCORES] += scores
                rows[CANDIDATES] += rewards
                print(f"{study.name}: the log of seed {log.seed} is evaluated", file=sys.stderr, flush=True)
        made = {name: pd.DataFrame(found) for name, found in rows.items()}
        outputs = [self.folder / NAME, *([self.records / _RECORDS] if self.records else [])]
        for output in outputs:
            for name, table in made.items():
                records.write(table, output / name)
        print(f"{scores_table(made[SCORES])}\n\n{candidates_table(made[CANDIDATES])}\n")
        print(f"Written to {' and '.join(map(str, outputs))}: {SCORES}, {CANDIDATES}")


def label(run: Run, temperature: float) -> str:
    """Name of a candidate: the rates of its run, and its temperature."""
    rates = [f"{name} {as_text(run.settings[name])}" for name in run.numbers]
    return ", ".join([*rates, f"temperature {temperature:g}"]).replace("_", " ")


def published() -> dict[str, Study]:
    """Studies of the published settings by task."""
    ((_, _, found),) = presets.tables(_SETTINGS.parent, pattern=_SETTINGS.name)
    return {task: _study(task, **table) for task, table in found.items()}


def _study(
    task: str, flags: str, initial: str, deployed: str, logged: str, sweep: Sequence[str], **others: Any
) -> Study:
    """Study by the settings of its file, which `select_before_deploying.toml` explains."""

    def configuration(*words: str, sweeps: Sequence[str] = ()) -> Configuration:
        return Configuration(task, (), tuple(" ".join((flags, *words)).split()), tuple(sweeps))

    logs = configuration(deployed, logged, "--log_interactions")
    return Study(task, configuration(initial), logs, configuration(deployed, sweeps=sweep), **others)


def choose(tasks: Sequence[str] | None) -> list[Study]:
    """Studies of some tasks; of all tasks for None.

    Raises:
      UsageError: If a task is unknown.
    """
    known = published()
    for name in tasks or ():
        if name not in known:
            raise cli.unknown("arms", name, known, f"it is one of {', '.join(known)}.")
    return [study for name, study in known.items() if tasks is None or name in tasks]


def scores_table(scores: "pd.DataFrame") -> str:
    """Markdown table, a line per estimator and release: means over logging seeds with 95% intervals."""
    tasks = list(dict.fromkeys(scores["task"]))
    heads = ["privacy", "estimator", *(head for task in tasks for head in (f"`{task}`: rho", "regret"))]
    lines = []
    for (estimator, epsilon, times), rows in scores.groupby(_KEYS, sort=False, dropna=False):
        by_task = [rows[rows["task"] == task] for task in tasks]
        cells = [_mean(own[name], digits) for own in by_task for name, digits in (("rho", 2), ("regret", 3))]
        lines.append([_privacy(epsilon, times), _LABELS[estimator], *cells])
    return tables.markdown(heads, lines)


def candidates_table(candidates: "pd.DataFrame") -> str:
    """Markdown table of the candidates' true rewards."""
    groups = candidates.groupby(["task", "candidate"], sort=False)["true"]
    lines = [[f"`{task}`", candidate, _mean(values, 3)] for (task, candidate), values in groups]
    return tables.markdown(["task", "candidate", "true reward"], lines)


def _privacy(epsilon: float, times: int) -> str:
    if math.isnan(epsilon):
        return "none"
    if math.isinf(epsilon):
        return "bounds, no noise"
    return f"epsilon {epsilon:g}" + (f", {times} times the clients" if times > 1 else "")


def _mean(values: "pd.Series", digits: int) -> str:
    if values.empty:
        return ""
    mean, low, high, _ = intervals.of_mean(values.tolist())
    return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
