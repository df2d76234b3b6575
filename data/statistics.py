"""Statistics of the clients' data that are computed before the first round.

They describe the columns and labels of a table, or the words and tags of posts. In private runs, no noise protects
these numbers, but they can come from public data instead: a run writes its statistics to `statistics.json`, and
`--public_statistics` reads such a file.
"""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from data.errors import UsageError

MAX_CATEGORIES = 1000
_LARGEST = sys.float_info.max
_NO_WORDS = '"vocabulary" is not a list of different words'


@dataclasses.dataclass(frozen=True)
class Numbers:
    """A column of numbers.

    Attributes:
      mean: Mean of the present numbers.
      deviation: Standard deviation of the present numbers; 0 if they are equal.
      has_missing: Whether some numbers are missing.
    """

    mean: float
    deviation: float
    has_missing: bool

    @classmethod
    def learned(cls, values: np.ndarray) -> "Numbers | None":
        """Computes the statistics of numbers, where NaN is missing; None if all are missing."""
        present = values[~np.isnan(values)]
        if not len(present):
            return None
        has_missing = len(present) < len(values)
        if present.min() == present.max():  # The computed deviation of equal numbers is not always exactly 0.
            return cls(float(present[0]), 0.0, has_missing)
        scale = np.abs(present).max()  # Without it, squares of large numbers would overflow.
        mean, deviation = np.mean(present / scale) * scale, np.std(present / scale) * scale
        return cls(float(mean), float(deviation), has_missing)

    def standardized(self, values: np.ndarray) -> np.ndarray:
        """Standardizes numbers.

        Returns:
          float32 [rows, 1]; or [rows, 2] with an indicator of missing values, if the statistics include any.
        """
        is_missing, standard = np.isnan(values), np.zeros(len(values))
        if self.deviation:
            with np.errstate(over="ignore"):  # Halved, since differences of large numbers overflow.
                standard = (values / 2 - self.mean / 2) / (self.deviation / 2)
            largest = np.finfo(np.float32).max
            standard = np.clip(standard, -largest, largest)
        features = [np.where(is_missing, 0.0, standard), is_missing]
        return np.stack(features[: 1 + self.has_missing], axis=1).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Dates:
    """A column of dates.

    Attributes:
      mean_days: Mean of the present dates, in days since 1970.
      deviation_days: Standard deviation of the present dates, in days; 0 if they are equal.
      has_missing: Whether some dates are missing.
      has_times: Whether any date has a time other than midnight.
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
      categories: Names of the categories.
    """

    categories: tuple[str, ...]


OfColumn = Numbers | Dates | Categories


@dataclasses.dataclass(frozen=True)
class OfTable:
    """Statistics of a table.

    Attributes:
      columns: Statistics of each feature column; None for a column without values.
      labels: Number of rows with each label, in the order of the actions; empty if the table has rewards, or if actions
        have features.
      vocabulary: The words in text columns; the position of a word is its id. Empty if there are no text columns.
      actions: Statistics of each feature column of actions; empty if actions have no features.
    """

    columns: Mapping[str, OfColumn | None]
    labels: Mapping[str, int]
    vocabulary: tuple[str, ...] = ()
    actions: Mapping[str, OfColumn | None] = dataclasses.field(default_factory=dict)

    def in_words(self) -> tuple[str, ...]:
        """Descriptions of these statistics, which a privacy guarantee names because it does not cover them."""
        columns = "means, deviations and categories of the table's columns"
        labels = "the table's labels and their counts"
        words = "the vocabulary of the table's texts"
        learned = {columns: any(self.columns.values()), labels: self.labels, words: self.vocabulary}
        learned |= {"means, deviations and categories of the actions' features": any(self.actions.values())}
        return tuple(words for words, is_learned in learned.items() if is_learned)

    def as_json(self) -> dict[str, Any]:
        """Content of `statistics.json`."""
        parts = dataclasses.asdict(self)
        return {"kind": "table"} | {name: part for name, part in parts.items() if part or name in ("columns", "labels")}


@dataclasses.dataclass(frozen=True)
class OfPosts:
    """Statistics of posts.

    Attributes:
      vocabulary: The words; the position of a word is its id.
      tags: Number of posts with each tag, in the order of the actions.
    """

    vocabulary: tuple[str, ...]
    tags: Mapping[str, int]

    def in_words(self) -> tuple[str, ...]:
        """Descriptions of these statistics, which a privacy guarantee names because it does not cover them."""
        return ("the posts' vocabulary, their tags and the tags' counts",)

    def as_json(self) -> dict[str, Any]:
        """Content of `statistics.json`."""
        return {"kind": "posts", **dataclasses.asdict(self)}


def read_table(path: str | None) -> OfTable | None:
    """Reads the statistics of a table from a file; None if no file is given.

    Raises:
      UsageError: If the file does not contain statistics of a table.
    """
    if not path:
        return None
    columns, labels, words, actions = _read(path, "table", "columns", "labels", "vocabulary", "actions")
    actions = {} if actions is None else actions
    for name, part in (("columns", columns), ("actions", actions)):
        _check(isinstance(part, dict), path, f'"{name}" is not an object of columns')
    _check(_are_counts(labels) and 1 != len(labels) <= MAX_CATEGORIES, path, '"labels" are not counts of labels')
    _check(words is None or _are_names(words), path, _NO_WORDS)
    known, of_actions = (
        {name: _column(path, name, column) for name, column in part.items()} for part in (columns, actions)
    )
    return OfTable(known, labels, tuple(words or ()), of_actions)


def read_posts(path: str | None) -> OfPosts | None:
    """Reads the statistics of posts from a file; None if no file is given.

    Raises:
      UsageError: If the file does not contain statistics of posts.
    """
    if not path:
        return None
    vocabulary, tags = _read(path, "posts", "vocabulary", "tags")
    _check(_are_names(vocabulary), path, _NO_WORDS)
    _check(_are_counts(tags) and len(tags) > 1, path, '"tags" are not counts of two tags or more')
    return OfPosts(tuple(vocabulary), tags)


def _read(path: str, kind: str, *names: str) -> list[Any]:
    try:
        root = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"--public_statistics={path} is not readable as JSON ({error}).") from error
    actual = root.get("kind") if isinstance(root, dict) else None
    _check(actual == kind, path, f"its kind is {actual!r}, but this task needs {kind!r}")
    return [root.get(name) for name in names]


def _check(is_right: bool, path: str, what: str) -> None:
    if not is_right:
        raise UsageError(f"--public_statistics={path} is not like the statistics.json of a run of this task: {what}.")


def _are_names(names: Any) -> bool:
    """Whether this is a non-empty list of distinct texts."""
    is_text = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return is_text and 0 < len(names) == len(set(names))


def _are_counts(counts: Any) -> bool:
    return isinstance(counts, dict) and all(type(count) is int and count >= 0 for count in counts.values())


def _column(path: str, name: str, column: Any) -> OfColumn | None:
    if column is None:
        return None
    fields: Mapping[str, Any] = column if isinstance(column, dict) else {}
    for kind in (Numbers, Dates):
        if set(fields) == set(kind.__annotations__):
            mean, deviation, *has = (fields[field] for field in kind.__annotations__)
            are_finite = all(type(value) in (int, float) and abs(value) <= _LARGEST for value in (mean, deviation))
            if are_finite and deviation >= 0 and all(type(value) is bool for value in has):
                return kind(float(mean), float(deviation), *has)
    categories = fields.get("categories", [])
    is_right = _are_names(categories) and len(categories) <= MAX_CATEGORIES
    what = (
        f"finite numbers with a deviation of at least 0, of dates, or of at most {MAX_CATEGORIES} different categories"
    )
    _check(is_right, path, f"column {name!r} has no statistics of {what}")
    return Categories(tuple(categories))
