"""What Ctrl-C and SIGTERM do to a program. It imports nothing slow: programs install it before anything else."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator

_WORDS = {signal.SIGINT: "Interrupted.", signal.SIGTERM: "Terminated."}
_answers: list[Callable[[int], None]] = []


def install() -> None:
    """Has SIGINT and SIGTERM end this process at once, with one line and the status 128 + signal, unless `answered`.

    They raise nothing, because an import, a callback or an event loop in between would swallow an exception, or make a
    traceback of it. It is for programs, which call it themselves: neither importing a module nor playing a run must
    change how a process answers signals.
    """
    for signum in _WORDS:
        signal.signal(signum, _received)


def _received(signum, frame) -> None:
    if answer(signum):
        return
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
def answered(how: Callable[[int], None]) -> Iterator[None]:
    """Has `how` called with the first SIGINT or SIGTERM of a program; a second is for who came before.

    Where `install` was not called, signals are none of its business: `answer` says there what has come.
    """
    _answers.append(how)
    try:
        yield
    finally:
        if how in _answers:
            _answers.remove(how)


def answer(signum: int) -> bool:
    """Has a signal answered by who came last to be `answered`, in whichever thread; returns whether there is one."""
    if not _answers:
        return False
    _answers.pop()(signum)
    return True
