"""Python objects that users pass to `bandits.run` instead of flags: a policy, a reward function, a Keras model."""

import dataclasses
import inspect
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bandits import registry
from bandits.options import BanditOptions
from data import tasks
from data.errors import UsageError
from data.reward_bounds import RewardBounds
from optimization.study import cli, run_folder
from optimization.study.objects import FLAG, Recorded, rebuilt, recorded, short

# Keywords that accept objects, with their help texts.
OBJECTS: Mapping[str, str] = {
    "policy": "A `policies.Policy`, or a function of predicted rewards, float32 [batch, actions], to probabilities.\n"
    "    It replaces the policy of bandits_type, which then is softmax, or softmax_ce for a cross entropy.",
    "rewards": "A function of a label and an action to the reward, instead of 1 for the right action.\n"
    "    Labels and actions are names in tables, else numbers.",
    "model": "A Keras model of float32, stateless layers, besides the names below.\n"
    "    Its architecture counts; its weights are sampled by seed.",
}
_LOSSES = ("softmax", "softmax_ce")


@dataclasses.dataclass(frozen=True)
class UserPolicySpec(registry.PolicySpec):
    """A policy that the user provides.

    Attributes:
      policy: The policy object. `target` is its description as text.
    """

    policy: Any = dataclasses.field(default=None, compare=False)

    def build(self, value: Any = None) -> Any:
        from bandits import policies

        return policies.of(self.policy)


class Objects:
    """The objects that the user passed to a run. Without objects, no method changes anything.

    Attributes:
      records: The records of the objects in `config.json`, by keyword.
    """

    def __init__(self, given: Mapping[str, Any]):
        """Checks the types of the objects.

        Raises:
          UsageError: If an object has the wrong type for its keyword.
        """
        self._objects = dict(given)
        for name in ("policy", "rewards"):
            one = self._objects.get(name)
            if one is not None and (isinstance(one, type) or not (callable(one) or hasattr(one, "probabilities"))):
                raise UsageError(f"{name} must be an object or a function, not {one!r}: see help(bandits.run).")
        self.records = {name: recorded(one) for name, one in self._objects.items() if name != "model"}
        if (model := self._objects.get("model")) is not None:
            from optimization import keras_models

            self._objects["model"] = keras_models.Architecture(model)
            self.records["model"] = Recorded(repr(self._objects["model"]))

    def flags(self) -> dict[str, str]:
        """Flags that record the objects."""
        return {f"{FLAG}{name}": one.text for name, one in self.records.items()}

    def resolve(self, settings: cli.Settings, resolved: cli.Settings) -> cli.Settings:
        """Resolved flags, whose default experiment name includes the classes of the objects.

        Raises:
          UsageError: If a flag is set that an object replaces.
        """
        bandit = registry.BANDITS[resolved.bandits_type]
        if "policy" in self._objects:
            of_policies = {f"bandits_{name}" for entry in registry.POLICIES.values() for name in entry.settings}
            if replaced := sorted(settings.set_by_user & {*of_policies, "ties", "bandits_schedule"}):
                raise UsageError(f"--{replaced[0]} has no effect with a policy of your own: leave it out.")
            if resolved.bandits_type not in _LOSSES:
                raise UsageError(
                    f"--bandits_type={resolved.bandits_type} has a policy, and so do you: give {' or '.join(_LOSSES)}, "
                    "which then name the loss alone."
                )
        if "model" in self._objects:
            if replaced := sorted(settings.set_by_user & {"hidden", "norm"}):
                raise UsageError(f"--{replaced[0]} has no effect with a model of your own: leave it out.")
            if registry.POLICIES[bandit.policy].heads:
                raise UsageError(f"--bandits_type={resolved.bandits_type} needs several heads; a Keras model has one.")
        if resolved.export:
            self._check_export()
        if not settings.is_given("experiment_name") and self.records:
            classes = (re.split("[:.]", one.text.partition("(")[0])[-1] for one in self.records.values())
            names = [resolved.experiment_name, *("".join(filter(str.isalnum, name)) for name in classes)]
            return resolved.replace(experiment_name="_".join(names))
        return resolved

    def _check_export(self) -> None:
        policy: Any = self._objects.get("policy")
        if policy is not None and self.records["policy"].problem:
            raise UsageError("--export does not go with this policy, which the run's folder cannot hold.")
        function = getattr(policy, "probabilities", policy)
        if policy is not None and "key" in inspect.signature(function).parameters:
            raise UsageError("--export does not go with this policy, which draws random numbers from its key.")

    def options(self, options: BanditOptions) -> BanditOptions:
        """Options with the user's policy."""
        if "policy" not in self._objects:
            return options
        text_of = self.records["policy"].text
        target = f"{text_of} {id(self._objects['policy'])}" if self.records["policy"].problem else text_of
        chosen = UserPolicySpec(target, label=short(text_of), policy=self._objects["policy"])
        return dataclasses.replace(options, policy=chosen)

    def task(self, task: tasks.Task, options: BanditOptions) -> tasks.Task:
        """Task with the user's rewards and model.

        Raises:
          UsageError: If they do not fit the data, or if the policy does not return probabilities.
        """
        if "rewards" in self._objects:
            if options.task.task_type == "logged" or options.task.reward_columns:
                raise UsageError("rewards has no effect here: this data has rewards, and no labels.")
            task = dataclasses.replace(task, rewards={"exact": _matrix(self._objects["rewards"], task)})
            low, high = task.reward_range("exact")
            if low < min(high, 0) or high > max(low, 1):
                task = dataclasses.replace(task, reward_bounds=RewardBounds(low, high))
        if "model" in self._objects:
            if not isinstance(task.feature_spec, tuple):
                raise UsageError(f"--task_type={options.task.task_type} has bags of words, which no Keras model takes.")
            self._objects["model"].check(task.feature_spec[0], task.num_actions)
            task = _with_keras(task, self._objects["model"])
        if "policy" in self._objects:
            from bandits import policies

            policy = policies.of(self._objects["policy"])
            if task.model == "keras" and "representation" in policy.asks:
                raise UsageError("policy asks for the representation, which a Keras model does not give.")
            policies.check(policy, task.num_actions)
        return task


NONE = Objects({})


def _with_keras(task: tasks.Task, architecture: Any) -> tasks.Task:
    arguments = {"architecture": architecture, "num_outputs": task.num_actions}
    return dataclasses.replace(task, model="keras", model_arguments=arguments)


def with_recorded_model(task: tasks.Task, folder: pathlib.Path) -> tasks.Task:
    """Task with the Keras model from a run's folder; the task itself if the folder has no Keras model.

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
        raise UsageError(f"rewards must give finite numbers, but not so for label {label!r} and action {action!r}.")
    return matrix


def of_record(text_of_policy: str) -> UserPolicySpec:
    """The policy that a run recorded.

    Raises:
      UsageError: If the policy cannot be rebuilt; see `objects.rebuilt`.
    """
    return UserPolicySpec(text_of_policy, policy=rebuilt(text_of_policy))
