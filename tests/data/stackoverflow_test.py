"""Tests of data.stackoverflow, on a toy database."""

import json
import lzma
import tarfile

import numpy as np
import pytest
import tensorflow as tf

from data import stackoverflow, statistics
from data.errors import UsageError

OPTIONS = {"vocabulary_size": 3, "num_tags": 2, "max_words": 4, "normalisation": "mean", "keep_untagged": False}


def _post(tokens: str, title: str, tags: str) -> bytes:
    values = {"tokens": tokens, "title": title, "tags": tags}
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()])) for name, value in values.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.fixture(autouse=True)
def _no_default_folder(monkeypatch):
    monkeypatch.delenv("FEDBANDITS_DATA_DIR", raising=False)


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
    found = stackoverflow.load(str(folder), None, **OPTIONS)
    assert list(found.statistics.tags.items()) == [("java", 7), ("c++", 3)]
    assert found.statistics.vocabulary == ("the", "dog", "cat")
    examples = found.train.load(0)
    # The first post: the twice and cat once among its words in the vocabulary; the second has neither tag.
    assert (examples.features.ids.tolist(), examples.features.offsets.tolist()) == ([0, 2, 0, 1], [0, 2, 4])
    np.testing.assert_allclose(examples.features.values, [2 / 3, 1 / 3, 0.5, 0.5], rtol=1e-6)
    np.testing.assert_array_equal(examples.labels, [[1, 1], [0, 1]])


def test_posts_without_a_frequent_tag_are_dropped_or_kept(folder):
    assert len(stackoverflow.load(str(folder), None, **OPTIONS).train.load(1).labels) == 0
    kept = stackoverflow.load(str(folder), None, **OPTIONS | {"keep_untagged": True}).train.load(1)
    np.testing.assert_array_equal(kept.labels, [[0, 0]])


def test_a_user_without_posts_has_no_examples(folder):
    examples = stackoverflow.load(str(folder), None, **OPTIONS).held_out.load(1)
    assert examples.labels.shape == (0, 2)
    assert examples.features.offsets.tolist() == [0]


@pytest.mark.parametrize("name", ["stackoverflow.sqlite", "stackoverflow.word_count", "stackoverflow.tag_count"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(UsageError, match=f"There is no {name} .*--data_dir"):
        stackoverflow.load(str(folder), None, **OPTIONS)


def test_the_environment_names_the_folder(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(folder))
    assert len(stackoverflow.load(None, str(tmp_path / "cache"), **OPTIONS).train) == 2


def test_what_the_environments_folder_lacks_is_taken_from_the_cache(folder, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    cache.mkdir()
    (folder / "stackoverflow.tag_count").rename(cache / "stackoverflow.tag_count")
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(folder))
    assert len(stackoverflow.load(None, str(cache), **OPTIONS).train) == 2


def test_files_are_read_as_they_are_published(folder):
    expected = stackoverflow.load(str(folder), None, **OPTIONS).statistics
    for name in (stackoverflow.WORD_COUNTS, stackoverflow.TAG_COUNTS):
        with tarfile.open(folder / f"{name}.tar.bz2", "w:bz2") as tar:
            tar.add(folder / name, name)
        (folder / name).unlink()
    database = folder / stackoverflow.FILE_NAME
    (folder / f"{database.name}.lzma").write_bytes(lzma.compress(database.read_bytes(), lzma.FORMAT_ALONE))
    database.unlink()
    found = stackoverflow.load(str(folder), None, **OPTIONS)
    assert (len(found.train), found.statistics) == (2, expected)


@pytest.mark.parametrize(("name", "content"), [("word_count", ""), ("tag_count", "[1, 2"), ("tag_count", '{"a": "b"}')])
def test_a_damaged_file_of_counts_is_named(folder, name, content):
    (folder / f"stackoverflow.{name}").write_text(content)
    with pytest.raises(UsageError, match=f"stackoverflow.{name} .*undamaged file"):
        stackoverflow.load(str(folder), None, **OPTIONS)


def test_words_and_tags_from_elsewhere_need_no_counts(folder):
    for name in (stackoverflow.WORD_COUNTS, stackoverflow.TAG_COUNTS):
        (folder / name).unlink()
    known = statistics.OfPosts(("the", "dog", "cat"), {"java": 7, "c++": 3})
    found = stackoverflow.load(str(folder), None, **OPTIONS, known=known)
    assert found.statistics == known
    assert found.train.load(0).features.ids.tolist() == [0, 2, 0, 1]
