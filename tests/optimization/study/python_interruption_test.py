"""Tests of how runs from Python are interrupted: each call's own, whichever threads play; rounds here are no TFF's."""

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
    """Plays rounds without end in the place of a study, until it is told that they are enough, or stopped."""

    def __init__(self):
        self.ready, self.begun, self.enough = threading.Event(), threading.Event(), threading.Event()
        self.ready.set()
        self.runs = 1
        self.received: list[int] = []
        self.stopped_after_the_last = False

    def play_all(self, *_) -> frame.Stopped | None:
        self.ready.wait()
        for _ in range(self.runs):
            received: list[int] = []
            with interruption.answered(received.append):
                self.begun.set()
                while not received and not self.enough.wait(0.001):
                    pass
            self.received += received
            if received and not self.stopped_after_the_last:
                return frame.Stopped(None, received[0])  # type: ignore[arg-type]
        return None


@pytest.fixture
def rounds(monkeypatch):
    """What is played by all runs."""
    played = _Rounds()
    monkeypatch.setattr(frame, "open_all", lambda *_: [])
    monkeypatch.setattr(frame, "play_all", played.play_all)
    yield played
    played.enough.set()
    with python._playing:  # Whoever still plays has ended.
        pass


def _once(condition: Callable[[], bool], act: Callable[[], object]) -> None:
    def watch() -> None:
        while not condition():
            time.sleep(0.001)
        act()

    threading.Thread(target=watch).start()


def _ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_run_that_nobody_stops_comes_back(rounds):
    rounds.enough.set()
    assert len(bandits.run()) == 0


def test_ctrl_c_is_raised_once_the_round_is_finished(rounds):
    _once(rounds.begun.is_set, _ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        bandits.run()
    assert rounds.received == [signal.SIGINT]


def test_a_call_that_waits_gives_up_at_once_and_leaves_the_run_that_plays_alone(rounds):
    finished: list[object] = []
    other = threading.Thread(target=lambda: finished.append(bandits.run()))
    other.start()
    rounds.begun.wait()
    threads = threading.active_count()
    _once(lambda: threading.active_count() == threads + 2, _ctrl_c)  # The watch and the call that waits.
    with pytest.raises(KeyboardInterrupt):
        bandits.run()
    assert other.is_alive()
    rounds.begun.clear()
    rounds.enough.set()
    other.join()
    assert (len(finished), rounds.received) == (1, [])
    with python._playing:
        assert not rounds.begun.is_set()  # What was given up is not played later.


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_somebody_else_stopped_is_not_returned(rounds, signum):
    _once(rounds.begun.is_set, lambda: interruption.answer(signum))
    with pytest.raises(KeyboardInterrupt):
        bandits.run()


def test_what_is_stopped_in_the_last_round_of_a_run_begins_no_other(rounds):
    rounds.runs, rounds.stopped_after_the_last = 3, True
    _once(rounds.begun.is_set, _ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        bandits.run()
    assert rounds.received == [signal.SIGINT]


def test_ctrl_c_before_the_first_round_is_told_at_once_and_no_round_is_played(rounds, capfd):
    rounds.ready.clear()
    _once(python._playing.locked, _ctrl_c)
    told: list[str] = []

    def look() -> None:
        while not told or not told[-1].strip():
            told.append(capfd.readouterr().err)
            time.sleep(0.001)
        rounds.ready.set()

    threading.Thread(target=look).start()
    with pytest.raises(KeyboardInterrupt):
        bandits.run()
    assert "".join(told) == "\nStopping before the next round; once more to be back at once.\n"
    assert not rounds.begun.is_set()


@pytest.mark.parametrize("starts", [True, False])
def test_ctrl_c_while_the_thread_is_started_stops_it(rounds, monkeypatch, starts):
    start = threading.Thread.start
    interrupted: list[threading.Thread] = []

    def start_and_interrupt(thread: threading.Thread) -> None:
        if threading.current_thread() is threading.main_thread() and not interrupted:
            interrupted.append(thread)
            if starts:
                start(thread)
                rounds.begun.wait()
            signal.raise_signal(signal.SIGINT)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        bandits.run()
    assert rounds.received == [signal.SIGINT] * starts


def test_a_fork_of_a_process_that_has_played_is_refused(rounds):
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
