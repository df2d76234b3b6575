"""UNIPEN files: pen strokes, and the segments that say what was written with them (Guyon et al. 1994, UNIPEN 1.0).

A file is a list of statements, `.KEYWORD arguments`, and includes others by their path below `include`. Coordinates
between `.PEN_DOWN` and `.PEN_UP` are a component; `.SEGMENT CHARACTER 3:0-4:7 OK "a"` says that the components 3 and
4, the latter up to point 7, are an `a`. Components are counted from 0, over all included files; those with the pen up
count where they have coordinates.
"""

import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

_STATEMENT = re.compile(r"^\.([A-Z_]+)[ \t]*", re.MULTILINE)
_SEGMENT = re.compile(r'CHARACTER\s+(\S+)\s+\S+\s+"(\\?.)"', re.DOTALL)
_SPAN = r"\d+(?::\d+)?(?:-\d+(?::\d+)?)?"
_DELINEATION = re.compile(f"{_SPAN}(?:,{_SPAN})*")
_LARGEST = 1e9  # Coordinates.


class Character(NamedTuple):
    """What somebody wrote.

    Attributes:
      text: The character.
      writer: The writer's name in the file, empty if it has none.
      strokes: float64 [points, 2] each, x to the right, y upwards.
    """

    text: str
    writer: str
    strokes: Sequence[np.ndarray]


class _Pen(NamedTuple):
    points: np.ndarray
    is_down: bool
    writer: str


def characters(path: pathlib.Path, include: pathlib.Path) -> Iterator[Character]:
    """Yields the characters of a file; without strokes, if no points are where its delineation says.

    Args:
      path: The file.
      include: Folder of what files include. What is missing there, or includes itself, is passed over.
    """
    pens: list[_Pen] = []
    segments: list[re.Match] = []
    writer, columns = "", ["X", "Y"]
    for keyword, text in _statements(path, include, ()):
        if keyword == "WRITER_ID":
            writer = text.strip()
        elif keyword == "COORD":
            columns = text.split()
        elif keyword in ("PEN_DOWN", "PEN_UP"):
            points = _points(text, columns)
            if keyword == "PEN_DOWN" or len(points):
                pens.append(_Pen(points, keyword == "PEN_DOWN", writer))
        elif keyword == "SEGMENT" and (found := _SEGMENT.match(text)):
            segments.append(found)
    for segment in segments:
        part = list(_delineated(segment[1], pens))
        strokes = [pen.points for pen in part if pen.is_down and len(pen.points)]
        yield Character(segment[2], part[0].writer if part else writer, strokes)


def _statements(
    path: pathlib.Path, include: pathlib.Path, includers: Sequence[pathlib.Path]
) -> Iterator[tuple[str, str]]:
    text = path.read_text(encoding="latin-1")
    found = list(_STATEMENT.finditer(text))
    starts = [one.start() for one in found] + [len(text)]
    for one, end in zip(found, starts[1:], strict=True):
        arguments = text[one.end() : end]
        if one[1] != "INCLUDE":
            yield one[1], arguments
        elif (other := include / arguments.strip()).is_file() and other not in includers:
            yield from _statements(other, include, [*includers, other])


def _points(text: str, columns: Sequence[str]) -> np.ndarray:
    """Returns float64 [points, 2]; none where they are not as many numbers as the columns say."""
    try:
        numbers = np.array(text.split(), np.float64)
        if not (np.abs(numbers) < _LARGEST).all():
            raise ValueError("no coordinates")
        return numbers.reshape(-1, len(columns))[:, [columns.index("X"), columns.index("Y")]]
    except ValueError:
        return np.zeros((0, 2))


def _delineated(delineation: str, pens: Sequence[_Pen]) -> Iterator[_Pen]:
    """Yields the components of `1-2:5,7`: the first, the second up to its point 5, and the seventh."""
    for span in delineation.split(",") if _DELINEATION.fullmatch(delineation) else ():
        first, _, last = span.partition("-")
        start, first_point = _place(first)
        end, last_point = _place(last or str(start))
        for number in range(start, min(end, len(pens) - 1) + 1):
            pen = pens[number]
            low = first_point or 0 if number == start else 0
            high = last_point + 1 if number == end and last_point is not None else len(pen.points)
            yield pen._replace(points=pen.points[low:high])


def _place(text: str) -> tuple[int, int | None]:
    component, _, point = text.partition(":")
    return int(component), int(point) if point else None
