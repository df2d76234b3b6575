"""Tests of bandits.plans.verdict."""

import dataclasses
import json
import math
import re

import pytest

from bandits import metrics
from bandits.plans import plan, sweep, verdict
from optimization.privacy import ledger, mechanisms
from optimization.study import cli, run_folder

BOUNDS = {"participating": {"chance": 0.1, "constant": 0.3}}


def _outcomes(folder, point, values, configuration="", first=0, **flags):
    """Returns the outcomes of a point's seeds, and writes their folders."""
    found = [
        _point(f"{point}-0123456789ab", value, configuration, seed, 1, **flags)
        for seed, value in enumerate(values, first)
    ]
    for outcome in found:
        path = folder / outcome.run.name
        path.mkdir(parents=True)
        (path / "metrics.csv").write_text(f"round_num,{metrics.AVERAGE_REWARD}\n1,{outcome.value}\n")
        config = {"format": run_folder.FORMAT, "flags": {"seed": outcome.run.seed, **flags}, "command": "run"}
        (path / "config.json").write_text(json.dumps(config))
        (path / "bounds.json").write_text(json.dumps(BOUNDS))
    return found


def _text(folder, some, reported=None, reference=None):
    ranked, reported = sweep.rank(some, smallest=False), reported or {}
    points = {verdict.short_name(name): reported.get(name, several[0]) for name, several in ranked.items()}
    best = verdict.comparable(points, folder, metrics.AVERAGE_REWARD)
    return verdict.text(best, ranked, reported, reference).splitlines()


def _point(point, value, configuration="", seed=0, rounds=10, **flags):
    """Outcome of a run, without a folder."""
    settings = cli.Settings({"client_learning_rate": 0.1, "seed": seed, "total_rounds": rounds} | flags, frozenset())
    run = plan.Run("bandits.run_federated", point, seed, configuration, tuple(flags), (), settings)
    return sweep.Outcome(run, sweep.FINISHED, rounds, value)


def _ranking(some, *swept):
    """Returns the lines of the ranking, with single spaces."""
    text = verdict.ranking(sweep.rank(some, smallest=False), swept, "score", {})
    return [" ".join(line.split()) for line in text.splitlines() if line]


def _comparisons(printed):
    """Returns the rows of the table of comparisons: its first words, and its verdict with notes."""
    start = printed.index("Comparisons:") + 2
    end = next(place for place, line in enumerate(printed) if line.startswith("Metric:"))
    return [re.split(r"\s{2,}", line.strip()) for line in printed[start:end]]


def _configurations(folder, rewards):
    """Returns the outcomes of configurations, which are flags of a command line, with one seed for each reward."""
    found = []
    for words, values in rewards.items():
        flags = dict(word.split("=") for word in words.split())
        found += _outcomes(folder, words.replace(" ", ","), values, words, **flags)
    return found


def test_points_of_a_search_are_compared_on_fresh_seeds_only(tmp_path):
    search = []
    for bandit, rewards in {"softmax": (0.5, 0.9), "greedy": (0.2, 0.1)}.items():
        for place, reward in enumerate(rewards):
            search += _outcomes(tmp_path, f"{bandit}{place}", [reward], f"bandits_type={bandit}")
    printed = _text(tmp_path, search)
    assert printed[0].startswith("These results are optimistically biased, because the points")
    assert "Comparisons:" not in printed
    fresh = {
        "bandits_type=softmax": _outcomes(tmp_path, "softmax1", [0.52, 0.55, 0.50], "bandits_type=softmax", first=1),
        "bandits_type=greedy": _outcomes(tmp_path, "greedy0", [0.21, 0.22, 0.20], "bandits_type=greedy", first=1),
    }
    printed = _text(tmp_path, search, fresh)
    assert printed[:3] == [
        "Best point of each configuration on fresh seeds, 1 to 3:",
        "  softmax: 0.52 (0.46 to 0.59), above the uniform policy; softmax1",
        "  greedy: 0.210 (0.185 to 0.235), above the uniform policy, below the best fixed action; greedy0",
    ]
    ((name, reference, seeds, difference, *_, word),) = _comparisons(printed)
    assert (name, reference, seeds, word) == ("softmax", "greedy", "3", "better")
    assert difference.startswith("+0.313 (")


def test_fresh_seeds_rank_no_point():
    tuning, fresh = _point("a", 0.5), dataclasses.replace(_point("a", 0.9, seed=1), is_reporting=True)
    ((point,),) = sweep.rank([tuning, fresh], smallest=False).values()
    assert sweep.mean(point) == 0.5
    assert verdict.results_table([tuning, fresh], [], "score")["used_for"].tolist() == ["tuning", "reporting"]
    assert "used_for" not in verdict.results_table([tuning], [], "score")


def test_points_have_verdicts_against_the_baselines(tmp_path):
    rewards = {"bandits_type=softmax": [0.49, 0.5, 0.51], "bandits_type=supervised_mse": [0.9, 0.89, 0.91]}
    ranked = sweep.rank(_configurations(tmp_path, rewards), smallest=False)
    points = {point[0].run.point: point for several in ranked.values() for point in several}
    words = verdict.verdicts_by_point(verdict.comparable(points, tmp_path, metrics.AVERAGE_REWARD))
    assert {sweep.label(point): word for point, word in words.items()} == {
        "bandits_type=softmax": "at a normalized score of 0.50",
        "bandits_type=supervised_mse": "full-feedback baseline",
    }
    table = verdict.ranking(ranked, ["bandits_type"], "reward", words)
    assert re.search("softmax .* at a normalized score of 0.50", table)


def test_configurations_without_a_search_are_compared_with_the_first_if_none_is_greedy(tmp_path):
    rewards = {"bandits_type=softmax": [0.5, 0.52, 0.51], "bandits_type=falcon": [0.6, 0.63, 0.61]}
    found = _configurations(tmp_path, rewards)
    printed = _text(tmp_path, found)
    first = "No configuration is greedy, so softmax (the first) is the reference; --reference sets another."
    assert printed[0] == first
    ((*_, word),) = _comparisons(printed)
    assert word == "better"
    named = _text(tmp_path, found, reference="falcon")
    assert [row[:2] for row in _comparisons(named)] == [["softmax", "falcon"]]


@pytest.mark.parametrize("reference", [None, "greedy, digits"])
def test_rewards_of_other_tasks_are_not_compared(tmp_path, reference):
    rewards = {
        "bandits_type=greedy task_type=digits": [0.2, 0.22, 0.21],
        "bandits_type=softmax task_type=digits": [0.5, 0.52, 0.51],
        "bandits_type=softmax task_type=mnist": [0.8, 0.83, 0.81],
    }
    found = _configurations(tmp_path, rewards)
    printed = _text(tmp_path, found, reference=reference)
    ((name, *_),) = _comparisons(printed)
    assert name == "softmax, digits"
    assert printed[-1].endswith("Not compared, because data, rewards, rounds or cohorts differ: softmax, mnist.")
    ranked = [line.split()[:2] for line in _ranking(found, "bandits_type") if not line.startswith("rank")]
    assert ranked == [["1", "softmax"], ["1", "softmax"], ["2", "greedy"]]  # The first is alone on MNIST.


def test_a_grid_whose_runs_all_failed_has_no_results(tmp_path):
    failed = _point("a-0123456789ab", math.nan, "bandits_type=softmax")
    assert _text(tmp_path, [sweep.Outcome(failed.run, sweep.FAILED)]) == []


def test_diverged_points_are_last_and_marked():
    lost = dataclasses.replace(_point("lost", math.nan, client_learning_rate=10.0), status=sweep.DIVERGED)
    lines = _ranking([lost, _point("low", 1.0, client_learning_rate=0.3)], "client_learning_rate")
    assert lines == ["rank client_learning_rate score status rounds", "1 0.3 1.0000 10", "2 10 - diverged 10"]


def test_each_configuration_is_ranked_and_shown_by_itself_unless_only_words_are_compared(monkeypatch):
    monkeypatch.setattr(verdict, "_SHOWN", 1)
    words = [_point(kind, value, configuration=f"kind={kind}", kind=kind) for kind, value in [("a", 1.0), ("b", 2.0)]]
    assert list(sweep.rank(words, smallest=False)) == ["kind=a", "kind=b"]
    assert _ranking(words, "kind") == ["rank kind score rounds", "1 b 2.0000 10", "2 a 1.0000 10"]
    more = [*words, _point("a2", 3.0, configuration="kind=a", kind="a", client_learning_rate=0.7)]
    shown = ["kind=a", "rank client_learning_rate score rounds", "1 0.7 3.0000 10", "... and 1 more, see results.csv"]
    assert _ranking(more, "kind", "client_learning_rate")[:4] == shown


def test_the_table_has_one_row_per_run_with_the_flags_as_columns_and_the_swept_ones_first():
    runs = [_point("one", 5.0), _point("two", 1.5, client_learning_rate=0.4, seed=1)]
    found = verdict.results_table(runs, ["client_learning_rate"], "score")
    columns = ["run", "status", "score", "rounds", "client_learning_rate", "seed", "total_rounds", "error"]
    assert list(found.columns) == columns
    assert found[["run", "client_learning_rate"]].to_numpy().tolist() == [["one/seed_0", 0.1], ["two/seed_1", 0.4]]


@pytest.mark.slow
def test_a_search_over_private_runs_reports_the_privacy_that_it_spends(tmp_path):
    found = [_point(f"p{place}", 0.5) for place in range(3)]
    mechanism = mechanisms.Mechanism("dpsgd", 1.0, 1000, 10, "poisson")
    for outcome in found[:2]:
        (tmp_path / outcome.run.name).mkdir(parents=True)
        (tmp_path / outcome.run.name / "privacy.json").write_text(json.dumps(mechanism.report(5)))
    summary = verdict.privacy_summary(found, tmp_path)
    assert summary == f"{ledger.describe([(mechanism, 5)] * 2)} Not counted: 1 run without a privacy.json."
    assert f"The 2 runs together spend epsilon {mechanism.epsilon(10):.3g} by RDP" in summary


def test_a_best_point_on_an_edge_asks_for_more_values():
    values = {0.1: 1.0, 0.2: 2.0, 0.5: 0.0}
    grid = [_point(f"p{rate}", value, client_learning_rate=rate) for rate, value in values.items()]
    assert verdict.edges(sweep.rank(grid, smallest=False)) == []
    assert verdict.edges(sweep.rank(grid, smallest=True)) == [
        "The best point of the grid lies on an edge, --client_learning_rate=0.5: sweep more values."
    ]
    assert verdict.edges(sweep.rank([_point("nan", math.nan, client_learning_rate=0.1)], smallest=True)) == []
