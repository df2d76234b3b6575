"""Figures and tables of studies, from made metrics."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bandits.mab_fl import figures, flags, metrics, studies

ROUNDS = 8


def _make_runs(name: str, folder):
    """Writes the metrics of three seeds of every setting of a study; residuals are -0.1, 0 and 0.1."""
    chosen, study = flags.plan(flags.define().parse(["x", f"--preset={name}"]))
    runs = []
    for setting in chosen:
        for seed in range(3):
            path = folder / setting.name / f"seed_{seed}"
            path.mkdir(parents=True)
            rounds = pd.DataFrame({column: np.full(ROUNDS, 0.5) for column in metrics.COLUMNS})
            rounds.insert(0, "round_num", np.arange(1, ROUNDS + 1))
            rounds[metrics.ACTION] = rounds["round_num"] % 2
            rounds[metrics.GLOBAL_AUC] = 0.6 + 0.01 * rounds["round_num"] + 0.1 * (seed - 1)
            rounds[metrics.TEST_AUC] = 0.6 + 0.01 * np.sin(rounds["round_num"]) + 0.01 * seed
            rounds.to_csv(path / "metrics.csv", index=False)
            (path / "combinations.csv").write_text("action,combination\n0,0110\n1,1100\n")
            runs.append((setting, setting.settings.replace(seed=seed), path))
    return study, runs


@pytest.fixture(scope="module", params=list(studies.load()))
def drawn(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    study, runs = _make_runs(request.param, folder)
    figures.draw_study(study, runs, folder)
    return study, runs, folder


@pytest.mark.slow
def test_every_figure_of_a_study_is_drawn(drawn):
    study, _, folder = drawn
    for wanted in study.figures:
        path = folder / wanted["file"]
        if path.suffix == ".png":
            with Image.open(path) as picture:
                assert np.asarray(picture.convert("L")).std() > 5  # Not blank.
        else:
            # Table 2: a row for each combination, a column for each number of epochs.
            table = pd.read_csv(path, index_col=0)
            assert list(table.index) == ["target_alone", "pair_0101", "pair_0110", "pair_1100", "fedavg"]
            assert list(table.columns) == ["4", "6"]
            expected = np.std(np.tile([-0.1, 0, 0.1], ROUNDS), ddof=1)
            np.testing.assert_allclose(table, expected, atol=1e-4)


@pytest.mark.slow
def test_a_run_has_a_picture_of_its_own(drawn):
    folder = drawn[1][0][2]
    figures.draw_run(folder, "a run")
    assert (folder / "curve.png").stat().st_size > 5000
