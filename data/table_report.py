"""Reports on the columns and rows of a table, for `config.json` and for the terminal."""

import collections
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from data import columns, schema, statistics, table_file, tables
from data.schema import as_flag

_ORDER = {"client": 0, "label": 1, "action": 1, "reward": 2, "feature": 4, "none": 5}  # Other uses have 3.
_NO_NUMBERS = ("--feature_columns", "--position_column", "--ignore_columns", "--partition_column")
_PRINTED = 20  # Maximum number of columns that are printed.


def of(rows: tables.Rows, encoded: columns.Encoded, *, knows_labels: bool = False) -> dict[str, Any]:
    """Describes the use and type of each column, and counts read, dropped and imputed values, in JSON types.

    Args:
      rows: Rows of the table.
      encoded: The encoded features.
      knows_labels: Whether the labels come from a file of statistics, not from the table.
    """
    table = rows.table
    warnings = []
    if rows.roles.label and not (knows_labels or rows.schema.is_log):
        warnings += name_warnings(rows.label_names, f"--label_column={as_flag([rows.roles.label])}", "class")
    if not rows.synthetic:
        warnings += name_warnings(rows.client_ids, f"--client_column={as_flag(rows.roles.clients)}", "client")
    report = {
        "rows": len(rows.frame),
        "dropped_rows": dict(rows.dropped),
        "form": dict(table.form),
        "missing_values": dict(table.missing),
        "percents": list(table.percents),
        "warnings": warnings,
        "notes": list(rows.notes),
        "synthetic_clients": rows.synthetic,
    }
    return report | {"clients": len(rows.client_ids), "columns": _of_columns(rows, encoded)}


def _of_columns(rows: tables.Rows, encoded: columns.Encoded) -> list[dict[str, Any]]:
    """Describes the use and type of each column, in the order of the table."""
    roles, wanted = rows.roles, rows.schema
    used: dict[str, dict[str, Any]] = {
        name: {"use": re.split("[_=]", flag.strip("-"))[0], "kind": "number"}
        for name, flag in roles.uses.items()
        if flag not in _NO_NUMBERS
    }
    of_client = {"use": "client", "kind": "category", "categories": len(rows.client_ids)}
    used |= {name: of_client for name in roles.clients}
    if roles.label:
        use = "action" if wanted.is_log else "label"
        used[roles.label] = {"use": use, "kind": "category", "categories": len(rows.label_names)}
    used |= {name: {"use": "feature"} | _of_feature(known, encoded, name) for name, known in encoded.learned.items()}
    used |= {name: {"use": "feature", "kind": "text"} for name in roles.texts}
    why = dict.fromkeys(roles.ignored, "--ignore_columns") | dict.fromkeys(rows.table.nameless, "it has no name")
    why |= {wanted.partition_column or "": "--partition_column", wanted.time_column or "": "--time_column"}
    why |= dict.fromkeys(roles.features, "no estimator reads features")
    return [
        {"name": name}
        | used.get(name, {"use": "none", "kind": "dropped", "why": why.get(name, "not in --feature_columns")})
        for name in (*rows.table.frame.columns, *rows.table.nameless)
    ]


def _of_feature(known: statistics.OfColumn | None, encoded: columns.Encoded, name: str) -> dict[str, Any]:
    if known is None:
        return {"kind": "dropped", "why": "no value in training rows"}
    entry: dict[str, Any] = {"kind": "number"}
    if isinstance(known, statistics.Categories):
        count = len(known.categories) - (columns.MISSING_CATEGORY in known.categories)
        entry = {"kind": "category", "categories": count}
    elif isinstance(known, statistics.Dates):
        entry = {"kind": "date", "hours": known.has_times}
    return entry | encoded.gaps[name]


def name_warnings(names: Sequence[str], flag: str, what: str) -> list[str]:
    """Warns of names that may mean a missing value: `NA`, or the only word among numbers.

    Args:
      names: Distinct names.
      flag: The flag that names their column.
      what: Description of a name, such as `class`.
    """
    is_word = np.isnan(table_file.numbers(pd.Series(list(names), dtype=object)))
    only = [name for name, spells in zip(names, is_word, strict=True) if spells and is_word.sum() == 1 < len(names) - 1]
    if not (missing := [name for name in names if name in table_file.MISSING or name in only]):
        return []
    return [
        f"{flag} has the {what} {missing[0]!r}, which is a name here: if it means a missing value, "
        f"--missing_values={as_flag(missing, quoted=True)} drops its rows."
    ]


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines to print for the report on a table or log, one per column; none for other data."""
    if log := report.get("log"):  # `log_checks.reading` reports the rest of it.
        report = {**log, "dropped_rows": {}, "percents": (), "warnings": ()}
    if "columns" not in report:
        return
    described: Sequence[Mapping[str, Any]] = sorted(report["columns"], key=lambda column: _ORDER.get(column["use"], 3))
    form = ", ".join(f"{what} {value}" for what, value in report.get("form", {}).items())
    yield f"{report['rows']} rows of {report['clients']} clients{f' ({form})' if form else ''}. Use of each column:"
    called = [" ".join(column["name"].split()) for column in described[:_PRINTED]]
    width = max(map(len, called))
    for name, column in zip(called, described, strict=False):
        yield f"  {name:<{width}}  {column['use']:<7}  {_kind(column)}"
    if rest := described[_PRINTED:]:
        kinds = collections.Counter(f"{column['use']}, {column['kind']}" for column in rest)
        counts = "; ".join(f"{kind}: {count}" for kind, count in kinds.items())
        yield f"  and {len(rest)} more ({counts}), all in config.json"
    if report.get("synthetic_clients"):
        yield f"  clients are synthetic: {report['synthetic_clients']}"
    if "prices" in report:
        prices = {action: f"{price:g}" for action, price in report["prices"].items()}
        yield f"  price of each action: {schema.described(prices)}"
    if "words" in report:
        yield f"  texts become counts of {report['words']:,} words"
    yield from (f"  {note}" for note in report.get("notes", ()))
    for why, count in report["dropped_rows"].items():
        if count:
            yield f"  {count:,} row{'s' * (count != 1)} dropped: {why.replace('_', ' ')}"
    for word, count in report.get("missing_values", {}).items():
        missed = f"Warning: no cell holds {word!r}, which --missing_values names."
        yield f"  {count} cells hold {word!r}: missing" if count else missed
    yield from (f"  in {of_percents(name)}" for name in report.get("percents", ()))
    for warning in report.get("warnings", ()):
        yield f"Warning: {warning}"


def of_percents(name: str) -> str:
    """Describes a column of percentages."""
    return f"column {name!r}, numbers have the sign '%': they are read as hundredths (0.4% is 0.004)"


def _kind(column: Mapping[str, Any]) -> str:
    parts = {
        "categories": " ({})",
        "hours": " with times",
        "why": " ({})",
        "imputed": ", {} imputed",
        "missing": ", {} missing",
        "unknown": ", {} unknown",
    }
    return column["kind"] + "".join(text.format(column[name]) for name, text in parts.items() if column.get(name))
