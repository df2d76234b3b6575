"""Tests of bandits.plans.progress."""

import math

from bandits.plans import outcomes, plan, progress
from optimization.study import cli

KEY = "-0123456789ab"


def _outcome(point, status=outcomes.UNFINISHED, rounds=0, value=math.nan, seed=0):
    settings = cli.Settings({"total_rounds": 10, "seed": seed}, frozenset())
    run = plan.Run("toy", f"{point}{KEY}", seed, "", (), (), settings)
    return outcomes.Outcome(run, status, rounds, value)


def _play(folder, outcome, rounds):
    path = folder / outcome.run.name / "metrics.csv"
    path.parent.mkdir(parents=True)
    path.write_text("round_num,score\n" + "".join(f"{one},0.5\n" for one in range(1, rounds + 1)) + "99")


def test_the_rounds_of_runs_that_are_played_count_and_the_best_has_all_its_seeds(tmp_path):
    playing, waiting = _outcome("rate=1", seed=1), _outcome("rate=3")
    _play(tmp_path, playing, 4)
    some = [
        _outcome("rate=1", outcomes.FINISHED, 10, 0.9),
        playing,
        waiting,
        _outcome("rate=2", outcomes.FINISHED, 10, 0.25),
        _outcome("rate=4", outcomes.FAILED),
        _outcome("rate=5", outcomes.FINISHED, 10, 0.5),
    ]
    assert progress.state(some, tmp_path, smallest=False) == (44, 60, "4/6 runs", "best 0.5000: rate=5")
    assert progress.state(some, tmp_path, smallest=True).best == "best 0.2500: rate=2"
    assert progress.state([waiting], tmp_path, smallest=False) == (0, 10, "0/1 runs", "")


def test_the_page_is_written_when_there_is_something_new_and_at_the_end(tmp_path):
    pages = []
    seen = progress.Progress(tmp_path, smallest=False, write_page=lambda: pages.append(1), seconds=1000.0)
    first, second = _outcome("rate=1"), _outcome("rate=2")
    seen.show([first, second])
    assert pages == []
    _play(tmp_path, first, 1)
    seen.show([first, second])
    assert pages == [1]
    _play(tmp_path, second, 1)
    seen.show([first, second])  # Too soon.
    assert pages == [1]
    seen.show([first, second], last=True)
    seen.show([first, second], last=True)
    assert pages == [1, 1]


def test_a_page_that_cannot_be_written_is_reported_once_and_ends_nothing(tmp_path, capsys):
    def fail():
        raise RuntimeError("no plots")

    seen = progress.Progress(tmp_path, smallest=False, write_page=fail, seconds=0.0)
    one = _outcome("rate=1", outcomes.FINISHED, 10, 0.5)
    seen.show([one])
    seen.show([one, _outcome("rate=2", outcomes.FINISHED, 10, 0.5)], last=True)
    seen.close()
    assert capsys.readouterr().err.count("Warning: --report could not be written: no plots") == 1
