"""Tests of data.numerals: which texts are numbers, and how amounts are read."""

import math
import random

import numpy as np
import pandas as pd
import pytest

from data import numerals


@pytest.mark.parametrize("text", ["1", "-2.5", "+.5", "3.", "1e5", "1E-300", "inf", "-Infinity", "0012", "1e400"])
def test_numbers_are_those_of_python(text):
    np.testing.assert_equal(numerals.numbers(pd.Series([text, None])), [float(text), math.nan])


@pytest.mark.parametrize("text", ["05179e2916004192", "1e99999", "1_000", "nan", "1,5", "0x10", "١", "1 2", "e5", "."])
def test_other_texts_are_none(text):
    assert np.isnan(numerals.numbers(pd.Series([text], dtype=object))).all()


def test_hexadecimal_identifiers_are_no_numbers():
    """`pandas.to_numeric` ends the process on some of them."""
    draw = random.Random(0)
    names = [f"{draw.getrandbits(64):016x}" for _ in range(60_000)]
    is_number = ~np.isnan(numerals.numbers(pd.Series(names)))
    assert all("." not in name for name in np.array(names)[is_number])
    assert is_number.mean() < 0.01


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,5", "1.234,56", "-3"], [1.5, 1234.56, -3]),
        (["1.500", "12.000"], [1500, 12000]),
        (["1 234,5", "1\u202f234", ",5"], [1234.5, 1234, 0.5]),
        (["1,5 €", "2.000 €"], [1.5, 2000]),
        (["0,4%", "50 %"], [0.004, 0.5]),
        (["1,5e-3", "2"], [0.0015, 2]),
    ],
    ids=range(6),
)
def test_decimal_commas(cells, values):
    plain, _ = numerals.plain(pd.Series(cells), ",")
    np.testing.assert_allclose(numerals.numbers(plain), values)
    assert len(numerals.with_decimal_points(pd.Series(cells))) == 0


def test_points_that_group_nothing_are_no_part_of_a_number_with_a_decimal_comma():
    cells = pd.Series(["1,5", "1.5", "0.500", "1.500", "2.5 €"])
    assert numerals.with_decimal_points(cells).tolist() == ["1.5", "0.500", "2.5 €"]
    assert numerals.with_decimal_points(pd.Series(["03.04.2023", "sunny", "1.5"])).empty


@pytest.mark.parametrize("cells", [["0.4%", "0.4"], ["1%", "€2"], ["1%", "red"]])
def test_a_mixture_is_no_amount(cells):
    assert numerals.plain(pd.Series(cells), ".") is None
