"""Posts as bags of words.

In memory, and when they are sent to TFF's workers, the distinct words of several posts are concatenated (`Bags`), so
a post takes memory in proportion to its distinct words. `optimization.models.dense` pads the bags for the models.
"""

import array
import collections
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

_POSTS_AT_ONCE = 1 << 16

# `c++` and `c#` are words, but in `c++11` and `issue#5` the signs separate two words.
_WORD = re.compile(r"[^\W_]+(?:(?:\+\+|#)(?!\w))?")


def words(text: str) -> list[str]:
    """Words of a text in lower case.

    A word is an unbroken run of letters and digits of any script. A `++` or `#` directly after it belongs to the word
    (c++, c#), unless another word follows immediately. Everything else separates words: `node.js` and `don't` are two
    words each.
    """
    return _WORD.findall(text.lower())


def most_frequent(counter: Mapping[str, int], size: int) -> list[str]:
    """The `size` most frequent keys, or all if there are fewer. Keys with equal counts are in alphabetical order."""
    return sorted(counter, key=lambda key: (-counter[key], key))[:size]


class Bags(NamedTuple):
    """Concatenated bags of words of several posts.

    Attributes:
      ids: int32 [words], each post's distinct words in the order of their ids.
      values: float32 [words], their values.
      offsets: int64 [posts + 1]; the entries of post p start at `offsets[p]` and end before `offsets[p + 1]`.
    """

    ids: np.ndarray
    values: np.ndarray
    offsets: np.ndarray

    def take(self, posts: np.ndarray) -> "Bags":
        """Posts at these positions."""
        places, lengths = entries(self.offsets, posts)
        return Bags(self.ids[places], self.values[places], _offsets(lengths))


def take(features: Any, rows: np.ndarray) -> Any:
    """Rows of an array, of bags of words, or of `action_sets.ActionSets`, at these positions."""
    return features[rows] if isinstance(features, np.ndarray) else features.take(rows)


def joined(parts: Sequence[Bags]) -> Bags:
    """Concatenates the parts in order. There must be at least one."""
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    ids, values = (np.concatenate([part[field] for part in parts]) for field in range(2))
    return Bags(ids, values, _offsets(lengths))


def entries(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the entries of the chosen rows, in an array that stores all rows one after the other.

    Args:
      offsets: int64 [all rows + 1], as in `Bags`.
      rows: int [rows], positions of the rows.

    Returns:
      Positions, int64 [entries], and the number of entries of each of these rows, int64 [rows].
    """
    lengths = offsets[rows + 1] - offsets[rows]
    return np.repeat(offsets[rows] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum()), lengths


def bags(ids: np.ndarray, lengths: np.ndarray, max_words: int, normalization: str) -> Bags:
    """Counts the words of each post.

    With `mean`, a word's value is its count divided by the number of the post's words in the vocabulary, as in TFF's
    Stack Overflow tag prediction. With `l2`, the counts of the words in the vocabulary are scaled to an L2 norm of 1,
    as in the published code of Agarwal et al. 2023. Words beyond `max_words` are left out of the bag but still count in
    these sums, so the values of the other words do not change.

    Args:
      ids: int [words], the concatenated words of all posts; negative for a word outside the vocabulary.
      lengths: int [posts], number of words in each post, 0 or more.
      max_words: Maximum number of distinct words of a post. Words with the highest values are kept; ties are broken by
        the lowest id.
      normalization: `mean` or `l2`.
    """
    num_posts = len(lengths)
    is_known = ids >= 0
    stride = int(ids.max(initial=0)) + 1
    post_of_word = np.repeat(np.arange(num_posts, dtype=np.int64), lengths)
    pairs, counts = np.unique(post_of_word[is_known] * stride + ids[is_known], return_counts=True)
    post, word = np.divmod(pairs, stride)
    if normalization == "mean":
        values = counts / np.bincount(post, counts, num_posts)[post]
    else:
        values = counts / np.sqrt(np.bincount(post, counts**2.0, num_posts))[post]
    offsets = _offsets(np.bincount(post, minlength=num_posts))
    if len(post) and np.diff(offsets).max() > max_words:
        order = np.lexsort((word, -counts, post))
        rank = np.arange(len(order)) - offsets[post[order]]
        kept = np.sort(order[rank < max_words])
        post, word, values = post[kept], word[kept], values[kept]
        offsets = _offsets(np.bincount(post, minlength=num_posts))
    return Bags(word.astype(np.int32), values.astype(np.float32), offsets)


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)])


def encode(
    documents: Sequence[Sequence[str]], vocabulary: Mapping[str, int], max_words: int, normalization: str
) -> Bags:
    """Bags of words of tokenized posts.

    Args:
      documents: The words of each post.
      vocabulary: Word -> id, 0 or more.
      max_words: Maximum number of distinct words of a post; see `bags`.
      normalization: `mean` or `l2`; see `bags`.
    """
    lengths = np.array([len(document) for document in documents], np.int64)
    ids = map(vocabulary.get, itertools.chain.from_iterable(documents), itertools.repeat(-1))
    return bags(np.fromiter(ids, np.int64, int(lengths.sum())), lengths, max_words, normalization)


class Words:
    """The words of several posts, stored as numbers that are assigned in order of first occurrence."""

    def __init__(self):
        self._number: collections.defaultdict[str, int] = collections.defaultdict()
        self._number.default_factory = self._number.__len__
        self._numbers = array.array("i")
        self._offsets = array.array("q", [0])

    def append(self, words: Iterable[str]) -> None:
        """Adds the next post's words."""
        self._numbers.extend(map(self._number.__getitem__, words))
        self._offsets.append(len(self._numbers))

    def counts(self, is_counted: np.ndarray) -> dict[str, int]:
        """Occurrences of each word in posts marked by `is_counted`, bool [posts]; words without any are left out."""
        numbers = np.asarray(self._numbers)[np.repeat(is_counted, np.diff(self._offsets))]
        total = np.bincount(numbers, minlength=len(self._number)).tolist()
        return {word: count for word, count in zip(self._number, total, strict=True) if count}

    def bags(self, vocabulary: Sequence[str], rows: np.ndarray, max_words: int, normalization: str) -> Bags:
        """Bags of words of the posts at the positions `rows`, at least one; see the function `bags`."""
        word_id = {word: place for place, word in enumerate(vocabulary)}
        ids = np.array([word_id.get(word, -1) for word in self._number], np.int32)
        numbers, offsets = np.asarray(self._numbers), np.asarray(self._offsets)
        parts = []
        for first in range(0, len(rows), _POSTS_AT_ONCE):
            places, lengths = entries(offsets, rows[first : first + _POSTS_AT_ONCE])
            parts.append(bags(ids[numbers[places]], lengths, max_words, normalization))
        return joined(parts)


def num_features(contexts: np.ndarray | Bags, names: Sequence[str]) -> int:
    """Number of values in a context. For bags: number of names, or the largest id + 1 if there are no names."""
    if isinstance(contexts, Bags):
        return len(names) or int(contexts.ids.max(initial=0)) + 1
    return int(np.prod(contexts.shape[1:]))


def design(contexts: np.ndarray | Bags, num_features: int) -> Any:
    """Features and a last column of ones, float64 [rows, features + 1]: an array, or a sparse matrix for bags."""
    if isinstance(contexts, Bags):
        from scipy import sparse

        values = contexts.values.astype(np.float64)
        words = sparse.csr_matrix((values, contexts.ids, contexts.offsets), (len(contexts.offsets) - 1, num_features))
        return sparse.hstack([words, np.ones((words.shape[0], 1))], format="csr")
    flat = contexts.reshape(len(contexts), num_features)
    return np.concatenate([flat.astype(np.float64), np.ones((len(flat), 1))], axis=1)


def with_numbers(bags: Bags, numbers: np.ndarray, first_id: int) -> Bags:
    """Bags with additional entries for the nonzero numbers of each post.

    Args:
      bags: The posts' words, with ids below `first_id`.
      numbers: float32 [posts, columns].
      first_id: Id of the first column.
    """
    posts, columns = np.nonzero(numbers)
    lengths = np.diff(bags.offsets)
    ends = np.repeat(bags.offsets[1:], np.bincount(posts, minlength=len(lengths)))
    return Bags(
        np.insert(bags.ids, ends, columns + first_id),
        np.insert(bags.values, ends, numbers[posts, columns]),
        _offsets(lengths + np.bincount(posts, minlength=len(lengths))),
    )


def tag_vectors(tags: Sequence[Sequence[str]], index: Mapping[str, int]) -> np.ndarray:
    """Tag indicators, float32 [posts, tags]: 1 for each tag of a post that has a position in `index`."""
    vectors = np.zeros((len(tags), len(index)), np.float32)
    for row, names in enumerate(tags):
        vectors[row, [index[tag] for tag in names if tag in index]] = 1
    return vectors
