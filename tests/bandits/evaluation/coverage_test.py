"""How often intervals hold the value: 1,000 logs of 250 clients, whose own rows depend on each other."""

import numpy as np
import pytest

from bandits.evaluation import estimators
from bandits.evaluation.estimators import Estimator, interval
from tests.bandits.evaluation.tables_of_logs import terms_of_rows

_LOGS, _CLIENTS, _ACTIONS = 1000, 250, 4
_ESTIMATORS = (*map(Estimator, ("logged", "ips", "snips", "dr")), Estimator("switch_dr", 10.0))
# Each client has a leaning towards an action, of which rewards, the logging policy and the target's follow.
_MEANS = np.array([[0.7, 0.3, 0.3, 0.2], [0.2, 0.6, 0.3, 0.2], [0.1, 0.2, 0.5, 0.4]])  # [leaning, action]
_LOGGING = np.array([[0.4, 0.2, 0.2, 0.2], [0.2, 0.3, 0.3, 0.2], [0.3, 0.3, 0.2, 0.2]])
_TARGET = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.6, 0.2]])
_VALUE = (_MEANS * _TARGET).sum(axis=1).mean()
_SPREAD = 0.25  # Of what a client adds to all its rewards.


def _log(generator, sizes, predictions=None):
    """Terms of a log whose clients have so many rows; predictions are float64 [leaning, action]."""
    clients = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    leanings = generator.integers(3, size=len(sizes))[clients]
    added = generator.normal(0, _SPREAD, size=len(sizes))[clients]
    actions = (generator.random(len(clients))[:, None] > np.cumsum(_LOGGING[leanings], axis=1)).sum(axis=1)
    actions = np.minimum(actions, _ACTIONS - 1)
    rewards = _MEANS[leanings, actions] + added + generator.normal(0, 0.2, len(clients))
    propensities = _LOGGING[leanings, actions]
    predicted = None if predictions is None else predictions[leanings]
    return terms_of_rows(clients, actions, rewards, propensities, _TARGET[leanings], predicted)


@pytest.fixture(scope="module")
def shares():
    """The share of 1,000 logs whose interval holds the value, by estimator, of clients and of rows."""
    generator = np.random.default_rng(8)
    truths = dict.fromkeys(_ESTIMATORS, _VALUE)
    truths[Estimator("logged")] = (_MEANS * _LOGGING).sum(axis=1).mean()
    held = {(estimator, level): 0 for estimator in _ESTIMATORS for level in ("client", "row")}
    for _ in range(_LOGS):
        rows = _log(generator, 3 + generator.integers(15, size=_CLIENTS), np.full((3, _ACTIONS), 0.3))
        units = {"client": rows.clients, "row": np.arange(len(rows.clients))}
        for level, unit in units.items():
            for estimator in _ESTIMATORS:
                found = interval(estimator.totals(rows._replace(clients=unit)))
                held[estimator, level] += found.low <= truths[estimator] <= found.high
    return {key: count / _LOGS for key, count in held.items()}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", _ESTIMATORS)
def test_clients_intervals_hold_the_value_as_often_as_they_say_and_those_of_rows_do_not(shares, estimator):
    assert 0.93 <= shares[estimator, "client"] <= 0.97
    assert shares[estimator, "row"] < 0.9


def test_with_few_effective_clients_the_bootstrap_comes_nearer():
    """40 clients, whose numbers of rows are lognormal, have eight effective ones on average."""
    generator, held = np.random.default_rng(0), []
    for _ in range(300):
        rows = _log(generator, np.maximum(1, 20 * generator.lognormal(-(1.8**2) / 2, 1.8, 40)).astype(int))
        totals = np.stack([Estimator(name).totals(rows) for name in ("ips", "snips")], axis=1)
        drawn = estimators.ratio(np.tensordot(generator.poisson(1, (300, len(totals))), totals, axes=1))
        by_delta = [interval(totals[:, which])[1:3] for which in (0, 1)]
        by_bootstrap = [estimators.percentiles(drawn[:, which]) for which in (0, 1)]
        held.append([[low <= _VALUE <= high for low, high in ends] for ends in (by_delta, by_bootstrap)])
    by_delta, by_bootstrap = np.mean(held, axis=0)
    print(by_delta, by_bootstrap)
    assert (by_delta < 0.88).all()
    assert ((by_bootstrap > 0.88) & (by_bootstrap < 0.95)).all()
