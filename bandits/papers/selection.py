"""Can one choose rates and exploration from a log, before deploying? A figure whose runs write logs.

Of each task there are an initial model, candidates that start from it, and deployments that write logs; all are a
grid's runs. `selection_scores` says how well estimates from the logs choose among the candidates. Nothing here reads
data or imports TensorFlow.
"""

import contextlib
import dataclasses
import math
import pathlib
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bandits import studies
from bandits.evaluation import reward_model
from bandits.evaluation.bounds import Bounds
from bandits.evaluation.estimates import LABELS
from bandits.plans.executors import Executor
from bandits.plans.outcomes import FAILED, finished_rounds
from bandits.plans.plan import Configuration, Run, as_text
from bandits.plans.sweep import Sweep
from data import files
from data.errors import Failure, UsageError
from optimization.study import cli, intervals, presets

if TYPE_CHECKING:
    import pandas as pd

NAME = "select_before_deploying"  # In `--figure`.
ABOUT = "Can rates and exploration be chosen from a log, before deploying? --arms are its tasks"
BINARY = "run_federated"
REPEAT = 5  # Logging deployments of a task.
CANDIDATE_SEED = 100  # Of the initial model, too: no log has it.
SCORES, CANDIDATES = "scores.csv", "candidates.csv"
CHANCE = "chance"  # No estimator, but what they are compared with.
_DRAWS = 100  # Of the noise of private values, of each log.
_SETTINGS = pathlib.Path(__file__).parent / "published" / f"{NAME}.toml"
_INITIAL_MODEL = "--initial_model_path"
_LABELS = {**LABELS, CHANCE: "none: one at random"}
_KEYS = ["estimator", "epsilon", "times"]


@dataclasses.dataclass(frozen=True)
class Study:
    """The study on one task.

    Attributes:
      name: What it is called.
      flags: Of all its runs.
      initial: More of the run whose model all others start from.
      deployed: More of candidates and logging deployments.
      logged: More of logging deployments alone.
      sweep: Rates of the candidates' models, as `--sweep` of the grid: each point is a run.
      temperatures: Of softmax: each model with each of these is a candidate.
      reward_model: Flags of `evaluate_policy` that say how the estimators' model is trained.
      largest_weight: W of private values.
      max_rows_per_client: m of private values.
      epsilons: Of private values.
      populations: How many clients each one of a log stands for, where noise is added: 1, and planned ones.
    """

    name: str
    flags: str
    initial: str
    deployed: str
    logged: str
    sweep: Sequence[str]
    temperatures: Sequence[float]
    reward_model: str
    largest_weight: float
    max_rows_per_client: int
    epsilons: Sequence[float]
    populations: Sequence[int]

    @property
    def bounds(self) -> Bounds:
        """What a client may contribute at most to private values."""
        return Bounds(self.largest_weight, self.max_rows_per_client)

    def reward_model_settings(self, seed: int) -> cli.Settings:
        """Returns the flags of the reward model of the log with this seed.

        Raises:
          UsageError: If they are not sound.
        """
        flags = cli.FlagSet("")
        flags.group(reward_model.RewardModel, cli.Setting("seed", int, "of the model's training and its folds", seed))
        try:
            return flags.parse([self.name, *self.reward_model.split()]).settled()
        except UsageError as error:
            raise UsageError(f"{self.where}: reward_model: {error}") from error

    @property
    def where(self) -> str:
        """What messages about it begin with."""
        return f"--figure={NAME}, {self.name}"


@dataclasses.dataclass(frozen=True)
class Plan:
    """The studies that are reproduced.

    Attributes:
      studies: The studies.
      repeat: Logging deployments of each.
      base: Flags that all runs share.
      folder: Where all runs lie; absolute, as runs name the initial model's folder.
    """

    studies: Sequence[Study]
    repeat: int
    base: tuple[str, ...]
    folder: pathlib.Path

    def candidates(self, study: Study) -> list[Run]:
        """Returns the runs of the candidates' models.

        Raises:
          UsageError: If their flags are not sound.
        """
        return self._runs(study, study.deployed, (CANDIDATE_SEED,), study.sweep, is_first=False)

    def logs(self, study: Study) -> list[Run]:
        """Returns the runs of the logging deployments; see `candidates`."""
        words = f"{study.deployed} {study.logged} --log_interactions"
        return self._runs(study, words, range(self.repeat), is_first=False)

    def stages(self, study: Study) -> tuple[list[Run], list[Run]]:
        """Returns the run of the initial model, and all others, which start from it; see `candidates`."""
        return self._initial(study), [*self.logs(study), *self.candidates(study)]

    def _initial(self, study: Study) -> list[Run]:
        return self._runs(study, study.initial, (CANDIDATE_SEED,), is_first=True)

    def _runs(
        self, study: Study, words: str, seeds: Sequence[int], sweep: Sequence[str] = (), *, is_first: bool
    ) -> list[Run]:
        base = self.base
        if not is_first:
            (initial,) = self._initial(study)
            base = (*base, f"{_INITIAL_MODEL}={self.folder / initial.name}")
        arguments = (*study.flags.split(), *words.split())
        try:
            return Configuration(study.name, (), arguments, tuple(sweep)).runs(BINARY, seeds, base, self.folder)
        except UsageError as error:
            raise UsageError(f"{study.where}: {error}") from error

    def check(self) -> None:
        """Checks the flags of all runs.

        Raises:
          UsageError: If they are not sound, or a study could have no result.
        """
        for study in self.studies:
            study.reward_model_settings(0)
            candidates, logging = self.candidates(study), self.logs(study)[0].settings
            problem = ""
            if len(candidates) * len(study.temperatures) < 2:
                problem = "sweep and temperatures must name two candidates at least."
            elif logging.task_type == "logged":
                problem = "of a log nobody knows what other actions would have earned."
            elif logging.reward_drift:
                problem = f"with --reward_drift={logging.reward_drift} a policy has no one true reward."
            if problem:
                raise UsageError(f"{study.where}: {problem}")

    def planned(self) -> list[tuple[Run, int]]:
        """Returns all runs, which count once each; their time is that of runs from any model."""
        found = [run for study in self.studies for stage in self.stages(study) for run in stage]
        own = [tuple(word for word in run.arguments if not word.startswith(_INITIAL_MODEL)) for run in found]
        return [(dataclasses.replace(run, arguments=words), 1) for run, words in zip(found, own, strict=True)]

    def left(self) -> list[Run]:
        """Returns the runs that are not finished and could be run now."""
        found = []
        for stages in map(self.stages, self.studies):
            unfinished = [
                [run for run in stage if finished_rounds(self.folder / run.name) < run.rounds] for stage in stages
            ]
            found += unfinished[0] or unfinished[1]
        return found

    def run(self, executor: Executor) -> None:
        """Runs what is missing, the initial models first.

        Raises:
          Failure: If a run fails; it names its folder.
        """
        metric = studies.load(studies.STUDIES[BINARY]).ranked_by
        sweep = Sweep(self.folder, executor, metric, smallest=metric.better == "down")
        with contextlib.closing(sweep):
            for stage in zip(*map(self.stages, self.studies), strict=True):
                sweep.run([run for some in stage for run in some])
                for outcome in sweep.outcomes.values():
                    if outcome.status == FAILED:
                        raise Failure(f"{self.folder / outcome.run.name}: {outcome.error}")

    def report(self, outputs: Sequence[pathlib.Path]) -> None:
        """Evaluates the candidates by each log, writes the tables to folders, and prints them; imports TFF."""
        import pandas as pd

        from optimization.runtime import worker_process

        with worker_process.importing():
            from bandits.papers import selection_scores
        rows: dict[str, list[dict[str, Any]]] = {SCORES: [], CANDIDATES: []}
        for study in self.studies:
            candidates = self.candidates(study)
            for log in self.logs(study):
                scores, rewards = selection_scores.of_log(study, log, candidates, self.folder, _DRAWS)
                rows[SCORES] += scores
                rows[CANDIDATES] += rewards
                print(f"{study.name}: the log of seed {log.seed} is evaluated", file=sys.stderr, flush=True)
        made = {name: pd.DataFrame(found) for name, found in rows.items()}
        for output in outputs:
            output.mkdir(parents=True, exist_ok=True)
            for name, table in made.items():
                files.replace(output / name, table.to_csv(index=False, float_format="%.6g").encode())
        print(f"{scores_table(made[SCORES])}\n{candidates_table(made[CANDIDATES])}")
        print(f"Written to {' and '.join(map(str, outputs))}: {SCORES}, {CANDIDATES}")


def label(run: Run, temperature: float) -> str:
    """Returns what a candidate is called: what tells its run from the others', and its temperature."""
    rates = [f"{name} {as_text(run.settings[name])}" for name in run.numbers]
    return ", ".join([*rates, f"temperature {temperature:g}"]).replace("_", " ")


def published() -> dict[str, Study]:
    """Returns the studies of the published settings by task."""
    ((_, _, found),) = presets.tables(_SETTINGS.parent, pattern=_SETTINGS.name)
    return {task: Study(name=task, **table) for task, table in found.items()}


def choose(tasks: Sequence[str] | None) -> list[Study]:
    """Returns the studies of some tasks, of all for None.

    Raises:
      UsageError: If one is not known.
    """
    known = published()
    for name in tasks or ():
        if name not in known:
            raise cli.unknown("arms", name, known, f"it is one of {', '.join(known)}.")
    return [study for name, study in known.items() if tasks is None or name in tasks]


def scores_table(scores: "pd.DataFrame") -> str:
    """Returns a table in Markdown, a line an estimator and release: means over logging seeds with 95% intervals."""
    tasks = list(dict.fromkeys(scores["task"]))
    lines = [["privacy", "estimator", *(f"`{task}`: rho | regret" for task in tasks)], ["---"] * (2 + 2 * len(tasks))]
    for (estimator, epsilon, times), rows in scores.groupby(_KEYS, sort=False, dropna=False):
        by_task = [rows[rows["task"] == task] for task in tasks]
        cells = [_mean(own[name], digits) for own in by_task for name, digits in (("rho", 2), ("regret", 3))]
        lines.append([_privacy(epsilon, times), _LABELS[estimator], *cells])
    return _markdown(lines)


def candidates_table(candidates: "pd.DataFrame") -> str:
    """Returns a table in Markdown of the candidates' true rewards, likewise."""
    lines = [["task", "candidate", "true reward"], ["---"] * 3]
    for (task, candidate), rows in candidates.groupby(["task", "candidate"], sort=False):
        lines.append([f"`{task}`", candidate, _mean(rows["true"], 3)])
    return _markdown(lines)


def _markdown(lines: Iterable[Sequence[str]]) -> str:
    return "".join(f"|{'|'.join(line)}|\n" if line[0] == "---" else f"| {' | '.join(line)} |\n" for line in lines)


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
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
