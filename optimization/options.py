"""Options that several studies share, as frozen dataclasses whose fields are settings; nothing here imports TensorFlow.

Equal options have equal hashes and give the same results.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from data.objects import UserObject
from data.settings import Count, Fraction, Positive, PositiveFraction, number_or_word, setting
from data.tasks.options import TaskOptions
from optimization.corrections import Correction
from optimization.privacy import factorizations, mechanisms
from optimization.selection.availability import ALWAYS, Availability
from optimization.selection.selectors import Selection

# Hyperparameters of each optimizer, with their exclusive upper bounds, if any. Their flags are
# `--server_<optimizer>_<name>` and `--client_<optimizer>_<name>`; their defaults are those of Keras and TFF.
OPTIMIZERS: Mapping[str, Mapping[str, float | None]] = {
    "sgd": {"momentum": 1.0},
    "adam": {"beta_1": 1.0, "beta_2": 1.0, "epsilon": None},
    "yogi": {"beta_1": 1.0, "beta_2": 1.0, "epsilon": None, "initial_preconditioner_value": None},
    "adagrad": {"initial_preconditioner_value": None, "epsilon": None},
}
_WITH_RATE = {"server_optimizer": [*OPTIMIZERS]}
AGGREGATIONS: Mapping[str, str] = {
    "mean": "mean of the updates, by default with adaptive clipping",
    "dpsgd": "DP-FedAvg: clipped updates, Gaussian noise on their sum",
    "dpftrl": "DP-FTRL: noise from tree aggregation, which needs no random cohorts",
    "mf_dpftrl": "DP-FTRL with noise from a banded matrix factorization",
    "secure_sum": "mean of clipped updates under secure aggregation, which is simulated",
    "ddp": "distributed differential privacy: each client adds its share of the noise, under secure aggregation",
    "median": "coordinate-wise median of the updates; no clipping",
    "trimmed_mean": "coordinate-wise mean that leaves out the smallest and largest values; no clipping",
}
ROBUST = ("median", "trimmed_mean")
NOISY = ("dpsgd", "dpftrl", "mf_dpftrl", "ddp")
CAN_ADAPT = ("mean", "dpsgd", "secure_sum")  # Aggregations whose clip norm can follow a quantile.
_CAN_BE_SEEDED = ("dpsgd", "dpftrl", "mf_dpftrl")
_FIRST_CLIP_NORM, _QUANTILE = 0.1, 0.8


@dataclasses.dataclass(frozen=True)
class ServerOptimizer:
    """The server optimizer.

    Attributes:
      hyperparameters: (name, value) of the hyperparameters that differ from their defaults.
    """

    name: str = setting(None, "Optimizer on the server", list(OPTIMIZERS), name="server_optimizer", takes_objects=True)
    learning_rate: float = setting(
        None, "Learning rate on the server", name="server_learning_rate", basic=True, only=_WITH_RATE
    )
    hyperparameters: tuple[tuple[str, float], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClientAlgorithm:
    """The clients' training algorithm."""

    client_algorithm: str | None = setting(
        None,
        "Training algorithm of the clients, if not plain SGD",
        {"scaffold": "SGD with control variates that the server and each client keep (SCAFFOLD)"},
    )


@dataclasses.dataclass(frozen=True)
class Cohorts:
    """Sampling of a round's clients.

    Attributes:
      size: Number of clients per round; under Poisson sampling, the expected number.
      availability: When clients are available, and how often they drop out.
      groups: Number of groups that take turns, with `cyclic_poisson` sampling.
    """

    size: int
    sampling: str = setting(
        "fixed",
        "How the clients of a round are sampled. With --aggregator_type=dpsgd, epsilon assumes poisson; with dpftrl "
        "and mf_dpftrl, cyclic makes epsilon small. Where privacy needs secret cohorts (dpsgd, ddp, "
        "cyclic_poisson), they do not come from --seed, and differ between runs with the same seed",
        mechanisms.SAMPLINGS,
        name="cohort_sampling",
    )
    availability: Availability = ALWAYS
    groups: int = 1


def first_clip_norm(settings: Mapping[str, Any]) -> float | None:
    """Default value of `--clip_norm`."""
    return _FIRST_CLIP_NORM if settings["adaptive_clipping"] or settings.get("target_epsilon") else None


def adapts_clipping(settings: Mapping[str, Any]) -> bool:
    """Default value of `--adaptive_clipping`."""
    return settings["aggregator_type"] in ("mean", "secure_sum") and not settings["aggregator"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """A target epsilon."""

    target_epsilon: Positive | None = setting(
        None,
        "Epsilon to reach after all planned rounds; it determines the noise multiplier",
        basic=True,
        only={"aggregator_type": NOISY},
    )
    population: Count | None = setting(
        None,
        "Planned number of clients, for which epsilon is computed. If the data has fewer, the run simulates the "
        "deployment, and guarantees nothing to the clients in the data (default: number of clients in the data)",
        only={"target_epsilon": True},
    )
    population_cohort: Count | None = setting(
        None,
        "Number of clients per round in the planned population (default: --clients_per_round)",
        name="population_clients_per_round",
        only={"population": True},
    )


@dataclasses.dataclass(frozen=True)
class Aggregation(Target):
    """Aggregation and privacy.

    Attributes:
      noise_seed: Seed of the noise, which then guarantees nothing; None for noise from the system's entropy.
      plan: The mechanism that was planned from these settings; None without a plan.
    """

    kind: str = setting(
        "mean",
        "Aggregation of the cohort's updates",
        AGGREGATIONS,
        name="aggregator_type",
        spellings={"none": "mean"},
        basic=True,
    )
    own: UserObject | None = setting(None, "Your tff.aggregators factory", name="aggregator", takes_objects=True)
    client_weighting: str = setting("uniform", "Weight of each client in the mean", ["uniform", "num_examples"])
    adaptive_clipping: bool = setting(
        adapts_clipping,
        "Let the clip norm follow a quantile of the updates' norms (default: yes for mean and secure_sum)",
    )
    trimmed_share: float | None = setting(
        None,
        "Share of the values that are left out on each side, rounded down to whole clients",
        high=0.5,
        below=True,
        only={"aggregator_type": ("trimmed_mean",)},
        applied_default=0.1,
    )
    unclip_quantile: Fraction | None = setting(
        lambda settings: _QUANTILE if settings.adaptive_clipping else None,
        f"Quantile for --adaptive_clipping: the share of updates that are not clipped (default: {_QUANTILE})",
        convert=lambda quantile, settings: quantile if settings.adaptive_clipping else None,
    )
    clip_norm: Positive | None = setting(
        first_clip_norm,
        "L2 clip norm of updates; with adaptive clipping, the initial one (default: "
        f"{_FIRST_CLIP_NORM} with adaptive clipping or a target epsilon)",
        basic=True,
    )
    noise_multiplier: float = setting(
        None,
        "Standard deviation of the noise on the sum of updates, in clip norms",
        unset=0.0,
        basic=True,
        only={"aggregator_type": NOISY},
        convert=lambda noise, settings: noise if settings.aggregator_type in NOISY else None,
    )
    target_delta: PositiveFraction | None = setting(
        None, "Delta of the reported epsilon (default: 1 / population^1.1)", below=True, only={"aggregator_type": NOISY}
    )
    accountant: str = setting(
        "rdp",
        "Accountant whose epsilon is reported; privacy.json and the summary of a run have the epsilons of both",
        mechanisms.ACCOUNTANTS,
        only={"aggregator_type": NOISY},
    )
    restart_rounds: Count | None = setting(
        None,
        "Rounds per tree (default: population / cohort, so that clients who take turns are in each tree once)",
        name="dpftrl_restart_rounds",
        only={"aggregator_type": ("dpftrl",)},
    )
    bands: int | None = setting(
        None,
        "Number of rounds whose noise is combined in the noise of one round. auto chooses the number with the least "
        "noise on the prefix sums of the planned rounds, among those that need at most 0.5 GiB",
        number_or_word("auto", factorizations.MOST_BANDS),
        name="mf_bands",
        only={"aggregator_type": ("mf_dpftrl",)},
        applied_default="auto",
    )
    seeded_noise: bool = setting(
        False,
        "Sample the privacy noise and the cohorts from --seed, so that runs can be repeated; they guarantee "
        "nothing, because anyone who knows the seed can remove the noise",
        name="insecure_seeded_noise",
        only={"aggregator_type": _CAN_BE_SEEDED},
    )
    noise_seed: int | None = None
    plan: mechanisms.Mechanism | None = None


@dataclasses.dataclass(frozen=True)
class Evaluations:
    """Settings of evaluations."""

    eval_batch_size: Count = setting(512, "Number of examples per evaluation batch")
    max_validation_samples: int = setting(10000, "Maximum number of held-out examples; 0 for all")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training(Evaluations):
    """Supervised training of a task. Each study declares some of these fields as its settings.

    Attributes:
      seed: Seed of all randomness.
      task: Options of the task's data, model and rewards.
      total_rounds: Number of rounds.
      cohort_size: Number of clients per round.
      selection: The client selector, and its parameters.
      max_examples_per_client: Cap on a client's examples; 0 for none.
      batch_size: Number of examples in a client's mini-batch.
      learning_rate: Client learning rate.
      corrections: Corrections of the gradients in the clients' training.
      server_optimizer: Name and hyperparameters of the server optimizer.
      rounds_per_checkpoint: Rounds between checkpoints; 0 to save only the last round.
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
    rounds_per_checkpoint: int


@dataclasses.dataclass(frozen=True)
class Length:
    """Number of rounds of a run, and its periods of evaluation and checkpoints.

    Attributes:
      total_rounds: Total number of rounds, including those that earlier starts of the run have finished.
      rounds_per_eval: Rounds between evaluations; 0 to evaluate only after the last round.
      rounds_per_checkpoint: Rounds between checkpoints; 0 to save only the last round.
    """

    total_rounds: int
    rounds_per_eval: int = 0
    rounds_per_checkpoint: int = 0

    def ends_in_evaluation(self, round_num: int) -> bool:
        """Whether a round ends with an evaluation."""
        every = self.rounds_per_eval
        return round_num == self.total_rounds or bool(every and round_num % every == 0)
