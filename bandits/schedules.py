"""How an exploration parameter moves with the deployment. Plain numbers: nothing slow is imported."""

import math


def falcon_gamma(num_actions: int, log_term: float, samples: float, fed_opt: float = 0.0, scale: float = 1.0) -> float:
    """Returns FALCON's gamma of an epoch, scale sqrt(K / (ln(|F| I / delta) / (n (i - 1)) + epsilon_fed-opt)).

    Simchi-Levi and Xu 2022, Algorithm 1, where constants differ; Agarwal et al. 2023, section 6, for epsilon_fed-opt.

    Args:
      num_actions: K.
      log_term: ln(|F| I / delta), above 0.
      samples: n (i - 1), those that the deployed model was fitted to; with none gamma is 1, as there.
      fed_opt: epsilon_fed-opt, at least 0.
      scale: The constant.
    """
    if samples <= 0:
        return 1.0
    return scale * math.sqrt(num_actions / (log_term / samples + fed_opt))
