"""Tests of scripts.advise: its flags, and at the end whole advices, one of which is killed and continued."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from bandits import studies
from bandits.advice import answers, command, output
from bandits.advice import plan as planning
from optimization.study import cli

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ("--data_file=sklearn_wine.csv", "--client_column=cellar", "--label_column=cultivar")


def test_deployments_are_ten_times_more_often_unless_they_follow_every_round():
    def often(*flags):
        settings = studies.resolve(planning.BINARY, ("--task_type=digits", "--bandits_type=greedy", *flags))
        return command.full_plan(settings, ["greedy", "softmax"], 25, 3).often

    assert [often(f"--bandits_deploy_freq={every}") for every in (1, 5, 10, 50)] == [0, 1, 1, 5]
    assert often("--bandits_deploy_freq=1000", "--total_rounds=20") == 2


# Of each stage a little, whatever the clock says.
_SMALL = """
import dataclasses, sys
from optimization.study import cli
from bandits.advice import command
full = command.full_plan
few = dict(points=2, tuning_seeds=1, seeds=2, independent_seeds=2, frequent_seeds=2, noise_seeds=1,
    strategies=("greedy", "softmax", "falcon"))
command.full_plan = lambda *arguments: dataclasses.replace(full(*arguments), **few)
sys.argv[0] = "scripts/advise.py"
cli.main(command.define(), command.program)
"""
SMALL = (*TABLE, "--total_rounds=4", "--bandits_deploy_freq=2", "--clients_per_round=5", "--workers=1")
LONG = ("--minutes=1000", "--population=5000", "--target_epsilons=8")


def _start(tmp_path: pathlib.Path, *main: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *main, *SMALL, *LONG, f"--root_output_dir={tmp_path}"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _wait_for(condition, process, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_an_advice_continues_after_a_kill_and_is_printed_again(tmp_path, capsys):
    folder = tmp_path / "advice_sklearn_wine"
    process = _start(tmp_path, "-c", _SMALL)
    _wait_for(lambda: list(folder.glob("compare/*/seed_2000/finished.json")), process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*/seed_*/finished.json")}
    assert before
    assert not (folder / "advice.json").exists()

    process = _start(tmp_path, "-c", _SMALL)
    out, err = process.communicate()
    assert process.returncode == 0, err
    search = {path: when for path, when in before.items() if "/search/" not in str(path)}
    assert {path: path.stat().st_mtime_ns for path in search} == search

    advice = json.loads((folder / "advice.json").read_text())
    assert list(advice["sentences"]) == [*answers.TITLES]
    lines = [
        one
        for text in advice["sentences"].values()
        for line, items in output.paragraphs(text)
        for one in (line, *items)
    ]
    assert all(line in out for line in lines)
    assert next(iter(advice["configurations"]["greedy"]["reward"])) == "2000"
    page, words = (folder / "advice.html").read_text(), (folder / "advice.md").read_text()
    assert page.index("Does exploration pay?") < page.index("Other statistics")
    assert words.startswith("```sh\n./scripts/python -m scripts.advise --data_file=sklearn_wine.csv")
    if advice["command"]:
        parsed = studies.resolve(planning.BINARY, advice["command"].partition(f"{planning.BINARY} ")[2].split())
        assert parsed.experiment_name == f"{folder.name}_recommended"
    if advice["recommended"]:
        assert f"{planning.NAMES[advice['recommended']]}, epsilon 8" in page
    assert "<h3>Comparisons</h3>" not in page  # One test decides, and it is above.

    again = ("advise", *SMALL, *LONG, f"--root_output_dir={tmp_path}")
    assert command.program(command.define().parse(again)) == 0
    assert capsys.readouterr().out == out


@pytest.mark.slow
def test_ctrl_c_saves_what_was_done(tmp_path):
    process = _start(tmp_path, "-m", "scripts.advise")
    _wait_for(lambda: list(tmp_path.glob("advice_sklearn_wine/search/*/seed_*/metrics.csv")), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert f"The same command continues {tmp_path / 'advice_sklearn_wine'}." in err
    assert "Traceback" not in err


def test_help_names_what_it_is_for():
    text = command.define().help()
    assert "--minutes" in text
    assert "--population" in text
    assert isinstance(command.define(), cli.FlagSet)
