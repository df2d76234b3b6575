"""Can one choose rates and exploration from a log, before deploying? See `--help`.

Runs are played as a grid's: named by their flags, played once, and continued where they were interrupted.
"""

import contextlib
import pathlib
import sys
from collections.abc import Sequence

from bandits import studies
from bandits.plans import executors, sweep
from bandits.plans.plan import Run
from bandits.plans.outcomes import FAILED
from data.errors import Failure, UsageError
from optimization.study import cli
from scripts.select_before_deploying import evaluating, plan, tables
from scripts.select_before_deploying.plan import Study

_USAGE = """
Measures how well a log tells which candidate to deploy: of several policies, each the model of a run with its rates and
an exploration, it compares what estimators say by the logs of another deployment with the expected rewards that the
labels give.

  select_before_deploying
  select_before_deploying --task=unipen62 --workers=1
  select_before_deploying --settings=mine.toml

Files of data are looked for in the folder FEDBANDITS_DATA_DIR of the environment. The same command continues what was
interrupted.
"""


def define() -> cli.FlagSet:
    """Returns the flags of `select_before_deploying`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("What is studied")
    flags.path("settings", None, "your own TOML file of tasks, as settings.toml of this program (default)")
    flags.text("task", None, "tables of the settings, separated by commas (default: all)")
    flags.integer("repeat", 5, "logging deployments of a task, with seeds from 0", low=2, high=plan.CANDIDATE_SEED)
    flags.integer("releases", 100, "draws of the noise, over which private values are averaged for each log", low=1)
    executors.define(flags)
    flags.group("Output")
    flags.path("records", None, "folder in which the tables are kept as well, such as docs/evidence/selection")
    flags.path("root_output_dir", "runs", "folder of all output")
    flags.folder("experiment_name", "name of this output's folder (default: select_before_deploying)")
    return flags


def program(settings: cli.Settings) -> int:
    """Plays what is missing and tells how well logs choose; returns the exit status."""
    settings = settings.settled()
    if settings.records and pathlib.Path(settings.records).is_file():
        raise UsageError(f"--records: {settings.records} is a file, not a folder.")
    chosen = _chosen(settings)
    cores = executors.cores_of_run(settings)
    base = (f"--max_concurrent_threads={cores}",)
    name = settings.experiment_name or "select_before_deploying"
    folder = pathlib.Path(settings.root_output_dir).resolve() / name
    for study in chosen:  # Before anything is played.
        study.reward_model_settings(0)
        if len(study.candidate_runs(base, folder / "runs")) * len(study.temperatures) < 2:
            raise UsageError(f"--task={study.name}: sweep and temperatures must name two candidates at least.")
        logging = study.log_runs(base, folder / "runs", settings.repeat)[0].settings
        if logging.task_type == "logged":
            raise UsageError(f"--task={study.name}: of a log nobody knows what other actions would have earned.")
        if logging.reward_drift:
            raise UsageError(
                f"--task={study.name}: with --reward_drift={logging.reward_drift} a policy has no one true reward."
            )
    with sweep.claim(folder, studies.STUDIES[plan.BINARY]):
        executor = executors.build(settings, cores)
        with executors.running(executor, folder):
            played = [(study, *_play(study, base, folder / "runs", settings.repeat, executor)) for study in chosen]
        found = []
        for study, candidates, logs in played:
            for log in logs:
                found.append(evaluating.of_log(study, log, candidates, folder / "runs", settings.releases))
                print(f"{study.name}: the log of seed {log.seed} is evaluated", file=sys.stderr, flush=True)
        _tell(found, [folder, *([pathlib.Path(settings.records)] if settings.records else [])])
    return 0


def _chosen(settings: cli.Settings) -> Sequence[Study]:
    known = plan.load(pathlib.Path(settings.settings) if settings.settings else None)
    names = list(dict.fromkeys(settings.task.split(","))) if settings.task else list(known)
    for name in names:
        if name not in known:
            raise cli.unknown("task", name, known, f"it is one of {', '.join(known)}.")
    return [known[name] for name in names]


def _play(
    study: Study, base: Sequence[str], folder: pathlib.Path, repeat: int, executor: executors.Executor
) -> tuple[list[Run], list[Run]]:
    """Plays what is missing; returns the runs of candidates and of logs.

    Raises:
      Failure: If one fails; it names its folder.
    """
    metric = studies.load(studies.STUDIES[plan.BINARY]).ranked_by
    runs = sweep.Sweep(folder, executor, metric, smallest=metric.better == "down")
    with contextlib.closing(runs):
        initial = study.initial_run(base, folder)
        _finish(runs, [initial], folder)
        candidates, logs = study.candidate_runs(base, folder), study.log_runs(base, folder, repeat)
        _finish(runs, [*logs, *candidates], folder)
    return candidates, logs


def _finish(runs: sweep.Sweep, some: Sequence[Run], folder: pathlib.Path) -> None:
    runs.run(some)
    for run in some:
        if (outcome := runs.outcomes[run.name]).status == FAILED:
            raise Failure(f"{folder / run.name}: {outcome.error}")


def _tell(found: Sequence[evaluating.Found], folders: Sequence[pathlib.Path]) -> None:
    import pandas as pd

    scored, of_candidates = (pd.DataFrame([row for rows in part for row in rows]) for part in zip(*found, strict=True))
    for folder in folders:
        tables.write(scored, of_candidates, folder)
    print(f"{tables.of_scores(scored)}\n{tables.of_candidates(of_candidates)}")
    print(f"Written to {' and '.join(map(str, folders))}: {tables.SCORES}, {tables.CANDIDATES}")
