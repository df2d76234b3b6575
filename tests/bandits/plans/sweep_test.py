"""Tests of bandits.plans.sweep; `grid_test` runs sweeps."""

import dataclasses
import math

import pytest

from bandits import metrics
from bandits.plans import executors, plan, sweep
from data.errors import UsageError
from optimization.study import cli, run_folder

FLAGS = {"client_learning_rate": 0.1, "seed": 0, "total_rounds": 10}


def _outcome(point, value, rounds=10, configuration="", seed=0, **flags):
    settings = cli.Settings(FLAGS | {"seed": seed} | flags, frozenset())
    run = plan.Run("toy", point, seed, configuration, tuple(flags), (), settings)
    return sweep.Outcome(run, sweep.FINISHED, rounds, value)


def _finished(tmp_path, metrics="round_num,score\n1,0.5\n2,0.7\n3,inf\n"):
    folder = run_folder.RunFolder(tmp_path / "p-key" / "seed_0")
    folder.open(FLAGS, "digest")
    folder.metrics_path.write_text(metrics)
    folder.write_json(executors.FINISHED_FILE, {"total_rounds": 3})
    return folder.path


def test_a_finished_folder_has_its_rounds_and_the_metrics_of_any_round(tmp_path):
    assert sweep.finished_rounds(tmp_path / "nothing") == 0
    folder = _finished(tmp_path)
    assert sweep.finished_rounds(folder) == 3
    assert sweep.read_value(folder, "score", 2) == 0.7
    assert math.isnan(sweep.read_value(folder, "score", 3))
    with pytest.raises(UsageError, match=r"metrics\.csv has no column reward"):
        sweep.read_value(folder, "reward", 3)
    (folder / "metrics.csv").write_text("round_num,score\n1,0.5\n2,0.7\n")
    assert sweep.read_value(folder, "score", 9) == 0.7  # It stopped itself early.
    (folder / executors.FINISHED_FILE).unlink()
    assert sweep.finished_rounds(folder) == 0


def test_a_round_without_an_evaluation_has_the_value_of_the_nearest_one_for_evaluated_metrics_only(tmp_path):
    names = f"round_num,{metrics.ACCURACY},{metrics.AVERAGE_REWARD}"
    folder = _finished(tmp_path, f"{names}\n1,,0.5\n2,0.5,\n3,,0.5\n4,0.75,0.5\n")
    assert [sweep.read_value(folder, metrics.ACCURACY, rounds) for rounds in (1, 2, 3, 4)] == [0.5, 0.5, 0.5, 0.75]
    assert math.isnan(sweep.read_value(folder, metrics.AVERAGE_REWARD, 2))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", None, "is damaged: it has no config.json"),
        ("config.json", '{"flags": {}}', "config.json is damaged: it records no versions"),
        ("config.json", '{"format": 2, "versions": {}}', "holds a run of format 2, but .* reads only format 3"),
        ("config.json", '{"format": 3, "versions": {"tensorflow": "1.15"}}', "was made with tensorflow 1.15; the curr"),
        (executors.FINISHED_FILE, "{}", "finished.json is damaged"),
    ],
)
def test_a_damaged_folder_is_named(tmp_path, file, content, message):
    folder = _finished(tmp_path)
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_text(content)
    with pytest.raises(UsageError, match=f"{folder}.*{message}"):
        sweep.finished_rounds(folder)


OUTCOMES = [
    _outcome("few", 9.0, rounds=5, client_learning_rate=0.1),
    _outcome("nan", math.nan, client_learning_rate=0.2),
    _outcome("low", 1.0, client_learning_rate=0.3),
    _outcome("mixed", 5.0, client_learning_rate=0.4),
    _outcome("mixed", 1.5, client_learning_rate=0.4, seed=1),
    _outcome("high", 3.0, client_learning_rate=0.5),
]


def test_points_rank_by_rounds_then_by_the_mean_over_seeds_and_those_without_one_last():
    (points,) = sweep.rank(OUTCOMES, smallest=False).values()
    assert [point[0].run.point for point in points] == ["mixed", "high", "low", "few", "nan"]
    assert sweep.mean(points[0]) == 3.25
    (points,) = sweep.rank(OUTCOMES, smallest=True).values()
    assert [point[0].run.point for point in points] == ["low", "high", "mixed", "few", "nan"]


def test_a_run_has_diverged_if_half_of_the_clients_did_in_its_last_round(tmp_path):
    folder = _finished(tmp_path, "round_num,score,train/nonfinite_clients\n1,0.5,0\n2,0.7,0\n3,0.9,1\n")
    assert not sweep.has_diverged(folder, 2)
    assert sweep.has_diverged(folder, 3)


@pytest.mark.parametrize(
    ("total_rounds", "points", "factor", "rungs"),
    [(48, 8, 2, [6, 12, 24, 48]), (100, 9, 3, [12, 34, 100]), (3, 64, 2, [2, 3]), (50, 1, 2, [50])],
)
def test_rungs_end_with_all_rounds_and_are_as_many_as_the_points_can_climb(total_rounds, points, factor, rungs):
    assert sweep.rungs(total_rounds, points, factor) == rungs


class _Halving(sweep.Sweep):
    """A sweep whose runs have the value of their learning rate, and take no time."""

    def __init__(self):
        self.outcomes, self.smallest, self.executed = {}, False, []

    def run(self, planned):
        self.executed.append([(run.settings["client_learning_rate"], run.rounds) for run in planned])
        for run in planned:
            value = run.settings["client_learning_rate"]
            self.outcomes[run.name] = sweep.Outcome(run, sweep.FINISHED, run.rounds, value)


def test_the_best_half_of_each_rung_goes_on(monkeypatch):
    def at_rounds(run, rounds):
        return dataclasses.replace(run, settings=run.settings.replace(total_rounds=rounds))

    monkeypatch.setattr(plan.Run, "at_rounds", at_rounds)
    rates = [0.1, 0.4, 0.2, 0.3]
    planned = [_outcome(f"p{rate}", 0.0, seed=seed, client_learning_rate=rate).run for rate in rates for seed in (0, 1)]
    halving = _Halving()
    halving.run_halving(planned, 2)
    rungs = [(3, rates), (5, [0.4, 0.3]), (10, [0.4])]
    assert halving.executed == [[(rate, rounds) for rate in some for _ in (0, 1)] for rounds, some in rungs]
    statuses = [outcome.status for outcome in halving.outcomes.values()]
    assert statuses == [sweep.STOPPED_EARLY] * 2 + [sweep.FINISHED] * 2 + [sweep.STOPPED_EARLY] * 4
