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
def test_the_distribution_of_losses_is_drawn(runs, tmp_path):
    figures.draw_client_losses(figures.read(runs)[1], tmp_path / "losses.png", "title")
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")
