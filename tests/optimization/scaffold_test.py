import numpy as np
import pytest

from optimization import client_states, client_work, scaffold
from tests.optimization import linear_rounds

SIZES = (5, 9, 7, 0, 6)
COHORTS = ((0, 1, 2), (1, 2, 4), (0, 3, 4), (2, 1, 0), (4, 1, 3))  # Client 3 has no examples.
ZEROS = tuple(map(np.zeros_like, linear_rounds.INITIAL))


def _clients(numbers):
    return [linear_rounds.client(number, SIZES[number]) for number in numbers]


def _cohort(numbers):
    return list(zip(_clients(numbers), numbers, strict=True))


def _arrays(state):
    return [*state.weights, *state.aggregator.server]


def _rounds(folder, **changes) -> scaffold.Rounds:
    definition = linear_rounds.definition(**changes)
    states = client_states.ClientStates(folder, lambda: [0, 1, 2, 3, 4, 5])
    return scaffold.Rounds(definition.build(linear_rounds.INITIAL), definition, states, range(len(SIZES)))


def _in_numpy():
    """The models after each round, and the last variates of the server and of the clients, in float64."""
    weights, server = list(linear_rounds.INITIAL), list(ZEROS)
    own = [list(ZEROS) for _ in SIZES]
    models = []
    for cohort in COHORTS:
        deltas, changes = [], []
        for number, client in zip(cohort, _clients(cohort), strict=True):
            shift = [c - c_i for c, c_i in zip(server, own[number], strict=True)]
            trained = linear_rounds.trained(weights, client, shift)
            deltas.append([y - x for y, x in zip(trained, weights, strict=True)])
            length = linear_rounds.STEPS * linear_rounds.RATE
            after = [c_i - c - d / length for c_i, c, d in zip(own[number], server, deltas[-1], strict=True)]
            after = after if len(client.labels) else own[number]
            changes.append([new - old for new, old in zip(after, own[number], strict=True)])
            own[number] = after
        weights = [x + sum(parts) / len(cohort) for x, parts in zip(weights, zip(*deltas, strict=True), strict=True)]
        server = [c + sum(parts) / len(SIZES) for c, parts in zip(server, zip(*changes, strict=True), strict=True)]
        models.append(weights)
    return models, server, own


def test_five_rounds_are_those_in_numpy(tff_worker, tmp_path):
    rounds = _rounds(tmp_path)
    state, (models, server, own) = rounds.initialize(), _in_numpy()
    for round_num, (cohort, expected) in enumerate(zip(COHORTS, models, strict=True), 1):
        state, metrics = rounds.next(state, _cohort(cohort), round_num)
        linear_rounds.assert_close(state.weights, expected)
        assert metrics.examples == sum(SIZES[number] for number in cohort)
        assert metrics.empty_clients == (3 in cohort)
    linear_rounds.assert_close(state.aggregator.server, server)
    assert state.aggregator.last_rounds.tolist() == [4, 5, 4, 5, 5]
    states = client_states.ClientStates(tmp_path, lambda: [])
    for number, expected in enumerate(own):
        linear_rounds.assert_close(states.load(number, state.aggregator.last_rounds[number], ZEROS), expected)
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path, *tmp_path.iterdir()))


def test_a_round_can_be_repeated_from_an_earlier_state(tff_worker, tmp_path):
    rounds = _rounds(tmp_path)
    states = [rounds.initialize()]
    for round_num, cohort in enumerate(COHORTS, 1):
        states.append(rounds.next(states[-1], _cohort(cohort), round_num)[0])
    again = _rounds(tmp_path).next(states[2], _cohort(COHORTS[2]), 3)[0]
    np.testing.assert_equal(_arrays(again), _arrays(states[3]))


def test_a_client_that_diverges_keeps_its_variate(tff_worker, tmp_path):
    rounds, (one, bad) = _rounds(tmp_path), _clients((0, 1))
    bad.features[2, 0] = np.inf
    state, metrics = rounds.next(rounds.initialize(), [(one, 0), (bad, 1)], 1)
    assert metrics.nonfinite_clients == 1
    states = client_states.ClientStates(tmp_path, lambda: [])
    for variate in states.load(1, 1, ZEROS):
        np.testing.assert_array_equal(variate, np.zeros_like(variate))
    for c, c_i in zip(state.aggregator.server, states.load(0, 1, ZEROS), strict=True):
        np.testing.assert_allclose(c, c_i / len(SIZES), rtol=1e-5)


def test_a_round_without_clients_changes_nothing(tff_worker, tmp_path):
    rounds = _rounds(tmp_path)
    state, _ = rounds.next(rounds.initialize(), _cohort((0, 1)), 1)
    after, metrics = rounds.next(state, [], 2)
    np.testing.assert_equal(_arrays(after), _arrays(state))
    assert metrics.examples == 0


@pytest.mark.parametrize(("work", "steps"), [({"epochs": 3}, [0, 3, 6]), ({"steps": 5}, [0, 5, 5])])
def test_the_number_of_steps(work, steps):
    sgd = client_work.LocalSgd(0.1, 4, **work)
    assert [int(sgd.num_steps(np.int32(count))) for count in (0, 4, 5)] == steps
