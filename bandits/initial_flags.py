"""Flags for the initial model, which is trained with full feedback before the bandits start."""

import dataclasses

from bandits import registry
from bandits.options import InitialTraining, of_task
from bandits.task_defaults import PRETRAINED
from data.errors import UsageError
from data.settings import declared, make_options, setting
from optimization.options import OPTIMIZERS, Aggregation, ServerOptimizer
from optimization.study import aggregation_flags, cli


@dataclasses.dataclass(frozen=True)
class _Training:
    """Server optimizer and clipping of the initial training."""

    init_server_optimizer: str = setting(
        of_task("init_server_optimizer"),
        "Server optimizer; the paper does not state it, so SGD in the EMNIST presets is a guess",
        list(OPTIMIZERS),
    )
    init_server_learning_rate: float = setting(of_task("init_server_learning_rate"), "Server learning rate")
    init_adaptive_clipping: bool = setting(
        None,
        "Clip updates adaptively; false for no clipping (default: the same aggregation as for the bandits)",
        only={"aggregator_type": ("mean",), "aggregator": False},
    )


def define(flags: cli.FlagSet) -> None:
    """Defines the flags, which are None without initial training."""
    settings = [
        dataclasses.replace(flag, convert=lambda value, settings: value if settings.scenario in PRETRAINED else None)
        for flag in (*declared(InitialTraining), *declared(_Training))
    ]
    flags.group("Initial training", *settings, scenario=PRETRAINED)


def check(settings: cli.Settings) -> None:
    """Refuses flags that need an initial model, or the rewards of initial training, if the run has none.

    Raises:
      UsageError: If such a flag was given.
    """
    has_initial = settings.scenario in PRETRAINED or settings.initial_model_path
    for name, value in (("bandits_type", "init"), ("statistics", "freeze")):
        if settings[name] == value and not has_initial:
            raise UsageError(f"--{name}={value} needs an initial model: give --scenario=init or --initial_model_path.")
    if settings.initial_model_is_public and not has_initial:
        raise UsageError("--initial_model_is_public needs an initial model: --scenario=init or --initial_model_path.")
    if (
        "init_labels" in settings.set_by_user
        and settings.scenario != "init_shift"
        and settings.dist_shift_type != "init"
    ):
        raise UsageError("--init_labels has an effect only with --scenario=init_shift or --dist_shift_type=init.")


def options(settings: cli.Settings) -> InitialTraining | None:
    """Returns the options of the initial training; None without initial training."""
    if settings.scenario not in PRETRAINED:
        return None
    return make_options(
        InitialTraining,
        settings,
        bandit=registry.BANDITS["supervised_mse"],
        rewards="init" if settings.scenario == "init_shift" else "exact",
        server_optimizer=ServerOptimizer(settings.init_server_optimizer, settings.init_server_learning_rate),
        aggregation=_aggregation(settings),
    )


def _aggregation(settings: cli.Settings) -> Aggregation:
    clips = settings.init_adaptive_clipping
    aggregation = aggregation_flags.options(settings.replace(adaptive_clipping=True) if clips else settings)
    if settings.initial_model_is_public:
        aggregation = dataclasses.replace(aggregation, noise_multiplier=0.0, target_epsilon=None, population=None)
    return dataclasses.replace(aggregation, clip_norm=None, unclip_quantile=None) if clips is False else aggregation
