"""Tests of optimization.posterior.metrics."""

import numpy as np
import pandas as pd
import pytest

from optimization.posterior import metrics


def test_recall_and_precision_are_means_over_the_labels_that_occur():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]])
    accuracy, loss, recall, precision = metrics.measure(np.log(probabilities), np.array([0, 1, 1, 1]))
    assert accuracy == 0.5
    assert loss == pytest.approx(-np.log([0.7, 0.3, 0.7, 0.1]).mean())
    assert recall == pytest.approx((1 + 1 / 3) / 2)
    assert precision == pytest.approx((1 / 2 + 1) / 2)


def test_results_count_rounds_to_thresholds():
    rounds = pd.DataFrame({"round_num": [1, 2, 3]} | {name: [0.5, 0.7, 0.6] for name in metrics.RESULTS.values()})
    results = metrics.results(rounds, [0.6, 0.9])
    assert list(results.columns) == ["measure", "final", "rounds to 0.6", "rounds to 0.9"]
    assert list(results["measure"]) == ["accuracy", "training accuracy", "precision", "recall"]
    assert list(results["final"]) == [0.6] * 4
    assert list(results["rounds to 0.6"]) == [2] * 4
    assert results["rounds to 0.9"].isna().all()
