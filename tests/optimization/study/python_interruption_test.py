import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

import bandits
from data.errors import Failure
from optimization.study import frame, interruption, python


class _Rounds:
    """Replaces a study's runs by endless rounds, until `enough` is set or they are stopped."""

    def __init__(self):
        self.called, self.ready = threading.Event(), threading.Event()
        self.begun, self.enough = threading.Event(), threading.Event()
        self.ready.set()
        self.received: list[int] = []

    def run_all(self, *_) -> tuple[None, int] | None:
        self.called.set()
        self.ready.wait()
        with interruption.answered(self.received.append):
            self.begun.set()
            while not self.received and not self.enough.wait(0.001):
                pass
        return (None, self.received[0]) if self.received else None


@pytest.fixture
def rounds(monkeypatch):
    before = set(threading.enumerate())
    completed = _Rounds()
    monkeypatch.setattr(frame, "open_all", lambda *_: [])
    monkeypatch.setattr(frame, "run_all", completed.run_all)
    yield completed
    completed.ready.set()
    completed.enough.set()
    for thread in set(threading.enumerate()) - before:  # No watch, and nobody who plays, reaches the next test.
        if thread.is_alive():
            thread.join()


def _once(condition: Callable[[], bool], act: Callable[[], object]) -> None:
    def watch() -> None:
        while not condition():
            time.sleep(0.001)
        act()

    threading.Thread(target=watch, daemon=True).start()


def _ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    ("stop", "signum"),
    [(_ctrl_c, signal.SIGINT), (lambda: interruption.answer(signal.SIGTERM), signal.SIGTERM)],
    ids=["Ctrl-C", "another part of the program"],
)
def test_a_run_that_is_stopped_raises_once_its_round_is_finished(rounds, stop, signum):
    _once(rounds.begun.is_set, stop)
    with pytest.raises(KeyboardInterrupt):
        bandits.run()
    assert rounds.received == [signum]


def test_a_call_that_waits_gives_up_at_once_and_leaves_the_running_one_alone(rounds):
    finished: list[object] = []
    other = threading.Thread(target=lambda: finished.append(bandits.run()), daemon=True)
    other.start()
    rounds.begun.wait()
    before = set(threading.enumerate())
    # New are the watch and the call that waits. Threads of earlier tests may end meanwhile.
    _once(lambda: sum(thread.is_alive() for thread in set(threading.enumerate()) - before) == 2, _ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        bandits.run()
    assert other.is_alive()
    rounds.begun.clear()
    rounds.enough.set()
    other.join()
    assert (len(finished), rounds.received) == (1, [])
    with python._running:
        assert not rounds.begun.is_set()  # What was given up is not played later.


def test_ctrl_c_before_the_first_round_is_reported_at_once_and_no_round_is_run(rounds, monkeypatch):
    rounds.ready.clear()
    _once(rounds.called.is_set, _ctrl_c)
    message: list[str] = []

    def print_line(words: str) -> None:
        message.append(words)
        rounds.ready.set()

    monkeypatch.setattr(interruption, "print_line", print_line)
    with pytest.raises(KeyboardInterrupt):
        bandits.run()
    assert message == ["\nStopping before the next round; press Ctrl-C again to return immediately."]
    assert not rounds.begun.is_set()


def test_a_fork_of_a_process_that_has_run_is_refused(rounds):
    rounds.enough.set()
    bandits.run()
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            try:
                bandits.run()
            except Failure as error:
                os._exit(42 if "forked after a run" in str(error) else 1)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
