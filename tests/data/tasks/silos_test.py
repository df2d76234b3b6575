"""Tests of data.tasks.silos."""

import numpy as np
import pytest
from sklearn import linear_model, metrics

from data.tasks import silos


def _load(task_type, **options):
    options = {"train_fraction": 0.2, "validation_fraction": 0.3} | options
    return silos.load(silos.SiloOptions(task_type, **options))


def test_participants_have_the_thesis_sizes_and_class_balance():
    participants = _load("generator", train_fraction=0.01, validation_fraction=0.4)
    assert participants.names == ("worker_1", "worker_2", "worker_3", "worker_4")
    for silo, positive in zip(participants.silos, (0.45, 0.45, 0.3, 0.3), strict=True):
        assert [part.features.shape for part in silo] == [(100, 153), (4000, 153), (5900, 153)]
        for part in silo:
            assert part.labels.mean() == pytest.approx(positive, abs=0.006)
            assert (part.features.dtype, part.labels.dtype) == (np.float32, np.int32)


@pytest.mark.slow
def test_only_the_third_participant_shares_the_targets_concept():
    sizes = {"num_workers": 6, "num_rows": 30_000, "train_fraction": 0.6, "validation_fraction": 0.2}
    participants = _load("generator", seed=1, **sizes)
    target = participants.silos[1].test
    scores = []
    for silo in participants.silos:
        fitted = linear_model.LogisticRegression(max_iter=500).fit(silo.train.features, silo.train.labels)
        scores.append(metrics.roc_auc_score(target.labels, fitted.decision_function(target.features)))
    assert scores[2] == pytest.approx(scores[1], abs=0.02)
    assert max(scores[0], *scores[3:]) < scores[1] - 0.1


def test_a_tables_participants_are_a_columns_values_and_rows_are_split_within_each_class(write):
    """Two hospitals of 10 and 20 rows; every other grade is 2, the rest are 0 and 1."""
    rows = [("north" if row < 10 else "south", 20 + row, 2 if row % 2 else row // 2 % 2) for row in range(30)]
    path = write("place,age,grade\n" + "".join(f"{place},{age},{grade}\n" for place, age, grade in rows))
    participants = _load("tabular", data_file=path, client_column="place", label_column="grade")
    assert participants.names == ("north", "south")
    # 5 of 10 and 10 of 20 rows have grade 2, which with grade 1 makes class 1: 7 and 15 rows.
    assert [[int(part.labels.sum()) for part in silo] for silo in participants.silos] == [[1, 3, 3], [3, 5, 7]]
    assert [[len(part.labels) for part in silo] for silo in participants.silos] == [[2, 4, 4], [4, 6, 10]]
    ages = np.concatenate([silo.train.features[:, 0] for silo in participants.silos])
    np.testing.assert_allclose([ages.mean(), ages.std()], [0, 1], atol=1e-6)


def test_hospitals_are_four_with_any_disease_as_class_1(shared_data):
    participants = _load("heart_disease", data_dir=str(shared_data))
    assert participants.names == ("cleveland", "hungarian", "switzerland", "va")
    assert [sum(len(part.labels) for part in silo) for silo in participants.silos] == [303, 294, 123, 200]
    assert [sum(int(part.labels.sum()) for part in silo) for silo in participants.silos] == [139, 106, 115, 149]
