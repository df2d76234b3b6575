"""Tests of bandits.evaluation.exports: the files predict without this project what `Run.predict` predicts."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import bandits
from bandits.evaluation import exports
from data import columns, statistics, table_file
from data.errors import UsageError
from data.tasks.options import TaskOptions
from tests.bandits.evaluation.exported import predicted
from tests.bandits.evaluation.finished_runs import STATISTICS, finished_run

ROWS = pd.DataFrame(
    {
        "od280/od315 (mean)": [30.0, None, 50.0, 41.5, np.inf, -3.25],
        "city or town": ["b", "a", "", "größe", "unknown", "NA"],
        "is_member": ["True", "False", "True", "", "False", "True"],
        "price in cents": [1999, 0, 5000, 200000, -9, 123],
    }
).assign(constant=7.0, empty=None)
COLUMNS = {
    "od280/od315 (mean)": {"mean": 40.0, "deviation": 10.0, "has_missing": True},
    "city or town": {"categories": ["a", "b", "größe", "<missing>"]},
    "is_member": {"categories": ["False", "True"]},
    "price in cents": {"mean": 2500.0, "deviation": 1700.0, "has_missing": True},
    "empty": None,
    "constant": {"mean": 7.0, "deviation": 0.0, "has_missing": False},
}
KNOWN, FEATURES = STATISTICS | {"columns": COLUMNS}, 2 + 4 + 2 + 2 + 1


def _weights(*sizes: int) -> list[np.ndarray]:
    draw = np.random.default_rng(3)
    shapes = [shape for width, after in itertools.pairwise(sizes) for shape in ((width, after), (after,))]
    return [draw.normal(scale=0.5, size=shape).astype(np.float32) for shape in shapes]


EXPORTED = [
    (_weights(FEATURES, 2), {"bandits_type": "greedy", "missing_values": "-9"}),
    (_weights(FEATURES, 5, 2), {"model": "mlp", "hidden": "5", "bandits_type": "falcon"}),
    (_weights(FEATURES, 6), {"bandits_type": "bag", "bandits_heads": 3}),
    (_weights(FEATURES, 2), {"bandits_type": "epsilon_greedy", "bandits_epsilon": 0.25, "ties": "first"}),
    (_weights(FEATURES, 2), {"bandits_type": "softmax_ce"}),
    (_weights(FEATURES, 2), {"reward_bounds": "-2,5", "label_column": None, "reward_columns": "no,yes"}),
]


@pytest.mark.slow
def test_both_files_predict_as_the_run_does(tmp_path):
    folders = [tmp_path / str(place) for place in range(len(EXPORTED))]
    runs = [finished_run(folder, some, KNOWN, **flags) for folder, (some, flags) in zip(folders, EXPORTED, strict=True)]
    exported = [run.export(folder / "export" / "model") for run, folder in zip(runs, folders, strict=True)]
    for place, (run, found) in enumerate(zip(runs, predicted(ROWS.astype(object), *exported), strict=True)):
        expected = run.predict(ROWS)
        assert len(found) == 4
        for name, values in found.items():
            file, output = name.split(" ")
            atol, what = 1e-5 if file == "saved" else 1e-4, f"{EXPORTED[place][1]} {name}"
            np.testing.assert_allclose(values, expected[output], rtol=0, atol=atol, err_msg=what)


@pytest.mark.slow
def test_a_keras_model_is_exported_as_the_same_model_by_name_is(tmp_path):
    weights = _weights(FEATURES, 5, 2)
    expected = finished_run(tmp_path / "mlp", weights, KNOWN, model="mlp", hidden="5").predict(ROWS)
    run = finished_run(tmp_path / "run", weights, KNOWN, layers="layer")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["flags"]["python_model"] = f"keras:Sequential {16 * '0'}"
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="an earlier version did not save"):
        run.predict(ROWS)
    layers = [tf.keras.Input(FEATURES), tf.keras.layers.Dense(5, activation="relu"), tf.keras.layers.Dense(2)]
    (tmp_path / "run" / "architecture.json").write_text(tf.keras.Sequential(layers).to_json())
    np.testing.assert_allclose(run.predict(ROWS), expected, rtol=1e-6)
    (found,) = predicted(ROWS.astype(object), run.export(tmp_path / "model"))
    assert len(found) == 4
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name.split(" ")[1]], rtol=0, atol=1e-4)


@pytest.mark.slow
def test_an_export_has_a_signature_and_replaces_an_earlier_one_but_no_other_folder(tmp_path):
    run = finished_run(tmp_path / "run")
    folder = run.export(tmp_path / "model")
    assert json.loads((folder / "signature.json").read_text()) == {
        "inputs": {"age": {"type": "number"}, "city": {"type": "category", "categories": ["a", "b"]}},
        "actions": ["no", "yes"],
    }
    (folder / "saved_model" / "stale").touch()
    (folder / "notes.txt").touch()
    run.export(folder)
    names = ["model.tflite", "notes.txt", "saved_model", "signature.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert not (folder / "saved_model" / "stale").exists()
    with pytest.raises(UsageError, match="holds files other than"):
        run.export(tmp_path / "run")


@pytest.mark.parametrize(("column", "what"), [("when", "dates"), ("question", "texts")])
def test_dates_and_texts_are_not_exported(tmp_path, column, what):
    dates = {"mean_days": 19400.0, "deviation_days": 90.0, "has_missing": True, "has_times": True}
    known = STATISTICS | ({"columns": {"when": dates}} if what == "dates" else {"vocabulary": ["it"]})
    run = finished_run(tmp_path, known=known, text_columns="question" if what == "texts" else None)
    with pytest.raises(UsageError, match=f"Column '{column}' has {what}, which an exported model cannot read"):
        run.export(tmp_path / "model")


def test_a_model_without_features_is_not_exported(tmp_path):
    run = finished_run(tmp_path, _weights(1, 2), None, label_column=None, reward_columns="one,other")
    with pytest.raises(UsageError, match="no feature column to export"):
        run.export(tmp_path / "model")


@pytest.mark.slow
def test_numbers_too_close_for_float32_have_no_lite_file(tmp_path, capfd):
    known = STATISTICS | {"columns": {"time": {"mean": 1.7e9, "deviation": 1e5, "has_missing": False}}}
    run = finished_run(tmp_path / "run", _weights(1, 2), known)
    rows = pd.DataFrame({"time": [1.7e9 + 12345, 1.7e9 - 54321]})
    (found,) = predicted(rows, run.export(tmp_path / "model"))
    assert "column 'time' differ too little" in capfd.readouterr().err
    np.testing.assert_allclose(found["saved probability"], run.predict(rows)["probability"], rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("is_private", [True, False])
def test_a_private_run_warns_of_what_epsilon_does_not_cover(tmp_path, capfd, is_private):
    finished_run(tmp_path / "run")
    report = {"mechanism": {"kind": "dpsgd" if is_private else "none"}}
    (tmp_path / "run" / "privacy.json").write_text(json.dumps(report))
    bandits.load(tmp_path / "run").export(tmp_path / "model")
    assert ("not the means and categories" in capfd.readouterr().err) == is_private


def _assert_encoded(cells, known: statistics.OfColumn, missing_values=None, atol=1e-6):
    options = TaskOptions(task_type="tabular", missing_values=missing_values)
    of_table = statistics.OfTable({"column": known}, {})
    dtype = tf.float64 if isinstance(known, statistics.Numbers) else tf.string
    found = exports.features({"column": tf.constant(cells, dtype)}, of_table, options, is_lite=False)
    table = table_file.of_frame(pd.DataFrame({"column": cells}), "the frame", options)
    expected = columns.encode(table.frame, known={"column": known}).values
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=atol)


@pytest.mark.parametrize("has_missing", [True, False])
@pytest.mark.parametrize(("mean", "deviation"), [(1.7e9, 50.0), (5.0, 0.0), (0.0, 1e-300), (1e308, 1e300)])
def test_numbers_are_standardized(mean, deviation, has_missing):
    numbers = [mean, mean + deviation, mean - 7 * deviation, np.nan, np.inf, -np.inf, 0.0, 1.7e308]
    _assert_encoded(numbers, statistics.Numbers(mean, deviation, has_missing))
    _assert_encoded([-9.0, 1.0, np.nan, 3.0], statistics.Numbers(1.0, 2.0, True), "-9,none")


@pytest.mark.parametrize("categories", [("a", "b c", "größe", "<missing>"), ("a", "3", "True")])
def test_categories_are_one_hot(categories):
    cells = ["a", " a\t", "b c", "größe", "3", "True", "", "NaN", "\u00a0b c\u2003", "unknown", "A", "skipped"]
    _assert_encoded(cells, statistics.Categories(categories), "skipped")
