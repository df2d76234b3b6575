"""Federated EMNIST: 62 characters or 10 digits of real writers, as TensorFlow Federated ships it or LEAF writes it."""

from collections.abc import Mapping
from typing import Any

from data import emnist, handwriting, leaf, tasks
from data.tasks import rewards


def load(settings: Mapping[str, Any], variant: str) -> tasks.Task:
    """Returns the task: 28 x 28 x 1 pixels, the two-layer CNN, a linear model or that of `--model`.

    Args:
      settings: Flags; `data_dir` and `cache_dir` say where TFF's database is, or goes. A `data_dir` with LEAF's files
        is read instead, for characters.
      variant: `chars` or `digits`, with `_linear` for the linear model.
    """
    kind, _, linear = variant.partition("_")
    train, test = leaf.find(settings["data_dir"]) if kind == "chars" and settings["data_dir"] else ([], [])
    phases = tasks.characters(settings) if kind == "chars" else {"exact": rewards.exact(10)}
    num_actions = len(phases["exact"])
    if train:
        population, held_out = leaf.load(train, test, num_actions)
    else:
        population, held_out = emnist.load(kind, settings["data_dir"], settings["cache_dir"])
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=num_actions,
        feature_spec=((28, 28, 1), "float32"),
        rewards=phases,
        normalise=handwriting.normalise if train else lambda pixels: pixels,
        **tasks.image_model(settings, "linear" if linear else "cnn", (28, 28, 1), num_actions),
    )
