"""Characters and digits of real writers, from files: `unipen62` and `mnist_writers`."""

from collections.abc import Mapping
from typing import Any

from data import handwriting, tasks
from data.tasks import rewards


def load(settings: Mapping[str, Any], variant: str) -> tasks.Task:
    """Returns the task: 28 x 28 x 1 pixels, the two-layer CNN or that of `--model`, and 62 or 10 actions.

    Args:
      settings: Flags; `data_dir` names the files' folder.
      variant: `unipen62` or `mnist_writers`.
    """
    if variant == "unipen62":
        population, held_out = handwriting.unipen62(settings["data_dir"])
        phases = tasks.characters(settings)
    else:
        population, held_out = handwriting.mnist_writers(settings["data_dir"])
        phases = {"exact": rewards.exact(10)}
    num_actions = len(phases["exact"])
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=num_actions,
        feature_spec=((28, 28, 1), "float32"),
        rewards=phases,
        normalise=handwriting.normalise,
        **tasks.image_model(settings, "cnn", (28, 28, 1), num_actions),
    )
