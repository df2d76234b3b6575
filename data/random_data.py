"""Random examples in the shapes and sizes of data sets that are downloaded: to measure time and memory without a file.

Rewards on them mean nothing.
"""

import sys
from collections.abc import Callable

import numpy as np

from data import clients, text

# By kind: writers, examples for training and held-out ones (documentation of TFF's EMNIST), classes.
_EMNIST = {"chars": (3_400, 671_585, 77_483, 62), "digits": (3_383, 341_873, 40_832, 10)}
# Standard deviation of a writer's examples over their mean: 88.94 / 226.83 in LEAF's FEMNIST (Caldas et al. 2018).
_SPREAD = 0.392
# TFF's Stack Overflow: users, examples for training; users, examples held out. It leaves out users below 100 sentences.
_POSTS = ((342_477, 135_818_730), (38_758, 16_491_230))
_FEWEST_POSTS = 100
_WORDS_OF_A_POST = (5, 130)  # Assumed.
_TAGS_OF_A_POST = 1.5  # Assumed.


class RandomClients(clients.ClientData):
    """Clients whose examples are drawn, from their index, whenever they are read."""

    checksum = "random"

    def __init__(self, num_clients: int, make: Callable[[np.random.Generator], clients.Examples]):
        """Takes how many clients there are, and what makes the examples of one."""
        self._client_ids = [f"random_{index}" for index in range(num_clients)]
        self._make = make

    @property
    def client_ids(self) -> list[str]:
        return self._client_ids

    def load(self, index: int) -> clients.Examples:
        return self._make(np.random.default_rng(index))


def warn(what: str) -> None:
    """Prints that random examples take the place of a data set."""
    print(f"Warning: --random_data: random examples instead of {what}; rewards mean nothing.", file=sys.stderr)


def emnist(kind: str, writers: int | None = None) -> tuple[RandomClients, RandomClients]:
    """Returns training and held-out clients in the shapes of `data.tasks.handwriting`.

    The number of a client's examples is normal, with the data set's mean and LEAF's relative deviation.

    Args:
      kind: `chars` or `digits`.
      writers: How many clients; None for as many as the data set has.
    """
    count, train, held_out, num_classes = _EMNIST[kind]
    numbers = writers or count
    return tuple(RandomClients(numbers, _writer(total / count, num_classes)) for total in (train, held_out))  # type: ignore[return-value]


def _writer(mean: float, num_classes: int) -> Callable[[np.random.Generator], clients.Examples]:
    def make(draw: np.random.Generator) -> clients.Examples:
        # Cut off alike on both sides, so that the mean stays.
        size = round(float(np.clip(draw.normal(mean, _SPREAD * mean), 1, 2 * mean - 1)))
        features = draw.random((size, 28, 28, 1), dtype=np.float32)
        return clients.Examples(features, draw.integers(0, num_classes, size, dtype=np.int32))

    return make


def images(shape: tuple[int, ...], num_classes: int, sizes: tuple[int, ...]) -> list[clients.Examples]:
    """Returns uint8 images of a shape, with labels of equal frequency, for each of several sizes."""
    draw = np.random.default_rng(0)
    return [
        clients.Examples(
            draw.integers(0, 256, (size, *shape), dtype=np.uint8), np.arange(size, dtype=np.int32) % num_classes
        )
        for size in sizes
    ]


def stackoverflow(
    vocabulary_size: int, num_tags: int, max_words: int, users: int | None = None
) -> tuple[RandomClients, RandomClients]:
    """Returns training and held-out clients in the shapes of `data.tasks.stackoverflow`, with features of L2 norm 1.

    The number of a client's posts above 100, the fewest of the data set, is exponential, with the data set's mean. Each
    post has one of the tags.

    Args:
      vocabulary_size: Words.
      num_tags: Tags.
      max_words: Most distinct words of a post.
      users: How many clients; None for as many as the data set has.
    """
    least, most = (min(count, max_words) for count in _WORDS_OF_A_POST)

    def of(mean: float) -> Callable[[np.random.Generator], clients.Examples]:
        def make(draw: np.random.Generator) -> clients.Examples:
            size = _FEWEST_POSTS + int(draw.exponential(mean - _FEWEST_POSTS))
            lengths = draw.integers(least, most + 1, size)
            ids = draw.integers(0, vocabulary_size, lengths.sum()).astype(np.int32)
            values = np.repeat(1 / np.sqrt(lengths), lengths).astype(np.float32)
            labels = draw.random((size, num_tags)) < (_TAGS_OF_A_POST - 1) / num_tags
            labels[np.arange(size), draw.integers(0, num_tags, size)] = True
            bags = text.Bags(ids, values, np.concatenate([[0], np.cumsum(lengths)]))
            return clients.Examples(bags, labels.astype(np.float32))

        return make

    return tuple(RandomClients(users or count, of(posts / count)) for count, posts in _POSTS)  # type: ignore[return-value]
