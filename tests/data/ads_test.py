"""Tests of data.ads, with small tables and, where it is, the real one."""

import numpy as np
import pytest

from data import ads
from data.errors import UsageError

ROWS = [(1, 0, 0), (0, 0, 1), (0, 0, 0), (1, 1, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]
HEADER = "Ad 1,Ad 2,Ad 3"


@pytest.fixture
def table(tmp_path):
    """Writes a table of these lines, after a byte order mark as spreadsheets write it, and returns its path."""

    def write(*lines: str) -> str:
        path = tmp_path / "clicks.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
        return str(path)

    return write


def lines(rows=ROWS) -> list[str]:
    return [",".join(map(str, row)) for row in rows]


def refusal(path: str, clients: int = 1) -> str:
    with pytest.raises(UsageError) as raised:
        ads.from_table(path, clients, 0)
    return str(raised.value)


def test_rows_are_partitioned_in_equal_shares(table):
    found = ads.from_table(table(HEADER, *lines()), 7, 0)
    assert (found.clicks.shape, found.clicks.dtype) == ((7, 1, 3), np.uint8)
    assert sorted(map(tuple, found.clicks[:, 0].tolist())) == sorted(ROWS)
    assert found.names == ("Ad 1", "Ad 2", "Ad 3")
    np.testing.assert_allclose(found.rates, [4 / 7, 1 / 7, 3 / 7])


@pytest.mark.parametrize(
    ("line", "value"), [("0,2,0", "2"), ("0,x,1", "'x'"), ("0,,1", "a missing value"), ("0,0.5,1", "0.5")]
)
def test_other_values_than_0_and_1_are_refused_with_their_place(table, line, value):
    path = table(HEADER, "1,0,0", line, "0,0,1")
    assert refusal(path).startswith(f"--data_file: {value} in column 'Ad 2' (line 3 of {path}) is not ")


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
