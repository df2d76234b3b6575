"""Scikit-learn's digits over 60 made clients: the task that needs no file and no network."""

from data import digits, tasks
from data.tasks import rewards
from data.tasks.options import TaskOptions


def load(options: TaskOptions) -> tasks.Task:
    """Returns the task: 8 x 8 pixels, 10 actions, one hidden layer of 64.

    Raises:
      UsageError: If the initial training of a shift is to pay for fewer or more digits than there are.
    """
    population, held_out = digits.load(options.partition_alpha)
    equally_frequent = [1] * 10  # The initial training of a shift pays for the first ones.
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=10,
        feature_spec=((64,), "float32"),
        model="mlp",
        model_arguments={"num_features": 64, "hidden": (64,), "num_outputs": 10},
        rewards={"exact": rewards.exact(10), **rewards.label_rewards(equally_frequent, options.init_labels)},
    )
