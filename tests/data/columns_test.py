"""Tests of data.columns: columns as features, computed by hand."""

import decimal

import numpy as np
import pandas as pd
import pytest

from data import columns, statistics
from data.errors import UsageError

TRAIN = np.array([True, True, True, True, False, False])


def _encode(values, is_train=TRAIN, **series):
    frame = pd.DataFrame({"x": pd.Series(values, **series)})
    return columns.encode(frame, columns.learn(frame, is_train))


def test_numbers_have_the_training_rows_mean_and_deviation():
    encoded = _encode([1, 1, 3, 3, 5, -1000])
    assert encoded.names == ["x"]
    # Mean 2, deviation 1.
    np.testing.assert_array_equal(encoded.values, np.float32([[-1], [-1], [1], [1], [3], [-1002]]))
    assert encoded.values.dtype == np.float32


@pytest.mark.parametrize("constant", [7, 0, 0.1, -1e300])
def test_a_number_that_never_varies_in_training_rows_is_0_everywhere(constant):
    assert _encode([constant] * 4 + [9, 8]).values.tolist() == [[0]] * 6


@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e300])
def test_numbers_of_any_size_are_standardised(unit):
    np.testing.assert_allclose(_encode(np.array([1, 1, 3, 3, 2, 1]) * unit).values[:, 0], [-1, -1, 1, 1, 0, -1])


def test_missing_and_infinite_numbers_have_the_mean_and_are_marked():
    encoded = _encode([1, None, 3, -np.inf, np.inf, None], dtype="float64")
    assert encoded.names == ["x", "x is missing"]
    assert encoded.values.tolist() == [[-1, 0], [0, 1], [1, 0], [0, 1], [0, 1], [0, 1]]
    assert encoded.imputed == {"x": 4}


def test_a_number_missing_in_other_rows_only_is_imputed_without_a_mark():
    encoded = _encode([1, 1, 3, 3, None, 3])
    assert encoded.names == ["x"]
    assert encoded.values[:, 0].tolist() == [-1, -1, 1, 1, 0, 1]
    assert encoded.imputed == {"x": 1}


@pytest.mark.parametrize("gap", ["?", "None", "", "NA", None, " ? "])
def test_numbers_written_as_text_are_numbers_with_gaps(gap):
    encoded = _encode(["1", gap, "3", gap, " 5", "-1"], dtype=object)
    assert encoded.names == ["x", "x is missing"]
    assert encoded.values.tolist() == [[-1, 0], [0, 1], [1, 0], [0, 1], [3, 0], [-3, 0]]


def test_one_other_word_makes_categories_of_numbers():
    assert _encode(["1", "10", "2", "?", "low", "1"]).names == ["x=1", "x=10", "x=2", "x=?"]


def test_categories_are_those_of_training_rows_and_others_are_all_zeros():
    encoded = _encode(["b", "a", "b ", "c", "d", "a"])
    assert encoded.names == ["x=a", "x=b", "x=c"]
    assert encoded.values.tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0]]
    assert encoded.values.dtype == np.float32


def test_a_missing_category_is_a_category():
    encoded = _encode(["a", None, "NA", "b", "", "a"])
    assert encoded.names == ["x=a", "x=b", "x=<missing>"]
    assert encoded.values.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert encoded.missing_as_category == {"x": 3}
    assert encoded.imputed == {}


def test_a_category_missing_in_other_rows_only_is_all_zeros():
    encoded = _encode(["a", "b", "a", "b", None, "b"])
    assert encoded.names == ["x=a", "x=b"]
    assert encoded.values[4].tolist() == [0, 0]


@pytest.mark.parametrize("gap", [True, None])
def test_truth_values_are_categories(gap):
    encoded = _encode([True, False, True, False, gap, True])
    assert encoded.names == ["x=False", "x=True"]
    assert encoded.values[0].tolist() == [0, 1]


def test_the_type_category_is_heeded_even_of_numbers():
    encoded = _encode([10, 2, 2, 10, 2, 3], dtype="category")
    assert encoded.names == ["x=2", "x=10"]


@pytest.mark.parametrize(
    "values",
    [
        pd.array([1, None, 3, 1], dtype="Int64"),
        pd.array([1, None, 3, 1], dtype="Float32"),
        pd.array(["1", None, "3", "1"], dtype="string"),
        np.array([decimal.Decimal(1), None, decimal.Decimal(3), decimal.Decimal(1)]),
    ],
    ids=["Int64", "Float32", "string", "decimal"],
)
def test_numbers_of_other_types_are_numbers(values):
    encoded = _encode(values, np.array([True, True, True, False]))
    assert encoded.values.tolist() == [[-1, 0], [0, 1], [1, 0], [-1, 0]]


@pytest.mark.parametrize("values", [[None] * 4 + [1, 2], [None] * 4 + ["a", "b"], [None] * 6, [""] * 6])
def test_columns_without_a_value_in_training_rows_are_left_out(values):
    encoded = _encode(values)
    assert encoded.left_out == ["x"]
    assert (encoded.names, encoded.values.shape) == ([], (6, 0))


def test_features_are_in_the_order_of_the_columns():
    frame = pd.DataFrame({"b": list("uuvvuv"), "a": [1, 1, 3, 3, 5, 5]})
    encoded = columns.encode(frame, columns.learn(frame, TRAIN))
    assert encoded.names == ["b=u", "b=v", "a"]
    assert encoded.values[0].tolist() == [1, 0, -1]


def test_whole_numbers_made_float_by_gaps_are_written_whole():
    assert columns.text(pd.Series([3.0, None, -1.0])).tolist()[::2] == ["3", "-1"]
    assert columns.text(pd.Series([3.5, 3.0])).tolist() == ["3.5", "3.0"]


def test_names_keep_their_text_and_lose_a_question_mark_among_numbers():
    assert columns.names(pd.Series(["007", "?", "8"])).dropna().tolist() == ["007", "8"]
    assert columns.names(pd.Series(["a", "?", "8"])).dropna().tolist() == ["a", "?", "8"]


def test_names_are_in_the_order_of_numbers_only_if_all_are_some():
    assert columns.ordered(pd.Series(["10", "9", "9", None, "1.5"])) == ["1.5", "9", "10"]
    assert columns.ordered(pd.Series(["10", "9", "x"])) == ["10", "9", "x"]


def _encode_known(values, known):
    return columns.encode(pd.DataFrame({"x": values}), {"x": known})


def test_numbers_are_standardised_by_what_is_known_from_elsewhere():
    encoded = _encode_known([1, None, 5], statistics.Numbers(3.0, 2.0, has_missing=False))
    assert encoded.values.tolist() == [[-1], [0], [1]]
    assert encoded.imputed == {"x": 1}
    assert _encode_known([None, 5], statistics.Numbers(3.0, 2.0, has_missing=True)).values.tolist() == [[0, 1], [1, 0]]


def test_a_number_far_from_what_is_known_stays_finite():
    known = statistics.Numbers(-1e308, 1e-300, has_missing=False)
    assert np.isfinite(_encode_known([1e308, 1.0], known).values).all()


def test_categories_are_those_known_from_elsewhere_also_of_numbers():
    known = statistics.Categories(("2", "1", "<missing>"))
    assert _encode_known([1, 3, None, 2], known).values.tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]]


def test_a_column_without_the_known_numbers_is_an_error():
    with pytest.raises(UsageError, match="--public_statistics has a mean of column 'x', which holds something else"):
        _encode_known(["a", "b"], statistics.Numbers(0.0, 1.0, has_missing=False))
