"""Flags of the main study, and all their checks that need neither data nor TensorFlow."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from bandits import (
    environment_flags,
    environments,
    federation_flags,
    initial_flags,
    logged_flags,
    object_flags,
    registry,
    resets,
    schedule_flags,
    task_defaults,
)
from bandits import options as options_lib
from bandits.options import BanditOptions
from data.errors import UsageError
from data.settings import Setting, declared, make_options, parameters
from data.tasks.options import OFFLINE
from optimization import corrections
from optimization.options import NOISY, Aggregation, ClientAlgorithm, Cohorts, Target, adapts_clipping, first_clip_norm
from optimization.posterior import flags as posterior_flags
from optimization.study import aggregation_flags, cli, selector_flags, task_flags, training_flags

USAGE = """
Simulates federated bandits: clients act with a deployed model and train on the rewards; the server averages updates.

  run_federated                                          # digits, softmax: about a minute
  run_federated --bandits_type=greedy --experiment_name=my_greedy
  run_federated --task_type=unipen62 --data_dir=DIR --scenario=init_shift

A default that is missing here depends on the task. config.json in the run's folder records all values.
"""

PRESETS = pathlib.Path(__file__).parent / "presets"

_WITH_AGGREGATOR = {"aggregator_type": ("mean",), "model_aggregation": ("mean",), "federation": ("federated",)}
_PUBLISHED_FIRST_CLIP_NORM = 1.0  # The default of TFF's robust aggregator.

# Algorithms of run_posterior that this study refuses, and why.
_NOT_HERE: Mapping[str, str] = {
    "fedavg": "the mean: use --client_weighting=num_examples",
    "fedopt": "the mean with a --server_optimizer: use those",
    "fedag": "the mean: FedAG adds samples of the posterior to predictions, but clients deploy its mean",
    "fedbe": "impossible here: it distils on unlabelled data at the server, but all data stays with the clients",
}
_MODEL_AGGREGATIONS: Mapping[str, str] = (
    {"mean": "as --aggregator_type says"}
    | posterior_flags.ALGORITHMS
    | {name: f"refused, because it is {reason.partition(':')[0]}" for name, reason in _NOT_HERE.items()}
)


_MODEL_AGGREGATION = Setting("model_aggregation", _MODEL_AGGREGATIONS, "How the clients' models are combined", "mean")
_EXPORT = Setting(
    "export",
    bool,
    "Write the final model with its preprocessing to `export` in the run's folder; see docs/deploy.md",
    only={"task_type": ("tabular", "logged")},
)


def _adapts_clipping(settings: cli.Settings) -> bool:
    """Default of `--adaptive_clipping`: False for aggregations that need unclipped updates or whole models."""
    keeps_updates = settings.client_algorithm or settings.model_aggregation in posterior_flags.MODES
    return adapts_clipping(settings) and not keeps_updates


def _first_clip_norm(settings: cli.Settings) -> float | None:
    is_published = settings.variant == "reference_code" and settings.aggregator_type in ("mean", "secure_sum")
    if is_published and settings.adaptive_clipping:
        return _PUBLISHED_FIRST_CLIP_NORM
    return first_clip_norm(settings)


def define(flags: cli.FlagSet) -> None:
    """Defines the study's own flags."""
    by_bandit = {name: registry.POLICIES[entry.policy].settings for name, entry in registry.BANDITS.items()}
    flags.add(task_flags.TASK_TYPE, options_lib.Study)
    # Without heads, this setting has no value, so it does not change the names of such runs.
    of_policies = [
        dataclasses.replace(one, default=None, applied_default=one.default) if one.name == "bandits_heads" else one
        for one in parameters("bandits_", "bandits_type", by_bandit)
    ]
    flags.group("Bandit", options_lib.Deployments, *of_policies)
    flags.add(*schedule_flags.SETTINGS, options_lib.Learning)
    selection = selector_flags.SELECTION, selector_flags.SelectorSettings
    flags.group("Rounds and clients", options_lib.RoundsAndClients, *selection)
    others = training_flags.CLIENT_HYPERPARAMETERS + training_flags.CORRECTIONS
    flags.group("Clients' training", options_lib.Clients, ClientAlgorithm, *others, client_work=False)
    flags.group("Your own parts, see docs/own_parts.md", options_lib.OwnParts)
    rate = {"default": options_lib.of_task("server_learning_rate")}
    flags.group("Server", *training_flags.server({"default": "adam"}, rate))
    changes: dict[str, Any] = {
        "aggregator": {"only": _WITH_AGGREGATOR},
        "adaptive_clipping": {"default": _adapts_clipping},
        "clip_norm": {"default": _first_clip_norm},
    }
    flags.group("Aggregation and privacy", *declared(Aggregation, **changes), Cohorts, Target, _MODEL_AGGREGATION)
    posterior_flags.define_algorithms(flags, "model_aggregation")
    federation_flags.define(flags)
    initial_flags.define(flags)
    task_flags.define_data(flags)
    flags.group("A bandit's log", logged_flags.LEARN_FROM)
    environment_flags.define(flags)
    flags.group("Evaluation", options_lib.Evaluation, *training_flags.EVALUATIONS)
    flags.group("Export", _EXPORT)


def default_name(settings: cli.Settings) -> str:
    """Default of `--experiment_name`."""
    own = {name: each.short for name, each in object_flags.given(settings).items()}
    policy = own.pop("policy", None)
    learner = settings.learn_from if settings.learn_from in OFFLINE else policy or settings.bandits_type
    first = [settings.preset, policy] if settings.preset else [settings.task_type, settings.scenario, learner]
    return "_".join(filter(None, [*first, *own.values()]))


def check(settings: cli.Settings) -> None:
    """Checks flags against each other.

    Raises:
      UsageError: If a flag has no effect, or if flags conflict.
    """
    bandit = registry.chosen(settings)
    logged_flags.check(settings)
    object_flags.check(settings)
    _check_effect(settings, bandit)
    environment_flags.check(settings)
    federation_flags.check(settings)
    training_flags.check_algorithm(settings)
    _check_model_aggregation(settings, bandit)
    aggregation_flags.check(settings)
    if bandit.sums and settings.aggregator_type in NOISY and settings.adaptive_clipping:
        raise UsageError(f"--bandits_type={settings.bandits_type} with noise needs a fixed --clip_norm.")
    has_initial = settings.scenario in task_defaults.PRETRAINED or settings.initial_model_path
    if settings.target_epsilon and has_initial and not settings.initial_model_is_public:
        raise UsageError(
            "--target_epsilon covers a single phase: if initial training is private, give --noise_multiplier "
            "instead, or --initial_model_is_public."
        )
    is_private = bool(settings.noise_multiplier or settings.target_epsilon)
    selector_flags.check_privacy(settings, settings.client_selection, is_private=is_private)
    if settings.client_selection != "uniform":
        if settings.cohort_sampling != "fixed":
            raise UsageError(f"--cohort_sampling={settings.cohort_sampling} conflicts with --client_selection.")
        if not bandit.trains:
            raise UsageError(f"--client_selection has no effect with --bandits_type={settings.bandits_type}.")
    task_flags.check(settings)
    if "importance_weights" in settings.set_by_user and not settings.importance_weighting:
        raise UsageError("--importance_weights has an effect only with --importance_weighting.")
    if settings.importance_weights == "published_code" and not settings.bandits_epsilon:
        raise UsageError("--importance_weights=published_code gives every example weight 0 at --bandits_epsilon=0.")
    schedule_flags.check(settings)
    if "redraw_examples" in settings.set_by_user and not settings.max_examples_per_client:
        raise UsageError("--redraw_examples has an effect only with --max_examples_per_client above 0.")


def _check_model_aggregation(settings: cli.Settings, bandit: registry.BanditEntry) -> None:
    """Refuses model aggregations that do not work with the other flags."""
    name = settings.model_aggregation
    flag = f"--model_aggregation={name}"
    posterior_flags.check_algorithm(settings, "model_aggregation")
    if name in _NOT_HERE:
        raise UsageError(f"{flag} is {_NOT_HERE[name]}.")
    if name != "mean" and not bandit.trains:
        raise UsageError(f"{flag} has no effect with --bandits_type={settings.bandits_type}.")
    if name in posterior_flags.CHAINS and settings.client_optimizer != "sgd":
        raise UsageError(f"{flag} takes its samples from SGD steps: leave out --client_optimizer.")
    if name not in posterior_flags.MODES:
        return
    if settings.aggregator_type != "mean":
        raise UsageError(
            f"--aggregator_type={settings.aggregator_type} conflicts with {flag}, which aggregates models itself: "
            "use mean."
        )
    if settings.clip_norm is not None or settings.adaptive_clipping:
        raise UsageError(f"{flag} does not clip updates: leave out --clip_norm and --adaptive_clipping.")
    if settings.client_weighting != "uniform":
        raise UsageError(f"--client_weighting conflicts with {flag}, which weighs all clients equally: leave it out.")


def _check_effect(settings: cli.Settings, bandit: registry.BanditEntry) -> None:
    """Refuses flags that have no effect in combination with the others."""
    initial_flags.check(settings)
    if not bandit.trains and settings.scenario in options_lib.UNTRAINED:
        of_clients = {"loss", "client_work", "client_algorithm", *corrections.CORRECTIONS}
        of_sums = aggregation_flags.OF_TRAINING if settings.aggregator_type in NOISY else {"aggregator_type"}
        of_training = aggregation_flags.OF_TRAINING - (of_sums if bandit.sums else set())
        for name in sorted(settings.set_by_user & {*of_training, *of_clients}):
            raise UsageError(f"--{name} has no effect with --bandits_type={settings.bandits_type}, which never trains.")


def options(settings: cli.Settings) -> BanditOptions:
    """Returns the options of a run, given its flags."""
    bandit = registry.chosen(settings)
    policy = registry.POLICIES[bandit.policy]
    parameters = {name: settings[f"bandits_{name}"] for name in policy.parameters}
    if policy.sums and bandit.trains:
        parameters["restarts"] = True
    if settings.ties == "first":
        parameters["first_of_ties"] = True
    exploration = object_flags.policy(settings.policy) if settings.policy else policy.chosen(parameters)
    if scheduled := schedule_flags.schedule(settings):
        exploration = exploration.with_schedule(*scheduled)
    is_published, is_posterior = settings.variant == "reference_code", settings.model_aggregation != "mean"
    rewards = settings.dist_shift_type or ("bandits" if settings.scenario == "init_shift" else "exact")
    return make_options(
        BanditOptions,
        settings,
        task=task_flags.options(settings),
        bandit=bandit,
        policy=exploration,
        heads=int(settings.bandits_heads) if policy.heads else 1,
        published_epsilon=settings.bandits_epsilon if settings.importance_weights == "published_code" else None,
        initial=initial_flags.options(settings),
        # The published code uses exact rewards for a bandit that is never trained.
        rewards="exact" if is_published and not bandit.trains else rewards,
        drift=environment_flags.drift_of(settings),
        delay=make_options(environments.Delay, settings),
        reset=make_options(resets.Reset, settings),
        cohorts=make_options(
            Cohorts, settings, size=settings.clients_per_round, availability=selector_flags.availability(settings)
        ),
        selection=selector_flags.options(settings),
        corrections=corrections.chosen(settings),
        client_hyperparameters=training_flags.hyperparameters("client", settings),
        personalization=federation_flags.options(settings),
        own_metrics=tuple(settings.get("metrics") or ()),
        server_optimizer=training_flags.server_optimizer(settings),
        aggregation=federation_flags.aggregation(settings),
        posterior=posterior_flags.posterior_options(settings, "model_aggregation") if is_posterior else None,
    )
