"""Tests of scripts.grid.verdict."""

import json

import pandas as pd
import pytest

from bandits import metrics
from optimization.study import cli
from scripts.grid import plan, results, verdict

BOUNDS = {"participating": {"chance": 0.1, "constant": 0.3}}


def _outcomes(folder, point, values, configuration="", first=0, bounds=BOUNDS, **flags):
    """Returns the outcomes of a point's seeds, and writes their folders."""
    found = []
    for seed, value in enumerate(values, first):
        settings = cli.Settings({"seed": seed, "total_rounds": 1, **flags}, frozenset())
        run = plan.Run("toy", f"{point}-0123456789ab", seed, configuration, (), (), settings)
        path = folder / run.name
        path.mkdir(parents=True)
        pd.DataFrame({"round_num": [1], metrics.AVERAGE_REWARD: [value]}).to_csv(path / "metrics.csv", index=False)
        (path / "config.json").write_text(json.dumps({"flags": {"seed": seed, **flags}, "command": "run"}))
        if bounds:
            (path / "bounds.json").write_text(json.dumps(bounds))
        found.append(results.Outcome(run, results.FINISHED, 1, value))
    return found


def _text(folder, outcomes, reported=None):
    ranked = results.rank(outcomes, smallest=False)
    return verdict.text(ranked, reported or {}, folder, metrics.AVERAGE_REWARD, smallest=False).splitlines()


def test_a_grid_at_chance_has_no_winner(tmp_path):
    points = [[0.11, 0.10, 0.12], [0.09, 0.10, 0.11], [0.10, 0.08, 0.11]]
    found = [one for rate, values in enumerate(points) for one in _outcomes(tmp_path, f"rate={rate}", values)]
    assert _text(tmp_path, found)[-1] == (
        "No winner: rate=0 is first, but it is not told from chance (chance earns 0.1, the best constant action 0.3)."
    )


def test_one_seed_announces_no_winner(tmp_path):
    found = [*_outcomes(tmp_path, "rate=1", [0.9]), *_outcomes(tmp_path, "rate=2", [0.2])]
    assert _text(tmp_path, found)[-1].startswith(
        "No winner: rate=1 is first, but it was played with one seed: not judged (chance earns 0.1"
    )


def test_the_first_is_told_where_the_seeds_tell_it_from_chance(tmp_path):
    found = [*_outcomes(tmp_path, "rate=1", [0.5, 0.51, 0.52]), *_outcomes(tmp_path, "rate=2", [0.2, 0.3, 0.1])]
    assert _text(tmp_path, found)[-1].startswith("First: rate=1, above chance (chance earns 0.1, the best")


def test_where_chance_is_not_known_nothing_is_said_of_it(tmp_path):
    found = [one for rate in (1, 2) for one in _outcomes(tmp_path, f"rate={rate}", [0.5, 0.6], bounds=None)]
    assert not any("chance" in line for line in _text(tmp_path, found))


def test_the_expected_best_of_as_many_points_of_each_configuration(tmp_path):
    found = [
        one
        for bandit, values in (("softmax", [0.5, 0.7, 0.9, 0.3]), ("greedy", [0.6, 0.4]))
        for place, value in enumerate(values)
        for one in _outcomes(tmp_path, f"{bandit}{place}", [value], f"bandits_type={bandit}")
    ]
    # Of two of four: (0.9 * 3 + 0.7 * 2 + 0.5) / 6.
    assert _text(tmp_path, found)[:3] == [
        "Expected best of points drawn at random, the same number of each configuration:",
        "  softmax: 0.6000 of 1, 0.7667 of 2 (4 points)",
        "  greedy: 0.5000 of 1, 0.6000 of 2 (2 points)",
    ]


def test_points_that_were_stopped_early_have_no_expected_best(tmp_path):
    found = [*_outcomes(tmp_path, "rate=1", [0.5]), *_outcomes(tmp_path, "rate=2", [0.4])]
    assert any("Expected best" in line for line in _text(tmp_path, found))
    found[0].rounds = 8
    assert not any("Expected best" in line for line in _text(tmp_path, found))


def test_values_of_the_seeds_that_picked_are_not_compared(tmp_path):
    found = [
        one
        for bandit, values in (("softmax", [0.5, 0.7]), ("greedy", [0.2, 0.1]))
        for place, value in enumerate(values)
        for one in _outcomes(tmp_path, f"{bandit}{place}", [value, value + 0.01], f"bandits_type={bandit}")
    ]
    told = "\n".join(_text(tmp_path, found))
    assert "These values come from the seeds that picked the points, and are too good by that" in told
    assert "greedy:" in told
    assert "Told apart" not in told


def test_those_of_fresh_seeds_are(tmp_path):
    found = [
        one
        for bandit, values in (("softmax", [0.5, 0.9]), ("greedy", [0.2, 0.1]))
        for place, value in enumerate(values)
        for one in _outcomes(tmp_path, f"{bandit}{place}", [value], f"bandits_type={bandit}")
    ]
    fresh = {
        "bandits_type=softmax": _outcomes(tmp_path, "softmax1", [0.52, 0.55, 0.50], "bandits_type=softmax", first=1),
        "bandits_type=greedy": _outcomes(tmp_path, "greedy0", [0.21, 0.22, 0.20], "bandits_type=greedy", first=1),
    }
    told = _text(tmp_path, found, fresh)
    assert told[3:6] == [
        "The best point of each configuration with fresh seeds, 1 to 3:",
        "  softmax: 0.5233 (0.4608 to 0.5858); softmax1",
        "  greedy: 0.21 (0.1852 to 0.2348); greedy0",
    ]
    assert told[6].startswith("softmax: +0.3133 (95% interval ")
    assert told[6].endswith(": better than greedy")
    assert told[-1].startswith("First: softmax, above chance (")


def test_words_alone_pick_nothing_and_are_compared(tmp_path):
    found = [
        *_outcomes(tmp_path, "softmax", [0.52, 0.55, 0.50], "bandits_type=softmax"),
        *_outcomes(tmp_path, "greedy", [0.21, 0.22, 0.20], "bandits_type=greedy"),
        *_outcomes(tmp_path, "dp", [0.21, 0.25, 0.20], "bandits_type=falcon", noise_multiplier=1.0),
    ]
    told = _text(tmp_path, found)
    assert told[0].endswith("better than greedy")
    assert "3 and 3 seeds, unpaired" in told[1]
    assert not any("Expected best" in line or "picked" in line for line in told)


def test_fresh_seeds_rank_no_point(tmp_path):
    (tuning,) = _outcomes(tmp_path, "a", [0.5])
    (fresh,) = _outcomes(tmp_path, "a", [0.9], first=1)
    fresh.reports = True
    ((point,),) = results.rank([tuning, fresh], smallest=False).values()
    assert point.mean == 0.5
    table = results.table([tuning, fresh], [], metrics.AVERAGE_REWARD, tmp_path)
    assert table["used_for"].tolist() == ["tuning", "reporting"]
    assert "used_for" not in results.table([tuning], [], metrics.AVERAGE_REWARD, tmp_path)


@pytest.mark.parametrize("configuration", ["", "bandits_type=softmax"])
def test_a_grid_whose_runs_all_failed_says_nothing(tmp_path, configuration):
    settings = cli.Settings({"seed": 0, "total_rounds": 1}, frozenset())
    run = plan.Run("toy", "a-0123456789ab", 0, configuration, (), (), settings)
    assert _text(tmp_path, [results.Outcome(run, results.FAILED)]) == []
