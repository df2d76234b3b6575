"""Reports on the columns and rows of a table, for `config.json` and for the terminal."""

import collections
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from data import columns, schema, table_file, tables
from data.errors import counted
from data.schema import as_flag

_ORDER = {"client": 0, "label": 1, "action": 1, "reward": 2, "feature": 4, "none": 5}  # Other uses have 3.
_NO_NUMBERS = ("--feature_columns", "--position_column", "--ignore_columns", "--partition_column")
_PRINTED = 20  # Maximum number of columns that are printed.
_DETAILS = {
    "categories": " ({})", "hours": " with times", "why": " ({})",
    "imputed": ", {} imputed", "missing": ", {} missing", "unknown": ", {} unknown",
}  # fmt: skip


def of(rows: tables.Rows, *encoded: columns.Encoded, knows_labels: bool = False) -> dict[str, Any]:
    """Describes the use and type of each column, and counts rows, dropped rows and imputed values, in JSON types.

    Args:
      rows: Rows of the table.
      *encoded: The encoded features; for sets of actions, also the encoded features of actions.
      knows_labels: Whether the labels come from a file of statistics, so that their names need no warning.
    """
    table, roles, warnings = rows.table, rows.roles, []
    if roles.label and not (knows_labels or rows.schema.is_log):
        warnings += name_warnings(rows.label_names, f"--label_column={as_flag([roles.label])}", "class")
    if not rows.synthetic_clients:
        warnings += name_warnings(rows.client_ids, f"--client_column={as_flag(roles.clients)}", "client")
    report = {name: getattr(table, name) for name in ("form", "missing_values", "percents")}
    report |= {name: getattr(rows, name) for name in ("dropped_rows", "notes", "synthetic_clients")}
    sizes: dict[str, Any] = {"rows": len(rows.frame), "clients": len(rows.client_ids)}
    if offered := rows.offered:
        counts = (offered.entries >= 0).sum(axis=1)
        sets = {"smallest": int(counts.min()), "mean": float(counts.mean()), "largest": int(counts.max())}
        kinds, own = encoded[1].kinds, roles.action_features
        features = [{"name": name, "use": "of action"} | kinds[name] for name in kinds if name not in own]
        sizes["sets"] = sets | {"actions": len(offered.names), "entries": len(offered.actions), "features": features}
    return report | sizes | {"warnings": warnings, "columns": _of_columns(rows, *encoded)}


def _of_columns(rows: tables.Rows, *encoded: columns.Encoded) -> list[dict[str, Any]]:
    """Describes the use and type of each column, in the order of the table."""
    roles = rows.roles
    numbers = {name: re.split("[_=]", flag[2:])[0] for name, flag in roles.uses.items() if flag not in _NO_NUMBERS}
    kinds = {"offered": "sets", "decision": "names"}
    used: dict[str, Any] = {name: {"use": use, "kind": kinds.get(use, "number")} for name, use in numbers.items()}
    used |= {name: {"use": "client", "kind": "category", "categories": len(rows.client_ids)} for name in roles.clients}
    if name := roles.label or rows.schema.action_column:
        use = "label" if rows.schema.label_column else "action"
        used[name] = {"use": use, "kind": "category", "categories": len(rows.label_names)}
    used |= {name: {"use": "feature"} | kind for name, kind in encoded[0].kinds.items()}
    used |= {name: {"use": "of action"} | encoded[1].kinds[name] for name in roles.action_features}
    used |= {name: {"use": "feature", "kind": "text"} for name in roles.texts}
    why = roles.uses | dict.fromkeys(rows.table.nameless, "it has no name")
    why |= dict.fromkeys(roles.features, "no estimator reads features")
    unused = {"use": "none", "kind": "dropped"}
    return [
        {"name": name} | used.get(name, unused | {"why": why.get(name, "not in --feature_columns")})
        for name in (*rows.table.frame.columns, *rows.table.nameless)
    ]


def name_warnings(names: Sequence[str], flag: str, what: str) -> list[str]:
    """Returns warnings about names that may mean a missing value: `NA`, or the only word among numbers.

    Args:
      names: Distinct names.
      flag: The flag that names their column.
      what: Description of a name, such as `class`.
    """
    numbers = table_file.numbers(pd.Series(names, dtype=object))
    words = [name for name, number in zip(names, numbers, strict=True) if np.isnan(number)]
    only = words if len(words) == 1 < len(names) - 1 else []
    if not (missing := [name for name in names if name in table_file.MISSING or name in only]):
        return []
    remedy = f"--missing_values={as_flag(missing, quoted=True)} drops such rows"
    return [f"{flag} has the {what} {missing[0]!r}, which is treated as a name: if it means a missing value, {remedy}."]


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines to print for the report on a table or log, such as one per column; none for other data."""
    if log := report.get("log"):  # `log_checks.reading` reports the rest of it.
        report = {**log, "dropped_rows": {}, "percents": (), "warnings": ()}
    if "columns" not in report:
        return
    sets = report.get("sets", {})
    every: Sequence[Mapping[str, Any]] = [*report["columns"], *sets.get("features", ())]
    described = sorted(every, key=lambda column: _ORDER.get(column["use"], 3))
    form = ", ".join(f"{what} {value}" for what, value in report.get("form", {}).items())
    size = f"{report['rows']} rows of {counted(report['clients'], 'client')}"
    yield f"{size}{f' ({form})' if form else ''}. Use of each column:"
    names = [" ".join(column["name"].split()) for column in described[:_PRINTED]]
    for name, column in zip(names, described, strict=False):
        details = "".join(text.format(column[part]) for part, text in _DETAILS.items() if column.get(part))
        yield f"  {name:<{max(map(len, names))}}  {column['use']:<7}  {column['kind']}{details}"
    if rest := described[_PRINTED:]:
        kinds = collections.Counter(f"{column['use']}, {column['kind']}" for column in rest)
        counts = "; ".join(f"{kind}: {count}" for kind, count in kinds.items())
        yield f"  and {len(rest)} more ({counts}), all in config.json"
    if report.get("synthetic_clients"):
        yield f"  clients are synthetic: {report['synthetic_clients']}"
    if "prices" in report:
        prices = {action: f"{price:g}" for action, price in report["prices"].items()}
        yield f"  price of each action: {schema.described(prices)}"
    if sets:
        yield "  rows offer {smallest} to {largest} actions, {mean:.3g} on average, of {actions} in all".format(**sets)
    if "words" in report:
        yield f"  texts become counts of {counted(report['words'], 'word')}"
    yield from (f"  {note}" for note in report.get("notes", ()))
    dropped = {why.replace("_", " "): count for why, count in report["dropped_rows"].items() if count}
    yield from (f"  {counted(count, 'row')} dropped: {why}" for why, count in dropped.items())
    for word, count in report.get("missing_values", {}).items():
        missed = f"Warning: --missing_values names {word!r}, but no cell contains it."
        yield f"  {counted(count, 'cell')} hold{'s' * (count == 1)} {word!r}: missing" if count else missed
    yield from (f"  in {of_percents(name)}" for name in report.get("percents", ()))
    yield from (f"Warning: {warning}" for warning in report.get("warnings", ()))


def of_percents(name: str) -> str:
    """Describes a column of percentages."""
    return f"column {name!r}, numbers have a percent sign, so they are divided by 100 (0.4% is read as 0.004)"
