"""The errors whose messages are for the user."""


class UsageError(ValueError):
    """Bad input. Programs print its message and exit with status 2.

    The message says what was wrong, which flag, and what would be right.
    """


class Failure(RuntimeError):  # noqa: N818
    """What was asked could not be done, for a reason that the message says in full. Programs exit with status 1."""
