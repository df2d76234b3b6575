"""Tests of optimization.study.curves."""

import math

import numpy as np
import pandas as pd
import pytest

from optimization.study import curves


def _table(scores, deployed=()):
    rounds = range(1, len(scores) + 1)
    return pd.DataFrame({"round_num": rounds, "score": scores, "deployed": [int(one in deployed) for one in rounds]})


def test_no_mean_reaches_across_a_deployment():
    table = _table([1.0, 3.0, 11.0, 13.0], deployed=[2])
    assert curves.smoothed(table, "score", 2, "deployed").tolist() == [1.0, 2.0, 11.0, 12.0]


@pytest.mark.parametrize(("kind", "half"), [("minmax", 1.0), ("sd", 1.0), ("ci", 4.302652729911275 / math.sqrt(3))])
def test_a_band_of_three_seeds_is(kind, half):
    found = curves.band([_table([value]) for value in (1.0, 2.0, 3.0)], "score", kind=kind)
    np.testing.assert_allclose(found, [[2.0, 2.0 - half, 2.0 + half]], rtol=1e-12)


def test_a_single_seed_has_no_interval():
    found = curves.band([_table([1.0])], "score", kind="ci")
    assert found["mean"].tolist() == [1.0]
    assert found[["low", "high"]].isna().all(axis=None)
