"""Posts of Stack Exchange sites as a federated data set for tag prediction: a client is a user.

Each post is read once and kept as numbers, 4 bytes a word; a dump's text never lies in memory. What is learned from
data, the vocabulary and the most frequent tags, is counted on training clients only.
"""

import array
import collections
import dataclasses
import hashlib
import math
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from data import clients, files, keys, posts, statistics, text
from data.errors import UsageError

# Keys of `Corpus.report`, beside the reasons in `data.posts`.
POSTS = "posts"
EXAMPLES = "examples"
UNTAGGED = "posts without a frequent tag, dropped"
USERS_DROPPED = "users left without an example"

_JSONL = ("stackexchange_posts.jsonl", "stackexchange_posts.jsonl.gz")
_DUMP = "Posts.xml"
_WANTED = f"{_JSONL[1]}, or a folder for each Stack Exchange site with its unpacked {_DUMP}"
_POSTS_AT_ONCE = 1 << 16


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Clients, and what was counted to make them.

    Features are bags of words, labels float32 [posts, tags] that are 1 for each of the post's tags.

    Attributes:
      train: Clients in the order of their names.
      held_out: Other clients, for evaluation.
      statistics: The most frequent words and tags, from the most to the least frequent, and posts of training clients
        that have each tag; or what was given instead.
      report: Numbers of posts read and of examples made of them; of posts and users left out, by reason.
    """

    train: clients.ClientData
    held_out: clients.ClientData
    statistics: statistics.OfPosts
    report: Mapping[str, int]


def load(
    data_dir: str | None,
    *,
    max_words: int,
    normalisation: str,
    num_tags: int = 50,
    vocabulary_size: int = 10000,
    keep_untagged: bool = False,
    known: statistics.OfPosts | None = None,
    held_out_fraction: float = 0.1,
    seed: int = 0,
) -> Corpus:
    """Reads posts, splits their users, and encodes titles and bodies as bags of words.

    The vocabulary is counted on all posts of training users, also on those dropped for their tags, so that it is the
    same for any `num_tags` and `keep_untagged`.

    Args:
      data_dir: See `find`.
      max_words: Most distinct words of an example.
      normalisation: `mean` or `l2`; see `data.text.bags`.
      num_tags: Most tags; there are fewer if the posts have fewer.
      vocabulary_size: Most words.
      keep_untagged: Whether to keep examples that have none of the tags. A user left without examples is no client.
      known: Words and tags from elsewhere; None to count them on training users.
      held_out_fraction: Part of the users that is held out, rounded up; between 0 and 1.
      seed: Seed of that choice.

    Raises:
      UsageError: If a file is missing or damaged, or too few users, tags, words or examples are left.
      ValueError: If another argument is out of its range.
    """
    if not 0 < held_out_fraction < 1:
        raise ValueError(f"held_out_fraction={held_out_fraction} must be between 0 and 1.")
    paths = find(data_dir)
    place = paths[0] if len(paths) == 1 else paths[0].parent.parent
    table, report = _read(paths)
    num_users = len(table.users)
    num_held_out = max(0, min(math.ceil(held_out_fraction * num_users), num_users - 1))
    order = keys.generator(seed, keys.Purpose.HELD_OUT, 0).permutation(num_users)
    is_held_out = np.isin(table.user_of_post, order[:num_held_out])
    if known is None:
        training = np.flatnonzero(~is_held_out)
        counts = table.tags.counts(training)
        most_frequent = {tag: counts[tag] for tag in text.most_frequent(counts, num_tags)}
        words = text.most_frequent(table.words.counts(training), vocabulary_size)
        known = statistics.OfPosts(tuple(words), most_frequent)
    tags, vocabulary = list(known.tags), list(known.vocabulary)
    labels = table.tags.indicators(tags)
    is_kept = labels.any(axis=1) | keep_untagged
    report |= {EXAMPLES: int(is_kept.sum()), UNTAGGED: int((~is_kept).sum())}
    report[USERS_DROPPED] = num_users - len(np.unique(table.user_of_post[is_kept]))

    order = np.argsort(table.user_of_post, kind="stable")
    parts = [order[is_kept[order] & (is_held_out[order] == held_out)] for held_out in (False, True)]
    if len(tags) < 2 or not vocabulary or not all(map(len, parts)):
        raise UsageError(
            f"What {place} holds ({describe(report)}) leaves {len(parts[0])} examples for training, {len(parts[1])} of "
            f"other users for evaluation, {len(tags)} tags and {len(vocabulary)} words; at least 1, 1, 2 and 1 are "
            "needed. Give --keep_untagged, a higher --num_tags, or more posts with --data_dir."
        )
    bags = [_encode(table.words, vocabulary, part, max_words, normalisation) for part in parts]
    checksum = _checksum(paths)

    def population(bag: text.Bags, part: np.ndarray) -> clients.ClientData:
        users, client_of_row = np.unique(table.user_of_post[part], return_inverse=True)
        names = [table.users[user] for user in users]
        return clients.ArrayClients(clients.Examples(bag, labels[part]), client_of_row, names, checksum)

    return Corpus(population(bags[0], parts[0]), population(bags[1], parts[1]), known, report)


def describe(report: Mapping[str, int]) -> str:
    """Returns the report as one line, counts of 0 left out."""
    return ", ".join(f"{name}: {count}" for name, count in report.items() if count or name == POSTS)


def find(data_dir: str | None) -> list[pathlib.Path]:
    """Returns the files to read.

    Args:
      data_dir: Folder of `stackexchange_posts.jsonl` or `.jsonl.gz`, of `Posts.xml`, or of folders, one a site, with
        `Posts.xml`; or a file, `.jsonl`, `.jsonl.gz` or `.xml`. None for FEDBANDITS_DATA_DIR.

    Raises:
      UsageError: If there is none, or more than one kind.
    """
    place = files.place(data_dir, _WANTED)
    if place.is_file():
        if not place.name.endswith((".jsonl", ".jsonl.gz", ".xml")):
            raise UsageError(f"{place} is neither .jsonl, .jsonl.gz nor .xml: --data_dir must name {_WANTED}.")
        return [place]
    candidates = [[place / name] for name in (*_JSONL, _DUMP)] + [sorted(place.glob(f"*/{_DUMP}"))]
    kinds = [kind for kind in candidates if kind and kind[0].is_file()]
    if not kinds:
        raise UsageError(f"There is no {_WANTED} in {place}: name the place of either with --data_dir.")
    if len(kinds) > 1:
        raise UsageError(f"{place} holds both {kinds[0][0].name} and {kinds[1][0]}: name one of them with --data_dir.")
    return kinds[0]


class _Column:
    """A list of names for each post, kept as numbers in the order in which the names were first seen."""

    def __init__(self):
        self._number: collections.defaultdict[str, int] = collections.defaultdict()
        self._number.default_factory = self._number.__len__
        self._numbers = array.array("i")
        self._offsets = array.array("q", [0])

    def append(self, names: Iterable[str]) -> None:
        """Adds the next post's names."""
        self._numbers.extend(map(self._number.__getitem__, names))
        self._offsets.append(len(self._numbers))

    def chunks(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields (int32 numbers behind each other, int64 how many each post has), of some of these posts at a time."""
        numbers, offsets = np.asarray(self._numbers), np.asarray(self._offsets)
        for first in range(0, len(rows), _POSTS_AT_ONCE):
            places, lengths = text.entries(offsets, rows[first : first + _POSTS_AT_ONCE])
            yield numbers[places], lengths

    def counts(self, rows: np.ndarray) -> dict[str, int]:
        """Returns how often each name occurs in these posts, those that do not left out."""
        total = np.zeros(len(self._number), np.int64)
        for numbers, _ in self.chunks(rows):
            total += np.bincount(numbers, minlength=len(total))
        return {name: count for name, count in zip(self._number, total.tolist(), strict=True) if count}

    def positions(self, names: Sequence[str]) -> np.ndarray:
        """Returns int32 [all names]: where in `names` a number's name is, -1 if it is not."""
        position = np.full(len(self._number), -1, np.int32)
        for place, name in enumerate(names):
            if name in self._number:
                position[self._number[name]] = place
        return position

    def indicators(self, names: Sequence[str]) -> np.ndarray:
        """Returns bool [posts, names]: whether the post has the name."""
        has_name = np.zeros((len(self._offsets) - 1, len(names)), bool)
        position = self.positions(names)[np.asarray(self._numbers)]
        post = np.repeat(np.arange(len(has_name)), np.diff(np.asarray(self._offsets)))
        has_name[post[position >= 0], position[position >= 0]] = True
        return has_name


@dataclasses.dataclass
class _Table:
    """Posts as numbers.

    Attributes:
      users: Names in alphabetical order.
      user_of_post: int64 [posts], index into `users`.
      words: Words of each post.
      tags: Tags of each post, each once.
    """

    users: list[str]
    user_of_post: np.ndarray
    words: _Column
    tags: _Column


def _read(paths: Iterable[pathlib.Path]) -> tuple[_Table, dict[str, int]]:
    authors, words, tags = array.array("q"), _Column(), _Column()
    number_of_author: dict[str, int] = {}
    report: collections.Counter[str] = collections.Counter()
    for path in paths:
        read, skipped = (
            posts.read_dump(path) if path.suffix == ".xml" else (posts.read_jsonl(path), collections.Counter())
        )
        for post in read:
            authors.append(number_of_author.setdefault(post.user, len(number_of_author)))
            words.append(text.words(f"{post.title} {post.body}"))
            tags.append(set(post.tags))
        report += skipped
    names = sorted(number_of_author)
    rank = np.zeros(len(names), np.int64)
    rank[[number_of_author[name] for name in names]] = np.arange(len(names))
    table = _Table(names, rank[np.asarray(authors)], words, tags)
    return table, {POSTS: len(authors)} | dict(report)


def _encode(
    words: _Column, vocabulary: Sequence[str], rows: np.ndarray, max_words: int, normalisation: str
) -> text.Bags:
    word_id = words.positions(vocabulary)
    return text.joined(
        [text.bags(word_id[numbers], lengths, max_words, normalisation) for numbers, lengths in words.chunks(rows)]
    )


def _checksum(paths: Sequence[pathlib.Path]) -> str:
    """Returns the file's digest, or one of all files' and their folders' names."""
    checksums = [clients.file_checksum(str(path)) for path in paths]
    if len(paths) == 1:
        return checksums[0]
    named = "".join(f"{path.parent.name} {checksum}\n" for path, checksum in zip(paths, checksums, strict=True))
    return hashlib.sha256(named.encode()).hexdigest()[:16]
