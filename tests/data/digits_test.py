"""Tests of data.digits."""

import numpy as np
import pytest
from sklearn import datasets

from data import digits


@pytest.fixture(scope="module")
def population():
    return digits.load()


def _rows(*parts) -> np.ndarray:
    """Returns all clients' examples as sorted rows of pixels and label."""
    found = [part.load(index) for part in parts for index in range(len(part))]
    rows = np.concatenate([np.column_stack([examples.features * 16, examples.labels]) for examples in found])
    return rows[np.lexsort(rows.T)]


def test_sixty_clients_have_23_or_24_examples(population):
    sizes = [len(population[0].load(index).labels) for index in range(60)]
    assert len(population[0]) == 60
    # 1,438 = 58 x 24 + 2 x 23.
    assert sizes == [24] * 58 + [23] * 2


def test_a_fifth_of_the_examples_is_held_out(population):
    assert len(population[1]) == 1
    assert len(population[1].load(0).labels) == 359  # 1,797 / 5, rounded down.


def test_clients_and_held_out_examples_are_the_whole_data_set_once(population):
    source = datasets.load_digits()
    rows = np.column_stack([source.data, source.target])
    np.testing.assert_array_equal(_rows(*population), rows[np.lexsort(rows.T)])


def test_features_are_float32_between_0_and_1_and_labels_int32(population):
    for part in population:
        examples = part.load(0)
        assert (examples.features.dtype, examples.features.shape[1:]) == (np.float32, (64,))
        assert examples.labels.dtype == np.int32
    pixels = population[1].load(0).features
    assert (pixels.min(), pixels.max()) == (0.0, 1.0)


def test_clients_are_named_by_number(population):
    assert population[0].client_ids[:2] == ["client_00", "client_01"]
    assert len(set(population[0].client_ids)) == 60


def test_clients_prefer_some_labels(population):
    largest = [np.bincount(population[0].load(index).labels).max() / 24 for index in range(60)]
    # Dealt evenly, the most frequent of ten labels among 24 examples has a share of about 0.21.
    assert np.mean(largest) > 0.25


def test_every_load_deals_alike(population):
    again = digits.load()
    for part, other in zip(population, again, strict=True):
        assert part.checksum == other.checksum
        for index in range(len(part)):
            np.testing.assert_array_equal(part.load(index).features, other.load(index).features)
            np.testing.assert_array_equal(part.load(index).labels, other.load(index).labels)


def test_a_smaller_concentration_gives_clients_of_fewer_labels():
    def labels_of_a_client(concentration):
        population, _ = digits.load(concentration)
        return np.mean([len(np.unique(population.load(index).labels)) for index in range(len(population))])

    assert labels_of_a_client(0.01) < 2 < 5 < labels_of_a_client(1.0) < labels_of_a_client(10.0)
