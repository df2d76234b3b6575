"""Parser of a column's dates and times to days, hours and weekdays.

Dates may be written with the year first (2023-01-31, 2023/1/31), with the name of the month (31 Jan 2023, Jan 31,
2023) or in numbers (31/01/2023, 1/31/2023, 31.01.23), each with a time and a time zone or without. Numbers alone are
ambiguous: a column is read in the only order in which all its cells are dates, and refused if there are two.
"""

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from data.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CENTURY_TURNS = 69  # 68 is 2068, and 69 is 1969, as in POSIX.
_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_DATE = rf"""^(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{{0,6}}[.,]*\ +)?
    (?:(?P<first>\d{{1,4}})(?P<mark>[-/.])(?P<second>\d{{1,2}})(?P=mark)(?P<third>\d{{1,4}})
      |(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[-.\ ]+(?P<month>{_MONTH})[-.,\ ]+(?P<year>\d{{4}}|\d\d)
      |(?P<month_first>{_MONTH})\.?\ (?P<day_second>\d{{1,2}})(?:st|nd|rd|th)?,?\ (?P<year_last>\d{{4}}))
    (?:[T,\ ]\ *(?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?::(?P<second_of>\d\d(?:[.,]\d+)?))?(?:\ ?(?P<half>[ap])\.?m\.?)?
      (?:\ ?(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?))?)?$"""
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


def of_datetimes(column: "pd.Series") -> Moments:
    """Converts a column of type datetime64, with or without a time zone."""
    written = utc = column
    if column.dt.tz is not None:
        written, utc = column.dt.tz_localize(None), column.dt.tz_convert("UTC").dt.tz_localize(None)
    return _of_times(written, utc)


def _of_times(written: "pd.Series", utc: "pd.Series") -> Moments:
    days, local = _days(utc), _days(written)
    whole = np.floor(local)
    return Moments(days, (local - whole) * 24, _weekdays(whole))


def _days(column: "pd.Series") -> np.ndarray:
    times = column.to_numpy("datetime64[us]")
    return np.where(np.isnat(times), np.nan, times.astype(np.int64) / (24 * 3600 * 1e6))


def _weekdays(days: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(days), -1, (np.nan_to_num(days) + 3) % 7).astype(np.int64)  # 1970 began on a Thursday.


def of_texts(written: "pd.Series", share: float) -> "tuple[Moments, pd.Series] | None":
    """Dates of a column, and its cells that are no dates; None if fewer than a share of cells are dates.

    Args:
      written: Text, NaN where a date is missing.
      share: The part of the cells that must be dates, in some order of day, month and year.

    Raises:
      UsageError: If the order of day, month and year is ambiguous, or only some times have a time zone.
    """
    import pandas as pd

    if quickly := _of_iso(written):
        return quickly, written[:0]
    codes, distinct = pd.factorize(written)
    texts = pd.Series(distinct, dtype=object, name=written.name)
    parts = texts.str.extract(_DATE, flags=re.VERBOSE | re.IGNORECASE)
    if parts.isna().all(axis=None):
        return None
    parts = parts.fillna("")
    seconds, zones = _seconds(parts), _zones(parts["zone"])
    in_orders = np.where(np.isnan(seconds), np.nan, _in_orders(parts))
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


def _of_iso(written: "pd.Series") -> Moments | None:
    """Equals `of_texts`, many times as fast, if all dates are ISO 8601 from 1678 to 2261."""
    import pandas as pd

    parts = written.astype(object).str.extract(_ISO)
    if written.isna().all() or parts[0].isna().sum() > written.isna().sum():
        return None
    local = pd.to_datetime(parts[0], format="ISO8601", errors="coerce")
    utc = pd.to_datetime(written, format="ISO8601", errors="coerce", utc=True)
    if max(local.isna().sum(), utc.isna().sum()) > written.isna().sum():
        return None
    has_zone = parts[1].notna()
    _check_zones(written[has_zone], written[~has_zone].dropna())
    return _of_times(local, utc.dt.tz_localize(None))


def _in_orders(parts: "pd.DataFrame") -> np.ndarray:
    """Days since 1970 in each of `_ORDERS`, float64 [orders, texts]; NaN where the text is no date."""
    numbers = {name: str(number) for number, name in enumerate(_MONTHS, 1)} | {"": ""}
    month = (parts["month"] + parts["month_first"]).str[:3].str.lower().map(numbers)
    named = parts["year"] + parts["year_last"], month, parts["day"] + parts["day_second"]
    is_version = (parts["mark"] == ".") & ((parts["first"] + parts["second"] + parts["third"]).str.len() < 6)
    # A two-digit year comes first only in 23-01-31.
    is_short = (parts["first"].str.len() == 2) & (parts["mark"] != "-")
    days_by_order = []
    for places in _ORDERS.values():
        days = _days_of(*(parts[place] + other for place, other in zip(places, named, strict=True)))
        days_by_order.append(np.where(is_version | (is_short & (places[0] == "first")), np.nan, days))
    return np.stack(days_by_order)


def _days_of(year: "pd.Series", month: "pd.Series", day: "pd.Series") -> np.ndarray:
    """Days since 1970 of digits, float64 [texts]; NaN where there is no such day."""
    years, months, days = (_whole(part) for part in (year, month, day))
    is_short = np.asarray(year.str.len() == 2)
    years = years + np.where(is_short, np.where(years >= _CENTURY_TURNS, 1900, 2000), 0)
    is_day = (is_short | (year.str.len() == 4)) & (month.str.len() <= 2) & (day.str.len() <= 2)
    is_day &= (years >= 1) & (months >= 1) & (months <= 12) & (days >= 1)
    first = ((years - 1970) * 12 + months - 1).astype("datetime64[M]")
    date = first.astype("datetime64[D]") + (days - 1)
    return np.where(is_day & (date.astype("datetime64[M]") == first), date.astype(np.int64), np.nan)


def _whole(digits: "pd.Series") -> np.ndarray:
    """Int64 [texts], 0 for an empty text."""
    return digits.replace("", "0").astype(np.int64).to_numpy()


def _seconds(parts: "pd.DataFrame") -> np.ndarray:
    """Seconds since midnight, float64 [texts]; 0 without a time, NaN for an invalid time."""
    hour, minute = _whole(parts["hour"]), _whole(parts["minute"])
    second = parts["second_of"].replace("", "0").str.replace(",", ".").astype(float).to_numpy()
    half = parts["half"].str.lower().to_numpy()
    is_wrong = (half != "") & ((hour < 1) | (hour > 12))
    hour = np.where(half != "", hour % 12 + 12 * (half == "p"), hour)
    is_wrong |= (hour > 23) | (minute > 59) | (second >= 60)
    return np.where(is_wrong, np.nan, hour * 3600 + minute * 60 + second)


def _zones(zone: "pd.Series") -> np.ndarray:
    """Seconds ahead of UTC, float64 [texts]; NaN without a time zone."""
    digits = zone.str.replace(r"\D", "", regex=True).str.ljust(4, "0")
    ahead = _whole(digits.str[:2]) * 3600 + _whole(digits.str[2:]) * 60
    return np.where(zone == "", np.nan, np.where(zone.str.startswith("-"), -ahead, ahead))


def _order(texts: "pd.Series", in_orders: np.ndarray) -> int:
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


def _check_zones(with_zone: "pd.Series", without: "pd.Series") -> None:
    if len(with_zone) and len(without):
        raise UsageError(
            f"Column {with_zone.name!r} has times with a time zone, such as {with_zone.iloc[0]!r}, and without, such "
            f"as {without.iloc[0]!r}: write all in one way, or leave the column out with --ignore_columns."
        )
