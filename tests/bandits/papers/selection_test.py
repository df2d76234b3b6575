"""Tests of bandits.papers.selection by `reproduce`, on few digits; its settings and its tables."""

import numpy as np
import pandas as pd
import pytest

from bandits.papers import selection, selection_scores
from data.errors import UsageError
from scripts import reproduce

_SETTINGS = """
[few_digits]
flags = "--task_type=digits --clients_per_round=5 --total_rounds=2"
initial = "--bandits_type=supervised_mse --population_client_selection=0-20"
deployed = "--population_client_selection=20-60"
logged = "--bandits_temperature=0.5"
sweep = ["client_learning_rate=0.01,0.1"]
temperatures = [0.05, 1]
reward_model = "--model_rounds=2"
largest_weight = 2.0
max_rows_per_client = 5
epsilons = [3.0]
populations = [1]
"""


def _program(folder, *flags):
    (folder / "settings.toml").write_text(_SETTINGS)
    own = (f"--root_output_dir={folder}", "--experiment_name=r", "--repeat=2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "_SETTINGS", folder / "settings.toml")
        patch.setattr(selection, "_DRAWS", 3)
        return reproduce.program(
            reproduce.define().parse(["reproduce", f"--figure={selection.NAME}", *own, *(flags or ("--workers=1",))])
        )


def _read(folder):
    return [pd.read_csv(folder / "selection" / name) for name in (selection.SCORES, selection.CANDIDATES)]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    assert _program(folder, "--workers=1", f"--records={folder}/kept") == 0
    return folder


@pytest.mark.slow
def test_the_program_scores_each_estimator_on_each_log(played):
    scores, candidates = _read(played / "kept")
    assert len(candidates) == 2 * 2 * 2
    assert set(candidates["candidate"]) == {
        f"client learning rate {rate}, temperature {temperature}" for rate in (0.01, 0.1) for temperature in (0.05, 1)
    }
    one = scores[scores["seed"] == 1]
    for epsilon in (3.0, np.inf):
        assert one[one["epsilon"] == epsilon]["estimator"].tolist() == ["ips", "snips"]
    of_all = ["ips", "snips", "clipped_ips", "dm", "dr", "switch_dr", "dros", "chance"]
    assert one[one["epsilon"].isna()]["estimator"].tolist() == of_all
    assert scores["rho"].abs().max() <= 1
    assert (scores["clients"] <= 40).all()
    for seed, rows in candidates.groupby("seed"):
        spread = rows["true"].max() - rows["true"].mean()
        chance = scores[(scores["seed"] == seed) & (scores["estimator"] == "chance")]
        assert chance["regret"].tolist() == pytest.approx([spread], abs=1e-5)


@pytest.mark.slow
def test_the_labels_know_what_was_logged(played, monkeypatch):
    monkeypatch.setattr(selection, "_SETTINGS", played / "settings.toml")
    studies = selection.choose(["few_digits"])
    plan = selection.Plan(studies, 2, (), played / "r")
    folder = plan.runs
    _, (log_run, _), (candidate, _) = plan.runs_of(*studies)
    found = selection_scores.read_deployment(folder / log_run.name)
    of_rows = found.expected[found.context, found.log.actions]
    assert of_rows.tolist() == found.log.rewards.tolist()
    # And so the weighted rewards of a policy are, on average over its own actions, its true reward.
    chosen = selection_scores.probabilities(folder / candidate.name, 1.0, found)
    assert chosen.sum(axis=1) == pytest.approx(np.ones(len(chosen)))
    assert found.true_reward(np.eye(10)[found.expected.argmax(axis=1)]) == pytest.approx(1)


@pytest.mark.slow
def test_finished_runs_are_not_rerun_and_give_the_same(played, capsys):
    runs = played / "r" / "runs"
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("metrics.csv")}
    assert len(before) == 1 + 2 + 2
    assert _program(played, "--workers=1", f"--records={played}/again") == 0
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("metrics.csv")} == before
    for name in (selection.SCORES, selection.CANDIDATES):
        again, kept = (played / folder / "selection" / name for folder in ("again", "kept"))
        assert again.read_bytes() == kept.read_bytes()
    printed, (scores, candidates) = capsys.readouterr().out, _read(played / "kept")
    assert selection.scores_table(scores) in printed
    assert selection.candidates_table(candidates) in printed


def test_the_published_settings_make_twelve_candidates_and_no_log_shares_their_seed(tmp_path):
    plan = selection.Plan(selection.choose(None), 5, (), tmp_path)
    for study in plan.studies:
        _, logs, models = plan.runs_of(study)
        assert len({selection.label(one, temperature) for one in models for temperature in study.temperatures}) == 12
        assert {one.seed for one in models}.isdisjoint(one.seed for one in logs)
        assert {one.settings.log_interactions for one in logs} == {True}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("--model_rounds=2", "--model_rounds=none", "few_digits: reward_model: --model_rounds=none"),
        ("client_learning_rate=0.01", "client_rate=0.01", "--figure=select_before_deploying, few_digits: "),
        ("[0.05, 1]", "[]", "two candidates at least"),
        ("--bandits_temperature=0.5", "--scenario=drift", "--reward_drift=abrupt a policy has no single true reward"),
    ],
)
def test_unsound_settings_are_refused_before_anything_is_run(tmp_path, monkeypatch, old, new, message):
    monkeypatch.setitem(globals(), "_SETTINGS", _SETTINGS.replace(old, new))
    with pytest.raises(UsageError, match=message):
        _program(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["settings.toml"]


def test_tables_tell_means_over_logs_with_their_intervals():
    rows = [("t", seed, "ips", np.nan, 1, rho, 0.25) for seed, rho in enumerate((0.5, 0.7))]
    rows += [("t", seed, "snips", 3.0, 10, 1.0, 0.0) for seed in range(2)]
    scores = pd.DataFrame(rows, columns=["task", "seed", "estimator", "epsilon", "times", "rho", "regret"])
    candidates = pd.DataFrame({"task": ["t", "t"], "candidate": ["c", "c"], "seed": [0, 1], "true": [0.5, 0.5]})
    lines = selection.scores_table(scores).splitlines()
    # Student's t of one degree: 12.706 times the standard error, 0.1.
    assert lines[2] == "| none | IPS | 0.60 (-0.67 to 1.87) | 0.250 (0.250 to 0.250) |"
    assert lines[3] == "| epsilon 3, 10 times the clients | SNIPS | 1.00 (1.00 to 1.00) | 0.000 (0.000 to 0.000) |"
    assert selection.candidates_table(candidates).splitlines()[-1] == "| `t` | c | 0.500 (0.500 to 0.500) |"


@pytest.mark.slow
def test_only_the_initial_model_can_be_run_first(tmp_path, capsys):
    assert _program(tmp_path, "--executor=slurm_script") == 0
    assert "1 runs in " in capsys.readouterr().out
    assert "--bandits_type=supervised_mse" in (tmp_path / "r" / "commands.txt").read_text()
    assert _program(tmp_path, "--report_only") == 1
    assert "1 runs of select_before_deploying are not finished, so nothing is reported." in capsys.readouterr().out
