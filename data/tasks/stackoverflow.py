"""TensorFlow Federated's Stack Overflow by user: posts as bags of words, and their tags.

The database (342,477 training users) is read user by user; words become ids when a user is read.
"""

import json
import pathlib
import tarfile

import numpy as np

from data import clients, download, files, random_data, sqlite, statistics, tasks, text
from data.errors import UsageError
from data.tasks.options import TaskOptions

_ORIGIN = "https://storage.googleapis.com/tff-datasets-public/"
FILE_NAME = "stackoverflow.sqlite"
WORD_COUNTS, TAG_COUNTS = "stackoverflow.word_count", "stackoverflow.tag_count"
_ALL_FILES = (
    f"in a folder together with {FILE_NAME}.lzma and the other file of counts, from the same address, and name that "
    "folder with --data_dir (docs/data.md lists all files)"
)
# As TFF 0.87 has them.
_SHA256 = {
    WORD_COUNTS: "1dc00256d6e527c54b9756d968118378ae14e6692c0b3b6cad470cdd3f0c519c",
    TAG_COUNTS: "6fe281cec490d9384a290d560072438e7e2b377bbb823876ce7bd6f82696772d",
}


def load(options: TaskOptions) -> tasks.Task:
    """Task of tag prediction (Agarwal et al. 2023, section 4.1); downloads the data set if no folder is named.

    Raises:
      UsageError: If a file is missing or damaged, or cannot be downloaded.
    """
    data_dir, cache_dir = options.data_dir, options.cache_dir
    known = statistics.read_posts(options.public_statistics)
    origin = f"{_ORIGIN}{FILE_NAME}.lzma"
    local = files.instead_of_download(data_dir, (FILE_NAME, f"{FILE_NAME}.lzma"), origin)
    if options.random_data and not local:
        random_data.warn("Stack Overflow")
        tags = {f"tag{index}": options.num_tags - index for index in range(options.num_tags)}
        known = known or statistics.OfPosts(tuple(f"word{index}" for index in range(options.vocabulary_size)), tags)
        population = random_data.stackoverflow(len(known.vocabulary), len(known.tags), options.max_words)
        return tasks.tag_task(options, *population, known)
    if known is None:  # The small files first: without a network, they fail at once.
        words, counts = (_counts_file(name, data_dir, cache_dir) for name in (WORD_COUNTS, TAG_COUNTS))
        known = statistics.OfPosts(
            _first_words(words, options.vocabulary_size), _most_frequent_tags(counts, options.num_tags)
        )
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

    return tasks.tag_task(
        options, sqlite.SqliteClients(path, "train", parse), sqlite.SqliteClients(path, "heldout", parse), known
    )


def _counts_file(name: str, data_dir: str | None, cache_dir: str | None) -> pathlib.Path:
    """Path of a file of counts: the user's, else that of the cache folder, downloaded on first use."""
    published = f"{name}.tar.bz2"
    local = files.instead_of_download(data_dir, (name, published), f"{_ORIGIN}{published}")
    if local and local.name != published:
        return local
    path = (local.parent if local else download.cache_folder(cache_dir)) / name
    part = path.with_name(f"{name}.part")

    def make() -> None:
        archive = local or download.plain_file(
            f"{_ORIGIN}{published}", published, cache_dir, _SHA256[name], destination=_ALL_FILES
        )
        try:
            with tarfile.open(archive, "r:bz2") as tar:
                content = tar.extractfile(name).read()  # type: ignore[union-attr]
        except (tarfile.TarError, KeyError, EOFError, OSError) as error:
            raise UsageError(f"{archive} is damaged ({error}): download it again from {_ORIGIN}{published}.") from error
        part.write_bytes(content)
        part.replace(path)
        if not local:
            archive.unlink()

    download.once(path, part, make)
    return path


def _first_words(path: pathlib.Path, size: int) -> tuple[str, ...]:
    """First words of a file of `word count` lines, most frequent first."""
    vocabulary: dict[str, int] = {}
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                if len(vocabulary) == size:
                    break
                vocabulary[line.partition(" ")[0].strip()] = len(vocabulary)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not readable ({error}): --data_dir must hold the undamaged file.") from error
    if not vocabulary:
        raise UsageError(f"{path} holds no words: --data_dir must hold the undamaged file.")
    return tuple(vocabulary)


def _most_frequent_tags(path: pathlib.Path, size: int) -> dict[str, int]:
    """Most frequent tags of a JSON object tag -> count, most frequent first, and their counts."""
    try:
        counts = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(count, int) and count > 0 for count in counts.values()) or len(counts) < 2:
            raise ValueError("not two or more tags with whole numbers above 0")
        tags = text.most_frequent(counts, size)
    except (ValueError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} is not readable ({error}): --data_dir must hold the undamaged file.") from error
    return {tag: counts[tag] for tag in tags}
