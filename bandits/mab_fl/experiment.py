"""MAB-FL (Lundahl 2021, Algorithm 7) as rounds that the runner can play.

One round: the rule chooses a combination -> its participants' inputs -> `process` trains, measures, averages, measures
again -> reward -> the rule learns. What is kept beside that: the best model so far, and what was exchanged.
"""

import csv
import dataclasses
import functools
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sklearn.metrics
import tensorflow as tf
import tensorflow_federated as tff

from bandits import decision_rules, rule_flags
from bandits.mab_fl import combinations, flags, metrics, model, process, rewards, splines
from data import keys, silos
from optimization import client_work, models
from optimization.study import cli, compiled, files, frame, run_folder, runner

_HISTORY = 32  # Rounds that the spline of early stopping sees.
_UNTRAINED_AUC = 0.5


class Progress(NamedTuple):
    """State between rounds.

    Attributes:
      server: The global model.
      rule: The decision rule's state.
      best_weights: The model with the highest validation AUC so far.
      best_auc: float64, that AUC.
      best_round: int64, its round; 0 for the untrained model.
      global_auc: float64, validation AUC of the global model.
      history: float64 [32], the last of those, newest last; NaN before the first round.
      stopped_after: int64, round after which early stopping ended the training; 0 if it did not.
      communications: int64, exchanges between server and participants so far.
      plays: int64 [combinations], how often each was tried.
      adoptions: int64 [combinations], how often its average became the global model.
      reward_sums: float64 [combinations], its rewards.
    """

    server: process.GlobalModel
    rule: Any
    best_weights: tuple
    best_auc: np.float64
    best_round: np.int64
    global_auc: np.float64
    history: np.ndarray
    stopped_after: np.int64
    communications: np.int64
    plays: np.ndarray
    adoptions: np.ndarray
    reward_sums: np.ndarray


class StoppedEarly(Exception):  # noqa: N818 - It is a way out of the loop, no error.
    """Early stopping, and the tuning after it, have come to an end.

    Attributes:
      progress: The final state.
      round_num: Rounds done.
    """

    def __init__(self, progress: Progress, round_num: int):
        super().__init__(progress, round_num)
        self.progress = progress
        self.round_num = round_num


def _built(definition: process.MabFlProcess) -> tff.templates.IterativeProcess:
    """Returns a process that all runs with equal definitions share, and with it TFF's compiled computations."""
    return compiled.kept(("mab_fl rounds", definition), definition.build)


def _scorer(classifier: model.BinaryClassifier) -> Callable[..., tf.Tensor]:
    return compiled.kept(("mab_fl scores", classifier), lambda: tf.function(classifier.scores, reduce_retracing=True))


@dataclasses.dataclass(frozen=True)
class MabFl:
    """One run's rounds.

    Attributes:
      settings: Flags.
      participants: All participants' rows.
      target: Index of the target.
      choices: The combinations to choose from.
      earlier: Mean reward of some combinations in the run of `--warm_start`.
    """

    settings: cli.Settings
    participants: silos.Silos
    target: int
    choices: Sequence[str]
    earlier: Mapping[str, float]

    @functools.cached_property
    def classifier(self) -> model.BinaryClassifier:
        """The network."""
        return model.BinaryClassifier(self._training_rows[0][0].shape[1])

    @functools.cached_property
    def rule(self) -> decision_rules.DecisionRule:
        """The decision rule, with its extra rounds."""
        rule = flags.RULES[self.settings.decision_rule].build(rule_flags.values(self.settings, flags.RULES))
        every, probability = self.settings.explore_every, self.settings.explore_probability
        if every or probability:
            rule = decision_rules.WithExploreRounds(rule=rule, every=every, probability=probability)
        return rule

    @functools.cached_property
    def _training_rows(self) -> list[tuple[np.ndarray, np.ndarray]]:
        rows = [silo.train for silo in self.participants.silos]
        return [(self.participants.normalise(features), labels) for features, labels in rows]

    @functools.cached_property
    def _target_rows(self) -> silos.Silo:
        """The target's rows, features as the model takes them."""
        parts = self.participants.silos[self.target]
        return silos.Silo(*(part._replace(features=self.participants.normalise(part.features)) for part in parts))

    @functools.cached_property
    def _test_features(self) -> tf.Tensor:
        return tf.constant(self._target_rows.test.features)

    def _process(self, epochs: int) -> process.MabFlProcess:
        extra = isinstance(self.rule, decision_rules.WithExploreRounds)
        tries_all = extra or self.settings.decision_rule in rule_flags.EXTREME
        local_sgd = client_work.LocalSgd(self.settings.client_learning_rate, self.settings.client_batch_size, epochs)
        return process.MabFlProcess(self.classifier, local_sgd, len(self.choices) if tries_all else 1)

    def initial_progress(self) -> Progress:
        """Returns the state before round 1."""
        weights = self.classifier.initial_weights(self.settings.seed)
        return Progress(
            server=self._process(self.settings.epochs_per_round).initial_state(weights),
            rule=_warm(self.rule.init(len(self.choices)), self.choices, self.earlier),
            best_weights=weights,
            best_auc=np.float64(0),
            best_round=np.int64(0),
            global_auc=np.float64(_UNTRAINED_AUC),
            history=np.full(_HISTORY, np.nan),
            stopped_after=np.int64(0),
            communications=np.int64(self._proposal_communications),
            plays=np.zeros(len(self.choices), np.int64),
            adoptions=np.zeros(len(self.choices), np.int64),
            reward_sums=np.zeros(len(self.choices)),
        )

    def play_round(self, progress: Progress, round_num: int) -> tuple[Progress, Mapping[str, Any]]:
        """Plays one round: Algorithm 7, or one of the target's tuning after the last.

        Raises:
          StoppedEarly: If early stopping leaves nothing to do.
        """
        trains_until = int(progress.stopped_after) or self.settings.total_rounds
        if round_num > trains_until + self.settings.tuning_rounds:
            raise StoppedEarly(progress, round_num - 1)
        if round_num > trains_until:
            return self._tune(progress, round_num, is_first=round_num == trains_until + 1)

        # Step 1: choose, or try all.
        seed = self.settings.seed
        key = keys.tensorflow_key(seed, keys.Purpose.DECISION, round_num, 0)
        tries_all = self.rule.explores_all(round_num, key)
        tried = list(range(len(self.choices))) if tries_all else [int(self.rule.select(progress.rule, key))]
        # Steps 2 to 6.
        server, measured = self._round(progress.server, [self.choices[action] for action in tried], round_num)
        candidate_auc = np.asarray(measured.candidate_auc, np.float64)[: len(tried)]
        # Steps 7 and 8.
        against_previous = self.settings.compare_with == "previous"
        before = float(progress.global_auc if against_previous else measured.local_auc)
        reward = rewards.Reward(self.settings.reward, self.settings.threshold)(before, candidate_auc)
        chosen = 0
        if tries_all:
            own_key = keys.tensorflow_key(seed, keys.Purpose.DECISION, round_num, 1)
            chosen = int(decision_rules.best_action(reward.astype(np.float32), own_key))
            rule = self.rule.update_all(progress.rule, reward)
        else:
            rule = self.rule.update(progress.rule, tried[0], reward[0])

        plays, adoptions, reward_sums = (
            np.copy(counts) for counts in (progress.plays, progress.adoptions, progress.reward_sums)
        )
        plays[tried] += 1
        adoptions[tried[chosen]] += 1
        reward_sums[tried] += reward
        history = np.append(progress.history[1:], candidate_auc[chosen])
        falls = self.settings.early_stopping and splines.is_falling(history[~np.isnan(history)])
        after = progress._replace(
            server=server._replace(chosen=np.int32(chosen)),
            rule=type(progress.rule)(*(np.asarray(part) for part in rule)),
            history=history,
            stopped_after=np.int64(round_num if falls else 0),
            communications=progress.communications + self._communications(tried, tries_all),
            plays=plays,
            adoptions=adoptions,
            reward_sums=reward_sums,
        )
        row = {metrics.ACTION: tried[chosen], metrics.TRIED: len(tried), metrics.REWARD: float(reward[chosen])}
        return self._measured(progress, after, measured, row, candidate_auc[chosen], round_num)

    def _tune(self, progress: Progress, round_num: int, *, is_first: bool) -> tuple[Progress, Mapping[str, Any]]:
        """Plays a round in which the target trains the best model by itself; the rule learns nothing."""
        server = progress.server
        if is_first:
            server = self._process(self.settings.epochs_per_round).initial_state(progress.best_weights)
        alone = combinations.code([self.target], len(self.participants.names))
        server, measured = self._round(server, [alone], round_num)
        auc = np.float64(measured.candidate_auc[0])
        row = {metrics.ACTION: metrics.TUNING, metrics.TRIED: 0}
        return self._measured(progress, progress._replace(server=server), measured, row, auc, round_num)

    def _measured(
        self,
        before: Progress,
        after: Progress,
        measured: process.RoundMetrics,
        row: dict[str, Any],
        auc: np.float64,
        round_num: int,
    ) -> tuple[Progress, Mapping[str, Any]]:
        """Returns the state that knows its model's AUC and the best model so far, and the round's metrics."""
        after = after._replace(global_auc=auc)
        if auc > before.best_auc:
            after = after._replace(
                best_weights=self.global_weights(after), best_auc=auc, best_round=np.int64(round_num)
            )
        row |= {
            metrics.LOCAL_AUC: float(measured.local_auc),
            metrics.GLOBAL_AUC: float(auc),
            metrics.OVER_TARGET: float(auc - measured.local_auc),
            metrics.OVER_PREVIOUS: float(auc - before.global_auc),
            metrics.BEST_AUC: float(after.best_auc),
            metrics.NONFINITE: int(measured.nonfinite_participants),
            metrics.COMMUNICATIONS: int(after.communications),
        }
        return after, row

    def _round(
        self, server: process.GlobalModel, tried: Sequence[str], round_num: int
    ) -> tuple[process.GlobalModel, process.RoundMetrics]:
        """Plays steps 2 to 6 for these combinations."""
        epochs = self.settings.epochs_per_round
        if round_num == 1:  # Every participant goes on from its own pre-trained model.
            epochs += self.settings.pretrain_epochs
        definition = self._process(epochs)
        sizes = [len(labels) for _, labels in self._training_rows]
        shares = np.zeros((definition.num_combinations, len(sizes)), np.float32)
        for index, combination in enumerate(tried):
            shares[index] = combinations.shares(combination, sizes, self.target, self.settings.target_weight)
        inputs = [self._input(index, shares[:, index], round_num) for index in np.flatnonzero(shares.any(axis=0))]
        return _built(definition).next(server, inputs)

    def _input(self, participant: int, shares: np.ndarray, round_num: int) -> process.ParticipantInput:
        features, labels = self._training_rows[participant]
        validation = self._target_rows.validation
        if participant != self.target:
            validation = validation.take(np.arange(0))
        key = keys.tensorflow_key(self.settings.seed, keys.Purpose.TRAINING, round_num, int(participant))
        return process.ParticipantInput(features, labels, validation.features, validation.labels, shares, key)

    def _communications(self, tried: Sequence[int], tries_all: bool) -> int:
        if self.settings.decision_rule == flags.TARGET_ALONE:
            return 0
        if tries_all:
            return combinations.explore_communications(len(set().union(*map(combinations.members, self.choices))))
        return combinations.communications(self.choices[tried[0]])

    @property
    def _proposal_communications(self) -> int:
        """Exchanges of asking every participant for its first update."""
        return 2 * len(self.participants.names) if self.settings.propose != "none" else 0

    def global_weights(self, progress: Progress) -> tuple[np.ndarray, ...]:
        """Returns the global model."""
        return tuple(np.asarray(candidates)[progress.server.chosen] for candidates in progress.server.candidates)

    def test_auc(self, weights: models.Weights) -> float:
        """Returns the AUC on the target's test rows."""
        scores = _scorer(self.classifier)(tuple(tf.constant(weight) for weight in weights), self._test_features)
        return float(sklearn.metrics.roc_auc_score(self._target_rows.test.labels, scores.numpy()))

    def propose(self) -> list[str]:
        """Returns combinations from clusters of the participants' first model updates (`--propose=cosine_clusters`)."""
        weights = self.classifier.initial_weights(self.settings.seed)
        definition = dataclasses.replace(
            self._process(self.settings.epochs_per_round + self.settings.pretrain_epochs), num_combinations=1
        )
        count, updates = len(self.participants.names), []
        for participant in range(count):
            whole = [self._input(participant, np.ones(1, np.float32), 0)]
            trained, _ = _built(definition).next(definition.initial_state(weights), whole)
            changes = [np.ravel(after[0] - before) for after, before in zip(trained.candidates, weights, strict=True)]
            updates.append(np.concatenate(changes[: len(self.classifier.trained.shapes)]))
        return combinations.proposals(np.array(updates), self.target)

    def experiment(self) -> runner.Experiment:
        """Returns what the runner plays."""
        return runner.Experiment(
            initial_state=self.initial_progress,
            play_round=self.play_round,
            evaluate=lambda progress: {metrics.TEST_AUC: self.test_auc(self.global_weights(progress))},
            columns=metrics.COLUMNS,
            headline=metrics.GLOBAL_AUC,
        )

    def combinations_csv(self, progress: Progress) -> bytes:
        """Returns `combinations.csv`: what the rule learned of each combination."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["action", "combination", "workers", "plays", "adoptions", "mean_reward", "estimate"])
        for action, estimate in enumerate(np.asarray(self.rule.estimates(progress.rule))):
            plays, total = int(progress.plays[action]), progress.reward_sums[action]
            names = " ".join(self.participants.names[index] for index in combinations.members(self.choices[action]))
            mean = f"{total / plays:.6g}" if plays else ""
            counts = [plays, int(progress.adoptions[action])]
            writer.writerow([action, self.choices[action], names, *counts, mean, f"{estimate:.6g}"])
        return file.getvalue().encode()


def play(mab_fl: MabFl, folder: run_folder.RunFolder, label: str) -> runner.Outcome:
    """Runs, or continues, a run in its folder, and writes its best model and `combinations.csv`."""
    settings = mab_fl.settings
    try:
        outcome = runner.run(
            mab_fl.experiment(),
            folder,
            frame.Length(settings.total_rounds + settings.tuning_rounds, 1, settings.rounds_per_checkpoint),
            metrics.COLUMNS,
            headline=metrics.GLOBAL_AUC,
            label=label,
        )
    except StoppedEarly as stopped:
        leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(stopped.progress)]
        folder.save_checkpoint(stopped.round_num, leaves)
        outcome = runner.Outcome(stopped.progress, stopped.round_num, None)
    if outcome.signum is None:
        folder.save_model(list(mab_fl.classifier.shapes), outcome.state.best_weights)
        files.replace(folder.path / "combinations.csv", mab_fl.combinations_csv(outcome.state))
    return outcome


def _warm(state: Any, choices: Sequence[str], earlier: Mapping[str, float]) -> Any:
    """Returns a rule's first state in which the mean of earlier rewards counts as one reward."""
    for action, combination in enumerate(choices):
        if combination not in earlier:
            continue
        mean = earlier[combination]
        if isinstance(state, decision_rules.BetaState):
            state.successes[action], state.failures[action] = mean, 1 - mean
        else:
            state.values[action], state.counts[action] = mean, 1
    return state
