"""Parser of numbers and amounts that are written as text."""

import re

import numpy as np
import pandas as pd

from data.schema import COMMA, POINT

PERCENT = "%"
SIGNS = "[$€£¥₹₩₽₺₪฿₫₱₦%]"
MOSTLY = 0.9
MISSING_AMONG_NUMBERS = ("?", "None")  # Besides the words that are missing everywhere; the former in UCI's files.
# The exponent is bounded: pandas' own parser crashes on 05179e2916004192, which is an identifier.
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]{1,4})?|inf(?:inity)?)", re.IGNORECASE)
_GROUPED_WITH_POINT = r"[+-]?\d{1,3}(?:,\d{3})+\.\d+"
_CENTS = r"[+-]?[\d.]*,(?!\d{3}(?:\D|$))\d+"  # A comma that does not group thousands.
_WITH_COMMA = r"[+-]?(?:\d{1,3}(?:[.\s'’]\d{3})+|\d*)(?:,\d+)?(?:[eE][+-]?\d{1,4})?"
DECIMAL = r"[+-]?\d*\.\d+(?:[eE][+-]?\d{1,4})?"
MAY_GROUP = r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+"


def numbers(written: pd.Series) -> np.ndarray:
    """Numbers of texts, float64 [rows]; NaN for anything else. 1e400 is infinite, and 1e99999 is no number."""
    codes, distinct = pd.factorize(written)
    values = [float(text) if _NUMBER.fullmatch(text) else np.nan for text in distinct]
    return np.array([*values, np.nan])[codes]


def _without_sign(written: pd.Series) -> pd.Series:
    return written.str.replace(rf"\s*{SIGNS}\s*", "", n=1, regex=True)


def has_decimal_commas(written: pd.Series) -> bool:
    """Whether some texts are numbers with a decimal comma, possibly with a sign."""
    bare = _without_sign(written)
    return bool((bare.str.fullmatch(_WITH_COMMA) & bare.str.contains(COMMA, regex=False)).any())


def with_decimal_points(written: pd.Series) -> pd.Series:
    """Texts such as 1.5 in a column of numbers, whose point cannot group thousands."""
    bare = _without_sign(written)
    is_decimal = bare.str.fullmatch(DECIMAL) & ~bare.str.fullmatch(MAY_GROUP)
    is_number = is_decimal | bare.str.fullmatch(_WITH_COMMA)
    return written[is_decimal] if is_number.sum() >= MOSTLY * len(written) else written[:0]


def plain(written: pd.Series, decimal: str) -> tuple[pd.Series, str] | None:
    """Amounts as plain numbers, and their currency sign or %; None unless at least 90% of the texts are amounts.

    They have one sign, before or after the number, or none. Percents become hundredths: all of them have the sign, or
    are 0. A comma is dropped from `$1,234.50`, as a point follows it.

    Args:
      written: Texts, none of them missing.
      decimal: The decimal sign, `.` or `,`. If it is `,`, points and spaces group thousands.
    """
    is_signed = written.str.contains(SIGNS)
    marks = set(written[is_signed].str.findall(SIGNS).explode())
    if len(marks) > 1 or not (marks or decimal == COMMA):
        return None
    bare = _without_sign(written)
    if decimal == COMMA:
        with_point = bare.str.replace(r"[.\s'’]", "", regex=True).str.replace(COMMA, POINT, regex=False)
        bare = with_point.where(bare.str.fullmatch(_WITH_COMMA), bare)
    elif bare.str.fullmatch(_GROUPED_WITH_POINT).any() and not bare.str.fullmatch(_CENTS).any():
        bare = bare.str.replace(COMMA, "", regex=False)
    values = numbers(bare)
    is_number = ~np.isnan(values)
    if PERCENT in marks:
        if (is_number & ~is_signed & (values != 0)).any():
            return None
        bare = bare + "e-2"
    return (bare.where(is_number, written), "".join(marks)) if is_number.mean() >= MOSTLY else None
