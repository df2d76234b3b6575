"""Tests of data.tasks.stackoverflow, on a toy database."""

import json
import lzma
import tarfile

import numpy as np
import pytest
import tensorflow as tf

from data.tasks import tags
from data.tasks.options import TaskOptions


def _load(folder, **options):
    options = {"vocabulary_size": 3, "num_tags": 2, "max_words": 4, "init_labels": 1} | options
    return tags.load_stackoverflow(TaskOptions("stackoverflow_tag", data_dir=folder and str(folder), **options))


def _post(tokens: str, title: str, tags: str) -> bytes:
    values = {"tokens": tokens, "title": title, "tags": tags}
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()])) for name, value in values.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.fixture
def folder(tmp_path, write_database):
    posts = [_post("the cat sat", "the end", "java|c++"), _post("dog", "", "cobol"), _post("dog the", "", "c++")]
    write_database(
        tmp_path / "stackoverflow.sqlite",
        {"train": {"ann": posts, "bob": posts[1:2]}, "heldout": {"eve": posts[2:], "nil": []}},
    )
    (tmp_path / "stackoverflow.word_count").write_text("the 9\ndog 5\ncat 4\nsat 1\n")
    (tmp_path / "stackoverflow.tag_count").write_text(json.dumps({"c++": 3, "cobol": 1, "java": 7}))
    return tmp_path


def test_posts_are_bags_of_body_and_title_and_their_tags(folder):
    found = _load(folder)
    assert list(found.statistics["tags"].items()) == [("java", 7), ("c++", 3)]
    assert found.statistics["vocabulary"] == ("the", "dog", "cat")
    examples = found.clients.load(0)
    # The first post: the twice and cat once among its words in the vocabulary; the second has neither tag.
    assert (examples.features.ids.tolist(), examples.features.offsets.tolist()) == ([0, 2, 0, 1], [0, 2, 4])
    np.testing.assert_allclose(examples.features.values, [2 / 3, 1 / 3, 0.5, 0.5], rtol=1e-6)
    np.testing.assert_array_equal(examples.labels, [[1, 1], [0, 1]])


def test_posts_without_a_frequent_tag_are_dropped_or_kept(folder):
    assert len(_load(folder).clients.load(1).labels) == 0
    kept = _load(folder, keep_untagged=True).clients.load(1)
    np.testing.assert_array_equal(kept.labels, [[0, 0]])


def test_files_are_read_as_they_are_published(folder):
    expected = _load(folder).statistics
    for name in (tags.WORD_COUNTS, tags.TAG_COUNTS):
        with tarfile.open(folder / f"{name}.tar.bz2", "w:bz2") as tar:
            tar.add(folder / name, name)
        (folder / name).unlink()
    database = folder / tags.FILE_NAME
    (folder / f"{database.name}.lzma").write_bytes(lzma.compress(database.read_bytes(), lzma.FORMAT_ALONE))
    database.unlink()
    found = _load(folder)
    assert (len(found.clients), found.statistics) == (2, expected)
    assert len(list(folder.glob("*.tar.bz2"))) == 2  # The user's archives stay.
