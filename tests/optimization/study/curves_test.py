import math

import numpy as np
import pandas as pd
import pytest

from optimization.study import curves


def _table(scores):
    return pd.DataFrame({"round_num": range(1, len(scores) + 1), "score": scores})


@pytest.mark.parametrize(("kind", "half"), [("minmax", 1.0), ("sd", 1.0), ("ci", 4.302652729911275 / math.sqrt(3))])
def test_a_band_of_three_seeds_is(kind, half):
    found = curves.band([_table([value]) for value in (1.0, 2.0, 3.0)], "score", kind=kind)
    np.testing.assert_allclose(found, [[2.0, 2.0 - half, 2.0 + half]], rtol=1e-12)


def test_a_single_seed_has_no_interval():
    np.testing.assert_array_equal(curves.band([_table([1.0])], "score", kind="ci"), [[1.0, math.nan, math.nan]])


def test_a_band_ends_at_the_possible_values_and_contains_its_mean():
    found = curves.band([_table([0.0, 1.0]), _table([0.4, 1.0 + 1e-12])], "score", bounds=(0.0, 1.0))
    assert found["low"].tolist() == pytest.approx([0.0, 1.0], abs=1e-11)
    assert found["high"].tolist() == pytest.approx([1.0, 1.0], abs=1e-11)
    assert (found["low"] <= found["mean"]).all()
    assert (found["mean"] <= found["high"]).all()
