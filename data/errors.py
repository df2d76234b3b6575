"""The errors whose messages are for the user."""

from collections.abc import Sequence


class UsageError(ValueError):
    """Bad input. Programs print its message and exit with status 2.

    The message says what was wrong, which flag, and what would be right.
    """


class ColumnError(UsageError):
    """A column that cannot be read as it is.

    Attributes:
      missing: Words that `--missing_values` may name.
      is_identifier: Whether nothing is lost without the column.
    """

    def __init__(self, message: str, missing: Sequence[str] = (), *, is_identifier: bool = False):
        super().__init__(message)
        self.missing, self.is_identifier = tuple(missing), is_identifier


class Failure(RuntimeError):  # noqa: N818
    """What was asked could not be done, for a reason that the message says in full. Programs exit with status 1."""
