"""MAB-FL (Lundahl 2021, Algorithm 7) as rounds for the shared training loop.

In a round, the rule chooses a combination. The TFF round of `process` trains the combination's participants, measures
the target's model, averages the models, and measures the averages. Then the reward is computed, and the rule is
updated. The state also holds the best model so far and the number of exchanges.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats
import sklearn.metrics
import tensorflow as tf

from bandits import decision_rules
from bandits.mab_fl import flags, metrics, process, rewards
from data import clients, files, keys
from data.tasks import silos
from optimization import client_work, models
from optimization.study import compiled, payloads, runner

_HISTORY = 32  # Number of rounds that the spline of early stopping is fitted to.
_INCREASES = 1024  # Number of AUC increases whose quantile is the threshold.
_UNTRAINED_AUC = 0.5
_LEAST_ROUNDS = 3  # Minimum number of rounds for a t test.


class RoundState(NamedTuple):
    """State between rounds.

    Attributes:
      server: The global model.
      rule: The decision rule's state.
      best_weights: The model with the highest validation AUC so far.
      best_auc: float64, AUC of that model.
      best_round: int64, round of that model; 0 for the untrained model.
      global_auc: float64, validation AUC of the global model; 0.5 before round 1.
      history: float64 [32], validation AUC of the target's own model in the latest rounds, newest last; NaN before
        the first round. Unlike the global model's AUC, it does not dip whenever a bad combination is tried.
      increases: float64 [1024], the latest AUC increases of all tried combinations, newest last; NaN where there are
        fewer. Empty if no threshold depends on them.
      falling_rounds: int64, number of consecutive rounds, up to the latest, in which early stopping's spline fell.
      stopped_after: int64, round after which early stopping ended the training; 0 if it did not.
      communications: int64, number of exchanges between the server and the participants so far.
      plays: int64 [combinations], how often each combination was tried.
      adoptions: int64 [combinations], how often each combination's average became the global model.
      reward_sums: float64 [combinations], sum of each combination's rewards.
      reward_products: float64 [combinations, combinations], sums of products of two combinations' rewards in the rounds
        that measured both. Empty unless clearly worse combinations are dropped.
      is_kept: bool [combinations], whether each combination can still be tried.
    """

    server: process.GlobalModel
    rule: Any
    best_weights: tuple
    best_auc: np.float64
    best_round: np.int64
    global_auc: np.float64
    history: np.ndarray
    increases: np.ndarray
    falling_rounds: np.int64
    stopped_after: np.int64
    communications: np.int64
    plays: np.ndarray
    adoptions: np.ndarray
    reward_sums: np.ndarray
    reward_products: np.ndarray
    is_kept: np.ndarray


class MabFlRounds(runner.Rounds):
    """The rounds of a run.

    Attributes:
      target: Index of the target.
      choices: The combinations to choose from.
    """

    def __init__(self, options: flags.MabFlOptions, participants: silos.Silos, target: int, choices: Sequence[str]):
        """Prepares the data of all rounds; labels of a corrupted participant are flipped here."""
        self._options, self._names, self.target = options, participants.names, target

        def normalized(rows: clients.Examples) -> tuple[np.ndarray, np.ndarray]:
            return np.asarray(rows.features), rows.labels

        self._training_rows = [normalized(silo.train) for silo in participants.silos]
        if options.corrupted_participant is not None:
            index = participants.names.index(options.corrupted_participant)
            features, labels = self._training_rows[index]
            is_flipped = keys.generator(options.seed, keys.Purpose.LABEL_NOISE).random(len(labels))
            self._training_rows[index] = features, np.where(is_flipped < options.label_flip_rate, 1 - labels, labels)
        self._validation_rows = normalized(participants.silos[target].validation)
        test_features, self._test_labels = normalized(participants.silos[target].test)
        self._test_features = tf.constant(test_features)
        self._classifier = process.BinaryClassifier(test_features.shape[1])
        self._rule = options.rule.build()
        self.choices = list(choices)
        self._num_averaged = len(self.choices) if self._rule.explores_all else 1

    def _process(self, epochs: int) -> process.MabFlProcess:
        options = self._options
        work = client_work.LocalSgd(
            options.client_learning_rate, options.client_batch_size, epochs, corrections=options.corrections
        )
        return process.MabFlProcess(self._classifier, work, self._num_averaged)

    def initial_state(self) -> RoundState:
        """State before round 1."""
        weights = self._classifier.initial_weights(self._options.seed)
        count = len(self.choices)
        return RoundState(
            server=self._process(self._options.epochs_per_round).initial_state(weights),
            rule=self._rule.init(count),
            best_weights=weights,
            best_auc=np.float64(0),
            best_round=np.int64(0),
            global_auc=np.float64(_UNTRAINED_AUC),
            history=np.full(_HISTORY, np.nan),
            increases=np.full(_INCREASES if self._options.reward.needs_increases else 0, np.nan),
            falling_rounds=np.int64(0),
            stopped_after=np.int64(0),
            communications=np.int64(0),
            plays=np.zeros(count, np.int64),
            adoptions=np.zeros(count, np.int64),
            reward_sums=np.zeros(count),
            reward_products=np.zeros((count, count) if self._options.drop_level else (0, 0)),
            is_kept=np.ones(count, bool),
        )

    def is_finished(self, state: RoundState, round_num: int) -> bool:
        """Whether early stopping has ended the training."""
        return bool(state.stopped_after)

    def run_round(self, state: RoundState, round_num: int) -> tuple[RoundState, Mapping[str, Any]]:
        """Runs one round of Algorithm 7."""
        # Step 1: choose a combination, or try all of them.
        seed = self._options.seed
        key = keys.tensorflow_key(seed, keys.Purpose.DECISION, round_num, 0)
        tries_all = self._rule.explores_all
        tried = np.flatnonzero(state.is_kept).tolist() if tries_all else [int(self._rule.select(state.rule, key))]
        # Steps 2 to 6.
        server, measured = self._round(state.server, [self.choices[action] for action in tried], round_num)
        candidate_auc = np.asarray(measured.candidate_auc, np.float64)[: len(tried)]
        # Steps 7 and 8.
        before = float(measured.local_auc)
        threshold = self._options.reward.threshold_after(state.increases)
        reward = self._options.reward(before, candidate_auc, threshold)
        chosen = 0
        if tries_all:
            own_key = keys.tensorflow_key(seed, keys.Purpose.DECISION, round_num, 1)
            # Delayed rewards are observed with the next round's updates, so the estimates use only previous rounds.
            estimates = np.asarray(self._rule.estimates(state.rule))[tried]
            scores = estimates if self._options.delays_rewards else reward.astype(np.float32)
            chosen = int(decision_rules.best_action(scores, own_key))
            by_choice = np.zeros(len(self.choices))
            by_choice[tried] = reward
            rule = self._rule.update_all(state.rule, by_choice, state.is_kept)
        else:
            rule = self._rule.update(state.rule, tried[0], reward[0])

        plays, adoptions, reward_sums = map(np.copy, (state.plays, state.adoptions, state.reward_sums))
        plays[tried] += 1
        adoptions[tried[chosen]] += 1
        reward_sums[tried] += reward
        history = _newest(state.history, np.asarray([measured.local_auc], np.float64))
        is_judged = self._options.early_stopping and np.all(plays > 0)
        falls = is_judged and rewards.is_falling(history[~np.isnan(history)])
        falling_rounds = int(state.falling_rounds) + 1 if falls else 0
        stops = falling_rounds >= self._options.early_stopping_patience
        products, is_kept = self._without_worse(state, tried, reward, reward_sums)
        exchanges, payload = self._exchanged(tried)
        after = state._replace(
            server=server._replace(chosen=np.int32(chosen)),
            rule=type(state.rule)(*(np.asarray(part) for part in rule)),
            history=history,
            increases=_newest(state.increases, candidate_auc - before),
            falling_rounds=np.int64(falling_rounds),
            stopped_after=np.int64(round_num if stops else 0),
            communications=state.communications + exchanges,
            plays=plays,
            adoptions=adoptions,
            reward_sums=reward_sums,
            reward_products=products,
            is_kept=is_kept,
        )
        action = tried[chosen]
        row: dict[str, Any] = {metrics.ACTION: action, metrics.TRIED: len(tried), metrics.REWARD: float(reward[chosen])}
        if self._options.reward.kind == "binary":
            row[metrics.THRESHOLD] = threshold
        if (corrupted := self._options.corrupted_participant) is not None:
            row[metrics.CORRUPTED] = int(self.choices[action][self._names.index(corrupted)])
        return self._measured(state, after, measured, {**row, **payload}, candidate_auc[chosen], round_num)

    def _without_worse(
        self, state: RoundState, tried: Sequence[int], reward: np.ndarray, reward_sums: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """`reward_products` and `is_kept` after a round, in which significantly worse combinations are dropped."""
        if not self._options.drop_level:
            return state.reward_products, state.is_kept
        products = np.copy(state.reward_products)
        products[np.ix_(tried, tried)] += np.outer(reward, reward)
        kept = np.copy(state.is_kept)
        # Bonferroni correction: in each round, the best combination can be tested against any of the others.
        level = self._options.drop_level / (max(len(self.choices) - 1, 1) * self._options.total_rounds)
        rounds = int(state.plays[tried[0]]) + 1
        sums = reward_sums[tried]
        kept[tried] = ~clearly_worse(sums, products[np.ix_(tried, tried)], rounds, level)
        return products, kept

    def _measured(
        self,
        before: RoundState,
        after: RoundState,
        measured: process.RoundMetrics,
        row: dict[str, Any],
        auc: np.float64,
        round_num: int,
    ) -> tuple[RoundState, Mapping[str, Any]]:
        """The new state, now with its model's AUC and the best model so far, and the round's metrics."""
        after = after._replace(global_auc=auc)
        if auc > before.best_auc:
            best = self.global_weights(after)
            after = after._replace(best_weights=best, best_auc=auc, best_round=np.int64(round_num))
        row |= {
            metrics.LOCAL_AUC: float(measured.local_auc),
            metrics.GLOBAL_AUC: float(auc),
            metrics.OVER_TARGET: float(auc - measured.local_auc),
            metrics.OVER_PREVIOUS: float(auc - before.global_auc),
            metrics.BEST_AUC: float(after.best_auc),
            metrics.NONFINITE: int(measured.nonfinite_participants),
            metrics.COMMUNICATIONS: int(after.communications),
        }
        if len(self.choices) > 1:
            estimates = np.asarray(self._rule.estimates(after.rule))
            largest = np.flatnonzero(estimates == estimates.max())
            row[metrics.ESTIMATED_BEST] = int(largest[0]) if len(largest) == 1 else len(self.choices)
        return after, row

    def _round(
        self, server: process.GlobalModel, tried: Sequence[str], round_num: int
    ) -> tuple[process.GlobalModel, process.RoundMetrics]:
        """Runs steps 2 to 6 for these combinations."""
        options = self._options
        # In round 1, every participant continues from its own pre-trained model.
        epochs = options.epochs_per_round + (options.pretrain_epochs if round_num == 1 else 0)
        definition = self._process(epochs)
        sizes = [len(labels) for _, labels in self._training_rows]
        shares = np.zeros((definition.num_combinations, len(sizes)), np.float32)
        for index, combination in enumerate(tried):
            shares[index] = shares_of(combination, sizes)
        inputs = [self._input(index, shares[:, index], round_num) for index in np.flatnonzero(shares.any(axis=0))]
        # Runs with equal definitions share TFF's compiled computations.
        return compiled.cached(("mab_fl rounds", definition), definition.build).next(server, inputs)

    def _input(self, participant: int, shares: np.ndarray, round_num: int) -> process.ParticipantInput:
        features, labels = (part if participant == self.target else part[:0] for part in self._validation_rows)
        key = keys.tensorflow_key(self._options.seed, keys.Purpose.TRAINING, round_num, int(participant))
        return process.ParticipantInput(*self._training_rows[participant], features, labels, shares, key)

    def _exchanged(self, tried: Sequence[int]) -> tuple[int, Mapping[str, int]]:
        """Number of exchanges in a round (section 8.3.2), and their sizes in bytes; both 0 if the target trains alone.

        The model is sent to each participant that trains, and back. Unless the combination is fixed, the averages are
        also sent to the target, which sends back their AUCs. With delayed rewards, averages and AUCs are sent with
        the models of the next round.
        """
        if self._options.choices == flags.TARGET_ALONE:
            return 0, payloads.row(0, 0, 0, 0)
        trained = len(set().union(*(members(self.choices[action]) for action in tried)))
        measured = 0 if self._options.choices in flags.BASELINES else len(tried)
        size = payloads.of_model(list(self._classifier.shapes.values()))
        extra = 2 if measured and not self._options.delays_rewards else 0
        return 2 * trained + extra, payloads.row(size, size, trained + measured, trained, measured)

    def global_weights(self, state: RoundState) -> tuple[np.ndarray, ...]:
        """The global model's weights, float32, in the order of the classifier's `shapes`."""
        return tuple(np.asarray(candidates)[state.server.chosen] for candidates in state.server.candidates)

    def test_auc(self, weights: models.Weights) -> float:
        """AUC on the target's test rows."""
        build = lambda: tf.function(self._classifier.scores, reduce_retracing=True)  # noqa: E731
        scorer = compiled.cached(("mab_fl scores", self._classifier), build)
        scores = scorer(tuple(map(tf.constant, weights)), self._test_features)
        return float(sklearn.metrics.roc_auc_score(self._test_labels, scores.numpy()))

    def evaluate(self, state: RoundState) -> Mapping[str, float]:
        """AUC of the global model and of the best model so far, on the target's test rows."""
        weights = self.global_weights(state)
        auc = self.test_auc(weights)
        is_best = all(map(np.array_equal, weights, state.best_weights))
        return {metrics.TEST_AUC: auc, metrics.BEST_TEST_AUC: auc if is_best else self.test_auc(state.best_weights)}

    def model(self, state: RoundState) -> Mapping[str, np.ndarray]:
        """The best global model's weights, float32 by name."""
        return dict(zip(self._classifier.shapes, state.best_weights, strict=True))

    def combinations_csv(self, state: RoundState) -> bytes:
        """`combinations.csv`: the rule's statistics of each combination."""
        table = {
            "action": range(len(self.choices)),
            "combination": self.choices,
            "workers": [" ".join(self._names[index] for index in members(one)) for one in self.choices],
            "plays": state.plays,
            "adoptions": state.adoptions,
            "mean_reward": pd.Series(state.reward_sums) / np.where(state.plays, state.plays, np.nan),
            "estimate": np.asarray(self._rule.estimates(state.rule)),
        }
        return files.as_csv(pd.DataFrame(table), float_format="%.6g")


def _newest(before: np.ndarray, added: np.ndarray) -> np.ndarray:
    """Appends to a history, and drops as many of its oldest values. An empty history stays empty."""
    return np.append(before, added)[len(added) :] if len(before) else before


def members(combination: str) -> list[int]:
    """Indices of the participants of a combination, such as 1 and 2 of `0110`."""
    return [index for index, is_member in enumerate(combination) if is_member == "1"]


def shares_of(combination: str, num_rows: Sequence[int]) -> np.ndarray:
    """Each participant's weight in a combination's average.

    Args:
      combination: Code of the combination.
      num_rows: Training rows of each participant.

    Returns:
      float32 [participants], 0 outside the combination, summing to 1.
    """
    sizes = np.where([bit == "1" for bit in combination], num_rows, 0).astype(float)
    return (sizes / sizes.sum()).astype(np.float32)


def clearly_worse(sums: np.ndarray, products: np.ndarray, rounds: int, level: float) -> np.ndarray:
    """Combinations that are significantly worse than the best one in a paired one-sided t test (section 8.3.2).

    The best combination has the highest mean reward. Rewards are paired, because all combinations were measured in the
    same rounds against the same model of the target.

    Args:
      sums: float64 [combinations], sum of each combination's rewards.
      products: float64 [combinations, combinations], sums over rounds of the products of two combinations' rewards.
      rounds: Number of rounds in which all combinations were measured.
      level: Significance level of one test.

    Returns:
      bool [combinations]. All are False before round 3. Combinations whose difference from the best one never varies
      are False, too.
    """
    if rounds < _LEAST_ROUNDS:
        return np.zeros(len(sums), bool)
    best = int(np.argmax(sums))
    mean = (sums[best] - sums) / rounds
    squares = products[best, best] + np.diag(products) - 2 * products[best]
    variance = np.maximum(squares / rounds - mean**2, 0) / (rounds - 1)  # Variance of the mean difference.
    varies = variance > 1e-12 * np.maximum(squares / rounds, np.finfo(float).tiny)
    t = np.divide(mean, np.sqrt(variance), out=np.zeros_like(mean), where=varies)
    return varies & (scipy.stats.t.sf(t, rounds - 1) < level)
