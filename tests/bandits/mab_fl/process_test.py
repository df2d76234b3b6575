"""Participants that diverge, and the AUC; experiment_test has whole rounds by hand."""

import numpy as np
import pytest
import sklearn.metrics
import tensorflow as tf

from bandits.mab_fl import model, process
from optimization import client_work

NUM_FEATURES, BATCH, EPOCHS, LEARNING_RATE = 6, 4, 3, 0.2
NETWORK = model.BinaryClassifier(NUM_FEATURES, ())
SIZES = (10, 7)
# Two combinations of two participants, the first of which is the target.
SHARES = np.array([[0.25, 0.75], [0.5, 0.5]], np.float32)


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


PARTICIPANTS = [make_participant(0, 40), make_participant(1, 0)]


def test_a_participant_that_diverges_takes_part_with_the_model_it_was_sent(tff_worker):
    definition = process.MabFlProcess(NETWORK, client_work.LocalSgd(LEARNING_RATE, BATCH, EPOCHS), len(SHARES))
    rounds, initial = definition.build(), NETWORK.initial_weights(4)
    half = np.array([0.5, 0.0], np.float32)
    sound, other = (one._replace(shares=half) for one in PARTICIPANTS)
    broken = other._replace(features=np.full_like(other.features, np.inf))
    alone, _ = rounds.next(definition.initial_state(initial), [sound])
    both, measured = rounds.next(definition.initial_state(initial), [sound, broken])
    assert measured.nonfinite_participants == 1
    for own, found, sent in zip(alone.candidates, both.candidates, initial, strict=True):
        np.testing.assert_allclose(found[0], own[0] + sent / 2, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_auc_is_scikit_learns_with_ties(seed):
    draw = np.random.default_rng(seed)
    scores = draw.integers(0, 8, 50).astype(np.float32)
    labels = draw.integers(0, 2, 50).astype(np.int32)
    assert process.auc(scores, labels).numpy() == pytest.approx(sklearn.metrics.roc_auc_score(labels, scores))


def test_auc_without_rows_of_both_classes_is_0():
    assert process.auc(tf.zeros(0), tf.zeros(0, tf.int32)) == 0
    assert process.auc(tf.zeros(2), tf.ones(2, tf.int32)) == 0
