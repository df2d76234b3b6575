"""What a finished or stopped phase of a bandit run writes and prints."""

import sys
from collections.abc import Mapping
from typing import Any

import pandas as pd

from bandits import (
    experiment,
    interactions,
    logged_flags,
    metrics,
    phase_privacy,
    recorded_baselines,
)
from bandits.options import BanditOptions, Phase, phases
from data import files, tasks
from optimization.study import disclosure, loggers, panels, results, run_folder, runner

# Panels of reward.png.
_PLOTTED = (metrics.ROUND_REWARD, metrics.AVERAGE_REWARD, metrics.ROUND_PROBABILITY, metrics.HELD_OUT_REWARD)


def write(
    options: BanditOptions,
    task: tasks.Task,
    phase: Phase,
    trained: phase_privacy.Trained,
    folder: run_folder.RunFolder,
    rounds: experiment.BanditRounds,
    outcome: runner.Outcome,
) -> None:
    """Writes and prints what a phase gave, also of one that was stopped."""
    spent = trained.report(phase.accounted(outcome.round_num))
    folder.write_json(run_folder.PRIVACY_FILE, disclosure.with_files(spent))
    is_private = trained.mechanism.kind != "none"
    if outcome.round_num:
        title = f"{options.task.task_type}: {phase.label}"
        table = results.read_metrics(folder.path)
        plotted = [metric for metric in _PLOTTED if table[metric].notna().any()]
        picture = panels.draw(
            {phase.label: [table]}, {metric: metric.about for metric in plotted}, title=title, marks=metrics.DEPLOYED
        )
        files.save_picture(picture, folder.path / "reward.png", dpi=120)
    if outcome.signum is None:
        # An earlier start evaluated the last round, and may have been killed before this.
        if not rounds.evaluation.is_evaluated:
            rounds.evaluate(outcome.state)
        is_asked_for = phase.reports_clients or rounds.loggers
        for name, content in _client_files(rounds).items():
            if content and (content["held_out"] or is_asked_for or not is_private):
                folder.write_json(name, content)
            else:  # An earlier version or a shorter run may have written it.
                (folder.path / name).unlink(missing_ok=True)
        compared = ""
        if phase.label == phases(options, task)[-1].label and not (phase.is_alone or phase.has_local_head):
            action = recorded_baselines.of_run(options, task)["held_out"].action
            name = interactions.action_names(task)[action]
            compared = rounds.evaluation.compared_with_references(outcome.state.server, action, name) + "\n"
        print(_summary(options, task, phase, folder, compared + spent["summary"]))
        if is_private:
            print(disclosure.NOTICE)
    for line in rounds.finish(outcome.state, folder):
        print(line)


def _client_files(rounds: experiment.BanditRounds) -> dict[str, Mapping[str, Any]]:
    """Content of the files that hold rewards of single clients, by name; empty for no file."""
    evaluated = rounds.evaluation.client_rewards
    is_held_out = bool(evaluated.get("held_out"))
    return {
        run_folder.CLIENT_REWARDS_FILE: evaluated if is_held_out else {},
        run_folder.EVALUATED_CLIENTS_FILE: {} if is_held_out else evaluated,
        run_folder.ADAPTED_FILE: rounds.evaluation.adapted_rewards,
    }


def warn_of_weak_initial_model(
    options: BanditOptions,
    folder: run_folder.RunFolder,
    rounds: experiment.BanditRounds,
    outcome: runner.Outcome,
) -> None:
    """Warns if the initial model's greedy policy is no better on held-out data than the best fixed action."""
    earned = pd.read_csv(folder.metrics_path)[metrics.HELD_OUT_REWARD].iloc[-1]
    fixed = rounds.evaluation.best_fixed_reward(outcome.state.server)
    if earned <= fixed:
        remedy = "give another --initial_model_path"
        if options.initial:
            remedy = "train it longer (--init_rounds) or at other rates (--init_server_learning_rate, "
            remedy += "--init_client_learning_rate)"
        print(
            f"Warning: the initial model's reward on held-out data, {earned:.4g}, does not exceed that of the best "
            f"fixed action, {fixed:.4g}. This run does not start from a strong initial model: {remedy}.",
            file=sys.stderr,
        )


def _summary(options: BanditOptions, task: tasks.Task, phase: Phase, folder: run_folder.RunFolder, spent: str) -> str:
    table = pd.read_csv(folder.metrics_path)
    last = table.iloc[-1]
    held_out = f"accuracy {last[metrics.ACCURACY]:.4f}"
    if options.task.reward_columns:  # No action is right or wrong.
        held_out = f"reward {last[metrics.HELD_OUT_REWARD]:.4f}"
    if phase.is_alone:
        held_out = "not evaluated, as no held-out client has a model"
    elif phase.has_local_head:
        held_out = f"reward {last[metrics.PERSONALIZED_REWARD]:.4f} of the policy with a reconstructed last layer"
    elif options.task.task_type == "logged":
        value = "of sampled rewards" if logged_flags.is_simulated(options.task) else "doubly robust"
        held_out = f"reward {last[metrics.HELD_OUT_REWARD]:.4f}, {value}"
    elif phase.drift.kind != "none":  # Labels do not say any more which action is right.
        held_out = f"reward {last[metrics.HELD_OUT_REWARD]:.4f} in the last round's environment"
    if options.task.learn_from == "replay":
        kept, there = table[metrics.EXAMPLES].sum(), task.report["training_rows"]
        held_out += f". Replay kept {kept:,.0f} of the {there:,} rows, {kept / there:.1%}"
    if options.task.hold_out == "time":
        held_out += f" ({task.report['held_out']})"
    reset_rounds = list(table["round_num"][table[metrics.RESET] == 1])
    if phase.reset.what != "none":
        when = ", in rounds " if len(reset_rounds) > 1 else ", in round " if len(reset_rounds) else ""
        held_out += f". Resets: {len(reset_rounds)}{when}{loggers.spans(reset_rounds)}"
    rounds = int(last["round_num"])
    is_private = bool(phase_privacy.mechanism(phase).noise_multiplier)
    clipping = f"{task.clipping}\n" if task.clipping and not is_private else ""
    return (
        f"{phase.label}: {rounds:,} round{'s' * (rounds != 1)}, average reward {last[metrics.AVERAGE_REWARD]:.4f}, "
        f"last round {last[metrics.ROUND_REWARD]:.4f}; "
        f"its greedy policy on held-out data: {held_out}.\n"
        f"{clipping}{spent}\n"
        f"Results in {folder.path}: metrics.csv, reward.png, config.json, privacy.json"
        f"{'' if phase.is_alone else ', model/weights.npz'}"
    )
