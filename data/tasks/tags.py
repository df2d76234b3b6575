"""Tag prediction on posts as bags of words: a client is a user of TFF's Stack Overflow, or of Stack Exchange sites.

TFF's database (342,477 training users) is read user by user; words become ids when a user is read. A Stack Exchange
post is read once and kept as numbers, 4 bytes per word, so that the full text is never in memory. The vocabulary and
the most frequent tags are counted on training clients only; for Stack Overflow, TFF publishes the counts.
"""

import collections
import contextlib
import gzip
import itertools
import json
import math
import pathlib
import sys
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

import numpy as np

from data import clients, download, files, keys, statistics, tasks, text
from data.errors import UsageError
from data.tasks.options import TaskOptions

_ORIGIN = "https://storage.googleapis.com/tff-datasets-public/"
FILE_NAME = "stackoverflow.sqlite"
WORD_COUNTS, TAG_COUNTS = "stackoverflow.word_count", "stackoverflow.tag_count"
# Checksums from TFF 0.87.
_SHA256 = {
    WORD_COUNTS: "1dc00256d6e527c54b9756d968118378ae14e6692c0b3b6cad470cdd3f0c519c",
    TAG_COUNTS: "6fe281cec490d9384a290d560072438e7e2b377bbb823876ce7bd6f82696772d",
}
# Numbers of users and examples in TFF's Stack Overflow, for training and held out. It only has users with at least 100
# sentences.
_SIZES = ((342_477, 135_818_730), (38_758, 16_491_230))
_FEWEST_POSTS = 100
_WORDS_OF_A_POST = (5, 130)  # Assumed range.
_TAGS_OF_A_POST = 1.5  # Assumed mean.

# Keys of the task's report.
POSTS = "posts"
EXAMPLES = "examples"
UNTAGGED = "posts without a frequent tag, dropped"
USERS_DROPPED = "users left without an example"

_JSONL = "stackexchange_posts.jsonl.gz"
_HELD_OUT_FRACTION = 0.1
_SPLIT_SEED = 0  # The split is part of the task: words and tags have the same indices with every seed.


def load_stackoverflow(options: TaskOptions) -> tasks.Task:
    """Task of tag prediction (Agarwal et al. 2023, section 4.1); downloads the data set if there is no copy.

    Raises:
      UsageError: If a file is missing or damaged, or cannot be downloaded.
    """
    data_dir, cache_dir = options.data_dir, options.cache_dir
    known = statistics.read_posts(options.public_statistics)
    origin = f"{_ORIGIN}{FILE_NAME}.lzma"
    local = files.instead_of_download(data_dir, (FILE_NAME, f"{FILE_NAME}.lzma"), origin)
    if options.random_data and not local:
        clients.warn_of_random_data("Stack Overflow")
        tags = {f"tag{index}": options.num_tags - index for index in range(options.num_tags)}
        known = known or statistics.OfPosts(tuple(f"word{index}" for index in range(options.vocabulary_size)), tags)
        train, held_out = random_posts(len(known.vocabulary), len(known.tags), options.max_words)
        return tasks.tag_task(options, train, held_out, known)
    if known is None:  # The small files first: without a network, they fail at once.
        with _counts(WORD_COUNTS, data_dir, cache_dir) as file:
            words = _first_words(file, options.vocabulary_size)
        with _counts(TAG_COUNTS, data_dir, cache_dir) as file:
            known = statistics.OfPosts(words, _most_frequent_tags(file.read(), options.num_tags))
    path = download.decompressed(local) if local else download.lzma_file(origin, FILE_NAME, cache_dir)
    vocabulary = {word: index for index, word in enumerate(known.vocabulary)}
    tag_index = {tag: index for index, tag in enumerate(known.tags)}

    def parse(serialized: list[bytes]) -> clients.Examples:
        import tensorflow as tf

        names = ("tokens", "title", "tags")
        parsed = tf.io.parse_example(
            np.array(serialized, object), {name: tf.io.FixedLenFeature((), tf.string) for name in names}
        )
        tokens, titles, tag_lists = ([value.decode() for value in parsed[name].numpy()] for name in names)
        documents = [f"{body} {title}".split() for body, title in zip(tokens, titles, strict=True)]
        labels = text.tag_vectors([tags.split("|") for tags in tag_lists], tag_index)
        features = text.encode(documents, vocabulary, options.max_words, options.text_normalisation)
        examples = clients.Examples(features, labels)
        return examples if options.keep_untagged else examples.take(np.flatnonzero(labels.any(axis=1)))

    train, held_out = clients.SqliteClients(path, "train", parse), clients.SqliteClients(path, "heldout", parse)
    sizes: dict[str, tuple[int, int]] = {}
    for split, part, (users, examples) in zip(("training", "held-out"), (train, held_out), _SIZES, strict=True):
        sizes |= {f"{split} users": (len(part), users), f"{split} examples": (part.num_examples, examples)}
    return tasks.tag_task(options, train, held_out, known, report=clients.size_report("Stack Overflow", sizes))


@contextlib.contextmanager
def _counts(name: str, data_dir: str | None, cache_dir: str | None) -> Iterator[IO[bytes]]:
    """Opens a file of counts: the user's own, or one in the cache folder that is downloaded on first use."""
    published = f"{name}.tar.bz2"
    origin = f"{_ORIGIN}{published}"
    path = files.instead_of_download(data_dir, (name, published), origin)
    path = path or download.plain_file(origin, published, cache_dir, _SHA256[name])
    try:
        with contextlib.ExitStack() as stack:
            if path.name == name:
                yield stack.enter_context(path.open("rb"))
            else:
                yield stack.enter_context(tarfile.open(path, "r:bz2")).extractfile(name)  # type: ignore[misc]
    except (tarfile.TarError, KeyError, EOFError, OSError, ValueError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{path} is not readable ({error}): name the folder of a good copy with --data_dir, or download {origin}."
        ) from error


def _first_words(lines: Iterable[bytes], size: int) -> tuple[str, ...]:
    """The first `size` distinct words of a file whose lines are `WORD COUNT`, most frequent first."""
    distinct: dict[str, None] = {}
    for line in lines:
        distinct[line.decode().partition(" ")[0].strip()] = None
        if len(distinct) == size:
            break
    if not distinct:
        raise ValueError("it holds no words")
    return tuple(distinct)


def _most_frequent_tags(content: bytes, size: int) -> dict[str, int]:
    """The most frequent tags with their counts, most frequent first, from a JSON object of counts by tag."""
    counts = json.loads(content)
    if not all(isinstance(count, int) and count > 0 for count in counts.values()) or len(counts) < 2:
        raise ValueError("not two or more tags with whole numbers above 0")
    return {tag: counts[tag] for tag in text.most_frequent(counts, size)}


def random_posts(vocabulary_size: int, num_tags: int, max_words: int) -> list[clients.ClientData]:
    """Random training and held-out posts in the shapes of TFF's Stack Overflow, with word values of L2 norm 1.

    A client has 100 posts, the minimum in the data set, plus an exponentially distributed number; the mean is that of
    the data set. Each post has at least one tag, and at most `max_words` words.
    """
    least, most = (min(count, max_words) for count in _WORDS_OF_A_POST)

    def population(users: int, mean: float) -> clients.ClientData:
        def examples(draw: np.random.Generator) -> clients.Examples:
            size = _FEWEST_POSTS + int(draw.exponential(mean - _FEWEST_POSTS))
            lengths = draw.integers(least, most + 1, size)
            ids = draw.integers(0, vocabulary_size, lengths.sum()).astype(np.int32)
            values = np.repeat(1 / np.sqrt(lengths), lengths).astype(np.float32)
            labels = draw.random((size, num_tags)) < (_TAGS_OF_A_POST - 1) / num_tags
            labels[np.arange(size), draw.integers(0, num_tags, size)] = True
            bags = text.Bags(ids, values, np.concatenate([[0], np.cumsum(lengths)]))
            return clients.Examples(bags, labels.astype(np.float32))

        return clients.RandomClients(users, examples)

    return [population(users, total / users) for users, total in _SIZES]


def load_stackexchange(options: TaskOptions) -> tasks.Task:
    """Task of tagging posts: contexts are bags of words of titles and bodies, and actions are the most frequent tags.

    The vocabulary is counted on all posts of training users, including posts dropped for lack of a frequent tag, so
    that it is the same for any `num_tags` and `keep_untagged`. A user without examples is not a client.

    Raises:
      UsageError: If a file is missing or damaged, or too few users, tags, words or examples are left.
    """
    path = files.find(options.data_dir, _JSONL)
    users, user_of_post, words, tags_of_post = _read(path)
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
    report = {POSTS: len(user_of_post), EXAMPLES: int(is_kept.sum()), UNTAGGED: int((~is_kept).sum())}
    report[USERS_DROPPED] = len(users) - len(np.unique(user_of_post[is_kept]))

    order = np.argsort(user_of_post, kind="stable")
    parts = [order[is_kept[order] & (is_held_out[order] == held_out)] for held_out in (False, True)]
    if len(known.tags) < 2 or not known.vocabulary or not all(map(len, parts)):
        raise UsageError(
            f"{path} ({_described(report)}) leaves {len(parts[0])} examples for training, {len(parts[1])} examples "
            f"of other users for evaluation, {len(known.tags)} tags and {len(known.vocabulary)} words; at least 1 "
            "example of each kind, 2 tags and 1 word are needed. Give --keep_untagged, a higher --num_tags, or more "
            "posts with --data_dir."
        )
    checksum = clients.file_checksum(path)
    print(f"Stack Exchange: {_described(report)}", file=sys.stderr)

    def population(part: np.ndarray) -> clients.ClientData:
        bags = words.bags(known.vocabulary, part, options.max_words, options.text_normalisation)
        part_users, client_of_row = np.unique(user_of_post[part], return_inverse=True)
        names = [users[user] for user in part_users]
        return clients.ArrayClients(clients.Examples(bags, labels[part]), client_of_row, names, checksum)

    train, held_out = map(population, parts)
    return tasks.tag_task(options, train, held_out, known, report=report, action_names=tuple(known.tags))


def _described(report: Mapping[str, int]) -> str:
    """Report as one line, without counts of 0."""
    return ", ".join(f"{name}: {count}" for name, count in report.items() if count or name == POSTS)


def read_jsonl(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yields posts from a gzipped file with one JSON object per line.

    Each object has `site`, `user`, `title` and `body`, all text, and `tags`, a list of text. Other fields and empty
    lines are ignored.

    Raises:
      UsageError: If the file is not readable, or a line is not such an object; the message names the line.
    """
    number = 0
    try:
        with gzip.open(path) as file:
            for line in file:
                number += 1
                if line.strip():
                    yield _parse_line(line)
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UsageError(
            f"{path} is not readable at or after line {number} ({error}). Name a good copy's folder with --data_dir."
        ) from error


def _parse_line(line: bytes) -> dict[str, Any]:
    record = json.loads(line.decode("utf-8-sig"))
    texts, tags = [record[name] for name in ("site", "user", "title", "body")], record["tags"]
    if not isinstance(tags, list) or not all(isinstance(text, str) for text in [*texts, *tags]):
        raise ValueError("site, user, title and body must be strings, and tags a list of strings")
    return record


def _read(path: pathlib.Path) -> tuple[list[str], np.ndarray, text.Words, list[tuple[str, ...]]]:
    """Returns the users in alphabetical order and, for each post, its user's index, int64 [posts], words and tags."""
    authors, words, tags = [], text.Words(), []
    for post in read_jsonl(path):
        authors.append(sys.intern(post["user"]))
        words.append(text.words(f"{post['title']} {post['body']}"))
        tags.append(tuple(dict.fromkeys(map(sys.intern, post["tags"]))))
    names, user_of_post = np.unique(np.array(authors, object), return_inverse=True)
    return names.tolist(), user_of_post, words, tags
