"""Flags of the initial model: its training with full feedback before the bandits, and what it counts as."""

import dataclasses

from bandits import environment_flags, registry
from bandits.options import InitialTraining
from data.errors import UsageError
from optimization.options import Aggregation, ServerOptimizer
from optimization.study import aggregation_flags, cli, training_flags
from optimization.study.settings import setting

PRETRAINED = ("init", "init_shift")  # Scenarios with an initial training.
UNTRAINED = ("scratch", environment_flags.SCENARIO)


class InitialTrainings:
    """Initial training.

    Attributes:
      init_clients: Clients that it uses: the first ones; the bandits get the others (default: the task's; of a table a
        fifth).
      init_rounds: Its rounds.
      init_server_optimizer: Its server optimizer; the paper does not state it, and SGD in EMNIST's presets is our
        guess.
      init_server_learning_rate: Its server learning rate.
      init_client_learning_rate: Its client learning rate.
      init_adaptive_clipping: Adaptive clipping of its updates; false for no clipping (default: the same aggregation as
        the bandits).
    """

    init_clients: int = setting(low=1)
    init_rounds: int = setting(low=1)
    init_server_optimizer: str = setting(words=list(training_flags.HYPERPARAMETERS))
    init_server_learning_rate: float = setting()
    init_client_learning_rate: float = setting()
    init_adaptive_clipping: bool = setting(only={"aggregator_type": ("mean",)})


def check(settings: cli.Settings) -> None:
    """Refuses flags that need an initial model, or its rewards, where there is none.

    Raises:
      UsageError: If one was given.
    """
    has_initial = settings.scenario in PRETRAINED or settings.initial_model_path
    if settings.bandits_type == "init" and not has_initial:
        raise UsageError("--bandits_type=init needs an initial model: give --scenario=init or --initial_model_path.")
    if settings.initial_model_is_public and not has_initial:
        raise UsageError("--initial_model_is_public needs an initial model: --scenario=init or --initial_model_path.")
    if (
        "init_labels" in settings.set_by_user
        and settings.scenario != "init_shift"
        and settings.dist_shift_type != "init"
    ):
        raise UsageError("--init_labels has an effect only with --scenario=init_shift or --dist_shift_type=init.")


def options(settings: cli.Settings) -> InitialTraining | None:
    """Initial training, or None."""
    if settings.scenario not in PRETRAINED:
        return None
    return InitialTraining(
        bandit=registry.BANDITS["supervised_mse"],
        num_clients=settings.init_clients,
        rewards="init" if settings.scenario == "init_shift" else "exact",
        total_rounds=settings.init_rounds,
        server_optimizer=ServerOptimizer(settings.init_server_optimizer, settings.init_server_learning_rate),
        client_learning_rate=settings.init_client_learning_rate,
        aggregation=_aggregation(settings),
    )


def _aggregation(settings: cli.Settings) -> Aggregation:
    clips = settings.init_adaptive_clipping
    if clips:
        settings = aggregation_flags.resolve(settings.replace(adaptive_clipping=True))
    aggregation = aggregation_flags.options(settings)
    if settings.initial_model_is_public:
        aggregation = dataclasses.replace(aggregation, noise_multiplier=0.0, target_epsilon=None, population=None)
    return dataclasses.replace(aggregation, clip_norm=None, unclip_quantile=None) if clips is False else aggregation
