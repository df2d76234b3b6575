"""Handles Ctrl-C, SIGTERM and SIGHUP. Programs import this module first, so it must not import slow modules."""

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
    """Installs handlers that end this process at once, unless a handler of `answered` takes the signal.

    The signals are SIGINT, SIGTERM and SIGHUP. The process prints one line and exits with the status 128 + signal. If
    SIGHUP is already ignored, as under `nohup`, it stays ignored.

    The handlers raise no exception, because an import, a callback or an event loop could swallow it or print a
    traceback. Only programs call this: neither importing a module nor executing a run may change the signal handlers of
    a process.
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
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)  # The terminal was closed.
    if answer(signum):
        return
    with contextlib.suppress(Exception):  # The interrupted code may be using the stream.
        sys.stdout.flush()
    print_line(_WORDS[signum])
    os._exit(128 + signum)


def print_line(words: str) -> None:
    """Writes a line to stderr; safe to call in a signal handler.

    It does not use `sys.stderr`, which the interrupted code may be using. A closed stream is ignored.
    """
    with contextlib.suppress(OSError):
        os.write(2, f"{words}\n".encode())


@contextlib.contextmanager
def answered(how: Callable[[int], None]) -> Iterator[None]:
    """Calls `how` on the first signal to a program. A second signal goes to the previous handler.

    If `install` was not called, only `answer` and `stop` deliver signals.

    Raises:
      KeyboardInterrupt: If `stop` was already called for this thread.
    """
    entry = threading.current_thread(), how
    _answers.append(entry)
    try:
        if entry[0] in _stopped:
            raise KeyboardInterrupt
        yield
    finally:
        with contextlib.suppress(ValueError):  # A signal has already removed it.
            _answers.remove(entry)


@contextlib.contextmanager
def held() -> Iterator[list[int]]:
    """Yields a list of the signals that `hold` delays until the end of the block.

    A nested block in the same thread shares the outer block's list, whose signals are held until the outer block ends.
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
    """Records the first signal before `release` or the end of the `held` block; returns the block's list of signals.

    Args:
      words: Text that is printed when the signal arrives.
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
    """Ends the effect of `hold`, which may be called again in the same `held` block."""
    _held[threading.current_thread()][0].close()


def answer(signum: int) -> bool:
    """Passes a signal to the newest handler of `answered` in any thread, and returns whether there was one."""
    if not _answers:
        return False
    _answers.pop()[1](signum)
    return True


def stop(thread: threading.Thread) -> bool:
    """Passes SIGINT to a thread's newest handler, and refuses later handlers; returns whether there was a handler."""
    _stopped.add(thread)
    for entry in [entry for entry in _answers if entry[0] is thread][-1:]:
        with contextlib.suppress(ValueError):  # A signal arrived first.
            _answers.remove(entry)
            entry[1](signal.SIGINT)
        return True
    return False
