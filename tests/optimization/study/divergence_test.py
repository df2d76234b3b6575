import math

import pandas as pd
import pytest

from optimization.study import divergence, metrics

COLUMNS = (metrics.LOSS, metrics.NONFINITE_CLIENTS)


def _table(counts, loss=0.5) -> pd.DataFrame:
    return pd.DataFrame({"round_num": range(1, len(counts) + 1), COLUMNS[0]: loss, COLUMNS[1]: counts})


def test_what_diverged_is_counted_and_the_last_loss_is_reported():
    for table in (_table([0, 0]), _table([0, 0], math.nan), pd.DataFrame({"round_num": [1]})):
        assert divergence.warning(table, COLUMNS) == ""
    assert divergence.warning(_table([0, 20, 1]), COLUMNS) == (
        "Training diverged: in 2 of 3 rounds, 21 updates in total were not finite and were ignored. "
        "Try smaller learning rates."
    )
    words = "21 updates in total were not finite and were ignored; the last training loss is not a number."
    assert words in divergence.warning(_table([0, 20, 1], math.nan), COLUMNS)


def test_a_loss_beyond_all_reason_is_a_divergence_even_where_all_updates_are_clipped_to_finite_ones():
    assert divergence.warning(_table([0, 0], 3e19), COLUMNS) == (
        "Training diverged: the last training loss is 3e+19. Try smaller learning rates."
    )
    assert divergence.is_lost(_table([0, 0], 3e19), COLUMNS, {"clients_per_round": 20})
    assert divergence.is_lost(_table([0, 0], math.inf), COLUMNS, {})
    assert not divergence.is_lost(_table([0, 0], 1e17), COLUMNS, {"clients_per_round": 20})


@pytest.mark.parametrize(
    ("counts", "cohort", "is_lost"),
    [([0, 10], 20, True), ([0, 9], 20, False), ([20, 0], 20, False), ([0, 1], None, True), ([0, 0], None, False)],
)
def test_a_run_is_lost_in_whose_last_round_half_of_the_clients_diverged(counts, cohort, is_lost):
    flags = {"clients_per_round": cohort} if cohort else {}
    assert divergence.is_lost(_table(counts), COLUMNS, flags) is is_lost
