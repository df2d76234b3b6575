"""Posterior aggregation algorithms by name, flags of `run_posterior`, and every check that needs no data or TensorFlow.

Another study has the algorithms' flags by `define_algorithms`, `resolve_algorithm` and `posterior_options`.
"""

import dataclasses
import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from data.errors import UsageError
from optimization.options import Training, named
from optimization.study import cli, presets, selector_flags, task_flags, training_flags
from optimization.study.settings import declared, setting, title

USAGE = """
Federated training with posterior aggregation: the server takes the mean, or a mode, of a posterior over models.

  run_posterior                                             # digits, FedKP with clustering: about a minute
  run_posterior --algorithm=fedpa --burn_in_rounds=10 --repeat=3
  run_posterior --preset=mnist_alpha_0.01 --algorithm=fedavg  # a published setting

Defaults that are missing here depend on other flags; config.json in the run's folder records all values.
"""

PRESETS = pathlib.Path(__file__).parent / "presets"

EPANECHNIKOV, GAUSSIAN = "epanechnikov", "gaussian"
NEAREST = "nearest"  # The only bandwidth that depends on the point, and changes with each step.
BANDWIDTHS = ("silverman", "scott", "plug_in", "improved_sheather_jones", "cross_validation", NEAREST)


@dataclasses.dataclass(frozen=True)
class MeanShift:
    """Mean shift of each parameter separately.

    Steps are weighed by the kernel's values, as in Algorithm 8. They climb the density whose slope the kernel is: for
    Epanechnikov's, that of the biweight kernel; the Gaussian is its own slope.

    A parameter in which all clients agree stays as it is, and so does a start that no kernel reaches; the Gaussian's
    reaches everywhere. The model of a single client is its own mode. As the bandwidth grows, every result becomes the
    clients' mean.

    Attributes:
      kernel: The density's kernel, `EPANECHNIKOV` or `GAUSSIAN`.
      bandwidth: One of `BANDWIDTHS`.
      bandwidth_scale: Factor of the bandwidth.
      mean_shift_steps: Maximum number of steps of a parameter, t_max.

    Raises:
      ValueError: For an unknown name, or numbers out of range.
    """

    kernel: str = EPANECHNIKOV
    bandwidth: str = "silverman"
    bandwidth_scale: float = 1.0
    mean_shift_steps: int = 20

    def __post_init__(self):
        if self.bandwidth not in BANDWIDTHS or self.kernel not in (EPANECHNIKOV, GAUSSIAN):
            raise ValueError(f"{self} has an unknown kernel or bandwidth.")
        if not 0 < self.bandwidth_scale < math.inf or self.mean_shift_steps < 1:
            raise ValueError("bandwidth_scale must be finite and above 0, mean_shift_steps at least 1.")

    @property
    def has_windows(self) -> bool:
        """Whether the samples within reach of a point change only at the edges of windows of a fixed width."""
        return self.kernel == EPANECHNIKOV and self.bandwidth != NEAREST


SQRT_2_RATE, TWICE_RATE = "sqrt_2_rate", "2_rate"
DEVIATIONS = {
    SQRT_2_RATE: "the root of 2 --client_learning_rate (equation 2.16, its 2 eta read as a variance)",
    TWICE_RATE: "2 --client_learning_rate (2 eta read as a deviation, as in the published program)",
}


def deviation(name: str, learning_rate: float) -> float:
    """Standard deviation of the noise by its name in `DEVIATIONS`."""
    return {SQRT_2_RATE: math.sqrt(2 * learning_rate), TWICE_RATE: 2 * learning_rate}[name]


@dataclasses.dataclass(frozen=True)
class Posterior:
    """An algorithm of `ALGORITHMS` with its hyperparameters; each algorithm reads some of them.

    Attributes:
      name: The algorithm.
      burn_in_rounds: First rounds, in which clients train as in FedAvg; for SGLD, those outside its average.
      steps_per_sample: Steps whose models a chain's sample averages, K; 0 for those of an epoch.
      shrinkage: Shrinkage of FedPA's covariance; with 0 it is the identity.
      langevin_deviation: Standard deviation of SGLD's noise at the server, one of `DEVIATIONS`.
      mean_shift: FedKP's mean shift to a mode.
      posterior_samples: Models sampled, for predictions (FedAG) or to distil (FedBE).
      distillation_epochs: Passes of FedBE over the server's examples.
    """

    name: str
    burn_in_rounds: int = 0
    steps_per_sample: int = 0
    shrinkage: float = 0.1
    langevin_deviation: str = SQRT_2_RATE
    mean_shift: MeanShift = dataclasses.field(default_factory=MeanShift)
    posterior_samples: int = 10
    distillation_epochs: int = 20


ALGORITHMS = {
    "fedavg": "mean model, weighted by examples (Algorithm 1)",
    "fedopt": "the same mean as a gradient of a server optimizer, by default Adam (Algorithm 2)",
    "fedag": "mean model; predicts with samples of a Gaussian posterior (Algorithm 3)",
    "fedbe": "an ensemble of posterior samples, clients and mean, distilled on --server_data (Algorithm 4)",
    "fedpa": "clients' deltas multiplied by their posterior's inverse covariance (Algorithms 5, 6)",
    "sgld": "mean model with Langevin noise at the server, whose chain is averaged after the burn-in (equation 2.16)",
    "fedkp": "mode nearest to the mean of the models' kernel density (Algorithm 9)",
    "fedkp_cluster_mean": "each client's model shifted to its mode, then averaged (Algorithm 10)",
    "fedkppa": "Algorithm 10 on FedPA's deltas",
}
CHAINS = ("fedpa", "fedkppa")  # Clients send results of a chain of samples.
BURNING_IN = (*CHAINS, "sgld")
MODES = ("fedkp", "fedkp_cluster_mean", "fedkppa")  # The server needs each client's model.
KEEP_MODELS = (*MODES, "fedag", "fedbe")


class Kernels:
    """FedKP and FedKPPA.

    Attributes:
      kernel: Kernel of the density.
      bandwidth: Rule of a parameter's bandwidth.
      bandwidth_scale: Factor of the bandwidth.
      mean_shift_steps: Maximum number of steps, t_max.
    """

    kernel: str = setting(EPANECHNIKOV, [EPANECHNIKOV, GAUSSIAN])
    bandwidth: str = setting("silverman", list(BANDWIDTHS))
    bandwidth_scale: float = setting(1.0, above=True)
    mean_shift_steps: int = setting(20, low=1)


class Chains:
    """FedPA, FedKPPA and SGLD.

    Attributes:
      burn_in_rounds: First rounds, in which clients train as in FedAvg; for sgld, those outside its
        average (default: half).
      steps_per_sample: Number of steps that a sample averages, K; 0 for one epoch.
      shrinkage: Shrinkage of the covariance; with 0 it is the identity.
      langevin_deviation: Standard deviation of the noise on each weight.
    """

    burn_in_rounds: int = setting()
    steps_per_sample: int = setting(0)
    shrinkage: float = setting(0.1)
    langevin_deviation: str = setting(words=DEVIATIONS, filled=SQRT_2_RATE)


def define_algorithms(flags: cli.FlagSet, flag: str) -> None:
    """Defines the groups of settings of the algorithms, which the setting `flag` selects."""
    flags.group(Kernels, **{flag: MODES})
    readers = {"steps_per_sample": CHAINS, "shrinkage": CHAINS, "langevin_deviation": ("sgld",)}
    settings = declared(Chains, **{name: {"only": {flag: algorithms}} for name, algorithms in readers.items()})
    flags.group(title(Chains), *settings, **{flag: BURNING_IN})


def resolve_algorithm(settings: cli.Settings, flag: str) -> cli.Settings:
    """Completes the algorithm's settings.

    Args:
      settings: Settled flags, with `total_rounds`.
      flag: The flag that names the algorithm.

    Raises:
      UsageError: If the burn-in is longer than the run, or SGLD's as long.
    """
    if settings[flag] not in BURNING_IN:
        return settings.replace(burn_in_rounds=0)
    settings = settings.filled({"burn_in_rounds": settings.total_rounds // 2})
    settings.check_order("burn_in_rounds", "total_rounds")
    if settings[flag] == "sgld" and settings.burn_in_rounds == settings.total_rounds:
        raise UsageError("--burn_in_rounds leaves SGLD nothing to average: give less than --total_rounds.")
    return settings


def posterior_options(settings: Mapping[str, Any], flag: str) -> Posterior:
    """Algorithm of resolved flags.

    Args:
      settings: Flags.
      flag: The flag that names the algorithm.
    """
    return named(Posterior, settings, name=settings[flag], mean_shift=named(MeanShift, settings))


_SERVER_LEARNING_RATE = 0.01  # Of the adaptive optimizers; SGD's is 1, which applies the aggregate unchanged.
_SERVER_CLIENTS = re.compile(r"clients:(\d+)")


@dataclasses.dataclass(frozen=True)
class PosteriorOptions(Training):
    """Options of a run.

    Attributes:
      posterior: The algorithm.
      server_clients: Number of clients that give their examples to the server, and do not train.
      client_sampling_alpha: Dirichlet parameter of clients' participation frequency; None for uniform sampling.
      epochs: Passes of a client over its examples.
      momentum: Momentum of its steps.
      diagnose_rounds: The rounds whose cohorts' models are tested for normality and plotted.
    """

    posterior: Posterior
    server_clients: int
    client_sampling_alpha: float | None
    epochs: int
    momentum: float
    diagnose_rounds: tuple[int, ...]


class _Study:
    """What is studied.

    Attributes:
      algorithm: Aggregation of a cohort's models.
    """

    algorithm: str = setting("fedkp_cluster_mean", ALGORITHMS, basic=True)


class _FedagAndFedbe:
    """FedAG and FedBE.

    Attributes:
      posterior_samples: Number of sampled models, for predictions (FedAG) or to distil (FedBE).
      server_data: The server's unlabelled examples, as clients:N: those of the first N clients, who then do not train.
      distillation_epochs: Number of passes over them.
    """

    posterior_samples: int = setting(10, low=1)
    server_data: str = setting(only={"algorithm": ("fedbe",)})
    distillation_epochs: int = setting(20, low=1, only={"algorithm": ("fedbe",)})


class _RoundsAndClients:
    """Rounds and clients.

    Attributes:
      total_rounds: Rounds.
      clients_per_round: Number of clients in a cohort; the default is at most the population.
      client_sampling_alpha: Dirichlet parameter of clients' participation frequency; small values favour few clients
        (default: uniform).
    """

    total_rounds: int = setting(50, low=1, basic=True)
    clients_per_round: int = setting(20, low=1, basic=True)
    client_sampling_alpha: float = setting(above=True)


class _Clients:
    """Clients.

    Attributes:
      max_examples_per_client: Cap on a client's examples, a seeded choice; 0 for none.
      client_batch_size: Examples of a mini-batch.
      client_epochs_per_round: Passes of a client over its examples.
      client_learning_rate: Learning rate on the client.
      client_momentum: Momentum on the client.
    """

    max_examples_per_client: int = setting(0)
    client_batch_size: int = setting(16, low=1)
    client_epochs_per_round: int = setting(5, low=1)
    client_learning_rate: float = setting(0.01, above=True, basic=True)
    client_momentum: float = setting(0.9, high=1.0, below=True)


class _Evaluation:
    """Evaluation.

    Attributes:
      diagnose_round: Rounds, separated by commas, whose cohorts' models are tested for normality and plotted.
    """

    diagnose_round: str = setting()


def define(flags: cli.FlagSet) -> None:
    """Defines the study's own flags."""
    flags.add(task_flags.TASK_TYPE, _Study, task_flags.VARIANT)
    define_algorithms(flags, "algorithm")
    flags.group(_FedagAndFedbe, algorithm=("fedag", "fedbe"))
    flags.group(_RoundsAndClients, selector_flags.SELECTION)
    selector_flags.define(flags)
    flags.add(_Clients, *training_flags.CORRECTIONS)
    optimizer = {"help": "Optimizer on the server (default: sgd; fedopt: adam)"}
    rate = {"help": "Learning rate on the server (default: sgd 1, others 0.01)", "above": True}
    flags.group("Server", *training_flags.server(optimizer, rate))
    flags.group(_Evaluation, *training_flags.EVALUATIONS)
    task_flags.define_data(flags)


def resolve(settings: cli.Settings) -> cli.Settings:
    """Completes defaults that depend on other flags, and checks the flags' combination.

    Raises:
      UsageError: On a flag without effect, or values that do not go together.
    """
    algorithm = settings.algorithm
    if settings.preset and algorithm == "fedopt":  # With the presets' optimizer, SGD, it would be FedAvg.
        settings = settings.with_defaults({"server_optimizer": None, "server_learning_rate": None})
    settings = settings.filled({"server_optimizer": "adam" if algorithm == "fedopt" else "sgd"}).settled()
    settings = resolve_algorithm(settings.replace(burn_in_rounds=_burn_in(settings)), "algorithm")
    rate = 1.0 if settings.server_optimizer == "sgd" else _SERVER_LEARNING_RATE
    settings = settings.filled({"server_learning_rate": rate})
    _check_server_data(settings)
    if settings.client_selection != "uniform" and settings.client_sampling_alpha is not None:
        raise UsageError("--client_sampling_alpha samples cohorts itself: leave out --client_selection.")
    if max(_diagnose_rounds(settings), default=0) > settings.total_rounds:
        raise UsageError(
            f"--diagnose_round={settings.diagnose_round} must be at most --total_rounds={settings.total_rounds}."
        )
    if settings.diagnose_round and settings.clients_per_round < 2:
        raise UsageError("--diagnose_round needs --clients_per_round=2 or more: a single model has no distribution.")
    name = f"{settings.preset or f'posterior_{settings.task_type}'}_{algorithm}"
    settings = settings.filled({"experiment_name": name})
    return task_flags.resolve(settings)


def options(settings: cli.Settings) -> PosteriorOptions:
    """Options of resolved flags."""
    return training_flags.options(
        settings,
        PosteriorOptions,
        posterior=posterior_options(settings, "algorithm"),
        server_clients=_server_clients(settings),
        epochs=settings.client_epochs_per_round,
        momentum=settings.client_momentum,
        diagnose_rounds=_diagnose_rounds(settings),
    )


def _burn_in(settings: cli.Settings) -> int | None:
    """Value of `--burn_in_rounds`; a preset's is shortened in proportion to its `--total_rounds`."""
    published = presets.values(settings.preset, PRESETS)
    if "burn_in_rounds" in settings.set_by_user or "burn_in_rounds" not in published:
        return settings.burn_in_rounds
    rounds = published["total_rounds"]
    return published["burn_in_rounds"] * min(settings.total_rounds, rounds) // rounds


def notes(settings: cli.Settings) -> Sequence[str]:
    """Note on a preset's shortened burn-in, if it was shortened."""
    published = presets.values(settings.preset, PRESETS).get("burn_in_rounds")
    is_set = published is None or "burn_in_rounds" in settings.set_by_user
    if is_set or settings.algorithm not in BURNING_IN or settings.burn_in_rounds == published:
        return []
    return [
        f"--burn_in_rounds is {settings.burn_in_rounds}, not {published} as in --preset={settings.preset}: it is "
        f"shortened in proportion to --total_rounds={settings.total_rounds}."
    ]


def _check_server_data(settings: cli.Settings) -> None:
    if settings.algorithm != "fedbe":
        return
    if not settings.server_data:
        raise UsageError("--algorithm=fedbe needs --server_data=clients:N, the clients whose examples the server has.")
    if not _server_clients(settings):
        raise UsageError(f"--server_data={settings.server_data} must be clients:N with N above 0.")


def _server_clients(settings: cli.Settings) -> int:
    match = _SERVER_CLIENTS.fullmatch(settings.server_data or "")
    return int(match[1]) if match else 0


def _diagnose_rounds(settings: cli.Settings) -> tuple[int, ...]:
    return tuple(cli.whole_numbers("diagnose_round", settings.diagnose_round)) if settings.diagnose_round else ()
