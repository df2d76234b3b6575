"""Tests of `bandits.compare`, `bandits.report` and `bandits.plot`."""

import numpy as np
import pytest
from scipy import stats

import bandits
from bandits import metrics
from bandits.results import runs
from data.errors import UsageError
from tests.bandits.results.tables import write_run

REWARDS = {"greedy": [0.25, 0.5, 0.375], "softmax": [0.5, 0.625, 0.75]}


@pytest.fixture
def read(tmp_path) -> dict[str, list[runs.Run]]:
    found = {}
    for bandit, rewards in REWARDS.items():
        folders = [tmp_path / bandit / f"seed_{seed}" for seed in range(3)]
        for seed, (folder, reward) in enumerate(zip(folders, rewards, strict=True)):
            write_run(folder, [reward] * 2, bandits_type=bandit, task_type="digits", seed=seed)
        found[bandit] = [runs.read(folder) for folder in folders]
    return found


def test_a_comparison_is_paired_over_seeds_and_the_reference_can_be_chosen(read):
    (row,) = bandits.compare([read["softmax"], read["greedy"]]).to_dict("records")
    expected = stats.ttest_rel(REWARDS["softmax"], REWARDS["greedy"])
    half = stats.t.ppf(0.975, 2) * np.std(np.subtract(REWARDS["softmax"], REWARDS["greedy"]), ddof=1) / 3**0.5
    names = ["mean", "reference_mean", "difference", "low", "high", "p"]
    values = [0.625, 0.375, 0.25, 0.25 - half, 0.25 + half, expected.pvalue]
    assert [row[name] for name in names] == pytest.approx(values)
    words = [row[name] for name in ("configuration", "reference", "seeds", "verdict")]
    assert words == ["softmax", "greedy", 3, "not significantly different"]
    (row,) = bandits.compare(read.values(), reference="softmax").to_dict("records")
    assert (row["configuration"], row["difference"]) == ("greedy", pytest.approx(-0.25))
    with pytest.raises(UsageError, match="reference='falcon'"):
        bandits.compare(read.values(), reference="falcon")


def test_a_report_is_a_page_about_the_runs_alone(read, tmp_path):
    text = bandits.report([read["softmax"]], tmp_path / "page.html", "My runs").read_text()
    assert "My runs" in text
    assert "softmax" in text
    assert str(read["greedy"][0].folder) not in text
    with pytest.raises(UsageError, match="html"):
        bandits.report([read["softmax"]], tmp_path / "page.pdf")


def test_a_plot_has_the_chosen_band(read):
    (axes,) = bandits.plot([read["greedy"], read["softmax"][0]], metrics.ROUND_REWARD, band="ci").axes
    assert [line.get_ydata()[0] for line in axes.lines][:2] == pytest.approx([0.375, 0.5])
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    expected = stats.t.interval(0.95, 2, 0.375, 0.125 / 3**0.5)
    assert (heights.min(), heights.max()) == pytest.approx(expected)
    with pytest.raises(UsageError, match="band='wide'"):
        bandits.plot(read.values(), band="wide")


@pytest.mark.parametrize("function", [bandits.compare, bandits.report, bandits.plot])
def test_other_objects_than_runs_are_refused(function):
    for several in ([], [[]], "runs/a", 3, [None]):
        with pytest.raises(UsageError, match=r"bandits\.run or bandits\.load"):
            function(several)
