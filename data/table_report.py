"""Report on a table's columns and rows, for `config.json` and to print."""

import collections
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from data import columns, statistics
from data.schema import as_flag

if TYPE_CHECKING:
    from data.tables import Rows

_ORDER = ("client", "label", "reward", "feature", "none")
_PRINTED = 20  # Maximum number of columns with a line.
_NAMED = 3  # Classes that a warning names.


def of_columns(rows: "Rows", learned: columns.Learned, encoded: columns.Encoded) -> list[dict[str, Any]]:
    """Use and type of each column, in the table's order.

    Args:
      rows: The table's rows.
      learned: Statistics of the features.
      encoded: The encoded features.
    """
    roles = rows.roles
    used: dict[str, dict[str, Any]] = {
        name: {"use": "client", "kind": "category", "categories": len(rows.client_ids)} for name in roles.clients
    }
    if roles.label:
        used[roles.label] = {"use": "label", "kind": "category", "categories": len(rows.label_names)}
    used |= {name: {"use": "reward", "kind": "number"} for name in roles.rewards}
    used |= {name: {"use": "feature"} | _of_feature(learned[name], encoded, name) for name in roles.features}
    why = dict.fromkeys(roles.ignored, "--ignore_columns") | dict.fromkeys(rows.table.nameless, "it has no name")
    return [
        {"name": name} | used.get(name, {"use": "none"} | _dropped(why.get(name, "not in --feature_columns")))
        for name in (*rows.table.frame.columns, *rows.table.nameless)
    ]


def _dropped(why: str) -> dict[str, Any]:
    return {"kind": "dropped", "why": why}


def _of_feature(known: statistics.OfColumn | None, encoded: columns.Encoded, name: str) -> dict[str, Any]:
    if known is None:
        return _dropped("no value in training rows")
    entry: dict[str, Any] = {"kind": "number"}
    gaps = {"imputed": encoded.imputed, "missing": encoded.missing_as_category, "unknown": encoded.unknown}
    if isinstance(known, statistics.Categories):
        count = len(known.categories) - (columns.MISSING_CATEGORY in known.categories)
        entry = {"kind": "category", "categories": count}
    elif isinstance(known, statistics.Dates):
        entry = {"kind": "date", "hours": known.has_times}
    return entry | {what: counts[name] for what, counts in gaps.items() if name in counts}


def category_warnings(learned: columns.Learned, named: Collection[str]) -> list[str]:
    """Columns with many categories, except those that the user named."""
    counts = {name: len(one.categories) for name, one in learned.items() if isinstance(one, statistics.Categories)}
    return [
        f"column {name!r} gives {count} features, one for each category: --ignore_columns={as_flag([name])} "
        f"leaves it out, --category_columns={as_flag([name])} keeps it."
        for name, count in counts.items()
        if count > columns.MANY_CATEGORIES and name not in named
    ]


def label_warnings(rows: "Rows") -> list[str]:
    """Oddities of labels: one number written in several ways, a word among numbers, a single row."""
    if not rows.roles.label:
        return []
    oddities, flag = [], f"--label_column={as_flag([rows.roles.label])}"
    written: dict[float, list[str]] = collections.defaultdict(list)
    words = []
    for name in rows.label_names:
        try:
            written[float(name)].append(name)
        except ValueError:
            words.append(name)
    same = [ways for ways in written.values() if len(ways) > 1]
    if same:
        ways = "; ".join(" and ".join(map(repr, one)) for one in same[:_NAMED])
        oddities.append(f"{flag} has classes that are one number in several ways: {ways}.")
    if len(words) == 1 and len(rows.label_names) > 2:
        oddities.append(
            f"{flag} has numbers and the class {words[0]!r}: --missing_values={as_flag(words, quoted=True)} drops its "
            "rows."
        )
    counts = rows.frame[rows.roles.label].value_counts()
    if single := [name for name in rows.label_names if counts.get(name) == 1]:
        more = f" and {len(single) - _NAMED} more" if len(single) > _NAMED else ""
        oddities.append(f"{flag} has classes of a single row: {', '.join(map(repr, single[:_NAMED]))}{more}.")
    return oddities


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yields the printed lines of a table's report, one per column; none for other data."""
    if "columns" not in report:
        return
    described: Sequence[Mapping[str, Any]] = sorted(report["columns"], key=lambda column: _ORDER.index(column["use"]))
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
    for why, count in report["dropped_rows"].items():
        if count:
            yield f"  {count:,} row{'s' * (count != 1)} dropped: {why.replace('_', ' ')}"
    for word, count in report.get("missing_values", {}).items():
        missed = f"Warning: no cell holds {word!r}, which --missing_values names."
        yield f"  {count} cells hold {word!r}: missing" if count else missed
    for name, sign in report.get("signs", {}).items():
        yield f"  column {name!r}: numbers with {sign!r}, read without it"
    for warning in report.get("warnings", ()):
        yield f"Warning: {warning}"


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
