"""Tables as text for a terminal, as Markdown and as HTML."""

import html as escaping
import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from optimization.study.intervals import Interval

MISSING = "–"


class Cell(NamedTuple):
    """A cell with more than a text.

    Attributes:
      text: The text.
      value: The number by which a page sorts its column; empty cells stay last.
      notes: Smaller lines below; only on a page.
      markup: HTML instead of the text; only on a page.
      kind: CSS class; only on a page.
    """

    text: str
    value: Any = None
    notes: Sequence[str] = ()
    markup: str = ""
    kind: str = ""


Row = Sequence[Any]  # Texts, numbers, None for what is missing, or cells.


class Section(NamedTuple):
    """A part of a report: a table and the sentences below it, for a page or a terminal.

    Attributes:
      title: Its heading.
      heads: Titles of the columns.
      rows: Their cells; empty for sentences alone.
      notes: The sentences.
      left: Titles of the columns whose cells are words.
    """

    title: str
    heads: Sequence[str] = ()
    rows: Sequence[Row] = ()
    notes: Sequence[str] = ()
    left: Collection[str] = ()

    def narrow(self, heads: Collection[str]) -> "Section":
        """The section with some of its columns."""
        places = [place for place, head in enumerate(self.heads) if head in heads]
        rows = [[row[place] for place in places] for row in self.rows]
        return self._replace(heads=[self.heads[place] for place in places], rows=rows)

    def html(self, heading: str = "h3") -> str:
        """The section as HTML."""
        table = html(self.heads, self.rows, left=self.left) if self.rows else ""
        notes = "".join(f'<p class="note">{escaping.escape(note)}</p>' for note in self.notes)
        return f"<{heading}>{escaping.escape(self.title)}</{heading}>{table}{notes}"

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
    """HTML table with sortable columns; the first cell of a row is its head.

    Args:
      heads: Titles of the columns.
      rows: Their cells.
      kind: Class of the table.
      left: Titles of the columns whose cells are words.
    """
    head = "".join(
        f'<th scope="col"{_class("text" * (title in left))}><button>{escaping.escape(title)}</button></th>'
        for title in heads
    )
    body = "\n".join(f"<tr>{_tag(row[0], 'th')}{''.join(_tag(cell, 'td') for cell in row[1:])}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def number(value: float | None, shown: str) -> Cell:
    """Cell that shows `shown` and is sorted by `value`; an empty cell for None and NaN."""
    return Cell(MISSING, "") if value is None or math.isnan(value) else Cell(shown, value)


def estimate(interval: Interval | None, *, signed: bool = False, without: str = "") -> Cell:
    """Cell of a mean with its interval below, rounded as `Interval.text`; `without` replaces a missing interval."""
    if interval is None or math.isnan(interval.mean):
        return number(None, "")
    shown, _, below = interval.text(signed=signed).partition(" (")
    below = below.removesuffix(")") or without
    return Cell(shown, interval.mean, [below] if below else [], markup=f"<b>{shown}</b>")


def _plain(cell: Any) -> str:
    if isinstance(cell, Cell):
        return f"{cell.text} ({'; '.join(cell.notes)})" if cell.notes else cell.text
    return "" if cell is None else str(cell)


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _tag(cell: Any, name: str) -> str:
    """HTML element of a cell; numbers and missing values are sorted by value, words by their text."""
    if cell is None:
        cell = Cell(MISSING, "")
    elif isinstance(cell, int | float) and not isinstance(cell, bool):
        cell = Cell(str(cell), cell)
    elif not isinstance(cell, Cell):
        shown = str(cell).lower() if isinstance(cell, bool) else str(cell)
        cell = Cell(shown, kind="text" * (name == "td"))
    shown = cell.markup or escaping.escape(cell.text)
    notes = "".join(f"<small>{escaping.escape(note)}</small>" for note in cell.notes)
    value = "" if cell.value is None else f' data-value="{escaping.escape(str(cell.value))}"'
    scope = ' scope="row"' if name == "th" else ""
    return f"<{name}{scope}{_class(cell.kind)}{value}>{shown}{notes}</{name}>"
