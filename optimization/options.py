"""Options of studies as small frozen dataclasses; nothing here imports TensorFlow.

Modules of flags create them for all other modules. Equal options have equal hashes and compute the same.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from data.tasks.options import TaskOptions
from optimization.corrections import Correction
from optimization.privacy.mechanisms import Mechanism
from optimization.selection.availability import ALWAYS, Availability
from optimization.selection.selectors import Selection

_Options = TypeVar("_Options")


def named(kind: Callable[..., _Options], values: Mapping[str, Any], prefix: str = "", /, **others: Any) -> _Options:
    """Options of a dataclass, whose fields are settings of the same names, except `others`.

    Args:
      kind: The dataclass. A field whose setting has no value keeps its default.
      values: The settings' values.
      prefix: How the settings' names begin, before those of the fields.
      **others: Fields without a setting.
    """
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        has_default = field.default is not dataclasses.MISSING
        if field.name not in others and not (has_default and values.get(prefix + field.name) is None):
            others[field.name] = values[prefix + field.name]
    return kind(**others)


@dataclasses.dataclass(frozen=True)
class ServerOptimizer:
    """An optimizer on the server.

    Attributes:
      name: One of `fed_avg.OPTIMIZERS`.
      learning_rate: Its learning rate.
      hyperparameters: (name, value) of those that do not have their default.
    """

    name: str
    learning_rate: float
    hyperparameters: tuple[tuple[str, float], ...] = ()


@dataclasses.dataclass(frozen=True)
class Cohorts:
    """Sampling of a round's clients.

    Attributes:
      size: Clients of a round; under Poisson sampling the expected number.
      sampling: One of `mechanisms.SAMPLINGS`.
      availability: Availability of the clients.
      groups: Number of groups that take turns, with `cyclic_poisson` sampling.
    """

    size: int
    sampling: str = "fixed"
    availability: Availability = ALWAYS
    groups: int = 1


@dataclasses.dataclass(frozen=True)
class Aggregation:
    """Aggregation of a cohort's deltas, and its noise.

    Attributes:
      kind: `mean`, `secure_sum`, or a kind of `mechanisms.Mechanism` with noise.
      client_weighting: Weight of a client in the mean, `uniform` or `num_examples`.
      clip_norm: L2 norm that a delta is clipped to, the initial one with `unclip_quantile`; None for no clipping.
      unclip_quantile: Quantile of the deltas' norms that the clip norm follows; None for a fixed clip norm.
      noise_multiplier: Standard deviation of the noise on the sum, in clip norms.
      noise_seed: Seed of the noise, which then guarantees nothing; None for the system's entropy.
      target_delta: Delta of the reported epsilon; None for the mechanism's own.
      accountant: One of `mechanisms.ACCOUNTANTS`.
      restart_rounds: For `dpftrl`, rounds of one tree; None for the rounds of one pass over all clients.
      bands: For `mf_dpftrl`, rounds over which noise cancels; None for the number with the least noise.
      target_epsilon: Epsilon that determines the noise multiplier; None to take `noise_multiplier`.
      population: Planned number of clients, to which epsilon belongs; None for the clients present.
      population_cohort: Clients of a round in the planned population; None for those of a round here.
      plan: The planned mechanism. It replaces all fields above, except for the clip norm.
    """

    kind: str = "mean"
    client_weighting: str = "uniform"
    clip_norm: float | None = None
    unclip_quantile: float | None = None
    noise_multiplier: float = 0.0
    noise_seed: int | None = None
    target_delta: float | None = None
    accountant: str = "rdp"
    restart_rounds: int | None = None
    bands: int | None = None
    target_epsilon: float | None = None
    population: int | None = None
    population_cohort: int | None = None
    plan: Mechanism | None = None


@dataclasses.dataclass(frozen=True)
class Training:
    """Supervised training of a task by cohorts.

    Attributes:
      seed: Seed of all randomness.
      task: The task.
      total_rounds: Rounds.
      cohort_size: Clients of a round.
      selection: Options of their selection.
      max_examples_per_client: Cap on a client's examples; 0 for none.
      batch_size: Examples of a client's mini-batch.
      learning_rate: Client learning rate.
      corrections: Of its gradients.
      server_optimizer: The server's.
      eval_batch_size: Examples of an evaluation batch.
      max_validation_samples: Most held-out examples; 0 for all.
      rounds_per_checkpoint: Rounds between checkpoints; 0 for only the last.
    """

    seed: int
    task: TaskOptions
    total_rounds: int
    cohort_size: int
    selection: Selection
    max_examples_per_client: int
    batch_size: int
    learning_rate: float
    corrections: tuple[Correction, ...]
    server_optimizer: ServerOptimizer
    eval_batch_size: int
    max_validation_samples: int
    rounds_per_checkpoint: int


@dataclasses.dataclass(frozen=True)
class Length:
    """Rounds of a run, and its periods of evaluation and checkpoints.

    Attributes:
      total_rounds: Total rounds, including those of earlier starts.
      rounds_per_eval: Rounds between evaluations; 0 for only the last.
      rounds_per_checkpoint: Rounds between checkpoints; 0 for only the last.
    """

    total_rounds: int
    rounds_per_eval: int = 0
    rounds_per_checkpoint: int = 0

    def ends_in_evaluation(self, round_num: int) -> bool:
        """Whether a round ends in an evaluation."""
        every = self.rounds_per_eval
        return round_num == self.total_rounds or bool(every and round_num % every == 0)
