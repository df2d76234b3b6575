"""Flags of private and anytime values: what is refused, and what is said."""

import json
import pathlib

import numpy as np
import pytest

from bandits.evaluation import bound_flags, bounds, confidence_sequence, estimators, terms
from data.errors import UsageError
from data.reward_bounds import UNIT
from scripts import evaluate_policy

_PRIVATE = ("--private", "--largest_weight=4", "--max_rows_per_client=5", "--noise_multiplier=0.5")


def _settings(*arguments):
    return evaluate_policy.define().parse(["evaluate_policy", *arguments]).settled()


def test_flags_that_go_together_mean_bounds_and_a_ledger_beside_the_log():
    bound_flags.check(_settings())
    settings = _settings(*_PRIVATE, "--target_delta=1e-4", "--log=a/log.csv")
    bound_flags.check(settings)
    assert bound_flags.bounds(settings) == bounds.Bounds(4.0, 5)
    assert bound_flags.ledger_path(settings) == pathlib.Path(settings.log + ".privacy.jsonl")


def _log(clients=400):
    generator = np.random.default_rng(0)
    names = np.repeat(np.arange(clients, dtype=np.int32), 7)
    rewards = (generator.random(len(names)) < 0.4).astype(float)
    zeros = np.zeros(len(names))
    return {
        name: terms.Terms(names, generator.choice([0.5, 1.5], len(names)), rewards, zeros, zeros) for name in ("a", "b")
    }, [f"client {number}" for number in range(clients)]


def test_a_look_is_paid_and_remembered(tmp_path):
    settings = _settings(*_PRIVATE, f"--log={tmp_path}/log.csv")
    asked, ledger = [estimators.Ips(), estimators.Snips()], tmp_path / "log.csv.privacy.jsonl"
    for look in (1, 2):
        values, report = bound_flags.private_values(settings, _log()[0], asked, _log()[1])
        assert len(ledger.read_text().splitlines()) == report["looks"] == look
    found = [(one.candidate, one.estimator.name) for one in values]
    assert found == [("a", "ips"), ("a", "snips"), ("b", "ips"), ("b", "snips")]
    assert all(abs(one.interval.mean - 0.4) < 0.1 for one in values)
    assert report["delta"] == pytest.approx(400**-1.1)
    json.dumps(report)
    assert len(bound_flags.private_sentences(values, report, bounds.Bounds(4.0, 5))) >= 1 + len(values) + 3


def test_a_larger_sample_than_there_are_clients_is_refused(tmp_path):
    settings = _settings(*_PRIVATE, "--clients_per_look=500", f"--log={tmp_path}/log.csv")
    with pytest.raises(UsageError, match="--clients_per_look=500"):
        bound_flags.private_values(settings, _log()[0], [estimators.Ips()], _log()[1])
    assert not list(tmp_path.iterdir())


def _sequence(low, high):
    one = np.array([5])
    return confidence_sequence.ConfidenceSequence(one, np.array([0.5]), np.array([low]), np.array([high]))


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.3, 0.6, "Anytime: 0.3 to 0.6 after 1 rounds"),
        (0.0, 0.99, "the interval covers nearly all of"),
        (0.7, 0.2, "no value is possible"),
    ],
)
def test_a_sequence_is_reported(low, high, words):
    assert words in " ".join(bound_flags.anytime_sentences(_sequence(low, high), bounds.Bounds(4.0, 5), UNIT))
