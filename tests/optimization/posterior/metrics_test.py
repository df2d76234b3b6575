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


def rounds(*accuracies: float) -> pd.DataFrame:
    """Metrics with equal values for all measures."""
    table = pd.DataFrame({"round_num": range(1, len(accuracies) + 1)})
    return table.assign(**{column: accuracies for column in metrics.TABLE_MEASURES.values()})


CELLS = {
    ("fedkp", "10"): [rounds(0.1, 0.5, 0.9), rounds(0.3, 0.7, 0.7)],
    ("fedkp", "0.1"): [rounds(0.2, 0.2, 0.2)],
    ("fedavg", "0.1"): [rounds(0.1, 0.9, 0.9), rounds(0.9)],
}


def test_values_are_means_over_seeds_with_their_deviation():
    table = metrics.build_table(CELLS, [1, 3], [])
    # 0.1 and 0.3: deviation 0.2 / sqrt(2); 0.9 and 0.7 likewise.
    assert table.loc[("Accuracy", "FedKP"), ("Round 1", "10")] == "0.200 ± 0.141"
    assert table.loc[("Recall", "FedKP"), ("Round 3", "10")] == "0.800 ± 0.141"
    assert table.loc[("Loss", "FedKP"), ("Round 3", "0.1")] == "0.200"


def test_seeds_that_are_not_so_far_and_runs_that_are_missing_are_reported():
    table = metrics.build_table(CELLS, [3], [])
    assert table.loc[("Accuracy", "FedAvg"), ("Round 3", "0.1")] == "0.900 (1 of 2)"
    assert table.loc[("Accuracy", "FedAvg"), ("Round 3", "10")] == "-"


def test_rounds_to_thresholds_are_the_first_ones():
    table = metrics.build_table(CELLS, [], [0.5, 0.8])
    assert table.loc[("Precision", "FedKP"), ("50%", "10")] == "2 ± 0"
    assert table.loc[("Precision", "FedKP"), ("80%", "10")] == "3 (1 of 2)"
    assert table.loc[("Precision", "FedKP"), ("80%", "0.1")] == "-"
    assert table.loc[("Loss", "FedKP"), ("50%", "10")] == "-"  # A loss does not rise to one.


def test_the_layout_is_the_studys():
    table = metrics.build_table(CELLS, [1], [0.84])
    assert list(table.columns) == [("Round 1", "0.1"), ("Round 1", "10"), ("84%", "0.1"), ("84%", "10")]
    assert list(table.index[:2]) == [("Accuracy", "FedAvg"), ("Accuracy", "FedKP")]


def test_results_count_rounds_to_thresholds():
    rounds = pd.DataFrame(
        {"round_num": [1, 2, 3]} | {name: [0.5, 0.7, 0.6] for name in metrics.TABLE_MEASURES.values()}
    )
    results = metrics.results(rounds, [0.6, 0.9])
    assert list(results.columns) == ["measure", "final", "rounds to 0.6", "rounds to 0.9"]
    assert list(results["measure"]) == ["accuracy", "training accuracy", "precision", "recall"]
    assert list(results["final"]) == [0.6] * 4
    assert list(results["rounds to 0.6"]) == [2] * 4
    assert results["rounds to 0.9"].isna().all()
