"""Tests of scripts.plot."""

import pandas as pd
import pytest

from bandits import metrics
from data.errors import UsageError
from scripts import plot


def _run(folder, rewards):
    folder.mkdir(parents=True)
    table = pd.DataFrame({"round_num": range(1, len(rewards) + 1), metrics.ROUND_REWARD: rewards})
    table[metrics.AVERAGE_REWARD] = table[metrics.ROUND_REWARD].expanding().mean()
    table[metrics.DEPLOYED] = 0
    table.to_csv(folder / "metrics.csv", index=False)


def _draw(*arguments):
    plot.program(plot.define().parse(["plot", *arguments]))


def test_runs_and_bands_over_seeds_are_drawn(tmp_path):
    _run(tmp_path / "one", [0.1, 0.2])
    _run(tmp_path / "many" / "seed_0", [0.1, 0.2])
    _run(tmp_path / "many" / "seed_1", [0.3, 0.4])
    output = tmp_path / "compare.png"
    _draw(str(tmp_path / "one"), str(tmp_path / "many"), f"--output={output}")
    assert output.read_bytes().startswith(b"\x89PNG")


def test_no_mean_reaches_across_a_deployment(tmp_path, monkeypatch):
    _run(tmp_path / "one", [1.0, 3.0, 11.0, 13.0])
    path = tmp_path / "one" / "metrics.csv"
    pd.read_csv(path).assign(**{metrics.DEPLOYED: [0, 1, 0, 0]}).to_csv(path, index=False)
    drawn = []
    monkeypatch.setattr(plot.files, "save_picture", lambda picture, path, dpi: drawn.append(picture))
    arguments = str(tmp_path / "one"), "--smooth=2", f"--output={tmp_path / 'x.png'}"
    for column in (metrics.ROUND_REWARD, metrics.AVERAGE_REWARD):
        _draw(*arguments, f"--metric={column}")
    rewards, averages = (picture.axes[0].get_lines()[0].get_ydata().tolist() for picture in drawn)
    assert rewards[1:] == [1.0, 2.0, 11.0, 12.0]  # The first step begins before round 1.
    assert averages == [1.0, 1.5, 3.5, 6.0]


@pytest.mark.parametrize(
    ("folder", "column", "message"),
    [
        ("one", "regret", "one has no column regret: choose --metric from bandits/round_rewards, "),
        ("one", metrics.EPSILON, f"nothing to draw: {metrics.EPSILON} is not finite in any round"),
        ("", metrics.ROUND_REWARD, r"holds 2 runs: name one of them, such as .*one"),
    ],
)
def test_runs_that_cannot_be_drawn_are_refused(tmp_path, folder, column, message):
    for name in ("one", "two"):
        _run(tmp_path / name, [0.1, 0.2])
        path = tmp_path / name / "metrics.csv"
        pd.read_csv(path).assign(**{metrics.EPSILON: float("inf")}).to_csv(path, index=False)
    with pytest.raises(UsageError, match=message):
        _draw(str(tmp_path / folder), f"--metric={column}", f"--output={tmp_path / 'x.png'}")
    assert not (tmp_path / "x.png").exists()
