"""What Ctrl-C and SIGTERM do to a program. It imports nothing slow: programs install it before anything else."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator

_WORDS = {signal.SIGINT: "Interrupted.", signal.SIGTERM: "Terminated."}


def install() -> None:
    """Has SIGINT and SIGTERM end this process at once, with one line and the status 128 + signal.

    They raise nothing, because an import, a callback or an event loop in between would swallow an exception, or make a
    traceback of it. It is for programs, which call it themselves: importing a module must not change how a process
    answers signals.
    """
    for signum in _WORDS:
        signal.signal(signum, _end)


def _end(signum, frame) -> None:
    with contextlib.suppress(Exception):  # Perhaps the very stream that was being written to.
        sys.stdout.flush()
    tell(_WORDS[signum])
    os._exit(128 + signum)


def tell(words: str) -> None:
    """Writes a line to stderr, from a signal's handler too.

    Perhaps the signal came while that stream was being written to, or ended who reads it.
    """
    with contextlib.suppress(OSError):
        os.write(2, f"{words}\n".encode())


@contextlib.contextmanager
def answered(answer: Callable[[int], None]) -> Iterator[None]:
    """Has `answer` called with the first SIGINT or SIGTERM; a second is left to who was in charge before."""

    def first(signum, frame):
        restore()
        answer(signum)

    def restore():
        for signum, handler in before.items():
            signal.signal(signum, handler)

    before = {signum: signal.signal(signum, first) for signum in _WORDS}
    try:
        yield
    finally:
        restore()
