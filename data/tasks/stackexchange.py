"""Tag prediction on posts of Stack Exchange sites: a client is a user.

Each post is read once and kept as numbers, 4 bytes a word; a dump's text is never in memory. The vocabulary and
the most frequent tags are counted on training clients only.
"""

import array
import collections
import hashlib
import itertools
import math
import pathlib
import sys
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from data import clients, files, keys, posts, statistics, tasks, text
from data.errors import UsageError
from data.tasks.options import TaskOptions

# Keys of the task's report, beside the reasons in `data.posts`.
POSTS = "posts"
EXAMPLES = "examples"
UNTAGGED = "posts without a frequent tag, dropped"
USERS_DROPPED = "users left without an example"

_JSONL = ("stackexchange_posts.jsonl", "stackexchange_posts.jsonl.gz")
_DUMP = "Posts.xml"
_WANTED = (
    f"{_JSONL[1]}, or a folder for each Stack Exchange site with its unpacked {_DUMP}, from "
    "https://archive.org/details/stackexchange"
)
_POSTS_AT_ONCE = 1 << 16
_HELD_OUT_FRACTION = 0.1
_SPLIT_SEED = 0  # The split is part of the task: runs of all seeds have the same words and tags in the same places.


def load(options: TaskOptions) -> tasks.Task:
    """Task of posts: bags of the words of titles and bodies, and the most frequent tags as actions.

    The vocabulary is counted on all posts of training users, also on those dropped for their tags, so that it is the
    same for any `num_tags` and `keep_untagged`. A user without examples is not a client.

    Raises:
      UsageError: If a file is missing or damaged, or too few users, tags, words or examples are left.
    """
    paths = find(options.data_dir)
    users, user_of_post, words, tags_of_post, report = _read(paths)
    num_held_out = max(0, min(math.ceil(_HELD_OUT_FRACTION * len(users)), len(users) - 1))
    order = keys.generator(_SPLIT_SEED, keys.Purpose.HELD_OUT, 0).permutation(len(users))
    is_held_out = np.isin(user_of_post, order[:num_held_out])
    known = statistics.read_posts(options.public_statistics)
    if known is None:
        counts = collections.Counter(itertools.chain(*itertools.compress(tags_of_post, ~is_held_out)))
        most_frequent = {tag: counts[tag] for tag in text.most_frequent(counts, options.num_tags)}
        vocabulary = text.most_frequent(words.counts(~is_held_out), options.vocabulary_size)
        known = statistics.OfPosts(tuple(vocabulary), most_frequent)
    labels = text.tag_vectors(tags_of_post, {tag: place for place, tag in enumerate(known.tags)}).astype(bool)
    is_kept = labels.any(axis=1) | options.keep_untagged
    report |= {EXAMPLES: int(is_kept.sum()), UNTAGGED: int((~is_kept).sum())}
    report[USERS_DROPPED] = len(users) - len(np.unique(user_of_post[is_kept]))

    order = np.argsort(user_of_post, kind="stable")
    parts = [order[is_kept[order] & (is_held_out[order] == held_out)] for held_out in (False, True)]
    if len(known.tags) < 2 or not known.vocabulary or not all(map(len, parts)):
        place = paths[0] if len(paths) == 1 else paths[0].parent.parent
        raise UsageError(
            f"What {place} holds ({describe(report)}) leaves {len(parts[0])} examples for training, {len(parts[1])} of "
            f"other users for evaluation, {len(known.tags)} tags and {len(known.vocabulary)} words; at least 1, 1, 2 "
            "and 1 are needed. Give --keep_untagged, a higher --num_tags, or more posts with --data_dir."
        )
    checksum = _checksum(paths)
    print(f"Stack Exchange: {describe(report)}", file=sys.stderr)

    def population(part: np.ndarray) -> clients.ClientData:
        bags = words.bags(known.vocabulary, part, options.max_words, options.text_normalisation)
        part_users, client_of_row = np.unique(user_of_post[part], return_inverse=True)
        names = [users[user] for user in part_users]
        return clients.ArrayClients(clients.Examples(bags, labels[part]), client_of_row, names, checksum)

    train, held_out = map(population, parts)
    return tasks.tag_task(options, train, held_out, known, report=report, action_names=tuple(known.tags))


def describe(report: Mapping[str, int]) -> str:
    """Report as one line, without counts of 0."""
    return ", ".join(f"{name}: {count}" for name, count in report.items() if count or name == POSTS)


def find(data_dir: str | None) -> list[pathlib.Path]:
    """Files to read.

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


class _Words:
    """The words of each post, kept as numbers in the order in which the words were first seen."""

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
        """Frequency of each word in the marked posts, bool [posts]; words that do not occur are left out."""
        numbers = np.asarray(self._numbers)[np.repeat(is_counted, np.diff(self._offsets))]
        total = np.bincount(numbers, minlength=len(self._number)).tolist()
        return {word: count for word, count in zip(self._number, total, strict=True) if count}

    def bags(self, vocabulary: Sequence[str], rows: np.ndarray, max_words: int, normalisation: str) -> text.Bags:
        """Bags of words of the posts at some positions, at least one; see `text.bags`."""
        word_id = {word: place for place, word in enumerate(vocabulary)}
        ids = np.array([word_id.get(word, -1) for word in self._number], np.int32)
        numbers, offsets = np.asarray(self._numbers), np.asarray(self._offsets)
        parts = []
        for first in range(0, len(rows), _POSTS_AT_ONCE):
            places, lengths = text.entries(offsets, rows[first : first + _POSTS_AT_ONCE])
            parts.append(text.bags(ids[numbers[places]], lengths, max_words, normalisation))
        return text.joined(parts)


def _read(
    paths: Iterable[pathlib.Path],
) -> tuple[list[str], np.ndarray, _Words, list[tuple[str, ...]], dict[str, int]]:
    """Users in alphabetical order, int64 [posts] positions in them, words and tags, and the reading report."""
    authors, words, tags = array.array("q"), _Words(), []
    number_of_author: dict[str, int] = {}
    report: collections.Counter[str] = collections.Counter()
    for path in paths:
        skipped: collections.Counter[str] = collections.Counter()
        for post in posts.read_dump(path, skipped) if path.suffix == ".xml" else posts.read_jsonl(path):
            authors.append(number_of_author.setdefault(post.user, len(number_of_author)))
            words.append(text.words(f"{post.title} {post.body}"))
            tags.append(tuple(dict.fromkeys(map(sys.intern, post.tags))))
        report += skipped
    names = sorted(number_of_author)
    rank = np.zeros(len(names), np.int64)
    rank[[number_of_author[name] for name in names]] = np.arange(len(names))
    return names, rank[np.asarray(authors)], words, tags, {POSTS: len(authors)} | dict(report)


def _checksum(paths: Sequence[pathlib.Path]) -> str:
    """Digest of the file, or one of all files' digests and their folders' names."""
    checksums = [clients.file_checksum(str(path)) for path in paths]
    if len(paths) == 1:
        return checksums[0]
    named = "".join(f"{path.parent.name} {checksum}\n" for path, checksum in zip(paths, checksums, strict=True))
    return hashlib.sha256(named.encode()).hexdigest()[:16]
