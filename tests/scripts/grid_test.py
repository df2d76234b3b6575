"""Tests of scripts.grid, with an experiment that needs no TensorFlow, and at the end with one that does."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time

import pandas as pd
import psutil
import pytest

from bandits import studies
from data.errors import UsageError
from scripts import grid

pytestmark = pytest.mark.slow

_MAIN = """
import sys
from optimization.study import cli
from bandits import studies
from scripts import grid
studies.STUDIES["toy"] = "tests.scripts.toy_binary"
cli.main(grid.define(), grid.program)
"""


@pytest.fixture
def run_grid(tmp_path, monkeypatch):
    """Runs a grid of the toy in this process and returns its exit status."""
    monkeypatch.setitem(studies.STUDIES, "toy", "tests.scripts.toy_binary")

    def start(*arguments: str) -> int:
        own = ("--binary=toy", f"--root_output_dir={tmp_path}", "--experiment_name=g", "--workers=1")
        return grid.program(grid.define().parse(["grid", *own, *arguments]))

    return start


@pytest.fixture
def command(tmp_path):
    """Starts a grid of the toy, or of `main`, in a process of its own."""
    with contextlib.ExitStack() as stack:

        def start(*arguments: str, main: tuple[str, ...] = ("-c", _MAIN), binary: str = "toy") -> subprocess.Popen:
            own = (f"--binary={binary}", f"--root_output_dir={tmp_path}", "--experiment_name=g")
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            words, pipe = [sys.executable, *main, *own, *arguments], subprocess.PIPE
            process = subprocess.Popen(words, env=environment, stdout=pipe, stderr=pipe, text=True)
            stack.callback(process.kill)
            return process

        yield start


def _results(tmp_path, columns=("rate", "seed", "status", "score", "rounds")):
    table = pd.read_csv(tmp_path / "g" / "results.csv")
    return [tuple(row) for row in table[list(columns)].itertuples(index=False)]


def _log_times(tmp_path):
    return {path: path.stat().st_mtime_ns for path in tmp_path.glob("g/runs/*/*/log.txt")}


def _wait_for(condition, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _wait_for_second_rounds(tmp_path, runs):
    _wait_for(lambda: len(list(tmp_path.glob("g/runs/*/*/checkpoints/round_*2.npz"))) == runs)


def test_every_point_and_seed_runs_once_and_is_ranked(run_grid, tmp_path, capfd):
    assert run_grid("--sweep=rate=0.01,0.1", "--repeat=2") == 0
    out = capfd.readouterr().out.splitlines()
    assert [line.split() for line in out[:3]] == [
        ["rank", "rate", "score", "lowest", "highest", "seeds", "rounds"],
        ["1", "0.1", "4.0005", "4.0000", "4.0010", "2", "4"],
        ["2", "0.01", "3.0005", "3.0000", "3.0010", "2", "4"],
    ]
    rows = [(0.01, 0, 3.0), (0.01, 1, 3.001), (0.1, 0, 4.0), (0.1, 1, 4.001)]
    assert _results(tmp_path) == [(rate, seed, "finished", pytest.approx(score), 4) for rate, seed, score in rows]
    first = _log_times(tmp_path)
    assert len(first) == 4

    # A wider grid in another order: finished runs do not run again.
    assert run_grid("--peak=0.1", "--repeat=2", "--sweep=rate=1,0.1,0.01") == 0
    second = _log_times(tmp_path)
    assert (len(second), second | first) == (6, second)


def test_runs_are_ranked_by_a_metric_of_the_users(tmp_path, monkeypatch):
    (tmp_path / "ranked_metrics.py").write_text("def low(log): ...\nlow.better = 'down'\n")
    monkeypatch.syspath_prepend(tmp_path)
    words = ["grid", "--sweep=bandits_epsilon=0,1", "--metric=own/low"]
    settings = grid.define().parse([*words, "--metrics=ranked_metrics:low"])
    metric = grid.ranked_by(settings, "bandits.run_federated")
    assert (metric, metric.better) == ("own/low", "down")
    with pytest.raises(UsageError, match="--metric=own/low is not a column"):
        grid.ranked_by(grid.define().parse(words), "bandits.run_federated")


def test_the_best_of_each_configuration_runs_again_with_fresh_seeds(run_grid, tmp_path, capfd):
    assert run_grid("--sweep=rate=0.01,0.1", "--sweep=kind=plain,odd", "--repeat=2", "--reporting_repeat=3") == 0
    out = capfd.readouterr().out
    assert "Best point of each configuration on fresh seeds, 2 to 4:\n" in out
    assert re.search(r"kind odd +kind plain +3 +\+0 +no significant difference", out)
    assert "score  lowest" in out  # The ranking is that of the tuning seeds.
    table = pd.read_csv(tmp_path / "g" / "results.csv")
    fresh, tuning = (table[table["used_for"] == use] for use in ("reporting", "tuning"))
    assert sorted(fresh["seed"]) == [2, 2, 3, 3, 4, 4]
    assert (set(fresh["rate"]), set(tuning["seed"])) == ({0.1}, {0, 1})


def test_a_longer_grid_continues_the_runs_of_a_shorter_one(run_grid, tmp_path):
    run_grid("--sweep=rate=0.1,1")
    assert run_grid("--sweep=rate=0.1,1", "--total_rounds=6") == 0
    assert _results(tmp_path, ("score", "rounds"))[0] == (6.0, 6)
    assert all("Continuing after round 4" in path.read_text() for path in _log_times(tmp_path))


def test_a_failed_run_is_retried_twice_and_reported_at_the_end_without_stopping_the_others(run_grid, tmp_path, capfd):
    assert run_grid("--sweep=rate=0.01,0.1", "--fails_at=0.01") == 1
    err = capfd.readouterr().err
    assert "1 of 2 runs failed:\n" in err
    assert "/seed_0: ValueError: this rate fails\n" in err
    assert _results(tmp_path, ("rate", "status")) == [(0.01, "failed"), (0.1, "finished")]
    (log,) = tmp_path.glob("g/runs/rate=0.01-*/seed_0/log.txt")
    assert log.read_text().count("Traceback") == 3


def test_halving_gives_the_best_point_all_rounds_and_runs_nothing_twice(run_grid, tmp_path):
    arguments = ("--sweep=rate=10,1,0.1,0.01", "--total_rounds=8", "--early_stop=halving")
    # By hand: 1 and 0.1 are the better half of the first rung, and 0.1 of the second.
    rows = [(rate, "stopped early", rounds, rounds) for rate, rounds in ((10, 2), (1, 4), (0.01, 2))]
    rows.insert(2, (0.1, "finished", 8, 8))
    times = []
    for _ in range(2):
        assert run_grid(*arguments) == 0
        assert _results(tmp_path, ("rate", "status", "rounds", "total_rounds")) == rows
        times.append(_log_times(tmp_path))
    assert times[0] == times[1]


def test_a_damaged_folder_is_named_and_the_others_run(run_grid, tmp_path, capfd):
    run_grid("--sweep=rate=0.1,1")
    (folder,) = tmp_path.glob("g/runs/rate=1-*/seed_0")
    (folder / "metrics.csv").write_text("round_num,score\n4,much\n")
    capfd.readouterr()
    assert run_grid("--sweep=rate=0.1,1,10") == 1
    damage = f"  {folder}: {folder}/metrics.csv is damaged: a value is not valid in its column score."
    assert damage in capfd.readouterr().err
    assert _results(tmp_path, ("rate", "status")) == [(0.1, "finished"), (1, "failed"), (10, "finished")]


def test_a_second_grid_in_one_folder_is_refused_and_a_killed_one_leaves_nothing_and_is_continued(command, tmp_path):
    arguments = ("--sweep=rate=0.01,0.1", f"--waits_for={tmp_path}/go", "--total_rounds=8")
    first = command(*arguments)
    _wait_for_second_rounds(tmp_path, 2)
    workers = psutil.Process(first.pid).children(recursive=True)
    assert len(workers) == 2
    second = command(*arguments)
    message = f"Another grid is running in {tmp_path}/g: wait for it, or choose another --experiment_name."
    assert second.communicate() == ("", f"Usage error: {message}\n")
    assert second.returncode == 2

    first.kill()
    assert psutil.wait_procs(workers, timeout=300)[1] == []
    (tmp_path / "go").touch()
    assert command(*arguments).wait(300) == 0
    assert "Continuing after round 2" in next(tmp_path.glob("g/runs/rate=0.1-*/*/log.txt")).read_text()
    assert [row[2:] for row in _results(tmp_path)] == [("finished", pytest.approx(7.0), 8), ("finished", 8.0, 8)]


@pytest.mark.parametrize(
    ("executor", "signum", "status"), [("local", signal.SIGINT, 130), ("ray", signal.SIGTERM, 143)]
)
def test_a_signal_stops_the_runs_and_leaves_no_process(command, tmp_path, executor, signum, status):
    process = command("--sweep=rate=0.01,0.1,1", f"--waits_for={tmp_path}/never", f"--executor={executor}")
    _wait_for_second_rounds(tmp_path, 2)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signum)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (status, ""), err
    assert err.splitlines()[-1] == f"Stopped; finished rounds are saved. The same command continues {tmp_path}/g."
    assert psutil.wait_procs(workers, timeout=300)[1] == []
    assert not list(tmp_path.glob("g/runs/rate=1-*"))


def test_a_signal_in_the_last_round_finishes_that_run_and_the_same_command_continues(command, tmp_path):
    arguments = ("--sweep=rate=0.01,0.1", "--workers=1", "--total_rounds=3", "--finishes", f"--waits_for={tmp_path}/go")
    process = command(*arguments)
    _wait_for_second_rounds(tmp_path, 1)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGHUP)
    (log,) = _log_times(tmp_path)
    _wait_for(lambda: "stopping\n" in log.read_text())
    (tmp_path / "go").touch()
    err = process.communicate(timeout=300)[1]
    assert process.returncode == 129, err
    assert psutil.wait_procs(workers, timeout=300)[1] == []
    assert [path.parent for path in tmp_path.glob("g/runs/*/*/finished.json")] == [log.parent]
    assert len(list(tmp_path.glob("g/runs/*/*"))) == 1

    assert command(*arguments).wait(300) == 0
    assert [row[2] for row in _results(tmp_path)] == ["finished", "finished"]


def test_an_experiment_killed_in_mid_run_ends_with_the_numbers_of_its_own_binary(command, tmp_path, tff_worker):
    flags = ("--rates=0.05,0.1,0.4", "--clients=20", "--local_pulls=1", "--total_rounds=100")
    arguments = (*flags, "--sweep=decision_rule=greedy", "--workers=1")
    process = command(*arguments, main=("-m", "scripts.grid"), binary="run_ads")
    _wait_for(lambda: list(tmp_path.glob("g/runs/*/*/checkpoints/round_*0.npz")))
    (worker,) = psutil.Process(process.pid).children()
    worker.kill()
    err = process.communicate(timeout=300)[1]
    assert process.returncode == 0, err
    assert "Its process ended (signal 9)" in err
    (folder,) = tmp_path.glob("g/runs/decision_rule=greedy-*/seed_0")
    assert "Continuing after round" in (folder / "log.txt").read_text()

    directly = [*flags, "--decision_rule=greedy", f"--root_output_dir={tmp_path}", "--experiment_name=directly"]
    module = "bandits.ads.run_ads"
    assert studies.program(module, studies.flag_set(module).parse(["run_ads", *directly])) == 0
    paths = (tmp_path / "directly" / "metrics.csv", folder / "metrics.csv")
    wanted, found = (pd.read_csv(path).drop(columns="seconds") for path in paths)
    pd.testing.assert_frame_equal(found, wanted, check_exact=True)
    total = wanted["federated/total_reward"].iloc[-1]
    assert _results(tmp_path, ("status", "federated/total_reward")) == [("finished", total)]
