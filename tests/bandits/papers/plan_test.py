import math

import numpy as np
import pytest

from bandits.papers.plan import Measure
from data.errors import UsageError
from tests.bandits.papers.toy_figures import toy_runs

RISES = [0.1, 0.5, 0.2, 0.4]
PEAKS = [[0.1, 0.9, 0.2], [0.8, 0.3, 0.1], [0.6, 0.5, 0.2], [0.7, 0.4, 0.1]]  # Means of even seeds: 0.35, 0.7, 0.2.


@pytest.mark.parametrize(
    ("at", "seeds", "expected"),
    [
        ("last", [RISES], [0.4]),
        ("last 2", [RISES], [0.3]),
        ("first", [RISES], [0.1]),
        ("mean", [RISES], [0.3]),
        ("max", [RISES], [0.5]),
        (2, [RISES], [0.5]),
        (9, [RISES], [math.nan]),
        ("rounds to 0.5", [RISES], [2.0]),
        ("rounds to 0.6", [[0.1, 0.5]], [math.inf]),  # What is not reached is infinitely late.
        ("share of 1", [[-1, 1, 0, 1, math.nan, 1]], [0.75]),  # Rounds with a value below 0 do not count.
        # Residuals -0.1, 0 and 0.1, 0 to a mean that is drawn towards both.
        ("deviation", [[0.5, 0.9], [0.7, 0.9]], [0.1, 0.1]),
        ("deviation", [[0.5, 0.9]], [math.nan]),
        ("chosen peak", PEAKS, [math.nan, 0.3, math.nan, 0.4]),
    ],
)
def test_a_measure_is_taken_at_its_round(tmp_path, at, seeds, expected):
    found = toy_runs(tmp_path, "arm", *({"score": curve} for curve in seeds))
    assert Measure("m", "score", at).values(found) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("measure", "at", "column"),
    [
        (Measure("m", "reward", 11), 3, "reward"),  # Rounded up.
        (Measure("m", "reward", "last 20"), "last 4", "reward"),
        (Measure("m", "reward", "rounds to 0.5"), "rounds to 0.5", "reward"),
        (Measure("m", "reward", "mean"), "mean", "reward"),
        (Measure("m", "diagnosis_round_50.npz:|skewness|"), "last", "diagnosis_round_10.npz:|skewness|"),
    ],
)
def test_a_measure_of_a_rehearsal_is_shortened_with_its_runs(measure, at, column):
    shorter = measure.shortened(10, 50)
    assert (shorter.at, shorter.column) == (at, column)
    assert measure.shortened(60, 50) == measure  # The run has only 50 rounds.


def test_an_array_of_the_run_folder_is_measured_by_its_mean_or_that_of_absolute_values(tmp_path):
    found = toy_runs(tmp_path, "arm", {"score": [1.0]})
    np.savez(found[0].folder / "d.npz", skewness=[-1.0, 3.0, math.nan])
    assert Measure("m", "d.npz:skewness").values(found) == [1.0]
    assert Measure("m", "?.npz:|skewness|").values(found) == [2.0]
    for column in ("d.npz:kurtosis", "reward"):
        with pytest.raises(UsageError, match=column.partition(":")[2] or column):
            Measure("m", column).values(found)
