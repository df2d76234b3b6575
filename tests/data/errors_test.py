"""Tests of data.errors."""

import pytest

from data import errors


@pytest.mark.parametrize(("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1234, "1,234 rows")])
def test_counts_are_singular_or_plural(number, text):
    assert errors.counted(number, "row") == text


def test_long_lists_are_cut():
    assert errors.first(["a", "b"], 2) == "a, b"
    assert errors.first(["a", "b", "c", "d"], 2) == "a, b and 2 more"
