"""Corrections of the gradients of a client's SGD, such as FedProx. Nothing here imports TensorFlow.

To add a correction, write a class and add an entry to CORRECTIONS. All studies in which clients train by SGD then have
its flag and apply it.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

Tensor: TypeAlias = Any  # A tf.Tensor.


class Step(NamedTuple):
    """A step of a client's training, before it changes the weights.

    Attributes:
      gradients: Dense gradients of the mini-batch's mean loss, in the order of the model's weights.
      weights: The client's weights before the step.
      start: The client's weights at the start of the round.
    """

    gradients: Sequence[Tensor]
    weights: Sequence[Tensor]
    start: Sequence[Tensor]


# Returns the gradients that SGD uses. Equal corrections have equal hashes and the same results.
Correction: TypeAlias = Callable[[Step], Sequence[Tensor]]


@dataclasses.dataclass(frozen=True)
class Proximal:
    """FedProx (Li et al. 2020, section 3.2): adds a proximal term to the loss.

    The term is strength / 2 times the squared distance to the weights at the start of the round.

    Attributes:
      strength: mu in the paper, at least 0.

    Raises:
      ValueError: If the strength is negative.
    """

    strength: float

    def __post_init__(self):
        if not self.strength >= 0:
            raise ValueError(f"strength must be at least 0, got {self.strength}")

    def __call__(self, step: Step) -> list[Tensor]:
        parts = zip(step.gradients, step.weights, step.start, strict=True)
        return [gradient + self.strength * (weight - start) for gradient, weight, start in parts]


# For each flag: a function that maps its value to a correction (0 means no correction), and the flag's help.
CORRECTIONS: Mapping[str, tuple[Callable[[float], Correction], str]] = {
    "proximal_strength": (Proximal, "FedProx's mu: weight of the pull towards the server's model (default: 0, none)")
}


def chosen(values: Mapping[str, Any]) -> tuple[Correction, ...]:
    """Returns the corrections whose values are not 0."""
    return tuple(build(values[name]) for name, (build, _) in CORRECTIONS.items() if values.get(name))
