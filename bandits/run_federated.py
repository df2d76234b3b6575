"""Runs a federated contextual bandit; see `--help`.

First, `bandits.flags` checks the flags and converts them to `bandits.options`. Then the task is opened and the run's
folder is claimed. Only after that is TensorFlow Federated imported, and `bandits.experiment` runs the rounds.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bandits import (
    federation_flags,
    flags,
    interactions,
    logged_flags,
    metrics,
    object_flags,
    phase_privacy,
    references,
    registry,
    schedule_flags,
)
from bandits.options import BanditOptions, Phase, acted_in, of_task, phases, populations
from data import files, tasks
from data.action_sets import Spec
from data.errors import UsageError, counted
from data.objects import UserObject
from data.tasks import registry as tasks_registry
from data.tasks.options import TaskOptions
from optimization.privacy import mechanisms
from optimization.study import cli, frame, loggers, results, run_folder, selector_flags, training_flags

if TYPE_CHECKING:
    import pandas as pd

    from bandits import experiment
    from optimization.study import runner

_INIT_FOLDER = "init"
# The panels of reward.png.
_PLOTTED = (metrics.ROUND_REWARD, metrics.AVERAGE_REWARD, metrics.ROUND_PROBABILITY, metrics.HELD_OUT_REWARD)


class BanditStudy(frame.Study[BanditOptions, tasks.Task]):
    """Study of Agarwal, McMahan and Xu 2023: clients explore, and train one reward model with generalized FedAvg."""

    flags = flags
    usage = flags.USAGE
    presets = flags.PRESETS
    shown_in_presets = (
        "server_learning_rate",
        "client_learning_rate",
        "bandits_temperature",
        "bandits_mu",
        "bandits_gamma",
        "bandits_epsilon",
        "clip_norm",
        "noise_multiplier",
    )
    chosen = "bandits_type"
    columns = metrics.COLUMNS
    headline = ranked_by = metrics.AVERAGE_REWARD
    rounds_per_checkpoint = of_task("rounds_per_checkpoint")
    name_help = "task_scenario_bandit"
    predictor = "bandits.evaluation"

    def recorded_object(self, name: str, value: Any) -> UserObject:
        return object_flags.recorded(value) if name == "model" else super().recorded_object(name, value)

    def strategy(self, settings: cli.Settings) -> str:
        return settings.policy.label if settings.policy else settings.bandits_type

    def recorded(self, options: BanditOptions, data: tasks.Task) -> Mapping[str, Any]:
        bounds = data.reward_bounds
        return {"reward_bounds": f"{bounds.low!r},{bounds.high!r}"} if bounds else {}

    def data_key(self, options: BanditOptions) -> TaskOptions:
        return options.task

    def open(self, options: BanditOptions) -> tasks.Task:
        task = object_flags.task(tasks_registry.load(options.task), options)
        if options.bandit.sums and options.statistics is None and options.task.initial_weights is None:
            task = dataclasses.replace(task, initial_weights="zeros")  # The prior mean; an initial model replaces it.
        return task

    def population(self, options: BanditOptions, task: tasks.Task) -> int:
        return len(populations(options, len(task.clients))[1])

    def check(self, options: BanditOptions, task: tasks.Task) -> Sequence[str]:
        notes: list[str] = []
        warnings: list[str] = []
        for phase in phases(options, task):
            if plan := phase_privacy.plan(phase, 1):
                phase = phase_privacy.with_planned_noise(phase, plan.mechanism)
            mechanism = phase_privacy.mechanism(phase)
            warnings += mechanism.warnings(phase.total_rounds) if phase.releases else ()
            if phase.has_user_training:
                from bandits import process_factory

                process_factory.check(task, phase, mechanism)
            is_unknown = phase.has_noisy_sums and task.has_reward_labels and not options.task.label_column
            if (is_unknown and not options.task.reward_bounds) or (
                task.has_learned_bounds and phase.releases and mechanism.noise_multiplier
            ):
                raise UsageError(
                    "Training with noise needs --reward_bounds=LOW,HIGH: bounds learned from the clients' rewards have "
                    "no noise, so a single outlier would affect every output. Give the smallest and the largest "
                    "possible reward, chosen without this data."
                )
            if mechanism.voided and phase.reset.voids:
                warnings.append(f"the noise guarantees nothing, because {phase.reset.voids}.")
            count, triggered = len(phase.population), phase.communication if phase.is_event_triggered else None
            training_flags.check_states(count, client_algorithm=phase.client_algorithm, communication=triggered)
            selector_flags.check_population(phase.selection, count, phase.cohorts.size)
        has_shift = options.scenario == "init_shift" or options.dist_shift_type
        if has_shift and "init" not in task.rewards:
            raise UsageError(
                f"--task_type={options.task.task_type} has no reward shift to study: it has one reward matrix."
            )
        if task.has_action_features and options.heads > 1:
            raise UsageError(
                "--bandits_type=bag needs several heads, but models of actions with features have one: use another."
            )
        if isinstance(task.feature_spec, Spec) and options.drift.kind != "none":
            raise UsageError("--reward_drift is not defined for rows that offer sets of actions: leave it out.")
        _check_rewards(options, task)
        if task.reward_bounds and not options.task.reward_bounds:
            how = "learned from observed rewards" if task.has_learned_bounds else "recognized"
            shown = f"{task.reward_bounds.low:g} to {task.reward_bounds.high:g} ({how})"
            clipping = f" {task.clipping}" * task.has_learned_bounds
            notes.append(
                f"Training maps rewards of {shown} to [0, 1]; set the bounds with --reward_bounds=LOW,HIGH.{clipping}"
            )
        if logged_flags.is_simulated(options.task):
            scores = references.simulator_scores(task.held_out, task.clients)
            notes += [logged_flags.SIMULATED, *(f"  {score.in_words()}" for score in scores)]
        rounds = options.total_rounds
        acted = acted_in(np.arange(1, rounds + 1), options.deploy_every) if options.keeps_cache else None
        messages = options.drift.warning(rounds, acted), options.delay.warning(options.deploy_every)
        warnings += filter(None, [*messages, options.reset.warning(rounds, options.importance_weighting)])
        schedule_flags.check_range(phases(options, task)[-1], task.num_actions)
        mu = dict(options.policy.parameters).get("mu")
        if mu is not None and mu < task.num_actions - 1:
            warnings.append(
                f"--bandits_mu={mu:g} can give the actions other than the best a total probability above 1, which is "
                f"then scaled to 1; {task.num_actions - 1} is the smallest mu that never needs this."
            )
        if options.bandit.trains and options.deploy_every >= rounds:
            warnings.append(
                f"--bandits_deploy_freq={options.deploy_every} deploys no trained model before the last of "
                f"{counted(rounds, 'round')}: clients act with the initial model in all of them."
            )
        federation_flags.check_layers(options, task)
        warnings += federation_flags.warnings(options, len(phases(options, task)[-1].population))
        if options.initial_model_path:
            run_folder.read_model(options.initial_model_path)
            config = run_folder.find_model(options.initial_model_path).parents[1] / "config.json"
            recorded = results.read_json(config).get("flags", {}) if config.is_file() else {}
            before, now = (flags.get("reward_bounds") for flags in (recorded, self.recorded(options, task)))
            if before != now:
                warnings.append(
                    f"the initial model learned rewards with --reward_bounds={before}, and this run has {now}: its "
                    "predictions are on another scale. Give both runs the same --reward_bounds."
                )
        return [*notes, *(f"Warning: {warning}" for warning in warnings)]

    def execute(self, run: frame.Run) -> int | None:
        from bandits import experiment
        from optimization import models

        options, task = run.options, run.data
        least, largest = task.reward_range(options.rewards)
        known = references.bounds_of_run(options, task)
        bounds = references.bounds_as_json(known)
        bounds["rewards"] = {"least": least, "largest": largest}
        run.folder.write_json(run_folder.BOUNDS_FILE, bounds)
        if logged_flags.is_simulated(options.task):
            scores = references.simulator_scores(task.held_out, task.clients)
            run.folder.write_json(run_folder.SIMULATOR_FILE, references.scores_as_json(scores))
        if task.model == "keras":
            content = task.model_arguments["architecture"].model.to_json()
            run.folder.write_json(run_folder.KERAS_FILE, json.loads(content))
        shapes = models.of_task(task, options.heads).shapes
        dimension = sum(math.prod(shape) for shape in shapes.values())
        weights = None
        if path := options.initial_model_path:
            one_head = models.of_task(task).shapes
            has_one = {name: one.shape for name, one in run_folder.read_model(path).items()} == one_head
            weights = run_folder.load_model(path, one_head if has_one else shapes)
            weights = models.with_copies(weights, options.heads) if has_one else weights
        trained = phase_privacy.of_initial_model(options)
        *_, last = planned = phases(options, task)
        for phase in planned:
            folder, is_last = run.folder, phase is last
            if not is_last:
                here, then = (counted(one.total_rounds, "round") for one in (phase, last))
                print(f"{phase.label}: {here}, before {then} of {last.label}.", file=sys.stderr, flush=True)
                folder = run_folder.RunFolder(run.folder.path / _INIT_FOLDER, run.folder.command)
                frame.open_folder(folder, run.settings, task)
            phase = _with_planned_noise(phase, folder, dimension)
            logs = options.logs_interactions and phase.logs
            shown = [interactions.IN_WORDS] * logs + [federation_flags.REPORT_IN_WORDS] * phase.reports_clients
            shown += ["the sums of your own metrics"] * bool(phase.own_metrics)
            before = None if is_last and options.is_initial_model_public else trained
            spent = trained.rounds if trained else 0
            trained = phase_privacy.of_phase(options.task, task, phase, dimension, before, shown)
            phase = dataclasses.replace(phase, spent_rounds=spent)
            rounds = experiment.BanditRounds(task, phase, trained.mechanism, weights, folder)
            observers = {"loggers": rounds.loggers, "callbacks": run.callbacks}
            outcome = frame.run_rounds(self, rounds, folder, rounds.length, label=phase.label, **observers)
            _write_results(task, phase, trained, folder, rounds, outcome, bounds if is_last else {})
            if outcome.signum:
                return outcome.signum
            if not is_last:
                run.callbacks.finish("finished", self.read)
            weights = outcome.state.server.weights
        if run.settings.export:
            self.read(run.folder.path).export(run.folder.path / run_folder.EXPORT)
        return None


def _write_results(
    task: tasks.Task,
    phase: Phase,
    trained: phase_privacy.Trained,
    folder: run_folder.RunFolder,
    rounds: "experiment.BanditRounds",
    outcome: "runner.Outcome",
    bounds: dict[str, Any],
) -> None:
    """Writes the results of a phase, even if it was stopped, and prints those of a finished one.

    Args:
      task: The task.
      phase: The phase.
      trained: The accounted training.
      folder: The folder of the phase.
      rounds: The rounds of the phase.
      outcome: How the rounds ended.
      bounds: Content of `bounds.json`, to compare the policy with; empty for no comparison.
    """
    spent = trained.report(phase.accounted(outcome.round_num))
    folder.write_json(run_folder.PRIVACY_FILE, run_folder.with_disclosures(spent))
    table, notice = results.read_metrics(folder.path) if outcome.round_num else None, ""
    if outcome.signum is None:
        # A resumed run may have been killed after its last round, so that this process has not evaluated it.
        if not rounds.evaluation.is_evaluated:
            rounds.evaluate(outcome.state)
        is_private = trained.mechanism.kind != "none"
        is_asked_for = phase.reports_clients or rounds.loggers
        for name, content in rounds.evaluation.files().items():
            if content and (content["held_out"] or is_asked_for or not is_private):
                folder.write_json(name, content)
            else:  # An earlier version or a shorter run may have written it.
                (folder.path / name).unlink(missing_ok=True)
        last = table.iloc[-1]
        number = int(last["round_num"])
        print(
            f"{phase.label}: {counted(number, 'round')}, average reward {last[metrics.AVERAGE_REWARD]:.4f} "
            f"(last tenth of the rounds: {metrics.last_tenth(table[metrics.ROUND_REWARD].dropna()):.4f}); its greedy "
            f"policy on held-out data: {_held_out_result(task, phase, table)}."
        )
        if bounds and not (phase.is_alone or phase.has_local_head):
            action = bounds["held_out"]["action"]
            name = (task.action_names or interactions.action_names(task))[action]
            lines, compared = rounds.evaluation.compared_with_references(outcome.state.server, action, name)
            print(*lines, sep="\n")
            bounds = bounds | {references.GREEDY: compared}
            folder.write_json(run_folder.BOUNDS_FILE, bounds)
        if notice := references.notice(table, bounds, explores_only=phase.bandit.policy == "uniform"):
            print(notice)
        if phase.aggregation.own and not table[metrics.UPDATE_NORM].any():
            print("Warning: the aggregator's result was zero in every round, so the model never changed.")
        if task.clipping and not phase_privacy.mechanism(phase).noise_multiplier:
            print(task.clipping)
        model = "" if phase.is_alone else ", model/weights.npz"
        print(spent["summary"])
        print(f"Results in {folder.path}: metrics.csv, reward.png, config.json, privacy.json{model}")
        if is_private:
            print(run_folder.NOTICE)
    if table is not None:
        _save_picture(phase, table, folder, notice)
    for line in rounds.finish(outcome.state, folder):
        print(line)


def _save_picture(phase: Phase, table: "pd.DataFrame", folder: run_folder.RunFolder, notice: str = "") -> None:
    """Draws `reward.png`, with a notice below its title."""
    from optimization.study import panels

    plotted: dict[str, str] = {metric: metric.about for metric in _PLOTTED if table[metric].notna().any()}
    title = "\n".join(filter(None, [f"{phase.task.task_type}: {phase.label}", notice]))
    picture = panels.draw({phase.label: [table]}, plotted, title=title, marks=metrics.DEPLOYED)
    files.save_picture(picture, folder.path / "reward.png", dpi=120)


def _held_out_result(task: tasks.Task, phase: Phase, table: "pd.DataFrame") -> str:
    """Describes the last evaluation."""
    last, is_logged = table.iloc[-1], phase.task.task_type == "logged"
    reward = f"reward {last[metrics.HELD_OUT_REWARD]:.4f}"
    if phase.is_alone:
        text = "not evaluated, as no held-out client has a model"
    elif phase.has_local_head:
        text = f"reward {last[metrics.PERSONALIZED_REWARD]:.4f} of the policy with a reconstructed last layer"
    elif is_logged:
        text = f"{reward}, {'from sampled rewards' if logged_flags.is_simulated(phase.task) else 'doubly robust'}"
    elif phase.drift.kind != "none":  # Labels no longer define the correct action.
        text = f"{reward} in the last round's environment"
    else:  # With a reward table, no action is right or wrong.
        text = reward if task.has_reward_labels else f"accuracy {last[metrics.ACCURACY]:.4f}"
    if phase.task.learn_from == "replay":
        replayed, rows = table[metrics.EXAMPLES].sum(), task.report["training_rows"]
        text += f". Replay kept {replayed:,.0f} of the {rows:,} rows, {replayed / rows:.1%}"
    if phase.task.hold_out == "time":
        text += f" ({task.report['held_out']})"
    if phase.reset.what != "none":
        reset_rounds = list(table["round_num"][table[metrics.RESET] == 1])
        shown = f" (round{'s' * (len(reset_rounds) > 1)} {loggers.spans(reset_rounds)})" if reset_rounds else ""
        text += f". Resets: {len(reset_rounds)}{shown}"
    return text


def _with_planned_noise(phase: Phase, folder: run_folder.RunFolder, dimension: int) -> Phase:
    """Returns a phase with the noise and cohorts that were planned at its first start, and prints the plan."""

    def first() -> dict[str, Any] | None:
        plan = phase_privacy.plan(phase, dimension)
        return plan and {"mechanism": dataclasses.asdict(plan.mechanism), "reason": plan.reason}

    recorded = folder.recorded("privacy_plan", first)
    if recorded is None:
        return phase
    print(f"Planned noise: {recorded['reason']}", file=sys.stderr, flush=True)
    return phase_privacy.with_planned_noise(phase, mechanisms.of_values(recorded["mechanism"]))


def _check_rewards(options: BanditOptions, task: tasks.Task) -> None:
    """Refuses rewards that are not probabilities if the loss is a cross entropy."""
    bandit = options.bandit
    low, high = (0.0, 1.0) if task.reward_bounds else task.reward_range(options.rewards)
    if bandit.cross_entropy and not 0 <= low <= high <= 1:
        squared = dataclasses.replace(bandit, cross_entropy=False, help="")
        other = next(name for name, entry in registry.BANDITS.items() if dataclasses.replace(entry, help="") == squared)
        raise UsageError(
            f"--bandits_type={options.name} treats rewards as probabilities, but here they range from {low:g} to "
            f"{high:g}: use {other}, which accepts any rewards."
        )


STUDY = BanditStudy()

if __name__ == "__main__":
    frame.main(STUDY)
