"""Parser of a column's dates and times to days, hours and weekdays.

Dates may be written with the year first (2023-01-31, 2023/1/31), with the name of the month (31 Jan 2023, Jan 31,
2023) or in numbers (31/01/2023, 1/31/2023, 31.01.23), each with a time and a time zone or without. Numbers alone are
ambiguous: a column is read in the only order in which all its cells are dates, and refused if there are two.
"""

import datetime
import math
import re
from typing import NamedTuple

import numpy as np
import pandas as pd

from data.errors import UsageError

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ORDINAL_OF_1970 = datetime.date(1970, 1, 1).toordinal()
_CENTURY_TURNS = 69  # 68 is 2068, and 69 is 1969, as in POSIX.
_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_DATE = re.compile(
    rf"""(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{{0,6}}[.,]*\ +)?
    (?:(?P<first>\d{{1,4}})(?P<mark>[-/.])(?P<second>\d{{1,2}})(?P=mark)(?P<third>\d{{1,4}})
      |(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[-.\ ]+(?P<month>{_MONTH})[-.,\ ]+(?P<year>\d{{4}}|\d\d)
      |(?P<month_first>{_MONTH})\.?\ (?P<day_second>\d{{1,2}})(?:st|nd|rd|th)?,?\ (?P<year_last>\d{{4}}))
    (?:[T,\ ]\ *(?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?::(?P<second_of>\d\d(?:[.,]\d+)?))?(?:\ ?(?P<half>[ap])\.?m\.?)?
      (?:\ ?(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?))?)?""",
    re.VERBOSE | re.IGNORECASE,
)
_ISO = (
    r"^(\d{4}[-/.]?\d\d[-/.]?\d\d(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:\.\d+)?)?)?)?)"
    r"( *(?:Z|[+-](?:\d\d(?::?\d\d)?|\d:\d\d)))?$"
)  # The time as written, and its zone.
# The places of year, month and day.
_ORDERS = {
    "the day first": ("third", "second", "first"),
    "the month first": ("third", "first", "second"),
    "the year first": ("first", "second", "third"),
}


class Moments(NamedTuple):
    """Dates of a column, [rows] each.

    Attributes:
      days: float64, since 1970 began: in UTC if there is a time zone, else as written; NaN where a date is missing.
      hours: float64 from 0 to below 24, as written; NaN where a date is missing.
      weekdays: int64, indices into `WEEKDAYS`, as written; -1 where a date is missing.
    """

    days: np.ndarray
    hours: np.ndarray
    weekdays: np.ndarray


def of_datetimes(column: pd.Series, utc: pd.Series | None = None) -> Moments:
    """Converts a column of type datetime64, with or without a time zone; `utc` has the times without zones in UTC."""
    if column.dt.tz is not None:
        column, utc = column.dt.tz_localize(None), column.dt.tz_convert("UTC").dt.tz_localize(None)
    local, days = (_days(times) for times in (column, column if utc is None else utc))
    return Moments(days, local % 1 * 24, _weekdays(np.floor(local)))


def _days(column: pd.Series) -> np.ndarray:
    times = column.to_numpy("datetime64[us]")
    return np.where(np.isnat(times), np.nan, times.astype(np.int64) / (24 * 3600 * 1e6))


def _weekdays(days: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(days), -1, (np.nan_to_num(days) + 3) % 7).astype(np.int64)  # 1970 began on a Thursday.


def of_texts(written: pd.Series, share: float) -> tuple[Moments, pd.Series] | None:
    """Dates of a column, and its cells that are no dates; None if fewer than a share of cells are dates.

    Args:
      written: Text, NaN where a date is missing.
      share: The part of the cells that must be dates, in some order of day, month and year.

    Raises:
      UsageError: If the order of day, month and year is ambiguous, or only some times have a time zone.
    """
    if quickly := _of_iso(written):
        return quickly, written[:0]
    codes, distinct = pd.factorize(written)
    texts = pd.Series(distinct, dtype=object, name=written.name)
    readings = np.array([_readings(text) for text in distinct], np.float64).reshape(-1, len(_ORDERS) + 2)
    in_orders, seconds, zones = readings[:, :-2].T, readings[:, -2], readings[:, -1]
    is_date = ~np.isnan(in_orders).all(axis=0)
    counts = np.bincount(codes[codes >= 0])
    if not is_date.any() or counts[is_date].sum() < share * counts.sum():
        return None
    local = in_orders[_order(texts[is_date], in_orders[:, is_date])]
    is_read = ~np.isnan(local)
    _check_zones(texts[is_read & ~np.isnan(zones)], texts[is_read & np.isnan(zones)])

    def of_rows(values: np.ndarray) -> np.ndarray:
        return np.append(np.where(is_read, values, np.nan), np.nan)[codes]

    days = of_rows(local + (seconds - np.nan_to_num(zones)) / 86400)
    return Moments(days, of_rows(seconds / 3600), _weekdays(of_rows(local))), written[np.isnan(days) & written.notna()]


def _of_iso(written: pd.Series) -> Moments | None:
    """Equals `of_texts`, many times as fast, if all dates are ISO 8601 from 1678 to 2261."""
    parts = written.astype(object).str.extract(_ISO)
    if written.isna().all() or parts[0].isna().sum() > written.isna().sum():
        return None
    local = pd.to_datetime(parts[0], format="ISO8601", errors="coerce")
    utc = pd.to_datetime(written, format="ISO8601", errors="coerce", utc=True)
    if max(local.isna().sum(), utc.isna().sum()) > written.isna().sum():
        return None
    has_zone = parts[1].notna()
    _check_zones(written[has_zone], written[~has_zone].dropna())
    return of_datetimes(local, utc.dt.tz_localize(None))


def _readings(text: str) -> list[float]:
    """Days since 1970 in each of `_ORDERS`; seconds since midnight, and ahead of UTC; each NaN where there is none."""
    match, nothing = _DATE.fullmatch(text), [math.nan] * (len(_ORDERS) + 2)
    if not match:
        return nothing
    part = match.groupdict("")
    hours, minutes = int(part["hour"] or 0), int(part["minute"] or 0)
    seconds, half = float(part["second_of"].replace(",", ".") or 0), part["half"].lower()
    if hours > 23 or minutes > 59 or seconds >= 60 or (half and not 1 <= hours <= 12):
        return nothing
    hours = hours % 12 + 12 * (half == "p") if half else hours
    if part["first"]:
        # 1.2.10 is a version, and a two-digit year comes first only in 23-01-31.
        is_version = part["mark"] == "." and len(part["first"] + part["second"] + part["third"]) < 6
        is_short = len(part["first"]) == 2 and part["mark"] != "-"
        days = [
            math.nan if is_version or (is_short and year == "first") else _day(part[year], part[month], part[day])
            for year, month, day in _ORDERS.values()
        ]
    else:
        month = _MONTHS.index((part["month"] + part["month_first"])[:3].lower()) + 1
        days = [_day(part["year"] + part["year_last"], str(month), part["day"] + part["day_second"])] * len(_ORDERS)
    digits = re.sub(r"\D", "", part["zone"]).ljust(4, "0")
    ahead = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1 if part["zone"].startswith("-") else 1)
    return [*days, hours * 3600 + minutes * 60 + seconds, ahead if part["zone"] else math.nan]


def _day(year: str, month: str, day: str) -> float:
    """Days since 1970 of digits; NaN where there is no such day."""
    if len(year) not in (2, 4) or len(month) > 2 or len(day) > 2:
        return math.nan
    century = (1900 if int(year) >= _CENTURY_TURNS else 2000) * (len(year) == 2)
    try:
        return datetime.date(int(year) + century, int(month), int(day)).toordinal() - _ORDINAL_OF_1970
    except ValueError:
        return math.nan


def _order(texts: pd.Series, in_orders: np.ndarray) -> int:
    """Order in which all texts are dates; if there is none, that in which most are."""
    right = (~np.isnan(in_orders)).sum(axis=1)
    possible = np.flatnonzero(right == len(texts))
    if not len(possible):
        return int(right.argmax())
    is_unclear = (in_orders[possible] != in_orders[possible[0]]).any(axis=0)
    if is_unclear.any():
        place = int(is_unclear.argmax())
        day = np.datetime64(int(in_orders[possible[0], place]), "D")
        raise UsageError(
            f"Column {texts.name!r} has dates such as {texts.iloc[place]!r} that can be read with "
            f"{' and '.join(list(_ORDERS)[order] for order in possible)}: write them as {day}, or leave the column out "
            "with --ignore_columns."
        )
    return int(possible[0])


def _check_zones(with_zone: pd.Series, without: pd.Series) -> None:
    if len(with_zone) and len(without):
        raise UsageError(
            f"Column {with_zone.name!r} has times with a time zone, such as {with_zone.iloc[0]!r}, and without, such "
            f"as {without.iloc[0]!r}: write all in one way, or leave the column out with --ignore_columns."
        )
