import asyncio
import dataclasses
import gc
import importlib
import inspect
import json
import os
import pathlib
import signal
import subprocess
import sys
import types
import weakref

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from sklearn import datasets

import bandits
from bandits import policies, studies
from data.errors import UsageError
from optimization import posterior
from optimization.study import run_folder

ROOT = pathlib.Path(__file__).resolve().parents[3]
SHORT = {"total_rounds": 4, "clients_per_round": 5, "bandits_deploy_freq": 2, "seed": 7}
COLUMNS = {"client_column": "who", "label_column": "target", "clients_per_round": 3, "total_rounds": 2}


def _run_program(code: str, *arguments: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
def test_importing_bandits_loads_nothing_slow():
    slow = {"absl", "matplotlib", "numpy", "pandas", "tensorflow"}
    code = f"import sys, bandits; print(*{slow}.intersection(sys.modules))"
    assert _run_program(code).stdout == "\n"


@pytest.mark.parametrize(
    ("flags", "answer"),
    [
        ({"total_rounds": "many"}, "--total_rounds=many: not a whole number"),
        ({"root_output_dir": "a\0b"}, "--root_output_dir takes a number, a string, a path"),
        ({"seed": {}}, "--seed takes a number, a string, a path, True or False, or a list of these, not a dict"),
        ({"list_presets": True}, "--list_presets is for the command line"),
        ({"table": [1]}, "table must be a pandas DataFrame, not a list"),
        ({"table": pd.DataFrame(), "data_file": "x.csv"}, "table and --data_file name two tables"),
        ({"table": pd.DataFrame(), "task_type": "digits"}, "table is for --task_type=tabular or logged, not digits"),
        ({"table": pd.DataFrame(), "client_column": "a", "label_column": "b"}, "the DataFrame is empty"),
    ],
)
def test_bad_settings_are_answered_as_flags_are(flags, answer, tmp_path):
    with pytest.raises(UsageError, match=answer):
        bandits.run(**{"root_output_dir": tmp_path} | flags)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "hint"), [("totl_rounds", "did you mean total_rounds"), ("flagfile", r"help\(bandits.run\)")]
)
def test_a_keyword_that_is_no_setting_is_a_type_error_with_similar_names(name, hint, tmp_path):
    with pytest.raises(TypeError, match=f"'{name}': {hint}"):
        bandits.run(root_output_dir=tmp_path, **{name: 3})
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("module", studies.STUDIES.values())
def test_signature_and_docstring_have_every_setting_with_its_default(module):
    package = importlib.import_module(module.rpartition(".")[0])
    declared = dict(studies.flag_set(module).declared)
    del declared["list_presets"]
    parameters = dict(inspect.signature(package.run).parameters)
    assert {name: parameters[name].default for name in declared} == {
        name: None if callable(setting.default) else setting.default for name, setting in declared.items()
    }
    assert set(parameters) - set(declared) <= {"table"}
    assert {one.kind for one in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    lines = {line.strip().partition(":")[0] for line in package.run.__doc__.splitlines()}
    assert set(parameters) <= lines
    assert package.run.__module__ == package.__name__


def test_all_runs_of_a_folder_are_one_table(tmp_path):
    columns = studies.load("bandits.ads.run_ads").columns
    for seed in (3, 10):
        _left_by_ads(tmp_path / "ads" / f"seed_{seed}", seed=seed)
    (tmp_path / "ads" / "seed_11").mkdir()  # Has not begun.
    runs = bandits.load(tmp_path)
    assert list(runs.metrics.columns) == ["run", "seed", "round_num", *columns]
    assert list(runs.metrics["seed"]) == [3, 10]
    assert (runs[0].command, runs[0].privacy, runs[0].weights) == ("run", {}, None)
    assert runs.plot()._repr_png_()


def _left_by_ads(path: pathlib.Path, rows: int = 1, seed: int = 1, **about) -> None:
    columns = ["round_num", *studies.load("bandits.ads.run_ads").columns]
    path.mkdir(parents=True)
    table = pd.DataFrame([[1, *[0.5] * (len(columns) - 1)]] * rows, columns=columns)
    table.to_csv(path / "metrics.csv", index=False)
    config = {"format": run_folder.FORMAT, "flags": {"seed": seed}, "command": "run", **about}
    (path / "config.json").write_text(json.dumps(config))


def test_runs_that_cannot_be_read_are_left_out_with_a_warning(tmp_path):
    _left_by_ads(tmp_path / "whole")
    _left_by_ads(tmp_path / "first_round", rows=0)
    with pytest.warns(UserWarning, match="A run is left out: .*first_round/metrics.csv has no finished") as message:
        assert repr(bandits.load(tmp_path)) == f"<run {tmp_path / 'whole'}, 1 round>"
    assert message[0].filename == __file__
    with pytest.raises(UsageError, match=r"first_round/metrics.csv has no finished round yet"):
        bandits.load(tmp_path / "first_round")


@pytest.fixture(scope="module")
def folder(tff_worker, tmp_path_factory) -> pathlib.Path:
    return tmp_path_factory.mktemp("python")


@pytest.fixture(scope="module")
def run(folder):
    return bandits.run(root_output_dir=folder, experiment_name="run", **SHORT)


def _assert_same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one.drop(columns="seconds"), other.drop(columns="seconds"), check_exact=True)


def _assert_close(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one.drop(columns="seconds"), other.drop(columns="seconds"), rtol=1e-5)


def test_a_run_is_that_of_the_binary(run, folder):
    flags = [f"--{name}={value}" for name, value in SHORT.items()]
    argv = ["run_federated", f"--root_output_dir={folder}", "--experiment_name=binary", *flags]
    assert studies.program("bandits.run_federated", studies.flag_set("bandits.run_federated").parse(argv)) == 0
    assert run.command.endswith(f"--experiment_name=run {' '.join(flags)}  # from Python")
    _assert_same(run.metrics, pd.read_csv(folder / "binary" / "metrics.csv"))
    for name, array in bandits.load(folder / "binary").weights.items():
        np.testing.assert_array_equal(run.weights[name], array)


def test_the_same_call_runs_nothing_twice(run, folder):
    again = bandits.run(root_output_dir=folder, experiment_name="run", **SHORT)
    pd.testing.assert_frame_equal(again.metrics, run.metrics)  # With the seconds of the first.


def test_seeds_come_together(run, folder):
    runs = bandits.run(root_output_dir=folder, experiment_name="seeds", repeat=2, **SHORT | {"seed": 6})
    assert [one.folder.name for one in runs] == ["seed_6", "seed_7"]
    assert set(runs.metrics["run"]) == {"seeds"}
    _assert_same(runs.metrics[runs.metrics["seed"] == 7].iloc[:, 2:].reset_index(drop=True), run.metrics)
    assert len(runs.plot("bandits/round_rewards").axes[0].collections) == 1  # Bars of the interval.
    pd.testing.assert_frame_equal(bandits.load(folder / "seeds").metrics, runs.metrics)


def test_a_run_with_callbacks_in_an_event_loop_is_the_same_and_keeps_its_folder(run, folder, capfd):
    handlers = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)]
    rows = []

    async def in_a_loop():
        notes = types.SimpleNamespace(on_round=rows.append)
        return bandits.run(callbacks=notes, root_output_dir=folder, experiment_name="loop", **SHORT)

    _assert_same(asyncio.run(in_a_loop()).metrics, run.metrics)
    assert [row["round_num"] for row in rows] == [1, 2, 3, 4]
    _assert_same(bandits.load(folder / "loop").metrics, run.metrics)
    assert "ends with this process" not in capfd.readouterr().err
    assert [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)] == handlers


@dataclasses.dataclass(frozen=True)
class Tempered(policies.Policy):
    temperature: float

    def probabilities(self, predicted_rewards):
        return tf.nn.softmax(predicted_rewards / self.temperature)


@dataclasses.dataclass(frozen=True)
class Near:
    share: float

    def __call__(self, label, action):
        return 1.0 if label == action else self.share


def test_a_policy_of_ones_own_explores_is_recorded_and_continued(run, folder, capfd):
    where = {"root_output_dir": folder, **SHORT}
    own = bandits.run(policy=Tempered(0.05), **where)  # The default strategy, with its temperature.
    assert "Tempered(temperature=0.05): 4 rounds, average reward" in capfd.readouterr().out
    _assert_close(own.metrics, run.metrics)
    assert own.folder.name == "digits_scratch_Tempered_seed_7"
    assert own.flags["policy"].startswith(f"{__name__}:Tempered(temperature=0.05) ")
    pd.testing.assert_frame_equal(bandits.run(policy=Tempered(0.05), **where).metrics, own.metrics)
    with pytest.raises(UsageError, match=r"--policy was .*0.05.* is .*0.06"):
        bandits.run(policy=Tempered(0.06), **where)
    with pytest.raises(UsageError, match="--policy was None"):
        bandits.run(policy=Tempered(0.05), experiment_name="run", **where)


def test_rewards_of_ones_own_are_paid(run, folder):
    own = bandits.run(rewards=Near(0.25), bandits_type="uniform", root_output_dir=folder, **SHORT)
    plain = bandits.run(bandits_type="uniform", root_output_dir=folder, **SHORT)
    name = "bandits/round_rewards"
    np.testing.assert_allclose(own.metrics[name], 0.25 + 0.75 * plain.metrics[name], rtol=1e-6)
    assert own.flags["rewards"].startswith(f"{__name__}:Near(share=0.25) ")


def test_other_objects_leave_nothing(run, folder, capsys):
    before = sorted(folder.iterdir())
    own = bandits.run(policy=lambda rewards: tf.nn.softmax(rewards / 0.05), root_output_dir=folder, **SHORT)
    _assert_close(own.metrics, run.metrics)
    assert sorted(folder.iterdir()) == before
    assert "The run's files are deleted when this process ends: policy " in capsys.readouterr().err


def test_a_keras_model_trains_as_the_same_model_of_the_project(run, folder):
    keras = tf.keras
    layers = [keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)]
    own = bandits.run(model=keras.Sequential(layers), root_output_dir=folder, **SHORT)
    _assert_close(own.metrics, run.metrics)
    for one, other in zip(own.weights.values(), run.weights.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert own.flags["model"].startswith("keras:Sequential ")


@pytest.fixture
def wine() -> pd.DataFrame:
    table = datasets.load_wine(as_frame=True).frame
    return table.assign(who=[f"client {row % 6}" for row in range(len(table))])


def test_a_frame_is_a_table_like_a_file_and_continued_with_equal_rows_only(wine, folder):
    wine.to_csv(folder / "wine.csv", index=False)
    table = wine.copy()
    reference = weakref.ref(table)
    run = bandits.run(table=table, root_output_dir=folder, experiment_name="frame", **COLUMNS)
    pd.testing.assert_frame_equal(table, wine)
    del table
    gc.collect()
    assert reference() is None
    assert run.flags["task_type"] == "tabular"
    assert f"# from Python, its table {run.flags['data_file']}" in run.command
    predicted = run.predict(wine.drop(columns=["who", "target"]))
    np.testing.assert_allclose(predicted["probability"].sum(axis=1), 1)
    pd.testing.assert_frame_equal(bandits.load(folder / "frame").predict(wine), predicted)
    file = bandits.run(
        data_file=folder / "wine.csv", task_type="tabular", root_output_dir=folder, experiment_name="file", **COLUMNS
    )
    _assert_same(run.metrics, file.metrics)
    bandits.run(table=wine, root_output_dir=folder, experiment_name="frame", **COLUMNS)
    wine.loc[3, "alcohol"] += 1e-9
    with pytest.raises(UsageError, match=r"holds a run with other settings: .*the data has a different checksum"):
        bandits.run(table=wine, root_output_dir=folder, experiment_name="frame", **COLUMNS)


def test_other_studies_run_and_take_tables(wine, folder):
    ads = bandits.ads.run(rates=[0.1, 0.3], total_rounds=2, root_output_dir=folder, experiment_name="ads")
    assert (ads.flags["rates"], ads.weights) == ("0.1,0.3", None)
    chosen = bandits.client_selection.run(table=wine, root_output_dir=folder, **COLUMNS)
    assert chosen.flags["client_selection"] == "ucb_cs"
    assert len(posterior.run(table=wine, algorithm="fedavg", root_output_dir=folder, **COLUMNS).metrics) == 2
    clicks = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (400, 2)), columns=["one", "other"])
    shown = bandits.ads.run(table=clicks, clients=4, total_rounds=2, root_output_dir=folder, experiment_name="clicks")
    assert len(shown.metrics) == 2


DEAD_WORKER = """
import os, pathlib, signal, sys, types
import pandas as pd
import pytest
import bandits
from data.errors import Failure
from optimization.runtime import worker_process

folder, flags = pathlib.Path(sys.argv[1]), dict(word.split("=") for word in sys.argv[2:])

def run(name, last=0):
    def kill(row):
        if row["round_num"] == last:
            own, = (own for own in worker_process._local_workers.values() if own.process.poll() is None)
            os.kill(own.pid, signal.SIGKILL)
    return bandits.run(root_output_dir=folder, experiment_name=name, total_rounds=6, clients_per_round=5,
                       rounds_per_checkpoint=0, callbacks=types.SimpleNamespace(on_round=kill), **flags)

with pytest.raises(Failure, match=r"TFF's worker died \\(exit status 137\\)"):
    run("dead", 3)
broken = bandits.load(folder / "dead")
assert 3 <= len(broken.metrics) < 6 and broken.weights is None
continued, whole = (run(name).metrics.drop(columns="seconds") for name in ("dead", "whole"))
pd.testing.assert_frame_equal(continued, whole, check_exact=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["isolation=off"]], ids=["isolated", "not isolated"])
def test_the_death_of_a_worker_is_raised_once_saved_and_the_same_call_continues_the_run(tmp_path, flags):
    done = _run_program(DEAD_WORKER, str(tmp_path), *flags)
    assert done.returncode == 0, done.stderr
