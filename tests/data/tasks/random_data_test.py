"""Tests of the random examples that replace downloads."""

import numpy as np
import pytest

from data.tasks import handwriting, tags


@pytest.mark.parametrize(("mean", "classes"), [(671_585 / 3_400, 62), (341_873 / 3_383, 10)])
def test_a_writer_s_examples_number_the_data_set_s_mean(mean, classes):
    train, _ = handwriting.random_writers(classes, 300)
    some = [train.load(index) for index in range(300)]
    assert np.mean([len(one.labels) for one in some]) == pytest.approx(mean, rel=0.09)  # Four standard errors.
    assert (some[0].features.shape[1:], some[0].features.dtype) == ((28, 28, 1), np.float32)
    assert set(np.concatenate([one.labels for one in some])) == set(range(classes))


def test_a_user_s_posts_number_the_data_set_s_mean_and_have_tags():
    train, _ = tags.random_posts(50, 5, 8, num_users=400)
    some = [train.load(index) for index in range(400)]
    sizes = [len(one.labels) for one in some]
    assert min(sizes) >= 100
    assert np.mean(sizes) == pytest.approx(135_818_730 / 342_477, rel=0.15)  # Four standard errors.
    assert all((one.labels.sum(axis=1) >= 1).all() for one in some)
    lengths = np.diff(some[0].features.offsets)
    assert (lengths.min(), lengths.max()) == (5, 8)
    np.testing.assert_allclose(
        np.add.reduceat(some[0].features.values ** 2, some[0].features.offsets[:-1]), 1, rtol=1e-6
    )
