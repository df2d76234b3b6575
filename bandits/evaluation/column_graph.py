"""Encoding of raw columns in TensorFlow operations, as `columns.encode` and `tables.words` encode them in pandas."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from data import columns, schema, statistics, table_file
from data.errors import UsageError
from data.tasks.options import TaskOptions

_SPACES = r"[\t-\r\x1c-\x1f\x{85}\p{Z}]+"  # Those that Python's `str.strip` removes.
_TWO_WORDS = r"([\p{L}\p{N}])(?:\+\+|#)([\p{L}\p{N}_])"  # As c++11: the signs separate words, see `text.words`.
_WORD = r"[\p{L}\p{N}]+(?:\+\+|#)?"
# Beyond this ratio of mean and deviation, float32 is too coarse for a column.
_LARGEST_RATIO = 1000.0
Kinds: TypeAlias = dict[str, dict[str, Any]]


def kinds(known: statistics.OfTable, options: TaskOptions) -> Kinds:
    """The type of each input column (`number`, `category` or `text`), and the categories.

    Raises:
      UsageError: If a column has dates.
    """
    described: Kinds = {}
    for name, column in known.columns.items():
        if isinstance(column, statistics.Dates):
            raise UsageError(
                f"Column {name!r} has dates, which an exported model cannot read: train without it (--ignore_columns), "
                "or with numbers instead, such as the month."
            )
        if isinstance(column, statistics.Categories):
            described[name] = {"type": "category", "categories": column.categories}
        elif column is not None:
            described[name] = {"type": "number"}
    return described | {name: {"type": "text"} for name in schema.listed(options.text_columns)}


def why_not_lite(known: statistics.OfTable, options: TaskOptions) -> str:
    """Reason why TensorFlow Lite cannot encode these columns; empty if it can."""
    for name, described in kinds(known, options).items():
        if described["type"] == "text":
            return f"column {name!r} is a text, which TensorFlow Lite cannot read"
        column = known.columns[name]
        if isinstance(column, statistics.Numbers) and abs(column.mean) > _LARGEST_RATIO * column.deviation > 0:
            return f"the numbers of column {name!r} differ too little from each other for float32: subtract a constant"
    return ""


def features(
    inputs: Mapping[str, tf.Tensor], known: statistics.OfTable, options: TaskOptions, *, is_lite: bool
) -> tf.Tensor | dict[str, tf.Tensor]:
    """Features as the model takes them.

    Args:
      inputs: The columns of `kinds`, [rows] each: numbers of one dtype, NaN if missing; else text, empty if missing.
      known: Their statistics.
      options: The run's options.
      is_lite: Whether to leave out what TensorFlow Lite lacks: no spaces around text are removed.
    """
    words = schema.listed(options.missing_values)
    blocks = []
    for name, column in known.columns.items():
        if isinstance(column, statistics.Numbers):
            blocks.append(_numbers(inputs[name], column, words))
        elif isinstance(column, statistics.Categories):
            written = inputs[name] if is_lite else _stripped(inputs[name])
            blocks.append(_categories(written, column.categories, words))
    if not (texts := schema.listed(options.text_columns)):
        return tf.concat(blocks, axis=1)
    bags = _bags([_stripped(inputs[name]) for name in texts], known.vocabulary, words, options)
    if not blocks:
        return bags
    numbers = tf.concat(blocks, axis=1)
    ids = tf.zeros_like(numbers, tf.int32) + len(known.vocabulary) + tf.range(numbers.shape[1])
    return {"ids": tf.concat([bags["ids"], ids], axis=1), "values": tf.concat([bags["values"], numbers], axis=1)}


def _stripped(written: tf.Tensor) -> tf.Tensor:
    return tf.strings.regex_replace(written, f"^{_SPACES}|{_SPACES}$", "")


def _numbers(values: tf.Tensor, known: statistics.Numbers, words: Sequence[str]) -> tf.Tensor:
    # No negation below: the converter to TensorFlow Lite turns not (x <= y) into x > y, which is wrong for NaN.
    is_present = tf.math.is_finite(values)
    for word in words:
        try:
            is_present &= tf.not_equal(values, float(word))  # In a graph, != compares the objects.
        except ValueError:  # A text, which no number equals.
            continue
    standard = tf.zeros_like(values)
    if known.deviation:
        largest = float(np.finfo(np.float32).max)
        standard = (values / 2 - known.mean / 2) / (known.deviation / 2)
        standard = tf.clip_by_value(standard, -largest, largest)
    encoded = [tf.cast(tf.where(is_present, standard, tf.zeros_like(values)), tf.float32)]
    if known.has_missing:
        encoded.append(1 - tf.cast(is_present, tf.float32))
    return tf.stack(encoded, axis=1)


def _is_missing(written: tf.Tensor, words: Sequence[str]) -> tf.Tensor:
    """Bool [rows, 1]."""
    return tf.reduce_any(tf.equal(written[:, tf.newaxis], [[*table_file.MISSING, *words]]), axis=1, keepdims=True)


def _categories(written: tf.Tensor, categories: Sequence[str], words: Sequence[str]) -> tf.Tensor:
    of_missing = tf.constant([[float(category == columns.MISSING_CATEGORY) for category in categories]])
    chosen = tf.cast(tf.equal(written[:, tf.newaxis], [list(categories)]), tf.float32)
    is_missing = tf.cast(_is_missing(written, words), tf.float32)
    return is_missing * of_missing + (1 - is_missing) * chosen


def _bags(texts: Sequence[tf.Tensor], vocabulary: Sequence[str], words: Sequence[str], options: TaskOptions):
    """Words of each row and their values, [rows, words] each; see `text.bags`."""
    present = [tf.where(tf.squeeze(_is_missing(text, words), axis=1), "", text) for text in texts]
    joined = tf.strings.lower(tf.strings.join(present, " "), encoding="utf-8")
    for _ in range(2):  # The second time for those that overlap.
        joined = tf.strings.regex_replace(joined, _TWO_WORDS, r"\1 \2")
    split = tf.strings.split(tf.strings.regex_replace(joined, _WORD, r" \0 "))
    table = tf.lookup.KeyValueTensorInitializer(list(vocabulary), tf.range(len(vocabulary)))
    ids = tf.lookup.StaticHashTable(table, len(vocabulary)).lookup(split.values)
    shape = split.nrows(), len(vocabulary) + 1
    places = split.value_rowids() * shape[1] + tf.cast(ids, tf.int64)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(places, tf.float32), places, shape[0] * shape[1])
    counts = tf.reshape(counts, shape)[:, :-1]  # The last one counts unknown words.
    of_row = tf.reduce_sum(counts, axis=1) if options.text_normalisation == "mean" else tf.norm(counts, axis=1)
    most, ids = tf.math.top_k(counts, min(options.max_words, len(vocabulary)))
    return {"ids": ids, "values": tf.math.divide_no_nan(most, of_row[:, tf.newaxis])}
