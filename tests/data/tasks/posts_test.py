"""Tests of data.tasks.posts."""

import dataclasses
import json

import numpy as np
import pytest

from data import tasks, text
from data.errors import UsageError
from data.tasks import posts
from data.tasks.options import TaskOptions

# User n has tags n, n + 1, ... 39: the more frequent, the higher its number.
NUM_USERS = 40


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDBANDITS_DATA_DIR", raising=False)
    rows = [
        {
            "site": "s",
            "user": f"s/{user}",
            "title": "A post",
            "body": "beer",
            "tags": [f"t{t}" for t in range(user, 40)],
        }
        for user in range(NUM_USERS)
    ]
    (tmp_path / "stackexchange_posts.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def load(**changes) -> tasks.Task:
        options = TaskOptions("stackexchange_tag", data_dir=str(tmp_path), vocabulary_size=100, max_words=16)
        return posts.load_stackexchange(dataclasses.replace(options, **changes))

    return load


def test_the_task_is_a_linear_model_of_words_with_tags_as_actions(load):
    task = load()
    assert (len(task.clients), len(task.held_out)) == (36, 4)
    assert task.multi_label
    assert task.model == "bag_of_words"
    assert task.model_arguments == {"vocabulary_size": 3, "num_outputs": task.num_actions}
    assert task.feature_spec is text.Bags
    assert {matrix.shape for matrix in task.rewards.values()} == {(task.num_actions, task.num_actions)}


def test_examples_fit_the_feature_spec_and_the_labels_the_actions(load):
    task = load()
    for part in (task.clients, task.held_out):
        for index in range(len(part)):
            examples = part.load(index)
            bags = task.normalise(examples.features)
            assert (len(bags.offsets), bags.offsets[-1]) == (2, len(bags.ids))
            assert examples.labels.shape == (1, task.num_actions)
            assert examples.labels.dtype == np.float32


def test_a_rare_tag_pays_its_frequencys_inverse_after_the_shift(load):
    task = load()
    counts = sum(task.clients.load(index).labels.sum(axis=0) for index in range(len(task.clients)))
    np.testing.assert_allclose(np.diag(task.rewards["bandits"]), counts[0] / counts, rtol=1e-6)
    assert counts[0] == 36


@pytest.mark.parametrize(
    ("variant", "asked", "paid"),
    [("paper", None, 10), ("reference_code", None, 24), ("paper", 7, 7), ("reference_code", 40, 40)],
)
def test_the_initial_training_pays_for_the_most_frequent_tags(load, variant, asked, paid):
    task = load(variant=variant, init_labels=asked)
    assert np.flatnonzero(np.diag(task.rewards["init"])).tolist() == list(range(paid))


def test_more_initial_tags_than_there_are_are_refused(load):
    with pytest.raises(UsageError, match="--init_labels=41 must be at most 40, the number of tags"):
        load(init_labels=41)


def test_flags_reach_the_data(load):
    task = load(num_tags=5, vocabulary_size=2, max_words=1)
    assert (task.num_actions, task.model_arguments["vocabulary_size"]) == (5, 2)
    assert task.clients.load(0).features.offsets.tolist() == [0, 1]
    l2 = load(text_normalisation="l2").clients.load(0).features.values
    np.testing.assert_allclose((l2**2).sum(), 1, rtol=1e-6)


@pytest.mark.parametrize(("keep_untagged", "count"), [(True, 41), (False, 40)])
def test_untagged_posts_are_dropped_unless_kept(load, tmp_path, keep_untagged, count):
    with open(tmp_path / "stackexchange_posts.jsonl", "a") as file:
        file.write("\n" + json.dumps({"site": "s", "user": "s/x", "title": "", "body": "", "tags": []}))
    task = load(keep_untagged=keep_untagged)
    assert len(task.clients) + len(task.held_out) == count


def test_what_was_read_is_reported(load, capsys):
    load()
    assert "posts: 40, examples: 40" in capsys.readouterr().err


def test_a_missing_file_is_a_usage_error(load, tmp_path):
    with pytest.raises(UsageError, match="--data_dir"):
        load(data_dir=str(tmp_path / "nowhere"))


def test_words_and_tags_are_statistics_and_no_part_of_the_report(load, tmp_path):
    learned = load()
    assert not {"tags", "tag_counts"} & set(learned.report)
    assert learned.statistics["vocabulary"] == ("a", "beer", "post")
    assert learned.private_statistics == ("the posts' vocabulary, their tags and the tags' counts",)
    (tmp_path / "statistics.json").write_text(json.dumps(learned.statistics))
    public = load(public_statistics=str(tmp_path / "statistics.json"))
    assert (public.private_statistics, public.statistics) == ((), {})
    np.testing.assert_array_equal(public.rewards["bandits"], learned.rewards["bandits"])
