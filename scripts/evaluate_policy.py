"""Evaluates a policy on another policy's log: `python -m scripts.evaluate_policy --log=FILE --policy=...`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import contextlib
import dataclasses
import os
import pathlib
import re
import sys
from typing import Any

import pandas as pd

from bandits import interactions, registry
from bandits.evaluation import bounds, estimates, evaluating, output, private, reward_models, target_policies
from bandits.evaluation.estimators import KINDS
from data import files, frames, schema
from data.errors import UsageError
from data.settings import declared, parameters, setting
from optimization.study import cli, python, results

_USAGE = """
Estimates the reward of a policy from the log of another policy, with intervals over clients.

  evaluate_policy --log=log.csv --client_column=user --action_column=item --reward_column=click \\
      --propensity_column=p --policy=uniform
  evaluate_policy --log=runs/mine --policy=run:runs/mine --bandits_type=greedy
  evaluate_policy --log=runs/mine --policy=logged

The column flags are not needed for the folder of a run with --log_interactions, or for a file of --save_log.
"""


@dataclasses.dataclass(frozen=True)
class _Log:
    """Log."""

    log: pathlib.Path = setting(
        None, "The log: a CSV or Parquet table, the folder of a run, or a file of --save_log", basic=True
    )
    client_column: str = setting(
        None, "Columns of each row's client, separated by commas; each combination is a client", basic=True
    )
    action_column: str = setting(None, "Column of the chosen action", basic=True)
    reward_column: str = setting(None, "Column of the chosen action's reward", basic=True)
    propensity_column: str = setting(
        None, "Column of the chosen action's probability under the logging policy, in (0, 1]", basic=True
    )
    propensity_columns: str = setting(
        None,
        "Instead of --propensity_column, or in addition: for each action, a column with its probability, matched as "
        "with --policy; sums that differ from 1 are reported",
    )
    round_column: str = setting(None, "Column of the round, a whole number; --anytime updates after each round")
    period_column: str = setting(
        None,
        "Column of the deployment period, a whole number; --anytime updates after each period, if clients act once per "
        "period",
    )
    position_column: str = setting(None, "Column of a categorical feature, such as the position on a page")
    feature_columns: str = setting(None, "Columns of features, separated by commas (default: all other columns)")
    action_names: str = setting(None, "Further possible actions that occur in no row")


@dataclasses.dataclass(frozen=True)
class _Policy:
    """Policy."""

    policy: str = setting(None, "Policy to evaluate", basic=True)
    bandits_type: str = setting(None, "Exploration that is applied to a run's model (default: the run's own)")


@dataclasses.dataclass(frozen=True)
class _Estimation:
    """Estimation."""

    estimators: str = setting(
        None,
        "Names, separated by commas: logged, ips, snips, clipped_ips, dm, dr, switch_dr, dros (default: ips, snips, "
        "those whose parameter is set and, with a model, dm and dr; with --private, only ips and snips)",
        only={"private": False},
        basic=True,
    )
    clip: float = setting(None, "Maximum weight of clipped IPS", above=True, only={"private": False})
    tau: float = setting(None, "Maximum weight of rows that SWITCH-DR corrects", above=True, only={"private": False})
    shrinkage: float = setting(None, "Parameter lambda of DRos", above=True, only={"private": False})
    draws: int = setting(
        1000,
        "Number of bootstrap samples of clients, for intervals in addition to the delta method; 0 for none",
        high=100_000,
        only={"private": False},
    )
    seed: int = setting(0, "Seed of the model's training, the folds, the bootstrap, and the choice of rows", basic=True)


@dataclasses.dataclass(frozen=True)
class _Output:
    """Output."""

    save_log: pathlib.Path = setting(
        None,
        "Also write the log with its contexts as a single Parquet file, for --task_type=logged",
        only={"private": False},
        basic=True,
    )
    output_dir: pathlib.Path = setting(
        None,
        "Folder for estimates.csv, evaluation.json and evaluation.html; a folder that already holds an evaluation "
        "is refused (default: evaluation/POLICY)",
        basic=True,
    )


def define() -> cli.FlagSet:
    """Flags of `evaluate_policy`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("Log", _Log, schema.Columns)
    flags.group("Sets of actions", schema.Sets)
    flags.group("Time in a table or log", schema.Time)
    flags.group("Late and missing rewards in a log", schema.RewardTime)
    # A final model has a single policy, so parameters with a schedule are constants here.
    of_model = {name: entry for name, entry in registry.POLICIES.items() if not (entry.schedule or entry.sums)}
    constant = {name: dict(entry.parameters) for name, entry in of_model.items()}
    kinds = (f"{name}: {text}" for name, text in target_policies.KINDS.items())
    policies = declared(_Policy, policy={"help": "; ".join(kinds)}, bandits_type={"type": list(constant)})
    flags.group("Policy", *policies, *parameters("bandits_", "bandits_type", constant))
    flags.group("Reward model for DM, DR, SWITCH-DR and DRos", reward_models.RewardModel, private=False)
    flags.group("Estimation", _Estimation)
    flags.group("Bounds on each client's contribution, fixed before the log is read", bounds.ClientBounds, bounds.Modes)
    flags.group("Differential privacy", bounds.DifferentialPrivacy, private=True)
    flags.group("Output", _Output)
    return flags


def program(settings: cli.Settings) -> None:
    """Evaluates the policy that the flags name."""
    target, settings = _checked(settings)
    evaluating.evaluate(settings, target, private.models(settings, target))


def evaluate(*, log: pd.DataFrame | str | os.PathLike, policy: "results.Run | str", **settings: Any) -> pd.DataFrame:
    """Estimates the reward of a policy from a log, as `scripts.evaluate_policy` does.

    Example:
      >>> run = bandits.run(task_type="logged", table=past, learn_from="dr", **columns)
      >>> bandits.evaluate(log=recent, policy=run, **columns)

    Args:
      log: A DataFrame with one interaction per row, or a value of --log.
      policy: A run of run_federated, whose probabilities are those of `Run.predict`, or a value of --policy.
      **settings: The flags of `scripts.evaluate_policy`, such as `client_column`. Without `output_dir`, nothing is
        written except for the ledger of a private evaluation.

    Returns:
      The estimates, as in `estimates.csv`.

    Raises:
      UsageError: If the program would reject the arguments.
    """
    cli.hush_imports()
    run, frame = policy if isinstance(policy, results.Run) else None, log if isinstance(log, pd.DataFrame) else None
    flags: dict[str, Any] = {**settings, "policy": f"run:{run.folder}" if run else policy}
    with contextlib.ExitStack() as lending:
        if run and frame is not None:
            if run.flags.get("data_file") == frames.PREFIX + frames.checksum(frame):
                print(f"Warning: {evaluating.LEARNED}", file=sys.stderr)
            if (chosen := run.predict(frame)["probability"]).ndim == 1:
                raise UsageError("log: the run's actions have features, so save the DataFrame to a file.")
            flags["action_names"], chosen = list(chosen), chosen.add_prefix("policy: ")
            frame, flags["policy"] = frame.join(chosen), f"column:{cli.joined(chosen)}"
        parsed = define().parse(["", *python.words(flags if frame is not None else {**flags, "log": log})])
        if frame is not None:
            parsed = parsed.with_user_values(log=lending.enter_context(frames.lent(frame)))
        target, checked = _checked(parsed, is_written="output_dir" in settings)
        target = target._replace(run=str(run.folder)) if run and frame is not None else target
        rows = pd.DataFrame(evaluating.evaluate(checked, target, private.models(checked, target)))
    return rows.where(rows != "")


def _checked(settings: cli.Settings, *, is_written: bool = True) -> tuple[target_policies.Target, cli.Settings]:
    """Rejects conflicting flags before the log is read. Returns the policy, and the flags with an output folder."""
    if not settings.log:
        raise UsageError("--log is missing: name the log, a CSV or Parquet file.")
    is_frame = settings.log.startswith(frames.PREFIX)
    if is_frame and settings.private and not settings.privacy_ledger:
        raise UsageError("private: a DataFrame has no file next to which to store a ledger: give privacy_ledger.")
    if not (is_frame or pathlib.Path(settings.log).is_file() or interactions.is_logged(settings.log)):
        raise UsageError(f"--log: there is no file {settings.log}, nor is it the folder of a run with a log.")
    if interactions.is_part(settings.log):
        folder = pathlib.Path(settings.log).parent.parent
        raise UsageError(f"--log: {settings.log} is only a part of a run's log: give the run's folder, {folder}.")
    if settings.save_log:
        files.check_output("save_log", pathlib.Path(settings.save_log))
        is_log = pathlib.Path(settings.save_log).resolve() == pathlib.Path(settings.log).resolve()
        if is_log or interactions.is_part(settings.save_log):
            raise UsageError(f"--save_log: {settings.save_log} holds the log that is evaluated: name another file.")
    if not settings.policy:
        raise UsageError(f"--policy is missing: give {', '.join(target_policies.KINDS)}.")
    kind, _, name = settings.policy.partition(":")
    target = target_policies.parse(f"run:{cli.user_path(name)}" if kind == "run" and name else settings.policy)
    parameters = [name for name in settings.set_by_user if name.startswith("bandits_")]
    if parameters and target.kind != "run":
        raise UsageError(f"--{min(parameters)} sets the exploration of a run's model: it needs --policy=run:FOLDER.")
    if parameters and "bandits_type" not in parameters:
        raise UsageError(f"--{min(parameters)} is the parameter of an exploration: give --bandits_type as well.")
    for name in estimates.names(settings.estimators) or ():
        if KINDS[name].parameter and settings[KINDS[name].parameter] is None:
            raise UsageError(f"--estimators: {name} needs --{KINDS[name].parameter}.")
        if KINDS[name].needs_model and not settings.model:
            raise UsageError(f"--estimators: {name} needs a reward model: leave out --nomodel.")
        if KINDS[name].needs_model and not target.has_each_probability:
            raise UsageError(
                f"--estimators: {name} needs the probability of each action, but --policy={target} names a single "
                "column: name a column for each action."
            )
    if not is_written:
        return target, settings.checked()
    words = (target.kind, pathlib.Path(target.name).name, settings.bandits_type, "private" if settings.private else "")
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", "_".join(filter(None, words)))[:100]  # For example, `constant_gift`.
    folder = pathlib.Path(settings.output_dir or cli.user_path(f"evaluation/{name}"))
    existing = next(path for path in (folder, *folder.parents) if path.exists())  # Missing folders are created.
    files.check_output("output_dir", existing / "a.json")
    output.check_new(folder)
    return target, settings.checked().replace(output_dir=str(folder))


if __name__ == "__main__":
    cli.main(define(), program)
