"""The user's own parts that replace settings, such as a policy, metrics, a Keras model, or the clients' training."""

import dataclasses
import inspect
import pathlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bandits import registry
from bandits.options import BanditOptions, OwnParts
from data import objects, tasks
from data.errors import UsageError
from data.objects import UserObject
from data.reward_bounds import RewardBounds
from data.settings import names
from data.tasks.options import SIMULATOR
from optimization.options import NOISY
from optimization.study import cli, run_folder
from optimization.study.metrics import Metric

_LOSSES = ("softmax", "softmax_ce")
_PARTS = (*names(OwnParts), "data", "model", "client_optimizer", "server_optimizer", "aggregator")


@dataclasses.dataclass(frozen=True)
class UserPolicySpec(registry.PolicySpec):
    """The user's policy; `target` is its `UserObject`."""

    def build(self, value: Any = None) -> Any:
        from bandits import policies

        return policies.of(self.target.value)  # type: ignore[attr-defined]


def given(settings: cli.Settings) -> dict[str, UserObject]:
    """The user's objects among the settings of a run, by setting."""
    return {name: settings[name] for name in _PARTS if isinstance(settings[name], UserObject)}


def check(settings: cli.Settings) -> None:
    """Checks the user's objects against the other flags.

    Raises:
      UsageError: If a flag conflicts with an object or is replaced by it, or the run cannot be exported with it.
    """
    own, bandit = given(settings), registry.BANDITS[settings.bandits_type]
    if "policy" in own:
        of_policies = {f"bandits_{name}" for entry in registry.POLICIES.values() for name in entry.settings}
        if replaced := sorted(settings.set_by_user & {*of_policies, "ties", "bandits_schedule"}):
            raise UsageError(f"--{replaced[0]} has no effect with a policy of your own: leave it out.")
        if settings.bandits_type not in _LOSSES:
            raise UsageError(
                f"--bandits_type={settings.bandits_type} conflicts with your policy: give {' or '.join(_LOSSES)}, "
                "which then only sets the loss."
            )
    if "model" in own:
        if replaced := sorted(settings.set_by_user & {"hidden", "norm"}):
            raise UsageError(f"--{replaced[0]} has no effect with a model of your own: leave it out.")
        if registry.POLICIES[bandit.policy].heads:
            raise UsageError(f"--bandits_type={settings.bandits_type} needs several heads; a Keras model has one.")
    if settings.export and "policy" in own:
        if own["policy"].problem:
            raise UsageError("--export conflicts with this policy, which cannot be saved in the run's folder.")
        value = own["policy"].value
        if "key" in inspect.signature(getattr(value, "probabilities", value)).parameters:
            raise UsageError("--export conflicts with this policy, which draws random numbers from its key.")


def recorded(value: Any) -> UserObject:
    """Wraps a Keras model that was passed in Python; runs record its architecture.

    Raises:
      UsageError: If it is not a valid model.
    """
    from optimization import keras_models

    return objects.of(value, repr(keras_models.Architecture(value)))


def policy(text: UserObject | str) -> UserPolicySpec:
    """Returns the specification of the user's policy, given the object or its `module:object`."""
    text = text if isinstance(text, UserObject) else UserObject(text)
    return UserPolicySpec(text, label=text.label)


def task(task: tasks.Task, options: BanditOptions) -> tasks.Task:
    """Returns a task with the user's rewards and model, after testing the user's policy and metrics.

    Raises:
      UsageError: If an object has the wrong type, does not fit the data or the options, or fails its test.
    """
    if options.reward_function:
        if task.has_reward_labels:
            raise UsageError("rewards has no effect here: this data has rewards and no labels.")
        task = dataclasses.replace(
            task, rewards={"exact": _matrix(_callable("rewards", options.reward_function), task)}
        )
        low, high = task.reward_range("exact")
        if low < min(high, 0) or high > max(low, 1):
            task = dataclasses.replace(task, reward_bounds=RewardBounds(low, high))
    if isinstance(options.task.model, UserObject):
        from optimization import keras_models

        architecture = keras_models.Architecture(options.task.model.value)
        if not isinstance(task.feature_spec, tuple):
            raise UsageError(f"--task_type={options.task.task_type} has bags of words, which Keras models cannot take.")
        architecture.check(task.feature_spec[0], task.num_actions)
        task = _with_keras(task, architecture)
    if options.own_policy:
        from bandits import object_checks, policies

        with objects.blamed(f"policy {options.own_policy.label}"):
            policy = policies.of(_callable("policy", options.own_policy))
        if task.model == "keras" and "representation" in policy.asks:
            raise UsageError("policy asks for the representation, which a Keras model does not provide.")
        _check_state(policy, options)
        object_checks.check_policy(policy, task, options.heads)
    if metric_columns(options.own_metrics):
        from bandits import object_checks

        object_checks.check_metrics(options.own_metrics, task)
    return task


def metric_columns(given: Iterable[UserObject]) -> list[Metric]:
    """Columns of `metrics.csv` for the user's metrics, which can have the attributes name, about, better and shown.

    Raises:
      UsageError: If an object cannot be imported or called, or if its name is invalid or not unique.
    """
    columns: list[Metric] = []
    for each in given:
        metric = _callable("metrics", each)
        name = getattr(metric, "name", getattr(metric, "__name__", type(metric).__name__))
        if not re.fullmatch(r"[\w.-]+", str(name)) or f"own/{name}" in columns:
            raise UsageError(f"metrics need distinct names of letters, digits, _, . and -: one is {name!r}.")
        better, shown = getattr(metric, "better", None), getattr(metric, "shown", True)
        columns.append(Metric(f"own/{name}", getattr(metric, "about", name), better=better, in_summary=shown))
    return columns


def _check_state(policy: Any, options: BanditOptions) -> None:
    """Refuses settings that conflict with a policy's state.

    Raises:
      UsageError: If such a setting is set.
    """
    if not policy.has_state:
        return
    kind = options.aggregation.kind
    if policy.sums and kind == "secure_sum" and not policy.bound:
        raise UsageError(
            f"--aggregator_type=secure_sum needs the attribute bound of policy {policy.name}: the largest absolute "
            "value of a client's statistics and of its number of interactions in a round."
        )
    refused = {
        f"--aggregator_type={kind}": policy.sums and kind in NOISY,  # The accounting does not cover these sums.
        f"--federation={options.federation}": options.federation != "federated",
        "--personalization": options.personalization,
        "--client_selection": not options.selection.is_uniform,
        f"--learn_from={options.task.learn_from}": options.task.learn_from != SIMULATOR,
        "--bandits_deploy_delay": policy.sums and options.max_delay,
    }
    if flags := [flag for flag, is_set in refused.items() if is_set]:
        what = "sums over clients" if policy.sums else "the round"
        raise UsageError(f"{flags[0]} conflicts with policy {policy.name}, which depends on {what}: remove the flag.")


def _callable(name: str, given: UserObject) -> Any:
    """Returns the user's object, which must be a function or have the method `probabilities`."""
    value = given.value
    if isinstance(value, type) or not (callable(value) or hasattr(value, "probabilities")):
        raise UsageError(f"{name} must be an object or a function, not {value!r}: see help(bandits.run).")
    return value


def _with_keras(task: tasks.Task, architecture: Any) -> tasks.Task:
    arguments = {"architecture": architecture, "num_outputs": task.num_actions}
    return dataclasses.replace(task, model="keras", model_arguments=arguments)


def with_recorded_model(task: tasks.Task, folder: pathlib.Path) -> tasks.Task:
    """Returns a task with the Keras model from a run's folder; the task itself if the folder has no Keras model.

    Raises:
      UsageError: If the model cannot be rebuilt.
    """
    path = folder / run_folder.KERAS_FILE
    if not path.is_file():
        return task
    from optimization import keras_models

    return _with_keras(task, keras_models.read(path))


def _matrix(reward: Callable[[Any, Any], float], task: tasks.Task) -> np.ndarray:
    """Rewards, float32 [labels, actions], that a function of label and action returns.

    Raises:
      UsageError: If a reward is not a finite number.
    """
    names: Sequence[Any] = task.action_names or range(task.num_actions)
    try:
        matrix = np.array([[float(reward(label, action)) for action in names] for label in names], np.float32)
    except (TypeError, ValueError) as error:
        raise UsageError(f"rewards must give a number for each label and action: {error}.") from error
    if not np.isfinite(matrix).all():
        label, action = (names[place] for place in np.argwhere(~np.isfinite(matrix))[0])
        raise UsageError(f"rewards must be finite, but the one for label {label!r} and action {action!r} is not.")
    return matrix
