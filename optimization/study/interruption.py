"""Handling of Ctrl-C, SIGTERM and SIGHUP. It imports nothing slow, since programs install it before anything else."""

import contextlib
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator

_WORDS = {signal.SIGHUP: "Hung up.", signal.SIGINT: "Interrupted.", signal.SIGTERM: "Terminated."}
_answers: list[tuple[threading.Thread, Callable[[int], None]]] = []
_stopped: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_held: dict[threading.Thread, tuple[contextlib.ExitStack, list[int]]] = {}


def install() -> None:
    """Has signals end this process at once, with one line and the status 128 + signal, unless `answered`.

    The signals are SIGINT, SIGTERM and SIGHUP. An ignored SIGHUP, as under `nohup`, stays ignored.

    The handlers raise nothing, because an import, a callback or an event loop could swallow an exception, or print a
    traceback. Only programs call this: neither importing a module nor executing a run may change a process's signal
    handlers.
    """
    for signum in _WORDS:
        if signum != signal.SIGHUP or signal.getsignal(signum) != signal.SIG_IGN:
            signal.signal(signum, _received)


def _received(signum, frame) -> None:
    if signum == signal.SIGHUP:
        signal.signal(signum, signal.SIG_IGN)  # The shell and the kernel may both send it.
        for stream in (1, 2):
            with contextlib.suppress(OSError):
                os.write(stream, b"")
                continue
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)  # The terminal is gone.
    if answer(signum):
        return
    with contextlib.suppress(Exception):  # The stream may be in use by the interrupted code.
        sys.stdout.flush()
    print_line(_WORDS[signum])
    os._exit(128 + signum)


def print_line(words: str) -> None:
    """Writes a line to stderr, also from a signal's handler.

    The stream may be in use by the interrupted code, or its reader may have ended.
    """
    with contextlib.suppress(OSError):
        os.write(2, f"{words}\n".encode())


@contextlib.contextmanager
def answered(how: Callable[[int], None]) -> Iterator[None]:
    """Calls `how` on the first signal of a program; a second signal goes to the previous handler.

    Without `install`, signals come only through `answer`.

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
        with contextlib.suppress(ValueError):  # It has been answered.
            _answers.remove(entry)


@contextlib.contextmanager
def held() -> Iterator[list[int]]:
    """Yields the list of the signals that `hold` keeps until the end of the block.

    A block within another block of the same thread shares its list and its end.
    """
    thread = threading.current_thread()
    if thread in _held:
        yield _held[thread][1]
        return
    stack, received = _held[thread] = contextlib.ExitStack(), []
    with contextlib.ExitStack() as end, stack:
        end.callback(_held.pop, thread)
        yield received


def hold(words: str) -> list[int]:
    """Keeps the first signal from now to the end of the enclosing `held`; returns the list of that block.

    Args:
      words: Printed when the signal comes.
    """
    stack, received = _held[threading.current_thread()]

    def keep(signum: int) -> None:
        received.append(signum)
        print_line(words)

    release()
    if not received:
        stack.enter_context(answered(keep))
    return received


def release() -> None:
    """Ends `hold`, which may be called again in the same `held`."""
    _held[threading.current_thread()][0].close()


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
        with contextlib.suppress(ValueError):  # A signal came first.
            _answers.remove(entry)
            entry[1](signal.SIGINT)
        return True
    return False
