"""How often intervals hold the value: 1,000 logs of 250 clients, whose own rows depend on each other."""

import numpy as np
import pytest

from bandits.evaluation.estimators import Estimator, interval
from tests.bandits.evaluation.tables_of_logs import terms_of_rows

_LOGS, _CLIENTS, _ACTIONS = 1000, 250, 4
_ESTIMATORS = (*map(Estimator, ("logged", "ips", "snips", "dr")), Estimator("switch_dr", 10.0))
# Each client has a leaning towards an action, of which rewards, the logging policy and the target's follow.
_MEANS = np.array([[0.7, 0.3, 0.3, 0.2], [0.2, 0.6, 0.3, 0.2], [0.1, 0.2, 0.5, 0.4]])  # [leaning, action]
_LOGGING = np.array([[0.4, 0.2, 0.2, 0.2], [0.2, 0.3, 0.3, 0.2], [0.3, 0.3, 0.2, 0.2]])
_TARGET = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.6, 0.2]])
_SPREAD = 0.25  # Of what a client adds to all its rewards.


def _log(generator, predictions):
    clients = np.repeat(np.arange(_CLIENTS, dtype=np.int32), 3 + generator.integers(15, size=_CLIENTS))
    leanings = generator.integers(3, size=_CLIENTS)[clients]
    added = generator.normal(0, _SPREAD, size=_CLIENTS)[clients]
    actions = (generator.random(len(clients))[:, None] > np.cumsum(_LOGGING[leanings], axis=1)).sum(axis=1)
    actions = np.minimum(actions, _ACTIONS - 1)
    rewards = _MEANS[leanings, actions] + added + generator.normal(0, 0.2, len(clients))
    return terms_of_rows(
        clients, actions, rewards, _LOGGING[leanings, actions], _TARGET[leanings], predictions[leanings]
    )


@pytest.mark.slow
def test_clients_intervals_hold_the_value_as_often_as_they_say_and_those_of_rows_do_not():
    generator = np.random.default_rng(8)
    truths = {estimator: (_MEANS * _TARGET).sum(axis=1).mean() for estimator in _ESTIMATORS}
    truths[Estimator("logged")] = (_MEANS * _LOGGING).sum(axis=1).mean()
    held = {(estimator, level): 0 for estimator in _ESTIMATORS for level in ("client", "row")}
    for _ in range(_LOGS):
        rows = _log(generator, np.full((3, _ACTIONS), 0.3))
        units = {"client": rows.clients, "row": np.arange(len(rows.clients))}
        for level, unit in units.items():
            for estimator in _ESTIMATORS:
                found = interval(estimator.totals(rows._replace(clients=unit)))
                held[estimator, level] += found.low <= truths[estimator] <= found.high
    for estimator in _ESTIMATORS:
        assert 0.93 <= held[estimator, "client"] / _LOGS <= 0.97, estimator
        assert held[estimator, "row"] / _LOGS < 0.9, estimator
