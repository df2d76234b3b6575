"""The error that means: the user asked for something that cannot be done as asked."""


class UsageError(ValueError):
    """Bad input. Programs print its message and exit with status 2.

    The message says what was wrong, which flag, and what would be right.
    """
