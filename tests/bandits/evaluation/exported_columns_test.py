"""Tests of the exported encoding: its features equal those that pandas' columns are encoded as."""

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from bandits.evaluation import exports
from data import columns, statistics, table_file
from data.tasks.options import TaskOptions

NAN = float("nan")


def _assert_encoded(cells, known: statistics.OfColumn, missing_values=None, atol=1e-6):
    options = TaskOptions(task_type="tabular", missing_values=missing_values)
    of_table = statistics.OfTable({"column": known}, {})
    dtype = tf.float64 if isinstance(known, statistics.Numbers) else tf.string
    found = exports.features({"column": tf.constant(cells, dtype)}, of_table, options, is_lite=False)
    table = table_file.of_frame(pd.DataFrame({"column": cells}), "the frame", options)
    expected = columns.encode(table.frame, known={"column": known}).values
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=atol)


@pytest.mark.parametrize("has_missing", [True, False])
@pytest.mark.parametrize(("mean", "deviation"), [(3.0, 2.0), (1.7e9, 50.0), (5.0, 0.0), (0.0, 1e-300), (1e308, 1e300)])
def test_numbers_are_standardized(mean, deviation, has_missing):
    numbers = [mean, mean + deviation, mean - 7 * deviation, NAN, np.inf, -np.inf, 0.0, 1.7e308]
    _assert_encoded(numbers, statistics.Numbers(mean, deviation, has_missing))


def test_numbers_that_the_run_took_as_missing_are_missing():
    _assert_encoded([-9.0, 1.0, NAN, 3.0], statistics.Numbers(1.0, 2.0, True), "-9,none")


@pytest.mark.parametrize("categories", [("a", "b c", "größe", "<missing>"), ("a", "3", "True")])
def test_categories_are_one_hot(categories):
    cells = ["a", " a\t", "b c", "größe", "3", "True", "", "NaN", "\u00a0b c\u2003", "unknown", "A", "skipped"]
    _assert_encoded(cells, statistics.Categories(categories), "skipped")
