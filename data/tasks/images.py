"""Images dealt to made clients: `fashion_mnist`, `mnist` and `cifar100`."""

from data import images, tasks
from data.tasks import rewards
from data.tasks.options import TaskOptions

# Shape of an image, actions, model, and hidden layers of the MLP. Cho et al. 2020 give Fashion-MNIST two and no widths.
TASKS = {
    "fashion_mnist": ((28, 28, 1), 10, "mlp", (64, 30)),
    "mnist": ((28, 28, 1), 10, "cnn", (32,)),
    "cifar100": ((32, 32, 3), 100, "mlp", (256, 128)),
}


def load(options: TaskOptions) -> tasks.Task:
    """Returns the task.

    Raises:
      UsageError: If the data is missing, or too small for the partition, or the model does not take the images.
    """
    shape, num_actions, model, hidden = TASKS[options.task_type]
    population, held_out = images.load(
        options.task_type,
        options.partition_clients,
        options.partition_alpha,
        options.partition_examples,
        options.partition_seed,
        options.data_dir,
        options.cache_dir,
        options.partition_beta,
        options.partition_by,
        options.random_data,
    )
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=num_actions,
        feature_spec=(shape, "float32"),
        rewards={"exact": rewards.exact(num_actions)},
        normalise=images.normalise,
        **tasks.image_model(options, model, shape, num_actions, hidden),
    )
