"""Estimators against numbers by hand, against loops over rows, and on Open Bandit's small sample."""

import math

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from bandits.evaluation import totals
from bandits.evaluation.estimators import KINDS, Estimator, Terms, terms_of_rows

# Two actions. Weights 0.5 / 0.25 = 2, 0.2 / 0.8 = 0.25, 1 / 0.5 = 2 and 0 / 0.5 = 0.
_TARGET = np.array([[0.5, 0.5], [0.8, 0.2], [0.0, 1.0], [1.0, 0.0]])
_PREDICTIONS = np.array([[1.0, 3.0], [0.0, 5.0], [7.0, 2.0], [4.0, 9.0]])
_TOY = terms_of_rows(
    np.array([0, 0, 1, 2]),
    np.array([0, 1, 1, 1]),
    np.array([3.0, 4.0, 1.0, 6.0]),
    np.array([0.25, 0.8, 0.5, 0.5]),
    _TARGET,
    _PREDICTIONS,
)


def _value(estimator, rows=_TOY):
    layout = totals.Layout((estimator,))
    return float(totals.value(totals.sums(rows, layout).totals, layout.ratio(estimator)))


def test_terms_by_hand():
    np.testing.assert_allclose(_TOY.weights, [2, 0.25, 2, 0])
    np.testing.assert_allclose(_TOY.direct, [2, 1, 2, 4])
    np.testing.assert_allclose(_TOY.predicted, [1, 5, 2, 9])


def test_the_logged_actions_probability_is_enough_without_a_model():
    rows = terms_of_rows(np.zeros(2), np.array([1, 0]), np.ones(2), np.array([0.5, 0.1]), np.array([0.25, 0.2]))
    np.testing.assert_allclose(rows.weights, [0.5, 2])
    np.testing.assert_array_equal(rows.direct, [0, 0])
    with pytest.raises(ValueError, match="probability of each action"):
        terms_of_rows(*rows[:1], np.array([1, 0]), np.ones(2), np.ones(2), np.ones(2), np.ones((2, 2)))


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (Estimator("logged"), (3 + 4 + 1 + 6) / 4),
        (Estimator("ips"), (2 * 3 + 0.25 * 4 + 2 * 1) / 4),
        (Estimator("snips"), (2 * 3 + 0.25 * 4 + 2 * 1) / 4.25),
        (Estimator("clipped_ips", 1.5), (1.5 * 3 + 0.25 * 4 + 1.5 * 1) / 4),
        (Estimator("dm"), (2 + 1 + 2 + 4) / 4),
        (Estimator("dr"), (9 + 2 * (3 - 1) + 0.25 * (4 - 5) + 2 * (1 - 2)) / 4),
        (Estimator("switch_dr", 0.25), (9 + 0.25 * (4 - 5)) / 4),  # A weight of exactly tau corrects.
        (Estimator("dros", 4.0), (9 + 1 * (3 - 1) + (1 / 4.0625) * (4 - 5) + 1 * (1 - 2)) / 4),
    ],
)
def test_values_by_hand(estimator, expected):
    assert _value(estimator) == pytest.approx(expected, rel=1e-12)


def test_the_ends_of_each_familys_path():
    assert _value(Estimator("clipped_ips")) == _value(Estimator("ips"))
    for family in ("switch_dr", "dros"):
        assert _value(Estimator(family)) == _value(Estimator("dr"))
    assert _value(Estimator("dros", 0.0)) == _value(Estimator("dm"))
    some = _TOY._replace(weights=_TOY.weights + 0.1)
    assert _value(Estimator("switch_dr", 0.0), some) == _value(Estimator("dm"), some)


@pytest.mark.parametrize("family", ["clipped_ips", "switch_dr", "dros"])
def test_parameters_below_zero_are_refused(family):
    with pytest.raises(ValueError, match="must be at least 0, got -1"):
        Estimator(family, -1.0)
    with pytest.raises(ValueError, match="must be at least 0, got nan"):
        Estimator(family, math.nan)


def test_tensors_give_the_same_numbers():
    tensors = Terms(*map(tf.constant, _TOY))
    parameters = (1.5, 0.25, 4.0, math.inf)
    ends = [Estimator(name, one) for name, kind in KINDS.items() if kind.parameter for one in parameters]
    layout = totals.Layout((*[Estimator(name) for name, kind in KINDS.items() if not kind.parameter], *ends))
    for ours, theirs in zip(layout.columns(_TOY), layout.columns(tensors, tf), strict=True):
        assert theirs.dtype == tf.float64
        np.testing.assert_allclose(theirs, ours, rtol=1e-12)


_USER = [f"user_feature_{number}" for number in range(4)]


@pytest.fixture(scope="module")
def open_bandit(shared_data):
    """The logs of BTS and of a random policy, a client a combination of users' features; 80 items, three positions."""
    logs = {}
    for name in ("bts", "random"):
        frame = pd.read_csv(shared_data / "open_bandit" / f"{name}_all.csv.gz")
        frame["client"] = frame.groupby(_USER).ngroup()
        logs[name] = frame.sort_values("client", kind="stable")
    return logs


def _of_frame(frame, target):
    columns = (frame[name].to_numpy() for name in ("client", "item_id", "click", "propensity_score"))
    return terms_of_rows(*columns, target)


@pytest.mark.parametrize(
    ("log", "clicks", "clients", "expected"),
    [
        ("bts", 42, 253, (0.00235964, 0.00233371, 340.38, 1.01111, 277.778)),
        ("random", 38, 240, (0.00503537, 0.00525307, 2638.87, 0.958557, 9.62315)),
    ],
)
def test_open_bandits_small_sample(open_bandit, log, clicks, clients, expected):
    frame = open_bandit[log]
    assert (len(frame), frame.click.sum(), frame.client.nunique()) == (10_000, clicks, clients)
    target = np.full(len(frame), 1 / 80)
    if log == "random":  # The BTS log's frequencies of an item given its position.
        shares = pd.crosstab(open_bandit["bts"].position, open_bandit["bts"].item_id, normalize="index")
        shares = shares.reindex(columns=range(80), fill_value=0.0)
        target = shares.to_numpy()[frame.position.to_numpy() - 1, frame.item_id]
    rows = _of_frame(frame, target)
    overlap = totals.overlap(totals.sums(rows, totals.Layout(())))
    found = (
        _value(Estimator("ips"), rows),
        _value(Estimator("snips"), rows),
        overlap.effective_sample_size,
        overlap.mean_weight,
        rows.weights.max(),
    )
    assert found == pytest.approx(expected, rel=5e-6)
