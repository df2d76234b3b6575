"""Corrections of the gradients of a client's SGD, such as FedProx. Nothing here imports TensorFlow.

A new one is a class and an entry of CORRECTIONS here: its flag and the clients' training in all studies follow.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

Tensor: TypeAlias = Any  # A tf.Tensor.


class Step(NamedTuple):
    """A step of a client's training, before the weights change.

    Attributes:
      gradients: Dense gradients of the mini-batch's mean loss, in the order of the model's weights.
      weights: The client's weights.
      start: The weights that the round started from.
    """

    gradients: Sequence[Tensor]
    weights: Sequence[Tensor]
    start: Sequence[Tensor]


# Returns the gradients that SGD uses. Equal corrections have equal hashes and compute the same.
Correction: TypeAlias = Callable[[Step], Sequence[Tensor]]


@dataclasses.dataclass(frozen=True)
class Proximal:
    """FedProx: the loss has strength / 2 times the squared distance to the round's start (Li et al. 2020, section 3.2).

    Attributes:
      strength: mu of the paper, at least 0.

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


# For each flag: the function from a value to its correction (0 means no correction), and the flag's help.
CORRECTIONS: Mapping[str, tuple[Callable[[float], Correction], str]] = {
    "proximal_strength": (Proximal, "FedProx's mu: weight of the pull to the round's first model (default: 0, none)")
}


def chosen(values: Mapping[str, Any]) -> tuple[Correction, ...]:
    """Corrections whose values are not 0."""
    return tuple(build(values[name]) for name, (build, _) in CORRECTIONS.items() if values.get(name))
