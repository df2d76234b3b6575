"""Tests of bandits.evaluation.predictions, as `run.predict`."""

import numpy as np
import pandas as pd
import pytest
from scipy import special

from bandits.evaluation import target_policies
from data.errors import UsageError
from tests.bandits.evaluation.finished_runs import BIAS, KERNEL, STATISTICS, finished_run

FRAME = pd.DataFrame({"city": ["b", "a", None], "age": [30.0, None, 50.0], "extra": [1, 2, 3]}, index=[7, 8, 9])
_REWARDS = {"label_column": None, "reward_columns": "small,large"}
ENCODED = np.array([[-1, 0, 1], [0, 1, 0], [1, 0, 0]])


def test_predictions_are_of_the_runs_own_encoding_model_and_policy(tmp_path):
    found = finished_run(tmp_path, bandits_temperature=0.5).predict(FRAME)
    rewards = ENCODED @ KERNEL + BIAS
    assert list(found.index) == [7, 8, 9]
    assert list(found["predicted_reward"].columns) == list(found["probability"].columns) == ["no", "yes"]
    np.testing.assert_allclose(found["predicted_reward"], rewards, rtol=1e-6)
    np.testing.assert_allclose(found["probability"], special.softmax(rewards / 0.5, axis=1), rtol=1e-6)


def test_texts_are_words_of_the_runs_own_vocabulary(tmp_path):
    known = STATISTICS | {"columns": {"age": STATISTICS["columns"]["age"]}, "labels": {}, "vocabulary": ["it", "how"]}
    run = finished_run(tmp_path, known=known, **_REWARDS, text_columns="question")
    found = run.predict(FRAME.assign(question=["How is it?", None, "it IT"]))
    encoded = np.array([[0.5**0.5, 0.5**0.5, -1], [0, 0, 0], [1, 0, 1]])
    assert list(found["predicted_reward"].columns) == ["small", "large"]
    np.testing.assert_allclose(found["predicted_reward"], encoded @ KERNEL + BIAS, rtol=1e-6)
    with pytest.raises(UsageError, match="lacks columns that the run's model needs: question"):
        run.predict(FRAME)


def test_hidden_layers_are_those_of_the_run(tmp_path):
    hidden = [np.eye(3, 2, dtype=np.float32), np.zeros(2, np.float32), np.eye(2, dtype=np.float32), BIAS]
    run = finished_run(tmp_path, hidden, model="mlp", hidden="2", bandits_type="greedy")
    rewards = np.maximum(ENCODED[:, :2], 0) + BIAS
    found = run.predict(FRAME)
    np.testing.assert_allclose(found["predicted_reward"], rewards, rtol=1e-6)
    np.testing.assert_array_equal(found["probability"], np.eye(2)[rewards.argmax(axis=1)])
    hash(target_policies.options_of_run(str(run.folder)))  # Options are keys of a cache.


def test_predicted_rewards_are_in_the_users_unit(tmp_path):
    plain = finished_run(tmp_path / "plain", bandits_temperature=0.5).predict(FRAME)
    known, chosen = STATISTICS | {"labels": {}}, {"reward_bounds": "100,300", "bandits_temperature": 0.5}
    mapped = finished_run(tmp_path / "mapped", known=known, **_REWARDS, **chosen).predict(FRAME)
    np.testing.assert_allclose(mapped["predicted_reward"], 100 + 200 * plain["predicted_reward"], rtol=1e-6)
    np.testing.assert_array_equal(mapped["probability"], plain["probability"])


def test_without_features_all_rows_are_alike(tmp_path):
    weights = np.array([[0.5, 0.25]], np.float32), BIAS
    found = finished_run(tmp_path, weights, None, **_REWARDS, bandits_type="uniform").predict(FRAME)
    np.testing.assert_allclose(found["predicted_reward"], [[0.5, 0.375]] * 3, rtol=1e-6)
    assert (found["probability"] == 0.5).all(axis=None)


def test_decimal_commas_are_read_as_in_the_run(tmp_path):
    number = {"mean": 0.0, "deviation": 2.0, "has_missing": False}
    run = finished_run(tmp_path, known=STATISTICS | {"columns": dict.fromkeys(("x", "y", "age"), number)}, decimal=",")
    frame = pd.DataFrame({"x": [2.0, 0.0], "y": [4.0, -2.0], "age": ["1,5", "1.000"]})
    expected = np.array([[1, 2, 0.75], [0, -1, 500]]) @ KERNEL + BIAS
    np.testing.assert_allclose(run.predict(frame)["predicted_reward"], expected, rtol=1e-6)


def test_a_run_on_a_log_predicts_with_the_statistics_of_its_log(tmp_path):
    columns = {"label_column": None, "action_column": "act", "reward_column": "r", "propensity_column": "p"}
    chosen = {"task_type": "logged", **columns}
    found = finished_run(tmp_path / "log", **chosen).predict(FRAME)
    np.testing.assert_allclose(found["predicted_reward"], ENCODED @ KERNEL + BIAS, rtol=1e-6)
    assert list(found["probability"].columns) == ["no", "yes"]
    with pytest.raises(UsageError, match="on a log of your own"):
        finished_run(tmp_path / "encoded", known=None, **chosen).predict(FRAME)


def test_what_cannot_be_predicted_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"lacks columns .*city"):
        finished_run(tmp_path / "a").predict(FRAME.drop(columns="city"))
    with pytest.raises(UsageError, match="no model yet"):
        finished_run(tmp_path / "b", ()).predict(FRAME)
    run = finished_run(tmp_path / "c")
    run.flags["task_type"] = "digits"
    with pytest.raises(UsageError, match="on a table"):
        run.predict(FRAME)
