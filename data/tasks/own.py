"""The user's own federated data: a dictionary of clients, or an object that loads one client at a time.

A client is a pair of features and labels. Features are an array of numbers [examples, ...], or a dictionary of such
arrays, which are joined in the alphabetical order of their names. A single array [examples, height, width] or
[examples, height, width, channels] holds images. Features become float32 and are not scaled. Labels are class indices,
integers [examples], or the reward of each action, floats [examples, actions].

All clients of a dictionary are checked before the first round. Clients of an object are checked whenever they are
loaded, and only a sample of them is loaded before the first round, so that memory holds a cohort, not the population.
"""

import copy
import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from data import clients, objects, partition, schema, tasks
from data.errors import UsageError
from data.tasks.options import TaskOptions

_NUM_SAMPLED = 100  # Clients that are loaded before the first round unless they are in a dictionary; evenly spaced.
_FEWEST_CLIENTS = 5  # With fewer, no fifth of them can be held out.
_MOST_ACTIONS = 10_000


@dataclasses.dataclass(frozen=True)
class FromTff:
    """Clients of a `tff.simulation.datasets.ClientData`, each with at least one example.

    Attributes:
      client_data: The data set. Its examples are dictionaries.
      label: Name of the labels in an example.
      features: Names of the features in an example.
    """

    client_data: Any
    label: str
    features: Sequence[str]

    @property
    def client_ids(self) -> Sequence[str]:
        """Names of the clients."""
        return self.client_data.client_ids

    def __call__(self, client_id: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Features by name, and labels, of all examples of a client."""
        (examples,) = self.client_data.create_tf_dataset_for_client(client_id).batch(1 << 40).as_numpy_iterator()
        return {name: examples[name] for name in self.features}, examples[self.label]


class OwnClients(clients.ClientData):
    """The user's clients, which are checked when they are loaded.

    Attributes:
      is_dictionary: Whether all clients are in memory.
      form: Description of arrays and labels, which must be the same for all clients; empty before a client is loaded.
      num_actions: Number of actions; 0 if it is not known yet.
      checksum: Digest of the clients that `survey` loads; empty before.
    """

    def __init__(self, flag: str, value: Any, num_actions: int = 0, form: str = ""):
        """Stores the user's object.

        Args:
          flag: Name of the setting, for messages.
          value: The user's dictionary or object.
          num_actions: See above.
          form: See above.

        Raises:
          UsageError: If `value` is neither, or an id is invalid.
        """
        self.is_dictionary = isinstance(value, Mapping)
        has_ids = getattr(value, "client_ids", None) is not None
        is_loader = callable(value) and has_ids and not isinstance(value, type)
        if not (self.is_dictionary or is_loader):
            wanted = "a dict, or a callable with client_ids: see docs/own_parts.md"
            raise UsageError(f"{flag} is a {type(value).__name__}; it must be {wanted}.")
        self._flag, self.num_actions, self.form = flag, num_actions, form
        self._read = value.__getitem__ if self.is_dictionary else value
        ids = list(value if self.is_dictionary else value.client_ids)
        self._ids = {str(one): one for one in ids}
        self.client_ids, self.checksum = list(self._ids), ""
        wrong = [one for one in ids if isinstance(one, bool) or not isinstance(one, str | int | np.integer)]
        if wrong or not 0 < len(self._ids) == len(ids):
            shown = repr(wrong[0]) if wrong else f"{len(self._ids)} different ids of {len(ids)} clients"
            raise UsageError(f"{flag} has {shown}: each client needs its own id, a string or a whole number.")

    def part(self, indices: Sequence[int]) -> "OwnClients":
        """The clients at these indices."""
        part = copy.copy(self)
        part.client_ids = [self.client_ids[index] for index in indices]
        return part

    def load(self, index: int) -> clients.Examples:
        client = f"{self._flag}, client {self.client_ids[index]!r:.60}"
        try:
            features, labels = self._read(self._ids[self.client_ids[index]])
            named = features if isinstance(features, Mapping) else {"features": features}
            arrays = {name: np.asarray(named[name]) for name in sorted(named)}
            if any(np.ma.isMaskedArray(each) for each in (*named.values(), labels)):
                raise TypeError("masked arrays have no numbers for the masked entries")
            labels = np.asarray(labels)
        except Exception as error:  # The user's code can raise anything.
            raise UsageError(f"{client}: (features, labels) cannot be read: {objects.first_line(error)}") from error
        for name, array in [*arrays.items(), ("labels", labels)]:
            _check_numbers(f"{client}: {name}", array)
        if (counts := {len(array) for array in arrays.values()}) != {count := len(labels)}:
            raise UsageError(f"{client} has features for {counts or 'no'} examples, but labels for {count}.")
        has_rewards = labels.ndim == 2 and labels.dtype.kind == "f"
        if not has_rewards and (labels.ndim != 1 or labels.dtype.kind not in "iu"):
            actual = f"{labels.dtype} {labels.shape}"
            raise UsageError(f"{client}: labels must be ints [examples] or floats [examples, actions], not {actual}.")
        kind = f"rewards of {labels.shape[1]} actions" if has_rewards else "class indices"
        form = ", ".join([*(f"{name} {each.dtype} {each.shape[1:]}" for name, each in arrays.items()), kind])
        self.form = self.form or form
        if form != self.form:
            raise UsageError(f"{client} has {form}. The first client has {self.form}: all clients must have the same.")
        last = (self.num_actions or _MOST_ACTIONS) - 1
        if not has_rewards and count and (labels.min() < 0 or labels.max() > last):
            raise UsageError(f"{client}: labels range from {labels.min()} to {labels.max()}, not from 0 to {last}.")
        rows = np.concatenate([each.reshape(count, math.prod(each.shape[1:])) for each in arrays.values()], axis=1)
        image = arrays[min(arrays)].shape[1:] if len(arrays) == 1 else ()
        shape = (*image, 1)[:3] if len(image) > 1 else rows.shape[1:]
        values = rows.reshape(count, *shape).astype(np.float32)
        return clients.Examples(values, labels.astype(np.float32 if has_rewards else np.int32))

    def survey(self) -> np.ndarray:
        """Loads all clients of a dictionary, or some of an object's; sets the checksum, and returns the labels."""
        count = len(self) if self.is_dictionary else min(len(self), _NUM_SAMPLED)
        digest, labels = hashlib.sha256("\n".join(self.client_ids).encode()), []
        for index in np.linspace(0, len(self) - 1, count).astype(int):
            examples = self.load(index)
            digest.update(clients.array_checksum(*examples).encode())
            labels.append(examples.labels)
        self.checksum = digest.hexdigest()[:16]
        if not any(map(len, labels)):
            raise UsageError(f"{self._flag} has no example in any of {count} clients.")
        return np.concatenate(labels)


def _check_numbers(what: str, array: np.ndarray) -> None:
    if array.dtype.kind not in "biuf" or array.ndim not in range(1, 5) or 0 in array.shape[1:]:
        raise UsageError(f"{what} must be numbers [examples, ...] with up to 4 axes, not {array.dtype} {array.shape}.")
    with np.errstate(over="ignore"):
        wrong = array[~np.isfinite(array.astype(np.float32))]
    if len(wrong):
        raise UsageError(f"{what}: {wrong[0]} must be a finite number that float32 can hold.")


def recorded(flag: str, value: Any) -> objects.UserObject:
    """Converts an object that is passed in Python. The text of a dictionary and of TFF's clients has their checksum.

    Raises:
      UsageError: If a client is invalid.
    """
    if not isinstance(value, Mapping | FromTff):
        return objects.of(value)
    everyone = OwnClients(flag, value)
    everyone.survey()
    names = [value.label, *value.features] if isinstance(value, FromTff) else []
    digest = hashlib.sha256("\n".join([everyone.checksum, *names]).encode()).hexdigest()[:16]
    return objects.of(value, f"{type(value).__name__} in memory {int(digest, 16)}")


def load(options: TaskOptions) -> tasks.Task:
    """Opens the task of the user's own data, with a linear model by default.

    Without `TaskOptions.eval_data`, a fifth of the clients is held out, the same clients for all seeds. The number of
    actions is that of `TaskOptions.actions`, that of an example's rewards, or one more than the largest class index.

    Raises:
      UsageError: If a client that is loaded is invalid, or if options do not match the data.
    """
    if not options.data:
        raise UsageError("--task_type=own needs --data: see docs/own_parts.md.")
    names = schema.listed(options.actions)
    declared = int(names[0]) if len(names) == 1 and names[0].isdecimal() else len(names)
    train = OwnClients("data", _value(options.data), declared)
    shape = train.load(0).features.shape[1:]  # type: ignore[union-attr]
    if options.eval_data:
        held_out = OwnClients("eval_data", _value(options.eval_data), declared, train.form)
    elif len(train) < _FEWEST_CLIENTS:
        raise UsageError(f"data has {len(train)} clients, which are too few to hold some out: give --eval_data, too.")
    else:
        split = partition.hold_out(np.arange(len(train)), len(train), seed=0)
        train, held_out = train.part(split.train), train.part(split.held_out)
    labels, held_out_labels = train.survey(), held_out.survey()
    if shared := sorted({*train.client_ids} & {*held_out.client_ids}):
        raise UsageError(f"eval_data has clients of data, such as {shared[0]!r:.60}: held-out clients must not train.")
    has_rewards = labels.ndim > 1
    needed, unused = ("reward_bounds", "init_labels") if has_rewards else ("actions", "reward_bounds")
    if not (train.is_dictionary and held_out.is_dictionary) and not getattr(options, needed):
        raise UsageError(f"data needs --{needed}, because not all clients are loaded before the first round.")
    if getattr(options, unused):
        raise UsageError(f"--{unused} has no effect on data with {'rewards' if has_rewards else 'class indices'}.")
    num_actions = labels.shape[1] if has_rewards else declared or 1 + int(max(labels.max(), held_out_labels.max()))
    if num_actions < 2 or declared not in (0, num_actions) or len(set(names)) < len(names):
        raise UsageError(f"data has {num_actions} actions: at least two are needed, with distinct names in --actions.")
    train.num_actions = held_out.num_actions = num_actions
    train.checksum += held_out.checksum
    if has_rewards:
        of_labels = tasks.reward_labels(options, labels)
    else:  # Not all labels have been counted, so the initial training rewards the first ones, not the most frequent.
        of_labels = {"rewards": tasks.label_rewards([1] * num_actions, options.init_labels)}
    report = {"clients": len(train), "held_out_clients": len(held_out), "form": train.form, "actions": num_actions}
    return tasks.Task(
        clients=train,
        held_out=held_out,
        num_actions=num_actions,
        action_names=tuple(names) if len(names) > 1 else (),
        report=report | ({"examples": len(labels)} if train.is_dictionary else {}),
        **of_labels,
        **tasks.array_model(options, shape, num_actions),
    )


def _value(text: str) -> Any:
    """The object that a text describes. The text is a `UserObject`, or was read from `config.json`."""
    return (text if isinstance(text, objects.UserObject) else objects.UserObject(text)).value
