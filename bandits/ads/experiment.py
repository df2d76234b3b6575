"""The federated multi-armed bandit as a TFF process, its rounds, and a centralised bandit on the same impressions.

The method is from Gerstein, "Federated Multi-Arm Bandit": Algorithm 1 describes a client's pulls, and Algorithm 2 the
server's rounds. The simulation batches clients: one TFF client value is a shard of several clients that are computed in
parallel. The differential of a client is the change in its model. A shard's mean differential enters the overall mean
with the weight of the whole shard, so up to rounding the result is the same as with one value per client. Every client
samples with its own key, which does not depend on the shard. An aggregator that processes each client separately, such
as clipping for differential privacy, needs shards of one client.

With `GradientEpsilon` and `FederatedUcb`, the server averages more than the action values. The paper lists both as
remedies for federated exploration, in one line each. The equations are this project's.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits import decision_rules
from bandits.ads import flags, metrics
from data import ads, keys
from optimization import aggregators, cohorts
from optimization.selection.availability import Attendance
from optimization.study import aggregation_flags, compiled, payloads, runner
from optimization.study.metrics import mean

# Large enough to keep all cores busy, and to give TFF few client values, each of which takes some milliseconds.
_CLIENTS_PER_SHARD = 500


class EpsilonState(NamedTuple):
    """State of `GradientEpsilon`.

    Attributes:
      values: float32 [..., actions], estimated expected rewards.
      counts: float32 [..., actions], times each action was executed.
      epsilon: float32 [..., 1], the probability of choosing a random action.
    """

    values: decision_rules.Array
    counts: decision_rules.Array
    epsilon: decision_rules.Array


class IntervalState(NamedTuple):
    """State of `FederatedUcb`.

    Attributes:
      values: float32 [..., actions], estimated expected rewards.
      counts: float32 [..., actions], times each action was executed.
      interval: float32 [..., actions], how far the expected reward may lie above its estimate.
    """

    values: decision_rules.Array
    counts: decision_rules.Array
    interval: decision_rules.Array


# The fields of a state that every client receives from the server, and whose differentials are averaged. All other
# fields are reset in each round, as N is in Algorithm 1.
AVERAGED: Mapping[type, tuple[str, ...]] = {
    decision_rules.ValueState: ("values",),
    decision_rules.BetaState: ("successes", "failures"),
    EpsilonState: ("values", "epsilon"),
    IntervalState: ("values", "interval"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GradientEpsilon(decision_rules.EpsilonGreedy):
    """Epsilon-greedy whose exploration rate follows the gradient of the expected reward.

    The expected reward is (1 - epsilon) max_a Q(a) + epsilon mean_a Q(a), where epsilon is the exploration rate. Each
    reward therefore lowers epsilon by epsilon_step times max_a Q(a) - mean_a Q(a). This difference is never negative,
    so epsilon never rises, on a client or in the mean over clients. Only noise for privacy can raise it.

    Attributes:
      epsilon: Exploration rate before the first reward.
      epsilon_step: Step size along the gradient, at least 0.
    """

    epsilon_step: float = 0.02

    def init(self, num_actions: int, batch_shape: tuple[int, ...] = ()) -> EpsilonState:
        state = super().init(num_actions, batch_shape)
        return EpsilonState(*state, np.full((*batch_shape, 1), self.epsilon, np.float32))

    def select(self, state: EpsilonState, key: decision_rules.Array) -> tf.Tensor:
        return decision_rules.select_epsilon_greedy(
            state.values, state.epsilon[..., 0], key, spares_greedy=self.spares_greedy
        )

    def _learn(self, state: EpsilonState, tried: tf.Tensor, rewards: tf.Tensor) -> EpsilonState:
        values, counts = super()._learn(decision_rules.ValueState(state.values, state.counts), tried, rewards)
        gap = tf.reduce_max(values, axis=-1, keepdims=True) - tf.reduce_mean(values, axis=-1, keepdims=True)
        return EpsilonState(values, counts, tf.clip_by_value(state.epsilon - self.epsilon_step * gap, 0.0, 1.0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FederatedUcb(decision_rules.Ucb):
    """Upper confidence bound whose interval is a learned quantity, so that it can be averaged.

    The interval is Hoeffding's at a fixed confidence, U = c / sqrt(n), with n = 1 before the first reward. Each
    execution adds 1 to the n that the interval represents, so 1/U^2 grows by 1/c^2.
    """

    def init(self, num_actions: int, batch_shape: tuple[int, ...] = ()) -> IntervalState:
        state = super().init(num_actions, batch_shape)
        return IntervalState(*state, np.full_like(state.values, self.c))

    def interval(self, state: IntervalState) -> tf.Tensor:
        return tf.convert_to_tensor(state.interval)

    def _learn(self, state: IntervalState, tried: tf.Tensor, rewards: tf.Tensor) -> IntervalState:
        values, counts = super()._learn(decision_rules.ValueState(state.values, state.counts), tried, rewards)
        # Noise for differential privacy can push an averaged interval below 0. It is then set to 0.
        positive = tf.maximum(state.interval, 0.0)
        interval = positive / tf.sqrt(1 + tried * tf.square(positive / self.c))
        return IntervalState(values, counts, interval)


def averaged_vector(state: Any) -> tf.Tensor:
    """Averaged fields of a state, concatenated, float32 [..., numbers]."""
    return tf.concat([getattr(state, name) for name in AVERAGED[type(state)]], axis=-1)


def server_state(fresh: Any, vector: decision_rules.Array) -> Any:
    """A rule's state at the start of a round: averaged fields from the server, and initial values of all other fields.

    Args:
      fresh: The rule's `init(num_actions)`.
      vector: float32 [numbers], the averaged fields in the layout of `averaged_vector`.
    """
    names = AVERAGED[type(fresh)]
    parts = tf.split(vector, [getattr(fresh, name).shape[-1] for name in names])
    return fresh._replace(**dict(zip(names, parts, strict=True)))


class AdsState(NamedTuple):
    """The server's state between rounds.

    Attributes:
      model: float32 [numbers], the rule's averaged fields: the action values Q, and anything else that it averages.
      aggregator: The aggregator's state.
    """

    model: np.ndarray
    aggregator: object


class Shard(NamedTuple):
    """Input of a round for the clients of one shard.

    Attributes:
      clicks: uint8 [clients, pulls, actions], 1 where an action would be clicked; only the chosen one is observed.
      keys: int32 [clients, 2], the clients' keys.
    """

    clicks: np.ndarray
    keys: np.ndarray


class RoundMetrics(NamedTuple):
    """Metrics of a round.

    Attributes:
      clicks: int32, total clicks of all clients.
      executed: int32 [actions], how often each action was executed.
      aggregator: The aggregator's metrics.
    """

    clicks: int
    executed: np.ndarray
    aggregator: object


class Pulls(NamedTuple):
    """Outcome of a sequence of pulls.

    Attributes:
      state: The rule's state after the last pull.
      clicks: float32 [...], number of clicks.
      executed: float32 [..., actions], how often each action was executed.
      explored: float32 [...], number of pulls of an action whose estimate was not the highest.
    """

    state: Any
    clicks: tf.Tensor
    executed: tf.Tensor
    explored: tf.Tensor


def pull(
    rule: decision_rules.DecisionRule, state: Any, clicks: tf.Tensor, key: tf.Tensor, count: tf.Tensor | None = None
) -> Pulls:
    """Shows one ad per impression, in order (the loop of Algorithm 1).

    Args:
      rule: The decision rule.
      state: State of the rule, with or without a leading axis of clients.
      clicks: uint8 [..., pulls, actions].
      key: int32 [..., 2]; pull i samples with the key plus (0, i).
      count: int32 scalar, number of impressions to show, beginning with the first; None for all.
    """
    num_actions = clicks.shape[-1]
    batch_dims = clicks.shape.rank - 2

    def body(index, before: Pulls):
        action = rule.select(before.state, key + tf.stack([0, index]))
        shown = tf.cast(tf.gather(clicks, index, axis=batch_dims), tf.float32)
        reward = tf.gather(shown, action, axis=-1, batch_dims=batch_dims)
        estimates = rule.estimates(before.state)
        estimate = tf.gather(estimates, action, axis=-1, batch_dims=batch_dims)
        explores = tf.cast(estimate < tf.reduce_max(estimates, axis=-1), tf.float32)
        after = Pulls(
            rule.update(before.state, action, reward),
            before.clicks + reward,
            before.executed + tf.one_hot(action, num_actions),
            before.explored + explores,
        )
        return index + 1, after

    none = tf.zeros(tf.shape(clicks)[:-2])
    start = Pulls(
        tf.nest.map_structure(tf.convert_to_tensor, state),
        none,
        tf.zeros(tf.concat([tf.shape(clicks)[:-2], [num_actions]], axis=0)),
        none,
    )
    count = tf.shape(clicks)[-2] if count is None else count
    return tf.while_loop(lambda index, _: index < count, body, (tf.constant(0), start))[1]


def start_model(rule: decision_rules.DecisionRule, num_actions: int) -> np.ndarray:
    """Model before the first round, float32 [numbers]."""
    return averaged_vector(rule.init(num_actions)).numpy()


@dataclasses.dataclass(frozen=True)
class AdsProcess:
    """Definition of the rounds.

    Attributes:
      rule: The decision rule of every client.
      num_actions: Number of ads.
      aggregator: Factory of a weighted aggregation of differentials.
      exploration_weight: Weight of an exploring pull; a client's weight is 1 plus the weights of its exploring pulls.
    """

    rule: decision_rules.DecisionRule
    num_actions: int
    aggregator: tff.aggregators.WeightedAggregationFactory
    exploration_weight: float = 0.0

    def client_pulls(self, model: tf.Tensor, shard: Shard) -> tuple[tf.Tensor, Pulls]:
        """Executes the pulls of a shard's clients (Algorithm 1).

        Args:
          model: float32 [numbers], see `AdsState`.
          shard: Clicks and keys of the clients.

        Returns:
          Each client's differential from the model, float32 [clients, numbers], and the pulls.
        """
        fresh = self.rule.init(self.num_actions)
        count = tf.shape(shard.keys)[0]
        state = tf.nest.map_structure(lambda field: tf.tile(field[tf.newaxis], [count, 1]), server_state(fresh, model))
        pulls = pull(self.rule, state, shard.clicks, shard.keys)
        return averaged_vector(pulls.state) - model, pulls

    def build(self) -> tff.templates.IterativeProcess:
        """Iterative process: `initialize() -> AdsState`, `next(state, shards) -> (state, RoundMetrics)`."""
        start = start_model(self.rule, self.num_actions)
        model_type = tff.TensorType(np.float32, start.shape)
        aggregation = self.aggregator.create(model_type, tff.TensorType(np.float32))
        shard_type = tff.to_type(Shard._make([(np.uint8, (None, None, self.num_actions)), (np.int32, (None, 2))]))

        @tff.federated_computation
        def initialize():
            return tff.federated_zip(AdsState(tff.federated_value(start, tff.SERVER), aggregation.initialize()))

        @tff.tensorflow.computation(model_type, shard_type)
        def work(model, shard):
            deltas, pulls = self.client_pulls(model, shard)
            weights = 1 + self.exploration_weight * pulls.explored
            weight = tf.reduce_sum(weights)
            delta = tf.linalg.matvec(deltas, weights, transpose_a=True) / weight
            clicks = tf.cast(tf.reduce_sum(pulls.clicks), tf.int32)
            return delta, weight, clicks, tf.cast(tf.reduce_sum(pulls.executed, axis=0), tf.int32)

        @tff.tensorflow.computation(model_type, model_type)
        def step(model, delta):
            return model + delta

        @tff.federated_computation(
            tff.FederatedType(initialize.type_signature.result.member, tff.SERVER),
            tff.FederatedType(shard_type, tff.CLIENTS),
        )
        def next_round(state, shards):
            delta, weight, clicks, executed = tff.federated_map(work, (tff.federated_broadcast(state.model), shards))
            aggregate = aggregation.next(state.aggregator, delta, weight)
            model = tff.federated_map(step, (state.model, aggregate.result))
            metrics = RoundMetrics(tff.federated_sum(clicks), tff.federated_sum(executed), aggregate.measurements)
            return tff.federated_zip(AdsState(model, aggregate.state)), tff.federated_zip(metrics)

        return tff.templates.IterativeProcess(initialize, next_round)


class Totals(NamedTuple):
    """Sums over all rounds so far.

    Attributes:
      reward: int64, number of clicks.
      regret: float64, expected clicks of the best fixed action minus those of the executed actions.
    """

    reward: np.int64
    regret: np.float64


class RoundState(NamedTuple):
    """State between rounds.

    Attributes:
      server: The federated bandit's server state.
      federated: Totals of the federated bandit.
      central: State of the centralised bandit's decision rule.
      centralised: Totals of the centralised bandit.
      cohort_seed: uint32 [4], seed of the cohorts if privacy depends on keeping them secret. Otherwise it is empty, and
        the cohorts are sampled with `--seed`.
    """

    server: AdsState
    federated: Totals
    central: Any
    centralised: Totals
    cohort_seed: Any = ()


def build_centralised(rule: decision_rules.DecisionRule) -> Callable:
    """Builds a round of the centralised bandit: (state, clicks, count, key) -> (state, clicks, executed).

    See `pull` and `Pulls`.
    """

    def play(state, clicks, count, key):
        pulls = pull(rule, state, clicks, key, count)
        return pulls.state, pulls.clicks, pulls.executed

    # Sequential pulls are almost pure overhead, which XLA cuts by a factor of 100. On the CPU, XLA cannot sample from a
    # Gamma distribution.
    use_xla = not isinstance(rule, decision_rules.Thompson)
    return compiled.cached(("ads, centralised", rule), lambda: tf.function(play, autograph=False, jit_compile=use_xla))


def round_impressions(impressions: ads.Impressions, round_num: int, count: int) -> np.ndarray:
    """Each client's impressions in a round (counted from 1), uint8 [clients, count, ads]."""
    return impressions.clicks[:, (round_num - 1) * count : round_num * count]


def central_stream(shown: np.ndarray) -> np.ndarray:
    """A round's impressions in chronological order: the first pulls of all clients, then the second ones, and so on.

    Args:
      shown: uint8 [clients, pulls, ads].

    Returns:
      uint8 [pulls * clients, ads].
    """
    return shown.swapaxes(0, 1).reshape(-1, shown.shape[-1])


def shards(shown: np.ndarray, cohort: np.ndarray, seed: int, round_num: int, size: int) -> list[Shard]:
    """Splits a round's clients into shards of at most `size` clients.

    Args:
      shown: uint8 [cohort, pulls, ads].
      cohort: int [cohort], indices of the clients.
      seed: Seed of the run.
      round_num: The round.
      size: Maximum number of clients per shard.
    """
    client_keys = [keys.tensorflow_key(seed, keys.Purpose.CACHE, round_num, int(client)) for client in cohort]
    return [
        Shard(shown[start : start + size], np.stack(client_keys[start : start + size]))
        for start in range(0, len(shown), size)
    ]


class AdsRounds(runner.Rounds):
    """The rounds of a run.

    Attributes:
      mechanism: Privacy mechanism of the aggregation; its noise multiplier is 0 without noise.
    """

    def __init__(self, options: flags.AdsOptions, impressions: ads.Impressions):
        """Builds the computations for the impressions of all clients."""
        self._options, self._impressions = options, impressions
        self._num_clients, _, self._num_actions = impressions.clicks.shape
        self._rule = options.rule.build()
        self.mechanism = aggregation_flags.mechanism(options.aggregation, options.cohorts, options.num_clients, 1)
        present = options.cohorts.availability
        self._attendance = Attendance(present, present.random_zones(options.num_clients), options.seed)
        self.secrets = ["the seed of the cohorts"] * self.mechanism.rests_on_cohorts
        shapes = [start_model(self._rule, self._num_actions).shape]

        def build() -> tff.templates.IterativeProcess:
            factory = aggregators.build(options.aggregation, self.mechanism, shapes)
            return AdsProcess(self._rule, self._num_actions, factory, options.exploration_weight).build()

        key = "ads", self._rule, self._num_actions, options.exploration_weight, options.aggregation, self.mechanism
        # Noise must differ between runs, so a process with noise is not reused.
        self._process = build() if self.mechanism.noise_multiplier else compiled.cached(key, build)
        self._payloads = payloads.of_model(shapes), payloads.of_update(shapes, options.aggregation)
        self._pull_central = build_centralised(self._rule)
        # Clipping applies to the differential of one client, not of a whole shard.
        self._shard_size = _CLIENTS_PER_SHARD if options.aggregation.clip_norm is None else 1

    def initial_state(self) -> RoundState:
        """State before round 1."""
        nothing = Totals(np.int64(0), np.float64(0))
        secret = cohorts.secret_seed() if self.secrets else ()
        return RoundState(self._process.initialize(), nothing, self._rule.init(self._num_actions), nothing, secret)

    def cohort(self, round_num: int, cohort_seed: Any = (), *, with_drop_outs: bool = False) -> np.ndarray:
        """Clients of a round in ascending order, int [clients].

        Args:
          round_num: The round.
          cohort_seed: As in `RoundState`.
          with_drop_outs: Whether to include clients that start the round but drop out.
        """
        seed = cohorts.as_integer(cohort_seed) if len(cohort_seed) else self._options.seed
        sampled = cohorts.draw(self._options.cohorts, self._num_clients, seed, round_num)
        attending = self._attendance.start if with_drop_outs else self._attendance.come
        return np.sort(attending(sampled, round_num, fill=self._options.cohorts.sampling == "fixed"))

    def run_round(self, state: RoundState, round_num: int) -> tuple[RoundState, dict[str, float]]:
        """Runs one round of the federated bandit, and one of the centralised bandit on the same impressions.

        Clients that do not participate show no ads, so neither bandit uses their impressions of this round.
        """
        seed, rates = self._options.seed, self._impressions.rates
        pulls, each = self._options.local_pulls, self._options.pulls_per_impression
        cohort = self.cohort(round_num, state.cohort_seed)
        shown = np.repeat(round_impressions(self._impressions, round_num, pulls // each), each, axis=1)[cohort]
        server, reached, executed = state.server, 0, np.zeros(self._num_actions, int)
        if len(cohort) or self.mechanism.noise_multiplier:  # Noise in every round hides who participated.
            server, counts = self._process.next(server, shards(shown, cohort, seed, round_num, self._shard_size))
            reached, executed = int(counts.clicks), counts.executed
        # The centralised learner samples with the key of an additional client.
        key = keys.tensorflow_key(seed, keys.Purpose.CACHE, round_num, self._num_clients)
        stream = central_stream(shown)
        # XLA would compile again for each new length, so the stream has the same length in all rounds.
        padded = np.pad(stream, [(0, self._num_clients * pulls - len(stream)), (0, 0)])
        central, clicks, central_executed = self._pull_central(state.central, padded, tf.constant(len(stream)), key)
        federated, row = _count(state.federated, reached, executed, rates, "federated")
        executed = np.asarray(central_executed)
        centralised, central_row = _count(state.centralised, int(clicks), executed, rates, "centralised")
        row |= _learned(server_state(self._rule.init(self._num_actions), server.model), "federated")
        central_row |= _learned(central, "centralised")
        sent = len(self.cohort(round_num, state.cohort_seed, with_drop_outs=True))
        row |= payloads.row(*self._payloads, sent, len(cohort))
        spent = {metrics.CLIENTS: len(cohort), metrics.EPSILON: self.mechanism.epsilon(round_num)}
        return RoundState(server, federated, central, centralised, state.cohort_seed), row | central_row | spent


def _learned(state: Any, learner: str) -> dict[str, float]:
    """Columns with a rule's exploration rate and its mean interval over ads; NaN for rules without them."""
    values = zip(metrics.LEARNED, ("epsilon", "interval"), strict=True)
    return {metrics.column(learner, name): float(np.mean(getattr(state, field, np.nan))) for name, field in values}


def _count(
    totals: Totals, clicks: int, executed: np.ndarray, rates: np.ndarray, learner: str
) -> tuple[Totals, dict[str, float]]:
    """The updated totals, and a learner's columns of `metrics.csv`."""
    pulls = executed.sum()
    best = rates.max()
    totals = Totals(np.int64(totals.reward + clicks), np.float64(totals.regret + executed @ (best - rates)))
    row = {
        metrics.AVERAGE_CLICKS: mean(clicks, pulls),
        metrics.OPTIMAL_SHARE: mean(executed[rates == best].sum(), pulls),
        metrics.TOTAL_REWARD: int(totals.reward),
        metrics.REGRET: float(totals.regret),
    }
    return totals, {metrics.column(learner, name): value for name, value in row.items()}
