"""Tests of scripts.advise: whole recommendations, one of which is killed and continued."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from bandits import studies
from bandits.advice import answers, command
from bandits.advice import plan as planning

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ("--data_file=sklearn_wine.csv", "--client_column=cellar", "--label_column=cultivar")


# Each stage runs a little, however fast the machine is.
_SMALL = """
import dataclasses, sys
from optimization.study import cli
from bandits.advice import command, plan as planning
full = command.full_plan
few = dict(points=2, tuning_seeds=1, seeds=2, independent_seeds=2, configurations=("greedy", "softmax", "falcon"))
command.full_plan = lambda *arguments, **names: dataclasses.replace(full(*arguments, **names), **few)
planning.NOISE_SEEDS = 1
sys.argv[0] = "scripts/advise.py"
cli.main(command.define(), command.program)
"""
SMALL = (*TABLE, "--total_rounds=4", "--bandits_deploy_freq=2", "--clients_per_round=5", "--workers=1")
LONG = ("--minutes=1000", "--population=5000", "--target_epsilons=8")


def _start(tmp_path: pathlib.Path, *main: str) -> subprocess.Popen:
    words = [sys.executable, *main, *SMALL, *LONG, f"--root_output_dir={tmp_path}"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    return subprocess.Popen(words, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True)


def _wait_for(condition, process, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_a_recommendation_continues_after_a_kill_and_is_printed_again(tmp_path, capsys):
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
    parsed = [part for text in advice["sentences"].values() for part in answers.paragraphs(text)]
    assert all(line in out for paragraph, items in parsed for line in (paragraph, *items))
    assert next(iter(advice["configurations"]["greedy"]["values"]["bandits/average_rewards"])) == "2000"
    rewards = {kind: one["values"]["bandits/average_rewards"] for kind, one in advice["federation"].items()}
    assert list(rewards["alone"]) == list(rewards["federated"])
    assert rewards["alone"] != rewards["federated"]
    assert sum(advice["by_client"]["shares"].values()) == pytest.approx(1)
    page = (folder / "advice.html").read_text()
    assert page.index("Does exploration pay?") < page.index("Other statistics")
    if advice["command"]:
        parsed = studies.resolve(planning.BINARY, advice["command"].partition(f"{planning.BINARY} ")[2].split())
        assert parsed.experiment_name == f"{folder.name}_recommended"
    assert "<h3>Comparisons</h3>" not in page  # One test decides, and it is above.

    again = ("advise", *SMALL, *LONG, f"--root_output_dir={tmp_path}")
    assert command.program(command.define().parse(again)) == 0
    assert capsys.readouterr().out == out


@pytest.mark.slow
def test_ctrl_c_saves_finished_rounds(tmp_path):
    process = _start(tmp_path, "-m", "scripts.advise")
    _wait_for(lambda: list(tmp_path.glob("advice_sklearn_wine/search/*/seed_*/metrics.csv")), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert f"The same command continues {tmp_path / 'advice_sklearn_wine'}." in err
    assert "Traceback" not in err
