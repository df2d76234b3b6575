"""What Ctrl-C and SIGTERM do to a program. It imports nothing slow: programs install it before anything else."""

import contextlib
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator

_WORDS = {signal.SIGINT: "Interrupted.", signal.SIGTERM: "Terminated."}
_answers: list[tuple[threading.Thread, Callable[[int], None]]] = []
_stopped: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


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

    Raises:
      KeyboardInterrupt: If this thread was told to `stop` before.
    """
    own = threading.current_thread(), how
    _answers.append(own)
    try:
        if own[0] in _stopped:
            raise KeyboardInterrupt
        yield
    finally:
        with contextlib.suppress(ValueError):  # Answered.
            _answers.remove(own)


def answer(signum: int) -> bool:
    """Has a signal answered by who came last to be `answered`, in whichever thread; returns whether there is one."""
    if not _answers:
        return False
    _answers.pop()[1](signum)
    return True


def stop(thread: threading.Thread) -> bool:
    """Has SIGINT answered by who is `answered` in a thread, and nobody there later; returns whether there is one."""
    _stopped.add(thread)
    for own in [own for own in _answers if own[0] is thread][-1:]:
        with contextlib.suppress(ValueError):  # A signal was faster.
            _answers.remove(own)
            own[1](signal.SIGINT)
        return True
    return False
