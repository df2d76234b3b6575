"""The ad study's rounds: the federation, and a centralised bandit on the same impressions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits import decision_rules
from bandits.ads import flags, metrics, process
from data import ads, keys
from optimization import aggregators, cohorts
from optimization.options import Aggregation
from optimization.privacy import mechanisms
from optimization.selection.availability import Attendance
from optimization.study import aggregation_flags, compiled, payloads, runner
from optimization.study.metrics import mean

# Few enough values for TFF, of which each costs some milliseconds; enough to keep all cores busy.
_CLIENTS_PER_SHARD = 500


class Totals(NamedTuple):
    """Sums over all rounds so far.

    Attributes:
      reward: int64, clicks.
      regret: float64, expected clicks of always executing the best action, less those of the executed ones.
    """

    reward: np.int64
    regret: np.float64


class Progress(NamedTuple):
    """State between rounds.

    Attributes:
      server: The federation's state.
      federated: Its totals.
      central: The centralised bandit's state, of its decision rule.
      centralised: Its totals.
      cohort_seed: uint32 [4], where privacy rests on secret cohorts: their seed; else empty, and `--seed` draws them.
    """

    server: process.AdsState
    federated: Totals
    central: Any
    centralised: Totals
    cohort_seed: Any = ()


def build_process(
    rule: decision_rules.DecisionRule,
    num_actions: int,
    exploration_weight: float,
    aggregation: Aggregation,
    mechanism: mechanisms.Mechanism,
) -> tff.templates.IterativeProcess:
    """The federation's process."""

    def build() -> tff.templates.IterativeProcess:
        shape = process.start_model(rule, num_actions).shape
        factory = aggregators.build(aggregation, mechanism, [shape])
        return process.AdsProcess(rule, num_actions, factory, exploration_weight).build()

    if mechanism.noise_multiplier:  # Two runs never share their noise.
        return build()
    return compiled.kept(("ads", rule, num_actions, exploration_weight, aggregation, mechanism), build)


def build_centralised(rule: decision_rules.DecisionRule) -> Callable:
    """A round of the centralised bandit: (state, clicks, count, key) -> (state, clicks, executed).

    See `process.pull`, `process.Pulls`.
    """

    def pull(state, clicks, count, key):
        pulls = process.pull(rule, state, clicks, key, count)
        return pulls.state, pulls.clicks, pulls.executed

    # One pull after another is all overhead, of which XLA leaves a hundredth; it has no Gamma draws on the CPU.
    use_xla = not isinstance(rule, decision_rules.Thompson)
    return compiled.kept(("ads, centralised", rule), lambda: tf.function(pull, autograph=False, jit_compile=use_xla))


def round_impressions(impressions: ads.Impressions, round_num: int, count: int) -> np.ndarray:
    """Each client's next impressions, uint8 [clients, count, ads], in a round counted from 1."""
    return impressions.clicks[:, (round_num - 1) * count : round_num * count]


def central_stream(shown: np.ndarray) -> np.ndarray:
    """A round's impressions in order of time, all clients' first pulls first.

    Args:
      shown: uint8 [clients, pulls, ads].

    Returns:
      uint8 [pulls * clients, ads].
    """
    return shown.swapaxes(0, 1).reshape(-1, shown.shape[-1])


def shards(shown: np.ndarray, cohort: np.ndarray, seed: int, round_num: int, size: int) -> list[process.Shard]:
    """A round's clients in shards of at most `size`.

    Args:
      shown: uint8 [cohort, pulls, ads].
      cohort: int [cohort], the clients.
      seed: Seed of the run.
      round_num: The round.
      size: Most clients of a shard.
    """
    client_keys = [keys.tensorflow_key(seed, keys.Purpose.CACHE, round_num, int(client)) for client in cohort]
    return [
        process.Shard(shown[start : start + size], np.stack(client_keys[start : start + size]))
        for start in range(0, len(shown), size)
    ]


class AdsRounds(runner.Rounds):
    """The rounds of a run."""

    def __init__(self, options: flags.AdsOptions, impressions: ads.Impressions):
        """Builds the computations.

        Args:
          options: What the flags mean.
          impressions: What is shown.
        """
        self._options, self._impressions = options, impressions
        self._num_clients, _, self._num_actions = impressions.clicks.shape
        self._rule = options.rule.build()
        self.mechanism = aggregation_flags.mechanism(options.aggregation, options.cohorts, options.num_clients, 1)
        present = options.cohorts.availability
        self._attendance = Attendance(present, present.random_zones(options.num_clients), options.seed)
        self.secrets = ["the seed of the cohorts"] * self.mechanism.rests_on_cohorts
        self._process = build_process(
            self._rule,
            self._num_actions,
            options.exploration_weight,
            options.aggregation,
            self.mechanism,
        )
        shapes = [process.start_model(self._rule, self._num_actions).shape]
        self._payloads = payloads.of_model(shapes), payloads.of_update(shapes, options.aggregation)
        self._pull_central = build_centralised(self._rule)
        # Clipping is of one client's differential, not of a shard's.
        self._shard_size = _CLIENTS_PER_SHARD if options.aggregation.clip_norm is None else 1

    def initial_state(self) -> Progress:
        """State before round 1."""
        nothing = Totals(np.int64(0), np.float64(0))
        secret = cohorts.secret_seed() if self.secrets else ()
        return Progress(self._process.initialize(), nothing, self._rule.init(self._num_actions), nothing, secret)

    def cohort(self, round_num: int, cohort_seed: Any = (), *, with_drop_outs: bool = False) -> np.ndarray:
        """Clients of a round in ascending order, int [clients].

        Args:
          round_num: The round.
          cohort_seed: As in `Progress`.
          with_drop_outs: Whether clients count that start the round and drop out.
        """
        seed = cohorts.as_integer(cohort_seed) if len(cohort_seed) else self._options.seed
        sampled = cohorts.draw(self._options.cohorts, self._num_clients, seed, round_num)
        attending = self._attendance.start if with_drop_outs else self._attendance.come
        return np.sort(attending(sampled, round_num, fill=self._options.cohorts.sampling == "fixed"))

    def run_round(self, state: Progress, round_num: int) -> tuple[Progress, dict[str, float]]:
        """Runs a round of the federation, and one of the centralised bandit on the same impressions.

        Clients that do not take part show nothing: their impressions of this round are lost to both.
        """
        seed, rates = self._options.seed, self._impressions.rates
        pulls, each = self._options.local_pulls, self._options.pulls_per_impression
        cohort = self.cohort(round_num, state.cohort_seed)
        shown = np.repeat(round_impressions(self._impressions, round_num, pulls // each), each, axis=1)[cohort]
        server, reached, executed = state.server, 0, np.zeros(self._num_actions, int)
        if len(cohort) or self.mechanism.noise_multiplier:  # Noise is released in every round: who came is private.
            server, counts = self._process.next(server, shards(shown, cohort, seed, round_num, self._shard_size))
            reached, executed = int(counts.clicks), counts.executed
        # The centralised learner draws as one more client.
        key = keys.tensorflow_key(seed, keys.Purpose.CACHE, round_num, self._num_clients)
        stream = central_stream(shown)
        # Of one length in every round: XLA compiles once for each.
        padded = np.pad(stream, [(0, self._num_clients * pulls - len(stream)), (0, 0)])
        central, clicks, central_executed = self._pull_central(state.central, padded, tf.constant(len(stream)), key)
        federated, row = _count(state.federated, reached, executed, rates, "federated")
        executed = np.asarray(central_executed)
        centralised, central_row = _count(state.centralised, int(clicks), executed, rates, "centralised")
        row |= _learned(process.server_state(self._rule.init(self._num_actions), server.model), "federated")
        central_row |= _learned(central, "centralised")
        sent = len(self.cohort(round_num, state.cohort_seed, with_drop_outs=True))
        row |= payloads.row(*self._payloads, sent, len(cohort))
        spent = {metrics.CLIENTS: len(cohort), metrics.EPSILON: self.mechanism.epsilon(round_num)}
        return Progress(server, federated, central, centralised, state.cohort_seed), row | central_row | spent


def _learned(state: Any, learner: str) -> dict[str, float]:
    values = zip(metrics.LEARNED, process.learned(state), strict=True)
    return {metrics.column(learner, name): value for name, value in values}


def _count(
    totals: Totals, clicks: int, executed: np.ndarray, rates: np.ndarray, learner: str
) -> tuple[Totals, dict[str, float]]:
    """Updated totals, and a learner's columns of `metrics.csv`."""
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
