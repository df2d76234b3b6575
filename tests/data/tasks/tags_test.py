"""Tests of data.tasks.tags: small corpora by hand and, where it is, the real one."""

import gzip
import itertools
import json
import lzma
import tarfile

import numpy as np
import pytest
import tensorflow as tf

from data import text
from data.errors import UsageError
from data.tasks import tags
from data.tasks.options import TaskOptions

# Users a to o, each with a word of its own; all but n's and o's posts have one of the two frequent tags.
PEOPLE = "abcdefghijklmno"
POSTS = [
    row
    for user in PEOPLE[:13]
    for row in (
        (f"s/{user}", f"Word{user}", "beer, beer", ["ale"]),
        (f"s/{user}", f"Word{user}", "water: beer", ["ale", "ale", "tap"]),
        (f"s/{user}", "nothing", f"of {user}", [f"rare-{user}"]),
    )
] + [(f"s/{user}", f"Word{user}", "beer", [f"rare-{user}"]) for user in PEOPLE[13:]]


@pytest.fixture
def folder(tmp_path):
    names = ("user", "title", "body", "tags")
    lines = [json.dumps({"site": "s"} | dict(zip(names, row, strict=True))) for row in POSTS]
    (tmp_path / "stackexchange_posts.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return str(tmp_path)


def _load(folder, **options):
    options = {"num_tags": 2, "max_words": 8} | options
    return tags.load_stackexchange(TaskOptions("stackexchange_tag", data_dir=folder and str(folder), **options))


def _vocabulary(task):
    return list(task.statistics["vocabulary"])


def _by_user(task):
    """Examples of each user: words with their values, and tags."""
    return {
        user: [
            (
                {_vocabulary(task)[bags.ids[word]]: float(bags.values[word]) for word in range(*span)},
                [task.action_names[tag] for tag in np.flatnonzero(row)],
            )
            for span, row in zip(itertools.pairwise(bags.offsets), labels, strict=True)
        ]
        for part in (task.clients, task.held_out)
        for index, user in enumerate(part.client_ids)
        for bags, labels in [part.load(index)]
    }


def test_examples_are_the_posts_of_the_users_with_frequent_tags_by_hand(folder):
    task = _load(folder)
    assert task.clients.client_ids == sorted(task.clients.client_ids)
    users = sorted([*task.clients.client_ids, *task.held_out.client_ids])
    assert users == [f"s/{user}" for user in PEOPLE[:13]]
    assert (len(task.held_out), task.action_names) == (2, ("ale", "tap"))
    for user, examples in _by_user(task).items():
        word = f"word{user[-1]}"
        expected = [{word: 1 / 3, "beer": 2 / 3}, {word: 1 / 3, "water": 1 / 3, "beer": 1 / 3}]
        if user in task.held_out.client_ids:  # No post for training has this user's word.
            expected = [{"beer": 1}, {"water": 1 / 2, "beer": 1 / 2}]
        assert [bag for bag, _ in examples] == [pytest.approx(bag) for bag in expected]
        assert [tags for _, tags in examples] == [["ale"], ["ale", "tap"]]


def test_words_and_tags_are_counted_on_training_users_only_whatever_the_tags(folder):
    task = _load(folder)
    last_letters = {word[-1] for word in _vocabulary(task) if word.startswith("word")}
    assert last_letters == set(PEOPLE) - {user[-1] for user in task.held_out.client_ids}
    assert task.statistics["tags"] == {"ale": 2 * len(task.clients), "tap": len(task.clients)}
    assert _vocabulary(_load(folder, num_tags=9, keep_untagged=True)) == _vocabulary(task)
    assert _vocabulary(_load(folder, vocabulary_size=1)) == ["beer"]


def test_words_and_tags_from_elsewhere_are_taken_as_they_are(folder, write):
    learned = _load(folder)
    assert learned.private_statistics == ("the posts' vocabulary, their tags and the tags' counts",)
    path = write(json.dumps(learned.statistics), "statistics.json")
    public = _load(folder, public_statistics=path, num_tags=1, vocabulary_size=1)
    assert (public.private_statistics, public.statistics) == ((), {})
    np.testing.assert_array_equal(public.rewards["bandits"], learned.rewards["bandits"])
    np.testing.assert_equal(public.clients.load(0).features, learned.clients.load(0).features)
    known = {"kind": "posts", "vocabulary": ["unheard", "beer"], "tags": {"tap": 5, "unseen": 3, "ale": 1}}
    other = _load(folder, public_statistics=write(json.dumps(known), "statistics.json"))
    assert other.action_names == ("tap", "unseen", "ale")
    assert set(other.clients.load(0).features.ids.tolist()) == {1}


def test_untagged_posts_are_kept_on_demand_and_counted(folder, capsys):
    task = _load(folder, keep_untagged=True)
    assert {user: [len(tags) for _, tags in found] for user, found in _by_user(task).items()} == {
        f"s/{user}": [1, 2, 0] if user in PEOPLE[:13] else [0] for user in PEOPLE
    }
    assert "posts: 41, examples: 41" in capsys.readouterr().err
    assert _load(folder).report == {tags.POSTS: 41, tags.EXAMPLES: 26, tags.UNTAGGED: 15, tags.USERS_DROPPED: 2}


OBJECT = {"site": "ai", "id": 1, "user": "ai/8", "title": "What?", "body": "Nothing\nmuch", "tags": ["x", "y"]}


def _jsonl(tmp_path, content: bytes):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content))
    return tags.read_jsonl(tmp_path / "a.jsonl.gz")


def test_json_lines_are_read(tmp_path):
    other = OBJECT | {"user": "ai/9", "body": "é", "tags": []}
    content = "\ufeff" + "\n".join([json.dumps(OBJECT), "", json.dumps(other)])
    assert list(_jsonl(tmp_path, content.encode())) == [OBJECT, other]


WRONG_VALUES = [*((name, 8) for name in ("user", "title", "body", "site", "tags")), ("tags", "x"), ("tags", ["x", 1])]
WITHOUT_BODY = json.dumps({name: value for name, value in OBJECT.items() if name != "body"})
LINES = ["{'site'", json.dumps(OBJECT)[:-5], "[" * 100_000, "9" * 5000, "[1, 2]", WITHOUT_BODY]
LINES += [json.dumps(OBJECT | {name: value}) for name, value in WRONG_VALUES]


@pytest.mark.parametrize("line", [*(line.encode() for line in LINES), b"\xff\xfe"], ids=range(14))
def test_a_malformed_line_is_refused_with_its_number(tmp_path, line):
    with pytest.raises(UsageError, match=r"a\.jsonl\.gz is not readable at or after line 3 .*--data_dir"):
        list(_jsonl(tmp_path, json.dumps(OBJECT).encode() + b"\n\n" + line + b"\n"))


def test_the_real_posts(shared_data):
    task = _load(shared_data, num_tags=50, max_words=256)
    assert (len(task.clients), len(task.held_out), len(task.action_names)) == (1715, 180, 50)
    assert not set(task.clients.client_ids) & set(task.held_out.client_ids)
    assert len(_vocabulary(task)) == len(set(_vocabulary(task))) == 10_000
    assert task.report[tags.POSTS] == task.report[tags.EXAMPLES] + task.report[tags.UNTAGGED] == 8263
    examples = [task.clients.load(index) for index in range(len(task.clients))]
    labels = np.concatenate([client.labels for client in examples])
    assert labels.any(axis=1).all()
    counts = list(task.statistics["tags"].values())
    np.testing.assert_array_equal(labels.sum(axis=0), counts)
    assert (np.diff(counts) <= 0).all()
    bags = text.joined([client.features for client in examples])
    assert np.diff(bags.offsets).max() == 256
    assert 0.5 < bags.values.sum() / len(labels) <= 1


def _load_tffs(database, **options):
    options = {"vocabulary_size": 3, "num_tags": 2, "max_words": 4, "init_labels": 1} | options
    return tags.load_stackoverflow(TaskOptions("stackoverflow_tag", data_dir=database and str(database), **options))


def _post(tokens: str, title: str, tags: str) -> bytes:
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
        for name, value in (("tokens", tokens), ("title", title), ("tags", tags))
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.fixture
def tffs_folder(tmp_path, write_database):
    posts = [_post("the cat sat", "the end", "java|c++"), _post("dog", "", "cobol"), _post("dog the", "", "c++")]
    splits = {"train": {"ann": posts, "bob": posts[1:2]}, "heldout": {"eve": posts[2:], "nil": []}}
    write_database(tmp_path / "stackoverflow.sqlite", splits)
    (tmp_path / "stackoverflow.word_count").write_text("the 9\ndog 5\ncat 4\nsat 1\n")
    (tmp_path / "stackoverflow.tag_count").write_text(json.dumps({"c++": 3, "cobol": 1, "java": 7}))
    return tmp_path


def test_posts_are_bags_of_body_and_title_and_their_tags(tffs_folder):
    found = _load_tffs(tffs_folder)
    assert list(found.statistics["tags"].items()) == [("java", 7), ("c++", 3)]
    assert found.statistics["vocabulary"] == ("the", "dog", "cat")
    examples = found.clients.load(0)
    # The first post: the twice and cat once among its words in the vocabulary; the second has neither tag.
    assert (examples.features.ids.tolist(), examples.features.offsets.tolist()) == ([0, 2, 0, 1], [0, 2, 4])
    np.testing.assert_allclose(examples.features.values, [2 / 3, 1 / 3, 0.5, 0.5], rtol=1e-6)
    np.testing.assert_array_equal(examples.labels, [[1, 1], [0, 1]])


def test_files_are_read_as_they_are_published(tffs_folder):
    expected = _load_tffs(tffs_folder).statistics
    for name in (tags.WORD_COUNTS, tags.TAG_COUNTS):
        with tarfile.open(tffs_folder / f"{name}.tar.bz2", "w:bz2") as tar:
            tar.add(tffs_folder / name, name)
        (tffs_folder / name).unlink()
    file = tffs_folder / tags.FILE_NAME
    (tffs_folder / f"{file.name}.lzma").write_bytes(lzma.compress(file.read_bytes(), lzma.FORMAT_ALONE))
    file.unlink()
    found = _load_tffs(tffs_folder)
    assert (len(found.clients), found.statistics) == (2, expected)
    assert len(list(tffs_folder.glob("*.tar.bz2"))) == 2  # The user's archives stay.
