"""Tests of data.stackexchange: small corpora by hand and, where it is, the real one."""

import gzip
import itertools
import json
import subprocess
import sys

import numpy as np
import pytest

from data import clients, posts, stackexchange, statistics, text
from data.errors import UsageError

OPTIONS = {"max_words": 8, "normalisation": "mean"}


@pytest.fixture(autouse=True)
def _no_default_folder(request, monkeypatch):
    if "shared_data" not in request.fixturenames:
        monkeypatch.delenv("FEDBANDITS_DATA_DIR", raising=False)


def _write(path, rows):
    """Writes (user, title, body, tags) as JSON lines."""
    lines = [
        json.dumps({"site": "s", "user": user, "title": title, "body": body, "tags": tags})
        for user, title, body, tags in rows
    ]
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def _xml(path, *users):
    """Writes a dump with one question by each user, tagged `x` and `y`."""
    path.parent.mkdir(exist_ok=True)
    rows = "".join(
        f'<row Id="{number}" PostTypeId="1" OwnerUserId="{user}" Title="T{user}" Tags="|x|y|" Body="b{user}" />\n'
        for number, user in enumerate(users)
    )
    path.write_text(f"<posts>\n{rows}</posts>")


# Users a to j, each with a word of its own; all but j's posts have one of the two frequent tags.
PEOPLE = "abcdefghij"
POSTS = [
    row
    for user in PEOPLE[:9]
    for row in (
        (f"s/{user}", f"Word{user}", "beer, beer", ["ale"]),
        (f"s/{user}", f"Word{user}", "water: beer", ["ale", "ale", "tap"]),
        (f"s/{user}", "nothing", f"of {user}", [f"rare-{user}"]),
    )
] + [("s/j", "Wordj", "beer", ["rare-j"])]


@pytest.fixture
def folder(tmp_path):
    _write(tmp_path / "stackexchange_posts.jsonl.gz", POSTS)
    return str(tmp_path)


def _load(folder, **options):
    return stackexchange.load(folder, **(OPTIONS | {"num_tags": 2, "held_out_fraction": 0.2} | options))


def _decoded(corpus, examples):
    """Returns each example's words with their values, and its tags."""
    bags = examples.features
    return [
        (
            {corpus.statistics.vocabulary[bags.ids[word]]: float(bags.values[word]) for word in range(*span)},
            [list(corpus.statistics.tags)[tag] for tag in np.flatnonzero(labels)],
        )
        for span, labels in zip(itertools.pairwise(bags.offsets), examples.labels, strict=True)
    ]


def _users(corpus):
    return [*corpus.train.client_ids, *corpus.held_out.client_ids]


def test_clients_are_the_users_with_examples_in_the_order_of_their_names(folder):
    corpus = _load(folder)
    assert corpus.train.client_ids == sorted(corpus.train.client_ids)
    assert sorted(_users(corpus)) == [f"s/{user}" for user in PEOPLE[:9]]
    assert 1 <= len(corpus.held_out) <= 2


def test_examples_are_the_posts_by_hand(folder):
    corpus = _load(folder)
    for part in (corpus.train, corpus.held_out):
        for index, user in enumerate(part.client_ids):
            own = f"word{user[-1]}"
            expected = [
                ({own: 1 / 3, "beer": 2 / 3}, ["ale"]),
                ({own: 1 / 3, "water": 1 / 3, "beer": 1 / 3}, ["ale", "tap"]),
            ]
            if part is corpus.held_out:  # Its own word is in no post for training.
                expected = [({"beer": 1}, ["ale"]), ({"water": 1 / 2, "beer": 1 / 2}, ["ale", "tap"])]
            found = _decoded(corpus, part.load(index))
            assert [tags for _, tags in found] == [tags for _, tags in expected]
            for (bag, _), (expected_bag, _) in zip(found, expected, strict=True):
                assert bag == pytest.approx(expected_bag)


def test_features_and_labels_have_the_tasks_types(folder):
    bags, labels = _load(folder).train.load(0)
    assert [array.dtype.name for array in bags] == ["int32", "float32", "int64"]
    assert (labels.dtype.name, labels.shape) == ("float32", (2, 2))
    longest = [np.diff(_load(folder, max_words=most).train.load(0).features.offsets).max() for most in (16, 2)]
    assert longest == [3, 2]


def test_words_and_tags_are_counted_on_training_users_only(folder):
    for seed in range(5):
        corpus = _load(folder, seed=seed)
        # j has no example, but its words count unless it is one of the two users that are held out.
        training = [user[-1] for user in corpus.train.client_ids]
        trains = set(training) | ({"j"} if len(corpus.train) == 7 else set())
        assert {word for word in list(corpus.statistics.vocabulary) if word.startswith("word")} == {
            f"word{user}" for user in trains
        }
        assert list(corpus.statistics.tags) == ["ale", "tap"]
        assert list(corpus.statistics.tags.values()) == [2 * len(training), len(training)]
        assert corpus.statistics.vocabulary[:1] == ("beer",)


def test_words_and_tags_from_elsewhere_are_taken_as_they_are(folder):
    own = _load(folder)
    again = _load(folder, known=own.statistics, num_tags=1, vocabulary_size=1)
    assert again.statistics == own.statistics
    for index in range(len(own.train)):
        for one, other in zip(
            _decoded(own, own.train.load(index)), _decoded(again, again.train.load(index)), strict=True
        ):
            assert one == other
    known = statistics.OfPosts(("unheard", "beer"), {"tap": 5, "unseen": 3, "ale": 1})
    other = _load(folder, known=known)
    assert (list(other.statistics.vocabulary), list(other.statistics.tags), list(other.statistics.tags.values())) == (
        ["unheard", "beer"],
        ["tap", "unseen", "ale"],
        [5, 3, 1],
    )
    assert {word for bag, _ in _decoded(other, other.train.load(0)) for word in bag} == {"beer"}


def test_rarer_tags_follow_in_alphabetical_order_and_may_be_fewer_than_asked_for(folder):
    corpus = _load(folder, num_tags=50)
    assert list(corpus.statistics.tags)[:2] == ["ale", "tap"]
    assert list(corpus.statistics.tags)[2:] == sorted(list(corpus.statistics.tags)[2:])
    assert all(f"rare-{user[-1]}" in corpus.statistics.tags for user in corpus.train.client_ids)
    assert len(corpus.statistics.tags) == 2 + 8


def test_the_vocabulary_has_the_most_frequent_words_whatever_the_tags(folder):
    assert list(_load(folder, vocabulary_size=1).statistics.vocabulary) == ["beer"]
    assert list(_load(folder).statistics.vocabulary) == list(
        _load(folder, num_tags=9, keep_untagged=True).statistics.vocabulary
    )


def test_untagged_posts_are_kept_on_demand(folder):
    corpus = _load(folder, keep_untagged=True)
    assert sorted(_users(corpus)) == [f"s/{user}" for user in PEOPLE]
    sizes = {
        user: part.load(index).labels.sum(axis=1).tolist()
        for part in (corpus.train, corpus.held_out)
        for index, user in enumerate(part.client_ids)
    }
    assert sizes == {f"s/{user}": [1, 2, 0] for user in PEOPLE[:9]} | {"s/j": [0]}


def test_the_report_counts_what_was_left_out(folder):
    assert _load(folder).report == {
        stackexchange.POSTS: 28,
        stackexchange.EXAMPLES: 18,
        stackexchange.UNTAGGED: 10,
        stackexchange.USERS_DROPPED: 1,
    }
    assert stackexchange.describe(_load(folder, keep_untagged=True).report) == "posts: 28, examples: 28"


def test_the_split_is_seeded_and_its_size_rounded_up(folder):
    splits = [_load(folder, held_out_fraction=0.25, keep_untagged=True, seed=seed) for seed in (0, 0, 1, 2)]
    names = [tuple(split.held_out.client_ids) for split in splits]
    assert {len(split) for split in names} == {3}
    assert names[0] == names[1]
    assert len(set(names)) > 1


def test_a_held_out_user_may_be_left_without_an_example(folder):
    with pytest.raises(UsageError, match="18 examples for training, 0 of other users"):
        _load(folder, held_out_fraction=0.1)  # Seed 0 holds out j alone.


def test_held_out_clients_pool(folder):
    corpus = _load(folder, held_out_fraction=0.5)
    bags, labels = clients.pool(corpus.held_out, 5, seed=0)
    assert (bags.offsets.shape, labels.shape) == ((6,), (5, 2))
    assert bags.ids.shape == bags.values.shape == (bags.offsets[-1],)


def test_posts_in_chunks_are_the_same(folder, monkeypatch):
    whole = _load(folder)
    monkeypatch.setattr(stackexchange, "_POSTS_AT_ONCE", 4)
    chunked = _load(folder)
    assert (list(whole.statistics.vocabulary), list(whole.statistics.tags), whole.report) == (
        list(chunked.statistics.vocabulary),
        list(chunked.statistics.tags),
        chunked.report,
    )
    for index in range(len(whole.train)):
        one, other = whole.train.load(index), chunked.train.load(index)
        for found, expected in zip(one.features, other.features, strict=True):
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(one.labels, other.labels)


def test_a_post_without_known_words_is_empty(tmp_path):
    rows = [(f"s/{user}", "?", "beer" if user < 9 else "...", ["x", "y"]) for user in range(10)]
    corpus = _load(_write(tmp_path / "mine.jsonl", rows))
    bags = {
        user: part.load(index).features.values.tolist()
        for part in (corpus.train, corpus.held_out)
        for index, user in enumerate(part.client_ids)
    }
    assert bags == {f"s/{user}": [1.0] * (user < 9) for user in range(10)}


def test_folders_of_sites_are_read_together(tmp_path):
    _xml(tmp_path / "wine" / "Posts.xml", 5, 7)
    _xml(tmp_path / "ai" / "Posts.xml", 5, -1, 6)
    corpus = _load(str(tmp_path))
    assert sorted(_users(corpus)) == ["ai/5", "ai/6", "wine/5", "wine/7"]
    assert corpus.report == {
        stackexchange.POSTS: 4,
        posts.UNKNOWN_USER: 1,
        stackexchange.EXAMPLES: 4,
        stackexchange.UNTAGGED: 0,
        stackexchange.USERS_DROPPED: 0,
    }


@pytest.mark.parametrize("named", ["ai", "ai/Posts.xml"])
def test_one_site_is_read_by_its_folder_or_file(tmp_path, named):
    _xml(tmp_path / "ai" / "Posts.xml", 5, 6)
    assert sorted(_users(_load(str(tmp_path / named)))) == ["ai/5", "ai/6"]


def test_the_environment_names_the_folder(folder, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", folder)
    assert len(_load(None).train) in (7, 8)


def test_the_checksum_is_the_files(tmp_path):
    for name in ("ai", "wine"):
        _xml(tmp_path / name / "Posts.xml", 5, 6)
    before = _load(str(tmp_path))
    assert before.train.checksum == before.held_out.checksum == _load(str(tmp_path)).train.checksum
    one = _load(str(tmp_path / "ai")).train.checksum
    assert one == clients.file_checksum(str(tmp_path / "ai" / "Posts.xml")) != before.train.checksum
    _xml(tmp_path / "wine" / "Posts.xml", 5, 7)
    after = _load(str(tmp_path)).train.checksum
    (tmp_path / "wine").rename(tmp_path / "tea")
    assert len({before.train.checksum, after, _load(str(tmp_path)).train.checksum}) == 3


def test_without_a_folder_the_error_says_how_to_name_one():
    with pytest.raises(UsageError, match=r"reads stackexchange_posts.*Posts\.xml: .*--data_dir or FEDBANDITS_DATA_DIR"):
        _load(None)


def test_a_folder_without_posts_is_refused_with_what_is_expected(tmp_path):
    (tmp_path / "ai").mkdir()
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match=rf"no stackexchange_posts.*Posts\.xml in {place}: .*--data_dir"):
            _load(str(place))


def test_a_folder_of_both_kinds_is_refused(folder, tmp_path):
    _xml(tmp_path / "ai" / "Posts.xml", 5)
    with pytest.raises(UsageError, match=r"both stackexchange_posts.jsonl.gz and .*Posts.xml.*--data_dir"):
        _load(folder)


def test_another_file_is_refused(tmp_path):
    (tmp_path / "a.csv").touch()
    with pytest.raises(UsageError, match=r"a\.csv is neither \.jsonl.*--data_dir"):
        _load(str(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "0 tags and 0 words"),
        ([("s/1", "beer", "", ["x", "y"])], "1 examples for training, 0 of other users"),
        ([(f"s/{user}", "beer", "", ["x"]) for user in range(4)], "1 tags"),
        ([(f"s/{user}", "beer", "", []) for user in range(4)], "0 tags"),
        ([(f"s/{user}", "?", "!", ["x", "y"]) for user in range(4)], "0 words"),
        ([(f"s/{user}", "beer", "", [f"{user}-x", f"{user}-y"]) for user in range(4)], "0 of other users"),
    ],
)
def test_too_little_is_refused_with_the_counts(tmp_path, rows, message):
    path = _write(tmp_path / "mine.jsonl", rows)
    with pytest.raises(UsageError, match=rf"mine\.jsonl holds \(posts: \d.*{message}.*--data_dir"):
        _load(str(path), num_tags=50)


@pytest.mark.parametrize("fraction", [0, 1, -0.5, float("nan")])
def test_the_held_out_fraction_is_between_0_and_1(folder, fraction):
    with pytest.raises(ValueError, match="held_out_fraction"):
        _load(folder, held_out_fraction=fraction)


def test_nothing_slow_is_imported():
    code = "import sys; from data import stackexchange; print({'tensorflow', 'pandas'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


def test_the_real_posts(shared_data):
    corpus = stackexchange.load(str(shared_data), max_words=256, normalisation="mean")
    assert (len(corpus.train), len(corpus.held_out)) == (1715, 180)
    assert not set(corpus.train.client_ids) & set(corpus.held_out.client_ids)
    assert len(corpus.statistics.tags) == 50
    assert len(corpus.statistics.vocabulary) == len(set(corpus.statistics.vocabulary)) == 10_000
    assert corpus.report[stackexchange.POSTS] == 8263
    assert corpus.report[stackexchange.EXAMPLES] + corpus.report[stackexchange.UNTAGGED] == 8263
    examples = [corpus.train.load(index) for index in range(len(corpus.train))]
    labels = np.concatenate([client.labels for client in examples])
    assert labels.any(axis=1).all()
    np.testing.assert_array_equal(labels.sum(axis=0), list(corpus.statistics.tags.values()))
    assert (np.diff(list(corpus.statistics.tags.values())) <= 0).all()
    bags = text.joined([client.features for client in examples])
    assert np.diff(bags.offsets).max() == 256
    assert 0.5 < bags.values.sum() / len(labels) <= 1
