"""Tests of data.columns: types of columns, dates, and columns as features, computed by hand."""

import decimal
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from data import columns, memory, statistics, table_file
from data.errors import UsageError

TRAIN = np.array([True, True, True, True, False, False])


def _encode(values, is_train=None, **series):
    """The column x, of whose rows all are for training unless it says otherwise."""
    return columns.encode(pd.DataFrame({"x": pd.Series(values, **series)}), is_train)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 1, 3, 3, 5, -1000], [-1, -1, 1, 1, 3, -1002]),  # Mean 2, deviation 1.
        *((np.array([1, 1, 3, 3, 2, 1]) * unit, [-1, -1, 1, 1, 0, -1]) for unit in (1e-300, 1e300)),
        *(([constant] * 4 + [9, 8], [0] * 6) for constant in (0, 0.1, -1e300)),
    ],
)
def test_numbers_are_standardized_by_the_training_rows_and_0_if_these_do_not_vary(values, expected):
    encoded = _encode(values, TRAIN)
    assert (encoded.names, encoded.values.dtype, encoded.values.shape) == (["x"], np.float32, (6, 1))
    np.testing.assert_allclose(encoded.values[:, 0], expected)


def test_missing_and_infinite_numbers_have_the_mean_and_are_marked():
    encoded = _encode([1, None, 3, -np.inf, np.inf, None], TRAIN, dtype="float64")
    assert encoded.names == ["x", "x is missing"]
    assert encoded.values.tolist() == [[-1, 0], [0, 1], [1, 0], [0, 1], [0, 1], [0, 1]]
    assert encoded.kinds == {"x": {"kind": "number", "imputed": 4}}
    elsewhere = _encode([1, 1, 3, 3, None, 3], TRAIN)  # Missing in other rows only.
    assert (elsewhere.names, elsewhere.values[:, 0].tolist()) == (["x"], [-1, -1, 1, 1, 0, 1])
    assert elsewhere.kinds == {"x": {"kind": "number", "imputed": 1}}


@pytest.mark.parametrize("gap", ["?", "None", "", "NA", None, " ? "])
def test_numbers_written_as_text_are_numbers_with_gaps(gap):
    encoded = _encode(["1", gap, "3", gap, " 5", "-1"], TRAIN, dtype=object)
    assert encoded.names == ["x", "x is missing"]
    assert encoded.values.tolist() == [[-1, 0], [0, 1], [1, 0], [0, 1], [3, 0], [-3, 0]]


def test_categories_are_those_of_training_rows_and_others_are_all_zeros():
    encoded = _encode(["b", "a", "b ", "c", "d", "a"], TRAIN)
    assert encoded.names == ["x=a", "x=b", "x=c"]
    assert encoded.values.tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0]]
    assert encoded.values.dtype == np.float32


def test_a_missing_category_is_a_category():
    encoded = _encode(["a", None, "NA", "b", "", "a"], TRAIN)
    assert encoded.names == ["x=a", "x=b", "x=<missing>"]
    assert encoded.values.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert encoded.kinds == {"x": {"kind": "category", "categories": 2, "missing": 3, "unknown": 0}}
    elsewhere = _encode(["a", "b", "a", "b", "c", None], TRAIN)  # Missing in other rows only.
    assert (elsewhere.names, elsewhere.values[5].tolist()) == (["x=a", "x=b"], [0, 0])
    assert elsewhere.kinds == {"x": {"kind": "category", "categories": 2, "missing": 1, "unknown": 1}}


@pytest.mark.parametrize("values", [[None] * 4 + [1, 2], [None] * 4 + ["a", "b"], [None] * 6, [""] * 6])
def test_columns_without_a_value_in_training_rows_are_left_out(values):
    encoded = _encode(values, TRAIN)
    assert encoded.learned == {"x": None}
    assert (encoded.names, encoded.values.shape) == ([], (6, 0))


@pytest.mark.parametrize("word", ["?", "NA", "N/A", "NULL", "nan", "null", "None", "inf", "-", "1e400"])
def test_only_an_empty_cell_is_a_missing_name(word):
    for others in (["007", "8"], ["a", "b"]):
        names = columns.named(pd.Series([others[0], word, f" {others[1]} ", None, "", " "]))
        assert names.tolist()[:3] == [others[0], word, others[1]]
        assert names.isna().tolist() == [False] * 3 + [True] * 3


def test_names_are_in_numeric_order_if_all_are_numbers():
    assert columns.named(pd.Series(["10", "9", "9"])).cat.categories.tolist() == ["9", "10"]
    assert columns.ordered(pd.Series(["10", "9", "9", None, "1.5"])) == ["1.5", "9", "10"]
    assert columns.ordered(pd.Series(["10", "9", "x"])) == ["10", "9", "x"]
    assert table_file.as_text(pd.Series([3.0, None, -1.0])).tolist()[::2] == ["3", "-1"]
    assert table_file.as_text(pd.Series([3.5, 3.0])).tolist() == ["3.5", "3.0"]


def _encode_known(values, known):
    return columns.encode(pd.DataFrame({"x": values}), known={"x": known})


def test_numbers_are_standardized_by_what_is_known_from_elsewhere():
    encoded = _encode_known([1, None, 5], statistics.Numbers(3.0, 2.0, has_missing=False))
    assert encoded.values.tolist() == [[-1], [0], [1]]
    assert encoded.kinds == {"x": {"kind": "number", "imputed": 1}}
    assert _encode_known([None, 5], statistics.Numbers(3.0, 2.0, has_missing=True)).values.tolist() == [[0, 1], [1, 0]]
    far = statistics.Numbers(-1e308, 1e-300, has_missing=False)
    assert np.isfinite(_encode_known([1e308, 1.0], far).values).all()


def test_categories_are_those_known_from_elsewhere_also_of_numbers():
    known = statistics.Categories(("2", "1", "<missing>"))
    assert _encode_known([1, 3, None, 2], known).values.tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]]


def test_a_column_that_is_said_to_be_categories_is_one():
    frame = pd.DataFrame({"x": [1, 2, 2, 1], "when": ["2023-01-01", "soon", "2023-01-01", None]})
    names = columns.encode(frame, categories=["x", "when"]).names
    assert names == ["x=1", "x=2", "when=2023-01-01", "when=soon", "when=<missing>"]


# 1, 2 and 3 January 2023 are a Sunday, a Monday and a Tuesday.
def test_dates_are_days_and_weekdays():
    encoded = _encode(["2023-01-01", "2023-01-03", "2023-01-01", "2023-01-03", "2023-01-02", None], TRAIN)
    assert encoded.names == ["x", *(f"x={day}" for day in columns.WEEKDAYS)]
    assert encoded.values[:, 0].tolist() == [-1, 1, -1, 1, 0, 0]
    weekdays = [6, 1, 6, 1, 0, 7]  # 7 is none of the seven.
    np.testing.assert_array_equal(encoded.values[:, 1:], np.eye(8)[weekdays, :7])
    assert encoded.kinds == {"x": {"kind": "date", "imputed": 1, "hours": False}}


def test_dates_with_times_have_an_hour_on_a_circle():
    times = [f"2023-01-01T{hour}:00" for hour in ("00", "06", "12", "18")]
    encoded = _encode([*times[:2], None, *times[2:], "?"], TRAIN)
    assert encoded.names[:4] == ["x", "x is missing", "x hour sine", "x hour cosine"]
    circle = [[0, 1], [1, 0], [0, 0], [0, -1], [-1, 0], [0, 0]]
    np.testing.assert_allclose(encoded.values[:, 2:4], circle, atol=1e-7)
    # 0, 6 and 12 hours: mean 6, deviation sqrt(24).
    np.testing.assert_allclose(encoded.values[:5, 0], np.array([-6, 0, 0, 6, 12]) / np.sqrt(24), rtol=1e-6)
    assert encoded.values[:, 1].tolist() == [0, 0, 1, 0, 0, 1]
    assert encoded.values[[2, 5], 2:].tolist() == [[0] * 9] * 2


def test_dates_are_measured_by_what_is_known_from_elsewhere():
    known = statistics.Dates(19358.0, 2.0, has_missing=False, has_times=False)
    assert _encode_known(["2023-01-05", None], known).values[:, 0].tolist() == [2, 0]
    assert _encode_known([None, None], known).values.tolist() == [[0] * 8] * 2
    with pytest.raises(UsageError, match=r"'x' has dates in .* holds '1'"):
        _encode_known([1, 2], known)
    with pytest.raises(UsageError, match=r"'x' has numbers in .* holds '2023-01-05'"):
        _encode_known(["2023-01-05", None], statistics.Numbers(0.0, 1.0, has_missing=False))


def test_several_columns_are_refused_at_once():
    frame = pd.DataFrame({"name": [f"n{row}" for row in range(60)], "age": ["n/k", "?", *map(str, range(58))]})
    with pytest.raises(UsageError, match=r"'name' contains .*_columns=name.*\n.*'age' has .*_values='n/k'"):
        columns.encode(frame)


def test_text_that_is_distinct_in_nearly_all_rows_or_has_too_many_categories_is_refused():
    def codes(rows, distinct):
        return [f"n{row % distinct}" for row in range(rows)]

    message = r"'x' contains text with 57 distinct values in 60 rows, .*--ignore_columns=x, or keep"
    with pytest.raises(UsageError, match=message):
        _encode(codes(60, 57))
    assert [len(_encode(codes(*size)).names) for size in ((60, 56), (49, 49))] == [56, 49]
    assert len(columns.encode(pd.DataFrame({"x": codes(60, 60)}), named=["x"]).names) == 60
    with pytest.raises(UsageError, match="1001 distinct values, more than 1000: leave it out with --ignore_columns=x"):
        columns.encode(pd.DataFrame({"x": codes(1001, 1001)}), named=["x"], categories=["x"])


NUMBERS = [str(number) for number in range(95)]
JANUARY = [f"2023-01-{day:02d}" for day in range(1, 32)]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["1", "10", "2", "?", "low", "1"], ["1", "10", "2", "?", "low"]),
        ([True, False, True, False, None], ["False", "True", "<missing>"]),
        (pd.Series([10, 2, 2, 10], dtype="category"), ["2", "10"]),
        (["007", "?", "010", "007", "?", "1"], ["007", "010", "1", "?"]),
        (["1,5", "red", "blue"], ["1,5", "blue", "red"]),
        (["1.2.10", "1.3.0", "2.0.1"], ["1.2.10", "1.3.0", "2.0.1"]),
        # Of 9 cells, as gaps are none, 8 are numbers, or dates.
        ([*NUMBERS[:8], "n/k", "?", None], [*NUMBERS[:8], "?", "n/k", "<missing>"]),
        ([*JANUARY[:8], "soon"], [*JANUARY[:8], "soon"]),
    ],
    ids=range(8),
)
def test_columns_of_neither_numbers_nor_dates_are_categories(values, names):
    assert _encode(values).names == [f"x={name}" for name in names]
    assert _encode(["01", "2.5", "10", "02", "1", "3"]).names == ["x"]  # No codes, as one has a point.


def test_many_words_beside_fewer_numbers_and_a_word_beside_few_numbers_are_categories():
    words = [f"n{row % 60}" for row in range(120)] + [str(row % 30) for row in range(119)]
    grades = ["unknown"] * 15 + [str(1 + row % 6) for row in range(85)]
    assert [len(_encode(values).names) for values in (words, grades)] == [90, 7]


# Columns of a type that says what they are: days or numbers 1, 3, and a gap.
JANUARY_1_AND_3 = pd.Series(pd.to_datetime(["2023-01-01", "2023-01-03", None]))


@pytest.mark.parametrize(
    "values",
    [
        pd.array([1, 3, None], dtype="Int64"),
        pd.array(["1", "3", None], dtype="string"),
        np.array([decimal.Decimal(1), decimal.Decimal(3), None]),
        pd.Series(pd.to_timedelta([1, 3, None], unit="D")),
        JANUARY_1_AND_3,
        JANUARY_1_AND_3.astype("datetime64[s]"),
        JANUARY_1_AND_3.dt.tz_localize("UTC"),
        JANUARY_1_AND_3.astype(pd.ArrowDtype(pa.date32())),
        JANUARY_1_AND_3.astype(pd.ArrowDtype(pa.timestamp("us", "UTC"))),
        *(pd.array([1, 3, None], dtype=pd.ArrowDtype(kind)) for kind in (pa.uint8(), pa.int64(), pa.float32())),
        pd.array(["1", "3", None], dtype=pd.ArrowDtype(pa.string())),
        pd.array([decimal.Decimal(1), decimal.Decimal(3), None], dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
        pd.arrays.SparseArray([1.0, 3.0, np.nan]),
        pd.array([1, 3, 0], dtype="Float64") / pd.array([1, 1, 0], dtype="Float64"),  # NaN, not NA.
    ],
    ids=range(16),
)
def test_types_of_numbers_times_and_spans_are_heeded(values):
    encoded = _encode(table_file.of_frame(pd.DataFrame({"x": values}), "the frame").frame["x"])
    assert encoded.names[:2] == ["x", "x is missing"]
    assert encoded.values[:, :2].tolist() == [[-1, 0], [1, 0], [0, 1]]


AMBIGUOUS = r"has numbers that contain commas or signs, .*--category_columns=x .*--ignore_columns=x\."


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [*NUMBERS[:9], "n/k"],
            r"has numbers in all but 1 of 10 cells: 'n/k' \(row 10\)\. Give --missing_values='n/k' if such cells are "
            r"missing, give --category_columns=x if all cells are categories, or leave .*--ignore_columns=x\.",
        ),
        (
            [*NUMBERS, "<5", "a,b", "<5", "c", "d"],
            r"""all but 5 of 100 cells: '<5' \(row 96\), 'a,b' \(row 97\), .* and 2 more.*'<5,"a,b",c,d'""",
        ),
        ([*NUMBERS[:9], "long " * 999], "all but 1 of 10 cells: .{,200}Correct these cells, give --category_col"),
        ([*JANUARY[:9], "soon"], r"has dates of one form in all but 1 of 10 cells: 'soon' \(row 10\)\. Give --miss"),
        ([*JANUARY[:9], "9999-12-31"], r"all but 1 of 10 cells: '9999-12-31'.*--missing_values='9999-12-31'"),
        (
            [f"<{row % 7}" for row in range(36)] + [str(row % 200 + 0.5) for row in range(264)],
            r"all but 36 of 300 cells: '<0' \(row 1\), .*--missing_values='<0,<1,<2,<3,<4,<5,<6'",
        ),
        (["unknown"] * 15 + NUMBERS[:85], "numbers in all but 15 of 100 cells: .*--missing_values='unknown' if such"),
        (["1,5", "2", "3"], AMBIGUOUS),
        (["1.234,50 €", "12,00 €"], AMBIGUOUS),
        (["$1,200", "$950"], AMBIGUOUS),
        (["$1.50", "-$2", "3"], AMBIGUOUS),
        (["5%", "%12.5"], AMBIGUOUS),
        ([*NUMBERS[:19], "0,5"], AMBIGUOUS),
        ([f"{row % 200 + 0.5}%" for row in range(300)], AMBIGUOUS),
    ],
    ids=range(14),
)
def test_numbers_and_dates_beside_other_values_or_with_two_meanings_are_refused(values, message):
    with pytest.raises(UsageError, match=f"Column 'x' .*{message}"):
        _encode(values)
    if len(set(values)) < 1000:
        assert columns.encode(pd.DataFrame({"x": values}), categories=["x"]).names


def test_rounded_names_are_refused():
    for values in ([2.0**53, 1.0, None], np.float32([2**24, 1]), [float(2**60), None, "a"]):
        with pytest.raises(UsageError, match=r"floating-point numbers such as .* rounded beyond .*dtype_backend"):
            columns.named(pd.Series(values, name="who"))
    exact = columns.named(pd.Series([2.0**53 - 1, 1.0, None], name="who"))
    assert exact.tolist()[:2] == ["9007199254740991", "1"]


def test_more_features_than_a_model_can_hold_are_refused_with_their_columns(monkeypatch):
    known = {"many": statistics.Categories(tuple("abcdefgh")), "few": statistics.Categories(("a", "b"))}
    known["x"] = statistics.Numbers(0.0, 1.0, False)
    frame = pd.DataFrame({"many": ["a"], "few": ["a"], "x": [1.0]})
    monkeypatch.setattr(columns, "MAX_FEATURES", 10)
    with pytest.raises(UsageError, match=r"give 11 features, more than 10: .* 'many' \(8 features\), 'few' \(2 "):
        columns.encode(frame, known=known)
    monkeypatch.setattr(columns, "MAX_FEATURES", 11)
    monkeypatch.setattr(memory, "available_bytes", lambda: 131)
    with pytest.raises(UsageError, match=r"The table with 11 features in each of 1 row needs about"):
        columns.encode(frame, known=known)


# 31 January 2023, a Tuesday.
DAY = 19388.0


def _read(*cells, share=1.0):
    return columns.of_texts(pd.Series(cells, dtype=object, name="when"), share)


def test_a_day_is_read_however_it_is_written():
    numbers = ["2023-01-31", "2023/1/31", "2023.01.31", "31.01.2023", "31/1/2023", "1-31-2023", "31.01.23", "1/31/23"]
    words = ["31 Jan 2023", "31-jan-2023", "31-Jan-23", "31st January 2023", "Jan 31, 2023", "January 31 2023"]
    for text in [*numbers, *words, "Tue, 31 Jan 2023"]:
        moments, others = _read(text)
        assert [column.tolist() for column in moments] == [[DAY], [0.0], [columns.WEEKDAYS.index("Tuesday")]], text
        assert others.empty


@pytest.mark.parametrize("cell", ["20230131183000", "20230131T183000", 20230131183000, 2.0230131183e13])
def test_compact_times_are_times_and_not_numbers(cell):
    moments = columns.parse(pd.Series([cell] * 60, name="x"))
    np.testing.assert_allclose(moments.days, DAY + 18.5 / 24, rtol=1e-12)
    np.testing.assert_allclose(moments.hours, 18.5, rtol=1e-9)


@pytest.mark.parametrize(
    ("cells", "values"), [([2e13, 1.0, 3.5], [2e13, 1.0, 3.5]), (["20230131183000", "1", "2"], [20230131183000, 1, 2])]
)
def test_numbers_as_large_as_compact_times_are_numbers(cells, values):
    assert columns.parse(pd.Series(cells, name="x")).tolist() == values


@pytest.mark.parametrize(
    ("text", "hour", "ahead"),
    [
        ("2023-01-31 18:30", 18.5, 0),
        ("2023-01-31T18:30:36.5", 18.5 + 36.5 / 3600, 0),
        ("31/01/2023, 6:30 PM", 18.5, 0),
        ("31 Jan 2023 12:00 a.m.", 0, 0),
        ("2023-01-31T23:00Z", 23, 0),
        ("2023-01-31T23:00+02:00", 23, 2),
        ("2023-01-31T23:00:00-0330", 23, -3.5),
        ("31 Jan 2023 11:00 pm +05", 23, 5),
    ],
)
def test_days_are_utc_but_hours_and_weekdays_are_those_written(text, hour, ahead):
    moments, _ = _read(text)
    np.testing.assert_allclose(moments.days, [DAY + (hour - ahead) / 24], rtol=1e-12)
    np.testing.assert_allclose(moments.hours, [hour], rtol=1e-9)
    assert moments.weekdays.tolist() == [1]


def test_what_is_no_date_is_none():
    dates = ["2023-02-30", "2023-13-01", "2023-01", "2023", "31 Foo 2023", "1.2.10", "123-45-6789", "soon", ""]
    for text in [*dates, "10:30", "2023-01-31 24:00", "2023-01-31 10:61", "0:30 pm"]:
        assert _read(text) is None, text


def test_dates_are_read_in_the_only_order_that_fits_all():
    assert _read("01/02/2023", "13/02/2023")[0].days.tolist() == [DAY + 1, DAY + 13]
    assert _read("02/01/2023", "02/13/2023")[0].days.tolist() == [DAY + 1, DAY + 13]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["01/01/2023", "02/01/2023"], "'02/01/2023' that can be read with the day first and the month first. Write"),
        (["01-02-03"], "the day first and the month first and the year first"),
        (["2023-01-31 10:00", "2023-01-31 10:00Z"], "'when' has times with a time zone, such as .*, and without, such"),
    ],
)
def test_dates_in_two_orders_and_times_with_and_without_a_zone_are_refused(cells, message):
    with pytest.raises(UsageError, match=message):
        _read(*cells)


def test_cells_that_are_no_dates_are_returned_if_enough_others_are_dates():
    moments, others = _read("2023-01-31", "soon", None, "2023-02-01", share=0.6)
    assert others.to_dict() == {1: "soon"}
    assert [math.isnan(day) for day in moments.days] == [False, True, True, False]
    assert moments.weekdays.tolist() == [1, -1, -1, 2]
    assert _read("2023-01-31", "soon", None, "2023-02-01", share=0.7) is None
    _, in_another_order = _read("13/01/2023", "14/01/2023", "01/15/2023", share=0.6)
    assert in_another_order.to_dict() == {2: "01/15/2023"}


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_the_type_datetime_has_the_same_values_as_its_text(zone):
    times = pd.Series(pd.to_datetime(["2023-01-31 23:15", None, "2023-07-01 00:30"]), name="when").dt.tz_localize(zone)
    typed = columns.of_datetimes(times)
    written, _ = _read(*[None if pd.isna(time) else time.isoformat() for time in times])
    assert typed.days[0] == DAY + (23.25 - (1 if zone else 0)) / 24
    for of_type, of_text in zip(typed, written, strict=True):
        np.testing.assert_allclose(of_type, of_text, rtol=1e-9)
