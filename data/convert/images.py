"""Converts published images to the archives that tasks read: MNIST with its writers, Fashion-MNIST and CIFAR-100."""

import hashlib
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from data import convert
from data.errors import UsageError
from data.tasks import images

Arrays = Mapping[str, np.ndarray]

_CIFAR_ARCHIVE = "cifar-100-python.tar.gz"
_CIFAR_IMAGES_PER_CLASS = 150
_SERIES, _WRITER = 1, 2  # Columns of QMNIST's labels; column 0 is the digit.
# QMNIST's names of the two parts, and the names that MNIST and Fashion-MNIST use.
_PARTS = {"train": "train", "test": "t10k"}


def mnist_writers(source: pathlib.Path) -> Arrays:
    """Returns the digits of MNIST with their writers, from QMNIST's labels.

    Args:
      source: Folder with the four files of MNIST, `train-images-idx3-ubyte` and so on, and the two of QMNIST,
        `qmnist-train-labels-idx2-int` and `qmnist-test-labels-idx2-int`; each may be gzipped. QMNIST's labels begin
        with those of MNIST's digits, in the same order.

    Returns:
      Arrays whose names end in `_train` or `_test`: `x` uint8 [digits, 28, 28] with background 0, `y` uint8, `writer`
      int16 (NIST's number) and `hsf` int8 (NIST's series).

    Raises:
      UsageError: If a file is missing or damaged, or if the files describe different digits.
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
        raise UsageError(f"{path} has numbers of shape {shape}: it must have 8 numbers for each of {len(y)} digits.")
    labels = labels[: len(y)]
    if (wrong := np.flatnonzero(labels[:, 0] != y)).size:
        raise UsageError(f"{path} and MNIST have different labels for digit {wrong[0]}: their digits must agree.")
    return {"x": x, "y": y, "writer": labels[:, _WRITER].astype(np.int16), "hsf": labels[:, _SERIES].astype(np.int8)}


def fashion_mnist(source: pathlib.Path) -> Arrays:
    """Returns all images in the four files of Fashion-MNIST, sorted by the SHA-256 of their pixels.

    Returns:
      `x` uint8 [images, 28, 28], `y` uint8.

    Raises:
      UsageError: If a file is missing or damaged.
    """
    parts = [_images_and_labels(source, name) for name in _PARTS.values()]
    x, y = _by_digest(parts)
    return {"x": x, "y": y}


def cifar100(source: pathlib.Path) -> Arrays:
    """Returns at most 150 images of each class of CIFAR-100, sorted by the SHA-256 of their pixels.

    The images with the smallest digests are selected.

    Args:
      source: Folder with `cifar-100-python.tar.gz`, or with its files `train` and `test`.

    Returns:
      `x` uint8 [images, 32, 32, 3] and `y` uint8, the fine labels.

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
            raise UsageError(f"{source} holds files of {_CIFAR_ARCHIVE} in which an image has no label from 0 to 99.")
    x, y = _by_digest(parts)
    chosen = (pd.Series(y).groupby(y).cumcount() < _CIFAR_IMAGES_PER_CLASS).to_numpy()
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


def _by_digest(parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Joins pairs of images and labels, and sorts the images by the SHA-256 of their pixels."""
    x, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    digests = [hashlib.sha256(image.tobytes()).digest() for image in x]
    order = sorted(range(len(x)), key=digests.__getitem__)
    return x[order], y[order]
