"""Labels of a table: their classes, and what is odd about them."""

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING

from data import columns, csv_file, dates, statistics
from data.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

_MANY = 50
_NAMED = 3  # Classes that a warning names.


def classes(labels: "pd.Series") -> list[str]:
    """Returns the classes, in the order of numbers if all are some.

    Args:
      labels: Text.

    Raises:
      UsageError: If they are more than 1000; or more than 50 that are dates, or numbers of which most have decimals or
        a row each.
    """
    import pandas as pd

    names = columns.ordered(labels)
    what = f"--label_column={csv_file.flag([labels.name])} has {len(names)} distinct values"
    if len(names) > statistics.MAX_CATEGORIES:
        raise UsageError(f"{what}, more than {statistics.MAX_CATEGORIES}: name a column of classes.")
    if len(names) > _MANY:
        numbers = pd.to_numeric(pd.Series(names), errors="coerce")
        is_measured = (numbers.dropna() % 1 != 0).sum() > len(names) / 2
        if is_measured or (numbers.notna().mean() > 0.9 and len(names) > len(labels) / 2):
            raise UsageError(
                f"{what} in {len(labels)} rows, which are numbers and no classes: name a column of classes."
            )
        if dates.of_texts(pd.Series(names, name=labels.name), 0.9):
            raise UsageError(f"{what} in {len(labels)} rows, which are dates and no classes: name a column of classes.")
    return names


def warnings(labels: "pd.Series", names: Sequence[str]) -> list[str]:
    """Returns what is odd about classes: one number written in several ways, a word among numbers, a single row."""
    found, flag = [], csv_file.flag([labels.name])
    written: dict[float, list[str]] = collections.defaultdict(list)
    words = []
    for name in names:
        try:
            written[float(name)].append(name)
        except ValueError:
            words.append(name)
    same = [ways for ways in written.values() if len(ways) > 1]
    if same:
        ways = "; ".join(" and ".join(map(repr, one)) for one in same[:_NAMED])
        found.append(f"--label_column={flag} has classes that are one number in several ways: {ways}.")
    if len(words) == 1 and len(names) > 2:
        found.append(
            f"--label_column={flag} has numbers and the class {words[0]!r}: "
            f"--missing_values={csv_file.flag(words, quoted=True)} drops its rows."
        )
    counts = labels.value_counts()
    if single := [name for name in names if counts.get(name) == 1]:
        more = f" and {len(single) - _NAMED} more" if len(single) > _NAMED else ""
        told = ", ".join(map(repr, single[:_NAMED])) + more
        found.append(f"--label_column={flag} has classes of a single row: {told}.")
    return found
