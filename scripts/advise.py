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
from collections.abc import Sequence
from typing import Any

from bandits import studies
from bandits.advice import inputs, output, privacy, session, stages, strategies
from bandits.advice import plan as planning
from bandits.advice.plan import Plan
from bandits.plans import executors
from bandits.results import runs
from data import table_report
from data.errors import UsageError
from optimization.study import cli, run_folder
from optimization.study.settings import no_folder, setting

_USAGE = """
Recommends whether to explore on your data, with which strategy and at what privacy, with confidence intervals.

  advise --data_file=shop.csv --client_column=store --label_column=bought --minutes=15
  advise --task_type=digits --bandits_deploy_freq=50 --total_rounds=200
  advise --data_file=shop.csv --client_column=store --label_column=bought --population=342477

All other flags are passed on to every run; `run_federated --helpfull` lists them. The same command continues it.
"""


class _Budget:
    """Budget.

    Attributes:
      minutes: Time budget in minutes; the answer lists what it leaves out.
      workers: Runs at the same time.
    """

    minutes: float = setting(15.0, above=True)
    workers: int = setting(2, low=1)


class _Output:
    """Output.

    Attributes:
      root_output_dir: Folder of all output.
      experiment_name: Name of the output folder (default: advice_, and the table, preset or task).
    """

    root_output_dir: pathlib.Path = setting("runs")
    experiment_name: str = setting(complaint=no_folder)


def define() -> cli.FlagSet:
    """Returns the flags of `advise`; those of its runs are passed on."""
    flags = cli.FlagSet(_USAGE, "run_flags", known_only=True)
    for group in (_Budget, privacy.Privacy, _Output):
        flags.group(group)
    return flags


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
    epsilons = tuple(dict.fromkeys(settings.target_epsilons))
    base = inputs.base_flags(settings.run_flags)
    names = strategies.check(base)
    base = strategies.in_one_world(base)
    resolved = studies.resolve(strategies.BINARY, (*base, f"--bandits_type={planning.GREEDY}"))
    folder = pathlib.Path(settings.root_output_dir) / (settings.experiment_name or inputs.folder_name(resolved))
    print(f"{folder.name}: folder {cli.shown_path(str(folder))}", file=sys.stderr, flush=True)
    if (folder / "config.json").exists():
        raise UsageError(f"{folder} holds a run, not a recommendation: choose another --experiment_name.")
    data = inputs.open_data(resolved)
    for line in table_report.lines(data.report):
        print(line, file=sys.stderr)
    inputs.check_simulator(data.scores, base)
    where = privacy.deployment(settings, data.clients, data.cohort, data.statistics)
    given = studies.parse(strategies.BINARY, base).given
    identity = _identity(resolved) | {"the data's checksum": data.checksum, "--workers": settings.workers}
    identity |= {"--target_epsilons": list(epsilons)}
    for name, value in dataclasses.asdict(where).items():
        identity[f"where it would be trained, {name.replace('_', ' ')}"] = value
    if fixed := sorted(given & {*strategies.RATES}):
        identity["what is not searched"] = ", ".join(fixed)
    with run_folder.claiming(folder, "advice"):
        state = session.State(folder, identity, settings.minutes)
        if state.finished and (folder / session.ADVICE_FILE).exists():
            advice = runs.read_json(folder / session.ADVICE_FILE)
            if "sentences" not in advice:
                raise UsageError(
                    f"{folder / session.ADVICE_FILE} is damaged: delete it, and the same command writes it again."
                )
            print(output.told(advice, folder))
            return 0
        # Models are compared as they are in the end.
        evaluations = () if "rounds_per_eval" in given else ("--rounds_per_eval=0",)
        cores = max(1, len(os.sched_getaffinity(0)) // settings.workers)
        threads = () if resolved.max_concurrent_threads else (f"--max_concurrent_threads={cores}",)
        spaces = strategies.spaces(base, names, data.num_actions, data.reward_width)
        no_noise = stages.refused_noise(base) or privacy.no_guarantee(where)
        if no_noise:
            print(f"Runs with noise are left out: {no_noise.rstrip('.')}.", file=sys.stderr)
        full = full_plan(resolved, names, max(one.size for one in spaces.values()), 0 if no_noise else len(epsilons))
        playing = session.Session(folder, state, full, (*base, *evaluations, *threads), settings.workers)
        with executors.running(playing.executor, folder):
            try:
                playing.measure(spaces)
                found = stages.Stages(playing, spaces, data, where, epsilons, no_noise).play()
            finally:
                state.save()
        advice = output.write(playing, found, data, where, base)
        state.finished = not playing.failed
        state.save()
    print(output.told(advice, folder))
    for name, error in playing.failed.items():
        print(f"{folder / name} failed: {error}", file=sys.stderr)
    return 1 if playing.failed else 0


def _identity(settings: cli.Settings) -> dict[str, Any]:
    """Returns the flags that tell one recommendation from another."""
    left_out = run_folder.FREE_FLAGS | {*inputs.OWN, "root_output_dir"}
    return {f"--{name}": value for name, value in settings.items() if name not in left_out and value is not None}


if __name__ == "__main__":
    cli.main(define(), program)
