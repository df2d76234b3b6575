"""What the flags choose of posterior aggregation, as a frozen dataclass; nothing here imports TensorFlow."""

import dataclasses

from optimization.posterior import server_chain
from optimization.posterior.mean_shift import MeanShift

_CLIMB = MeanShift()


@dataclasses.dataclass(frozen=True)
class Posterior:
    """An algorithm of `algorithm_flags.ALGORITHMS` with its hyperparameters; each reads its own.

    Attributes:
      name: The algorithm.
      burn_in_rounds: First rounds, in which clients train as in FedAvg; of SGLD, those that its average leaves out.
      steps_per_sample: Steps whose models a chain's sample averages, K; 0 for those of an epoch.
      shrinkage: Of FedPA's covariance; with 0 it is the identity.
      langevin_deviation: Of SGLD's noise at the server, one of `server_chain.DEVIATIONS`.
      mean_shift: FedKP's climb to a mode.
      kernel_weights: Weight of a client's kernel, and of its model, `uniform` or `num_examples`.
      kernel_bandwidths: With `num_examples`, a client's bandwidth is inversely proportional to its number of examples.
      posterior_samples: Models sampled, for predictions (FedAG) or to distil (FedBE).
      distillation_epochs: Passes of FedBE over the server's examples.
    """

    name: str
    burn_in_rounds: int = 0
    steps_per_sample: int = 0
    shrinkage: float = 0.1
    langevin_deviation: str = server_chain.SQRT_2_RATE
    mean_shift: MeanShift = _CLIMB
    kernel_weights: str = "uniform"
    kernel_bandwidths: str = "uniform"
    posterior_samples: int = 10
    distillation_epochs: int = 20
