"""Tests of clients that train alone, of bandits.alone."""

import json
import types

import numpy as np
import pytest

from bandits import alone, metrics
from bandits.experiment import SampledClients
from bandits.round_parts import Participation
from data.errors import Failure
from optimization import client_states, fed_avg
from optimization.study import run_folder
from tests.bandits import whole_runs

SMALL = ("--total_rounds=6", "--clients_per_round=2", "--bandits_deploy_freq=2", "--population_client_selection=0-4")
ONE = ("--clients_per_round=1", "--population_client_selection=0-1")


def _state(weight, deployed):
    return fed_avg.State(np.int32(0), (np.float32(weight),), tuple((np.float32(one),) for one in deployed), (), ())


class _Counting:
    """A process whose clients add their number to the weight, and deploy every two rounds."""

    def __init__(self):
        self.acted = []

    def initialize(self):
        return _state(0, [0, 0])

    def next(self, state, cohort):
        self.acted.append([float(one[0]) for one in state.deployed])
        weights, round_num = (state.weights[0] + np.float32(cohort[0]),), state.round_num + 1
        deployed = (weights, *state.deployed[:-1]) if round_num % 2 == 0 else state.deployed
        sums = dict.fromkeys(fed_avg.RoundMetrics._fields, np.float32(cohort[0]))
        sums["aggregator"] = {"clipping_norm": sums["update_norm"], "clipped_count": 1}
        return fed_avg.State(round_num, weights, deployed, (), ()), fed_avg.RoundMetrics(**sums)


def _rounds(folder, population, checkpoints=()):
    states = client_states.ClientStates(folder, lambda: checkpoints)
    process = _Counting()
    return process, alone.AloneRounds(lambda _: process, types.SimpleNamespace(deploy_every=2), states, population)


@pytest.fixture(autouse=True)
def rounds_without_a_worker(monkeypatch):
    each = lambda process, pairs: [process.next(state, [client]) for state, client in pairs]  # noqa: E731
    monkeypatch.setattr(alone, "run_each", each)


def _cohort(*clients):
    return [Participation(10**client, client, None) for client in clients]


def test_a_client_acts_with_its_own_model_of_the_last_deployments(tmp_path):
    process, rounds = _rounds(tmp_path, 3)
    server = rounds.initialize()
    for round_num, clients in enumerate([(0, 1), (0,), (0,), (2,), (1,), (1,), (0,)], 1):
        server, metrics = rounds.next(server, _cohort(*clients), round_num)
    # Client 0 in rounds 1, 2, 3 and 7: deployments after rounds 2, 4 and 6; client 1 in rounds 1, 5 and 6.
    assert process.acted == [[0, 0], [0, 0], [0, 0], [2, 0], [0, 0], [10, 10], [10, 10], [3, 3]]
    assert server.taken_part.tolist() == [[1, 7], [1, 6], [4, 4]]
    assert (metrics.loss_sum, metrics.update_norm) == (1, 1)


def test_metrics_are_sums_over_clients_and_the_mean_of_norms(tmp_path):
    _, rounds = _rounds(tmp_path, 2)
    _, metrics = rounds.next(rounds.initialize(), _cohort(0, 1), 1)
    assert (metrics.loss_sum, metrics.update_norm) == (11, 5.5)
    assert metrics.aggregator == {"clipping_norm": 5.5, "clipped_count": 2}


def test_the_states_that_a_checkpoint_continues_from_are_kept(tmp_path):
    checkpoints: list[int] = []
    states = client_states.ClientStates(tmp_path / "states", lambda: checkpoints)
    for round_num in (1, 2, 3):
        states.save(0, round_num, _state(round_num, [0]))
    assert len(list((tmp_path / "states").iterdir())) == 1
    checkpoints[:] = [3]
    for round_num in (5, 6, 7, 8, 9):
        states.save(0, round_num, _state(round_num, [0]))
        checkpoints += [round_num] if round_num in (5, 7) else []
    again = client_states.ClientStates(tmp_path / "states", lambda: checkpoints)
    for round_num in (3, 5, 7, 9):  # Rounds 6 and 8 have no checkpoint.
        assert again.load(0, round_num, _state(0, [0])) == _state(round_num, [0])
    checkpoints[:] = [7, 9]
    again.save(0, 10, _state(10, [0]))
    assert sorted(path.name[-6:-4] for path in (tmp_path / "states").iterdir()) == ["07", "09", "10"]
    assert (tmp_path / "states").stat().st_mode & 0o077 == 0
    with pytest.raises(Failure, match="round_00000008"):
        again.load(0, 8, _state(0, [0]))


play = whole_runs.player(*SMALL, "--federation=alone")


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--bandits_deploy_delay=2", "--clip_norm=0.05", "--server_optimizer=yogi")])
def test_a_population_of_one_has_the_numbers_of_its_federation(tmp_path, flags):
    federated = play(tmp_path / "federated", *ONE, *flags, "--federation=federated")
    one = play(tmp_path / "alone", *ONE, *flags)
    same = [metrics.ROUND_REWARD, metrics.ROUND_PROBABILITY, metrics.LOSS, metrics.UPDATE_NORM, metrics.CLIP_NORM]
    assert whole_runs.table(federated)[same].equals(whole_runs.table(one)[same])
    (file,) = (one / run_folder.CLIENT_MODELS).iterdir()
    with np.load(file) as state:
        own = {state[name].tobytes() for name in state.files}
    assert {weight.tobytes() for weight in whole_runs.weights(federated).values()} <= own
    assert not (one / run_folder.MODEL_FILE).exists()


@pytest.mark.slow
def test_nothing_leaves_a_client(tmp_path, monkeypatch):
    """A client has the same models whoever else takes part, and the privacy loss is 0."""
    both = play(tmp_path / "both")
    assert json.loads((both / "privacy.json").read_text())["epsilon"] == 0
    cohort = SampledClients.positions
    monkeypatch.setattr(SampledClients, "positions", lambda *place: np.setdiff1d(cohort(*place), [2]))
    without = play(tmp_path / "without")
    states = [
        {path.name: path.read_bytes() for path in (run / run_folder.CLIENT_MODELS).iterdir()} for run in (both, without)
    ]
    assert set(states[0]) > set(states[1])
    assert all(states[0][name] == states[1][name] for name in states[1])


@pytest.mark.slow
def test_a_stopped_run_goes_on_as_if_it_had_not(tmp_path):
    runs = whole_runs.stopped(play, tmp_path, "--rounds_per_checkpoint=2", after=4, last_checkpoint=2)
    last = [sorted((run / run_folder.CLIENT_MODELS).iterdir())[-1] for run in runs]
    assert (last[0].name, last[0].read_bytes()) == (last[1].name, last[1].read_bytes())
