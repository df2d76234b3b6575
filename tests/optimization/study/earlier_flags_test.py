"""Tests of optimization.study.earlier_flags."""

import pytest

from optimization.study import earlier_flags


@pytest.mark.parametrize("flag", ["algorithm", "model_aggregation"])
def test_an_earlier_runs_algorithms_have_todays_names(flag):
    assert earlier_flags.in_todays_words({flag: "sgld"})[flag] == "client_sgld"
    assert earlier_flags.in_todays_words({flag: "fedkp"}) == {flag: "fedkp", "mean_shift_weights": "profile"}
    assert earlier_flags.in_todays_words({flag: "fedavg", "rate": 1}) == {flag: "fedavg", "rate": 1}


def test_what_todays_program_has_written_stays():
    for name in ("sgld", "fedkp"):
        flags = {"algorithm": name, "mean_shift_weights": None}
        assert earlier_flags.in_todays_words(flags) == flags
