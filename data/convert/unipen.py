"""UNIPEN's characters as images of their writers (Guyon et al. 1994, UNIPEN 1.0).

A file is a list of statements, `.KEYWORD arguments`, and includes others by their path below `include`. Coordinates
between `.PEN_DOWN` and `.PEN_UP` are a component; `.SEGMENT CHARACTER 3:0-4:7 OK "a"` labels the components 3 and
4, the latter up to point 7, as an `a`. Components are counted from 0, over all included files; those with the pen up
count if they have coordinates.
"""

import collections
import pathlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from data.errors import UsageError

# Digits, upper and lower case: the characters in EMNIST's order.
CLASSES = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CATEGORIES = ("1a", "1b", "1c")  # Isolated digits, upper and lower case.
# Three folders of one contributor, whose writers are in several of them.
_CONTRIBUTORS = {"apa": "ap", "apb": "ap", "app": "ap"}
_SIDE = 28
_BOX = 20
_STROKE = 2
_FINER = 4
_STATEMENT = re.compile(r"^\.([A-Z_]+)[ \t]*", re.MULTILINE)
_SEGMENT = re.compile(r'CHARACTER\s+(\S+)\s+\S+\s+"(\\?.)"', re.DOTALL)
_SPAN = re.compile(r"(\d+)(?::(\d+))?(?:-(\d+)(?::(\d+))?)?")
_DELINEATION = re.compile(f"{_SPAN.pattern}(?:,{_SPAN.pattern})*")
_LARGEST = 1e9  # Coordinates.


class Character(NamedTuple):
    """A written character.

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


def unipen62(source: pathlib.Path) -> Mapping[str, np.ndarray]:
    """Isolated digits and letters of all writers, see `image`; prints what was left out.

    Of a writer's characters with equal pixels only the first is kept, or none if their labels differ.

    Args:
      source: Folder `train_r01_v07`, which has the folders `data` and `include`.

    Returns:
      `pixels` uint8 [characters, 28, 28], 255 where there is no ink; `label` uint8, in EMNIST's order; `writer` int32,
      index into `writer_ids`: the contributor and the number of the writer among the contributor's, by their names.

    Raises:
      UsageError: If there is no such character.
    """
    left_out: collections.Counter[str] = collections.Counter()
    pictures = pd.DataFrame(_pictures(source, left_out), columns=["contributor", "writer", "pixels", "label"])
    if pictures.empty:
        raise UsageError(f"{source} has no isolated digit or letter: {_wanted()}")
    images = pictures.groupby(["contributor", "writer", "pixels"], sort=False)["label"]
    is_first, has_one_label = images.cumcount() == 0, images.transform("nunique") == 1
    left_out["repeated"] = int((~is_first).sum())
    left_out["images of two labels"] = int((is_first & ~has_one_label).sum())
    kept = pictures[is_first & has_one_label].sort_values(["contributor", "writer"], kind="stable")
    writers = kept.drop_duplicates(["contributor", "writer"])
    names = writers["contributor"] + "_" + writers.groupby("contributor").cumcount().map("{:03d}".format)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(left_out.items()) if count)
    print(f"{len(kept):,} characters of {len(names)} writers; left out: {reasons or 'none'}.", file=sys.stderr)
    pixels = np.frombuffer(b"".join(kept["pixels"]), np.uint8)
    return {
        "pixels": pixels.reshape(-1, _SIDE, _SIDE),
        "label": kept["label"].to_numpy(np.uint8),
        "writer": kept.groupby(["contributor", "writer"]).ngroup().to_numpy(np.int32),
        "writer_ids": np.array(names.tolist()),
    }


def _pictures(source: pathlib.Path, left_out: collections.Counter[str]) -> Iterator[tuple[str, str, bytes, int]]:
    """Yields contributor, writer, pixels and label of each character, and counts others."""
    for category in _CATEGORIES:
        folder = source / "data" / category
        if not folder.is_dir():
            raise UsageError(f"There is no folder {folder}: {_wanted()}")
        for path in sorted(folder.rglob("*.dat")):
            contributor = path.relative_to(folder).parts[0]
            contributor = _CONTRIBUTORS.get(contributor, contributor)
            for character in characters(path, source / "include"):
                if character.text not in CLASSES:
                    left_out["neither digits nor letters"] += 1
                elif not character.strokes:
                    left_out["without strokes, or in a file that is missing"] += 1
                else:
                    pixels = image(character.strokes).tobytes()
                    yield contributor, character.writer, pixels, CLASSES.index(character.text)


def _wanted() -> str:
    return "SOURCE_DIR must be UNIPEN's train_r01_v07, with its folders data and include."


def image(strokes: Sequence[np.ndarray]) -> np.ndarray:
    """Renders strokes: uint8 [28, 28], 255 where there is no ink.

    The longer side of what they span becomes 20 pixels, its middle the image's. Lines are 2 pixels wide with round
    ends, drawn black on white four times as fine and averaged, without further smoothing. A dot is in the middle.

    Args:
      strokes: float64 [points, 2] each, y upwards.
    """
    from PIL import Image, ImageDraw

    points = np.concatenate(strokes)
    low, high = points.min(axis=0), points.max(axis=0)
    scale = np.float32(_BOX * _FINER / ((high - low).max() or 1))
    radius = np.float32(_STROKE * _FINER / 2)
    canvas = Image.new("L", (_SIDE * _FINER, _SIDE * _FINER), 255)
    pen = ImageDraw.Draw(canvas)
    for stroke in strokes:
        centred = (stroke - (low + high) / 2).astype(np.float32) * np.array([1, -1], np.float32)
        placed = centred * scale + np.float32(_SIDE * _FINER / 2)
        if len(placed) > 1:
            pen.line(list(map(tuple, placed.tolist())), fill=0, width=_STROKE * _FINER, joint="curve")
        for end in (placed[0], placed[-1]):
            pen.ellipse([*(end - radius).tolist(), *(end + radius).tolist()], fill=0)
    return np.asarray(canvas.resize((_SIDE, _SIDE), Image.Resampling.BOX))


def characters(path: pathlib.Path, include: pathlib.Path) -> Iterator[Character]:
    """Yields the characters of a file; without strokes, if its delineation has no points.

    Args:
      path: The file.
      include: Folder of included files. Missing files, and files that include themselves, are skipped.
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
        elif keyword == "SEGMENT" and (segment := _SEGMENT.match(text)):
            segments.append(segment)
    for segment in segments:
        part = list(_delineated(segment[1], pens))
        strokes = [pen.points for pen in part if pen.is_down and len(pen.points)]
        yield Character(segment[2], part[0].writer if part else writer, strokes)


def _statements(
    path: pathlib.Path, include: pathlib.Path, includers: Sequence[pathlib.Path]
) -> Iterator[tuple[str, str]]:
    text = path.read_text(encoding="latin-1")
    matches = list(_STATEMENT.finditer(text))
    starts = [match.start() for match in matches] + [len(text)]
    for match, end in zip(matches, starts[1:], strict=True):
        arguments = text[match.end() : end]
        if match[1] != "INCLUDE":
            yield match[1], arguments
        elif (included := include / arguments.strip()).is_file() and included not in includers:
            yield from _statements(included, include, [*includers, included])


def _points(text: str, columns: Sequence[str]) -> np.ndarray:
    """Float64 [points, 2]; no points where the numbers do not fill the columns."""
    try:
        numbers = np.array(text.split(), np.float64)
        if not (np.abs(numbers) < _LARGEST).all():
            raise ValueError("no coordinates")
        return numbers.reshape(-1, len(columns))[:, [columns.index("X"), columns.index("Y")]]
    except ValueError:
        return np.zeros((0, 2))


def _delineated(delineation: str, pens: Sequence[_Pen]) -> Iterator[_Pen]:
    """Yields the components of `1-2:5,7`: the first, the second up to its point 5, and the seventh."""
    for span in _SPAN.finditer(delineation) if _DELINEATION.fullmatch(delineation) else ():
        start, first, end = int(span[1]), int(span[2] or 0), int(span[3] or span[1])
        for number in range(start, min(end, len(pens) - 1) + 1):
            pen = pens[number]
            low = first if number == start else 0
            high = int(span[4]) + 1 if number == end and span[4] else len(pen.points)
            yield pen._replace(points=pen.points[low:high])
