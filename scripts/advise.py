"""Recommends a strategy for a federated bandit: `python -m scripts.advise`; see `--help`.

Flags of the runs are checked before anything slow is imported. Runs are executed as a grid's: once, and continued
where they were interrupted.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import dataclasses
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bandits import binaries, logged_flags, registry, schedule_flags, simulator, studies
from bandits.advice import arms, output, privacy, session, simulated, stages
from bandits.advice import plan as planning
from bandits.advice.plan import Plan
from bandits.plans import players
from bandits.plans.plan import as_text
from bandits.results import runs
from data import table_report, tasks
from data.errors import UsageError
from optimization.study import cli, frame, presets, run_folder

_USAGE = """
Recommends whether to explore on your data, with which strategy and at what privacy, with confidence intervals.

  advise --data_file=shop.csv --client_column=store --label_column=bought --minutes=15
  advise --task_type=digits --bandits_deploy_freq=50 --total_rounds=200
  advise --data_file=shop.csv --client_column=store --label_column=bought --population=342477

All other flags are passed on to every run; `run_federated --help` lists them. The same command continues after a stop.
"""
# An advice sets these itself, or they make no single question of it.
_OWN = ("bandits_type", "seed", "repeat", "restart", "list_presets")
# By flag, the values that add no noise and leave cohorts seeded.
_OF_NOISE: Mapping[str, tuple[Any, ...]] = {
    "noise_multiplier": (0.0, None),
    "aggregator_type": ("mean", "none", "dpsgd"),
    "cohort_sampling": ("fixed",),
    "insecure_seeded_noise": (False,),
}


def define() -> cli.FlagSet:
    """Returns the flags of `advise`; those of its runs are passed on."""
    flags = cli.FlagSet(_USAGE, "run_flags", known_only=True)
    flags.group("Budget")
    flags.number("minutes", 15.0, "time budget in minutes; the answer lists what it leaves out", above=True)
    flags.integer("workers", 2, "runs at the same time", low=1)
    privacy.define(flags)
    flags.group("Output")
    flags.path("root_output_dir", "runs", "folder of all output")
    flags.folder("experiment_name", "name of the output folder (default: advice_, and the table, preset or task)")
    return flags


@dataclasses.dataclass(frozen=True)
class Data:
    """What a recommendation needs to know of its data.

    Attributes:
      checksum: Digest.
      report: What became of it.
      clients: Clients that train.
      cohort: Clients of a round.
      num_actions: Actions.
      reward_width: Between the smallest and the largest reward.
      is_labelled: Whether a label says which action is right, and rewards are 1 for it alone.
      statistics: What is learned of the clients without noise, in words.
      held_out: What is held out for evaluation, in words.
      unit: What a guarantee protects, in words.
      scores: Of a log's simulator; empty for other data.
    """

    checksum: str
    report: dict[str, Any]
    clients: int
    cohort: int
    num_actions: int
    reward_width: float
    is_labelled: bool
    statistics: tuple[str, ...]
    held_out: str
    unit: str
    scores: tuple[simulator.Score, ...] = ()

    @property
    def rows(self) -> int:
        """Training rows of a table or log; 0 for other data."""
        return int(self.report.get("training_rows", 0))


def base_flags(given: Sequence[str]) -> tuple[str, ...]:
    """Returns the flags of all runs.

    Args:
      given: As they stand in the command.

    Raises:
      UsageError: If one is the advice's to set, or unknown.
    """
    settings = binaries.parse(arms.BINARY, given)
    parameters = [f"bandits_{name}" for entry in registry.POLICIES.values() for name in entry.parameters]
    for name in (*_OWN, *parameters, *schedule_flags.NAMES):
        if name in settings.given:
            raise UsageError(f"--{name}: advise sets this flag of its runs itself: leave it out.")
    _check_noise(presets.applied(settings, studies.load(arms.BINARY).presets))
    base = list(given)
    if "task_type" not in settings.given and settings.data_file:
        base.append("--task_type=tabular")
    return binaries.without_file(arms.BINARY, base)


def _check_noise(settings: cli.Settings) -> None:
    """Refuses noise in all runs, given or set by a preset: searches and comparisons have none.

    Raises:
      UsageError: If there is some.
    """
    for name, harmless in _OF_NOISE.items():
        is_read = (
            name in settings.given or name != "noise_multiplier" or settings.aggregator_type not in ("mean", "none")
        )
        if not is_read or settings[name] in harmless:
            continue
        told = "advise adds noise itself, in a stage of its own"
        if name in settings.given:
            raise UsageError(f"--{name}: {told}: leave it out.")
        raise UsageError(
            f"--preset={settings.preset} sets --{name}={as_text(settings[name])}, but {told}: give "
            f"--{name}={as_text(harmless[0])} beside it, or a preset without noise."
        )


def open_data(settings: cli.Settings) -> Data:
    """Opens the data of resolved flags, and checks these against it.

    Raises:
      UsageError: If it is not there, or they do not fit it.
    """
    study = studies.load(arms.BINARY)
    options = study.options(settings)
    task = study.open(options)
    clients = study.population(options, task) or len(task.clients)
    settings = frame.fitted(study, settings, clients)
    options = study.options(settings)
    # Before the study's check, which would print what the recommendation says first.
    scores = tuple(simulator.once(task.held_out)[0]) if logged_flags.is_simulated(options.task) else ()
    study.check(options, task)
    low, high = task.reward_range(options.rewards)
    return Data(
        checksum=task.checksum,
        report=dict(task.report),
        clients=clients,
        cohort=settings.clients_per_round,
        num_actions=task.num_actions,
        reward_width=(high - low) or 1.0,
        is_labelled=not task.multi_label and not options.has_shift and options.drift.kind == "none",
        statistics=task.private_statistics,
        held_out=_held_out(task),
        unit=_unit(settings, clients, str(task.report.get("held_out", ""))),
        scores=scores,
    )


def _held_out(task: tasks.Task) -> str:
    """Returns what is held out for evaluation."""
    if told := task.report.get("held_out"):
        return f"held out for evaluation: {told}"
    count = len(task.held_out)
    return f"held out for evaluation: {count:,} other clients" if count > 1 else "held out: one pooled test set"


def _unit(settings: cli.Settings, clients: int, held_out: str) -> str:
    """Returns what a guarantee protects, and how many of them there are."""
    column = settings.client_column
    if not column:
        return "one client with all its data, not a single example"
    if column.startswith("rows:"):
        return "one synthetic client, a random group of rows: name a real --client_column to protect someone"
    told = f": {clients:,} train; held out: {held_out}"
    return f"one value of column {column!r} with all its rows, not the people behind single rows{told}"


def folder_name(settings: cli.Settings) -> str:
    """Returns the default name of the output folder."""
    table = pathlib.Path(settings.data_file).name.partition(".")[0] if settings.data_file else ""
    scenario = "" if settings.preset or settings.scenario == "scratch" else settings.scenario
    return "_".join(filter(None, ("advice", settings.preset or table or settings.task_type, scenario)))


def full_plan(settings: cli.Settings, names: Sequence[str], points: int, epsilons: int) -> Plan:
    """Returns the plan with nothing left out.

    Args:
      settings: Resolved flags of a run.
      names: Strategies that go with them, and what stands beside these.
      points: Points of the largest search.
      epsilons: Epsilons to play.
    """
    every = settings.bandits_deploy_freq
    return Plan(
        rounds=settings.total_rounds,
        deploy_every=every,
        # Of a model that is deployed after the last round alone, ten times as often is in ten parts of the run.
        often=max(1, min(every, settings.total_rounds) // 10) if every > 1 else 0,
        strategies=tuple(name for name in planning.STRATEGIES if name in names),
        has_ceiling=planning.CEILING in names,
        points=min(Plan.points, points),
        epsilons=epsilons,
    )


def program(settings: cli.Settings) -> int:
    """Runs all stages; returns 0, 1 if a run failed, or 128 + the signal that stopped it."""
    settings = settings.settled()
    privacy.check(settings)
    epsilons = privacy.epsilons(settings)
    base = base_flags(settings.run_flags)
    names = arms.check(base)
    base = arms.in_one_world(base)
    resolved = binaries.resolve(arms.BINARY, (*base, f"--bandits_type={planning.GREEDY}"))
    folder = pathlib.Path(settings.root_output_dir) / (settings.experiment_name or folder_name(resolved))
    print(f"{folder.name}: folder {cli.shown_path(str(folder))}", file=sys.stderr, flush=True)
    session.check_no_run(folder)
    data = open_data(resolved)
    for line in table_report.lines(data.report):
        print(line, file=sys.stderr)
    simulated.check(data.scores, arms.BINARY, base)
    where = privacy.deployment(settings, data.clients, data.cohort, data.statistics)
    fixed = sorted(binaries.parse(arms.BINARY, base).given & {*arms.RATES})
    identity = {f"--{name}": value for name, value in _identity(resolved).items()} | {
        **({"what is not searched": ", ".join(fixed)} if fixed else {}),
        "the data's checksum": data.checksum,
        "--workers": settings.workers,
        "--target_epsilons": list(epsilons),
        "where it would be trained": dataclasses.asdict(where),
    }
    with run_folder.claiming(folder, "advice"):
        state = session.State(folder, identity, settings.minutes)
        if state.values.get("finished") and (folder / session.ADVICE_FILE).exists():
            advice = runs.read_json(folder / session.ADVICE_FILE)
            if "sentences" not in advice:
                raise UsageError(
                    f"{folder / session.ADVICE_FILE} is damaged: delete it, and the same command writes it again."
                )
            print(output.told(advice, folder))
            return 0
        # Models are compared as they are in the end.
        evaluations = () if "rounds_per_eval" in binaries.parse(arms.BINARY, base).given else ("--rounds_per_eval=0",)
        cores = max(1, len(os.sched_getaffinity(0)) // settings.workers)
        threads = () if resolved.max_concurrent_threads else (f"--max_concurrent_threads={cores}",)
        every = (*base, *evaluations, *threads)
        spaces = arms.spaces(base, names, data.num_actions, data.reward_width)
        no_noise = stages.refused_noise(base) or privacy.no_guarantee(where)
        if no_noise:
            print(f"Runs with noise are left out: {no_noise.rstrip('.')}.", file=sys.stderr)
        full = full_plan(resolved, names, max(one.size for one in spaces.values()), 0 if no_noise else len(epsilons))
        team = players.Local(settings.workers)
        playing = session.Session(folder, state, full, every, team, settings.workers)
        with players.playing(team, folder):
            try:
                playing.measure(spaces)
                made = stages.Stages(
                    playing, spaces, stages.measured_by(data.is_labelled), where, epsilons, data.cohort, no_noise
                )
                found = made.play()
            finally:
                playing.close()
        advice = output.content(playing, found, where, base, data)
        output.write(advice, folder)
        state.values["finished"] = not playing.failed
        state.save()
    print(output.told(advice, folder))
    for name, error in playing.failed.items():
        print(f"{folder / name} failed: {error}", file=sys.stderr)
    return 1 if playing.failed else 0


def _identity(settings: cli.Settings) -> dict[str, Any]:
    """Returns the flags that tell one recommendation from another."""
    left_out = run_folder.FREE_FLAGS | {*_OWN, "root_output_dir"}
    return {name: value for name, value in settings.items() if name not in left_out and value is not None}


if __name__ == "__main__":
    cli.main(define(), program)
