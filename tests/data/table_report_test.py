"""Tests of data.table_report: the lines that are printed."""

from data import table_report

COLUMNS = [
    {"name": "id", "use": "none", "kind": "dropped", "why": "--ignore_columns"},
    {"name": "age", "use": "feature", "kind": "number", "imputed": 3},
    {"name": "colour", "use": "feature", "kind": "category", "categories": 2, "missing": 1, "unknown": 4},
    {"name": "day", "use": "feature", "kind": "date", "hours": True},
    {"name": "site", "use": "client", "kind": "category", "categories": 4},
    {"name": "y", "use": "label", "kind": "category", "categories": 3},
]
REPORT = {
    "rows": 90, "clients": 4, "dropped_rows": {"without_client": 0, "without_label": 2}, "columns": COLUMNS,
    "form": {"encoding": "cp1252", "separator": "semicolon"}, "missing_values": {"n/k": 5, "-9": 0},
    "percents": ["risk"], "warnings": ["it is odd."],
}  # fmt: skip


def test_each_column_has_a_line():
    assert list(table_report.lines(REPORT)) == [
        "90 rows of 4 clients (encoding cp1252, separator semicolon). Use of each column:",
        "  site    client   category (4)",
        "  y       label    category (3)",
        "  age     feature  number, 3 imputed",
        "  colour  feature  category (2), 1 missing, 4 unknown",
        "  day     feature  date with times",
        "  id      none     dropped (--ignore_columns)",
        "  2 rows dropped: without label",
        "  5 cells hold 'n/k': missing",
        "Warning: --missing_values names '-9', but no cell contains it.",
        "  in column 'risk', numbers have a percent sign, so they are divided by 100 (0.4% is read as 0.004)",
        "Warning: it is odd.",
    ]


def test_of_many_columns_the_first_have_a_line_and_the_rest_are_counted():
    many = [{"name": f"x{number}", "use": "feature", "kind": "number"} for number in range(300)]
    assert list(table_report.lines({"rates": [0.1]})) == []  # Of other data.
    many[17]["name"] = "blood\npressure"
    *_, last, rest = table_report.lines({"rows": 9, "clients": 2, "dropped_rows": {}, "columns": many + COLUMNS})
    assert last.split() == ["blood", "pressure", "feature", "number"]
    kinds = "feature, number: 283; feature, category: 1; feature, date: 1; none, dropped: 1"
    assert rest == f"  and 286 more ({kinds}), all in config.json"
