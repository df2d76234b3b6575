"""Tests of optimization.study.curves."""

import math

import matplotlib.figure
import numpy as np
import pandas as pd
import pytest

from optimization.study import curves
from optimization.study.metrics import Metric

SCORE = Metric("score", "a score", deployed=True)


def _table(scores, deployed=()):
    rounds = range(1, len(scores) + 1)
    return pd.DataFrame({"round_num": rounds, "score": scores, "deployed": [int(one in deployed) for one in rounds]})


def test_a_mean_over_rounds_ends_in_its_round():
    assert curves.smoothed(_table([1.0, 3.0, 5.0, 7.0]), "score", 3).tolist() == [1.0, 2.0, 3.0, 5.0]


def test_no_mean_reaches_across_a_deployment():
    table = _table([1.0, 3.0, 11.0, 13.0], deployed=[2])
    assert curves.smoothed(table, "score", 2, "deployed").tolist() == [1.0, 2.0, 11.0, 12.0]


def test_windows_longer_than_the_rounds_between_deployments_reach_across_them():
    table = _table([1.0, 3.0, 11.0, 13.0], deployed=[1, 2, 3, 4])
    assert curves.smoothed(table, "score", 2, "deployed").tolist() == [1.0, 2.0, 7.0, 12.0]


def test_rounds_without_a_value_get_none():
    found = curves.smoothed(_table([math.nan, 3.0, math.nan, math.inf, 5.0]), "score", 4)
    np.testing.assert_array_equal(found, [math.nan, 3.0, math.nan, math.nan, 4.0])


@pytest.mark.parametrize(("kind", "half"), [("minmax", 1.0), ("sd", 1.0), ("ci", 4.302652729911275 / math.sqrt(3))])
def test_a_band_of_three_seeds_is(kind, half):
    found = curves.band([_table([value]) for value in (1.0, 2.0, 3.0)], "score", kind=kind)
    np.testing.assert_allclose(found, [[2.0, 2.0 - half, 2.0 + half]], rtol=1e-12)


def test_a_single_seed_has_no_interval():
    found = curves.band([_table([1.0])], "score", kind="ci")
    assert found["mean"].tolist() == [1.0]
    assert found[["low", "high"]].isna().all(axis=None)


@pytest.mark.parametrize(("column", "style"), [(SCORE, "steps-pre"), ("score", "default")])
def test_what_is_deployed_is_drawn_in_steps_that_rise_at_the_deployment(column, style):
    axes = matplotlib.figure.Figure().subplots()
    curves.draw(
        axes,
        [_table([1.0, 1.0, 5.0, 5.0], deployed=[2])] * 2,
        column,
        "label",
        curves.STYLES["softmax"],
        2,
        "minmax",
        "deployed",
    )
    (line,) = axes.lines
    assert line.get_drawstyle() == style
    if style == "steps-pre":  # At the end of round 2, with the deployment, and over all of round 3.
        assert line.get_xydata()[:2].tolist() == [[0.0, 1.0], [1.0, 1.0]]  # The first round is from 0 to 1.
        assert line.get_ydata().tolist() == [1.0, 1.0, 1.0, 5.0, 5.0]
        assert [2.0, 5.0] in line.get_path().vertices.tolist()


def test_rounds_are_drawn_at_their_places_and_the_first_from_0():
    axes = matplotlib.figure.Figure().subplots()
    places = pd.Series([0.5, 1.25], index=[1, 2])
    curves.draw(axes, [_table([1.0, 2.0])], SCORE, "label", curves.PLAIN, places=places)
    assert axes.lines[0].get_xydata().tolist() == [[0.0, 1.0], [0.5, 1.0], [1.25, 2.0]]


def test_a_strategy_has_one_style_in_all_pictures():
    softmax, epsilon, greedy = curves.styles(["digits_softmax", "epsilon-Greedy, every 50", "Greedy (stale)"])
    assert curves.styles(["greedy", "softmax"]) == [greedy, softmax]
    assert epsilon == curves.STYLES["epsilon_greedy"]


def test_curves_of_one_picture_differ():
    names = ["softmax, every 5", "softmax, every 50", "greedy", "other", "more"]
    looks = curves.styles(names)
    assert len(set(looks)) == len(names)
    assert looks[0].colour == looks[1].colour
    assert {look.colour for look in looks[3:]}.isdisjoint({look.colour for look in looks[:3]})
    alone = curves.styles(["softmax, 1", "softmax, 2", "softmax, 3"])  # Of one strategy, colours tell them apart.
    assert len({look.colour for look in alone}) == 3


def test_a_band_of_shares_stays_inside_their_bounds():
    share = Metric("score", "a share", share=True)
    found = curves.band([_table([value]) for value in (0.9, 1.0, 0.95)], share)
    assert found["high"].tolist() == [1.0]


def test_an_axis_shows_bands_no_further_than_the_span_of_the_means():
    wide = pd.DataFrame({"mean": [0.2, 0.4], "low": [-9.0, 0.3], "high": [9.0, 0.5]})
    assert curves.limits([wide]) == pytest.approx((0.0 - 0.03, 0.6 + 0.03))
    narrow = pd.DataFrame({"mean": [0.2, 0.4], "low": [0.1, 0.3], "high": [0.3, 0.5]})
    assert curves.limits([narrow]) == pytest.approx((0.1 - 0.02, 0.5 + 0.02))
    alone = pd.DataFrame({"mean": [2.0], "low": [math.nan], "high": [math.nan]})
    assert curves.limits([alone]) == pytest.approx((1.8, 2.2))
