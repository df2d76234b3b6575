"""Tests of bandits.shared_process."""

import dataclasses
import types

import numpy as np
import pandas as pd
import pytest

from bandits import flags, run_federated, shared_process
from optimization.study import compiled

SMALL = ("--total_rounds=3", "--clients_per_round=4", "--bandits_deploy_freq=2", "--rounds_per_eval=0")
SETTINGS = {"aggregator_type": "mean", "seed": 0, "client_learning_rate": 0.1, "total_rounds": 5, "preset": None}


@dataclasses.dataclass(frozen=True)
class _Phase:
    total_rounds: int = 5
    server_learning_rate: float = 0.1
    client_learning_rate: float = 0.1


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    monkeypatch.setattr(compiled, "_kept", type(compiled._kept)())


def _builds(*runs):
    """Returns how many processes are built for runs, each given as (settings, phase, checksum of the data)."""
    built = []
    definition = types.SimpleNamespace(build=lambda *weights: built.append(weights))
    for settings, phase, checksum in runs:
        task = types.SimpleNamespace(checksum=checksum)
        shared_process.build(SETTINGS | settings, task, phase, definition, ())
    return len(built)


def test_runs_that_differ_in_seed_server_rate_and_length_share_a_process():
    other = {"seed": 1, "total_rounds": 9, "server_learning_rate": 0.2, "preset": "so", "root_output_dir": "x"}
    assert _builds(({}, _Phase(), "a"), (other, _Phase(9, 0.2), "a")) == 1


@pytest.mark.parametrize(
    "other",
    [({"client_batch_size": 8}, _Phase(), "a"), ({}, _Phase(client_learning_rate=0.2), "a"), ({}, _Phase(), "b")],
)
def test_runs_that_compute_something_else_do_not_share(other):
    assert _builds(({}, _Phase(), "a"), other) == 2


def test_runs_with_noise_never_share():
    noisy = ({"aggregator_type": "dpftrl"}, _Phase(), "a")
    assert _builds(noisy, noisy) == 2


def test_a_run_of_another_seed_and_server_rate_has_the_numbers_of_a_process_of_its_own(
    tff_worker, monkeypatch, tmp_path
):
    from optimization.runtime import worker

    monkeypatch.setattr(worker, "start", lambda *_: tff_worker)

    def play(name, *arguments):
        where = (f"--root_output_dir={tmp_path}", f"--experiment_name={name}")
        assert run_federated.program(flags.define().parse(["run_federated", *SMALL, *where, *arguments])) == 0
        metrics = pd.read_csv(tmp_path / name / "metrics.csv").drop(columns="seconds")
        with np.load(tmp_path / name / "model" / "weights.npz") as weights:
            return metrics, dict(weights)

    play("before", "--seed=1", "--server_learning_rate=0.01", "--total_rounds=1")
    after = ("--seed=2", "--server_learning_rate=0.03")
    shared = play("shared", *after)
    assert len(compiled._kept) == 1
    monkeypatch.setattr(shared_process, "build", lambda *given: given[-2].build(given[-1]))
    alone = play("alone", *after)
    pd.testing.assert_frame_equal(shared[0], alone[0], check_exact=True)
    for name, weights in alone[1].items():
        np.testing.assert_array_equal(shared[1][name], weights)


@pytest.mark.parametrize("name", ["adagrad", "adam", "sgd", "yogi"])
def test_the_server_rate_is_part_of_every_optimizers_state(name):
    import tensorflow as tf

    from optimization import server

    weights = gradient = (tf.constant([1.0, 2.0]),)
    slow, fast = server.OPTIMIZERS[name](0.01), server.OPTIMIZERS[name](0.03)
    state = slow.set_hparams(slow.initialize(gradient), {shared_process._RATE: np.float32(0.03)})
    _, found = slow.next(state, weights, gradient)
    _, wanted = fast.next(fast.initialize(gradient), weights, gradient)
    np.testing.assert_array_equal(found[0], wanted[0])
