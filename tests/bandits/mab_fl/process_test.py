"""Participants that diverge, the AUC and rewards; experiment_test has whole rounds by hand."""

import numpy as np
import pytest
import sklearn.metrics

from bandits.mab_fl import process, rewards
from optimization import client_work

NUM_FEATURES = 6


def make_participant(number: int, size: int, num_validation: int) -> process.ParticipantInput:
    draw = np.random.default_rng(50 + number)
    labels = draw.integers(0, 2, size).astype(np.int32)
    features = draw.normal(size=(size, NUM_FEATURES)).astype(np.float32)
    validation = draw.normal(size=(num_validation, NUM_FEATURES)).astype(np.float32)
    shares, key = np.array([0.5, 0.0], np.float32), np.array([number, 9], np.int32)  # Shares of two combinations.
    alternating = (np.arange(num_validation) % 2).astype(np.int32)
    return process.ParticipantInput(features, labels, validation, alternating, shares, key)


def test_a_participant_that_diverges_takes_part_with_the_model_it_was_sent(tff_worker):
    network = process.BinaryClassifier(NUM_FEATURES, ())
    definition = process.MabFlProcess(network, client_work.LocalSgd(0.2, 4, 3), 2)
    rounds, initial = definition.build(), network.initial_weights(4)
    sound, other = make_participant(0, 10, 40), make_participant(1, 7, 0)
    broken = other._replace(features=np.full_like(other.features, np.inf))
    alone, _ = rounds.next(definition.initial_state(initial), [sound])
    both, measured = rounds.next(definition.initial_state(initial), [sound, broken])
    assert measured.nonfinite_participants == 1
    for own, found, sent in zip(alone.candidates, both.candidates, initial, strict=True):
        np.testing.assert_allclose(found[0], own[0] + sent / 2, atol=1e-5)


def test_auc_is_scikit_learns_with_ties():
    draw = np.random.default_rng(0)
    scores = draw.integers(0, 8, 50).astype(np.float32)
    labels = draw.integers(0, 2, 50).astype(np.int32)
    assert process.auc(scores, labels).numpy() == pytest.approx(sklearn.metrics.roc_auc_score(labels, scores))


RNG = np.random.default_rng(3)
DEEP = process.BinaryClassifier(5, (4, 3))
FEATURES = RNG.normal(size=(9, 5)).astype(np.float32)


def _random_weights():
    weights = [RNG.normal(size=shape).astype(np.float32) for shape in DEEP.shapes.values()]
    named = zip(DEEP.shapes, weights, strict=True)
    return {name: np.abs(value) if "variance" in name else value for name, value in named}


def _by_hand(weights, statistics=None):
    """Log odds and the statistics used: the weights' or the rows'."""
    values, used = FEATURES.astype(np.float64), []
    for layer in range(2):
        values = values @ weights[f"dense_{layer}/kernel"] + weights[f"dense_{layer}/bias"]
        if statistics is None:
            mean, variance = values.mean(axis=0), values.var(axis=0)
        else:
            mean, variance = statistics[2 * layer], statistics[2 * layer + 1]
        used += [mean, variance]
        values = (values - mean) / np.sqrt(variance + 1e-3)
        values = values * weights[f"batch_norm_{layer}/scale"] + weights[f"batch_norm_{layer}/offset"]
        values = np.maximum(values, 0)
    logits = values @ weights["dense_2/kernel"] + weights["dense_2/bias"]
    return logits[:, 1] - logits[:, 0], used


def test_scores_normalize_by_the_statistics_that_the_weights_carry():
    weights = _random_weights()
    carried = [value for name, value in weights.items() if "mean" in name or "variance" in name]
    expected, _ = _by_hand(weights, carried)
    np.testing.assert_allclose(DEEP.scores(list(weights.values()), FEATURES), expected, rtol=1e-4, atol=1e-5)


def test_training_normalizes_by_the_mini_batch_and_statistics_are_what_it_used():
    weights = _random_weights()
    trained = [value for name, value in weights.items() if name in DEEP.trained.shapes]
    expected, used = _by_hand(weights)
    logits = DEEP.trained.forward(trained, FEATURES).numpy()
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], expected, rtol=1e-4, atol=1e-4)
    for found, value in zip(DEEP.statistics(trained, FEATURES), used, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)


def test_the_default_network_starts_with_normal_kernels_and_normalizations_that_are_the_identity():
    network = process.BinaryClassifier(153)
    weights = dict(zip(network.shapes, network.initial_weights(0), strict=True))
    assert [sum(name.endswith(kind) for name in weights) for kind in ("kernel", "variance")] == [4, 3]
    np.testing.assert_allclose(weights["dense_0/kernel"].std(), np.sqrt(2 / 153), rtol=0.03)
    for name, value in (("scale", 1), ("variance", 1), ("offset", 0), ("mean", 0)):
        assert (weights[f"batch_norm_0/{name}"] == value).all()


AFTER = np.array([0.60, 0.65, 0.71])


@pytest.mark.parametrize(
    ("kind", "before", "threshold", "expected"),
    [("increment", 0.65, 0.0, [-0.05, 0, 0.06]), ("binary", 0.65, 0.0, [0, 0, 1]), ("binary", 0.65, -0.1, [1, 1, 1])],
)
def test_rewards_by_hand(kind, before, threshold, expected):
    np.testing.assert_allclose(rewards.Reward(kind)(before, AFTER, threshold), expected, atol=1e-12)


def test_a_threshold_is_its_number_or_the_quantile_of_the_increases_seen():
    seen = np.array([np.nan, 0.04, -0.02, 0.01])
    assert rewards.Reward("binary", 0.025).threshold_after(seen) == 0.025
    assert rewards.Reward("binary", "quantile:0.5").threshold_after(seen) == pytest.approx(0.01)
    # A quarter of the way from the lowest of three to the highest: half-way from the lowest to the middle one.
    assert rewards.Reward("binary", "quantile:0.25").threshold_after(seen) == pytest.approx(-0.005)
    assert rewards.Reward("binary", "quantile:1").threshold_after(seen) == pytest.approx(0.04)
    assert rewards.Reward("binary", "quantile:1").threshold_after(seen[:1]) == 0


ROUNDS = np.arange(20)


def test_a_rising_curve_does_not_fall_and_one_past_its_peak_does():
    noise = 0.002 * np.random.default_rng(1).normal(size=20)
    assert not rewards.is_falling(0.5 + 0.01 * ROUNDS + noise)
    assert rewards.is_falling(0.7 - 0.002 * (ROUNDS - 10.0) ** 2 + noise)
    assert not rewards.is_falling(np.array([0.9, 0.8, 0.7, 0.6]))  # Too few points.
