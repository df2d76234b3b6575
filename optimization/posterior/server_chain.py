"""SGLD at the server: a Langevin chain of models, and the average of its states after the burn-in.

Johansson and Gullbrandson 2022, section 2.4.4; Welling and Teh 2011. The clients' mean is the step, and noise is added
to the model after it, as in equation 2.16, which does not say whether 2 eta is its variance or deviation. Clients train
from the newest state; what is evaluated, deployed and saved is the average, in burn-in rounds the newest state.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from data import keys

SQRT_2_RATE, TWICE_RATE = "sqrt_2_rate", "2_rate"
DEVIATIONS = {
    SQRT_2_RATE: "the root of 2 --client_learning_rate (equation 2.16, its 2 eta read as a variance)",
    TWICE_RATE: "2 --client_learning_rate (2 eta read as a deviation, as in the published program)",
}


def deviation(name: str, learning_rate: float) -> float:
    """Returns the noise's standard deviation by its name in `DEVIATIONS`."""
    return {SQRT_2_RATE: math.sqrt(2 * learning_rate), TWICE_RATE: 2 * learning_rate}[name]


@dataclasses.dataclass(frozen=True)
class ServerChain:
    """A chain with one state a round.

    Attributes:
      burn_in_rounds: First rounds, whose states are not averaged.
      deviation: Standard deviation of the noise of each weight in each round, one without clients included.
    """

    burn_in_rounds: int
    deviation: float

    def state(self, stepped: Sequence[np.ndarray], seed: int, round_num: int) -> tuple[np.ndarray, ...]:
        """Returns the chain's state after a round, given the model after the server optimizer's step."""
        generator = keys.generator(seed, keys.Purpose.LANGEVIN, round_num)
        scale = np.float32(self.deviation)
        arrays = [np.asarray(weight) for weight in stepped]
        return tuple(weight + scale * generator.standard_normal(weight.shape, np.float32) for weight in arrays)

    def served(
        self, average: Sequence[np.ndarray], state: tuple[np.ndarray, ...], round_num: int
    ) -> tuple[np.ndarray, ...]:
        """Returns the average of the states after the burn-in; in its rounds, the state.

        Args:
          average: That of the round before.
          state: Of this round.
          round_num: This round, from 1.
        """
        count = round_num - self.burn_in_rounds
        if count <= 1:
            return state
        pairs = zip(map(np.asarray, average), state, strict=True)
        return tuple(mean + (weight - mean) / np.float32(count) for mean, weight in pairs)
