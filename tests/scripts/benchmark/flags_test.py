"""Tests of scripts.benchmark.flags, by a clock that the rounds set."""

import pytest

from bandits import metrics
from scripts.benchmark import flags


class _Run:
    """Rounds that take a known time: twice that, too, in every tenth."""

    def __init__(self, clock, seconds):
        self._clock, self._seconds = clock, seconds

    def initial_state(self):
        return 0

    def run_round(self, state, round_num):
        assert round_num == state + 1
        self._clock[0] += self._seconds * (2 if round_num % 10 == 0 else 1)
        return round_num, {metrics.BYTES_DOWN: 2e6, metrics.BYTES_UP: 1e6}


def test_what_flags_add_is_a_share_of_the_plain_round(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(flags.time, "perf_counter", lambda: clock[0])
    runs = {"plain": _Run(clock, 0.1), "nothing": _Run(clock, 0.1), "--drop_out=0.1": _Run(clock, 0.105)}
    found = flags._measured(runs, warmup=5, rounds=20)
    assert (found["rounds"], found["plain_milliseconds"]) == (20, 100.0)
    nothing = found["added_by"]["nothing"]
    assert (nothing["milliseconds"], nothing["percent_added"], nothing["95% interval"]) == (100.0, 0.0, [0.0, 0.0])
    assert found["plain_payload_mb"] == nothing["payload_mb"] == 3.0
    assert {"checkpoint_mb", "checkpoint_seconds"} < nothing.keys()
    added = found["added_by"]["--drop_out=0.1"]
    assert (added["milliseconds"], added["percent_added"]) == (105.0, pytest.approx(5.0))
    assert added["plain_rounds"] == 1.05
    assert added["95% interval"] == [5.0, 5.0]
