"""Tests of bandits.plans.outcomes."""

import json
import math
import re

import matplotlib.image
import pytest

from bandits import metrics
from bandits.plans import executors, outcomes, plan
from data.errors import UsageError
from optimization.privacy import ledger, mechanisms
from optimization.study import cli, run_folder

FLAGS = {"client_learning_rate": 0.1, "seed": 0, "total_rounds": 10}


def _outcome(point, value, rounds=10, configuration="", seed=0, **flags):
    settings = cli.Settings(FLAGS | {"seed": seed} | flags, frozenset())
    run = plan.Run("toy", point, seed, configuration, tuple(flags), (), settings)
    return outcomes.Outcome(run, outcomes.FINISHED, rounds, value)


def _finished(tmp_path, metrics="round_num,score\n1,0.5\n2,0.7\n3,inf\n"):
    folder = run_folder.RunFolder(tmp_path / "p-key" / "seed_0")
    folder.open(FLAGS, "digest")
    folder.metrics_path.write_text(metrics)
    folder.write_json(executors.FINISHED_FILE, {"total_rounds": 3})
    return folder.path


def test_a_finished_folder_says_its_rounds_and_any_rounds_metric(tmp_path):
    assert outcomes.finished_rounds(tmp_path / "nothing") == 0
    folder = _finished(tmp_path)
    assert outcomes.finished_rounds(folder) == 3
    assert outcomes.read_value(folder, "score", 2) == 0.7
    assert math.isnan(outcomes.read_value(folder, "score", 3))
    (folder / "metrics.csv").write_text("round_num,score\n1,0.5\n2,0.7\n")
    assert outcomes.read_value(folder, "score", 9) == 0.7  # It stopped itself early.
    (folder / executors.FINISHED_FILE).unlink()
    assert outcomes.finished_rounds(folder) == 0


@pytest.mark.parametrize(("rounds", "value"), [(1, 0.5), (2, 0.5), (3, 0.5), (4, 0.75)])
def test_a_round_beyond_which_a_run_went_on_without_an_evaluation_has_the_nearest_one(tmp_path, rounds, value):
    folder = _finished(tmp_path, f"round_num,{metrics.ACCURACY}\n1,\n2,0.5\n3,\n4,0.75\n")
    assert outcomes.read_value(folder, metrics.ACCURACY, rounds) == value


def test_what_each_round_measures_has_no_other_rounds_value(tmp_path):
    folder = _finished(tmp_path, f"round_num,{metrics.AVERAGE_REWARD}\n1,0.5\n2,\n3,0.5\n")
    assert math.isnan(outcomes.read_value(folder, metrics.AVERAGE_REWARD, 2))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", "{", "config.json is not readable"),
        ("config.json", None, "is damaged: it has no config.json"),
        ("config.json", '{"flags": {}}', "config.json is damaged: it names no versions"),
        ("config.json", '{"format": 2, "versions": {}}', "holds a run of format 2, and .* reads only format 3"),
        ("config.json", '{"format": 3, "versions": {"tensorflow": "1.15"}}', "was made with tensorflow 1.15; this is"),
        (executors.FINISHED_FILE, "{}", "finished.json is damaged"),
        (executors.FINISHED_FILE, "", "finished.json is not readable"),
    ],
)
def test_a_damaged_folder_is_named(tmp_path, file, content, message):
    folder = _finished(tmp_path)
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_text(content)
    with pytest.raises(UsageError, match=f"{folder}.*{message}"):
        outcomes.finished_rounds(folder)


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"metrics\.csv has no column reward"):
        outcomes.read_value(_finished(tmp_path), "reward", 3)


OUTCOMES = [
    _outcome("few", 9.0, rounds=5, client_learning_rate=0.1),
    _outcome("nan", math.nan, client_learning_rate=0.2),
    _outcome("low", 1.0, client_learning_rate=0.3),
    _outcome("mixed", 5.0, client_learning_rate=0.4),
    _outcome("mixed", 1.5, client_learning_rate=0.4, seed=1),
    _outcome("high", 3.0, client_learning_rate=0.5),
]


def test_points_rank_by_rounds_then_by_the_mean_over_seeds_and_those_without_one_last():
    (points,) = outcomes.rank(OUTCOMES, smallest=False).values()
    assert [point.outcomes[0].run.point for point in points] == ["mixed", "high", "low", "few", "nan"]
    assert points[0].mean == 3.25
    (points,) = outcomes.rank(OUTCOMES, smallest=True).values()
    assert [point.outcomes[0].run.point for point in points] == ["low", "high", "mixed", "few", "nan"]


def test_a_run_has_diverged_in_whose_last_round_half_of_the_clients_did(tmp_path):
    folder = _finished(tmp_path, "round_num,score,train/nonfinite_clients\n1,0.5,0\n2,0.7,0\n3,0.9,1\n")
    assert not outcomes.has_diverged(folder, 2)
    assert outcomes.has_diverged(folder, 3)


def test_diverged_points_are_last_and_marked():
    lost = _outcome("lost", math.nan, client_learning_rate=10.0)
    lost.status = outcomes.DIVERGED
    ranked = outcomes.rank([lost, OUTCOMES[2]], smallest=False)
    lines = outcomes.text(ranked, ["client_learning_rate"], "score", smallest=False, shown=9).splitlines()
    assert [line.split() for line in lines] == [
        ["rank", "client_learning_rate", "score", "status", "rounds"],
        ["1", "0.3", "1.0000", "10"],
        ["2", "10", "-", "diverged", "10"],
    ]


def test_each_configuration_is_ranked_and_shown_by_itself_unless_only_words_are_compared():
    words = [_outcome(kind, value, configuration=f"kind={kind}", kind=kind) for kind, value in [("a", 1.0), ("b", 2.0)]]
    ranked = outcomes.rank(words, smallest=False)
    assert list(ranked) == ["kind=a", "kind=b"]
    lines = outcomes.text(ranked, ["kind"], "score", smallest=False, shown=1).splitlines()
    assert [line.split() for line in lines] == [
        ["rank", "kind", "score", "rounds"],
        ["1", "b", "2.0000", "10"],
        ["2", "a", "1.0000", "10"],
    ]
    more = [*words, _outcome("a2", 3.0, configuration="kind=a", kind="a", client_learning_rate=0.7)]
    ranked = outcomes.rank(more, smallest=False)
    lines = outcomes.text(ranked, ["kind", "client_learning_rate"], "score", smallest=False, shown=1).splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["kind=a"],
        ["rank", "client_learning_rate", "score", "rounds"],
        ["1", "0.7", "3.0000", "10"],
    ]
    assert lines[3] == "... and 1 more, see results.csv"


def test_a_row_a_run_has_its_flags_as_columns_the_swept_ones_first(tmp_path):
    found = outcomes.table(OUTCOMES, ["client_learning_rate"], "score", tmp_path)
    columns = ["run", "status", "score", "rounds", "client_learning_rate", "seed", "total_rounds", "error"]
    assert list(found.columns) == columns
    assert list(found["run"])[3:5] == ["mixed/seed_0", "mixed/seed_1"]
    assert list(found["client_learning_rate"]) == [0.1, 0.2, 0.3, 0.4, 0.4, 0.5]


@pytest.mark.slow
def test_a_search_over_private_runs_tells_what_it_costs(tmp_path):
    found = [_outcome(f"p{place}", 0.5) for place in range(3)]
    mechanism = mechanisms.Mechanism("dpsgd", 1.0, 1000, 10, "poisson")
    assert outcomes.privacy_summary(found, tmp_path) == ""
    for outcome in found[:2]:
        (tmp_path / outcome.run.name).mkdir(parents=True)
        (tmp_path / outcome.run.name / "privacy.json").write_text(json.dumps(mechanism.report(5)))
    summary = outcomes.privacy_summary(found, tmp_path)
    assert summary == f"{ledger.describe([(mechanism, 5)] * 2)} Not counted: 1 runs without a privacy.json."
    assert f"The 2 runs together spend epsilon {mechanism.epsilon(10):.3g} by RDP" in summary


def test_the_two_learning_rates_are_the_servers_and_the_clients():
    assert outcomes.learning_rates(["client_learning_rate", "mu", "server_learning_rate"]) == (
        "server_learning_rate",
        "client_learning_rate",
    )
    assert outcomes.learning_rates(["client_learning_rate"]) is None


def test_the_heat_map_shows_the_best_over_other_flags(tmp_path):
    grid = [
        _outcome(f"{s}{c}{mu}", s * 10 + c + mu, server_learning_rate=s, client_learning_rate=c, mu=mu)
        for s in (1.0, 2.0)
        for c in (1.0, 2.0)
        for mu in (0.0, 0.5)
        if (s, c) != (2.0, 2.0)
    ]
    (points,) = outcomes.rank(grid, smallest=False).values()
    axes = ("server_learning_rate", "client_learning_rate")
    cells = outcomes.cells(points, axes).set_index(list(axes))["mean"].to_dict()
    assert cells == {(1.0, 1.0): 11.5, (1.0, 2.0): 12.5, (2.0, 1.0): 21.5}
    path = tmp_path / "heat_map.png"
    outcomes.heat_map(points, axes, path, metric="score", title="", smallest=False)
    shape = matplotlib.image.imread(path).shape
    assert min(shape[:2]) > 300


def test_cells_not_above_the_uniform_policy_are_marked(tmp_path, monkeypatch):
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    rates = [("low", 1.0, 0.125), ("high", 2.0, 0.5)]
    found = [_outcome(name, value, server_learning_rate=1.0, client_learning_rate=rate) for name, rate, value in rates]
    (points,) = outcomes.rank(found, smallest=False).values()
    note = "* not significantly above the uniform policy"
    for marked, expected in (((), {"0.125", "0.5"}), (("low",), {"0.125*", "0.5", note})):
        axes = ("server_learning_rate", "client_learning_rate")
        path = tmp_path / "heat_map.svg"
        outcomes.heat_map(points, axes, path, metric="score", title="a", smallest=False, marked=marked)
        texts = set(re.findall(r"<text[^>]*>([^<]*)</text>|<tspan[^>]*>([^<]*)</tspan>", path.read_text()))
        words = {first or second for first, second in texts}
        assert expected <= words
        assert (note in words) == bool(marked)


def test_the_table_has_a_verdict_for_each_point(tmp_path):
    ranked = outcomes.rank(OUTCOMES[2:], smallest=False)
    arguments = (ranked, ["client_learning_rate"], "score")
    lines = outcomes.text(
        *arguments, smallest=False, shown=9, verdicts={"mixed": "not significantly different from the uniform policy"}
    ).splitlines()
    assert lines[0].endswith("against the baselines")
    assert lines[1].endswith(" not significantly different from the uniform policy")
    assert lines[2].split()[-1] == "-"
    assert "baselines" not in outcomes.text(*arguments, smallest=False, shown=9)
