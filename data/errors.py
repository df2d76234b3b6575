"""Errors with messages for the user."""

from collections.abc import Sequence


class UsageError(ValueError):
    """Bad input. Programs print its message and exit with status 2.

    The message gives the error, the flag, and a remedy.
    """


class ColumnError(UsageError):
    """A column that cannot be read as it is.

    Attributes:
      missing: Words for `--missing_values`.
      is_identifier: Whether nothing is lost without the column.
    """

    def __init__(self, message: str, missing: Sequence[str] = (), *, is_identifier: bool = False):
        super().__init__(message)
        self.missing, self.is_identifier = tuple(missing), is_identifier


class Failure(RuntimeError):  # noqa: N818
    """A request failed; the message gives the reason. Programs exit with status 1."""
