"""Characters and digits of real writers, from files: `unipen62` and `mnist_writers`."""

from data import handwriting, tasks
from data.tasks import rewards
from data.tasks.options import TaskOptions


def load(options: TaskOptions) -> tasks.Task:
    """Returns the task: 28 x 28 x 1 pixels, the two-layer CNN or that of the options, and 62 or 10 actions."""
    if options.task_type == "unipen62":
        population, held_out = handwriting.unipen62(options.data_dir)
        phases = tasks.characters(options)
    else:
        population, held_out = handwriting.mnist_writers(options.data_dir)
        phases = {"exact": rewards.exact(10)}
    num_actions = len(phases["exact"])
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=num_actions,
        feature_spec=((28, 28, 1), "float32"),
        rewards=phases,
        normalise=handwriting.normalise,
        **tasks.image_model(options, "cnn", (28, 28, 1), num_actions),
    )
