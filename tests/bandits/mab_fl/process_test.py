"""One round against a calculation in NumPy: logistic regression, gradients by hand, AUC by scikit-learn."""

import numpy as np
import pytest
import sklearn.metrics
import tensorflow as tf

from bandits.mab_fl import model, process
from optimization import client_work

NUM_FEATURES, BATCH, EPOCHS, LEARNING_RATE = 6, 4, 3, 0.2
NETWORK = model.BinaryClassifier(NUM_FEATURES, ())
SIZES = (10, 7, 12)
# Two combinations of three participants, the first of which is the target.
SHARES = np.array([[0.25, 0.0, 0.75], [0.5, 0.3, 0.2]], np.float32)


def make_participant(number: int, num_validation: int) -> process.ParticipantInput:
    draw = np.random.default_rng(50 + number)
    labels = draw.integers(0, 2, SIZES[number]).astype(np.int32)
    return process.ParticipantInput(
        draw.normal(size=(SIZES[number], NUM_FEATURES)).astype(np.float32),
        labels,
        draw.normal(size=(num_validation, NUM_FEATURES)).astype(np.float32),
        (np.arange(num_validation) % 2).astype(np.int32),
        SHARES[:, number],
        np.array([number, 9], np.int32),
    )


PARTICIPANTS = [make_participant(0, 40), make_participant(1, 0), make_participant(2, 0)]
INITIAL = NETWORK.initial_weights(4)


def trained_by_hand(participant: process.ParticipantInput, weights=INITIAL, epochs=EPOCHS) -> list[np.ndarray]:
    """Returns kernel and bias after SGD on the cross-entropy; only the shuffles are TensorFlow's, from the key."""
    kernel, bias = (weight.astype(np.float64) for weight in weights)
    for epoch in range(epochs):
        key = tf.random.experimental.stateless_fold_in(participant.key, epoch)
        order = tf.random.experimental.stateless_shuffle(tf.range(len(participant.labels)), key).numpy()
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            logits = participant.features[rows] @ kernel + bias
            odds = np.exp(logits - logits.max(axis=1, keepdims=True))
            gradient = (odds / odds.sum(axis=1, keepdims=True) - np.eye(2)[participant.labels[rows]]) / len(rows)
            kernel = kernel - LEARNING_RATE * participant.features[rows].T @ gradient
            bias = bias - LEARNING_RATE * gradient.sum(axis=0)
    return [kernel, bias]


def auc_by_scikit_learn(weights, participant: process.ParticipantInput) -> float:
    logits = participant.validation_features @ weights[0] + weights[1]
    return sklearn.metrics.roc_auc_score(participant.validation_labels, logits[:, 1] - logits[:, 0])


@pytest.fixture(scope="module")
def played(tff_worker):
    definition = process.MabFlProcess(NETWORK, client_work.LocalSgd(LEARNING_RATE, BATCH, EPOCHS), len(SHARES))
    rounds = definition.build()
    return rounds, rounds.next(definition.initial_state(INITIAL), PARTICIPANTS)


def test_averages_are_the_weighted_means_of_the_locally_trained_models(played):
    local = [trained_by_hand(participant) for participant in PARTICIPANTS]
    for index, shares in enumerate(SHARES):
        for part in range(2):
            expected = sum(share * weights[part] for share, weights in zip(shares, local, strict=True))
            np.testing.assert_allclose(played[1][0].candidates[part][index], expected, atol=1e-5)


def test_the_target_measures_its_own_model_and_each_average(played):
    local = [trained_by_hand(participant) for participant in PARTICIPANTS]
    assert played[1][1].local_auc == pytest.approx(auc_by_scikit_learn(local[0], PARTICIPANTS[0]), abs=1e-6)
    for index, shares in enumerate(SHARES):
        average = [sum(share * weights[part] for share, weights in zip(shares, local, strict=True)) for part in (0, 1)]
        expected = auc_by_scikit_learn(average, PARTICIPANTS[0])
        assert played[1][1].candidate_auc[index] == pytest.approx(expected, abs=1e-6)


def test_the_next_round_starts_from_the_chosen_average(played):
    rounds, (state, _) = played
    chosen = state._replace(chosen=np.int32(1))
    after, _ = rounds.next(chosen, PARTICIPANTS[:1])
    start = [weight[1] for weight in state.candidates]
    for part, weight in enumerate(trained_by_hand(PARTICIPANTS[0], start)):
        np.testing.assert_allclose(after.candidates[part][0], SHARES[0, 0] * weight, atol=1e-5)


def test_a_participant_that_diverges_takes_part_with_the_model_it_was_sent(played):
    broken = PARTICIPANTS[1]._replace(features=np.full_like(PARTICIPANTS[1].features, np.inf))
    shares = np.array([0.5, 0.0], np.float32)
    definition = process.MabFlProcess(NETWORK, client_work.LocalSgd(LEARNING_RATE, BATCH, EPOCHS), len(SHARES))
    participants = [PARTICIPANTS[0]._replace(shares=shares), broken._replace(shares=shares)]
    state, measured = played[0].next(definition.initial_state(INITIAL), participants)
    assert measured.nonfinite_participants == 1
    for part, weight in enumerate(trained_by_hand(PARTICIPANTS[0])):
        np.testing.assert_allclose(state.candidates[part][0], (weight + INITIAL[part]) / 2, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_auc_is_scikit_learns_with_ties(seed):
    draw = np.random.default_rng(seed)
    scores = draw.integers(0, 8, 50).astype(np.float32)
    labels = draw.integers(0, 2, 50).astype(np.int32)
    assert process.auc(scores, labels).numpy() == pytest.approx(sklearn.metrics.roc_auc_score(labels, scores))


def test_auc_without_rows_of_both_classes_is_0():
    assert process.auc(tf.zeros(0), tf.zeros(0, tf.int32)) == 0
    assert process.auc(tf.zeros(2), tf.ones(2, tf.int32)) == 0
