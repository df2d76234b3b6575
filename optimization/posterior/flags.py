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
What do a cohort's models say together? Federated training whose server takes the mean, or a mode, of a posterior.

  run_posterior                                             # digits, FedKP with clustering: about a minute
  run_posterior --algorithm=fedpa --burn_in_rounds=10 --repeat=3
  run_posterior --preset=mnist_alpha_0.01 --algorithm=fedavg  # a published setting

Where a default is missing here, it depends on other flags; config.json in the run's folder records all values.
"""

PRESETS = pathlib.Path(__file__).parent / "presets"

_SERVER_LEARNING_RATE = 0.01  # Of the adaptive optimizers; SGD's is 1, which takes the aggregate as it is.
_DRAWN = "last:3"
_COUNTED = re.compile(r"(last|random):([1-9]\d{0,8})")
_NUMBERED = re.compile(r"\d{1,9}(,\d{1,9})*")
_MOST_DRAWN = 12
_SERVER_CLIENTS = re.compile(r"clients:(\d+)")


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Some of a model's parameters: those of `numbers`, or else `count` of them.

    Attributes:
      count: How many.
      is_random: Whether they are drawn, and not the last ones.
      numbers: Their places in the model's weights, from 0.
    """

    count: int = 0
    is_random: bool = False
    numbers: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class PosteriorOptions(Training):
    """What the flags mean.

    Attributes:
      posterior: The algorithm.
      server_clients: How many clients give their examples to the server, and do not train.
      server_file: The server's examples from elsewhere, or None.
      client_sampling_alpha: Dirichlet parameter of how often clients take part; None for all alike.
      epochs: Passes of a client over its examples.
      momentum: Of its steps.
      thresholds: Of the running means, whose first rounds are told.
      diagnose_rounds: The rounds whose cohorts' models are tested for normality and drawn.
      diagnose_parameters: Whose densities are drawn.
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
      algorithm: How a cohort's models become one.
    """

    algorithm: str = setting("fedkp_cluster_mean", algorithm_flags.ALGORITHMS, basic=True)


class _FedagAndFedbe:
    """FedAG and FedBE.

    Attributes:
      posterior_samples: Models sampled, for predictions (FedAG) or to distil (FedBE).
      server_data: The server's unlabelled examples, clients:N for those of the first N clients, who then do not train,
        or an .npz file with the array features.
      distillation_epochs: Passes over them.
    """

    posterior_samples: int = setting(10, low=1)
    server_data: str = setting(only={"algorithm": ("fedbe",)})
    distillation_epochs: int = setting(20, low=1, only={"algorithm": ("fedbe",)})


class _RoundsAndClients:
    """Rounds and clients.

    Attributes:
      total_rounds: Rounds.
      clients_per_round: Clients in a cohort; the default at most all clients.
      client_sampling_alpha: Dirichlet parameter of how often clients take part; small: few do (default: all alike).
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
      thresholds: Count the rounds until the running means reach these, separated by commas.
      diagnose_round: Rounds, separated by commas, whose cohorts' models are tested for normality and drawn.
      diagnose_parameters: Parameters whose densities are drawn: last:N, the last N, biases of the last layer; random:N,
        a seeded draw; or their numbers from 0, separated by commas; at most 12.
    """

    thresholds: str = setting("0.84,0.86")
    diagnose_round: str = setting()
    diagnose_parameters: str = setting(only={"diagnose_round": True}, filled=_DRAWN)


def define(flags: cli.FlagSet) -> None:
    """Defines the study's own flags."""
    flags.add(task_flags.TASK_TYPE, _Study, task_flags.VARIANT)
    algorithm_flags.define(flags, "algorithm")
    flags.group(_FedagAndFedbe, algorithm=("fedag", "fedbe"))
    flags.group(_RoundsAndClients, selector_flags.SELECTION)
    selector_flags.define(flags)
    flags.add(_Clients, *training_flags.CORRECTIONS)
    optimizer = {"help": "Its optimizer (default: sgd; fedopt: adam)"}
    rate = {"help": "Its learning rate (default: sgd 1, others 0.01)", "above": True}
    flags.group("Server", *training_flags.server(optimizer, rate))
    flags.group(_Evaluation, *training_flags.EVALUATIONS)
    task_flags.define_data(flags)


def resolve(settings: cli.Settings) -> cli.Settings:
    """Fills in what depends on other flags, and checks flags against each other.

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
        raise UsageError("--client_sampling_alpha draws cohorts itself: leave out --client_selection.")
    if max(_diagnose_rounds(settings), default=0) > settings.total_rounds:
        raise UsageError(
            f"--diagnose_round={settings.diagnose_round} must be at most --total_rounds={settings.total_rounds}."
        )
    if settings.diagnose_round and settings.clients_per_round < 2:
        raise UsageError("--diagnose_round needs --clients_per_round=2 or more: one model has no distribution.")
    _thresholds(settings.thresholds)
    _parameters(settings.diagnose_parameters or _DRAWN)
    name = f"{settings.preset or f'posterior_{settings.task_type}'}_{algorithm}"
    settings = settings.filled({"experiment_name": name})
    if settings.server_data and not _server_clients(settings):
        settings = settings.replace(server_data=cli.user_path(settings.server_data))
    return task_flags.resolve(settings)


def options(settings: cli.Settings) -> PosteriorOptions:
    """Returns what resolved flags mean."""
    server_clients = _server_clients(settings)
    return PosteriorOptions(
        **vars(training_flags.options(settings)),
        posterior=algorithm_flags.options(settings, "algorithm"),
        server_clients=server_clients,
        server_file=None if server_clients else settings.server_data,
        client_sampling_alpha=settings.client_sampling_alpha,
        epochs=settings.client_epochs_per_round,
        momentum=settings.client_momentum,
        thresholds=_thresholds(settings.thresholds),
        diagnose_rounds=_diagnose_rounds(settings),
        diagnose_parameters=_parameters(settings.diagnose_parameters or _DRAWN),
    )


def _burn_in(settings: cli.Settings) -> int | None:
    """Returns `--burn_in_rounds`; a preset's is shortened as much as its `--total_rounds`."""
    published = presets.values(settings.preset, PRESETS)
    if "burn_in_rounds" in settings.given or "burn_in_rounds" not in published:
        return settings.burn_in_rounds
    rounds = published["total_rounds"]
    return published["burn_in_rounds"] * min(settings.total_rounds, rounds) // rounds


def notes(settings: cli.Settings) -> Sequence[str]:
    """Returns what became of a preset's burn-in, if it was shortened."""
    published = presets.values(settings.preset, PRESETS).get("burn_in_rounds")
    if settings.algorithm not in algorithm_flags.BURNING_IN or published is None:
        return []
    if "burn_in_rounds" in settings.given or settings.burn_in_rounds == published:
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
    found = Parameters()
    if match := _COUNTED.fullmatch(text):
        found = Parameters(int(match[2]), match[1] == "random")
    elif _NUMBERED.fullmatch(text):
        found = Parameters(numbers=tuple(map(int, text.split(","))))
    if not 0 < (found.count or len(found.numbers)) <= _MOST_DRAWN:
        raise UsageError(f"--diagnose_parameters={text} must be last:N, random:N or numbers, at most {_MOST_DRAWN}.")
    if len(set(found.numbers)) < len(found.numbers):
        raise UsageError(f"--diagnose_parameters={text} names a parameter twice.")
    return found


def _thresholds(text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        numbers = (0.0,)
    if not all(0 < number <= 1 for number in numbers):
        raise UsageError(f"--thresholds={text} must be numbers above 0 up to 1, separated by commas.")
    return numbers
