"""Rounds of Algorithm 7: against NumPy on logistic regression, and which participants are found on generated data."""

import dataclasses

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import tensorflow as tf

from bandits.mab_fl import experiment, flags, metrics, process, run_mab_fl
from data import keys
from data.errors import UsageError
from data.tasks import silos
from optimization.study import frame


def plan(*arguments: str) -> flags.MabFlOptions:
    (settings,) = frame.plan(run_mab_fl.STUDY, frame.flag_set(run_mab_fl.STUDY).parse(["run_mab_fl", *arguments]))
    return flags.options(settings)


def make(*arguments: str, participants: silos.Silos | None = None, hidden=process.HIDDEN, **replaced):
    options = dataclasses.replace(plan(*arguments), **replaced)
    participants = participants or silos.load(options.silos)
    target = run_mab_fl.find_target(options, participants)
    choices = run_mab_fl.find_choices(options, participants, target)
    rounds = experiment.MabFlRounds(options, participants, target, choices)
    rounds._classifier = process.BinaryClassifier(rounds._classifier.num_features, hidden)
    return rounds


def run(rounds: experiment.MabFlRounds, num_rounds: int) -> tuple[experiment.RoundState, list]:
    progress, rows = rounds.initial_state(), []
    for round_num in range(1, num_rounds + 1):
        progress, row = rounds.run_round(progress, round_num)
        rows.append(row)
    return progress, rows


def trained(kernel, bias, examples, key, epochs, batch_size, learning_rate):
    """SGD on the cross-entropy of logistic regression; only the shuffles are TensorFlow's."""
    for epoch in range(epochs):
        epoch_key = tf.random.experimental.stateless_fold_in(key, epoch)
        order = tf.random.experimental.stateless_shuffle(tf.range(len(examples.labels)), epoch_key).numpy()
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            odds = np.exp(examples.features[rows] @ kernel + bias)
            gradient = (odds / odds.sum(axis=1, keepdims=True) - np.eye(2)[examples.labels[rows]]) / len(rows)
            kernel = kernel - learning_rate * examples.features[rows].T @ gradient
            bias = bias - learning_rate * gradient.sum(axis=0)
    return kernel, bias


def auc(weights, examples) -> float:
    logits = examples.features @ weights[0] + weights[1]
    return sklearn.metrics.roc_auc_score(examples.labels, logits[:, 1] - logits[:, 0])


@pytest.mark.parametrize("reward", ["increment", "binary"])
def test_three_rounds_equal_algorithm_7_in_numpy(tff_worker, reward):
    participants = silos.load(silos.SiloOptions("generator", 0.1, 0.4, num_workers=3, num_rows=600))
    threshold = ["--threshold=0.01"] if reward == "binary" else []
    rule = ("--decision_rule=epsilon_greedy", "--rule_epsilon=0.5", f"--reward={reward}", *threshold)
    training = ("--num_workers=3", "--client_batch_size=7", "--epochs_per_round=2", "--pretrain_epochs=1")
    rounds = make(*rule, *training, participants=participants, hidden=())
    progress, rows = run(rounds, 3)

    kernel, bias = (weight.astype(float) for weight in process.BinaryClassifier(153, ()).initial_weights(0))
    sums, counts = np.zeros(2), np.zeros(2)
    target = participants.silos[1]
    for round_num, row in enumerate(rows, start=1):
        members = experiment.members(rounds.choices[row[metrics.ACTION]])
        epochs = 3 if round_num == 1 else 2
        local = {}
        for index in members:
            key = keys.tensorflow_key(0, keys.Purpose.TRAINING, round_num, index)
            local[index] = trained(kernel, bias, participants.silos[index].train, key, epochs, 7, 0.05)
        sizes = {index: len(participants.silos[index].train.labels) for index in members}
        shares = {index: size / sum(sizes.values()) for index, size in sizes.items()}
        kernel, bias = (sum(shares[index] * local[index][part] for index in members) for part in (0, 1))
        before, after = auc(local[1], target.validation), auc((kernel, bias), target.validation)
        expected = float(after - before > 0.01) if reward == "binary" else after - before
        sums[row[metrics.ACTION]] += expected
        counts[row[metrics.ACTION]] += 1
        assert row[metrics.LOCAL_AUC] == pytest.approx(before, abs=1e-6)
        assert row[metrics.GLOBAL_AUC] == pytest.approx(after, abs=1e-6)
        assert row[metrics.REWARD] == pytest.approx(expected, abs=1e-6)
        assert row[metrics.COMMUNICATIONS] == 6 * round_num
    np.testing.assert_allclose(progress.rule.values, sums / np.maximum(counts, 1), atol=1e-6)
    np.testing.assert_array_equal(progress.plays, counts)
    assert rounds.test_auc(rounds.global_weights(progress)) == pytest.approx(auc((kernel, bias), target.test), abs=1e-6)


def test_extreme_explore_averages_every_combination_from_the_same_local_models(tff_worker):
    """The round's measures equal those of rounds with each fixed combination, and the best average is adopted."""
    small = ("--num_workers=3", "--pretrain_epochs=0")
    participants = silos.load(plan(*small).silos)
    rounds = make("--decision_rule=extreme_explore", "--combinations=all", *small, participants=participants)
    progress, (row,) = run(rounds, 1)
    fixed = [("--decision_rule=fixed", f"--fixed_combination={combination}") for combination in rounds.choices]
    alone = [run(make(*flags, *small, participants=participants), 1)[1][0][metrics.GLOBAL_AUC] for flags in fixed]
    rewards = np.array(alone) - row[metrics.LOCAL_AUC]
    np.testing.assert_allclose(progress.rule.values, rewards, atol=1e-5)
    assert row[metrics.ACTION] == row[metrics.ESTIMATED_BEST] == int(np.argmax(rewards))
    assert row[metrics.COMMUNICATIONS] == 2 * 3 + 2
    size = 4 * sum(weight.size for weight in rounds.global_weights(progress))
    tried = len(rounds.choices)
    assert (row[metrics.BYTES_DOWN], row[metrics.BYTES_UP]) == (size * (3 + tried), size * 3 + 4 * tried)


def test_delayed_rewards_decide_a_round_later_for_two_exchanges_less(tff_worker):
    """What is adopted has the highest estimate before the round's own rewards; after it they are known."""
    small = ("--num_workers=3", "--pretrain_epochs=0", "--num_rows=4000")
    rounds = make("--decision_rule=extreme_explore", "--evaluation=delayed", "--combinations=all", *small)
    progress = rounds.initial_state()
    for round_num in range(1, 5):
        estimates = np.copy(progress.rule.values)
        progress, row = rounds.run_round(progress, round_num)
        assert estimates[row[metrics.ACTION]] == estimates.max()
        assert row[metrics.COMMUNICATIONS] == 2 * 3 * round_num
        np.testing.assert_array_equal(progress.plays, round_num)
        reward = round_num * progress.rule.values - (round_num - 1) * estimates  # Of a mean of so many.
        assert row[metrics.REWARD] == pytest.approx(reward[row[metrics.ACTION]], abs=1e-5)
        kept = rounds.global_weights(progress)[0]
        np.testing.assert_array_equal(kept, np.asarray(progress.server.candidates[0])[row[metrics.ACTION]])


@pytest.mark.parametrize("rule", ["ucb", "extreme_explore"])
def test_a_threshold_by_quantiles_is_of_all_increases_of_earlier_rounds(tff_worker, generated, rule):
    rounds = make(f"--decision_rule={rule}", "--reward=binary", "--threshold=quantile:0.75", participants=generated)
    same = make(f"--decision_rule={rule}", "--reward=increment", participants=generated)
    progress, other, seen = rounds.initial_state(), same.initial_state(), []
    for round_num in range(1, 5):
        # The same models in both, so that the other's rewards are this one's increases.
        other = other._replace(server=progress.server, rule=progress.rule, reward_sums=np.zeros(3))
        progress, row = rounds.run_round(progress, round_num)
        increases = same.run_round(other, round_num)[0].reward_sums
        threshold = np.quantile(seen, 0.75) if seen else 0
        assert row[metrics.THRESHOLD] == pytest.approx(threshold)
        tried = [row[metrics.ACTION]] if rule == "ucb" else [0, 1, 2]
        assert row[metrics.REWARD] == (increases[row[metrics.ACTION]] > threshold)
        seen += increases[tried].tolist()
        np.testing.assert_allclose(progress.increases[-len(seen) :], seen)
        assert np.isnan(progress.increases[: -len(seen)]).all()


def test_a_target_whose_auc_cannot_be_measured_is_refused(generated):
    silo = generated.silos[1]
    for part in ("validation", "test"):
        rows = getattr(silo, part)
        one_class = silo._replace(**{part: rows._replace(labels=np.ones_like(rows.labels))})
        participants = dataclasses.replace(generated, silos=(generated.silos[0], one_class, *generated.silos[2:]))
        with pytest.raises(UsageError, match="--target=worker_2"):
            run_mab_fl.find_target(plan(), participants)


@pytest.fixture(scope="module")
def generated():
    """The generator's 40,000 rows, 1% of them for training."""
    return silos.load(plan().silos)


@pytest.mark.parametrize("rule", ["ucb", "extreme_explore"])
def test_the_known_pair_is_adopted_most_in_four_of_five_seeds(tff_worker, generated, rule):
    every = [make(f"--decision_rule={rule}", f"--seed={seed}", participants=generated) for seed in range(5)]
    adoptions = [run(rounds, 9)[0].adoptions for rounds in every]
    assert [every[0].choices[int(np.argmax(adopted))] for adopted in adoptions].count("0110") >= 4


FALLING = np.append(np.full(22, np.nan), 1.5 - 0.05 * np.arange(10))  # Below it is no AUC of the next rounds.


def test_early_stopping_ends_once_every_combination_was_tried_and_the_spline_fell_for_its_patience(
    tff_worker, generated
):
    rounds = make("--early_stopping", "--early_stopping_patience=2", participants=generated)
    progress, stopped = rounds.initial_state(), []
    for round_num in range(1, 5):  # Each of the first three tries another combination.
        progress, row = rounds.run_round(progress._replace(history=FALLING), round_num)
        assert progress.history[-1] == pytest.approx(row[metrics.LOCAL_AUC])
        stopped.append((progress.falling_rounds, progress.stopped_after))
    assert stopped == [(0, 0), (0, 0), (1, 0), (2, 4)]
    assert rounds.is_finished(progress, 4)
    assert not rounds.is_finished(rounds.initial_state(), 4)


def test_a_clearly_worse_combination_is_dropped_and_its_exchanges_are_saved(tff_worker, generated):
    rounds = make("--decision_rule=extreme_explore", "--drop_level=0.9", participants=generated)
    whole = make("--decision_rule=extreme_explore", participants=generated)
    progress, rows = run(rounds, 8)
    assert [rounds.choices[action] for action in np.flatnonzero(progress.is_kept)] == ["0110"]
    assert [row[metrics.TRIED] for row in rows][:3] == [3, 3, 3]
    assert rows[-1][metrics.TRIED] == 1
    # The target and each kept pair's other one get the model and send theirs; two more measure the averages.
    paid = np.diff([0] + [row[metrics.COMMUNICATIONS] for row in rows])
    np.testing.assert_array_equal(paid, [2 * (1 + row[metrics.TRIED]) + 2 for row in rows])
    other, _ = run(whole, 8)  # The kept combination's estimate does not depend on the others.
    np.testing.assert_allclose(progress.rule.values[1], other.rule.values[1], atol=1e-5)
    np.testing.assert_array_equal(progress.rule.counts, progress.plays)


def test_a_corrupted_participant_trains_on_flipped_labels_and_its_share_is_measured(tff_worker, generated):
    fixed = ("--decision_rule=fixed", "--fixed_combination=0110", "--total_rounds=2")
    rounds = make(*fixed, "--corrupted_participant=worker_3", participants=generated)
    silo = generated.silos[2]
    flipped = silo._replace(train=silo.train._replace(labels=1 - silo.train.labels))
    by_hand = dataclasses.replace(generated, silos=(*generated.silos[:2], flipped, generated.silos[3]))
    _, rows = run(rounds, 2)
    _, expected = run(make(*fixed, participants=by_hand), 2)
    assert [row[metrics.GLOBAL_AUC] for row in rows] == [row[metrics.GLOBAL_AUC] for row in expected]
    assert [row[metrics.CORRUPTED] for row in rows] == [1, 1]
    half = make(*fixed, "--corrupted_participant=worker_3", "--label_flip_rate=0.5", participants=generated)
    assert 0.3 < np.mean(half._training_rows[2][1] != silo.train.labels) < 0.7


def test_the_best_model_s_test_auc_stays_while_later_models_are_worse(tff_worker, generated):
    rounds = make("--decision_rule=fixed", "--fixed_combination=0101", participants=generated)
    progress, _ = run(rounds, 1)
    measured = rounds.evaluate(progress)
    assert measured[metrics.BEST_TEST_AUC] == measured[metrics.TEST_AUC]
    progress, _ = rounds.run_round(progress._replace(best_auc=np.float64(1)), 2)
    later = rounds.evaluate(progress)
    assert later[metrics.BEST_TEST_AUC] == measured[metrics.TEST_AUC] != later[metrics.TEST_AUC]


def worse(rewards: np.ndarray, level: float) -> np.ndarray:
    return experiment.clearly_worse(rewards.sum(axis=0), rewards.T @ rewards, len(rewards), level)


@pytest.mark.parametrize("rounds", [3, 5, 20])
def test_the_test_is_scipy_s_paired_one_sided_t_test_against_the_best(rounds):
    draw = np.random.default_rng(rounds)
    rewards = 0.01 * draw.normal(size=(rounds, 1)) + draw.normal([0.02, 0.01, -0.01], 0.01, (rounds, 3))
    best = int(np.argmax(rewards.mean(axis=0)))
    p = [scipy.stats.ttest_rel(rewards[:, best], other, alternative="greater").pvalue for other in rewards.T]
    for level in (0.001, 0.05, 0.5):
        np.testing.assert_array_equal(worse(rewards, level), np.nan_to_num(p, nan=1.0) < level)
    assert not worse(np.array([[0.9, 0.1], [0.8, 0.1]]), 0.5).any()  # Too few rounds.
    assert not worse(np.array([[0.9, 0.4], [0.7, 0.2], [0.6, 0.1]]), 0.5).any()  # Differences never vary.
