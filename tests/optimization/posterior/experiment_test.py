"""Rounds of all algorithms on four tiny clients."""

import collections
import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from data import clients, tasks
from optimization import models
from optimization.posterior import algorithms, experiment, flags, metrics
from optimization.posterior.run_posterior import STUDY
from optimization.study import compiled, frame, run_folder
from optimization.study import metrics as study_metrics

SIZES = (4, 6, 5, 9)


def make_task(sizes=SIZES) -> tasks.Task:
    draw = np.random.default_rng(0)
    count = sum(sizes)
    labels = draw.integers(0, 3, count).astype(np.int32)
    features = (draw.normal(size=(count, 4)) + labels[:, np.newaxis]).astype(np.float32)
    owners = np.repeat(np.arange(len(sizes)), sizes)
    examples = clients.Examples(features, labels)
    return tasks.Task(
        clients=clients.ArrayClients(examples, owners, [str(index) for index in range(len(sizes))]),
        held_out=clients.ArrayClients(examples, np.zeros(count, np.int32), ["all"]),
        num_actions=3,
        feature_spec=((4,), "float32"),
        model="mlp",
        model_arguments={"num_features": 4, "hidden": (), "num_outputs": 3},
        rewards={},
    )


def make_run(folder, *arguments: str, sizes=SIZES) -> experiment.PosteriorRounds:
    argv = ["run_posterior", "--clients_per_round=4", "--total_rounds=2", "--client_learning_rate=0.1", *arguments]
    (settings,) = frame.plan(STUDY, frame.flag_set(STUDY).parse(argv))
    return experiment.PosteriorRounds(STUDY.options(settings), make_task(sizes), run_folder.RunFolder(folder))


def test_runs_of_other_seeds_share_computations_and_no_state(tff_worker, tmp_path, monkeypatch):
    built, found = [], []
    monkeypatch.setattr(compiled, "_cached", kept := collections.OrderedDict())
    for seed in (3, 4):
        found.append(execute(make_run(tmp_path, "--algorithm=fedpa", f"--seed={seed}"), 2)[0])
        built.append(len(kept))
    assert built[0] == built[1]
    kept.clear()
    alone, _ = execute(make_run(tmp_path, "--algorithm=fedpa", "--seed=4"), 2)
    np.testing.assert_array_equal(found[1], alone)
    assert (found[0] != found[1]).any()


@pytest.mark.parametrize("name", ["fedavg", "fedkp"])
def test_a_second_run_frees_the_task_of_the_first(tff_worker, tmp_path, name):
    gone = []
    for rate in (0.1, 0.2):
        run = make_run(tmp_path, f"--algorithm={name}", f"--client_learning_rate={rate}")
        weakref.finalize(run._task.clients, gone.append, rate)
        execute(run)
        del run
        gc.collect()
    assert gone == [0.1, 0.2]


def execute(run: experiment.PosteriorRounds, rounds: int = 1):
    progress, row = run.initial_state(), {}
    for round_num in range(1, rounds + 1):
        progress, row = run.run_round(progress, round_num)
    return algorithms.flat(progress.server.weights), row


@pytest.mark.parametrize("name", flags.ALGORITHMS)
def test_every_algorithm_runs_two_rounds(tff_worker, tmp_path, name):
    more = ["--server_data=clients:1", "--distillation_epochs=1", "--clients_per_round=3"] if name == "fedbe" else []
    run = make_run(tmp_path, f"--algorithm={name}", *more)
    before = algorithms.flat(run.initial_state().server.weights)
    after, row = execute(run, 2)
    assert np.isfinite(after).all()
    assert np.abs(after - before).max() > 1e-3
    assert set(row) == set(metrics.COLUMNS)
    assert all(np.isfinite(value) for column, value in row.items() if column != metrics.SHARE_MOVED)
    assert np.isfinite(row[metrics.SHARE_MOVED]) == (name in flags.MODES)
    assert (row[study_metrics.EMPTY_CLIENTS], row[study_metrics.NONFINITE_CLIENTS]) == (0, 0)
    assert row[study_metrics.EXAMPLES] == sum(SIZES[1:] if name == "fedbe" else SIZES)


def test_fedavg_equals_tffs(tff_worker, tmp_path):
    task = make_task()
    shared = ("--algorithm=fedavg", "--client_batch_size=100", "--client_epochs_per_round=3")
    found, _ = execute(make_run(tmp_path, *shared, "--server_learning_rate=0.5", "--server_sgd_momentum=0.9"), 2)
    keras = tf.keras.Sequential([tf.keras.layers.Input(4), tf.keras.layers.Dense(3)])
    keras.set_weights(models.mlp(4, (), 3).initial_weights(0))
    spec = collections.OrderedDict(x=tf.TensorSpec((None, 4)), y=tf.TensorSpec((None,), tf.int32))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    process = tff.learning.algorithms.build_weighted_fed_avg(
        tff.learning.models.functional_model_from_keras(keras, loss, spec),
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.1, momentum=0.9),
        server_optimizer_fn=tff.learning.optimizers.build_sgdm(0.5, momentum=0.9),
    )
    data = []
    for index, size in enumerate(SIZES):
        one = task.clients.load(index)
        values = collections.OrderedDict(x=one.features, y=one.labels)
        data.append(tf.data.Dataset.from_tensor_slices(values).repeat(3).batch(size))
    state = process.initialize()
    for _ in range(2):
        state = process.next(state, data).state
    expected = models.flatten([tf.constant(weight) for weight in process.get_model_weights(state).trainable])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_burn_in_rounds_equal_fedavgs(tff_worker, tmp_path):
    for rounds in (1, 2):
        mean, _ = execute(make_run(tmp_path, "--algorithm=fedavg"), rounds)
        found, _ = execute(make_run(tmp_path, "--algorithm=fedpa", "--burn_in_rounds=1"), rounds)
        assert np.array_equal(found, mean) == (rounds == 1)


def test_fedbe_warns_if_its_distillation_completes_no_cycle(tff_worker, tmp_path, capsys):
    arguments, sizes = ("--algorithm=fedbe", "--server_data=clients:1", "--clients_per_round=3"), (300, 4, 4, 4)
    make_run(tmp_path, *arguments, "--distillation_epochs=8", sizes=sizes)  # 24 steps of 25.
    assert "FedBE's distillation completes no cycle" in (message := capsys.readouterr().err)
    assert "the server's 300 examples has only 3. Give --distillation_epochs=9 or more." in message
    make_run(tmp_path, *arguments, "--distillation_epochs=9", sizes=sizes)
    assert not capsys.readouterr().err


def test_sgld_serves_the_average_of_the_chain_that_clients_train_from(tff_worker, tmp_path):
    shared = ("--client_learning_rate=0.02", "--server_learning_rate=0.5")
    run = make_run(tmp_path, "--algorithm=sgld", "--burn_in_rounds=1", "--total_rounds=3", *shared)
    fedavg = make_run(tmp_path, "--algorithm=fedavg", *shared)
    progress, chain = run.initial_state(), fedavg.initial_state().server
    states = []
    for round_num in (1, 2, 3):
        progress, _ = run.run_round(progress, round_num)
        plain, _ = fedavg.run_round(fedavg.initial_state()._replace(server=chain), round_num)
        noise = algorithms.flat(progress.chain) - algorithms.flat(plain.server.weights)
        # A linear model's 15 weights: the deviation's standard error is 18%.
        assert 0.4 * 0.2 < noise.std() < 1.6 * 0.2
        chain = plain.server._replace(weights=progress.chain)
        states.append(algorithms.flat(progress.chain))
        # The state itself in the burn-in round, then the average of those after it.
        expected = np.mean(states[min(1, round_num - 1) :], axis=0)
        np.testing.assert_allclose(algorithms.flat(progress.server.weights), expected, atol=1e-6)


# Each of these takes the mean of clients of equal sizes, with a bandwidth without end and in the burn-in of a chain.
MEANS = {
    "fedavg": (),
    "fedopt": (),
    "fedag": (),
    "fedpa": ("--burn_in_rounds=1",),
    "fedkp": ("--bandwidth_scale=1e9",),
    "fedkp_cluster_mean": ("--bandwidth_scale=1e9",),
    "fedkppa": ("--bandwidth_scale=1e9", "--burn_in_rounds=1"),
}


def run_five(folder, fourth, *arguments: str):
    """Runs a round of three clients, a fourth with other examples and one without; returns the move and the row."""
    step = ("--clients_per_round=5", "--server_optimizer=sgd", "--server_learning_rate=1", "--server_sgd_momentum=0")
    run = make_run(folder, *arguments, *step, sizes=(5, 5, 5, 5, 0))
    population = run._task.clients
    load = population.load
    population.load = lambda index: fourth(load) if index == 3 else load(index)
    before = algorithms.flat(run.initial_state().server.weights)
    after, row = execute(run)
    return after - before, row


@pytest.fixture(scope="module")
def mean_of_three(tff_worker, tmp_path_factory):
    """FedAvg's move by the three clients alone."""
    return run_five(tmp_path_factory.mktemp("three"), lambda load: load(4), "--algorithm=fedavg")[0]


@pytest.mark.parametrize("name", MEANS)
def test_a_diverged_client_counts_as_a_zero_update_and_an_empty_one_not_at_all(mean_of_three, tmp_path, name):
    def diverged(load):
        return load(3)._replace(features=np.full((5, 4), np.inf, np.float32))

    found, row = run_five(tmp_path, diverged, f"--algorithm={name}", *MEANS[name])
    np.testing.assert_allclose(found, 0.75 * mean_of_three, atol=1e-6)
    assert (row[study_metrics.EMPTY_CLIENTS], row[study_metrics.NONFINITE_CLIENTS]) == (1, 1)


def test_ucb_cs_first_selects_each_client_but_the_servers(tff_worker, tmp_path):
    arguments = ("--algorithm=fedbe", "--server_data=clients:1", "--client_selection=ucb_cs", "--clients_per_round=1")
    run = make_run(tmp_path, *arguments, "--distillation_epochs=1", "--total_rounds=3")
    progress, examples = run.initial_state(), []
    for round_num in (1, 2, 3):
        progress, row = run.run_round(progress, round_num)
        examples.append(row[study_metrics.EXAMPLES])
    assert sorted(examples) == sorted(SIZES[1:])
    assert (progress.selection.counts > 0).all()


def test_scaffolds_first_round_is_fedavgs_and_later_ones_are_not(tff_worker, tmp_path):
    shared = ("--algorithm=fedavg", "--client_momentum=0")
    for rounds in (1, 2):
        mean, mean_row = execute(make_run(tmp_path, *shared, sizes=(6, 6, 6, 6)), rounds)
        run = make_run(tmp_path, *shared, "--client_algorithm=scaffold", sizes=(6, 6, 6, 6))
        corrected, row = execute(run, rounds)
        assert np.allclose(corrected, mean, rtol=0, atol=1e-6) == (rounds == 1)
        for column in (study_metrics.BYTES_DOWN, study_metrics.BYTES_UP):
            assert row[column] == 2 * mean_row[column]
    assert len(list((tmp_path / run_folder.CLIENT_VARIATES).iterdir())) >= 4
