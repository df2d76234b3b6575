import dataclasses
import functools
import json

import numpy as np
import pandas as pd
import pytest

from bandits.papers import running
from bandits.papers.plan import Published
from bandits.plans.plan import Configuration
from data.errors import UsageError
from tests.bandits.papers.toy_figures import reproduce_toy, toy_figure
from tests.scripts import toy_binary

pytestmark = pytest.mark.slow


@pytest.fixture
def reproduce(tmp_path, monkeypatch):
    return functools.partial(reproduce_toy, tmp_path, monkeypatch)


def test_configurations_run_alone_and_others_count_once_they_are_finished(reproduce, tmp_path, capfd):
    assert reproduce(toy_figure(), "--configurations=far") == 0
    assert (tmp_path / "r" / "f1" / "f1.png").is_file()
    assert set(pd.read_csv(tmp_path / "r" / "f1" / "f1_records.csv")["arm"]) == {"far"}
    assert reproduce(toy_figure(), "--configurations=near; far") == 0
    assert reproduce(toy_figure(), "--configurations=near") == 0
    assert set(pd.read_csv(tmp_path / "r" / "f1" / "f1_records.csv")["arm"]) == {"near", "far"}
    capfd.readouterr()
    with pytest.raises(UsageError, match=r"--configurations=fat is not known: did you mean far\?"):
        reproduce(toy_figure(), "--configurations=fat")


def test_a_job_array_holds_what_can_run_now(reproduce, tmp_path, capfd):
    searched = Configuration("searched", ("searched",), (), sweeps=("rate=0.01;0.1",))
    far = Configuration("far", ("far",), ("--rate=1",))
    assert (
        reproduce(toy_figure(configurations=(searched, far), claims=(), published=()), "--executor=slurm_script") == 0
    )
    assert "6 runs in " in capfd.readouterr().out  # Two points on two tuning seeds; what is picked is not known yet.
    commands = (tmp_path / "r" / "commands.txt").read_text().splitlines()
    assert sum("--seed=100" in line for line in commands) == 2
    assert sum("--rate=1 " in line for line in commands) == 2


def test_a_failed_run_is_reported_at_the_end_and_the_others_are_drawn(reproduce, tmp_path, capfd):
    flags = {"near": ("--rate=0.1",), "far": ("--rate=1", "--fails_at=1")}
    arms = tuple(Configuration(name, (name,), own) for name, own in flags.items())
    assert reproduce(toy_figure(configurations=arms), "--repeat=1") == 1
    captured = capfd.readouterr()
    assert "section 2: near is better [no score of far]" in captured.out
    assert "One seed: no claim or number of f1 will get a verdict." in captured.out
    assert "1 failed:" in captured.err
    assert captured.err.splitlines()[-1].startswith("  f1: far: ValueError: this rate fails (")
    assert (tmp_path / "r" / "f1" / "f1.png").exists()


def test_the_best_point_of_a_search_on_tuning_seeds_counts_and_its_values_are_reported(reproduce, tmp_path):
    arms = (Configuration("searched", ("searched",), (), sweeps=("rate=0.01;0.1;1",)),)
    published = (Published("searched", "rate", 0.2, "Table 1"),)
    figure = toy_figure(configurations=arms, published=published, claims=(), curves=())
    assert reproduce(figure, "--repeat=1") == 0
    table = pd.read_csv(tmp_path / "r" / "f1" / "f1_records.csv")
    assert table[["score", "picked:rate"]].to_numpy() == pytest.approx(np.array([[4.0, 0.1]]))
    seeds = {}
    for folder in tmp_path.glob("r/runs/*/seed_*"):
        seeds.setdefault(folder.parent.name.partition("-")[0], set()).add(folder.name)
    tuning = {"seed_100", "seed_101"}
    assert seeds == {"rate=0.01": tuning, "rate=0.1": {*tuning, "seed_0"}, "rate=1": tuning}


def test_successive_halving_runs_only_the_better_points_to_the_end(reproduce, tmp_path):
    arms = (Configuration("searched", ("searched",), ("--total_rounds=8",), sweeps=("rate=0.01;0.1;1;10",)),)
    figure = toy_figure(configurations=arms, published=(), claims=(), curves=(), halving=2)
    assert reproduce(figure, "--repeat=1") == 0
    rounds = {
        path.parent.parent.name.partition("-")[0]: json.loads(path.read_text())["total_rounds"]
        for path in tmp_path.glob("r/runs/*/seed_100/finished.json")
    }
    assert rounds == {"rate=0.01": 4, "rate=0.1": 8, "rate=1": 2, "rate=10": 2}
    records = tmp_path / "r" / "f1" / "f1_records.csv"
    before = records.read_bytes()
    assert reproduce(figure, "--repeat=1", "--report_only") == 0
    assert records.read_bytes() == before
    far = Configuration("far", ("far",), ("--total_rounds=8", "--rate=1"))
    assert (
        reproduce(dataclasses.replace(figure, configurations=(*arms, far)), "--repeat=1", "--configurations=far") == 0
    )
    assert set(pd.read_csv(records)["arm"]) == {"searched", "far"}


def test_a_job_array_of_successive_halving_holds_the_runs_of_one_rung(reproduce, tmp_path, capfd):
    arms = (Configuration("searched", ("searched",), ("--total_rounds=8",), sweeps=("rate=0.01;0.1;1;10",)),)
    figure = toy_figure(configurations=arms, published=(), claims=(), curves=(), halving=2, tuning_seeds=(100,))
    assert reproduce(figure, "--executor=slurm_script") == 0
    commands = (tmp_path / "r" / "commands.txt").read_text().splitlines()
    assert len(commands) == sum("--total_rounds=2" in line for line in commands) == 4
    # Two points run 2 rounds, one 4, one 8, and two other seeds 8.
    assert reproduce(figure, "--estimate") == 0
    assert "toy_binary: 6 runs, 32 rounds of " in capfd.readouterr().out


def test_data_that_is_not_there_is_one_message_before_anything_is_run(reproduce, tmp_path, monkeypatch):
    def refuse(study, options):
        raise UsageError("There is no toy.sqlite.")

    monkeypatch.setattr(toy_binary.ToyStudy, "open", refuse)
    with pytest.raises(UsageError, match=r"--figure=f1: There is no toy\.sqlite"):
        reproduce(toy_figure())
    assert not list(tmp_path.glob("r/runs/*"))
    figures = [toy_figure(name=name) for name in ("a", "b")]
    with pytest.raises(UsageError, match=r"^--figure=a,b: There is no toy\.sqlite\.$"):
        running.check_data(figures, tmp_path, None)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--rat=1", "--rate=2"), "--figure=f1, near: --rat is not known"),
        (("--rate=2", "--rate=x"), "--figure=f1, far: .*--rate"),
    ],
)
def test_a_mistake_in_a_configuration_is_reported_before_anything_runs(reproduce, tmp_path, flags, message):
    arms = tuple(Configuration(name, (name,), (one,)) for name, one in zip(("near", "far"), flags, strict=True))
    with pytest.raises(UsageError, match=message):
        reproduce(toy_figure(configurations=arms))
    assert not (tmp_path / "r").exists()
