"""What is learned from clients' data before any round: of a table's columns and labels, of posts' words and tags.

Where the clients are private, no noise hides these numbers. They can be made elsewhere instead, from public data: a run
writes its own as `statistics.json`, and `--public_statistics` reads a file of the same form.
"""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from data.errors import UsageError

MAX_CATEGORIES = 1000


@dataclasses.dataclass(frozen=True)
class Numbers:
    """A column of numbers.

    Attributes:
      mean: Of the numbers that are there.
      deviation: Likewise, at least 0; 0 for numbers that are all the same.
      has_missing: Whether some are missing.
    """

    mean: float
    deviation: float
    has_missing: bool


@dataclasses.dataclass(frozen=True)
class Dates:
    """A column of dates.

    Attributes:
      mean_days: Of the dates that are there, in days since 1970 began.
      deviation_days: Likewise, at least 0; 0 for dates that are all the same.
      has_missing: Whether some are missing.
      has_times: Whether one has a time of day other than midnight.
    """

    mean_days: float
    deviation_days: float
    has_missing: bool
    has_times: bool

    @property
    def days(self) -> Numbers:
        """The days as a column of numbers."""
        return Numbers(self.mean_days, self.deviation_days, self.has_missing)


@dataclasses.dataclass(frozen=True)
class Categories:
    """A column of categories.

    Attributes:
      categories: Their names.
    """

    categories: tuple[str, ...]


OfColumn = Numbers | Dates | Categories


@dataclasses.dataclass(frozen=True)
class OfTable:
    """Statistics of a table.

    Attributes:
      columns: Of each column of features; None for one without a value.
      labels: Rows of each label, in the order of the actions; empty for a table of rewards.
    """

    columns: Mapping[str, OfColumn | None]
    labels: Mapping[str, int]

    def in_words(self) -> tuple[str, ...]:
        """Returns what these are, for a guarantee that leaves them out."""
        columns = "means, deviations and categories of the table's columns"
        labels = "the table's labels and their counts"
        return (columns,) * any(self.columns.values()) + (labels,) * bool(self.labels)

    def as_json(self) -> dict[str, Any]:
        """Returns the content of `statistics.json`."""
        return {"kind": "table", **dataclasses.asdict(self)}


@dataclasses.dataclass(frozen=True)
class OfPosts:
    """Statistics of posts.

    Attributes:
      vocabulary: The words; a word's position is its id.
      tags: Posts of each tag, in the order of the actions.
    """

    vocabulary: tuple[str, ...]
    tags: Mapping[str, int]

    def in_words(self) -> tuple[str, ...]:
        """Returns what these are, for a guarantee that leaves them out."""
        return ("the posts' vocabulary, their tags and the tags' counts",)

    def as_json(self) -> dict[str, Any]:
        """Returns the content of `statistics.json`."""
        return {"kind": "posts", **dataclasses.asdict(self)}


def read_table(path: str | None) -> OfTable | None:
    """Returns the statistics of a table in a file; None without one.

    Raises:
      UsageError: If the file has none.
    """
    if not path:
        return None
    columns, labels = _read(path, "table", "columns", "labels")
    _check(isinstance(columns, dict), path, '"columns" is no object of columns')
    _check_counts(path, "labels", labels)
    _check(len(labels) != 1 and len(labels) <= MAX_CATEGORIES, path, f'"labels" has {len(labels)} labels')
    return OfTable({name: _column(path, name, column) for name, column in columns.items()}, labels)


def read_posts(path: str | None) -> OfPosts | None:
    """Returns the statistics of posts in a file; None without one.

    Raises:
      UsageError: If the file has none.
    """
    if not path:
        return None
    vocabulary, tags = _read(path, "posts", "vocabulary", "tags")
    _check(_are_names(vocabulary), path, '"vocabulary" is no list of different words')
    _check_counts(path, "tags", tags)
    _check(len(tags) > 1, path, f'"tags" has {len(tags)} tags; a bandit needs two or more')
    return OfPosts(tuple(vocabulary), tags)


def _read(path: str, kind: str, *names: str) -> list[Any]:
    try:
        root = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"--public_statistics={path} is not readable as JSON ({getattr(error, 'strerror', None) or error})."
        ) from error
    found = root.get("kind") if isinstance(root, dict) else None
    _check(found == kind, path, f"its kind is {found!r}, but this task needs {kind!r}")
    return [root.get(name) for name in names]


def _check(is_right: bool, path: str, what: str) -> None:
    if not is_right:
        raise UsageError(f"--public_statistics={path} is not as a run of this task writes its statistics.json: {what}.")


def _are_names(names: Any) -> bool:
    """Returns whether this is a list of different texts, at least one."""
    is_text = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return is_text and 0 < len(names) == len(set(names))


def _check_counts(path: str, what: str, counts: Any) -> None:
    is_right = isinstance(counts, dict) and all(type(count) is int and count >= 0 for count in counts.values())
    _check(is_right, path, f'"{what}" is no object of counts')


def _column(path: str, name: str, column: Any) -> OfColumn | None:
    if column is None:
        return None
    keys = set(column) if isinstance(column, dict) else set()
    for kind in (Categories, Numbers, Dates):
        fields = [field.name for field in dataclasses.fields(kind)]
        if keys != set(fields):
            continue
        values = [column[field] for field in fields]
        if kind is Categories:
            is_right = _are_names(*values) and len(values[0]) <= MAX_CATEGORIES
            _check(is_right, path, f"column {name!r} has no list of at most {MAX_CATEGORIES} different categories")
            return Categories(tuple(values[0]))
        are_finite = all(type(one) in (int, float) and abs(one) <= sys.float_info.max for one in values[:2])
        is_right = are_finite and values[1] >= 0 and all(type(one) is bool for one in values[2:])
        _check(is_right, path, f"column {name!r} has no finite mean, deviation of at least 0, and truth values")
        return kind(float(values[0]), float(values[1]), *values[2:])
    raise UsageError(f"--public_statistics={path}: column {name!r} is neither of categories, numbers nor dates.")
