"""Tests of bandits.results.phrases."""

import math
import pathlib

from bandits.results import comparison, phrases
from optimization.study.intervals import Interval
from tests.bandits.results.tables import REWARD, configuration

GREEDY = configuration("greedy", [0.50, 0.52, 0.48, 0.55, 0.51, 0.49])
SOFTMAX = [0.58, 0.57, 0.57, 0.61, 0.60, 0.52]


def test_the_test_is_named():
    falcon = configuration("falcon", SOFTMAX, unpaired=True)
    pairs = [(configuration("softmax", SOFTMAX), GREEDY), (falcon, GREEDY)]
    assert phrases.family(comparison.compare(pairs, REWARD)) == (
        "Significant: p below 5% by a paired t test and Welch's for configurations with unseeded noise or cohorts, "
        "adjusted by Holm for 2 configurations."
    )
    assert phrases.family(comparison.compare([(configuration("one", [0.6]), GREEDY)], REWARD)) == ""


def test_an_estimate_has_the_decimals_of_its_interval_if_there_is_one_and_is_never_minus_zero():
    assert {phrases.estimate(Interval(0.123456, 0.5, high, 2)) for high in (0.5, math.nan, math.inf)} == {"0.123"}
    assert phrases.estimate(Interval(0.35949, 0.341, 0.378, 8)) == "0.359 (95% CI 0.341 to 0.378)"
    assert phrases.estimate(Interval(-0.0004, -0.1, 0.1, 8), signed=True) == "+0.00 (95% CI -0.10 to +0.10)"


def test_a_configuration_with_a_users_policy_is_named_after_it():
    policy = "my_rules:Tempered(0.1) 0123456789abcdef"
    kinds = (("softmax", policy), ("softmax_ce", policy), ("softmax", None))
    flags = [{"bandits_type": bandit, "policy": own} for bandit, own in kinds]
    owners = [pathlib.Path("runs", name) for name in "abc"]
    names = phrases.configuration_names(flags, owners, (), "bandits_type")
    assert names == ["Tempered(0.1)", "Tempered(0.1), cross entropy", "softmax"]
