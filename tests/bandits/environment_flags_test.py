"""Tests of bandits.environment_flags: what flags of changing environments mean, and what is refused."""

import dataclasses
import operator

import pytest

from bandits import environment_flags, resets
from bandits.environments import NO_DELAY, NO_DRIFT, Delay, Drift
from data.errors import UsageError
from optimization.selection.availability import ALWAYS, Availability
from tests.bandits.whole_runs import options_of, resolve


def _drift(*arguments):
    return options_of(*arguments).drift


def test_without_them_nothing_changes_and_nothing_is_recorded():
    for arguments in ((), ("--reward_drift=none", "--reward_delay=none", "--availability=always")):
        settings, chosen = resolve(*arguments), options_of(*arguments)
        assert {settings[name] for name in environment_flags.NAMES} == {None, "scratch"}
        assert (chosen.drift, chosen.delay, chosen.cohorts.availability) == (NO_DRIFT, NO_DELAY, ALWAYS)


def test_the_scenario_is_a_change_in_the_middle():
    options = options_of("--scenario=drift", "--total_rounds=30")
    assert (options.drift, options.initial) == (Drift("abrupt", start=16, environments=2), None)
    assert _drift("--scenario=drift", "--reward_drift=linear", "--total_rounds=40") == Drift(
        "linear", start=21, rounds=10, environments=2
    )


@pytest.mark.parametrize(
    ("option", "arguments", "expected"),
    [
        # Changes in rounds 11, 13, 15, 17, 19.
        ("drift", "--reward_drift=abrupt --drift_every=2", Drift("abrupt", start=11, every=2, environments=6)),
        # The last in round 20.
        ("drift", "--reward_drift=abrupt --drift_start=14 --drift_every=3", Drift("abrupt", 14, 3, environments=4)),
        ("drift", "--reward_drift=abrupt --drift_start=50 --drift_every=3", Drift("abrupt", 50, 3, environments=2)),
        (
            "drift",
            "--reward_drift=client --drift_rounds=7 --environment_seed=5",
            Drift("client", 11, 0, 7, environments=2, seed=5),
        ),
        (
            "drift",
            "--reward_drift=seasonal --drift_overlap=0.5",
            Drift("seasonal", period=10, overlap=0.5, environments=2),
        ),
        ("delay", "--cache=persistent --reward_delay=uniform --bandits_deploy_freq=9", Delay("uniform", 4)),
        (
            "delay",
            "--cache=persistent --reward_delay=geometric --delay_rounds=1.5 --delay_never=0.1",
            Delay("geometric", 1.5, 0.1),
        ),
        ("cohorts.availability", "--drop_out=0", ALWAYS),
        ("cohorts.availability", "--availability=diurnal", Availability("diurnal", day=24, time_zones=4)),
        (
            "cohorts.availability",
            "--availability=diurnal --time_zones_by_label --environment_seed=3 --drop_out=0.9",
            Availability("diurnal", 24, 4, by_labels=True, drop_out=0.9, seed=3),
        ),
        ("reset", "--reset=model", resets.Reset("model", "page_hinkley", warmup=10, threshold=0.5)),
        (
            "reset",
            "--reset=optimizer --reset_when=adwin --reset_warmup=4",
            resets.Reset("optimizer", "adwin", warmup=4),
        ),
        ("reset", "--reset=model --reset_when=window --reset_window=19", resets.Reset("model", "window", window=19)),
    ],
)
def test_flags_become_options(option, arguments, expected):
    assert operator.attrgetter(option)(options_of("--total_rounds=20", *arguments.split())) == expected


@pytest.mark.parametrize("drift_flags", [(), ("--drift_every=2",)])
def test_a_run_can_stay_in_one_environment_of_a_drift(drift_flags):
    changes = ("--reward_drift=abrupt", "--total_rounds=20", *drift_flags)
    chosen, last = _drift(*changes), _drift(*changes).environments - 1
    assert _drift(*changes, f"--drift_environment={last}") == dataclasses.replace(chosen, only=last)
    with pytest.raises(UsageError, match=f"^--drift_environment={last + 1} .* 0 to {last}.$"):
        _drift(*changes, f"--drift_environment={last + 1}")


def test_environments_are_at_most_ten():
    abrupt = ("--reward_drift=abrupt", "--total_rounds=20", "--drift_start=3")
    assert _drift(*abrupt, "--drift_every=2").environments == 10
    with pytest.raises(UsageError, match="--drift_every=1 makes 19 environments"):
        _drift(*abrupt, "--drift_every=1")
