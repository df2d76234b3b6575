"""A toy experiment of NumPy arrays: its weights w start at (0, 8), and round t sets w <- w / 2 + t."""

import csv
import json
import pathlib
import signal
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from data.errors import Failure
from optimization.study import frame, loggers, run_folder, runner

TOTAL = 7
COLUMNS = ("toy/first", "toy/second", "toy/eval")


class ToyState(NamedTuple):
    weights: np.ndarray
    extra: dict[str, np.ndarray]


class Toy(runner.Rounds):
    def __init__(self, before=lambda round_num: None):  # Called at the start of each round.
        self.before = before
        self.rounds_run: list[int] = []
        self.evaluated: list[float] = []

    def initial_state(self):
        return ToyState(np.array([0, 8], np.float32), {"count": np.array(0, np.int64)})

    def run_round(self, state: ToyState, round_num: int):
        self.rounds_run.append(round_num)
        self.before(round_num)
        weights = state.weights / 2 + np.float32(round_num)
        count = state.extra["count"] + 1
        return ToyState(weights, {"count": count}), {"toy/first": weights[0], "toy/second": weights[1]}

    def evaluate(self, state: ToyState):
        self.evaluated.append(float(state.weights[0]))
        return {"toy/eval": state.weights.sum()}


class BreakdownError(Exception):
    pass


def _raise_in(round_num: int, error: Exception):
    def before(current: int):
        if current == round_num:
            raise error

    return before


def _signal_in(round_num: int, signum: int):
    return lambda current: signal.raise_signal(signum) if current == round_num else None


def _opened(path: pathlib.Path) -> run_folder.RunFolder:
    folder = run_folder.RunFolder(path)
    folder.open({}, "")
    return folder


@pytest.fixture
def folder(tmp_path):
    return _opened(tmp_path / "toy")


def _run(toy: Toy, folder: run_folder.RunFolder, total=TOTAL, every=3, checkpoint=2) -> runner.Outcome:
    return runner.run(toy, folder, frame.Length(total, every, checkpoint), COLUMNS)


def _metrics(folder: run_folder.RunFolder) -> list[dict[str, str]]:
    with open(folder.metrics_path, newline="") as file:
        return [{name: value for name, value in row.items() if name != "seconds"} for row in csv.DictReader(file)]


def _rounds_of_checkpoints(folder: run_folder.RunFolder) -> list[int]:
    return sorted(int(path.stem.removeprefix("round_")) for path in (folder.path / "checkpoints").iterdir())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = _opened(tmp_path_factory.mktemp("whole") / "toy")
    return _run(Toy(), folder), _metrics(folder)


def _assert_as_whole(outcome: runner.Outcome, folder: run_folder.RunFolder, whole) -> None:
    assert _metrics(folder) == whole[1]
    assert (outcome.round_num, outcome.signum) == (TOTAL, None)
    tf.nest.map_structure(np.testing.assert_array_equal, outcome.state, whole[0].state)


@pytest.mark.parametrize(("checkpoint", "rounds"), [(2, [4, 6, 7]), (0, [7]), (7, [7]), (100, [7]), (1, [5, 6, 7])])
def test_checkpoints_are_written_every_so_many_rounds_and_after_the_last(folder, checkpoint, rounds):
    _run(Toy(), folder, checkpoint=checkpoint)
    assert _rounds_of_checkpoints(folder) == rounds


def test_metrics_also_go_to_tensorboard(folder):
    _run(Toy(), folder, total=1)
    (path,) = folder.path.glob("events.out.tfevents.*")
    events = [tf.compat.v1.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(path))]
    found = {(value.tag, event.step): value.simple_value for event in events for value in event.summary.value}
    del found["seconds", 1]
    assert found == {("toy/first", 1): 1.0, ("toy/second", 1): 5.0, ("toy/eval", 1): 6.0}


@pytest.mark.parametrize("broken", [1, 4, 7])
@pytest.mark.parametrize("checkpoint", [0, 2, 3])
def test_a_run_that_broke_off_in_a_round_continues_to_the_same_metrics(folder, whole, broken, checkpoint):
    with pytest.raises(BreakdownError):
        _run(Toy(_raise_in(broken, BreakdownError())), folder, checkpoint=checkpoint)
    _assert_as_whole(_run(Toy(), folder, checkpoint=checkpoint), folder, whole)


def test_a_truncated_newest_checkpoint_costs_rounds_but_changes_nothing(folder, whole, capsys):
    with pytest.raises(BreakdownError):
        _run(Toy(_raise_in(7, BreakdownError())), folder)
    newest = folder.path / "checkpoints" / "round_00000006.npz"
    newest.write_bytes(newest.read_bytes()[:200])
    toy, folder = Toy(), _opened(folder.path)
    outcome = _run(toy, folder)
    assert toy.rounds_run == [5, 6, 7]
    assert [entry["after_round"] for entry in json.loads(folder.config_path.read_text())["continuations"]] == [4]
    assert f"Warning: checkpoint {newest} is not readable" in capsys.readouterr().err
    _assert_as_whole(outcome, folder, whole)


def test_metrics_and_events_are_on_the_disk_before_their_checkpoint(folder, monkeypatch):
    done = []

    def spy(owner, name):
        method = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *arguments: (done.append(name), method(*arguments))[1])

    spy(loggers.CsvFile, "on_round")
    spy(loggers.CsvFile, "on_save")
    spy(runner.EventsFile, "on_save")
    spy(run_folder.RunFolder, "save_checkpoint")
    _run(Toy(), folder, total=3, checkpoint=2)
    saved = ["on_save", "on_save", "save_checkpoint"]
    assert done == ["on_round", "on_round", *saved, "on_round", *saved]


def _change(path: pathlib.Path, line: int, column: str, value: str) -> None:
    """Changes a cell of a table, as an editor would."""
    rows = [row.split(",") for row in path.read_text().splitlines()]
    rows[line][rows[0].index(column)] = value
    path.write_text("".join(",".join(row) + "\n" for row in rows))


def test_a_changed_digit_in_an_old_row_is_refused(folder):
    _run(Toy(), folder, total=4)
    _change(folder.metrics_path, 2, "toy/second", "4.25")
    changed = folder.metrics_path.read_bytes()
    with pytest.raises(Failure, match=r"metrics.csv was changed: its rows up to round 4 do not match"):
        _run(Toy(), _opened(folder.path))
    assert folder.metrics_path.read_bytes() == changed


def test_changes_after_the_checkpoint_and_of_the_time_do_not_matter(folder):
    with pytest.raises(BreakdownError):
        _run(Toy(_raise_in(6, BreakdownError())), folder)
    _change(folder.metrics_path, 5, "toy/first", "7")
    _change(folder.metrics_path, 1, "seconds", "9")
    _run(Toy(), _opened(folder.path))
    assert len(_metrics(folder)) == TOTAL


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_round_finish_saves_it_and_is_reported(folder, as_program, whole, signum):
    outcome = _run(Toy(_signal_in(2, signum)), folder, checkpoint=100)
    assert (outcome.round_num, outcome.signum) == (2, signum)
    np.testing.assert_array_equal(outcome.state.weights, [2.5, 4.5])
    assert [row["round_num"] for row in _metrics(folder)] == ["1", "2"]
    assert _rounds_of_checkpoints(folder) == [2]
    _assert_as_whole(_run(toy := Toy(), folder), folder, whole)
    assert toy.rounds_run == [3, 4, 5, 6, 7]


def test_a_failure_in_a_round_is_raised_once_the_rounds_before_are_saved(folder):
    with pytest.raises(Failure) as caught:
        _run(Toy(_raise_in(4, Failure("The worker died."))), folder, checkpoint=100)
    assert str(caught.value) == f"Round 4 failed: The worker died. The run is in {folder.path}."
    assert _rounds_of_checkpoints(folder) == [3]


class Ending(Toy):
    def is_finished(self, state: ToyState, round_num: int) -> bool:
        return round_num > 0 and state.weights.sum() >= 10


def test_a_run_ends_where_its_rounds_say_so_and_then_nothing_changes(folder, capsys):
    outcome = _run(Ending(), folder)
    assert (outcome.round_num, outcome.signum, outcome.state.weights.sum()) == (4, None, 12.75)
    assert len(_metrics(folder)) == 4
    assert _rounds_of_checkpoints(folder) == [2, 4]
    again, before = Ending(), folder.metrics_path.read_bytes()
    assert _run(again, folder).round_num == 4
    assert (again.rounds_run, again.evaluated, folder.metrics_path.read_bytes()) == ([], [], before)
    assert "Continuing" not in capsys.readouterr().err
