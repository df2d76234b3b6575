"""Posts as bags of words: text becomes word ids once, and a batch of posts two dense arrays.

A bag is kept ragged (`Bags`), the distinct words of all posts behind each other, so that a post costs as much memory as
it has words; `Bags.padded` makes of some posts the arrays `ids` and `values` that `optimization.models.bag_of_words`
takes.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

NORMALISATIONS = ("mean", "l2")

# `c++` and `c#` are words; in `c++11` and `issue#5` the signs separate two.
_WORD = re.compile(r"[^\W_]+(?:(?:\+\+|#)(?!\w))?")


def words(text: str) -> list[str]:
    """Returns the words of a text in lower case.

    A word is an unbroken run of letters and digits of any script, with `++` or `#` directly behind it (c++, c#) unless
    another word follows at once. Everything else separates words: `node.js` and `don't` are two each.
    """
    return _WORD.findall(text.lower())


def most_frequent(counter: Mapping[str, int], size: int) -> list[str]:
    """Returns at most `size` keys, those of the highest counts first, keys of equal counts in alphabetical order."""
    return sorted(counter, key=lambda key: (-counter[key], key))[:size]


class Bags(NamedTuple):
    """Bags of words of several posts, behind each other.

    Attributes:
      ids: int32 [words], each post's distinct words in the order of their ids.
      values: float32 [words], their values.
      offsets: int64 [posts + 1]; post p has those from `offsets[p]` up to, not including, `offsets[p + 1]`.
    """

    ids: np.ndarray
    values: np.ndarray
    offsets: np.ndarray

    @property
    def width(self) -> int:
        """Distinct words of the longest post, at least 1."""
        return max(1, int(np.diff(self.offsets).max(initial=0)))

    def posts(self, start: int, end: int) -> "Bags":
        """Returns the posts from `start` up to, not including, `end`."""
        first, last = self.offsets[[start, end]]
        return Bags(self.ids[first:last], self.values[first:last], self.offsets[start : end + 1] - first)

    def padded(self, width: int) -> dict[str, np.ndarray]:
        """Returns `ids` int32 and `values` float32, both [posts, width], padded with 0; no post may be longer."""
        is_word = np.arange(width) < np.diff(self.offsets)[:, np.newaxis]
        ids, values = np.zeros(is_word.shape, np.int32), np.zeros(is_word.shape, np.float32)
        ids[is_word], values[is_word] = self.ids, self.values
        return {"ids": ids, "values": values}


def bags(ids: np.ndarray, lengths: np.ndarray, max_words: int, normalisation: str) -> Bags:
    """Counts words.

    Values are `mean`: the word's count divided by the number of the post's words in the vocabulary, as in TFF's Stack
    Overflow tag prediction; or `l2`: the counts of the words in the vocabulary, scaled to
    an L2 norm of 1, as in the published program of Agarwal et al. 2023. Words beyond `max_words` are left out of the
    bag, but not of these sums: the values of the others do not change.

    Args:
      ids: int [words], the words of all posts behind each other; negative for a word outside of the vocabulary.
      lengths: int [posts], words of each post, 0 or more.
      max_words: Most distinct words of a post: those of the highest values, among equal ones of the lowest ids.
      normalisation: `mean` or `l2`.

    Raises:
      ValueError: If `max_words` is below 1 or `normalisation` another word.
    """
    if max_words < 1:
        raise ValueError(f"max_words={max_words} must be at least 1.")
    if normalisation not in NORMALISATIONS:
        raise ValueError(f"normalisation={normalisation!r} must be one of {', '.join(NORMALISATIONS)}.")
    num_posts = len(lengths)
    is_known = ids >= 0
    stride = int(ids.max(initial=0)) + 1
    post_of_word = np.repeat(np.arange(num_posts, dtype=np.int64), lengths)
    pairs, counts = np.unique(post_of_word[is_known] * stride + ids[is_known], return_counts=True)
    post, word = np.divmod(pairs, stride)
    if normalisation == "mean":
        values = counts / np.bincount(post, counts, num_posts)[post]
    else:
        values = counts / np.sqrt(np.bincount(post, counts**2.0, num_posts))[post]
    offsets = _offsets(post, num_posts)
    if len(post) and np.diff(offsets).max() > max_words:
        order = np.lexsort((word, -counts, post))
        rank = np.arange(len(order)) - offsets[post[order]]
        kept = np.sort(order[rank < max_words])
        post, word, values = post[kept], word[kept], values[kept]
        offsets = _offsets(post, num_posts)
    return Bags(word.astype(np.int32), values.astype(np.float32), offsets)


def _offsets(post: np.ndarray, num_posts: int) -> np.ndarray:
    return np.searchsorted(post, np.arange(num_posts + 1)).astype(np.int64)


def encode(
    documents: Sequence[Sequence[str]],
    vocabulary: Mapping[str, int],
    max_words: int,
    normalisation: str,
    width: int | None = None,
) -> dict[str, np.ndarray]:
    """Returns the bags of words of posts, given as words.

    Args:
      documents: The words of each post.
      vocabulary: Word -> id, 0 or more.
      max_words: Most distinct words of a post; see `bags`.
      normalisation: `mean` or `l2`; see `bags`.
      width: Columns of the result, at least the distinct words of any post. None for as many as these, at least 1; so
        at most `max_words`.

    Returns:
      `ids` int32 and `values` float32, both [posts, width], padded with 0.

    Raises:
      ValueError: As `bags` does.
    """
    lengths = np.array([len(document) for document in documents], np.int64)
    ids = map(vocabulary.get, itertools.chain.from_iterable(documents), itertools.repeat(-1))
    counted = bags(np.fromiter(ids, np.int64, int(lengths.sum())), lengths, max_words, normalisation)
    return counted.padded(counted.width if width is None else width)


def trimmed(features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the features of `encode` without the columns at the right that no post uses; one column stays."""
    used = np.flatnonzero(features["values"].any(axis=0))
    width = used[-1] + 1 if len(used) else 1
    return {name: array[:, :width] for name, array in features.items()}


def tag_vectors(tags: Sequence[Sequence[str]], index: Mapping[str, int]) -> np.ndarray:
    """Returns float32 [posts, tags]: 1 for each tag of a post that `index` has a position of, 0 for the others."""
    vectors = np.zeros((len(tags), len(index)), np.float32)
    for row, names in enumerate(tags):
        vectors[row, [index[tag] for tag in names if tag in index]] = 1
    return vectors
