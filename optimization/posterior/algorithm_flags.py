"""Posterior aggregation algorithms by name, their options and flags; needs no TensorFlow."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from data.errors import UsageError
from optimization.options import named
from optimization.posterior import kernels, mean_shift
from optimization.posterior.mean_shift import MeanShift
from optimization.study import cli
from optimization.study.settings import declared, setting, title

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
      kernel_weights: Weight of a client's kernel, and of its model, `uniform` or `num_examples`.
      kernel_bandwidths: With `num_examples`, a client's bandwidth is inversely proportional to its number of examples.
      posterior_samples: Models sampled, for predictions (FedAG) or to distil (FedBE).
      distillation_epochs: Passes of FedBE over the server's examples.
    """

    name: str
    burn_in_rounds: int = 0
    steps_per_sample: int = 0
    shrinkage: float = 0.1
    langevin_deviation: str = SQRT_2_RATE
    mean_shift: MeanShift = dataclasses.field(default_factory=MeanShift)
    kernel_weights: str = "uniform"
    kernel_bandwidths: str = "uniform"
    posterior_samples: int = 10
    distillation_epochs: int = 20


ALGORITHMS = {
    "fedavg": "mean model, weighted by examples (Algorithm 1)",
    "fedopt": "the same mean as a gradient of a server optimizer, by default Adam (Algorithm 2)",
    "fedag": "mean model; predicts with samples of a Gaussian posterior (Algorithm 3)",
    "fedbe": "an ensemble of posterior samples, clients and mean, distilled on --server_data (Algorithm 4)",
    "fedpa": "clients' deltas multiplied by their posterior's inverse covariance (Algorithms 5, 6)",
    "sgld": "mean model with Langevin noise at the server, whose chain is averaged after the burn-in (equation 2.16)",
    "client_sgld": "clients' steps with Langevin noise, their chains averaged",
    "fedkp": "mode nearest to the mean of the models' kernel density (Algorithm 9)",
    "fedkp_cluster_mean": "each client's model shifted to its mode, then averaged (Algorithm 10)",
    "fedkppa": "Algorithm 10 on FedPA's deltas",
}
CHAINS = ("fedpa", "client_sgld", "fedkppa")  # Clients send results of a chain of samples.
BURNING_IN = (*CHAINS, "sgld")
KERNELS = ("fedkp", "fedkp_cluster_mean", "fedkppa")  # The server needs each client's model.
KEEP_MODELS = (*KERNELS, "fedag", "fedbe")


class Kernels:
    """FedKP and FedKPPA.

    Attributes:
      kernel: Kernel of the density.
      bandwidth: Rule of a parameter's bandwidth.
      bandwidth_scale: Factor of the bandwidth.
      kernel_weights: Weight of a client's kernel, and of its model.
      kernel_bandwidths: Num_examples: a client's bandwidth is inversely proportional to its number of examples.
      mean_shift_weights: Weight of a client in a step.
      mean_shift_tolerance: Step length below which a parameter stops.
      mean_shift_steps: Maximum number of steps, t_max.
    """

    kernel: str = setting("epanechnikov", list(kernels.KERNELS))
    bandwidth: str = setting("silverman", [*kernels.RULES, kernels.NEAREST])
    bandwidth_scale: float = setting(1.0, above=True)
    kernel_weights: str = setting("uniform", ["uniform", "num_examples"])
    kernel_bandwidths: str = setting("uniform", ["uniform", "num_examples"])
    mean_shift_weights: str = setting(words=mean_shift.WEIGHTS, filled=mean_shift.KERNEL)
    mean_shift_tolerance: float = setting(1e-7)
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


def define(flags: cli.FlagSet, flag: str) -> None:
    """Defines the groups of settings of the algorithms, which the setting `flag` selects."""
    flags.group(Kernels, **{flag: KERNELS})
    readers = {"steps_per_sample": CHAINS, "shrinkage": ("fedpa", "fedkppa"), "langevin_deviation": ("sgld",)}
    settings = declared(Chains, **{name: {"only": {flag: algorithms}} for name, algorithms in readers.items()})
    flags.group(title(Chains), *settings, **{flag: BURNING_IN})


def resolve(settings: cli.Settings, flag: str) -> cli.Settings:
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


def options(settings: Mapping[str, Any], flag: str) -> Posterior:
    """Algorithm of resolved flags.

    Args:
      settings: Flags.
      flag: The flag that names the algorithm.
    """
    climb = named(
        MeanShift,
        settings,
        "mean_shift_",
        kernel=kernels.KERNELS[settings["kernel"]],
        bandwidth=settings["bandwidth"],
        scale=settings["bandwidth_scale"],
        t_max=settings["mean_shift_steps"],
        step_weights=settings["mean_shift_weights"] or mean_shift.KERNEL,
    )
    return named(Posterior, settings, name=settings[flag], mean_shift=climb)
