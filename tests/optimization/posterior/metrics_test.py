import numpy as np
import pytest

from optimization.posterior import metrics


def test_recall_and_precision_are_means_over_the_labels_that_occur():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]])
    accuracy, loss, recall, precision = metrics.measure(np.log(probabilities), np.array([0, 1, 1, 1]))
    assert accuracy == 0.5
    assert loss == pytest.approx(-np.log([0.7, 0.3, 0.7, 0.1]).mean())
    assert recall == pytest.approx((1 + 1 / 3) / 2)
    assert precision == pytest.approx((1 / 2 + 1) / 2)
