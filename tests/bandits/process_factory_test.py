"""Tests of the rounds that runs share, of bandits.process_factory."""

import dataclasses
import types

import numpy as np
import pytest

from bandits import losses, policies, process, process_factory
from data import objects
from optimization import client_work, corrections, models, options
from optimization.runtime import cached_rounds
from optimization.study import compiled
from tests.bandits import process_test, whole_runs

SMALL = ("--total_rounds=3", "--clients_per_round=4", "--bandits_deploy_freq=2", "--rounds_per_eval=0")
TASK = types.SimpleNamespace(model="mlp", model_arguments={"num_features": 4})
PHASE = types.SimpleNamespace(
    policy=types.SimpleNamespace(label="", target=""),
    has_user_training=False,
    server_optimizer=options.ServerOptimizer("adam", 0.1),
    aggregation=options.Aggregation(),
    posterior=None,
    task=types.SimpleNamespace(cache_dir=None),
)


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    monkeypatch.setattr(compiled, "_cached", type(compiled._cached)())


def _definition(build):
    class Definition(process.BanditProcess):
        def build(self, *weights):
            return build(weights)

    return Definition(**process_test.fields(process_test.make(losses.SupervisedLoss())))


@pytest.fixture
def built(monkeypatch):
    """A function (*runs) -> number of built processes, and of those that may be kept on the disk.

    Each run is given by its differences in task, phase and definition.
    """
    made, kept = [], []
    definition = _definition(made.append)
    monkeypatch.setattr(cached_rounds, "process", lambda folder, key, build: kept.append(key) or build())

    def build(*runs):
        for task, phase, changes in runs:
            one = types.SimpleNamespace(**vars(TASK) | task), types.SimpleNamespace(**vars(PHASE) | phase)
            process_factory.build(*one, dataclasses.replace(definition, **changes), ())
        return len(made), len(kept)

    return build


PLAIN = ({}, {}, {})


def test_runs_that_differ_in_their_server_rate_share_a_process(built):
    assert built(PLAIN, ({}, {"server_optimizer": options.ServerOptimizer("adam", 0.2)}, {})) == (1, 1)


@pytest.mark.parametrize(
    "other",
    [
        ({"model_arguments": {"num_features": 5}}, {}, {}),
        ({}, {"server_optimizer": options.ServerOptimizer("adam", 0.1, (("beta_1", 0.8),))}, {}),
        ({}, {"aggregation": options.Aggregation(clip_norm=0.1)}, {}),
        ({}, {}, {"local_work": client_work.LocalSgd(0.1, 4, 1, corrections=(corrections.Proximal(0.1),))}),
        ({}, {}, {"model": models.with_heads(models.mlp(3, (), 6), 2)}),
        ({}, {}, {"policy": policies.Softmax(0.6)}),
        ({}, {}, {"reward_matrix": np.ones((3, 3), np.float32)}),
        ({}, {}, {"own_metrics": (objects.of(len),)}),
    ],
)
def test_runs_that_compute_something_else_do_not_share(built, other):
    assert built(PLAIN, other)[0] == 2


def test_rounds_of_classes_outside_the_project_are_not_kept_on_the_disk(built):
    class Softmax(policies.Softmax):  # Whose source no version tells.
        pass

    assert built(PLAIN, ({}, {}, {"policy": Softmax(0.5)})) == (2, 1)


def test_runs_with_noise_never_share_and_leave_nothing_to_other_programs(built):
    noisy = ({}, {"aggregation": options.Aggregation("dpftrl")}, {})
    assert built(noisy, noisy) == (2, 0)


@pytest.mark.slow
def test_a_run_of_another_seed_and_server_rate_has_the_numbers_of_a_process_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setattr(cached_rounds, "_version", lambda: "this version")
    play = whole_runs.player(*SMALL, f"--cache_dir={tmp_path / 'cache'}")
    play(tmp_path / "before", "--seed=1", "--server_learning_rate=0.01", "--total_rounds=1")
    after = ("--seed=2", "--server_learning_rate=0.03")
    shared = play(tmp_path / "shared", *after)
    assert len(compiled._cached) == 1
    compiled._cached.clear()  # As in another program, which may build nothing.
    with monkeypatch.context() as patch:
        patch.setattr(process.BanditProcess, "build", None)
        kept = play(tmp_path / "kept", *after)
    monkeypatch.setattr(process_factory, "_shared", lambda *given: given[-2].build(given[-1]))
    alone = play(tmp_path / "alone", *after)
    for run in (shared, kept):
        whole_runs.assert_same(run, alone)


@pytest.mark.parametrize("name", ["adagrad", "adam", "sgd", "yogi"])
def test_the_server_rate_is_part_of_every_optimizers_state(name):
    import tensorflow as tf

    from optimization import optimizers

    weights = gradient = (tf.constant([1.0, 2.0]),)
    slow, fast = optimizers.OPTIMIZERS[name](0.01), optimizers.OPTIMIZERS[name](0.03)
    state = slow.set_hparams(slow.initialize(gradient), {process_factory._RATE: np.float32(0.03)})
    _, found = slow.next(state, weights, gradient)
    _, wanted = fast.next(fast.initialize(gradient), weights, gradient)
    np.testing.assert_array_equal(found[0], wanted[0])
