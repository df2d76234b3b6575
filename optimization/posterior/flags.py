"""Flags of `run_posterior`, and every check that needs no data and no TensorFlow."""

import dataclasses
import pathlib
import re
from collections.abc import Sequence

from data.errors import UsageError
from optimization.options import Training
from optimization.posterior import algorithm_flags
from optimization.posterior.algorithm_flags import Posterior
from optimization.study import cli, presets, selector_flags, task_flags, training_flags
from optimization.study.settings import setting

USAGE = """
Federated training with posterior aggregation: the server takes the mean, or a mode, of a posterior over models.

  run_posterior                                             # digits, FedKP with clustering: about a minute
  run_posterior --algorithm=fedpa --burn_in_rounds=10 --repeat=3
  run_posterior --preset=mnist_alpha_0.01 --algorithm=fedavg  # a published setting

Defaults that are missing here depend on other flags; config.json in the run's folder records all values.
"""

PRESETS = pathlib.Path(__file__).parent / "presets"

_SERVER_LEARNING_RATE = 0.01  # Of the adaptive optimizers; SGD's is 1, which applies the aggregate unchanged.
_DIAGNOSED = "last:3"
_COUNTED = re.compile(r"(last|random):([1-9]\d{0,8})")
_NUMBERED = re.compile(r"\d{1,9}(,\d{1,9})*")
_MOST_DENSITIES = 12
_SERVER_CLIENTS = re.compile(r"clients:(\d+)")


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Some of a model's parameters: those of `numbers`, or else `count` of them.

    Attributes:
      count: Number of parameters.
      is_random: Whether they are sampled, instead of the last ones.
      numbers: Their positions in the model's weights, from 0.
    """

    count: int = 0
    is_random: bool = False
    numbers: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class PosteriorOptions(Training):
    """Options of a run.

    Attributes:
      posterior: The algorithm.
      server_clients: Number of clients that give their examples to the server, and do not train.
      server_file: File of the server's examples, or None.
      client_sampling_alpha: Dirichlet parameter of clients' participation frequency; None for uniform sampling.
      epochs: Passes of a client over its examples.
      momentum: Momentum of its steps.
      thresholds: Thresholds of the running means, whose first rounds are reported.
      diagnose_rounds: The rounds whose cohorts' models are tested for normality and plotted.
      diagnose_parameters: Parameters whose densities are plotted.
    """

    posterior: Posterior
    server_clients: int
    server_file: str | None
    client_sampling_alpha: float | None
    epochs: int
    momentum: float
    thresholds: tuple[float, ...]
    diagnose_rounds: tuple[int, ...]
    diagnose_parameters: Parameters


class _Study:
    """What is studied.

    Attributes:
      algorithm: Aggregation of a cohort's models.
    """

    algorithm: str = setting("fedkp_cluster_mean", algorithm_flags.ALGORITHMS, basic=True)


class _FedagAndFedbe:
    """FedAG and FedBE.

    Attributes:
      posterior_samples: Number of sampled models, for predictions (FedAG) or to distil (FedBE).
      server_data: The server's unlabelled examples: clients:N for those of the first N clients, who then do not train,
        or an .npz file with the array features.
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
      thresholds: Thresholds of the running means, separated by commas, for the number of rounds to reach them.
      diagnose_round: Rounds, separated by commas, whose cohorts' models are tested for normality and plotted.
      diagnose_parameters: Parameters whose densities are plotted: last:N, the last N, biases of the last layer;
        random:N, a seeded sample; or their numbers from 0, separated by commas; at most 12.
    """

    thresholds: str = setting("0.84,0.86")
    diagnose_round: str = setting()
    diagnose_parameters: str = setting(only={"diagnose_round": True}, filled=_DIAGNOSED)


def define(flags: cli.FlagSet) -> None:
    """Defines the study's own flags."""
    flags.add(task_flags.TASK_TYPE, _Study, task_flags.VARIANT)
    algorithm_flags.define(flags, "algorithm")
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
    settings = algorithm_flags.resolve(settings.replace(burn_in_rounds=_burn_in(settings)), "algorithm")
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
    _thresholds(settings.thresholds)
    _parameters(settings.diagnose_parameters or _DIAGNOSED)
    name = f"{settings.preset or f'posterior_{settings.task_type}'}_{algorithm}"
    settings = settings.filled({"experiment_name": name})
    if settings.server_data and not _server_clients(settings):
        settings = settings.replace(server_data=cli.user_path(settings.server_data))
    return task_flags.resolve(settings)


def options(settings: cli.Settings) -> PosteriorOptions:
    """Options of resolved flags."""
    server_clients = _server_clients(settings)
    return training_flags.options(
        settings,
        PosteriorOptions,
        posterior=algorithm_flags.options(settings, "algorithm"),
        server_clients=server_clients,
        server_file=None if server_clients else settings.server_data,
        epochs=settings.client_epochs_per_round,
        momentum=settings.client_momentum,
        thresholds=_thresholds(settings.thresholds),
        diagnose_rounds=_diagnose_rounds(settings),
        diagnose_parameters=_parameters(settings.diagnose_parameters or _DIAGNOSED),
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
    if settings.algorithm not in algorithm_flags.BURNING_IN or published is None:
        return []
    if "burn_in_rounds" in settings.set_by_user or settings.burn_in_rounds == published:
        return []
    return [
        f"--burn_in_rounds is {settings.burn_in_rounds}, not {published} as in --preset={settings.preset}: it is "
        f"shortened in proportion to --total_rounds={settings.total_rounds}."
    ]


def _check_server_data(settings: cli.Settings) -> None:
    if settings.algorithm != "fedbe":
        return
    if not settings.server_data:
        raise UsageError("--algorithm=fedbe needs --server_data: clients:N, or an .npz file with the array features.")
    if not settings.server_data.endswith(".npz") and _server_clients(settings) == 0:
        raise UsageError(f"--server_data={settings.server_data} must be clients:N with N above 0, or an .npz file.")


def _server_clients(settings: cli.Settings) -> int:
    match = _SERVER_CLIENTS.fullmatch(settings.server_data or "")
    return int(match[1]) if match else 0


def _diagnose_rounds(settings: cli.Settings) -> tuple[int, ...]:
    return tuple(cli.whole_numbers("diagnose_round", settings.diagnose_round)) if settings.diagnose_round else ()


def _parameters(text: str) -> Parameters:
    parameters = Parameters()
    if match := _COUNTED.fullmatch(text):
        parameters = Parameters(int(match[2]), match[1] == "random")
    elif _NUMBERED.fullmatch(text):
        parameters = Parameters(numbers=tuple(map(int, text.split(","))))
    if not 0 < (parameters.count or len(parameters.numbers)) <= _MOST_DENSITIES:
        raise UsageError(
            f"--diagnose_parameters={text} must be last:N, random:N or numbers, at most {_MOST_DENSITIES}."
        )
    if len(set(parameters.numbers)) < len(parameters.numbers):
        raise UsageError(f"--diagnose_parameters={text} names a parameter twice.")
    return parameters


def _thresholds(text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        numbers = (0.0,)
    if not all(0 < number <= 1 for number in numbers):
        raise UsageError(f"--thresholds={text} must be numbers above 0 up to 1, separated by commas.")
    return numbers
