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


def define(flags: cli.FlagSet) -> None:
    """Defines the study's own flags."""
    task_flags.define_choice(flags)
    flags.choice("algorithm", "fedkp_cluster_mean", algorithm_flags.ALGORITHMS, "how a cohort's models become one")
    task_flags.define_variant(flags)

    algorithm_flags.define_kernels(flags, "algorithm")
    algorithm_flags.define_chains(flags, "algorithm")

    flags.group("FedAG and FedBE", algorithm=("fedag", "fedbe"))
    flags.integer("posterior_samples", 10, "models sampled, for predictions (FedAG) or to distil (FedBE)", low=1)
    flags.text(
        "server_data",
        None,
        "the server's unlabelled examples, clients:N for those of the first N clients, who then do not train, "
        "or an .npz file with the array features",
    )
    flags.integer("distillation_epochs", 20, "passes over them", low=1)
    flags.belong("server_data", "distillation_epochs", algorithm=("fedbe",))

    flags.group("Rounds and clients")
    flags.integer("total_rounds", 50, "rounds", low=1)
    flags.integer("clients_per_round", 20, "clients in a cohort; the default at most all clients", low=1)
    flags.number(
        "client_sampling_alpha",
        None,
        "Dirichlet parameter of how often clients take part; small: few do (default: all alike)",
        above=True,
    )
    selection = {name: entry.help for name, entry in selector_flags.SELECTORS.items()}
    flags.choice("client_selection", "uniform", selection, "how a round's clients are chosen")
    selector_flags.define(flags)
    flags.integer("max_examples_per_client", 0, "cap on a client's examples, a seeded choice; 0 for none")
    flags.integer("client_batch_size", 16, "examples of a mini-batch", low=1)
    flags.integer("client_epochs_per_round", 5, "passes of a client over its examples", low=1)
    flags.number("client_learning_rate", 0.01, "learning rate on the client", above=True)
    flags.number("client_momentum", 0.9, "momentum on the client", high=1.0, below=True)
    training_flags.define_corrections(flags)

    flags.group("Server")
    training_flags.define_server(
        flags,
        None,
        "its optimizer (default: sgd; fedopt: adam)",
        learning_rate_help="its learning rate (default: sgd 1, others 0.01)",
        above=True,
    )

    flags.group("Evaluation")
    flags.text("thresholds", "0.84,0.86", "count the rounds until the running means reach these, separated by commas")
    flags.text(
        "diagnose_round", None, "rounds, separated by commas, whose cohorts' models are tested for normality and drawn"
    )
    flags.text(
        "diagnose_parameters",
        None,
        "parameters whose densities are drawn: last:N, the last N, biases of the last layer; random:N, a seeded draw; "
        f"or their numbers from 0, separated by commas; at most {_MOST_DRAWN} (default: {_DRAWN})",
    )
    flags.belong("diagnose_parameters", diagnose_round=True)
    training_flags.define_evaluation(flags, batch_size=512)

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
    if settings.diagnose_round:
        settings = settings.filled({"diagnose_parameters": _DRAWN})
        _parameters(settings.diagnose_parameters)
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
        raise UsageError(
            f"--diagnose_parameters={text} must be last:N or random:N, or numbers separated by commas, at most "
            f"{_MOST_DRAWN} parameters."
        )
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
