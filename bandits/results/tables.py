"""Formats tables as text for a terminal, as Markdown and as HTML."""

import functools
import math
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jinja2

from optimization.study.intervals import Interval

MISSING = "–"


class Cell(NamedTuple):
    """A table cell that has more than text.

    Attributes:
      text: The text.
      value: The number that a page sorts the column by. Empty cells are always sorted last.
      notes: Smaller lines below the text on a page; elsewhere, text in parentheses.
      kind: CSS class; only used on a page.
      is_strong: Whether the text is bold; only used on a page.
      look: Style of the line that is drawn next to a configuration's name (`page.page`); only used on a page.
    """

    text: str
    value: Any = None
    notes: Sequence[str] = ()
    kind: str = ""
    is_strong: bool = False
    look: Mapping[str, Any] | None = None


Row = Sequence[Any]  # Each element is text, a number, a cell, or None for a missing value.


class Section(NamedTuple):
    """A section of a report: a table and the sentences below it, for a page or a terminal.

    Attributes:
      title: Heading of the section.
      heads: Titles of the columns.
      rows: Rows of cells; empty if there are only sentences. The first cell of a row is the row's head.
      notes: The sentences below the table.
      left: Titles of the left-aligned columns, whose cells are words.
      kind: CSS class of the table.
    """

    title: str
    heads: Sequence[str] = ()
    rows: Sequence[Row] = ()
    notes: Sequence[str] = ()
    left: Collection[str] = ()
    kind: str = ""

    def narrow(self, heads: Collection[str]) -> "Section":
        """Returns the section with only these columns."""
        places = [place for place, head in enumerate(self.heads) if head in heads]
        rows = [[row[place] for place in places] for row in self.rows]
        return self._replace(heads=[self.heads[place] for place in places], rows=rows)

    def cells(self) -> list[list[Cell]]:
        """Converts the rows to cells. Numbers and missing values are sorted by value, and words by their text."""
        return [[_cell(content) for content in row] for row in self.rows]

    def markdown(self, heading: str = "###") -> str:
        """Formats the section as Markdown."""
        table = [markdown(self.heads, self.rows)] if self.rows else []
        return "\n\n".join([f"{heading} {self.title}", *table, *self.notes]) + "\n"

    def lines(self) -> list[str]:
        """Formats the section for a terminal."""
        table = text(self.heads, self.rows, indent="  ").splitlines() if self.rows else []
        return [f"{self.title}:", *table, *self.notes]


def text(heads: Sequence[str], rows: Sequence[Row], indent: str = "") -> str:
    """Formats a table with aligned columns and one line per row. The heads are omitted if all are empty."""
    lines = [[*heads]] * any(heads) + [[_plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(f"{indent}{line}".rstrip() for line in aligned)


def markdown(heads: Sequence[str], rows: Sequence[Row]) -> str:
    """Formats a table as Markdown."""
    lines = [heads, ["---"] * len(heads), *([_plain(cell).replace("|", "/") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def html(heads: Sequence[str], rows: Sequence[Row], kind: str = "", left: Collection[str] = ()) -> str:
    """Formats an HTML table with sortable columns; see `Section`."""
    macros: Any = templates().get_template("tables.html.jinja").module
    return str(macros.table(Section("", heads, rows, left=left, kind=kind)))


@functools.cache
def templates() -> jinja2.Environment:
    """Loads the templates in this folder. Inserted text is escaped unless it is `Markup`."""
    loader = jinja2.FileSystemLoader(pathlib.Path(__file__).parent)
    return jinja2.Environment(autoescape=True, loader=loader, undefined=jinja2.StrictUndefined)


def number(value: float | None, shown: str) -> Cell:
    """Returns a cell that shows `shown` and is sorted by `value`. It is empty for None and NaN."""
    return Cell(MISSING, "") if value is None or math.isnan(value) else Cell(shown, value)


def estimate(interval: Interval | None, *, signed: bool = False) -> Cell:
    """Returns a cell with a mean and the interval below it, rounded as in `Interval.text`."""
    if interval is None or math.isnan(interval.mean):
        return number(None, "")
    shown, _, below = interval.text(signed=signed).partition(" (")
    below = below.removesuffix(")")
    return Cell(shown, interval.mean, [below] if below else [], is_strong=True)


def _plain(cell: Any) -> str:
    if isinstance(cell, Cell):
        return f"{cell.text} ({'; '.join(cell.notes)})" if cell.notes else cell.text
    return "" if cell is None else str(cell)


def _cell(content: Any) -> Cell:
    if isinstance(content, Cell):
        return content
    if content is None:
        return number(None, "")
    if isinstance(content, int | float) and not isinstance(content, bool):
        return Cell(str(content), content)
    return Cell(str(content).lower() if isinstance(content, bool) else str(content), kind="text")
