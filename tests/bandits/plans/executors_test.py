"""Tests of bandits.plans.executors."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

from bandits import studies
from bandits.plans import executors, plan, sweep
from data.errors import Failure

pytestmark = pytest.mark.slow

MODULE = "tests.scripts.toy_binary"


def _job(folder, name, *flags, rounds=4):
    where = (f"--root_output_dir={folder}", f"--experiment_name={name}")
    return executors.Job(MODULE, (f"--total_rounds={rounds}", *flags, *where), str(folder / name), rounds)


def _log(job):
    announced, log = (pathlib.Path(job.folder) / executors.LOG_FILE).read_text().split("\n", 1)
    assert announced.endswith(f"; folder {job.folder}")
    return log


@pytest.fixture
def one():
    executor = executors.Local(1)
    yield executor
    executor.close()


def _execute(executor, *jobs):
    for job in jobs:
        executor.submit(job)
    return dict(executor.wait() for _ in jobs)


def test_one_process_executes_one_run_after_the_other_each_with_its_own_log(one, tmp_path):
    jobs = [_job(tmp_path, name) for name in ("a", "b")]
    assert _execute(one, *jobs) == dict.fromkeys(jobs, executors.Result(0))
    (log,) = set(map(_log, jobs))
    assert log.startswith("pid ")
    for job in jobs:
        assert (pathlib.Path(job.folder) / executors.FINISHED_FILE).read_text() == '{"total_rounds": 4}\n'


def test_a_process_that_dies_is_replaced_and_failures_and_bad_usage_are_distinguished(one, tmp_path):
    dying, failing = _job(tmp_path, "a", f"--dies_in={tmp_path}"), _job(tmp_path, "b", "--fails_at=0.1")
    refused = _job(tmp_path, "c", "--rate=0")
    results = _execute(one, dying, failing, refused)
    assert results[dying] == (1, f"Its process ended (signal 9); see {tmp_path}/a/log.txt.")
    assert results[failing] == (1, "ValueError: this rate fails")
    assert "Traceback" in _log(failing)
    assert results[refused].status == 2
    assert results[refused].message.startswith("--rate=0.0: 0 is not a number above 0")
    assert not (tmp_path / "b" / executors.FINISHED_FILE).exists()
    assert _execute(one, dying)[dying].status == 0
    assert "Continuing after round 1" in _log(dying)


# In a process of its own: Ray ends the process that uses it, if on a busy machine its own ones are late.
_RAY = """
import contextlib, json, sys
from bandits.plans import executors
with contextlib.closing(executors.Ray(None, workers=1, cores=1)) as executor:
    jobs = [executors.Job(module, tuple(arguments), *rest) for module, arguments, *rest in json.loads(sys.argv[1])]
    for job in jobs:
        executor.submit(job)
    results = dict(executor.wait() for _ in jobs)
print(json.dumps([results[job] for job in jobs]))
"""


def test_a_ray_task_is_repeated_when_its_process_dies_and_a_failed_run_is_reported(tmp_path):
    jobs = [_job(tmp_path, "a", f"--dies_in={tmp_path}"), _job(tmp_path, "b"), _job(tmp_path, "c", "--fails_at=0.1")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", _RAY, json.dumps(jobs)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[0, ""], [0, ""], [1, "ValueError: this rate fails"]]
    assert "Continuing after round 1" in _log(jobs[0])


def _node(address, cpus, *, is_alive=True):
    return {"NodeManagerAddress": address, "Resources": {"CPU": cpus} if cpus else {}, "Alive": is_alive}


def test_a_cluster_on_which_no_run_would_start_or_that_does_not_answer_is_refused():
    nodes = [_node("10.0.0.2", 1.0), _node("10.0.0.1", 0.0), _node("10.0.0.4", 8.0, is_alive=False)]
    with pytest.raises(Failure, match=r"has that many: 10\.0\.0\.1 has 0, 10\.0\.0\.2 has 1\. "):
        executors.check_nodes(nodes, cores=2)
    with pytest.raises(Failure, match=r"--ray_address=127\.0\.0\.1:9: no Ray cluster answers at this address"):
        executors.Ray("127.0.0.1:9", workers=1, cores=1)


class _Ray:
    cpus: tuple = ()

    def wait(self, tasks, **_):
        return [], tasks

    def nodes(self):
        return [_node(f"10.0.0.{number}", cpus) for number, cpus in enumerate(self.cpus, 1)]


def test_a_cluster_that_has_lost_all_nodes_for_a_run_is_waited_for_a_minute(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    executor = executors.Ray.__new__(executors.Ray)
    executor._ray, executor._cores, executor._fitted = _Ray(), 2, 0.0
    executor._jobs = {"task": "job", "other task": "other job"}

    # A node comes back and is lost again.
    for now[0], executor._ray.cpus in ((100.0, [2.0]), (159.0, [1.0]), (170.0, [1.0, 4.0]), (229.0, [1.0])):
        assert executor.wait(1.0) is None
    now[0] = 230.0
    with pytest.raises(Failure, match=r"had enough CPUs for 60 seconds\. 2 runs are not finished; run the same"):
        executor.wait(1.0)
    executor._ray.cpus = []
    with pytest.raises(Failure, match="has that many: it has no nodes"):
        executor.wait(1.0)


def test_the_job_array_executes_each_run_and_continues_one_that_was_interrupted(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", "/some folder/data")
    monkeypatch.setitem(studies.STUDIES, "toy", MODULE)
    folder = tmp_path / "a grid"
    (folder / "runs").mkdir(parents=True)
    grid = plan.build([f"--dies_in={tmp_path}", "--total_rounds=4"], sweeps=["rate=0.1,0.5"], binary="toy")
    jobs = [run.job(folder / "runs") for run in grid.runs()]
    assert sweep.write_job_array(grid.runs(), folder, 3, "look") == 0
    script = folder / "slurm.sh"
    asked = {"#SBATCH --array=0-1", "#SBATCH --cpus-per-task=3", "#SBATCH --job-name=a_grid"}
    assert asked | {"export FEDBANDITS_DATA_DIR='/some folder/data'"} <= {*script.read_text().splitlines()}
    commands = (folder / "commands.txt").read_text().splitlines()
    assert [f" --rate={rate} " in line for rate, line in zip((0.1, 0.5), commands, strict=True)] == [True, True]
    assert not list((folder / "runs").iterdir())  # Nothing was run.

    def task(number):
        environment = os.environ | {"SLURM_ARRAY_TASK_ID": str(number)}
        return subprocess.run([script], env=environment, capture_output=True, text=True).returncode

    assert [task(0), task(1), task(0), task(1)] == [-9, -9, 0, 0]
    assert "Continuing after round 1" in _log(jobs[0])
    for job in jobs:
        assert (pathlib.Path(job.folder) / executors.FINISHED_FILE).exists()
