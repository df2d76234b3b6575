"""Tests of the table and figures, from written runs."""

import numpy as np
import pandas as pd
import pytest

from bandits.client_selection import figures, metrics


@pytest.fixture
def runs(tmp_path):
    """Two selectors, two cohort sizes, two seeds, three rounds."""
    written = {}
    for number, (selector, cohort, seed) in enumerate(
        (selector, cohort, seed) for cohort in (1, 2) for selector in ("rand", "pow_d") for seed in (0, 1)
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows = {name: [np.nan, np.nan, np.nan] for name in metrics.COLUMNS}
        rows |= {"round_num": [1, 2, 3], metrics.GLOBAL_LOSS: [2.0, np.nan, 1.0 + seed]}
        rows |= {metrics.JAIN_INDEX: [0.1, np.nan, 0.5 + 0.1 * seed], metrics.ACCURACY: [0.2, np.nan, 0.6]}
        rows |= {metrics.WORST_DECILE_LOSS: [3.0, np.nan, 2.0], metrics.MEDIAN_LOSS: [1.0, np.nan, 0.5]}
        rows |= {metrics.MODEL_TRANSFERS: [2, 2, 5], metrics.LOSS_POLLS: [0, 0, 3]}
        pd.DataFrame(rows).to_csv(folder / "metrics.csv", index=False)
        pd.DataFrame({"client": ["a", "b", "c"], "examples": 5, "selections": 1, "loss": [0.5, 1.5, None]}).to_csv(
            folder / "private_clients.csv", index=False
        )
        written[folder] = {"selector": selector, "cohort": cohort, "seed": seed}
    return written


def test_the_table_has_final_values_over_seeds_and_communication_a_round(runs):
    rounds, _ = figures.read(runs)
    table = figures.table(rounds)
    assert table[["cohort", "selector", "seeds"]].to_numpy().tolist() == [
        [1, "rand", 2],
        [1, "pow_d", 2],
        [2, "rand", 2],
        [2, "pow_d", 2],
    ]
    first = table.iloc[0]
    assert first["global_loss"] == 1.5
    assert first["global_loss_deviation"] == pytest.approx(0.5**0.5)  # Of 1 and 2, with n - 1.
    assert first["jain_index"] == pytest.approx(0.55)
    assert (first["model_transfers"], first["loss_polls"]) == (3, 1)


@pytest.mark.slow
def test_the_figures_are_drawn(runs, tmp_path):
    rounds, clients = figures.read(runs)
    figures.draw_convergence(rounds, tmp_path / "convergence.png", "title")
    figures.draw_client_losses(clients, tmp_path / "losses.png", "title")
    for name in ("convergence.png", "losses.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def drawn(monkeypatch):
    """Figures that would be saved."""
    figures_drawn = []
    monkeypatch.setattr(figures.files, "save_picture", lambda figure, output, dpi: figures_drawn.append(figure))
    return figures_drawn


def test_loss_is_drawn_against_all_models_sent_so_far(runs, drawn, tmp_path):
    figures.draw_communication(figures.read(runs)[0], tmp_path / "communication.png", "title")
    (figure,) = drawn
    assert [axes.get_title() for axes in figure.axes] == ["1 client a round", "2 clients a round"]
    for line in figure.axes[0].get_lines():  # Rounds 1 and 3 were evaluated: 2, and 2 + 2 + 5 models.
        np.testing.assert_array_equal(line.get_xydata(), [[2, 2.0], [9, 1.5]])
