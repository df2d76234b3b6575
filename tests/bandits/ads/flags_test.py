"""Tests of bandits.ads.flags."""

import pytest

from bandits.ads import flags
from bandits.ads.run_ads import STUDY
from data.errors import UsageError
from optimization.study import frame


def _options(*arguments: str):
    return flags.options(STUDY.resolve(frame.flag_set(STUDY).parse(["run_ads", "--rates=0.1,0.2", *arguments])))


def test_noise_makes_the_mean_of_clipped_changes_private():
    plain, noisy = _options(), _options("--clip_norm=0.5", "--noise_multiplier=2", "--seed=3")
    assert (plain.aggregation.kind, plain.aggregation.client_weighting) == ("mean", "num_examples")
    assert (noisy.aggregation.kind, noisy.aggregation.client_weighting) == ("dpsgd", "uniform")
    assert (noisy.aggregation.clip_norm, noisy.aggregation.noise_multiplier) == (0.5, 2.0)
    assert noisy.aggregation.noise_seed is None
    assert plain.rates == (0.1, 0.2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--noise_multiplier=1",), "--noise_multiplier needs --clip_norm"),
        (("--clip_norm=1", "--client_weighting=exploration"), "leave out --client_weighting"),
        (("--local_pulls=5", "--pulls_per_impression=2"), "--local_pulls must be a multiple"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        _options(*arguments)
