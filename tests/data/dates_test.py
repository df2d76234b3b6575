"""Tests of data.dates: what is written as a date, and what that is."""

import math

import numpy as np
import pandas as pd
import pytest

from data import dates
from data.errors import UsageError

# 31 January 2023, a Tuesday.
DAY = 19388.0
ALL = 1.0


def _read(*cells, share=ALL):
    return dates.of_texts(pd.Series(cells, dtype=object, name="when"), share)


@pytest.mark.parametrize(
    "text",
    [
        "2023-01-31",
        "2023/1/31",
        "2023.01.31",
        "31.01.2023",
        "31/1/2023",
        "1-31-2023",
        "31.01.23",
        "1/31/23",
        "31 Jan 2023",
        "31-jan-2023",
        "31-Jan-23",
        "31st January 2023",
        "Jan 31, 2023",
        "January 31 2023",
        "Tue, 31 Jan 2023",
    ],
)
def test_a_day_is_read_however_it_is_written(text):
    moments, others = _read(text)
    assert [column.tolist() for column in moments] == [[DAY], [0.0], [dates.WEEKDAYS.index("Tuesday")]]
    assert others.empty


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2023-01-31 18:30", 18.5),
        ("2023-01-31T18:30:00", 18.5),
        ("2023-01-31T18:30:36.5", 18.5 + 36.5 / 3600),
        ("31/01/2023, 6:30 PM", 18.5),
        ("31 Jan 2023 12:00 a.m.", 0.0),
    ],
)
def test_a_time_is_a_part_of_its_day(text, hour):
    moments, _ = _read(text)
    np.testing.assert_allclose(moments.hours, [hour], rtol=1e-9)
    np.testing.assert_allclose(moments.days, [DAY + hour / 24], rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "ahead"),
    [
        ("2023-01-31T23:00Z", 0.0),
        ("2023-01-31 23:00 UTC", 0.0),
        ("2023-01-31T23:00+02:00", 2.0),
        ("2023-01-31T23:00:00-0330", -3.5),
        ("31 Jan 2023 11:00 pm +05", 5.0),
        ("2023-01-31 23:00:00 -0500", -5.0),
        ("2023-01-31 23:00:00 -05:00", -5.0),
        ("2023-01-31T23-05:00", -5.0),
        ("2023-01-31T2300-0500", -5.0),
        ("20230131T230000-0500", -5.0),
        ("20230131T230000Z", 0.0),
    ],
)
def test_days_go_by_utc_and_hour_and_weekday_as_they_are_written(text, ahead):
    moments, _ = _read(text)
    np.testing.assert_allclose(moments.days, [DAY + (23 - ahead) / 24], rtol=1e-12)
    np.testing.assert_allclose(moments.hours, [23.0])
    assert moments.weekdays.tolist() == [1]


@pytest.mark.parametrize(
    "text",
    [
        "2023-02-30",
        "2023-13-01",
        "2023-01",
        "2023",
        "10:30",
        "2023-01-31 24:00",
        "2023-01-31 10:61",
        "0:30 pm",
        "31 Foo 2023",
        "1.2.10",
        "123-45-6789",
        "soon",
        "",
    ],
)
def test_what_is_no_date_is_none(text):
    assert _read(text) is None


def test_dates_far_off_are_read():
    moments, _ = _read("0001-01-01", "9999-12-31")
    assert moments.days.tolist() == [-719162.0, 2932896.0]
    assert moments.weekdays.tolist() == [0, 4]


def test_the_one_order_in_which_all_are_dates_counts():
    assert _read("01/02/2023", "13/02/2023")[0].days.tolist() == [DAY + 1, DAY + 13]
    assert _read("02/01/2023", "02/13/2023")[0].days.tolist() == [DAY + 1, DAY + 13]


def test_where_all_orders_say_the_same_there_is_no_question():
    assert _read("02/02/2023", "03/03/2023")[0].days.tolist() == [DAY + 2, DAY + 31]


def test_two_orders_that_differ_are_refused():
    message = r"'02/01/2023' that can be read with the day first and the month first: write them as 2023-01-02, or"
    with pytest.raises(UsageError, match=message):
        _read("01/01/2023", "02/01/2023")
    with pytest.raises(UsageError, match="the day first and the month first and the year first"):
        _read("01-02-03")


def test_cells_that_are_none_are_returned_if_enough_others_are():
    moments, others = _read("2023-01-31", "soon", None, "2023-02-01", share=0.6)
    assert others.to_dict() == {1: "soon"}
    assert [math.isnan(day) for day in moments.days] == [False, True, True, False]
    assert moments.weekdays.tolist() == [1, -1, -1, 2]
    assert _read("2023-01-31", "soon", None, "2023-02-01", share=0.7) is None


def test_cells_in_the_other_order_are_none():
    _, others = _read("13/01/2023", "14/01/2023", "01/15/2023", share=0.6)
    assert others.to_dict() == {2: "01/15/2023"}


@pytest.mark.parametrize(
    "cells",
    [
        ("2023-01-31 10:00", "2023-01-31 10:00Z"),
        ("31 Jan 2023", "31 Jan 2023 1:00 UTC"),
        ("2023-01-31 23:00:00 -0500", "2023-01-31 23:00:00"),
        ("20230131T230000-0500", "20230131T230000"),
    ],
)
def test_times_with_and_without_a_zone_are_refused(cells):
    with pytest.raises(UsageError, match=r"'when' has times with a time zone, such as .*, and without, such as"):
        _read(*cells)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_the_type_datetime_has_the_same_values_as_its_text(zone):
    times = pd.Series(pd.to_datetime(["2023-01-31 23:15", None, "2023-07-01 00:30"]), name="when").dt.tz_localize(zone)
    typed = dates.of_datetimes(times)
    written, _ = _read(*[None if pd.isna(time) else time.isoformat() for time in times])
    assert typed.days[0] == DAY + (23.25 - (1 if zone else 0)) / 24
    for of_type, of_text in zip(typed, written, strict=True):
        np.testing.assert_allclose(of_type, of_text, rtol=1e-9)
