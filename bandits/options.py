"""Options of `run_federated`, as frozen dataclasses whose fields are settings, and the phases of a run.

Nothing here imports TensorFlow.
"""

import dataclasses
import functools
import math
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from bandits import environments, resets, schedules, task_defaults
from bandits.registry import BANDITS, POLICIES, PUBLISHED_NAMES, BanditEntry, PolicySpec
from bandits.task_defaults import PRETRAINED
from data import tasks
from data.errors import UsageError
from data.objects import UserObject
from data.settings import Count, Positive, none_of, setting
from data.tasks import registry as task_registry
from data.tasks.options import TaskOptions
from optimization import options
from optimization.corrections import Correction
from optimization.posterior import flags as posterior_flags
from optimization.selection import selectors

REPLAY_ROWS = 10  # Maximum rows per client in one round of a replay; no row is used in two rounds.
UNTRAINED = ("scratch", environments.SCENARIO)  # Scenarios without an initial training.
ALONE, POOLED = "alone", "pooled"
EVENT_TRIGGERED = "event_triggered"
FINE_TUNE, LOCAL_HEAD = "fine_tune", "local_head"
# Offline training has a greedy policy, whose actions matter only in evaluation.
_TRAINED_AS: Mapping[str, str] = {"regression": "greedy", "ips": "greedy", "dr": "supervised_mse"}
_WITH_WORK = {"federation": ("federated", ALONE), "model_aggregation": ("mean",)}
_WITH_RATE = {"client_optimizer": [*options.OPTIMIZERS], "client_work": False}
_PERSONAL = {"personalization": (FINE_TUNE, LOCAL_HEAD)}
_Default = Callable[[Mapping[str, Any]], Any]


def of_task(name: str) -> _Default:
    """Default of a setting that depends on the task."""
    return functools.partial(task_defaults.of, name)


def _bandits(suits: Callable[[BanditEntry], bool]) -> dict[str, list[str]]:
    """Condition of a setting: values of `--bandits_type` whose entry has this property."""
    return {"bandits_type": [name for name, entry in BANDITS.items() if suits(entry)]}


def _bandit(settings: Mapping[str, Any]) -> BanditEntry:
    return BANDITS[settings["bandits_type"]]


def _importance_weights(settings: Mapping[str, Any]) -> str | None:
    is_published = settings["variant"] == "reference_code" and settings["importance_weighting"]
    has_epsilon = POLICIES[_bandit(settings).policy].scheduled == "epsilon"
    return "published_code" if is_published and has_epsilon else None


def _cross_entropy(settings: Mapping[str, Any]) -> str | None:
    if settings["variant"] != "reference_code" or not _bandit(settings).cross_entropy:
        return None
    several = "num_tags" in task_registry.TASKS[settings["task_type"]].options
    return "softmax" if _bandit(settings).supervised and not several else "sigmoid"


def _ties(settings: Mapping[str, Any]) -> str | None:
    breaks_ties = POLICIES[_bandit(settings).policy].breaks_ties
    return "first" if settings["variant"] == "reference_code" and breaks_ties else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """Strategy and scenario."""

    name: str = setting(
        "softmax",
        "How clients choose actions, and which loss they minimize",
        {name: entry.help for name, entry in BANDITS.items()},
        name="bandits_type",
        spellings=PUBLISHED_NAMES,
        basic=True,
        convert=lambda name, settings: _TRAINED_AS.get(settings["learn_from"], name),
    )
    scenario: str = setting(
        "scratch",
        "Initial model and rewards. scratch: random weights; init: a model that some clients train with full feedback; "
        "init_shift: like init, but rewards change afterwards; drift: like scratch, but rewards change over time",
        ["scratch", *PRETRAINED, environments.SCENARIO],
        basic=True,
    )
    variant: str = setting(
        "paper", "What to follow where the paper and its published code differ", ["paper", "reference_code"]
    )
    dist_shift_type: str | None = setting(
        None,
        "Use the rewards of only one step of init_shift: the initial training, or the bandits after it",
        ["init", "bandits"],
        only={"scenario": UNTRAINED},
    )
    population_client_selection: str | None = setting(
        None,
        "START-END: clients that participate, from index START up to, but not including, END",
        only={"scenario": UNTRAINED},
    )
    initial_model_path: str | None = setting(
        None, "Folder of the run whose final model is the initial model", pathlib.Path, only={"scenario": UNTRAINED}
    )
    is_initial_model_public: bool = setting(
        False,
        "Count no privacy loss for the initial model, because its clients need no protection",
        name="initial_model_is_public",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deployments:
    """Deployments of the trained model."""

    deploy_every: Count = setting(
        of_task("bandits_deploy_freq"),
        "Rounds between deployments of the trained model",
        name="bandits_deploy_freq",
        basic=True,
    )
    max_delay: int = setting(
        0,
        "Maximum staleness of a client's model, in deployments; each client's is uniform from 0 to this",
        name="bandits_deploy_delay",
        high=16,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learning:
    """How clients learn from their interactions."""

    importance_weighting: bool = setting(
        lambda settings: settings["learn_from"] == "ips" or _bandit(settings).importance_weighted,
        "Weight examples by 1 / propensity (default: depends on --bandits_type and --learn_from)",
        only=_bandits(lambda entry: entry.learns),
    )
    importance_weights: str | None = setting(
        _importance_weights,
        "Importance weight of an example",
        {
            "inverse_propensity": "1 / propensity; default with --variant=paper",
            "published_code": "(epsilon / K) / propensity, for K actions; default with --variant=reference_code",
        },
        only=_bandits(lambda entry: entry.learns and POLICIES[entry.policy].scheduled == "epsilon"),
    )
    loss: str | None = setting(
        None,
        "Scale of the squared loss, also in the initial training",
        {
            "mean": "mean of the squares (default); the learning rates in the paper's tables assume it",
            "half_sum": "half the sum over the mini-batch, and over actions with full feedback, as in the paper",
        },
        only={**_bandits(lambda entry: not entry.cross_entropy), "client_selection": ("uniform",)},
    )
    cross_entropy: str | None = setting(
        _cross_entropy,
        "Cross entropy",
        {
            "softmax": "predicted rewards are a softmax of the outputs; default with --variant=paper",
            "sigmoid": "each predicted reward is the sigmoid of its own output; default with "
            "--variant=reference_code, except for supervised_ce with one label per example",
        },
        only=_bandits(lambda entry: entry.cross_entropy),
    )
    ties: str | None = setting(
        _ties,
        "Tie-breaking rule among actions with equal predictions",
        {
            "random": "uniformly at random; default with --variant=paper",
            "first": "the first action; default with --variant=reference_code",
        },
        only=_bandits(lambda entry: POLICIES[entry.policy].breaks_ties),
    )
    statistics: str | None = setting(
        None,
        "Model that gives a neural bandit its features, which are the inputs of the model's last layer",
        {
            "restart": "the deployed model; sums start at 0 at each deployment",
            "freeze": "the initial model, which is not trained further; sums cover all rounds",
        },
        only=_bandits(lambda entry: entry.sums and entry.trains),
        applied_default="restart",
    )
    communication: str | None = setting(
        None,
        "When a client exchanges sums with the server: in every round, or once it has learned enough since its last "
        "exchange; see docs/strategies.md",
        ["every_round", EVENT_TRIGGERED],
        only=_bandits(lambda entry: entry.sums and not entry.trains),
        applied_default="every_round",
    )
    communication_threshold: float = setting(
        None,
        "alpha: a client exchanges sums once they raise det V by more than this fraction",
        only={"communication": (EVENT_TRIGGERED,)},
        applied_default=1.0,
    )
    cache: str = setting(
        "round",
        "Whether a client acts in every round (Algorithm 4), or once per deployment and keeps its log until the next "
        "deployment (Algorithm 1)",
        ["round", "persistent"],
    )
    logs_interactions: bool = setting(
        None,
        "Write clients' logs, which no privacy guarantee covers, and each period's deployed model (default: no); see "
        "docs/logs.md",
        name="log_interactions",
        unset=False,
        only=_bandits(lambda entry: not entry.supervised),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RoundsAndClients:
    """Rounds and clients."""

    total_rounds: Count = setting(of_task("total_rounds"), "Rounds of the bandit", basic=True)
    clients_per_round: Count = setting(
        of_task("clients_per_round"), "Clients per cohort (default: the task's number, at most all clients)", basic=True
    )
    max_examples_per_client: int = setting(
        functools.partial(task_registry.default, "max_examples_per_client"),
        "Maximum number of examples per client, sampled with the seed; 0 for no limit",
    )
    redraws_examples: bool = setting(
        lambda settings: True if settings["max_examples_per_client"] else None,
        "Sample a capped client's examples again each time it acts (default: yes); otherwise, they are the same in "
        "every round",
        name="redraw_examples",
        unset=False,
    )
    non_private_selection: bool = setting(
        False,
        "With privacy noise, allow clients to be selected by their losses; the privacy cost of this is not counted",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Clients:
    """Clients' training."""

    client_batch_size: Count = setting(of_task("client_batch_size"), "Examples per mini-batch")
    client_epochs: Count = setting(
        of_task("client_epochs_per_round"), "Client epochs per round", name="client_epochs_per_round"
    )
    client_optimizer: str = setting("sgd", "Client optimizer", [*options.OPTIMIZERS], takes_objects=True)
    client_learning_rate: float = setting(
        of_task("client_learning_rate"), "Client learning rate", basic=True, only=_WITH_RATE
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnParts:
    """Parts of your own, each as `module:object`."""

    own_policy: UserObject | None = setting(
        None,
        "A policies.Policy, or a function from predicted rewards, float32 [batch, actions], to probabilities; "
        "replaces the policy of --bandits_type",
        name="policy",
        takes_objects=True,
    )
    reward_function: UserObject | None = setting(
        None,
        "A function from a label and an action (numbers, or the table's names) to the reward (default: 1 for the right "
        "action)",
        name="rewards",
        takes_objects=True,
    )
    own_metrics: tuple[UserObject, ...] = setting(
        None,
        "A function of a client's log; its sum over the cohort becomes a column of metrics.csv; can be repeated",
        list,
        name="metrics",
        takes_objects=True,
        convert=none_of([]),
    )
    client_work: UserObject | None = setting(None, "A ClientWork instead of SGD", takes_objects=True, only=_WITH_WORK)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Federation:
    """Who trains a model, and on which data."""

    federation: str = setting(
        "federated",
        "Who trains a model, and on which data",
        {
            "federated": "clients train one model together",
            ALONE: "each client trains its own model, in the same rounds as when federated; nothing leaves the client",
            POOLED: "the server trains on the collected logs of each cohort",
        },
    )
    alone_budget: str | None = setting(
        None,
        "Which clients train alone in each round",
        {
            "drawn": "the cohorts of the federated run",
            "equal": "the first cohort in every round, so that its clients train as often as the federated model",
        },
        only={"federation": (ALONE,)},
        applied_default="drawn",
    )
    pooled_steps: str | None = setting(
        None,
        "Server steps per round on the cohort's logs",
        {
            "client": "as many as one client takes, with mini-batches as large as those of all clients combined",
            "cohort": "as many as all clients take in total, with mini-batches as large as one client's",
        },
        only={"federation": (POOLED,)},
        applied_default="client",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClientReports:
    """Reports on single clients."""

    reports_clients: bool = setting(
        False,
        "Write each client's reward to private_client_rewards.json, which no privacy guarantee covers; see "
        "docs/federating.md",
        name="report_clients",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """When the model is evaluated."""

    rounds_per_eval: int = setting(
        of_task("rounds_per_eval"), "Rounds between evaluations on held-out data; 0 to evaluate only at the end"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class InitialTraining:
    """Initial training: full feedback before the bandits.

    Attributes:
      bandit: Policy and loss.
      rewards: Key of `Task.rewards`.
      server_optimizer: Server optimizer.
      aggregation: How client updates are aggregated.
    """

    bandit: BanditEntry
    rewards: str
    num_clients: Count | None = setting(
        of_task("init_clients"),
        "Number of clients, starting with the first; the bandits get the rest (default: the task's number; for a "
        "table, a fifth)",
        name="init_clients",
    )
    total_rounds: Count = setting(of_task("init_rounds"), "Number of rounds", name="init_rounds")
    server_optimizer: options.ServerOptimizer
    client_learning_rate: float = setting(
        of_task("init_client_learning_rate"), "Client learning rate", name="init_client_learning_rate", only=_WITH_RATE
    )
    aggregation: options.Aggregation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Personalization:
    """How clients adapt the deployed model."""

    kind: str = setting(
        "none",
        "How a client adapts the deployed model to the log of half of its examples, before it acts on the other half; "
        "see docs/federating.md",
        {
            "none": "the deployed model acts on all examples",
            FINE_TUNE: "the client trains the deployed model",
            LOCAL_HEAD: "the last layer never leaves the client, which retrains it in each round",
        },
        name="personalization",
    )
    epochs: int = setting(
        None,
        "Epochs of the client's adaptation; 0 for none",
        name="personalization_epochs",
        high=20,
        only=_PERSONAL,
        applied_default=1,
    )
    learning_rate: Positive = setting(
        None,
        "Learning rate of the adaptation (default: --client_learning_rate)",
        name="personalization_learning_rate",
        only=_PERSONAL,
        applied_default=lambda settings: settings["client_learning_rate"],
    )
    layers: str = setting(
        None,
        "Layers to train",
        {"all": "all layers", "last": "the last layer"},
        name="personalization_layers",
        unset="last",
        only={"personalization": (FINE_TUNE,)},
        applied_default="all",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class BanditOptions(
    Study,
    Deployments,
    Learning,
    RoundsAndClients,
    Clients,
    OwnParts,
    Federation,
    ClientReports,
    Evaluation,
    options.ClientAlgorithm,
    options.Evaluations,
):
    """All options of a run.

    Attributes:
      seed: Random seed.
      task: Options of the task.
      bandit: Policy and loss.
      policy: The policy with its parameters.
      heads: Number of model heads, also in the initial training.
      published_epsilon: Epsilon of (epsilon / K) / propensity, the published code's weights; None for 1 / propensity.
      initial: The training before the bandits, or None.
      rewards: Key of `Task.rewards` for the bandits.
      drift: How rewards change over the bandits' rounds.
      delay: How long rewards are delayed.
      reset: What resets restart, and when.
      cohorts: How clients are sampled, if no selector chooses them.
      selection: How cohorts are selected; uniform selection uses `cohorts`.
      corrections: Corrections of clients' gradients, also in the initial training.
      client_hyperparameters: (name, value) of the client optimizer's hyperparameters that differ from their defaults.
      server_optimizer: Server optimizer.
      aggregation: How client updates are aggregated.
      posterior: Posterior aggregation of the clients' models; None for none.
      rounds_per_checkpoint: Rounds between checkpoints; 0 to save only the last round.
      personalization: How clients adapt the deployed model; None if they do not.
    """

    seed: int
    task: TaskOptions
    bandit: BanditEntry
    policy: PolicySpec
    heads: int
    published_epsilon: float | None
    initial: InitialTraining | None
    rewards: str
    drift: environments.Drift
    delay: environments.Delay
    reset: resets.Reset
    cohorts: options.Cohorts
    selection: selectors.Selection
    corrections: tuple[Correction, ...]
    client_hyperparameters: tuple[tuple[str, float], ...]
    server_optimizer: options.ServerOptimizer
    aggregation: options.Aggregation
    posterior: posterior_flags.Posterior | None
    rounds_per_checkpoint: int
    personalization: Personalization | None

    @property
    def has_noisy_sums(self) -> bool:
        """Whether a mechanism adds noise to the sums that the policy depends on."""
        return self.bandit.sums and self.aggregation.kind in options.NOISY

    @property
    def has_user_training(self) -> bool:
        """Whether the model is trained, and a part of the training is the user's own."""
        parts = self.client_work, self.client_optimizer, self.server_optimizer.name, self.aggregation.own
        return self.bandit.trains and any(isinstance(part, UserObject) for part in parts)

    @property
    def keeps_cache(self) -> bool:
        """Whether a client acts once per deployment (Algorithm 1) instead of in each round (Algorithm 4)."""
        return self.cache == "persistent"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase(BanditOptions):
    """Options of one phase of a run: the bandits, or the initial training.

    Attributes:
      label: Printed name.
      population: Indices of the clients that take part.
      spent_rounds: Rounds of earlier training. Only these are accounted for if this phase releases nothing.
    """

    label: str
    population: range
    spent_rounds: int = 0

    @property
    def logs(self) -> bool:
        """Whether clients' logs have only the rewards of chosen actions."""
        return not self.bandit.supervised

    def scheduled_value(self, num_actions: int, period: int) -> float | None:
        """Scheduled value of the policy's parameter in a deployment period, counted from 0; None if not scheduled."""
        schedule = self.policy.schedule
        return schedule.value(period, self.planned(num_actions)) if schedule else None

    def planned(self, num_actions: int) -> schedules.Planned:
        """Planned deployments, in the form that schedules need."""
        cap = REPLAY_ROWS if self.task.learn_from == "replay" else self.max_examples_per_client
        return schedules.Planned(num_actions, self.deploy_every * self.cohorts.size * cap)

    @property
    def periods(self) -> int:
        """Number of deployment periods."""
        return math.ceil(self.total_rounds / self.deploy_every)

    def acted_in(self, round_num: int) -> int:
        """Round in which the clients of `round_num` acted."""
        return acted_in(round_num, self.deploy_every) if self.keeps_cache else round_num

    @property
    def is_alone(self) -> bool:
        """Whether each client trains its own model."""
        return self.federation == ALONE

    @property
    def is_pooled(self) -> bool:
        """Whether the server trains on the clients' logs."""
        return self.federation == POOLED

    @property
    def has_variates(self) -> bool:
        """Whether the server and each client keep a control variate."""
        return self.client_algorithm is not None and self.bandit.trains

    @property
    def is_event_triggered(self) -> bool:
        """Whether each client decides when it exchanges sums with the server."""
        return self.communication == EVENT_TRIGGERED and self.bandit.sums

    @property
    def has_local_head(self) -> bool:
        """Whether the last layer stays with the clients."""
        return self.personalization is not None and self.personalization.kind == LOCAL_HEAD

    @property
    def has_halves(self) -> bool:
        """Whether rewards are summed over halves of a client's examples."""
        return self.personalization is not None or self.reports_clients

    @property
    def releases(self) -> bool:
        """Whether clients send anything: updates of the model, or sums over their interactions."""
        return (self.bandit.trains or self.bandit.sums) and not self.is_alone

    def accounted(self, round_num: int) -> int:
        """Number of rounds to account for after `round_num` rounds of this phase."""
        return round_num if self.releases else self.spent_rounds


def acted_in(rounds: Any, deploy_every: int) -> Any:
    """First round of a round's deployment period, in which clients with a persistent cache acted.

    Args:
      rounds: int, a round number; or an array of them.
      deploy_every: Rounds between deployments.
    """
    return rounds - (rounds - 1) % deploy_every


def phases(chosen: BanditOptions, task: tasks.Task) -> tuple[Phase, ...]:
    """Phases of a run: the initial training, if it has one, and the bandits.

    Raises:
      UsageError: If the task has too few clients, or the selection of clients is not valid.
    """
    return _phases(chosen, len(task.clients))


@functools.lru_cache(maxsize=1024)
def _phases(chosen: BanditOptions, num_clients: int) -> tuple[Phase, ...]:
    first, population = populations(chosen, num_clients)
    weighting = chosen.selection.weighting(chosen.aggregation.client_weighting)
    aggregation = dataclasses.replace(chosen.aggregation, client_weighting=weighting)
    bandits = dataclasses.replace(chosen, aggregation=aggregation)
    last = Phase(**vars(bandits), label=chosen.policy.label or chosen.name, population=population)
    if not (initial := chosen.initial):
        return (last,)
    settings = dict(vars(initial))
    del settings["num_clients"]
    training = dataclasses.replace(
        chosen,
        **settings,
        policy=chosen.policy if initial.bandit == chosen.bandit else PolicySpec(POLICIES["greedy"].target),
        cohorts=dataclasses.replace(chosen.cohorts, size=min(chosen.cohorts.size, len(first))),
        deploy_every=1,
        selection=selectors.UNIFORM,
        posterior=None,
        drift=environments.NO_DRIFT,
        delay=environments.NO_DELAY,
        reset=resets.NONE,
        federation="federated",
        pooled_steps=None,
        alone_budget=None,
        personalization=None,
        reports_clients=False,
    )
    return Phase(**vars(training), label="Initial training", population=first), last


def populations(chosen: BanditOptions, num_clients: int) -> tuple[range, range]:
    """Clients of the initial training, and clients of the bandits.

    Raises:
      UsageError: If the task has too few clients, or the selection of clients is not valid.
    """
    population = population_range(chosen.population_client_selection, num_clients)
    count = 0
    if chosen.initial:
        count = chosen.initial.num_clients or max(1, len(population) // 5)
    if count and not population[count:]:
        raise UsageError(f"--init_clients={count} leaves none of the task's {num_clients} clients for the bandits.")
    return population[:count], population[count:]


def population_range(selection: str | None, count: int) -> range:
    """Indices of the clients in a selection `START-END`; of all `count` clients for None.

    Raises:
      UsageError: If the selection is not START-END with START < END <= count.
    """
    if selection is None:
        return range(count)
    match = re.fullmatch(r"(\d+)-(\d+)", selection)
    if not match or not int(match[1]) < int(match[2]) <= count:
        raise UsageError(
            f"--population_client_selection={selection} must be START-END with START < END <= {count}, the task's "
            "number of clients."
        )
    return range(int(match[1]), int(match[2]))
