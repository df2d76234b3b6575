"""Tests of data.ads, with small tables and, where it is, the real one."""

import re

import numpy as np
import pytest

from data import ads
from data.errors import UsageError

ROWS = [(1, 0, 0), (0, 0, 1), (0, 0, 0), (1, 1, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]
HEADER = "Ad 1,Ad 2,Ad 3"


def test_rows_are_partitioned_in_equal_shares(write):
    rows = [",".join(map(str, row)) for row in ROWS]
    found = ads.from_table(write("\n".join(["\ufeff" + HEADER, *rows, ""])), 7, 0)  # As spreadsheets write it.
    assert (found.clicks.shape, found.clicks.dtype) == ((7, 1, 3), np.uint8)
    assert sorted(map(tuple, found.clicks[:, 0].tolist())) == sorted(ROWS)
    assert found.names == ("Ad 1", "Ad 2", "Ad 3")
    np.testing.assert_allclose(found.rates, [4 / 7, 1 / 7, 3 / 7])


@pytest.mark.parametrize(("cell", "shown"), [("2", "2"), ("x", "'x'"), ("", "a missing value"), ("0.5", "0.5")])
def test_other_values_than_0_and_1_are_refused_with_their_place(write, cell, shown):
    path = write(f"{HEADER}\n1,0,0\n0,{cell},1\n0,0,1\n")
    message = f"--data_file: {shown} in column 'Ad 2' (line 3 of {path}) is not "
    with pytest.raises(UsageError, match=re.escape(message)):
        ads.from_table(path, 1, 0)


def test_the_real_table(shared_data):
    found = ads.from_table(str(shared_data / ads.TABLE), 100, 0)
    assert found.clicks.shape == (100, 100, 10)
    sums = [1703, 1295, 728, 1196, 2695, 126, 1112, 2091, 952, 489]
    np.testing.assert_array_equal(found.clicks.sum(axis=(0, 1), dtype=int), sums)
    assert found.names[found.rates.argmax()] == "Ad 5"


def test_made_clicks_have_their_rates():
    rates = [0, 0.1, 0.5, 1]
    found = ads.bernoulli(rates, 50, 40, 3)
    assert (found.clicks.shape, found.clicks.dtype) == ((50, 40, 4), np.uint8)
    # 2,000 draws: a standard error of at most 0.011.
    np.testing.assert_allclose(found.clicks.mean(axis=(0, 1)), rates, atol=0.04)
    assert (found.clicks[..., 0].max(), found.clicks[..., 3].min()) == (0, 1)
    np.testing.assert_array_equal(found.rates, rates)
