"""Tasks: the data, model and rewards of one problem. `registry` lists them with the functions that open them.

Reward functions and their shifts are matrices: the reward of each action given the true label. Classes of the character
tasks are in EMNIST's order: 0-9, A-Z (10-35), a-z (36-61).
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from data import action_sets, keys, reward_bounds, statistics, text
from data.clients import ClientData, Examples, Features, file_checksum
from data.errors import UsageError
from data.reward_bounds import RewardBounds
from data.tasks.options import TaskOptions

_UPPER, _LOWER = np.arange(10, 36), np.arange(36, 62)


@dataclasses.dataclass(frozen=True)
class Task:
    """A problem for bandits. It holds no TensorFlow objects, so that a task is opened and checked quickly.

    Attributes:
      clients: The population.
      held_out: Examples for evaluation, of the same or of other clients.
      num_actions: Number of actions; if actions have features, the size of the largest set.
      feature_spec: Form of one example's features after `normalize`: (shape, dtype name), `text.Bags`, or the
        `action_sets.Spec` of sets of actions.
      model: Name of a function in `optimization.models`, or in `optimization.action_models` if actions have features.
      model_arguments: Arguments of that function.
      initial_weights: Initialization of the model's kernels, a key of `optimization.models.INITIAL_WEIGHTS`.
      rewards: float32 [labels, actions] by phase: `exact` without a shift, `init` in the initial training of a shift,
        `bandits` after it. A task that lacks the last two has no init_shift scenario.
      normalize: Maps the data's features to the model's.
      report: Report on the data, for `config.json`, such as counts of rows; may be empty.
      multi_label: Whether labels are float32 [examples, labels] instead of int32 [examples]. For a log, the last
        columns may be logged values instead of rewards (`tasks.logged`).
      has_reward_labels: Whether labels are the rewards of actions, so that there is no correct action.
      label_range: Smallest and largest entry of labels [examples, labels]; approximate if they have normal noise.
      reward_bounds: Bounds that training maps to [0, 1]; None if rewards are used unchanged.
      has_learned_bounds: Whether these bounds were learned from training clients.
      clipping: Sentences on the training rewards outside of these bounds; empty if there are none.
      statistics: Statistics learned from training clients before the first round, for `statistics.json`; empty if there
        are none, or if they come from a file.
      private_statistics: Descriptions of what is computed from clients before the rounds, such as these statistics,
        without noise.
      public_statistics: Digest of the file of statistics; empty if there is none.
      action_names: Names of the actions; if empty, actions are numbered.
      catalogue_actions: int32 [entries], if actions have features: the position in `action_names` of each entry of
        the catalogue; None if actions have no names.
      feature_names: Names of a context's features; may be empty.
    """

    clients: ClientData
    held_out: ClientData
    num_actions: int
    feature_spec: tuple[tuple[int, ...], str] | type[text.Bags] | action_sets.Spec
    model: str
    model_arguments: Mapping[str, Any]
    rewards: Mapping[str, np.ndarray]
    initial_weights: str = "glorot_uniform"
    normalize: Callable[[Any], Features] = lambda raw: raw
    report: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    multi_label: bool = False
    has_reward_labels: bool = False
    label_range: tuple[float, float] = (0.0, 1.0)
    reward_bounds: RewardBounds | None = None
    has_learned_bounds: bool = False
    clipping: str = ""
    statistics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    private_statistics: tuple[str, ...] = ()
    public_statistics: str = ""
    action_names: tuple[str, ...] = ()
    catalogue_actions: np.ndarray | None = None
    feature_names: tuple[str, ...] = ()

    @property
    def has_action_features(self) -> bool:
        """Whether rows offer sets of actions with features, so that an action is a slot of its row."""
        return isinstance(self.feature_spec, action_sets.Spec) and self.feature_spec.num_features > 0

    @property
    def checksum(self) -> str:
        """A digest that changes when the data or the file of statistics does."""
        return "-".join(filter(None, (self.clients.checksum, self.public_statistics)))

    def batches(self, examples: Examples, size: int, *, even: bool = False) -> Iterator[Examples]:
        """Yields batches of examples whose features `normalize` has mapped to the model's.

        Args:
          examples: Examples as the data holds them.
          size: Maximum number of examples of a batch.
          even: Whether the sizes of batches differ by at most one example, for models that normalize over a batch. If
            not, only the last batch is smaller.
        """
        count = len(examples.labels)
        bounds = range(size, count, size)
        for rows in np.array_split(np.arange(count), len(bounds) + 1 if even else bounds):
            batch = examples.take(rows)
            yield batch._replace(features=self.normalize(batch.features))

    def reward_range(self, phase: str) -> tuple[float, float]:
        """Smallest and largest possible reward of an action in a phase, a key of `rewards`."""
        matrix = self.rewards[phase]
        if not self.multi_label:
            return float(matrix.min()), float(matrix.max())
        extremes = np.stack([end * matrix for end in self.label_range])
        return float(extremes.min(axis=0).sum(axis=0).min()), float(extremes.max(axis=0).sum(axis=0).max())


def learned(options: TaskOptions, data_statistics: statistics.OfTable | statistics.OfPosts) -> dict[str, Any]:
    """Fields `statistics`, `private_statistics` and `public_statistics` of a task."""
    from data import log_time  # Here, since pandas takes a fifth of a second.

    of_times = log_time.learned(options)
    if options.public_statistics:
        return {"public_statistics": file_checksum(options.public_statistics), "private_statistics": of_times}
    words = data_statistics.in_words()
    return {"statistics": data_statistics.as_json() if words else {}, "private_statistics": (*words, *of_times)}


def tag_task(
    options: TaskOptions, train: ClientData, held_out: ClientData, counted: statistics.OfPosts, **fields: Any
) -> Task:
    """Task of posts: bags of words, the most frequent tags as actions, a linear model with bias."""
    num_tags, tag_counts = len(counted.tags), np.array(list(counted.tags.values()), np.int64)
    return Task(
        clients=train,
        held_out=held_out,
        num_actions=num_tags,
        **words_model(len(counted.vocabulary), num_tags),
        rewards=tag_rewards(tag_counts, reference_code=options.is_published, initial_tags=options.init_labels),
        multi_label=True,
        **learned(options, counted),
        **fields,
    )


# Initial weights in the published code of Agarwal et al. 2023.
_PUBLISHED_WEIGHTS = {"cnn": "glorot_normal", "linear_l2": "zeros"}


def _hidden(options: TaskOptions, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """Widths of a model's hidden layers; only an `mlp` has any.

    Raises:
      UsageError: If widths are set for another model, or if the model scores features of actions.
    """
    if name in ("bilinear", "two_tower"):
        raise UsageError(
            f"--model={name} scores features of actions, which this task does not have: see --action_table."
        )
    if options.hidden and name != "mlp":
        raise UsageError(f"--hidden applies only to --model=mlp, not to --model={name}: leave it out.")
    return tuple(options.hidden or default) if name == "mlp" else ()


def words_model(num_words: int, num_outputs: int) -> dict[str, Any]:
    """Fields of a task of bags of words, and its linear model with bias."""
    arguments = {"vocabulary_size": num_words, "num_outputs": num_outputs}
    return {"feature_spec": text.Bags, "model": "bag_of_words", "model_arguments": arguments}


def vector_model(options: TaskOptions, num_features: int, num_outputs: int, default: str = "linear") -> dict[str, Any]:
    """Fields of a task with numeric contexts, and its model: `linear` or `mlp`.

    Raises:
      UsageError: If `TaskOptions.model` or `TaskOptions.hidden` is not possible for such contexts.
    """
    name = options.model_name or default
    hidden = _hidden(options, name, (64,))
    if name not in ("linear", "mlp"):
        raise UsageError(f"--model={name} takes images, which this task does not have: choose linear or mlp.")
    arguments = {"num_features": num_features, "hidden": hidden, "num_outputs": num_outputs}
    return {"feature_spec": ((num_features,), "float32"), "model": "mlp", "model_arguments": arguments}


def sets_model(
    options: TaskOptions, contexts: tuple[tuple[int, ...], str] | type[text.Bags], num_contexts: int, num_features: int
) -> dict[str, Any]:
    """Fields of a task whose actions have features, and its model.

    Args:
      options: Options, of which `model`, `hidden` and `interaction_bits` are used.
      contexts: (shape, dtype name) of one context, or `text.Bags`.
      num_contexts: Number of features of a context.
      num_features: Number of features of an action.

    Raises:
      UsageError: If the model does not score actions, or has no use for `hidden` or `interaction_bits`.
    """
    name, arguments = options.model_name or "linear", {"num_contexts": num_contexts, "num_features": num_features}
    if name not in ("linear", "bilinear", "two_tower"):
        raise UsageError(f"--model={name} does not score actions with features: choose linear, bilinear or two_tower.")
    if options.hidden and name != "two_tower":
        raise UsageError(f"--hidden applies only to --model=two_tower here, not to --model={name}: leave it out.")
    if options.interaction_bits is not None and name != "linear":
        raise UsageError(f"--interaction_bits applies only to --model=linear, not to --model={name}: leave it out.")
    more: dict[str, Any] = {
        "linear": {"bits": options.interaction_bits},
        "two_tower": {"hidden": options.hidden or (64, 32)},
    }
    arguments |= more.get(name, {})
    return {"feature_spec": action_sets.Spec(contexts, num_features), "model": name, "model_arguments": arguments}


def catalogue_model(
    options: TaskOptions, contexts: Any, num_contexts: int, catalogue: np.ndarray, actions: np.ndarray | None
) -> dict[str, Any]:
    """Fields of a task whose actions have features in a catalogue, and its model.

    Args:
      options: As in `sets_model`.
      contexts: float32 [rows, ...], or bags of words.
      num_contexts: Number of features of a context.
      catalogue: float32 [entries, features].
      actions: int32 [entries], as in `Task.catalogue_actions`.
    """
    spec: Any = text.Bags if isinstance(contexts, text.Bags) else (contexts.shape[1:], "float32")
    fields = sets_model(options, spec, num_contexts, catalogue.shape[1])
    normalize = functools.partial(action_sets.normalized, catalogue=catalogue)
    return {**fields, "normalize": normalize, "catalogue_actions": actions}


def image_model(
    options: TaskOptions, default: str, shape: tuple[int, ...], num_outputs: int, hidden: Sequence[int] = (64,)
) -> dict[str, Any]:
    """Fields `model`, `model_arguments` and `initial_weights` of a task with images.

    Args:
      options: Options, of which `model`, `hidden`, `norm`, `initial_weights` and `variant` are used.
      default: The task's default model.
      shape: Height, width and channels.
      num_outputs: Number of outputs.
      hidden: Default widths of the hidden layers of the model `mlp`.

    Raises:
      UsageError: If the model does not take such images, does not use `hidden` although it is set, or would not learn.
    """
    name = options.model_name or default
    published = _PUBLISHED_WEIGHTS.get(name) if options.is_published else None
    weights = options.initial_weights or published or "glorot_uniform"
    if weights == "zeros" and not name.startswith("linear"):
        raise UsageError(f"--initial_weights=zeros is only for linear models: --model={name} would never learn.")
    arguments: dict[str, Any] = {"num_outputs": num_outputs}
    widths = _hidden(options, name, hidden)
    if name == "linear_l2":
        arguments |= {"num_features": math.prod(shape)}
    elif name in ("linear", "mlp"):
        arguments |= {"num_features": math.prod(shape), "hidden": widths}
        name = "mlp"
    elif name == "resnet18":
        arguments |= {"image_shape": shape, "norm": options.norm}
    elif shape != (28, 28, 1):
        raise UsageError(
            f"--model={name} takes images of 28 x 28 x 1, not of {' x '.join(map(str, shape))}: choose resnet18, mlp "
            "or linear."
        )
    return {"model": name, "model_arguments": arguments, "initial_weights": weights}


def array_model(options: TaskOptions, shape: tuple[int, ...], num_outputs: int) -> dict[str, Any]:
    """Fields of a task whose contexts have this shape: (features,), or (height, width, channels) of images."""
    if len(shape) == 1:
        return vector_model(options, shape[0], num_outputs)
    default = "cnn" if shape == (28, 28, 1) else "linear"
    return {"feature_spec": (shape, "float32"), **image_model(options, default, shape, num_outputs)}


def exact(num_labels: int) -> np.ndarray:
    """Rewards of 1 for the true label and 0 for the others, float32 [labels, labels]."""
    return np.eye(num_labels, dtype=np.float32)


def character_rewards(*, reference_code: bool = False) -> dict[str, np.ndarray]:
    """Rewards of the 62-class tasks by phase (Agarwal et al. 2023, section 4.2, init-shift).

    In the paper's initial training, the lower-case version of an upper-case letter also has a reward of 0.5; for the
    bandits, only the exact label has a reward.

    Args:
      reference_code: Follow the published code instead: in the initial training, lower-case letters count as their
        upper-case versions; the bandits also have a reward of 0.5 for the upper-case version of a lower-case letter.

    Returns:
      float32 [62, 62] for each of `exact`, `init` and `bandits`.
    """
    init, bandits = exact(62), exact(62)
    if reference_code:
        init[_LOWER, _LOWER] = 0.0
        init[_LOWER, _UPPER] = 1.0
        bandits[_LOWER, _UPPER] = 0.5
    else:
        init[_UPPER, _LOWER] = 0.5
    return {"exact": exact(62), "init": init, "bandits": bandits}


def tag_rewards(
    counts: np.ndarray, *, reference_code: bool = False, initial_tags: int | None = None
) -> dict[str, np.ndarray]:
    """Rewards of tag prediction by phase (Agarwal et al. 2023, section 4.2, init-shift).

    Without a shift, a tag of the post has the reward 1. The initial training rewards only the most frequent tags. The
    bandits' reward is inverse to the tag's frequency in the corpus, scaled to 1 for the most frequent tag.

    Args:
      counts: int [tags], posts that have the tag, from the most to the least frequent.
      reference_code: Whether the default of `initial_tags` follows the published code instead of the paper.
      initial_tags: Number of tags that the initial training rewards. None for 10, as in the paper, or for three fifths
        of all (30 of 50), as in the published code.

    Returns:
      float32 [tags, tags], zero off the diagonal, for each of `exact`, `init` and `bandits`.

    Raises:
      UsageError: If there are fewer tags than `initial_tags`.
      ValueError: If a count is below 1, or the counts increase.
    """
    counts = np.asarray(counts)
    if counts.min() < 1 or (np.diff(counts) > 0).any():
        raise ValueError(f"Counts of tags must be at least 1, the highest first: {counts}.")
    if initial_tags is not None and initial_tags > len(counts):
        raise UsageError(f"--init_labels={initial_tags} must be at most {len(counts)}, the number of tags.")
    paid = initial_tags or (len(counts) * 3 // 5 if reference_code else 10)
    in_initial_training = np.arange(len(counts)) < paid
    return {
        "exact": exact(len(counts)),
        "init": np.diag(in_initial_training).astype(np.float32),
        "bandits": np.diag(counts[0] / counts).astype(np.float32),
    }


def label_rewards(label_counts: Sequence[int], init_labels: int | None) -> dict[str, np.ndarray]:
    """Rewards of tables and digits before and after the shift.

    In the initial training, only the most frequent labels have a reward (the first ones, if labels are equally
    frequent). In the bandits' training, all of them do.

    Args:
      label_counts: Training rows of each label.
      init_labels: Number of labels with a reward in the initial training; None for half of them, rounded up.

    Returns:
      float32 [labels, labels] for each of `exact`, `init` and `bandits`.

    Raises:
      UsageError: If `init_labels` is not between 1 and the number of labels.
    """
    num_labels = len(label_counts)
    count = (num_labels + 1) // 2 if init_labels is None else init_labels
    if not 1 <= count <= num_labels:
        raise UsageError(f"--init_labels={count} must be between 1 and {num_labels}, the number of labels.")
    frequent = np.argsort(-np.asarray(label_counts), kind="stable")[:count]
    init = np.zeros((num_labels, num_labels), np.float32)
    init[frequent, frequent] = 1.0
    return {"exact": exact(num_labels), "init": init, "bandits": exact(num_labels)}


def reward_labels(options: TaskOptions, rewards: np.ndarray, offered: np.ndarray | None = None) -> dict[str, Any]:
    """Fields of a task whose labels are the rewards of actions.

    Args:
      options: Options, of which `reward_bounds` is used.
      rewards: float [examples, actions], rewards of training examples.
      offered: bool [examples, actions], which actions are offered; None for all.

    Raises:
      UsageError: If the bounds of rewards are invalid, or cannot be learned because all observed rewards are equal.
    """
    draw, known = keys.generator(0, keys.Purpose.REWARD_SCALE), rewards
    if offered is None:
        actions = draw.integers(rewards.shape[1], size=len(rewards))
    else:
        actions, known = np.where(offered, draw.random(offered.shape), -1).argmax(axis=1), rewards[offered]
    return {
        "rewards": {"exact": exact(rewards.shape[1])},
        "multi_label": True,
        "has_reward_labels": True,
        "label_range": (float(rewards.min()), float(rewards.max())),
        **reward_bounds.scale(options.reward_bounds, rewards[np.arange(len(rewards)), actions], known),
    }
