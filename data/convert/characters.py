"""UNIPEN's characters as images of their writers."""

import collections
import pathlib
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from data.convert import unipen
from data.errors import UsageError

# Digits, upper and lower case: the characters in EMNIST's order.
CLASSES = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CATEGORIES = ("1a", "1b", "1c")  # Isolated digits, upper and lower case.
# Three folders of one contributor, whose writers are in several of them.
_CONTRIBUTORS = {"apa": "ap", "apb": "ap", "app": "ap"}
_Drawn = dict[bytes, int]  # Labels by pixels.
_SEVERAL = -1  # Labels.
_SIDE = 28
_BOX = 20
_STROKE = 2
_FINER = 4


def unipen62(source: pathlib.Path) -> Mapping[str, np.ndarray]:
    """Returns the isolated digits and letters of all writers, see `image`; says what was left out.

    Of a writer's characters with the same pixels the first counts, or none if their labels differ.

    Args:
      source: Folder `train_r01_v07`, which has the folders `data` and `include`.

    Returns:
      `pixels` uint8 [characters, 28, 28], 255 where there is no ink; `label` uint8, in EMNIST's order; `writer` int32,
      index into `writer_ids`: the contributor and the number of the writer among the contributor's, by their names.

    Raises:
      UsageError: If there is no character.
    """
    left_out: collections.Counter[str] = collections.Counter()
    written = _by_writer(source, left_out)
    numbers: collections.Counter[str] = collections.Counter()
    names: list[str] = []
    pixels: list[np.ndarray] = []
    labels: list[int] = []
    writers: list[int] = []
    for contributor, writer in sorted(written):
        for content, label in written[contributor, writer].items():
            pixels.append(np.frombuffer(content, np.uint8).reshape(_SIDE, _SIDE))
            labels.append(label)
            writers.append(len(names))
        names.append(f"{contributor}_{numbers[contributor]:03d}")
        numbers[contributor] += 1
    if not names:
        raise UsageError(f"{source} has no isolated digit or letter: {_wanted()}")
    told = ", ".join(f"{count:,} {reason}" for reason, count in sorted(left_out.items()) if count)
    print(f"{len(pixels):,} characters of {len(names)} writers; left out: {told or 'none'}.", file=sys.stderr)
    return {
        "pixels": np.stack(pixels),
        "label": np.array(labels, np.uint8),
        "writer": np.array(writers, np.int32),
        "writer_ids": np.array(names),
    }


def _by_writer(source: pathlib.Path, left_out: collections.Counter[str]) -> dict[tuple[str, str], _Drawn]:
    """Returns each writer's labels and images, and counts others; the writer is (contributor, name)."""
    written: dict[tuple[str, str], _Drawn] = collections.defaultdict(dict)
    for category in _CATEGORIES:
        folder = source / "data" / category
        if not folder.is_dir():
            raise UsageError(f"There is no folder {folder}: {_wanted()}")
        for path in sorted(folder.rglob("*.dat")):
            contributor = path.relative_to(folder).parts[0]
            contributor = _CONTRIBUTORS.get(contributor, contributor)
            for character in unipen.characters(path, source / "include"):
                if reason := _reason(character):
                    left_out[reason] += 1
                    continue
                drawn = image(character.strokes).tobytes()
                known = written[contributor, character.writer]
                left_out["repeated"] += drawn in known
                label = CLASSES.index(character.text)
                known[drawn] = label if known.get(drawn, label) == label else _SEVERAL
    for known in written.values():
        for drawn in [drawn for drawn, label in known.items() if label == _SEVERAL]:
            left_out["images of two labels"] += 1
            del known[drawn]
    return {writer: known for writer, known in written.items() if known}


def _reason(character: unipen.Character) -> str:
    """Returns why a character cannot be drawn, or nothing."""
    if character.text not in CLASSES:
        return "neither digits nor letters"
    return "" if character.strokes else "without strokes, or in a file that is missing"


def _wanted() -> str:
    return "SOURCE_DIR must be UNIPEN's train_r01_v07, with its folders data and include."


def image(strokes: Sequence[np.ndarray]) -> np.ndarray:
    """Draws strokes: uint8 [28, 28], 255 where there is no ink.

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
