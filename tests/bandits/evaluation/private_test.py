"""Private values: noise against what is accounted, what looks cost, and how often intervals hold the value."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from bandits.evaluation import bounds, private, private_sums
from bandits.evaluation.estimators import Estimator, interval
from data.errors import UsageError
from optimization.privacy.ledger import Spent
from optimization.privacy.mechanisms import Mechanism
from tests.bandits.evaluation.tables_of_logs import terms_of_rows, weighted

_BOUNDS = bounds.Bounds(3.0, 8)
_QUERY = private_sums.Query(_BOUNDS)
_MODEL = Mechanism("dpsgd", 1.0, 1000, 50, "poisson")
_MEANS = np.array([[0.8, 0.2], [0.3, 0.6], [0.5, 0.1]])  # [leaning, action]
_TARGET = np.array([0.3, 0.7, 0.6])  # Probability of action 1, by leaning.
_LOGGING = 0.4
_VALUE = float((_MEANS[:, 0] * (1 - _TARGET) + _MEANS[:, 1] * _TARGET).mean())


def _log(generator, clients):
    """Rows of clients of one leaning each; weights are at most 1.75."""
    sizes = generator.integers(1, 9, clients)
    leanings = np.repeat(generator.integers(3, size=clients), sizes)
    names = np.repeat(np.arange(clients, dtype=np.int32), sizes)
    actions = (generator.random(len(names)) < _LOGGING).astype(int)
    rewards = (generator.random(len(names)) < _MEANS[leanings, actions]).astype(float)
    target = np.stack([1 - _TARGET[leanings], _TARGET[leanings]], axis=1)
    return terms_of_rows(names, actions, rewards, np.where(actions, _LOGGING, 1 - _LOGGING), target)


def _values(rows, query, own, gauss=None):
    vectors = query.vectors(rows, np.ones(len(rows.rewards)))
    return private_sums.values(private_sums.release(vectors, query, own, gauss), query, own).values


@pytest.fixture(scope="module")
def rows():
    return _log(np.random.default_rng(0), 3000)


def test_without_noise_and_clipping_intervals_are_wider_only_by_what_weights_leave_open(rows):
    """Intervals of 97.5%, moved by 1 less the lower end of the mean weight's two-sided 95% interval."""
    query = dataclasses.replace(_QUERY, clip_norm=math.sqrt(private_sums.SIZE))
    own = private.mechanism(3000, 0.0)
    sizes = np.bincount(rows.clients)
    mean = rows.weights.mean()
    residuals = (np.bincount(rows.clients, rows.weights) - mean * sizes) / sizes.mean()
    quantile = scipy.stats.t(2999).ppf([0.975, 0.9875])
    lost = 1 - (mean - quantile[0] * residuals.std(ddof=1) / math.sqrt(3000))
    for found in _values(rows, query, own):
        expected = interval(Estimator(found.name).totals(rows))
        half = (expected.high - expected.mean) * quantile[1] / quantile[0]
        low, high = expected.mean - half, expected.mean + half
        down, up = {"ips": (0, lost), "snips": (lost * low, lost * (1 - high))}[found.name]
        assert found.interval.mean == pytest.approx(expected.mean, rel=1e-9)
        assert found.interval[1:3] == pytest.approx((low - down, high + up), rel=1e-6)
        assert found.bias[1] - found.bias[0] == pytest.approx(max(0, 1 - rows.weights.mean()), abs=1e-12)
        assert found.noise == 0


def test_noise_has_the_deviation_that_is_accounted():
    own = private.mechanism(3000, 0.7)
    noises = np.array([private_sums.release(np.zeros((2, private_sums.SIZE)), _QUERY, own) for _ in range(3000)])
    assert len(np.unique(noises)) == noises.size
    low, high = scipy.stats.chi2(noises.size).ppf([5e-5, 1 - 5e-5])
    assert low < np.square(noises / (0.7 * _QUERY.norm)).sum() < high
    assert scipy.stats.kstest(noises.ravel() / (0.7 * _QUERY.norm), "norm").pvalue > 1e-4
    assert np.abs(np.corrcoef(noises.T) - np.eye(private_sums.SIZE)).max() < 0.1

    # And epsilon is that of Gaussian noise of so many norms (Balle and Wang 2018, Theorem 8).
    def excess(epsilon):
        low, high = scipy.stats.norm.cdf([-0.5 / 0.7 - epsilon * 0.7, 0.5 / 0.7 - epsilon * 0.7])
        return high - math.exp(epsilon) * low - 1e-5

    exact = scipy.optimize.brentq(excess, 0, 99)
    guarantees = dataclasses.replace(own, delta=1e-5).report(1)["guarantees"]
    assert guarantees[0]["neighbours"] == "one client's contributions set to zero"
    assert exact <= guarantees[0]["epsilon_pld"] <= 1.002 * exact
    assert guarantees[1]["neighbours"] == "one client replaced"
    assert guarantees[1]["epsilon_pld"] > 2 * exact


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "largest"), [(0.05, 3.0), (1.0, 3.0), (0.05, 1.05), (0.0, 1.05), (1.0, 1.05)])
def test_intervals_hold_the_value_at_least_as_often_as_they_say(noise, largest):
    generator, clients = np.random.default_rng(3), 600
    own, limits = private.mechanism(clients, noise), bounds.Bounds(largest, 8)
    query = dataclasses.replace(_QUERY, bounds=limits)
    held = dict.fromkeys(private_sums.RATIOS, 0)
    widths = []
    for _ in range(200):
        rows, _ = bounds.apply(_log(generator, clients), limits, list(map(str, range(clients))), 0)
        for found in _values(rows, query, own, generator.normal):
            held[found.name] += found.interval.low <= _VALUE <= found.interval.high
            widths.append(found.interval.high - found.interval.low)
    assert min(held.values()) / 200 >= 0.95
    assert np.mean(widths) < (0.7 if noise == 1 else 0.2 if largest == 3 else 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3, 0.47, 1.0])
@pytest.mark.parametrize(("events", "is_mirrored"), [(0, False), (1, False), (1, True), (5, False), (15, True)])
def test_intervals_hold_the_value_with_few_events(noise, events, is_mirrored):
    """200 logs of 400 clients, of whom so many are expected to have rewards of 1, the others of 0, or the reverse."""
    generator, clients, rows = np.random.default_rng(7), 400, 3
    query = private_sums.Query(bounds.Bounds(2.0, rows), None if noise else 100.0)
    own, held, is_finite = private.mechanism(clients, noise), dict.fromkeys(private_sums.RATIOS, 0), []
    names = np.repeat(np.arange(clients, dtype=np.int32), rows)
    for _ in range(200):
        rewards = np.abs(is_mirrored - (generator.random(clients) < events / clients).astype(float))[names]
        weights = np.where(generator.random(len(names)) < 0.5, 1.5, 0.5)
        log = weighted(names, weights, rewards)
        for found in _values(log, query, own, generator.normal):
            held[found.name] += found.interval.low <= abs(is_mirrored - events / clients) <= found.interval.high
            is_finite.append(found.is_finite_sample)
    assert min(held.values()) / 200 >= 0.93
    # Noise of several times what a client can add makes the sum normal, whatever the number of events.
    assert np.mean(is_finite) == (0 if noise * query.norm > 1.25 else 1 if events < 5 else pytest.approx(0.5, abs=0.5))


def test_propensities_that_are_too_small_leave_no_conclusion(rows):
    own, few = private.mechanism(3000, 0.5), rows._replace(weights=0.7 * rows.weights)
    many = rows._replace(weights=1.5 * rows.weights)
    for log, uniform, is_wrong in ((rows, 1.0, [0, 0]), (few, 0.8, [0, 0]), (many, 1.0, [1, 0]), (rows, 1.3, [0, 1])):
        vectors = _QUERY.vectors(log, np.full(len(log.rewards), uniform))
        answer = private_sums.values(private_sums.release(vectors, _QUERY, own), _QUERY, own)
        findings = private.checks(answer)
        assert [finding.is_warning for finding in findings] == is_wrong
        assert ["impossible or rare" in finding.text for finding in findings] == [uniform < 1] * 2


def test_noise_that_drowns_the_rows_leaves_nothing(rows):
    own = private.mechanism(3000, 1e6)
    found = [one for _ in range(20) for one in _values(rows, _QUERY, own)]
    assert np.mean([one.is_vacuous for one in found]) > 0.8


def test_looks_add_up_and_each_model_counts_once(tmp_path):
    ledger_file, own, model = tmp_path / "ledger", private.mechanism(1000, 5.0), Spent("a model", _MODEL, 10)
    paid = [private.pay(ledger_file, own, models) for models in ([], [model], [model])]
    assert [one["looks"] for one in paid] == [1, 2, 3]
    assert paid[2]["models"] == ["a model"]
    spent = [one["epsilon"] for one in paid]
    assert spent[0] == pytest.approx(own.epsilon(1))
    with_model = dataclasses.replace(own, pretraining=_MODEL, pretraining_rounds=10)
    assert spent[2] == pytest.approx(with_model.epsilon(3), rel=1e-9)
    assert spent[0] < spent[1] < spent[2]


def test_noise_is_calibrated_with_what_models_spend():
    own = private.calibrated(private.mechanism(1000, 1.0), 1, 3.0, [Spent("model", _MODEL, 10)])
    assert own.noise_multiplier > private.calibrated(private.mechanism(1000, 1.0), 1, 3.0).noise_multiplier
    whole = dataclasses.replace(own, pretraining=_MODEL, pretraining_rounds=10)
    assert 2.99 < whole.epsilon(1) <= 3.0
    with pytest.raises(UsageError, match="--target_epsilon"):
        private.calibrated(private.mechanism(1000, 1.0), 1, 0.01, [Spent("model", _MODEL, 10)])
