"""Tests of data.text: words and bags computed by hand."""

import collections
import itertools
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
    ],
)
def test_words(written, expected):
    assert text.words(written) == expected


def posts(bags: text.Bags) -> list[tuple[list[int], list[float]]]:
    """Word ids of each post, and their values."""
    return [
        (bags.ids[start:end].tolist(), bags.values[start:end].tolist())
        for start, end in itertools.pairwise(bags.offsets)
    ]


def test_the_words_of_highest_value_are_kept_and_ties_go_to_the_lowest_id():
    # Counts 1, 1, 2, 1 of ids 3, 1, 2, 0 beside an unknown word: 2, then 0; left-out words count for the values' sums.
    post = ["sat", "cat", "dog", "the", "dog", "bird"]
    bags = text.encode([post[:3], post], VOCABULARY, 2, "mean")
    assert (bags.ids.tolist(), bags.offsets.tolist()) == ([1, 2, 0, 2], [0, 2, 4])
    np.testing.assert_allclose(bags.values[2:], [1 / 5, 2 / 5], rtol=1e-6)


def test_bags_agree_with_counting_one_post_at_a_time():
    draw = np.random.default_rng(0)
    lengths = draw.integers(0, 40, 60)
    ids = draw.integers(-1, 30, lengths.sum())
    for normalization in ("mean", "l2"):
        bags = text.bags(ids, lengths, 12, normalization)
        assert [array.dtype for array in bags] == [np.int32, np.float32, np.int64]
        start = 0
        for length, (bag, values) in zip(lengths, posts(bags), strict=True):
            post = ids[start : start + length].tolist()
            start += length
            counts = collections.Counter(word for word in post if word >= 0)
            norm = counts.total() if normalization == "mean" else math.sqrt(sum(count**2 for count in counts.values()))
            assert bag == sorted(sorted(counts, key=lambda word: (-counts[word], word))[:12])
            np.testing.assert_allclose(values, [counts[word] / norm for word in bag], rtol=1e-6)


def test_numbers_come_behind_the_words_of_each_post():
    words = text.Bags(np.int32([0, 2, 1]), np.float32([0.5, 0.5, 1]), np.array([0, 2, 2, 3]))
    found = text.with_numbers(words, np.float32([[0, 7], [0, 0], [8, 9]]), 3)
    assert posts(found) == [([0, 2, 4], [0.5, 0.5, 7]), ([], []), ([1, 3, 4], [1, 8, 9])]
    assert (found.ids.dtype, found.values.dtype) == (np.int32, np.float32)
