"""Recommends a strategy for a federated bandit: `scripts.advise`, and `bandits.advise` in Python.

Flags of the runs are checked before the slow imports. A run is executed once, and continued after an interruption.
"""

import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from bandits import studies
from bandits.advice import answers, findings, inputs, session, stages
from bandits.advice import plan as planning
from bandits.advice.answers import Context
from bandits.advice.plan import Plan
from bandits.plans import executors
from bandits.results import federating, phrases, runs, tables
from data import files, frames, table_report
from data.errors import UsageError
from data.settings import no_folder, setting
from optimization.study import cli, python, run_folder

PAGE = "advice.html"
_USAGE = """
Recommends whether to explore on your data, and with which strategy and privacy level. Shows confidence intervals.

  advise --data_file=shop.csv --client_column=store --label_column=bought --minutes=15
  advise --task_type=digits --bandits_deploy_freq=50 --total_rounds=200
  advise --data_file=shop.csv --client_column=store --label_column=bought --population=342477

Other flags are passed on to every run; `run_federated --helpfull` lists them. Repeat a command to continue it.
"""


@dataclasses.dataclass(frozen=True)
class _Budget:
    """Budget."""

    minutes: float = setting(15.0, "Time budget in minutes; the answer lists what did not fit into it", above=True)
    workers: int = setting(2, "Number of runs to execute in parallel", low=1)


@dataclasses.dataclass(frozen=True)
class _Output:
    """Output."""

    root_output_dir: pathlib.Path = setting("runs", "Folder for all output")
    experiment_name: str = setting(
        None, "Name of the output folder (default: advice_ and the name of the table, preset or task)", check=no_folder
    )


def define() -> cli.FlagSet:
    """Flags of `advise`; those of its runs are passed on."""
    flags = cli.FlagSet(_USAGE, "run_flags", known_only=True)
    flags.group("Budget", _Budget)
    flags.group("Privacy", inputs.Privacy)
    flags.group("Output", _Output)
    return flags


def full_plan(settings: cli.Settings, names: Sequence[str], points: int, epsilons: int, *, can_be_alone: bool) -> Plan:
    """The plan with nothing left out.

    Args:
      settings: Resolved flags of a run.
      names: Compatible strategies and baselines.
      points: Number of points in the largest search.
      epsilons: Number of epsilons.
      can_be_alone: Whether clients can train alone.
    """
    return Plan(
        rounds=settings.total_rounds,
        deploy_every=settings.bandits_deploy_freq,
        configurations=tuple(names),
        points=min(Plan.points, points),
        epsilons=epsilons,
        federation_seeds=Plan.federation_seeds * can_be_alone,
        alone_rounds=max(1, 2 * settings.clients_per_round // 5),  # This ratio was measured on digits.
    )


def program(settings: cli.Settings) -> int:
    """Prints the recommendation; returns the exit status: 1 if a run failed, otherwise 0."""
    recommendation = recommend(settings)
    print(recommendation)
    for name, error in recommendation.failed.items():
        print(f"{recommendation.folder / name} failed: {error}", file=sys.stderr)
    return 1 if recommendation.failed else 0


@dataclasses.dataclass(frozen=True, repr=False)
class Recommendation:
    """A recommendation; notebooks show its text.

    Attributes:
      folder: Output folder.
      content: Content of `advice.json`.
      failed: Errors of failed runs, by the run's name.
    """

    folder: pathlib.Path
    content: Mapping[str, Any]
    failed: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        lines = []
        for name, answer in self.content["sentences"].items():
            lines.append(answers.TITLES[name])
            for paragraph, items in answers.paragraphs(answer):
                lines += [f"  {paragraph}", *(f"    - {item}" for item in items)]
            lines.append("")
        shown = cli.shown_path(str(self.folder))
        return "\n".join([*lines, f"Details, curves and numbers in {shown}: {PAGE}, {session.ADVICE_FILE}"])


def advise(*, table: pd.DataFrame | None = None, **settings: Any) -> Recommendation:
    """Recommends whether to explore on your data, and with which strategy and privacy level, like `scripts.advise`.

    The same call continues a recommendation that was interrupted, and reads one that is finished.

    Example:
      >>> bandits.advise(table=frame, client_column="store", label_column="bought", minutes=15)

    Args:
      table: A DataFrame instead of `data_file`. It is saved below `root_output_dir`, where the processes of the runs
        read it.
      **settings: The flags of `scripts.advise`, such as `minutes` and `population`, and of its runs, such as
        `client_column`; see `help(bandits.run)`.

    Raises:
      TypeError: For a keyword that is not a setting.
      UsageError: For values that `scripts.advise` also refuses.
      Failure: If no run can be executed.
    """
    study, advise_flags = studies.load(planning.BINARY), define()
    settings = python.checked(study, settings | {"table": table}, advise_flags.declared, "advise")
    settings.pop("table", None)
    if table is not None:
        folder = pathlib.Path(cli.user_path(os.fspath(settings.get("root_output_dir", "runs"))), "tables")
        settings["data_file"] = frames.save(table, folder)
    words = python.words(settings)
    return recommend(advise_flags.parse(["", *words]), f"{cli.command_line('scripts.advise', words)}  # from Python")


def recommend(settings: cli.Settings, command: str | None = None) -> Recommendation:
    """Runs all stages of a recommendation.

    Args:
      settings: The flags.
      command: The command to record; by default this process's.

    Raises:
      UsageError: If flags conflict or do not fit the data, or the folder holds a run or another recommendation.
      Failure: If no run can be executed.
    """
    settings = settings.checked()
    if settings.population_clients_per_round:
        settings.check_order("population_clients_per_round", "population")
    epsilons = tuple(dict.fromkeys(settings.target_epsilons))
    base = inputs.base_flags(settings.run_flags)
    names = planning.check(base)
    base_without_environment, base = base, planning.with_environment(base)
    resolved = studies.resolve(planning.BINARY, (*base, f"--bandits_type={planning.GREEDY}"))
    folder = pathlib.Path(settings.root_output_dir) / (settings.experiment_name or inputs.folder_name(resolved))
    print(f"{folder.name}: folder {cli.shown_path(str(folder))}", file=sys.stderr, flush=True)
    if (folder / "config.json").exists():
        raise UsageError(f"{folder} holds a run, not a recommendation: choose another --experiment_name.")
    data = inputs.open_data(resolved)
    references = answers.references(data)
    print(*table_report.lines(data.report), *[references] * bool(references), sep="\n", file=sys.stderr)
    inputs.check_simulator(data.scores, base, references)
    deployment = inputs.deployment(settings, data.clients, data.cohort, data.statistics)
    set_flags = studies.parse(planning.BINARY, base).set_by_user
    left_out = run_folder.FREE_FLAGS | {*inputs.RESERVED_FLAGS, "root_output_dir"}
    identity = {f"--{name}": value for name, value in resolved.items() if name not in left_out and value is not None}
    identity |= {"the data's checksum": data.checksum, "--workers": settings.workers}
    identity |= {"--target_epsilons": list(epsilons), "not searched": sorted(set_flags & {*planning.RATES})}
    for name in ("population", "cohort", "delta", "accountant", "apart_from"):
        identity[f"the deployment's {name.replace('_', ' ')}"] = getattr(deployment, name)
    with run_folder.claiming(folder, "advice"):
        state = session.State(folder, identity, settings.minutes, command or cli.command_line())
        if state.finished and (folder / session.ADVICE_FILE).exists():
            advice = runs.read_json(folder / session.ADVICE_FILE)
            if "sentences" not in advice:
                raise UsageError(
                    f"{folder / session.ADVICE_FILE} is damaged: delete it and repeat the command to write it again."
                )
            return Recommendation(folder, advice)
        # Models are compared after the last round.
        evaluations = () if "rounds_per_eval" in set_flags else ("--rounds_per_eval=0",)
        cores = max(1, len(os.sched_getaffinity(0)) // settings.workers)
        threads = () if resolved.max_concurrent_threads else (f"--max_concurrent_threads={cores}",)
        spaces = planning.spaces(base, names, data.num_actions, data.trained_width)
        no_noise = stages.refused_noise(base) or inputs.no_guarantee(deployment, data)
        if no_noise:
            print(f"Runs with noise are left out: {no_noise.rstrip('.')}.", file=sys.stderr)
        no_federation = stages.refused_federation(base, data.clients)
        points, num_epsilons = max(space.size for space in spaces.values()), 0 if no_noise else len(epsilons)
        full = full_plan(resolved, names, points, num_epsilons, can_be_alone=not no_federation)
        results = findings.Findings(why_no_noise=no_noise, why_no_federation=no_federation)
        can_lengthen = "total_rounds" not in set_flags and not resolved.preset and base == base_without_environment
        current = session.Session(folder, state, full, (*base, *evaluations, *threads), settings.workers)
        with executors.running(current.executor, folder):
            try:
                current.measure(spaces)
                stages.Stages(current, spaces, data, deployment, epsilons, results, can_lengthen).run()
            finally:
                state.save()
        advice = write(Context(current, results, data, deployment, _command(current, results, data, base)))
        state.finished = not current.failed
        state.save()
    return Recommendation(folder, advice, current.failed)


def _command(current: session.Session, results: findings.Findings, data: inputs.Data, base: Sequence[str]) -> str:
    """The command to copy, which runs the recommended strategy or else trains offline; empty if neither is possible."""
    more = [f"--experiment_name={current.folder.name}_recommended"]  # A run with the default name may exist.
    more += [f"--total_rounds={current.plan.rounds}"] * bool(current.plan.doublings)
    points = {name: strategy.flags for name, strategy in results.configurations.items()}
    if name := results.verdict.recommended:
        return planning.command(base, name, points[name], *more)
    # Offline training uses all available rewards.
    return planning.offline_command(base, points, bool(data.scores), *more) if data.references and points else ""


def write(context: Context) -> dict[str, Any]:
    """Writes the page, then `advice.json`, which marks both as complete; returns the content of `advice.json`.

    Raises:
      Failure: If a file cannot be written.
    """
    from bandits.results import page

    current, results, state = context.session, context.results, context.session.state
    advice = findings.plain(
        vars(results)
        | {name: getattr(context, name) for name in ("command", "deployment", "data")}
        | {
            "format": run_folder.FORMAT,
            "sentences": answers.write(context),
            "details": answers.details(context),
            "recommended": results.verdict.recommended,
            "confirmed_against_greedy": findings.compared(results.confirmed, planning.GREEDY),
            "federated_against_alone": findings.compared(results.federation, federating.ALONE),
            "noise_against_no_noise": findings.compared(results.with_noise, findings.NO_NOISE),
            "advice_command": state.command,
            "minutes": state.minutes,
            "seconds": round(state.earlier + state.spent, 1),
            "pace": current.pace,
            "machine": runs.machine(),
            "versions": run_folder.versions(),
            "plan": current.plan,
            "left_out": planning.left_out(current.full, current.plan),
            "failed": current.failed,
        }
    )
    is_varied = not state.identity.get("--initial_model_path")
    top = answers.templates().get_template("top.html.jinja")
    content = page.page(
        runs.read_all([path for path in [current.folder / "compare"] if path.is_dir()]),
        f"Recommendation: {current.folder.name}",
        top=top.render(
            advice=advice,
            titles=answers.TITLES,
            tables=[tables.html(heads, rows, "wrapped", heads) for heads, rows in answers.tables(results)],
            over_seeds=phrases.what_seeds_vary(initial_model=is_varied, noise=bool(results.with_noise)),
            intervals=phrases.WHAT_INTERVALS_ARE_OVER,
        ),
    )
    files.replace(current.folder / PAGE, content.encode())
    files.replace(current.folder / session.ADVICE_FILE, json.dumps(advice, indent=2).encode() + b"\n")
    return advice
