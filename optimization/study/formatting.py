"""Helpers for user input and output: unknown names, comma-separated lists and paths."""

import csv
import io
import os
from collections.abc import Iterable

from data.errors import UsageError, did_you_mean, near_names
from data.files import user_path


def unknown(flag: str, name: str, known: Iterable[str], otherwise: str) -> UsageError:
    """Error for an unknown name, which lists similar names, or gives the advice `otherwise` if there are none."""
    return UsageError(f"--{flag}={name} is not known: {did_you_mean(near_names(name, known), otherwise)}")


def words(value: str | None) -> list[str]:
    """Splits a comma-separated value."""
    return [] if value is None else [word.strip() for word in value.split(",")]


def whole_numbers(flag: str, text: str) -> list[int]:
    """Parses a flag's comma-separated whole numbers.

    Raises:
      UsageError: If one of them is not a whole number above 0.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"--{flag}={text} must be whole numbers above 0, separated by commas.")
    return [int(word) for word in words]


def joined(words: Iterable[str]) -> str:
    """Joins words with commas, and quotes words that contain a comma."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(words)
    return text.getvalue()


def shown_path(path: str) -> str:
    """Path as a user would write it, relative to the working directory if it is below that."""
    relative = os.path.relpath(path, user_path("."))
    return path if relative.startswith("..") else relative
