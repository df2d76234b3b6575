"""Tests of scripts.advise: its flags, and at the end whole advices, one of which is killed and continued."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from bandits import binaries
from bandits.advice import arms, plan, sentences, session, stages
from bandits.plans import players
from data import files
from data.errors import UsageError
from optimization.study import cli
from scripts import advise as command

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ("--data_file=sklearn_wine.csv", "--client_column=cellar", "--label_column=cultivar")


def test_a_table_makes_the_task_tabular():
    assert command.base_flags(TABLE) == (*TABLE, "--task_type=tabular")
    assert command.base_flags(("--task_type=digits",)) == ("--task_type=digits",)


@pytest.mark.parametrize("preset", ["emnist_dp_small_noise", "so_dp_small_noise"])
def test_a_preset_with_noise_is_refused_and_what_is_right_is_told(preset):
    with pytest.raises(
        UsageError, match=rf"--preset={preset} sets --noise_multiplier=.*--noise_multiplier=0 beside it"
    ):
        command.base_flags((f"--preset={preset}",))


@pytest.mark.parametrize(
    "flags",
    [
        ("--preset=emnist_dp_clip_only",),
        ("--preset=emnist_dp_small_noise", "--noise_multiplier=0"),
        ("--preset=emnist_dp_small_noise", "--aggregator_type=mean"),
        ("--task_type=digits", "--cohort_sampling=fixed"),
    ],
)
def test_values_that_add_no_noise_are_passed_on(flags):
    assert command.base_flags(flags) == flags


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("--task_type=digits",), "advice_digits"),
        (("--task_type=tabular", *TABLE), "advice_sklearn_wine"),
        (("--task_type=digits", "--scenario=init_shift"), "advice_digits_init_shift"),
        (("--preset=emnist_scratch_softmax",), "advice_emnist_scratch_softmax"),
        (("--preset=emnist_init_shift_softmax", "--scenario=init_shift"), "advice_emnist_init_shift_softmax"),
    ],
)
def test_the_folder_is_named_by_the_data(arguments, name):
    settings = binaries.parse(arms.BINARY, arguments)
    assert command.folder_name(settings) == name


def test_the_data_says_what_its_searches_need():
    resolved = binaries.resolve(arms.BINARY, ("--task_type=tabular", *TABLE, "--bandits_type=greedy"))
    data = command.open_data(resolved)
    assert (data.clients, data.cohort, data.num_actions, data.reward_width) == (20, 20, 3, 1.0)
    assert data.is_labelled
    assert (data.held_out, data.rows) == ("held out for evaluation: 5 of 25 clients", data.report["training_rows"])
    assert data.unit.startswith("one value of column 'cellar' with all its rows, not the people behind single rows: 20")
    few = command.open_data(binaries.resolve(arms.BINARY, ("--task_type=digits", "--bandits_type=greedy")))
    assert (few.cohort, few.rows, few.unit) == (20, 0, "one client with all its data, not a single example")


def test_labels_measure_no_model_where_rewards_change():
    flags = ("--task_type=digits", "--bandits_type=greedy")
    for others, is_labelled in (((), True), (("--scenario=drift",), False), (("--scenario=init_shift",), False)):
        assert command.open_data(binaries.resolve(arms.BINARY, (*flags, *others))).is_labelled is is_labelled


@pytest.mark.parametrize("absent", ["--availability=diurnal", "--drop_out=0.1"])
def test_no_noise_is_advised_where_its_guarantee_would_not_hold(absent):
    assert "no Poisson sample" in stages.refused_noise(("--task_type=digits", absent))
    assert stages.refused_noise(("--task_type=digits", "--drop_out=0")) == ""


def test_no_noise_is_advised_where_losses_reset_the_training():
    assert "the clients' losses" in stages.refused_noise(("--task_type=digits", "--reset=model"))
    window = ("--reset=model", "--reset_when=window", "--reset_window=20")
    assert stages.refused_noise(("--task_type=digits", *window)) == ""


def test_deployments_are_ten_times_more_often_unless_they_follow_every_round():
    def often(*flags):
        settings = binaries.resolve(arms.BINARY, ("--task_type=digits", "--bandits_type=greedy", *flags))
        return command.full_plan(settings, ["greedy", "softmax"], 25, 3).often

    assert [often(f"--bandits_deploy_freq={every}") for every in (1, 5, 10, 50)] == [0, 1, 1, 5]
    assert often("--bandits_deploy_freq=1000", "--total_rounds=20") == 2


def test_the_folder_of_another_advice_is_refused(tmp_path):
    state = session.State(tmp_path, {"--total_rounds": 10}, 5.0)
    state.values["spent_before"] = 1
    state.save()
    assert session.State(tmp_path, {"--total_rounds": 10}, 5.0).values["spent_before"] == 1
    with pytest.raises(UsageError, match=r"another recommendation: --total_rounds was 10, is 20\. Choose another"):
        session.State(tmp_path, {"--total_rounds": 20}, 5.0)


def test_the_folder_of_a_run_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="holds a run, not a recommendation: choose another --experiment_name"):
        session.check_no_run(tmp_path)


def test_where_the_model_would_be_trained_is_told_by_what_differs(tmp_path):
    session.State(tmp_path, {"where it would be trained": {"population": 60, "is_table": True}}, 5.0).save()
    with pytest.raises(
        UsageError, match=r"another recommendation: where it would be trained, population was 60, is 90\. Choose"
    ):
        session.State(tmp_path, {"where it would be trained": {"population": 90, "is_table": True}}, 5.0)


def test_with_other_minutes_it_is_planned_anew(tmp_path):
    state = session.State(tmp_path, {}, 5.0)
    decided = json.loads(json.dumps(dataclasses.asdict(plan.Plan(rounds=9, deploy_every=3, often=1))))
    state.values["stages"] = {"search": decided}
    state.save()
    assert session.State(tmp_path, {}, 5.0).values["stages"] == {"search": decided}
    assert session.State(tmp_path, {}, 9.0).values["stages"] == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"spent": None},
        {"pace": {"round_seconds": "x"}},
        {"pace": 3},
        {"stages": {"search": {}}},
        {"stages": []},
        {"identity": None},
        {"stages": {"search": {"rounds": 9, "deploy_every": 3, "often": 1, "strategies": None}}},
        {"spent": float("nan")},
        {"minutes": None},
    ],
)
def test_a_damaged_plan_is_refused_and_it_says_what_to_do(tmp_path, changes):
    state = session.State(tmp_path, {}, 5.0)
    state.save()
    files.replace(tmp_path / session.PLAN_FILE, json.dumps(state.values | changes).encode())
    with pytest.raises(UsageError, match=r"plan\.json is damaged: delete it, and the rest is planned again"):
        session.State(tmp_path, {}, 5.0)


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_plan_that_is_no_json_object_is_refused_likewise(tmp_path, content):
    (tmp_path / session.PLAN_FILE).write_text(content)
    with pytest.raises(UsageError, match=r"plan\.json is damaged: delete it"):
        session.State(tmp_path, {}, 5.0)


def test_noise_that_will_not_be_played_leaves_its_time_to_what_is_left(tmp_path):
    made, _ = _session(tmp_path, 20.0)
    made.state.values["pace"] = dataclasses.asdict(plan.Pace(0.01, 1.0, 1.0, 2))
    made = session.Session(tmp_path, made.state, made.full, made.base, players.Local(2), 2)
    made.begin(plan.SEARCH, "")
    before = made.begin(plan.COMPARE, "")
    made.leave_out_noise()
    after = made.begin(plan.CONFIRM, "")
    assert before.work(plan.NOISE).runs > 0 == after.work(plan.NOISE).runs
    assert not any("noise" in one or "epsilon" in one for one in plan.left_out(made.full, after, {}))


def test_with_other_minutes_the_pace_that_was_measured_and_the_time_it_took_are_kept(tmp_path):
    state = session.State(tmp_path, {}, 5.0)
    state.values["pace"] = dataclasses.asdict(plan.Pace(0.1, 2.0, 3.0, 2))
    state.values["spent"] = 60.0
    files.replace(tmp_path / session.PLAN_FILE, json.dumps(state.values).encode())
    again = session.State(tmp_path, {}, 9.0)
    assert again.values["pace"] == state.values["pace"]
    assert (again.earlier, again.spent) == (60.0, pytest.approx(0.0, abs=5.0))


def _session(tmp_path, minutes=5.0) -> tuple[session.Session, dict[str, arms.Space]]:
    base, full = ("--task_type=digits",), plan.Plan(rounds=100, deploy_every=10, often=1)
    made = session.Session(tmp_path, session.State(tmp_path, {}, minutes), full, base, players.Local(2), 2)
    return made, arms.spaces(base, full.strategies, 10)


def test_what_a_killed_measurement_played_is_not_measured_again(tmp_path, monkeypatch):
    made, spaces = _session(tmp_path)
    measured = []

    def timed(_, some, rounds):
        measured.append({run.seed for run in some})
        return 5.0, 0.1

    monkeypatch.setattr(session.Session, "_timed", timed)
    (before,) = arms.runs(made.base, "greedy", spaces["greedy"].first, arms.TUNING_SEED, 1)
    (tmp_path / "search" / before.name).mkdir(parents=True)
    made.measure(spaces)
    assert measured == [{1002, 1003}] * 3


@pytest.mark.parametrize(("minutes", "factor"), [(30.0, 0.5), (40.0, 1.0)])
def test_what_other_minutes_played_is_no_higher_pace(tmp_path, monkeypatch, minutes, factor):
    state = session.State(tmp_path, {}, 30.0)
    state.values |= {"pace": dataclasses.asdict(plan.Pace(0.1, 2.0, 3.0, 2)), "spent": 60.0}
    files.replace(tmp_path / session.PLAN_FILE, json.dumps(state.values).encode())
    made, _ = _session(tmp_path, minutes)
    made.begin(plan.SEARCH, "Searching")
    planned = made.plan.seconds(made.pace, [plan.SEARCH])
    assert planned > 60
    now = time.monotonic()
    monkeypatch.setattr(session.time, "monotonic", lambda: now + planned / 2)
    made.end()
    assert made.pace.run_seconds == pytest.approx(factor * 2.0, rel=0.01)


# Of each stage a little, whatever the clock says.
_SMALL = """
import dataclasses, sys
from optimization.study import cli
from scripts import advise as command
full = command.full_plan
few = dict(points=2, tuning_seeds=1, seeds=2, more_seeds=2, frequent_seeds=2, frequent_all=False, noise_seeds=1)
command.full_plan = lambda *given: dataclasses.replace(full(*given), **few)
sys.argv[0] = "scripts/advise/__main__.py"
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
def test_an_advice_is_played_continued_after_a_kill_and_told_again(tmp_path, capsys):
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
    assert list(advice["sentences"]) == [*sentences.TITLES]
    lines = [
        one
        for text in advice["sentences"].values()
        for line, items in sentences.paragraphs(text)
        for one in (line, *items)
    ]
    assert all(line in out for line in lines)
    assert next(iter(advice["arms"]["greedy"]["reward"])) == "2000"
    page, words = (folder / "advice.html").read_text(), (folder / "advice.md").read_text()
    assert page.index("Does exploration pay?") < page.index("<h3>Results</h3>")
    assert words.startswith("```sh\n./scripts/python -m scripts.advise --data_file=sklearn_wine.csv")
    if advice["command"]:
        played = binaries.resolve(arms.BINARY, advice["command"].partition(f"{arms.BINARY} ")[2].split())
        assert played.experiment_name == f"{folder.name}_recommended"
        assert f"{arms.NAMES[advice['recommended']]}, epsilon 8" in page
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
