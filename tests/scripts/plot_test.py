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


def test_a_seed_that_has_not_begun_is_left_out(tmp_path):
    _run(tmp_path / "many" / "seed_0", [0.1, 0.2])
    (tmp_path / "many" / "seed_1").mkdir()
    _draw(f"--runs={tmp_path / 'many'}", f"--output={tmp_path / 'x.svg'}")
    assert b"<svg" in (tmp_path / "x.svg").read_bytes()
    (tmp_path / "other" / "seed_0").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"other holds no metrics\.csv"):
        _draw(f"--runs={tmp_path / 'other'}", f"--output={tmp_path / 'x.svg'}")


def test_another_metric_is_drawn_as_png_and_pdf_with_embedded_fonts(tmp_path):
    _run(tmp_path / "one", [0.1, 0.2])
    png, pdf = tmp_path / "compare.png", tmp_path / "compare.pdf"
    _draw(f"--runs={tmp_path / 'one'}", f"--output={png},{pdf}", f"--metric={metrics.DEPLOYED}", "--ylabel=deployed")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert b"/Type3" not in pdf.read_bytes()


def test_a_metric_that_no_run_has_is_answered_with_those_it_has(tmp_path):
    _run(tmp_path / "one", [0.1, 0.2])
    with pytest.raises(UsageError, match="one has no column regret: give --metric one of bandits/round_rewards, "):
        _draw(f"--runs={tmp_path / 'one'}", f"--output={tmp_path / 'x.png'}", "--metric=regret")


def test_a_folder_of_several_runs_is_refused(tmp_path):
    _run(tmp_path / "one", [0.1])
    _run(tmp_path / "two", [0.1])
    with pytest.raises(UsageError, match=r"holds 2 runs: name one of them, such as .*one"):
        _draw(f"--runs={tmp_path}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--runs names no run"),
        (["--runs=nowhere"], "nowhere holds no metrics.csv"),
        (["--runs=a,b", "--labels=x"], "--labels has 1 names for 2 --runs"),
        (["--runs=a,b", "--labels=x,x"], "Two curves would have one name among x, x"),
        (["--runs=a", "--output=x.gif"], "--output: x.gif is not a .png, .pdf or .svg"),
        (["--runs=a", "--output=nowhere/x.png"], "--output: there is no folder .*nowhere"),
        (["--runs=a", "--metric=x", "--running_average"], "--running_average has no effect with --metric"),
    ],
)
def test_bad_usage_is_explained(arguments, message):
    with pytest.raises(UsageError, match=message):
        _draw(*arguments)
