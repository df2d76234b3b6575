"""Flags of the main experiment, and every check that needs no data and no TensorFlow."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from bandits import (
    environment_flags,
    federation_flags,
    initial_flags,
    logged_flags,
    registry,
    schedule_flags,
    task_defaults,
)
from bandits.options import BanditOptions
from data.errors import UsageError
from data.tasks import registry as tasks
from optimization import corrections
from optimization.options import Cohorts, named
from optimization.posterior import flags as posterior_flags
from optimization.study import aggregation_flags, cli, selector_flags, task_flags, training_flags
from optimization.study.settings import declared, parameters, setting

USAGE = """
Simulates federated bandits: clients act with a deployed model and train on observed rewards; the server averages.

  run_federated                                          # digits, softmax: about a minute
  run_federated --bandits_type=greedy --experiment_name=my_greedy
  run_federated --task_type=unipen62 --data_dir=DIR --scenario=init_shift

A default that is missing here depends on the task. config.json in the run's folder records all values.
"""

PRESETS = pathlib.Path(__file__).parent / "presets"

_PUBLISHED_FIRST_CLIP_NORM = 1.0  # That of TFF's robust aggregator.

# Algorithms of run_posterior that are none of their own here, or cannot be.
_NOT_HERE: Mapping[str, str] = {
    "fedavg": "the mean: use --client_weighting=num_examples",
    "fedopt": "the mean with a --server_optimizer: use those",
    "fedag": "the mean: its posterior adds samples to predictions, but what clients deploy is the posterior's mean",
    "fedbe": "impossible here: it distils on unlabelled data at the server, and all data stays with the clients",
}
_MODEL_AGGREGATIONS: Mapping[str, str] = (
    {"mean": "as --aggregator_type says"}
    | posterior_flags.ALGORITHMS
    | {name: f"refused, as {reason.partition(':')[0]}" for name, reason in _NOT_HERE.items()}
)


def _bandits(suits: Callable[[registry.BanditEntry], bool]) -> list[str]:
    """Values of `--bandits_type` whose entry has this property."""
    return [name for name, entry in registry.BANDITS.items() if suits(entry)]


class _Study:
    """What is studied.

    Attributes:
      bandits_type: How clients choose actions, and the loss they train.
      scenario: Initial model and rewards. scratch starts with random weights; init with a model that a few clients
        train with full feedback; init_shift likewise, before rewards change; drift is scratch with changing rewards.
      variant: Source that counts where the paper and its published code differ.
      dist_shift_type: Rewards of one step of init_shift run by hand: its initial training, or the bandits after it.
      population_client_selection: START-END: participating clients, from index START up to but not including END.
      initial_model_path: Folder of the run whose final model is the initial model.
      initial_model_is_public: Count no privacy loss for the initial model: its clients need no protection.
    """

    bandits_type: str = setting("softmax", spellings=registry.PUBLISHED_NAMES, basic=True)
    scenario: str = setting("scratch", ["scratch", *initial_flags.PRETRAINED, environment_flags.SCENARIO], basic=True)
    variant: str = setting("paper", ["paper", "reference_code"])
    dist_shift_type: str = setting(words=["init", "bandits"], only={"scenario": initial_flags.UNTRAINED})
    population_client_selection: str = setting(only={"scenario": initial_flags.UNTRAINED})
    initial_model_path: pathlib.Path = setting(only={"scenario": initial_flags.UNTRAINED})
    initial_model_is_public: bool = setting(False)


class _Deployments:
    """Bandit.

    Attributes:
      bandits_deploy_freq: Rounds between deployments of the trained model.
      bandits_deploy_delay: Maximum staleness of a client's model, in deployments, sampled uniformly.
    """

    bandits_deploy_freq: int = setting(low=1, basic=True)
    bandits_deploy_delay: int = setting(0, high=16)


class _Learning:
    """Local learning.

    Attributes:
      importance_weighting: Weight each example by 1 / propensity, instead of the bandit's default.
      importance_weights: Importance weight of an example.
      loss: Squared loss, also of the initial training.
      cross_entropy: Cross entropy.
      ties: Tie-breaking rule among actions with equal predictions.
      cache: A client acts in each round (Algorithm 4), or once per deployment and keeps its log until the next
        (Algorithm 1).
      log_interactions: Write clients' logs, which no privacy guarantee covers, and each period's deployed model
        (default: no); see docs/logs.md.
    """

    importance_weighting: bool = setting(only={"bandits_type": _bandits(lambda entry: entry.learns)})
    importance_weights: str = setting(
        words={
            "inverse_propensity": "1 / propensity; default with --variant=paper",
            "published_code": "(epsilon / K) / propensity, for K actions; default with --variant=reference_code",
        },
        only={
            "bandits_type": _bandits(
                lambda entry: entry.learns and registry.POLICIES[entry.policy].scheduled == "epsilon"
            )
        },
    )
    loss: str = setting(
        words={
            "mean": "mean of the squares; default: the tables' learning rates belong to it",
            "half_sum": "half their sum over the mini-batch, and over actions with full feedback, as in the text",
        },
        only={"bandits_type": _bandits(lambda entry: not entry.cross_entropy), "client_selection": ("uniform",)},
    )
    cross_entropy: str = setting(
        words={
            "softmax": "predicted rewards are a softmax of the outputs; default with --variant=paper",
            "sigmoid": "each is the sigmoid of its own output; with --variant=reference_code the default, but for "
            "supervised_ce of one label an example",
        },
        only={"bandits_type": _bandits(lambda entry: entry.cross_entropy)},
    )
    ties: str = setting(
        words={
            "random": "uniformly at random; default with --variant=paper",
            "first": "the first action; default with --variant=reference_code",
        },
        only={"bandits_type": _bandits(lambda entry: registry.POLICIES[entry.policy].has_best)},
    )
    cache: str = setting("round", ["round", "persistent"])
    log_interactions: bool = setting(only={"bandits_type": _bandits(lambda entry: not entry.supervised)})


class _RoundsAndClients:
    """Rounds and clients.

    Attributes:
      total_rounds: Rounds of the bandit.
      clients_per_round: Clients in a cohort (default: the task's, at most all clients).
      max_examples_per_client: Cap on a client's examples, a seeded choice; 0 for none.
      redraw_examples: Sample a capped client's examples again whenever it acts (default: yes); without it,
        they are the same in every round.
      client_batch_size: Examples of a mini-batch.
      client_epochs_per_round: Passes of a client over its cache.
    """

    total_rounds: int = setting(low=1, basic=True)
    clients_per_round: int = setting(low=1, basic=True)
    max_examples_per_client: int = setting()
    redraw_examples: bool = setting()
    client_batch_size: int = setting(low=1)
    client_epochs_per_round: int = setting(low=1)


class _Clients:
    """Clients.

    Attributes:
      non_private_selection: With differential privacy, select by losses all the same: the privacy that this spends is
        not counted.
      client_optimizer: Optimizer on the client.
      client_learning_rate: Learning rate on the client.
    """

    non_private_selection: bool = setting(False)
    client_optimizer: str = setting("sgd", ["sgd"])
    client_learning_rate: float = setting(basic=True)


class _Models:
    """Models.

    Attributes:
      model_aggregation: How the clients' models become one.
    """

    model_aggregation: str = setting("mean", _MODEL_AGGREGATIONS)


class _Evaluation:
    """Evaluation.

    Attributes:
      rounds_per_eval: Rounds between evaluations on held-out data; 0 for only the last.
    """

    rounds_per_eval: int = setting()


class _Export:
    """Export.

    Attributes:
      export: Write the final model with its preprocessing to `export` in the run's folder; see docs/deploy.md.
    """

    export: bool = setting(only={"task_type": ("tabular", "logged")})


def define(flags: cli.FlagSet) -> None:
    """Defines the study's own flags."""
    by_bandit = {name: registry.POLICIES[entry.policy].settings for name, entry in registry.BANDITS.items()}
    helps = {name: entry.help for name, entry in registry.BANDITS.items()}
    flags.add(task_flags.TASK_TYPE, *declared(_Study, bandits_type={"type": helps}))
    # Without heads, no value: names of such runs stay as they were before there were models with several.
    of_policies = [
        dataclasses.replace(one, default=None, filled=one.default) if one.name == "bandits_heads" else one
        for one in parameters("bandits_", "bandits_type", by_bandit)
    ]
    flags.group("Bandit", _Deployments, *of_policies)
    flags.add(*schedule_flags.SETTINGS, _Learning)
    flags.group(_RoundsAndClients, selector_flags.SELECTION)
    selector_flags.define(flags)
    flags.add(_Clients, *training_flags.CORRECTIONS)
    flags.group("Server", *training_flags.server({"default": "adam"}, {}))
    flags.group(aggregation_flags.Aggregation, aggregation_flags.Target, _Models)
    posterior_flags.define_algorithms(flags, "model_aggregation")
    federation_flags.define(flags)
    flags.group(initial_flags.InitialTrainings, scenario=initial_flags.PRETRAINED)
    task_flags.define_data(flags)
    flags.group(logged_flags.Logs)
    environment_flags.define(flags)
    flags.group(_Evaluation, *training_flags.EVALUATIONS)
    flags.group(_Export)


def resolve(settings: cli.Settings) -> cli.Settings:
    """Fills in the task's defaults and checks flags against each other.

    Raises:
      UsageError: On a flag without effect, or values that do not go together.
    """
    settings = logged_flags.resolve(environment_flags.resolve(settings))
    bandit = registry.BANDITS[settings.bandits_type]
    _check_effect(settings, bandit)
    settings = settings.settled()
    has_initial = settings.scenario in initial_flags.PRETRAINED or bool(settings.initial_model_path)
    settings = settings.filled(task_defaults.of(settings.task_type, has_initial=has_initial))
    settings = environment_flags.with_rounds(settings)
    if settings.scenario not in initial_flags.PRETRAINED:
        unread = dict.fromkeys(name for name in settings if name.startswith("init_"))
        # A training by hand can have the rewards of an initial one.
        settings = settings.replace(**unread | {"init_labels": settings.init_labels})
    settings = _resolve_model_aggregation(federation_flags.resolve(settings), bandit)
    can_adapt = settings.aggregator_type in ("mean", "none", "secure_sum") and settings.adaptive_clipping is not False
    if settings.variant == "reference_code" and can_adapt:
        settings = settings.filled({"clip_norm": _PUBLISHED_FIRST_CLIP_NORM})
    settings = aggregation_flags.resolve(settings)
    is_private = bool(settings.noise_multiplier or settings.target_epsilon)
    if settings.target_epsilon and has_initial and not settings.initial_model_is_public:
        raise UsageError(
            "--target_epsilon covers one training: with a private initial training give --noise_multiplier, or "
            "--initial_model_is_public."
        )
    selector_flags.check_privacy(settings, settings.client_selection, is_private=is_private)
    if settings.client_selection != "uniform":
        if settings.cohort_sampling != "fixed":
            raise UsageError(f"--cohort_sampling={settings.cohort_sampling} does not go with --client_selection.")
        if not bandit.trains:
            raise UsageError(f"--client_selection has no effect with --bandits_type={settings.bandits_type}.")
    if settings.experiment_name is None:
        learner = settings.learn_from if logged_flags.is_offline(settings) else settings.bandits_type
        name = settings.preset or f"{settings.task_type}_{settings.scenario}_{learner}"
        settings = settings.replace(experiment_name=name)
    settings = task_flags.resolve(settings.filled({"importance_weighting": bandit.importance_weighted}))
    settings = schedule_flags.resolve(_resolve_importance_weights(settings, bandit))
    if "redraw_examples" in settings.set_by_user and not settings.max_examples_per_client:
        raise UsageError("--redraw_examples has an effect only with --max_examples_per_client above 0.")
    if settings.max_examples_per_client:
        settings = settings.filled({"redraw_examples": True})
    return settings.filled(_published(settings, bandit)) if settings.variant == "reference_code" else settings


def _resolve_importance_weights(settings: cli.Settings, bandit: registry.BanditEntry) -> cli.Settings:
    if "importance_weights" in settings.set_by_user and not settings.importance_weighting:
        raise UsageError("--importance_weights has an effect only with --importance_weighting.")
    is_published = settings.variant == "reference_code" and settings.importance_weighting
    if is_published and registry.POLICIES[bandit.policy].scheduled == "epsilon":
        settings = settings.filled({"importance_weights": "published_code"})
    if settings.importance_weights == "published_code" and not settings.bandits_epsilon:
        raise UsageError("--importance_weights=published_code gives every example weight 0 at --bandits_epsilon=0.")
    return settings


def _published(settings: cli.Settings, bandit: registry.BanditEntry) -> dict[str, Any]:
    """The published program's reading of each flag that applies to the chosen method."""
    readings: dict[str, Any] = {}
    if bandit.cross_entropy:
        several = "num_tags" in tasks.TASKS[settings.task_type].options
        readings["cross_entropy"] = "softmax" if bandit.supervised and not several else "sigmoid"
    if registry.POLICIES[bandit.policy].has_best:
        readings["ties"] = "first"
    return readings


def _resolve_model_aggregation(settings: cli.Settings, bandit: registry.BanditEntry) -> cli.Settings:
    """Refuses model aggregations that make no sense here; those that need each client's model are not clipped."""
    name = settings.model_aggregation
    flag = f"--model_aggregation={name}"
    settings = posterior_flags.resolve_algorithm(settings, "model_aggregation")
    if name in _NOT_HERE:
        raise UsageError(f"{flag} is {_NOT_HERE[name]}.")
    if name != "mean" and not bandit.trains:
        raise UsageError(f"{flag} has no effect with --bandits_type={settings.bandits_type}.")
    if name not in posterior_flags.MODES:
        return settings
    if settings.aggregator_type not in ("mean", "none"):
        raise UsageError(
            f"--aggregator_type={settings.aggregator_type} takes a sum; {flag} needs each client's model: use mean."
        )
    if settings.clip_norm is not None or settings.adaptive_clipping:
        raise UsageError(f"{flag} takes no sum, and so no --clip_norm or --adaptive_clipping: leave them out.")
    if settings.client_weighting != "uniform":
        raise UsageError(f"--client_weighting weighs a mean; in {flag} all clients count alike: leave it out.")
    return settings.replace(adaptive_clipping=False)


def _check_effect(settings: cli.Settings, bandit: registry.BanditEntry) -> None:
    """Refuses flags that have no effect with the others."""
    initial_flags.check(settings)
    if not bandit.trains and settings.scenario in initial_flags.UNTRAINED:
        for name in sorted(settings.set_by_user & (aggregation_flags.OF_TRAINING | {"loss", *corrections.CORRECTIONS})):
            raise UsageError(f"--{name} has no effect with --bandits_type={settings.bandits_type}, which never trains.")


def options(settings: cli.Settings) -> BanditOptions:
    """Options of resolved flags."""
    bandit = registry.BANDITS[settings.bandits_type]
    policy = registry.POLICIES[bandit.policy]
    parameters = {name: settings[f"bandits_{name}"] for name in policy.parameters}
    if settings.ties == "first":
        parameters["first_of_ties"] = True
    exploration = policy.chosen(parameters)
    if scheduled := schedule_flags.schedule(settings):
        exploration = exploration.with_schedule(*scheduled)
    is_published, is_posterior = settings.variant == "reference_code", settings.model_aggregation != "mean"
    shifts = settings.scenario == "init_shift"
    rewards = settings.dist_shift_type or ("bandits" if shifts else "exact")
    return named(
        BanditOptions,
        settings,
        task=task_flags.options(settings),
        name=settings.bandits_type,
        bandit=bandit,
        policy=exploration,
        heads=int(settings.bandits_heads) if policy.heads else 1,
        half_sum=settings.loss == "half_sum",
        sigmoid=settings.cross_entropy == "sigmoid",
        published_epsilon=settings.bandits_epsilon if settings.importance_weights == "published_code" else None,
        initial=initial_flags.options(settings),
        is_initial_model_public=settings.initial_model_is_public,
        # What the published program pays a bandit that is never trained.
        rewards="exact" if is_published and not bandit.trains else rewards,
        has_shift=shifts or bool(settings.dist_shift_type),
        drift=environment_flags.drift_of(settings),
        delay=environment_flags.delay_of(settings),
        reset=environment_flags.reset_of(settings),
        cohorts=Cohorts(settings.clients_per_round, settings.cohort_sampling, selector_flags.availability(settings)),
        selection=selector_flags.options(settings),
        deploy_every=settings.bandits_deploy_freq,
        max_delay=settings.bandits_deploy_delay,
        keeps_cache=settings.cache == "persistent",
        redraws_examples=bool(settings.redraw_examples),
        logs_interactions=bool(settings.log_interactions),
        client_epochs=settings.client_epochs_per_round,
        corrections=corrections.chosen(settings),
        personalization=federation_flags.options(settings),
        reports_clients=settings.report_clients,
        server_optimizer=training_flags.server_optimizer(settings),
        aggregation=federation_flags.aggregation(settings),
        posterior=posterior_flags.posterior_options(settings, "model_aggregation") if is_posterior else None,
    )
