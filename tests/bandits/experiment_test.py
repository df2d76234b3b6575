"""Rounds of a bandit run, of bandits.experiment: who takes part, and with which examples."""

import itertools

import numpy as np
import pytest

from bandits import metrics
from tests.bandits import whole_runs
from tests.bandits.run_federated_test import SMALL, play
from tests.bandits.whole_runs import table

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        ((), [False, False, False]),
        (("--cache=persistent",), [True, False, True]),
        (("--noredraw_examples",), [True, True, True]),
    ],
)
def test_examples_above_the_cap_are_sampled_again_whenever_a_client_acts(tff_worker, arguments, same):
    rounds = whole_runs.rounds_of(*SMALL, "--max_examples_per_client=5", *arguments)
    seen = [rounds.participations(np.array([3]), round_num)[0].inputs.features for round_num in (1, 2, 3, 4)]
    assert {len(features) for features in seen} == {5}
    # Deployed every two rounds.
    assert [np.array_equal(before, after) for before, after in itertools.pairwise(seen)] == same


def test_rounds_without_a_client_change_nothing(tmp_path):
    rows = table(play(tmp_path, "--cohort_sampling=poisson", "--clients_per_round=1", "--total_rounds=6"))
    empty = rows[metrics.EXAMPLES] == 0
    assert 0 < empty.sum() < 6
    assert (rows.loc[empty, metrics.UPDATE_NORM] == 0).all()
    assert rows.loc[empty, metrics.ROUND_REWARD].isna().all()
    assert rows[metrics.AVERAGE_REWARD].iloc[-1] == pytest.approx(rows.loc[~empty, metrics.ROUND_REWARD].mean())
    norms = rows[metrics.CLIP_NORM].to_numpy()
    assert list(norms[1:] == norms[:-1]) == list(empty[:-1])
