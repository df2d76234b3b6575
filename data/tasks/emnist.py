"""Federated EMNIST: 62 characters or 10 digits of real writers, as TensorFlow Federated ships it or LEAF writes it."""

from data import emnist, files, handwriting, leaf, tasks
from data.tasks import rewards
from data.tasks.options import TaskOptions

_DIGITS = ("emnist_digits", "emnist10_linear")
_LINEAR = ("emnist62_linear", "emnist10_linear")


def load(options: TaskOptions) -> tasks.Task:
    """Returns the task: 28 x 28 x 1 pixels, the two-layer CNN, a linear model or that of the options.

    `data_dir`, FEDBANDITS_DATA_DIR and `cache_dir` say where TFF's database is, or goes. If the first two of these hold
    LEAF's files, those are read instead, for characters.
    """
    kind = "digits" if options.task_type in _DIGITS else "chars"
    folder = options.data_dir or files.folder_of_environment()
    train, test = leaf.find(folder) if kind == "chars" and folder else ([], [])
    phases = tasks.characters(options) if kind == "chars" else {"exact": rewards.exact(10)}
    num_actions = len(phases["exact"])
    if train:
        population, held_out = leaf.load(train, test, num_actions)
    else:
        population, held_out = emnist.load(kind, options.data_dir, options.cache_dir, options.random_data)
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=num_actions,
        feature_spec=((28, 28, 1), "float32"),
        rewards=phases,
        normalise=handwriting.normalise if train else lambda pixels: pixels,
        **tasks.image_model(options, _model(options), (28, 28, 1), num_actions),
    )


def _model(options: TaskOptions) -> str:
    if options.task_type not in _LINEAR:
        return "cnn"
    return "linear_l2" if options.is_published else "linear"
