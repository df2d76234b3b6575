"""Tables as text for a terminal, as Markdown and as HTML."""

import functools
import math
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from optimization.study.intervals import Interval

if TYPE_CHECKING:
    import jinja2

MISSING = "–"


class Cell(NamedTuple):
    """A cell with more than a text.

    Attributes:
      text: The text.
      value: The number by which a page sorts its column; empty cells stay last.
      notes: Smaller lines below; only on a page, or in parentheses.
      kind: CSS class; only on a page.
      is_strong: Whether the text is bold; only on a page.
      look: Style of the line that a configuration's name has beside it (`page.page`); only on a page.
    """

    text: str
    value: Any = None
    notes: Sequence[str] = ()
    kind: str = ""
    is_strong: bool = False
    look: Mapping[str, Any] | None = None


Row = Sequence[Any]  # Texts, numbers, None for what is missing, or cells.


class Section(NamedTuple):
    """A part of a report: a table and the sentences below it, for a page or a terminal.

    Attributes:
      title: Its heading.
      heads: Titles of the columns.
      rows: Their cells; empty for sentences alone. The first cell of a row is its head.
      notes: The sentences.
      left: Titles of the columns whose cells are words.
      kind: CSS class of the table.
    """

    title: str
    heads: Sequence[str] = ()
    rows: Sequence[Row] = ()
    notes: Sequence[str] = ()
    left: Collection[str] = ()
    kind: str = ""

    def narrow(self, heads: Collection[str]) -> "Section":
        """The section with some of its columns."""
        places = [place for place, head in enumerate(self.heads) if head in heads]
        rows = [[row[place] for place in places] for row in self.rows]
        return self._replace(heads=[self.heads[place] for place in places], rows=rows)

    def cells(self) -> list[list[Cell]]:
        """The rows, each content as a cell; numbers and missing values are sorted by value, words by their text."""
        return [[_cell(content) for content in row] for row in self.rows]

    def markdown(self, heading: str = "###") -> str:
        """The section in Markdown."""
        table = [markdown(self.heads, self.rows)] if self.rows else []
        return "\n\n".join([f"{heading} {self.title}", *table, *self.notes]) + "\n"

    def lines(self) -> list[str]:
        """The section for a terminal."""
        table = text(self.heads, self.rows, indent="  ").splitlines() if self.rows else []
        return [f"{self.title}:", *table, *self.notes]


def text(heads: Sequence[str], rows: Sequence[Row], indent: str = "") -> str:
    """Table of aligned columns, one line per row; no line of heads if all are empty."""
    lines = [[*heads]] * any(heads) + [[_plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(f"{indent}{line}".rstrip() for line in aligned)


def markdown(heads: Sequence[str], rows: Sequence[Row]) -> str:
    """Table in Markdown."""
    lines = [heads, ["---"] * len(heads), *([_plain(cell).replace("|", "/") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def html(heads: Sequence[str], rows: Sequence[Row], kind: str = "", left: Collection[str] = ()) -> str:
    """HTML table with sortable columns; see `Section`."""
    macros: Any = templates().get_template("tables.html.jinja").module
    return str(macros.table(Section("", heads, rows, left=left, kind=kind)))


@functools.cache
def templates() -> "jinja2.Environment":
    """Templates of this folder; what they insert is escaped, unless it is `Markup`."""
    import jinja2

    loader = jinja2.FileSystemLoader(pathlib.Path(__file__).parent)
    return jinja2.Environment(autoescape=True, loader=loader, undefined=jinja2.StrictUndefined)


def number(value: float | None, shown: str) -> Cell:
    """Cell that shows `shown` and is sorted by `value`; an empty cell for None and NaN."""
    return Cell(MISSING, "") if value is None or math.isnan(value) else Cell(shown, value)


def estimate(interval: Interval | None, *, signed: bool = False) -> Cell:
    """Cell of a mean with its interval below, rounded as `Interval.text`."""
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
