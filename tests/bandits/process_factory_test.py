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
from tests.bandits import whole_runs

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


def _definition(build=lambda weights: None):
    class Definition(process.BanditProcess):
        def build(self, *weights):
            return build(weights)

    return Definition(
        model=models.mlp(3, (), 6),
        policy=policies.Softmax(0.5),
        loss=losses.SupervisedLoss(),
        reward_matrix=np.eye(3, dtype=np.float32),
        local_work=client_work.LocalSgd(0.1, 4, 1),
        aggregator=None,
        server_optimizer=None,
        deploy_every=2,
        feature_spec=None,
        label_spec=None,
    )


def _builds(monkeypatch, *runs):
    """Number of processes built for runs, each given by its differences in task, phase and definition."""
    built = []
    monkeypatch.setattr(cached_rounds, "process", lambda folder, key, build: build())

    definition = _definition(built.append)
    for task, phase, changes in runs:
        one = types.SimpleNamespace(**vars(TASK) | task), types.SimpleNamespace(**vars(PHASE) | phase)
        process_factory.build(*one, dataclasses.replace(definition, **changes), ())
    return len(built)


def test_runs_that_differ_in_their_server_rate_share_a_process(monkeypatch):
    assert _builds(monkeypatch, ({}, {}, {}), ({}, {"server_optimizer": options.ServerOptimizer("adam", 0.2)}, {})) == 1


@pytest.mark.parametrize(
    "other",
    [
        ({"model_arguments": {"num_features": 5}}, {}, {}),
        ({}, {"server_optimizer": options.ServerOptimizer("adam", 0.1, (("beta_1", 0.8),))}, {}),
        ({}, {"aggregation": options.Aggregation(clip_norm=0.1)}, {}),
        ({}, {}, {"local_work": client_work.LocalSgd(0.2, 4, 1)}),
        ({}, {}, {"local_work": client_work.LocalSgd(0.1, 4, 1, corrections=(corrections.Proximal(0.1),))}),
        ({}, {}, {"model": models.with_heads(models.mlp(3, (), 6), 2)}),
        ({}, {}, {"policy": policies.Softmax(0.6)}),
        ({}, {}, {"reward_matrix": np.ones((3, 3), np.float32)}),
        ({}, {}, {"own_metrics": (objects.of(len),)}),
    ],
)
def test_runs_that_compute_something_else_do_not_share(monkeypatch, other):
    assert _builds(monkeypatch, ({}, {}, {}), other) == 2


def test_rounds_of_classes_outside_the_project_are_not_kept_on_disk(monkeypatch):
    class Softmax(policies.Softmax):  # Whose source no version tells.
        pass

    asked = []
    own = _definition(), dataclasses.replace(_definition(), policy=Softmax(0.5))
    keys = [repr(process_factory.key(TASK, PHASE, definition)) for definition in own]
    assert keys[0] != keys[1]
    monkeypatch.setattr(cached_rounds, "process", lambda folder, key, build: asked.append(key))
    for definition in own:
        process_factory.build(TASK, PHASE, definition, ())
    assert len(asked) == 1


def test_runs_with_noise_never_share(monkeypatch):
    noisy = ({}, {"aggregation": options.Aggregation("dpftrl")}, {})
    assert _builds(monkeypatch, noisy, noisy) == 2


@pytest.fixture
def play(tff_worker, monkeypatch, tmp_path):
    """A function (name, *arguments) -> folder of a run that keeps its rounds in the folder `cache`."""
    from optimization.runtime import worker

    monkeypatch.setattr(worker, "start", lambda *_: tff_worker)
    monkeypatch.setattr(cached_rounds, "_version", lambda: "this version")
    run = whole_runs.player(*SMALL, f"--cache_dir={tmp_path / 'cache'}")
    return lambda name, *arguments: run(tmp_path / name, *arguments)


def test_a_run_of_another_seed_and_server_rate_has_the_numbers_of_a_process_of_its_own(play, monkeypatch):
    play("before", "--seed=1", "--server_learning_rate=0.01", "--total_rounds=1")
    after = ("--seed=2", "--server_learning_rate=0.03")
    shared = play("shared", *after)
    assert len(compiled._cached) == 1
    compiled._cached.clear()  # As in another program, which may build nothing.
    with monkeypatch.context() as patch:
        patch.setattr(process.BanditProcess, "build", None)
        kept = play("kept", *after)
    monkeypatch.setattr(process_factory, "_shared", lambda *given: given[-2].build(given[-1]))
    alone = play("alone", *after)
    for run in (shared, kept):
        whole_runs.assert_same(run, alone)


def test_a_run_with_noise_leaves_nothing_to_other_programs(play, tmp_path):
    play("noisy", "--aggregator_type=dpsgd", "--noise_multiplier=1", "--clip_norm=1", "--total_rounds=1")
    assert not (tmp_path / "cache").exists()


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
