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
    _draw(f"--runs={tmp_path / 'one'},{tmp_path / 'many'}", f"--output={output}", "--running_average")
    assert output.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--runs names no run"),
        (["--runs=nowhere"], "nowhere holds no metrics.csv"),
        (["--runs=a,b", "--labels=x"], "--labels has 1 names for 2 --runs"),
    ],
)
def test_bad_usage_is_explained(arguments, message):
    with pytest.raises(UsageError, match=message):
        _draw(*arguments)
