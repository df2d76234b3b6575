"""Tests of `bandits.compare`, `bandits.report` and `bandits.plot`."""

import json
import pathlib

import pandas as pd
import pytest
from scipy import stats

import bandits
from bandits import metrics
from bandits.results import runs
from data.errors import UsageError
from optimization.study import run_folder

REWARDS = {"greedy": [0.25, 0.5, 0.375], "softmax": [0.5, 0.625, 0.75]}


def _left(folder: pathlib.Path, bandit: str, seed: int, reward: float) -> runs.Run:
    path = folder / bandit / f"seed_{seed}"
    path.mkdir(parents=True)
    columns = {metrics.ROUND_REWARD: [reward] * 2, metrics.AVERAGE_REWARD: [reward] * 2}
    pd.DataFrame({"round_num": [1, 2], **columns}).to_csv(path / "metrics.csv", index=False)
    flags = {"bandits_type": bandit, "task_type": "digits", "seed": seed, "total_rounds": 2}
    (path / "config.json").write_text(json.dumps({"format": run_folder.FORMAT, "flags": flags, "command": "run"}))
    return runs.read(path)


@pytest.fixture
def read(tmp_path) -> dict[str, list[runs.Run]]:
    return {
        bandit: [_left(tmp_path, bandit, seed, reward) for seed, reward in enumerate(rewards)]
        for bandit, rewards in REWARDS.items()
    }


def test_a_comparison_is_paired_over_seeds(read):
    (row,) = bandits.compare([read["softmax"], read["greedy"]]).to_dict("records")
    expected = stats.ttest_rel(REWARDS["softmax"], REWARDS["greedy"])
    difference = pd.Series(REWARDS["softmax"]) - pd.Series(REWARDS["greedy"])
    half = stats.t.ppf(0.975, 2) * difference.std() / 3**0.5
    assert (row["configuration"], row["reference"], row["seeds"]) == ("softmax", "greedy", 3)
    assert (row["mean"], row["reference_mean"], row["difference"]) == pytest.approx((0.625, 0.375, 0.25))
    assert (row["low"], row["high"]) == pytest.approx((0.25 - half, 0.25 + half))
    assert row["p"] == pytest.approx(expected.pvalue)
    assert row["verdict"] == "not significantly different"


def test_the_reference_can_be_chosen(read):
    (row,) = bandits.compare(read.values(), reference="softmax").to_dict("records")
    assert (row["configuration"], row["difference"]) == ("greedy", pytest.approx(-0.25))
    with pytest.raises(UsageError, match="reference='falcon'"):
        bandits.compare(read.values(), reference="falcon")


def test_a_report_is_a_page_about_the_runs_alone(read, tmp_path):
    path = bandits.report([read["softmax"]], tmp_path / "page.html", "My runs")
    text = path.read_text()
    assert "My runs" in text
    assert "softmax" in text
    assert str(read["greedy"][0].folder) not in text
    with pytest.raises(UsageError, match="html"):
        bandits.report([read["softmax"]], tmp_path / "page.pdf")


def test_a_plot_has_the_chosen_band(read):
    figure = bandits.plot([read["greedy"], read["softmax"][0]], metrics.ROUND_REWARD, band="ci")
    (axes,) = figure.axes
    assert [line.get_ydata()[0] for line in axes.lines][:2] == pytest.approx([0.375, 0.5])
    low, high = (fraction for fraction in stats.t.interval(0.95, 2, 0.375, 0.125 / 3**0.5))
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((low, high))
    with pytest.raises(UsageError, match="band='wide'"):
        bandits.plot(read.values(), band="wide")


@pytest.mark.parametrize("several", [[], [[]], "runs/a", 3, [None]])
def test_what_is_no_run_is_refused(several):
    for function in (bandits.compare, bandits.report, bandits.plot):
        with pytest.raises(UsageError, match=r"bandits\.run or bandits\.load"):
            function(several)
