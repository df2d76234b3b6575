"""What `run_federated`'s flags mean, and the phases of a run; nothing here imports TensorFlow."""

import dataclasses
import functools
import math
import re
from typing import Any

from bandits import environments, resets, schedules
from bandits.registry import POLICIES, BanditEntry, Chosen
from data import tasks
from data.errors import UsageError
from data.tasks.options import TaskOptions
from optimization import options
from optimization.corrections import Correction
from optimization.posterior import flags as posterior_flags
from optimization.selection import selectors

REPLAY_ROWS = 10  # Most rows of a client that a round of a replay offers, each row in one round alone.


@dataclasses.dataclass(frozen=True)
class InitialTraining:
    """The training with full feedback that comes before the bandits.

    Attributes:
      bandit: Policy and loss.
      num_clients: Clients that it uses: the population's first ones; None for a fifth of it, at least one.
      rewards: Key of `Task.rewards`.
      total_rounds: Its rounds.
      server_optimizer: The server's.
      client_learning_rate: The clients'.
      aggregation: How a cohort's updates become one.
    """

    bandit: BanditEntry
    num_clients: int | None
    rewards: str
    total_rounds: int
    server_optimizer: options.ServerOptimizer
    client_learning_rate: float
    aggregation: options.Aggregation


@dataclasses.dataclass(frozen=True)
class Personalization:
    """How a client adapts the deployed model.

    Attributes:
      kind: A value of `--personalization` other than none.
      epochs: Passes over the log of half A.
      learning_rate: Learning rate of the adaptation.
      layers: Layers that it trains, `all` or `last`.
    """

    kind: str
    epochs: int
    learning_rate: float
    layers: str = "last"


@dataclasses.dataclass(frozen=True)
class BanditOptions:
    """What all flags mean.

    Attributes:
      seed: Random seed.
      task: Which task is opened.
      name: What `--bandits_type` calls policy and loss.
      bandit: Policy and loss.
      policy: The policy with its parameters.
      heads: Heads of the model, in the initial training too.
      importance_weighting: Whether examples have importance weights.
      published_epsilon: Epsilon of (epsilon / K) / propensity, the published code's weights; None for 1 / propensity.
      half_sum: Whether a squared loss is half a sum, as in the paper, instead of a mean.
      sigmoid: Whether a cross entropy is that of each action's own logit.
      initial: The training before the bandits, or None.
      initial_model_path: Folder of the run whose model is the initial one, or None.
      is_initial_model_public: Whether no client of the initial training needs protection.
      population_client_selection: `START-END`, the clients that take part; None for all.
      rewards: Key of `Task.rewards` for the bandits.
      has_shift: Whether rewards change between an initial training and the bandits.
      drift: How they change over the bandits' rounds.
      delay: How late they are.
      reset: What starts again, and when.
      total_rounds: Rounds of the bandits.
      cohorts: How clients are drawn, if no selector chooses them.
      selection: How cohorts are chosen; uniform ones follow `cohorts`.
      deploy_every: Rounds between deployments.
      max_delay: Most deployments that a client lags behind.
      keeps_cache: Whether a client acts once a deployment (Algorithm 1) instead of in each round (Algorithm 4).
      max_examples_per_client: Cap on a client's examples; 0 for none.
      redraws_examples: Whether those of a capped client are sampled again whenever it acts.
      logs_interactions: Whether what clients log is written, and each period's deployed model.
      client_batch_size: Examples of a mini-batch.
      client_epochs: Passes of a client over its log.
      client_learning_rate: Of the clients' SGD.
      corrections: Of its gradients, in the initial training too.
      server_optimizer: The server's.
      aggregation: How a cohort's updates become one.
      posterior: How a cohort's models become one, where that is no `aggregation`.
      eval_batch_size: Examples of an evaluation batch.
      max_validation_samples: Most held-out examples; 0 for all.
      rounds_per_eval: Rounds between evaluations; 0 for only the last.
      rounds_per_checkpoint: Rounds between checkpoints; 0 for only the last.
      federation: Who trains on which data, a value of `--federation`.
      alone_budget: Of clients that train alone: which of them take part.
      pooled_steps: Of a server that trains on logs: how many steps it takes in a round.
      personalization: How clients adapt the deployed model; None for not at all.
      reports_clients: Whether the run writes what each client earned.
    """

    seed: int
    task: TaskOptions
    name: str
    bandit: BanditEntry
    policy: Chosen
    heads: int
    importance_weighting: bool
    published_epsilon: float | None
    half_sum: bool
    sigmoid: bool
    initial: InitialTraining | None
    initial_model_path: str | None
    is_initial_model_public: bool
    population_client_selection: str | None
    rewards: str
    has_shift: bool
    drift: environments.Drift
    delay: environments.Delay
    reset: resets.Reset
    total_rounds: int
    cohorts: options.Cohorts
    selection: selectors.Selection
    deploy_every: int
    max_delay: int
    keeps_cache: bool
    max_examples_per_client: int
    redraws_examples: bool
    logs_interactions: bool
    client_batch_size: int
    client_epochs: int
    client_learning_rate: float
    corrections: tuple[Correction, ...]
    server_optimizer: options.ServerOptimizer
    aggregation: options.Aggregation
    posterior: posterior_flags.Posterior | None
    eval_batch_size: int
    max_validation_samples: int
    rounds_per_eval: int
    rounds_per_checkpoint: int
    federation: str
    alone_budget: str | None
    pooled_steps: str | None
    personalization: Personalization | None
    reports_clients: bool


@dataclasses.dataclass(frozen=True)
class Phase(BanditOptions):
    """The options of one sequence of rounds: of the bandits', or of the initial training's.

    Attributes:
      label: Its printed name.
      population: Indices of the clients that take part.
      spent_rounds: Where this phase releases nothing, the rounds of the earlier training, which alone are accounted.
    """

    label: str
    population: range
    spent_rounds: int = 0

    @property
    def logs(self) -> bool:
        """Whether its clients learn from a bandit's log: from the reward of the chosen action alone."""
        return not self.bandit.supervised

    def scheduled_value(self, num_actions: int, period: int) -> float | None:
        """Scheduled value of the policy's parameter in a deployment period, from 0; None without a schedule."""
        schedule = self.policy.schedule
        return schedule.value(period, self.planned(num_actions)) if schedule else None

    def planned(self, num_actions: int) -> schedules.Planned:
        """The plan of its deployments, which schedules read."""
        cap = REPLAY_ROWS if self.task.learn_from == "replay" else self.max_examples_per_client
        return schedules.Planned(num_actions, self.deploy_every * self.cohorts.size * cap)

    @property
    def periods(self) -> int:
        """How many deployment periods it has."""
        return math.ceil(self.total_rounds / self.deploy_every)

    def acted_in(self, round_num: int) -> int:
        """Round in which a client of this round acted."""
        return acted_in(round_num, self.deploy_every) if self.keeps_cache else round_num

    @property
    def is_alone(self) -> bool:
        """Whether each client trains its own model."""
        return self.federation == "alone"

    @property
    def is_pooled(self) -> bool:
        """Whether the server trains on the clients' logs."""
        return self.federation == "pooled"

    @property
    def has_local_head(self) -> bool:
        """Whether the last layer stays with the clients."""
        return self.personalization is not None and self.personalization.kind == "local_head"

    @property
    def has_halves(self) -> bool:
        """Whether rewards are summed over halves of a client's examples."""
        return self.personalization is not None or self.reports_clients

    @property
    def releases(self) -> bool:
        """Whether something that clients trained leaves them."""
        return self.bandit.trains and not self.is_alone

    def accounted(self, round_num: int) -> int:
        """Number of rounds whose privacy is spent after some rounds of this phase."""
        return round_num if self.releases else self.spent_rounds


def acted_in(rounds: Any, deploy_every: int) -> Any:
    """First round of a round's deployment period, in which clients with a persistent cache acted.

    Args:
      rounds: int, the round; or an array.
      deploy_every: Rounds between deployments.
    """
    return rounds - (rounds - 1) % deploy_every


def phases(chosen: BanditOptions, task: tasks.Task) -> tuple[Phase, ...]:
    """Phases of a run: the initial training, if it has one, and the bandits.

    Raises:
      UsageError: If the task has too few clients.
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
        policy=chosen.policy if initial.bandit == chosen.bandit else Chosen(POLICIES["greedy"].target),
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
      UsageError: If the task has too few clients.
    """
    population = population_range(chosen.population_client_selection, num_clients)
    count = 0
    if chosen.initial:
        count = chosen.initial.num_clients or max(1, len(population) // 5)
    if count and not population[count:]:
        raise UsageError(f"--init_clients={count} leaves none of the task's {num_clients} clients to the bandits.")
    return population[:count], population[count:]


def population_range(selection: str | None, count: int) -> range:
    """Client indices of `START-END`; all for None.

    Raises:
      UsageError: If it is not START-END with START < END <= count.
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
