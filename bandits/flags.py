"""Flags of the main experiment, and every check that needs no data and no TensorFlow."""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from bandits import initial_flags, logged_flags, registry, schedule_flags, task_defaults, world_flags
from bandits.options import BanditOptions
from data.errors import UsageError
from data.tasks import registry as tasks
from optimization import corrections
from optimization.options import Cohorts, named
from optimization.posterior import algorithm_flags
from optimization.study import aggregation_flags, availability_flags, cli, selector_flags, task_flags, training_flags

USAGE = """
Federated contextual bandits: clients act with a deployed model, train on what they saw, and the server averages.

  run_federated                                          # digits, softmax: about a minute
  run_federated --bandits_type=greedy --experiment_name=my_greedy
  run_federated --task_type=unipen62 --data_dir=DIR --scenario=init_shift

Where a default is missing here, it is the task's own; config.json in the run's folder records all values.
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
    | algorithm_flags.ALGORITHMS
    | {name: f"refused, as {reason.partition(':')[0]}" for name, reason in _NOT_HERE.items()}
)


def define(flags: cli.FlagSet) -> None:
    """Defines the study's own flags."""
    flags.elsewhere(
        "target_epsilon",
        "run scripts.privacy_budget with --target_epsilon to find the noise multiplier, and give that as "
        "--noise_multiplier",
    )
    bandits = {name: entry.help for name, entry in registry.BANDITS.items()}

    task_flags.define_choice(flags)
    flags.choice(
        "bandits_type",
        "softmax",
        bandits,
        "how clients choose actions, and the loss they train",
        spellings=registry.PUBLISHED_NAMES,
    )
    flags.choice(
        "scenario",
        "scratch",
        ["scratch", *initial_flags.PRETRAINED, world_flags.SCENARIO],
        "start from random weights; from a model pre-trained with full feedback on a few clients; from such a model "
        "whose rewards then change; or from random weights where rewards change while the bandits play",
    )
    flags.choice(
        "variant",
        "paper",
        ["paper", "reference_code"],
        "whose text counts where the study and its published program differ",
    )
    flags.choice(
        "dist_shift_type",
        None,
        ["init", "bandits"],
        "rewards of one step of init_shift done by hand: its initial training, or the bandits after it",
    )
    flags.text(
        "population_client_selection",
        None,
        "START-END: only the clients from index START up to, not including, END take part",
    )
    flags.path("initial_model_path", None, "folder of the run whose final model is the initial model")
    flags.switch(
        "initial_model_is_public",
        False,
        "count the initial model's training as free: its clients need no protection, and it adds no noise",
    )
    flags.belong(
        "dist_shift_type", "population_client_selection", "initial_model_path", scenario=initial_flags.UNTRAINED
    )

    flags.group("Bandit")
    flags.integer("bandits_deploy_freq", None, "rounds between deployments of the trained model", low=1)
    flags.integer(
        "bandits_deploy_delay",
        0,
        "most deployments that a client lags behind: each acts with the model of a random one of so many earlier ones",
        high=16,
    )
    parameters = {name: registry.POLICIES[entry.policy].settings for name, entry in registry.BANDITS.items()}
    flags.parameters("bandits_", "bandits_type", parameters)
    schedule_flags.define(flags)
    flags.switch(
        "importance_weighting",
        None,
        "weigh each example by 1/propensity, whatever the bandit's default",
    )
    learners = _bandits(lambda entry: entry.trains and not entry.supervised)
    flags.belong("importance_weighting", bandits_type=learners)
    flags.choice(
        "importance_weights",
        None,
        {
            "inverse_propensity": "1 / propensity; default with --variant=paper",
            "published_code": "(epsilon / K) / propensity, for K actions; default with --variant=reference_code",
        },
        "importance weight of an example",
    )
    by_epsilon = set(_bandits(lambda entry: registry.POLICIES[entry.policy].moving == "epsilon"))
    flags.belong("importance_weights", bandits_type=[name for name in learners if name in by_epsilon])
    flags.choice(
        "loss",
        None,
        {
            "mean": "mean of the squares; default: the tables' learning rates belong to it",
            "half_sum": "half their sum over the mini-batch, and over actions with full feedback, as in the text",
        },
        "squared loss, also of the initial training",
    )
    squared = _bandits(lambda entry: not entry.cross_entropy)
    flags.belong("loss", bandits_type=squared, client_selection=("uniform",))
    flags.choice(
        "cross_entropy",
        None,
        {
            "softmax": "predicted rewards are a softmax of the outputs; default with --variant=paper",
            "sigmoid": "each is the sigmoid of its own output; with --variant=reference_code the default, but for "
            "supervised_ce of one label an example",
        },
        "cross entropy",
    )
    flags.belong("cross_entropy", bandits_type=_bandits(lambda entry: entry.cross_entropy))
    flags.choice(
        "ties",
        None,
        {
            "random": "a random one of them; default with --variant=paper",
            "first": "the first; default with --variant=reference_code",
        },
        "which of several actions that are predicted best is the best",
    )
    flags.belong("ties", bandits_type=_bandits(lambda entry: registry.POLICIES[entry.policy].has_best))
    flags.choice(
        "cache",
        "round",
        ["round", "persistent"],
        "a client acts anew each round (Algorithm 4), or once per deployment, keeping its log until the next "
        "(Algorithm 1)",
    )

    flags.switch(
        "log_interactions",
        None,
        "write what clients log, which no guarantee of privacy covers, and each period's deployed model (default: no); "
        "see docs/logs.md",
    )
    flags.belong("log_interactions", bandits_type=_bandits(lambda entry: not entry.supervised))

    flags.group("Rounds and clients")
    flags.integer("total_rounds", None, "rounds of the bandit", low=1)
    flags.integer("clients_per_round", None, "clients in a cohort (default: the task's, at most all clients)", low=1)
    flags.integer("max_examples_per_client", None, "cap on a client's examples, a seeded choice; 0 for none")
    flags.switch(
        "redraw_examples",
        None,
        "draw the examples of a client above that cap anew whenever it acts (default: yes); without it, they are the "
        "same in every round",
    )
    flags.integer("client_batch_size", None, "examples of a mini-batch", low=1)
    flags.integer("client_epochs_per_round", None, "passes of a client over its cache", low=1)
    selection = {name: entry.help for name, entry in selector_flags.SELECTORS.items()}
    flags.choice("client_selection", "uniform", selection, "how a round's clients are chosen")
    selector_flags.define(flags, with_privacy=True)
    flags.choice("client_optimizer", "sgd", ["sgd"], "optimizer on the client")
    flags.number("client_learning_rate", None, "its learning rate")
    training_flags.define_corrections(flags)

    flags.group("Server")
    training_flags.define_server(flags, "adam")
    aggregation_flags.define(flags)
    flags.choice("model_aggregation", "mean", _MODEL_AGGREGATIONS, "how the clients' models become one")
    algorithm_flags.define_kernels(flags, "model_aggregation")
    algorithm_flags.define_chains(flags, "model_aggregation")

    initial_flags.define(flags)

    task_flags.define_data(flags)
    logged_flags.define(flags)
    world_flags.define(flags)

    flags.group("Evaluation")
    flags.integer("rounds_per_eval", None, "rounds between evaluations on held-out data; 0 for only the last")
    flags.integer("eval_batch_size", 512, "examples of an evaluation batch", low=1)
    flags.integer("max_validation_samples", 10000, "most held-out examples; 0 for all")


def _bandits(suits: Callable[[registry.BanditEntry], bool]) -> list[str]:
    """Returns the values of `--bandits_type` with such an entry."""
    return [name for name, entry in registry.BANDITS.items() if suits(entry)]


def resolve(settings: cli.Settings) -> cli.Settings:
    """Fills in the task's defaults and checks flags against each other.

    Raises:
      UsageError: On a flag without effect, or values that do not go together.
    """
    settings = logged_flags.resolve(world_flags.resolve(settings))
    bandit = registry.BANDITS[settings.bandits_type]
    _check_effect(settings, bandit)
    settings = settings.settled()
    has_initial = settings.scenario in initial_flags.PRETRAINED or bool(settings.initial_model_path)
    settings = settings.filled(task_defaults.of(settings.task_type, has_initial=has_initial))
    settings = world_flags.with_rounds(settings)
    if settings.scenario not in initial_flags.PRETRAINED:
        unread = dict.fromkeys(name for name in settings if name.startswith("init_"))
        # A training by hand can have the rewards of an initial one.
        settings = settings.replace(**unread | {"init_labels": settings.init_labels})
    settings = _resolve_model_aggregation(settings, bandit)
    can_adapt = settings.aggregator_type in ("mean", "none", "secure_sum") and settings.adaptive_clipping is not False
    if settings.variant == "reference_code" and can_adapt:
        settings = settings.filled({"clip_norm": _PUBLISHED_FIRST_CLIP_NORM})
    settings = aggregation_flags.resolve(settings)
    selector_flags.check_privacy(settings, settings.client_selection, is_private=bool(settings.noise_multiplier))
    if settings.client_selection != "uniform":
        if settings.cohort_sampling != "fixed":
            raise UsageError(
                f"--cohort_sampling={settings.cohort_sampling} draws uniform cohorts: leave out --client_selection."
            )
        if not bandit.trains:
            raise UsageError(f"--client_selection has no effect with --bandits_type={settings.bandits_type}.")
    if settings.experiment_name is None:
        learner = settings.learn_from if logged_flags.is_offline(settings) else settings.bandits_type
        name = settings.preset or f"{settings.task_type}_{settings.scenario}_{learner}"
        settings = settings.replace(experiment_name=name)
    settings = task_flags.resolve(settings.filled({"importance_weighting": bandit.importance_weighted}))
    settings = schedule_flags.resolve(_resolve_importance_weights(settings, bandit))
    if "redraw_examples" in settings.given and not settings.max_examples_per_client:
        raise UsageError("--redraw_examples has an effect only with --max_examples_per_client above 0.")
    if settings.max_examples_per_client:
        settings = settings.filled({"redraw_examples": True})
    return settings.filled(_published(settings, bandit)) if settings.variant == "reference_code" else settings


def _resolve_importance_weights(settings: cli.Settings, bandit: registry.BanditEntry) -> cli.Settings:
    if "importance_weights" in settings.given and not settings.importance_weighting:
        raise UsageError("--importance_weights has an effect only with --importance_weighting.")
    is_published = settings.variant == "reference_code" and settings.importance_weighting
    if is_published and registry.POLICIES[bandit.policy].moving == "epsilon":
        settings = settings.filled({"importance_weights": "published_code"})
    if settings.importance_weights == "published_code" and not settings.bandits_epsilon:
        raise UsageError("--importance_weights=published_code gives every example weight 0 at --bandits_epsilon=0.")
    return settings


def _published(settings: cli.Settings, bandit: registry.BanditEntry) -> dict[str, Any]:
    """Returns the published program's readings of the flags that belong to what was chosen."""
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
    settings = algorithm_flags.resolve(settings, "model_aggregation")
    if name in _NOT_HERE:
        raise UsageError(f"{flag} is {_NOT_HERE[name]}.")
    if name != "mean" and not bandit.trains:
        raise UsageError(f"{flag} has no effect with --bandits_type={settings.bandits_type}.")
    if name not in algorithm_flags.KERNELS:
        return settings
    if settings.aggregator_type not in ("mean", "none"):
        raise UsageError(
            f"--aggregator_type={settings.aggregator_type} shows the server only a sum, with noise or without; {flag} "
            "must see each client's model: use mean."
        )
    if settings.clip_norm is not None or settings.adaptive_clipping:
        raise UsageError(
            f"Clipping bounds what a client adds to a sum; {flag} takes no sum: leave out --clip_norm and "
            "--adaptive_clipping."
        )
    if settings.client_weighting != "uniform":
        raise UsageError(f"--client_weighting weighs a mean; {flag} has --kernel_weights={settings.client_weighting}.")
    return settings.replace(adaptive_clipping=False)


def _check_effect(settings: cli.Settings, bandit: registry.BanditEntry) -> None:
    """Refuses flags that were given but have no effect with the others."""
    initial_flags.check(settings)
    if not bandit.trains and settings.scenario in initial_flags.UNTRAINED:
        for name in sorted(settings.given & (aggregation_flags.OF_TRAINING | {"loss", *corrections.CORRECTIONS})):
            raise UsageError(
                f"--{name} has no effect with --bandits_type={settings.bandits_type}, which never trains: nothing is "
                "aggregated, no noise added."
            )


def options(settings: cli.Settings) -> BanditOptions:
    """Returns what resolved flags mean."""
    bandit = registry.BANDITS[settings.bandits_type]
    policy = registry.POLICIES[bandit.policy]
    parameters = {name: settings[f"bandits_{name}"] for name in policy.parameters}
    if settings.ties == "first":
        parameters["first_of_ties"] = True
    exploration = policy.chosen(parameters)
    if moved := schedule_flags.schedule(settings):
        exploration = exploration.moved_by(*moved)
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
        published_weights=settings.bandits_epsilon if settings.importance_weights == "published_code" else None,
        initial=initial_flags.options(settings),
        is_initial_model_public=settings.initial_model_is_public,
        # What the published program pays a bandit that is never trained.
        rewards="exact" if is_published and not bandit.trains else rewards,
        has_shift=shifts or bool(settings.dist_shift_type),
        drift=world_flags.drift_of(settings),
        delay=world_flags.delay_of(settings),
        reset=world_flags.reset_of(settings),
        cohorts=Cohorts(settings.clients_per_round, settings.cohort_sampling, availability_flags.options(settings)),
        selection=selector_flags.options(settings),
        deploy_every=settings.bandits_deploy_freq,
        max_delay=settings.bandits_deploy_delay,
        keeps_cache=settings.cache == "persistent",
        redraws_examples=bool(settings.redraw_examples),
        logs_interactions=bool(settings.log_interactions),
        client_epochs=settings.client_epochs_per_round,
        corrections=corrections.chosen(settings),
        server_optimizer=training_flags.server_optimizer(settings),
        aggregation=aggregation_flags.options(settings),
        posterior=algorithm_flags.options(settings, "model_aggregation") if is_posterior else None,
    )
