"""Synthetic(alpha, beta): generated federated data whose clients differ in their models and features.

See Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, "Federated Optimization in Heterogeneous Networks", 2020, section
5.1 and appendix C.1. Client k has its own model and feature distribution:

  u_k ~ N(0, alpha), W_k ~ N(u_k, 1), b_k ~ N(u_k, 1);  B_k ~ N(0, beta), v_k ~ N(B_k, 1) per feature;
  x ~ N(v_k, diag(j^-1.2)),  y = argmax(W_k x + b_k).

Both alpha and beta are variances. In this definition, u_k shifts all outputs of a client equally, so alpha does not
change any label: the clients' models differ just as much with alpha = 0. The number of examples per client follows the
published code: 50 plus a lognormal number with mu = 4 and sigma = 2, rounded down.
"""

import numpy as np

from data import clients, keys, tasks
from data.tasks.options import TaskOptions

NUM_FEATURES = 60
NUM_CLASSES = 10
_HELD_OUT_FRACTION = 0.1


def load(options: TaskOptions) -> tasks.Task:
    """Opens the synthetic task, with 60 features, 10 actions and multinomial logistic regression."""
    population, held_out = generate(
        options.partition_clients, options.synthetic_alpha, options.synthetic_beta, options.partition_seed
    )
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=NUM_CLASSES,
        feature_spec=((NUM_FEATURES,), "float32"),
        model="mlp",
        model_arguments={"num_features": NUM_FEATURES, "hidden": (), "num_outputs": NUM_CLASSES},
        rewards={"exact": tasks.exact(NUM_CLASSES)},
    )


def generate(num_clients: int, alpha: float, beta: float, seed: int) -> tuple[clients.ClientData, clients.ClientData]:
    """Generates clients with nine tenths of their examples, and the same clients with the remaining examples.

    Features are float32 [examples, 60], and labels are int32 below 10.

    Args:
      num_clients: Number of clients.
      alpha: Variance of u_k, which has no effect on the examples; see above.
      beta: Variance of B_k, see above.
      seed: Random seed.
    """
    sizes = keys.generator(seed, keys.Purpose.PARTITION).lognormal(4, 2, num_clients).astype(int) + 50
    parts = [
        _client(int(size), alpha, beta, keys.generator(seed, keys.Purpose.EXAMPLES, client))
        for client, size in enumerate(sizes)
    ]
    names = [f"client_{client:03d}" for client in range(num_clients)]
    owners = np.repeat(np.arange(num_clients), sizes)
    is_held_out = np.concatenate([np.arange(size) >= size - int(_HELD_OUT_FRACTION * size) for size in sizes])
    examples = clients.joined(parts)
    train, held_out = np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
    return (
        clients.ArrayClients(examples.take(train), owners[train], names),
        clients.ArrayClients(examples.take(held_out), owners[held_out], names),
    )


def _client(size: int, alpha: float, beta: float, draw: np.random.Generator) -> clients.Examples:
    model_mean = draw.normal(0, np.sqrt(alpha))
    kernel = draw.normal(model_mean, 1, (NUM_FEATURES, NUM_CLASSES))
    bias = draw.normal(model_mean, 1, NUM_CLASSES)
    center = draw.normal(draw.normal(0, np.sqrt(beta)), 1, NUM_FEATURES)
    deviation = np.arange(1, NUM_FEATURES + 1) ** -0.6
    features = draw.normal(center, deviation, (size, NUM_FEATURES)).astype(np.float32)
    return clients.Examples(features, np.argmax(features @ kernel + bias, axis=1).astype(np.int32))
