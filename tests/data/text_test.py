"""Tests of data.text: words and bags computed by hand."""

import collections
import math

import numpy as np
import pytest

from data import text

VOCABULARY = {"the": 0, "cat": 1, "dog": 2, "sat": 3}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("The CAT sat.", ["the", "cat", "sat"]),
        ("c++ or C#, (C++)? c++.", ["c++", "or", "c#", "c++", "c++"]),
        ("c++11 and issue#5, #7", ["c", "11", "and", "issue", "5", "7"]),
        ("node.js don't x_y a-b", ["node", "js", "don", "t", "x", "y", "a", "b"]),
        ("3.14 é Straße 東京 i++;", ["3", "14", "é", "straße", "東京", "i++"]),
        (" \n+ # ++ -- _", []),
        ("", []),
    ],
)
def test_words(written, expected):
    assert text.words(written) == expected


def test_most_frequent_orders_by_count_then_by_the_alphabet():
    counter = collections.Counter({"b": 2, "a": 2, "z": 5, "c": 1})
    assert text.most_frequent(counter, 3) == ["z", "a", "b"]
    assert text.most_frequent(counter, 9) == ["z", "a", "b", "c"]
    assert text.most_frequent({}, 3) == []


# Post 0: the x 2, dog x 1, and one word outside of the vocabulary. Post 1: cat x 1. Post 2: only such words.
DOCUMENTS = [["dog", "the", "bird", "the"], ["cat"], ["bird", "bird"], []]


def test_mean_divides_by_the_posts_words_in_the_vocabulary():
    features = text.encode(DOCUMENTS, VOCABULARY, 10, "mean")
    assert features["ids"].dtype == np.int32
    assert features["values"].dtype == np.float32
    np.testing.assert_array_equal(features["ids"], [[0, 2], [1, 0], [0, 0], [0, 0]])
    np.testing.assert_array_equal(features["values"], [[np.float32(2 / 3), np.float32(1 / 3)], [1, 0], [0, 0], [0, 0]])


def test_l2_has_norm_one_over_the_words_in_the_vocabulary():
    features = text.encode(DOCUMENTS, VOCABULARY, 10, "l2")
    root = math.sqrt(5)
    np.testing.assert_array_equal(features["ids"], [[0, 2], [1, 0], [0, 0], [0, 0]])
    np.testing.assert_allclose(features["values"], [[2 / root, 1 / root], [1, 0], [0, 0], [0, 0]], rtol=1e-7)


@pytest.mark.parametrize(
    ("normalisation", "values"), [("mean", [2 / 5, 1 / 5]), ("l2", [2 / math.sqrt(8), 1 / math.sqrt(8)])]
)
def test_the_words_of_highest_value_are_kept_and_ties_go_to_the_lowest_id(normalisation, values):
    # Counts 1, 1, 2, 1 of ids 3, 1, 2, 0 beside an unknown word: 2, then 0; left-out words count for the values' sums.
    post = ["sat", "cat", "dog", "the", "dog", "bird"]
    features = text.encode([post[:3], post], VOCABULARY, 2, normalisation)
    np.testing.assert_array_equal(features["ids"], [[1, 2], [0, 2]])
    expected = sorted(values)
    if normalisation == "l2":
        expected = [1 / math.sqrt(7), 2 / math.sqrt(7)]
    np.testing.assert_allclose(features["values"][1], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("documents", "max_words", "width"),
    [([], 5, 1), ([[]], 5, 1), ([["bird"]], 5, 1), ([["cat"], ["cat", "dog"]], 5, 2), ([list(VOCABULARY)], 3, 3)],
)
def test_the_width_is_that_of_the_longest_post(documents, max_words, width):
    features = text.encode(documents, VOCABULARY, max_words, "mean")
    assert features["ids"].shape == features["values"].shape == (len(documents), width)


def test_a_given_width_is_padded_with_zeros():
    features = text.encode([["cat"], []], VOCABULARY, 2, "mean", width=3)
    np.testing.assert_array_equal(features["ids"], [[1, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(features["values"], [[1, 0, 0], [0, 0, 0]])


def test_an_empty_vocabulary_encodes_nothing():
    features = text.encode([["cat", "dog"]], {}, 3, "l2")
    np.testing.assert_array_equal(features["values"], [[0]])


def test_bags_agree_with_counting_one_post_at_a_time():
    draw = np.random.default_rng(0)
    lengths = draw.integers(0, 40, 60)
    ids = draw.integers(-1, 30, lengths.sum())
    for normalisation in text.NORMALISATIONS:
        features = text.bags(ids, lengths, 12, normalisation).padded(12)
        start = 0
        for row, length in enumerate(lengths):
            post = ids[start : start + length].tolist()
            start += length
            counts = collections.Counter(word for word in post if word >= 0)
            norm = counts.total() if normalisation == "mean" else math.sqrt(sum(count**2 for count in counts.values()))
            best = sorted(sorted(counts, key=lambda word: (-counts[word], word))[:12])
            padding = [0] * (12 - len(best))
            assert features["ids"][row].tolist() == best + padding
            np.testing.assert_allclose(
                features["values"][row], [counts[word] / norm for word in best] + padding, rtol=1e-6
            )


def test_some_posts_are_a_slice_of_the_bags():
    bags = text.bags(np.array([5, 5, 7, 1, 0, 2]), np.array([3, 0, 1, 2]), 9, "mean")
    assert (bags.width, bags.posts(1, 3).width, bags.posts(1, 2).width) == (2, 1, 1)
    middle = bags.posts(1, 3).padded(2)
    np.testing.assert_array_equal(middle["ids"], [[0, 0], [1, 0]])
    np.testing.assert_array_equal(middle["values"], [[0, 0], [1, 0]])
    assert bags.posts(4, 4).padded(2)["ids"].shape == (0, 2)


@pytest.mark.parametrize(
    ("max_words", "normalisation", "message"), [(0, "mean", "max_words=0"), (3, "sum", "'sum' must be one of mean, l2")]
)
def test_other_arguments_are_refused(max_words, normalisation, message):
    with pytest.raises(ValueError, match=message):
        text.encode([["cat"]], VOCABULARY, max_words, normalisation)


def test_tag_vectors_are_multi_hot():
    vectors = text.tag_vectors([["b"], ["a", "b", "b", "x"], [], ["x"]], {"a": 0, "b": 1, "c": 2})
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, [[0, 1, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0]])
    assert text.tag_vectors([], {"a": 0}).shape == (0, 1)


def test_trimmed_cuts_the_columns_that_no_post_uses():
    features = text.encode([["cat"], ["cat", "dog", "cat"], []], {"cat": 3, "dog": 0}, 9, "mean", width=5)
    cut = text.trimmed(features)
    np.testing.assert_array_equal(cut["ids"], features["ids"][:, :2])
    np.testing.assert_array_equal(cut["values"], features["values"][:, :2])
    nothing = text.trimmed({name: array[2:] for name, array in features.items()})
    assert nothing["ids"].shape == nothing["values"].shape == (1, 1)
