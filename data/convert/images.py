"""Published images as the archives that tasks read: MNIST with its writers, Fashion-MNIST, CIFAR-100 and UNIPEN.

UNIPEN's characters (Guyon et al. 1994, UNIPEN 1.0) are rendered as images. A file is a list of statements, `.KEYWORD
arguments`, and includes others by their path below `include`. Coordinates between `.PEN_DOWN` and `.PEN_UP` are a
component; `.SEGMENT CHARACTER 3:0-4:7 OK "a"` labels the components 3 and 4, the latter up to point 7, as an `a`.
Components are counted from 0, over all included files; those with the pen up count if they have coordinates.
"""

import collections
import hashlib
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from data import convert
from data.errors import UsageError
from data.tasks import images

Arrays = Mapping[str, np.ndarray]

_CIFAR_ARCHIVE = "cifar-100-python.tar.gz"
_CIFAR_IMAGES_PER_CLASS = 150
_SERIES, _WRITER = 1, 2  # Columns of QMNIST's labels, of which the first is the digit.
# MNIST's and Fashion-MNIST's names of their parts, which are QMNIST's `train` and `test`.
_PARTS = {"train": "train", "test": "t10k"}
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
_WANTED = "SOURCE_DIR must be UNIPEN's train_r01_v07, with its folders data and include."


def mnist_writers(source: pathlib.Path) -> Arrays:
    """MNIST with the writers named in QMNIST's labels.

    Args:
      source: Folder of MNIST's four files, `train-images-idx3-ubyte` and so on, and of QMNIST's two,
        `qmnist-train-labels-idx2-int` and `qmnist-test-labels-idx2-int`; each may be gzipped. QMNIST's first labels are
        those of MNIST's digits, in the same order.

    Returns:
      For `train` and `test`: `x` uint8 [digits, 28, 28] with background 0, `y` uint8, `writer` int16 (NIST's number),
      `hsf` int8 (NIST's series).

    Raises:
      UsageError: If a file is missing or damaged, or they are not of the same digits.
    """
    parts = {part: _with_writers(source, part, name) for part, name in _PARTS.items()}
    digits = {f"{key}_{part}": found[key] for part, found in parts.items() for key in ("x", "y")}
    return digits | {f"{key}_{part}": found[key] for key in ("writer", "hsf") for part, found in parts.items()}


def _with_writers(source: pathlib.Path, part: str, name: str) -> Arrays:
    x, y = _images_and_labels(source, name)
    path = _find(source, f"qmnist-{part}-labels-idx2-int")
    labels = _read(path, "int32", 2)
    if labels.shape[1] != 8 or len(labels) < len(y):
        shape = " x ".join(map(str, labels.shape))
        raise UsageError(f"{path} has {shape} numbers: it must have 8 for each of {len(y)} digits.")
    labels = labels[: len(y)]
    if (wrong := np.flatnonzero(labels[:, 0] != y)).size:
        raise UsageError(f"{path} and MNIST differ in the label of digit {wrong[0]}: they must be of the same digits.")
    return {"x": x, "y": y, "writer": labels[:, _WRITER].astype(np.int16), "hsf": labels[:, _SERIES].astype(np.int8)}


def fashion_mnist(source: pathlib.Path) -> Arrays:
    """All images of Fashion-MNIST's four files, sorted by the SHA-256 of their pixels.

    Returns:
      `x` uint8 [images, 28, 28], `y` uint8.

    Raises:
      UsageError: If a file is missing or damaged.
    """
    parts = [_images_and_labels(source, name) for name in _PARTS.values()]
    x, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = _by_digest(x)
    return {"x": x[order], "y": y[order]}


def cifar100(source: pathlib.Path) -> Arrays:
    """At most 150 images of each class of CIFAR-100, sorted by the SHA-256 of their pixels.

    They are those whose digests are the smallest.

    Args:
      source: Folder of `cifar-100-python.tar.gz`, or of its files `train` and `test`.

    Returns:
      `x` uint8 [images, 32, 32, 3], `y` uint8, the fine labels.

    Raises:
      UsageError: If a file is missing or damaged.
    """
    if (first := convert.find(source, _CIFAR_ARCHIVE, images.CIFAR_PARTS[0])).name == _CIFAR_ARCHIVE:
        parts = _open(first, images.read_cifar_archive)
    else:
        parts = [_open(convert.find(source, part), images.read_cifar) for part in images.CIFAR_PARTS]
    for pixels, labels in parts:
        is_sound = pixels.dtype == np.uint8 and labels.shape == (len(pixels),) and labels.dtype.kind == "i"
        if not is_sound or not ((labels >= 0) & (labels < 100)).all():
            raise UsageError(f"{source} holds {_CIFAR_ARCHIVE}'s files without a label from 0 to 99 for each image.")
    x, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = _by_digest(x)
    chosen = order[pd.Series(y[order]).groupby(y[order]).cumcount() < _CIFAR_IMAGES_PER_CLASS]
    return {"x": x[chosen], "y": y[chosen].astype(np.uint8)}


def _images_and_labels(source: pathlib.Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    path, labels_path = _find(source, f"{name}-images-idx3-ubyte"), _find(source, f"{name}-labels-idx1-ubyte")
    x, y = _read(path, "uint8", 3), _read(labels_path, "uint8", 1)
    if x.shape[1:] != (28, 28) or len(x) != len(y) or not len(x) or y.max() > 9:
        shape = " x ".join(map(str, x.shape))
        raise UsageError(
            f"{path} holds {shape} pixels, and {labels_path.name} {len(y)} labels: images must be 28 x 28, each with a "
            "label from 0 to 9."
        )
    return x, y


def _find(source: pathlib.Path, name: str) -> pathlib.Path:
    return convert.find(source, f"{name}.gz", name)


def _read(path: pathlib.Path, values: str, dimensions: int) -> np.ndarray:
    try:
        return images.read_idx(path, values, dimensions)
    except ValueError as error:
        raise convert.damaged(path, error) from error


def _open(path: pathlib.Path, read: Callable[[Any], Any]) -> Any:
    try:
        with path.open("rb") as file:
            return read(file)
    except (OSError, ValueError) as error:
        raise convert.damaged(path, error) from error


def _by_digest(pixels: np.ndarray) -> np.ndarray:
    digests = [hashlib.sha256(image.tobytes()).digest() for image in pixels]
    return np.array(sorted(range(len(pixels)), key=digests.__getitem__))


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
        raise UsageError(f"{source} has no isolated digit or letter: {_WANTED}")
    equal = pictures.groupby(["contributor", "writer", "pixels"], sort=False)["label"]
    is_first, has_one_label = equal.cumcount() == 0, equal.transform("nunique") == 1
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
            raise UsageError(f"There is no folder {folder}: {_WANTED}")
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
