"""Synthetic(alpha, beta): generated clients that differ in model and in features; needs no file."""

from data import synthetic, tasks
from data.tasks import rewards
from data.tasks.options import TaskOptions


def load(options: TaskOptions) -> tasks.Task:
    """Returns the task: 60 features, 10 actions, multinomial logistic regression."""
    population, held_out = synthetic.load(
        options.partition_clients,
        options.synthetic_alpha,
        options.synthetic_beta,
        options.partition_seed,
    )
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=synthetic.NUM_CLASSES,
        feature_spec=((synthetic.NUM_FEATURES,), "float32"),
        model="mlp",
        model_arguments={
            "num_features": synthetic.NUM_FEATURES,
            "hidden": (),
            "num_outputs": synthetic.NUM_CLASSES,
        },
        rewards={"exact": rewards.exact(synthetic.NUM_CLASSES)},
    )
