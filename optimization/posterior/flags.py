"""Algorithms of posterior aggregation, flags of `run_posterior`, and all checks that need neither data nor TensorFlow.

Other studies can use the algorithms' flags through `define_algorithms`, `check_algorithm` and `posterior_options`.
"""

import dataclasses
import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from data.errors import UsageError
from data.settings import Count, Fraction, Positive, Setting, declared, make_options, numbers, setting
from optimization.options import ClientAlgorithm, Training
from optimization.study import cli, presets, selector_flags, task_flags, training_flags

USAGE = """
Federated training with posterior aggregation: the server takes the mean, or a mode, of a posterior over models.

  run_posterior                                             # digits, FedKP with clustering: about a minute
  run_posterior --algorithm=fedpa --burn_in_rounds=10 --repeat=3
  run_posterior --preset=mnist_alpha_0.01 --algorithm=fedavg  # a published setting

Defaults that are missing here depend on other flags; config.json in the run's folder records all values.
"""

PRESETS = pathlib.Path(__file__).parent / "presets"

EPANECHNIKOV, GAUSSIAN = "epanechnikov", "gaussian"
NEAREST = "nearest"  # The only bandwidth that depends on the current position, and so changes with each step.
BANDWIDTHS = ("silverman", "scott", "plug_in", "improved_sheather_jones", "cross_validation", NEAREST)

SQRT_2_RATE, TWICE_RATE = "sqrt_2_rate", "2_rate"
DEVIATIONS = {
    SQRT_2_RATE: "the square root of 2 * --client_learning_rate (equation 2.16, if 2 eta is the variance)",
    TWICE_RATE: "2 * --client_learning_rate (2 eta is the standard deviation, as in the published code)",
}


def deviation(name: str, learning_rate: float) -> float:
    """Standard deviation of the noise by its name in `DEVIATIONS`."""
    return {SQRT_2_RATE: math.sqrt(2 * learning_rate), TWICE_RATE: 2 * learning_rate}[name]


ALGORITHMS = {
    "fedavg": "mean model, weighted by examples (Algorithm 1)",
    "fedopt": "the same mean, used as a gradient by a server optimizer, by default Adam (Algorithm 2)",
    "fedag": "mean model; predictions use samples from a Gaussian posterior (Algorithm 3)",
    "fedbe": "an ensemble of posterior samples, client models and their mean, distilled on --server_data (Algorithm 4)",
    "fedpa": "clients' deltas multiplied by their posterior's inverse covariance (Algorithms 5, 6)",
    "sgld": "mean model with Langevin noise at the server; the states after the burn-in are averaged (equation 2.16)",
    "fedkp": "mode of the models' kernel density that mean shift reaches from their mean (Algorithm 9)",
    "fedkp_cluster_mean": "each client's model shifted to its mode, then averaged (Algorithm 10)",
    "fedkppa": "Algorithm 10, applied to FedPA's deltas",
}
CHAINS = ("fedpa", "fedkppa")  # Clients send results of a chain of samples.
BURNING_IN = (*CHAINS, "sgld")
MODES = ("fedkp", "fedkp_cluster_mean", "fedkppa")  # The server needs each client's model.
KEEP_MODELS = (*MODES, "fedag", "fedbe")


@dataclasses.dataclass(frozen=True)
class MeanShift:
    """FedKP and FedKPPA: mean shift of each parameter separately.

    Each step moves to the mean of the samples, weighted by the kernel, as in Algorithm 8. The steps climb the density
    estimate that uses the kernel's shadow (Cheng 1995): that of the Epanechnikov kernel is the biweight kernel; that of
    the Gaussian kernel is that kernel itself.

    A parameter does not change if all clients agree on it. A starting point that no kernel reaches does not move; a
    Gaussian kernel reaches every point. The model of a single client is its own mode. As the bandwidth grows, every
    result approaches the clients' mean.
    """

    kernel: str = setting(EPANECHNIKOV, "Kernel of the density", [EPANECHNIKOV, GAUSSIAN])
    bandwidth: str = setting("silverman", "Rule for the bandwidth of each parameter", list(BANDWIDTHS))
    bandwidth_scale: Positive = setting(1.0, "Factor of the bandwidth")
    mean_shift_steps: Count = setting(20, "Maximum number of steps, t_max")

    @property
    def has_windows(self) -> bool:
        """Whether each sample has a window of fixed width, and has no weight outside of it."""
        return self.kernel == EPANECHNIKOV and self.bandwidth != NEAREST


@dataclasses.dataclass(frozen=True)
class Posterior:
    """An algorithm of posterior aggregation, and its settings.

    Attributes:
      name: A key of `ALGORITHMS`, which determines the settings that are used.
      mean_shift: FedKP's mean shift to a mode.
      posterior_samples: Number of sampled models, for predictions (FedAG) or to distil (FedBE).
      distillation_epochs: Number of passes of FedBE over the server's examples.
    """

    name: str
    burn_in_rounds: int = setting(
        0,
        "Initial rounds in which clients train as in FedAvg; for sgld, rounds that its average leaves out "
        "(default: half)",
    )
    steps_per_sample: int = setting(0, "Number of steps over which a sample is averaged, K; 0 for one epoch")
    shrinkage: float = setting(0.1, "Shrinkage of the covariance; with 0 it is the identity")
    langevin_deviation: str = setting(
        None,
        "Standard deviation of the noise on each weight",
        DEVIATIONS,
        unset=SQRT_2_RATE,
        applied_default=SQRT_2_RATE,
    )
    mean_shift: MeanShift = MeanShift()
    posterior_samples: int = 10
    distillation_epochs: int = 20


def define_algorithms(flags: cli.FlagSet, flag: str) -> None:
    """Defines the groups of settings of the algorithms, which the setting `flag` selects."""
    flags.group("FedKP and FedKPPA", MeanShift, **{flag: MODES})
    readers = {"steps_per_sample": CHAINS, "shrinkage": CHAINS, "langevin_deviation": ("sgld",)}
    changes: dict[str, Mapping[str, Any]] = {name: {"only": {flag: names}} for name, names in readers.items()}
    changes["burn_in_rounds"] = {
        "default": lambda settings: settings.total_rounds // 2,
        "convert": lambda rounds, settings: rounds if settings[flag] in BURNING_IN else 0,
    }
    flags.group("FedPA, FedKPPA and SGLD", *declared(Posterior, **changes), **{flag: BURNING_IN})


def check_algorithm(settings: cli.Settings, flag: str) -> None:
    """Checks the settings of the algorithm that the setting `flag` names.

    Raises:
      UsageError: If the burn-in is longer than the run or, for SGLD, equally long.
    """
    settings.check_order("burn_in_rounds", "total_rounds")
    if settings[flag] == "sgld" and settings.burn_in_rounds == settings.total_rounds:
        raise UsageError("--burn_in_rounds leaves no rounds for SGLD to average: give fewer than --total_rounds.")


def posterior_options(settings: Mapping[str, Any], flag: str) -> Posterior:
    """Builds the options of the algorithm that the setting `flag` names."""
    return make_options(Posterior, settings, name=settings[flag], mean_shift=make_options(MeanShift, settings))


_SERVER_LEARNING_RATE = 0.01  # For adaptive optimizers. For SGD, the rate is 1, which applies the aggregate unchanged.
_SERVER_CLIENTS = re.compile(r"clients:(\d+)")


@dataclasses.dataclass(frozen=True)
class _FedagAndFedbe:
    """Settings of FedAG and FedBE."""

    posterior_samples: Count = setting(10, "Number of sampled models, for predictions (FedAG) or to distil (FedBE)")
    server_data: str = setting(
        None,
        "The server's unlabelled examples: clients:N for those of the first N clients, who then do not train",
        only={"algorithm": ("fedbe",)},
    )
    distillation_epochs: Count = setting(20, "Number of passes over --server_data", only={"algorithm": ("fedbe",)})


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RoundsAndClients:
    """Settings of rounds and cohorts."""

    total_rounds: Count = setting(50, "Number of rounds", basic=True)
    cohort_size: Count = setting(
        20,
        "Number of clients in a cohort; the default is capped at the population",
        name="clients_per_round",
        basic=True,
    )
    client_sampling_alpha: Positive | None = setting(
        None,
        "Dirichlet parameter of clients' participation frequency; small values favour few clients (default: uniform)",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Clients:
    """Settings of the clients' training."""

    max_examples_per_client: int = setting(0, "Maximum number of examples per client, sampled by seed; 0 for no limit")
    batch_size: Count = setting(16, "Number of examples per mini-batch", name="client_batch_size")
    epochs: Count = setting(5, "Number of passes of a client over its examples", name="client_epochs_per_round")
    learning_rate: Positive = setting(0.01, "Learning rate of the clients", name="client_learning_rate", basic=True)
    momentum: Fraction = setting(0.9, "Momentum of the clients", name="client_momentum", below=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Evaluation:
    """Settings of the diagnostics."""

    diagnose_rounds: tuple[int, ...] = setting(
        None,
        "Rounds, separated by commas, in which the cohort's models are tested for normality and plotted",
        numbers(whole=True),
        name="diagnose_round",
        unset=(),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PosteriorOptions(_RoundsAndClients, _Clients, _Evaluation, ClientAlgorithm, Training):
    """Options of a run.

    Attributes:
      posterior: The algorithm and its hyperparameters.
      server_clients: Number of clients who give their examples to the server and do not train.
    """

    posterior: Posterior
    server_clients: int


def define(flags: cli.FlagSet) -> None:
    """Defines the study's own flags."""
    algorithm = Setting("algorithm", ALGORITHMS, "Aggregation of a cohort's models", "fedkp_cluster_mean", basic=True)
    flags.add(task_flags.TASK_TYPE, algorithm, task_flags.VARIANT)
    define_algorithms(flags, "algorithm")
    flags.group("FedAG and FedBE", _FedagAndFedbe, algorithm=("fedag", "fedbe"))
    flags.group("Rounds and clients", _RoundsAndClients, selector_flags.SELECTION)
    flags.add(selector_flags.SelectorSettings, _Clients, ClientAlgorithm, *training_flags.CORRECTIONS)
    optimizer = {
        "help": "Optimizer on the server (default: sgd; fedopt: adam)",
        "default": lambda settings: "adam" if settings.algorithm == "fedopt" else "sgd",
    }
    rate = {
        "help": "Learning rate on the server (default: sgd 1, others 0.01)",
        "default": lambda settings: 1.0 if settings.server_optimizer == "sgd" else _SERVER_LEARNING_RATE,
        "above": True,
    }
    flags.group("Server", *training_flags.server(optimizer, rate))
    flags.group("Evaluation", _Evaluation, *training_flags.EVALUATIONS)
    task_flags.define_data(flags)


def default_name(settings: cli.Settings) -> str:
    """Default of `--experiment_name`."""
    return f"{settings.preset or f'posterior_{settings.task_type}'}_{settings.algorithm}"


def with_preset(settings: cli.Settings) -> cli.Settings:
    """Settings with the values of `--preset`.

    FedOpt keeps its own optimizer: with SGD, the presets' optimizer, it would be FedAvg. If the user sets fewer rounds
    than the preset, the preset's burn-in is shortened in proportion.
    """
    with_values, published = presets.applied(settings, PRESETS), presets.values(settings.preset, PRESETS)
    if with_values.algorithm == "fedopt":
        with_values = with_values.without(*{"server_optimizer", "server_learning_rate"} - settings.set_by_user)
    if "burn_in_rounds" in settings.set_by_user or "burn_in_rounds" not in published:
        return with_values
    rounds = published["total_rounds"]
    burn_in = published["burn_in_rounds"] * min(with_values.total_rounds, rounds) // rounds
    return with_values.replace(burn_in_rounds=burn_in)


def check(settings: cli.Settings) -> None:
    """Checks the flags' combination.

    Raises:
      UsageError: If a flag has no effect, or values are incompatible.
    """
    check_algorithm(settings, "algorithm")
    training_flags.check_algorithm(settings)
    _check_server_data(settings)
    if settings.client_selection != "uniform" and settings.client_sampling_alpha is not None:
        raise UsageError("--client_sampling_alpha samples cohorts by itself: leave out --client_selection.")
    if max(settings.diagnose_round or (), default=0) > settings.total_rounds:
        raise UsageError(
            f"--diagnose_round={max(settings.diagnose_round)} must be at most --total_rounds={settings.total_rounds}."
        )
    if settings.diagnose_round and settings.clients_per_round < 2:
        raise UsageError("--diagnose_round needs --clients_per_round=2 or more: one model has no distribution.")
    task_flags.check(settings)


def options(settings: cli.Settings) -> PosteriorOptions:
    """Builds the options of a run from its flags."""
    return training_flags.options(
        settings,
        PosteriorOptions,
        posterior=posterior_options(settings, "algorithm"),
        server_clients=_server_clients(settings),
    )


def notes(settings: cli.Settings) -> Sequence[str]:
    """A note if the burn-in of a preset was shortened."""
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
        raise UsageError("--algorithm=fedbe needs --server_data=clients:N, which gives the server N clients' examples.")
    if not _server_clients(settings):
        raise UsageError(f"--server_data={settings.server_data} must be clients:N with N above 0.")


def _server_clients(settings: cli.Settings) -> int:
    match = _SERVER_CLIENTS.fullmatch(settings.server_data or "")
    return int(match[1]) if match else 0
