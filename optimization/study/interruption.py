"""Handling of Ctrl-C and SIGTERM. It imports nothing slow: programs install it before anything else."""

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
    traceback of it. It is for programs, which call it themselves: neither importing a module nor executing a run may
    change a process's signal handlers.
    """
    for signum in _WORDS:
        signal.signal(signum, _received)


def _received(signum, frame) -> None:
    if answer(signum):
        return
    with contextlib.suppress(Exception):  # The stream may be in use by the interrupted code.
        sys.stdout.flush()
    print_line(_WORDS[signum])
    os._exit(128 + signum)


def print_line(words: str) -> None:
    """Writes a line to stderr, from a signal's handler too.

    The stream may be in use by the interrupted code, or its reader may have ended.
    """
    with contextlib.suppress(OSError):
        os.write(2, f"{words}\n".encode())


@contextlib.contextmanager
def answered(how: Callable[[int], None]) -> Iterator[None]:
    """Calls `how` on the first SIGINT or SIGTERM of a program; a second signal goes to the previous handler.

    Without `install`, it handles no signals; `answer` passes them on.

    Raises:
      KeyboardInterrupt: If `stop` was called for this thread before.
    """
    entry = threading.current_thread(), how
    _answers.append(entry)
    try:
        if entry[0] in _stopped:
            raise KeyboardInterrupt
        yield
    finally:
        with contextlib.suppress(ValueError):  # Answered.
            _answers.remove(entry)


def answer(signum: int) -> bool:
    """Passes a signal to the newest handler of `answered` in any thread; returns whether there is one."""
    if not _answers:
        return False
    _answers.pop()[1](signum)
    return True


def stop(thread: threading.Thread) -> bool:
    """Passes SIGINT to a thread's handler, and blocks later ones there; returns whether there was a handler."""
    _stopped.add(thread)
    for entry in [entry for entry in _answers if entry[0] is thread][-1:]:
        with contextlib.suppress(ValueError):  # A signal was faster.
            _answers.remove(entry)
            entry[1](signal.SIGINT)
        return True
    return False
