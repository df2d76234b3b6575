"""Figures and tables of studies, from made metrics."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bandits.mab_fl import figures, flags, metrics

ROUNDS = 8


def _make_runs(study: flags.Study, folder):
    """Writes the metrics of three seeds of every setting of a study."""
    runs = {}
    for setting in study.settings:
        for seed in range(3):
            path = folder / setting.name / f"seed_{seed}"
            path.mkdir(parents=True)
            rounds = pd.DataFrame({column: np.full(ROUNDS, 0.5) for column in metrics.COLUMNS})
            rounds.insert(0, "round_num", np.arange(1, ROUNDS + 1))
            rounds[metrics.ACTION] = rounds["round_num"] % 2
            rounds[metrics.GLOBAL_AUC] = 0.6 + 0.01 * rounds["round_num"] + 0.1 * (seed - 1)
            rounds[metrics.TEST_AUC] = 0.6 + 0.01 * np.sin(rounds["round_num"]) + 0.01 * seed
            rounds.to_csv(path / "metrics.csv", index=False)
            (path / "combinations.csv").write_text("action,combination,adoptions\n0,0110,3\n1,1100,5\n")
            estimates = pd.DataFrame(
                {"round_num": rounds["round_num"], "0110": 0.1, "1100": -0.01 * rounds["round_num"]}
            )
            estimates.to_csv(path / "estimates.csv", index=False)
            runs[path] = {"table": setting.table, "setting": setting.name, "seed": seed, **setting.values}
    return runs


@pytest.fixture(scope="module", params=list(flags.load_studies()))
def drawn(request, tmp_path_factory):
    folder, study = tmp_path_factory.mktemp(request.param), flags.load_studies()[request.param]
    runs = _make_runs(study, folder)
    figures.draw_study(study, runs, folder)
    return study, runs, folder


@pytest.mark.slow
def test_every_figure_of_a_study_is_drawn(drawn):
    study, _, folder = drawn
    for wanted in study.figures:
        with Image.open(folder / wanted["file"]) as picture:
            assert np.asarray(picture.convert("L")).std() > 5  # Not blank.


def test_a_grid_draws_each_combination_s_estimates_over_the_rounds(tmp_path, monkeypatch):
    """One panel for each two flag values: the mean of the seeds' estimates."""
    pictures = []
    monkeypatch.setattr(figures.files, "save_picture", lambda picture, path, dpi: pictures.append(picture))
    rounds = pd.DataFrame({"round_num": [1, 2, 3, 4, 5, 6] * 2, "seed": [0] * 6 + [1] * 6, "table": "ucb"})
    rounds = rounds.assign(rule_c=0.1, rule_alpha=np.nan, **{"estimate/0110": 0.1 + 0.2 * rounds["seed"]})
    figures.grid(rounds, tmp_path / "x.png", "title", "rule_c", "rule_alpha", "estimate", ["ucb"])
    (axes,) = pictures[0].axes
    assert axes.get_title() == "c = 0.1, stationary"
    (mean,) = axes.get_lines()
    np.testing.assert_allclose(mean.get_ydata(), 0.2)


def test_a_result_is_that_of_the_best_round_and_the_most_adopted_combination(tmp_path):
    table = {"round_num": [1, 2, 3], metrics.GLOBAL_AUC: [0.6, 0.9, 0.9], metrics.BEST_AUC: [0.6, 0.9, 0.9]}
    table |= {metrics.TEST_AUC: [0.5, 0.7, 0.8], metrics.ACTION: [0, 1, -1], metrics.COMMUNICATIONS: [6, 12, 12]}
    pd.DataFrame(table).to_csv(tmp_path / "metrics.csv", index=False)
    (tmp_path / "combinations.csv").write_text("action,combination,adoptions\n0,0110,1\n1,1100,3\n")
    assert figures.result(tmp_path) == {
        "rounds": 3,
        "best_round": 2,
        "validation_auc": 0.9,
        "test_auc": 0.7,
        "favourite": "1100",
        "favourite_share": 0.75,
        "communications": 12,
    }
