"""Tests of bandits.results.dynamic_regret: sums by hand."""

import dataclasses
import math
import pathlib
import shlex

import numpy as np
import pandas as pd
import pytest

from bandits import metrics, run_federated, studies
from bandits.results import configurations, dynamic_regret, runs
from bandits.results.dynamic_regret import Segment, World
from bandits.worlds.drift import Drift
from optimization.study import frame
from optimization.study.results import Run

REWARD = "reward"
ABRUPT = World(Drift("abrupt", start=3, worlds=2), lambda rounds: rounds)


def _runs(*rewards):
    """Returns a run a seed, of these rewards a round."""
    return [
        Run(pathlib.Path(), pd.DataFrame({"round_num": range(1, len(some) + 1), REWARD: some}), {"seed": seed}, "", {})
        for seed, some in enumerate(rewards)
    ]


def _regret(rewards, ceilings, world=ABRUPT, **how):
    return dynamic_regret.of_arm(_runs(*rewards), REWARD, world, ceilings, **how)


def test_each_round_is_compared_with_the_ceiling_of_its_own_world():
    # 0.875 twice, then 0.625 three times, less 0.5, 0.75, 0.125, 0.25 and 0.625.
    found = _regret([[0.5, 0.75, 0.125, 0.25, 0.625]], {0: {0: 0.875}, 1: {0: 0.625}})
    assert found.total.mean == pytest.approx(0.375 + 0.125 + 0.5 + 0.375 + 0.0, abs=1e-12)
    assert (found.rounds, found.a_round.mean, found.a_round.size) == (5, pytest.approx(0.275), 1)
    assert math.isnan(found.total.low)  # One seed has no interval.
    told = [(segment, mean.mean, end.mean) for segment, mean, end in found.segments]
    assert told == [(Segment(1, 2, (0,)), 0.25, 0.125), (Segment(3, 5, (1,)), pytest.approx(0.875 / 3), 0.0)]


def test_the_interval_is_students_of_paired_differences():
    # Regrets of a round, by seed: 0.25 and 0.5, whose mean is 0.375 and deviation 0.125 * 2 ** 0.5.
    found = _regret([[0.5, 0.5, 0.25], [0.25, 0.25, 0.25]], {0: {0: 0.75, 1: 0.75}, 1: {0: 0.5, 1: 0.75}})
    assert found.a_round == pytest.approx((0.375, 0.375 - 12.7062 * 0.125, 0.375 + 12.7062 * 0.125, 2), abs=1e-4)
    assert found.total == pytest.approx((1.125, *(3 * end for end in found.a_round[1:3]), 2))


def test_without_pairs_it_is_welchs():
    from scipy import stats

    rewards, best = [[0.5, 0.25, 0.5], [0.25, 0.5, 0.0], [0.75, 0.5, 0.25]], {4: 0.75, 5: 1.0}
    found = _regret(rewards, {0: best, 1: best}, is_unpaired=True)
    own = np.mean(rewards, axis=1)
    first, second = np.var([0.75, 1.0], ddof=1) / 2, np.var(own, ddof=1) / 3
    freedom = (first + second) ** 2 / (first**2 / 1 + second**2 / 2)
    expected = stats.t.interval(0.95, freedom, 0.875 - own.mean(), (first + second) ** 0.5)
    assert found.a_round == pytest.approx((0.875 - own.mean(), *expected, 2))


def test_between_worlds_the_mixture_of_their_ceilings_counts():
    linear = World(Drift("linear", start=2, rounds=4, worlds=2), lambda rounds: rounds)
    found = _regret([[0.5] * 6], {0: {0: 1.0}, 1: {0: 0.5}}, linear)
    # Ceilings 1, 0.875, 0.75, 0.625, 0.5, 0.5.
    assert found.total.mean == pytest.approx(0.5 + 0.375 + 0.25 + 0.125)
    assert [segment for segment, *_ in found.segments] == [
        Segment(1, 1, (0,)),
        Segment(2, 4, (0, 1)),
        Segment(5, 6, (1,)),
    ]
    assert found.segments[1][1].mean == pytest.approx(0.25)


def test_a_world_that_comes_back_is_a_segment_anew():
    seasons = World(Drift("seasonal", period=4, worlds=2), lambda rounds: rounds)
    assert list(seasons.segments(7)) == [
        Segment(1, 2, (0,)),
        Segment(3, 4, (1,)),
        Segment(5, 6, (0,)),
        Segment(7, 7, (1,)),
    ]
    assert (seasons.needed(2), seasons.needed(7)) == ([0], [0, 1])


def test_rewards_of_a_kept_cache_are_of_the_world_in_which_clients_acted():
    kept = World(Drift("abrupt", start=3, worlds=2), lambda rounds: rounds - (rounds - 1) % 4)
    found = _regret([[0.0] * 6], {0: {0: 1.0}, 1: {0: 0.5}}, kept)
    assert [segment for segment, *_ in found.segments] == [Segment(1, 4, (0,)), Segment(5, 6, (1,))]
    assert found.total.mean == 5.0


def test_a_round_without_a_reward_counts_as_the_mean_of_the_others():
    found = _regret([[0.5, math.nan, 0.5, 0.25]], {0: {0: 1.0}, 1: {0: 0.5}})
    assert found.a_round.mean == pytest.approx((0.5 + 0.0 + 0.25) / 3)
    assert found.total.mean == pytest.approx(0.75 / 3 * 4)


def test_only_rounds_that_all_seeds_have_played_count():
    best = {0: 1.0, 1: 1.0}
    found = _regret([[0.5, 0.5, 0.0], [0.5, 0.5]], {0: best, 1: best})
    assert (found.rounds, found.total.mean) == (2, 1.0)


def test_it_can_be_negative_and_less_can_be_better():
    assert _regret([[0.75, 0.75]], {0: {0: 0.5}}).total.mean == -0.5
    assert _regret([[0.75, 0.75]], {0: {0: 0.5}}, better="down").total.mean == 0.5


def test_nothing_is_told_where_no_seed_is_common_or_all_diverged():
    assert _regret([[0.5, 0.5]], {0: {3: 1.0}}) is None
    assert _regret([[math.nan, math.nan]], {0: {0: 1.0}}) is None
    assert _regret([[0.5, 0.5]], {0: {0: math.nan}}) is None


DRIFT = ("--scenario=drift", "--total_rounds=4")
MODULE = "bandits.run_federated"


def _played(rewards, *arguments, seeds=1):
    """Returns runs of these rewards, with the flags and the command of real ones."""
    found = []
    for seed in range(seeds):
        words = [*DRIFT, *arguments, f"--seed={seed}"]
        settings = run_federated.STUDY.resolve(frame.flag_set(run_federated.STUDY).parse([MODULE, *words]))
        table = pd.DataFrame({"round_num": range(1, len(rewards) + 1), metrics.ROUND_REWARD: rewards})
        table[metrics.AVERAGE_REWARD] = table[metrics.ROUND_REWARD].expanding().mean()
        command = shlex.join(["./scripts/python", "-m", MODULE, *words])
        found.append(runs.Run(pathlib.Path(f"runs/{len(found)}"), table, dict(settings), command, {}))
    return found


def _ceiling(reward, world, *arguments, **how):
    rewards = [0.0, 0.0, 0.0, reward]  # Its end counts: of four rounds the last.
    return _played(rewards, "--bandits_type=supervised_mse", f"--drift_world={world}", *arguments, **how)


def _part(*found) -> configurations.Part:
    (part,) = configurations.parts([run for some in found for run in some])
    return part


SOFTMAX = (0.5, 0.75, 0.125, 0.25)  # The rewards change in round 3.


def test_an_arm_has_regret_to_the_ceiling_of_each_rounds_world():
    part = _part(_played(SOFTMAX), _ceiling(0.875, 0), _ceiling(0.625, 1))
    ((arm, _, regret),) = dynamic_regret.found(part)
    assert arm.flags["bandits_type"] == "softmax"
    assert regret.total.mean == (0.875 - 0.5) + (0.875 - 0.75) + (0.625 - 0.125) + (0.625 - 0.25)
    assert dynamic_regret.missing(part) == []
    (section,) = dynamic_regret.sections(part)
    assert section.title == "Dynamic regret to 2 full-feedback baselines"
    assert [[getattr(cell, "value", cell) for cell in row[1:]] for row in section.rows] == [
        ["1 to 4", "all", 1, 1.375, 0.34375, None],
        ["1 to 2", "0", None, None, 0.25, 0.125],
        ["3 to 4", "1", None, None, 0.4375, 0.375],
    ]


def test_the_supervised_learner_that_meets_the_changes_has_regret_too():
    own = _played((0.5, 1.0, 0.0, 0.5), "--bandits_type=supervised_mse")
    ((arm, _, regret),) = dynamic_regret.found(_part(own, _ceiling(1.0, 0), _ceiling(1.0, 1)))
    assert (arm.role, regret.total.mean) == (configurations.FULL_FEEDBACK, 2.0)


@pytest.mark.parametrize("other", ["--world_seed=1", "--drift_start=2", "--clients_per_round=3", "--drift_every=2"])
def test_a_ceiling_of_another_world_or_cohort_is_none(other):
    part = _part(_played(SOFTMAX), _ceiling(1.0, 0), _ceiling(1.0, 1, other))
    assert dynamic_regret.found(part) == []
    told, *commands = dynamic_regret.missing(part)
    assert told.endswith(" needs the full-feedback baseline of world 1: run these:")
    assert [word for word in shlex.split(commands[0]) if word.startswith("--drift_world")] == ["--drift_world=1"]
    assert len(commands) == 1


def test_a_mixture_is_said_to_be_one():
    linear = ("--reward_drift=linear", "--drift_start=2", "--drift_rounds=2")
    part = _part(_played([0.5] * 4, *linear), _ceiling(1.0, 0, *linear), _ceiling(0.5, 1, *linear))
    (section,) = dynamic_regret.sections(part)
    assert any("there the regret is an upper bound" in note for note in section.notes)
    assert [cell.value for cell in section.rows[0][4:6]] == [0.75, 0.1875]
    assert section.rows[2][1:3] == ["2 to 2", "0 and 1"]
    assert [cell.value for cell in section.rows[2][5:]] == [0.25, 0.25]


def test_a_ceiling_that_is_still_played_is_none_yet():
    begun = _played([0.0, 1.0], "--bandits_type=supervised_mse", "--drift_world=1")
    part = _part(_played(SOFTMAX), _ceiling(1.0, 0), begun)
    assert dynamic_regret.found(part) == []
    assert dynamic_regret.missing(part)[0].endswith("needs the full-feedback baseline of world 1: run these:")


def test_ten_segments_are_told_each():
    seasons = ("--scenario=scratch", "--reward_drift=seasonal", "--drift_period=2", "--total_rounds=12")
    ceilings = [
        _played([1.0] * 12, *seasons, "--bandits_type=supervised_mse", f"--drift_world={one}") for one in (0, 1)
    ]
    part = _part(_played([0.5] * 12, *seasons), *ceilings)
    (section,) = dynamic_regret.sections(part)
    assert (len(section.rows), section.rows[0][4].value) == (11, 6.0)
    assert any("After the first 10 segments" in note for note in section.notes)


def test_where_rewards_stay_there_is_none():
    still = ("--scenario=scratch",)
    part = _part(_played(SOFTMAX, *still), _played(SOFTMAX, *still, "--bandits_type=supervised_mse"), _ceiling(1.0, 0))
    assert (dynamic_regret.found(part), dynamic_regret.missing(part)) == ([], [])
    assert dynamic_regret.sections(part) == []


def test_missing_ceilings_are_told_once_with_commands_that_run():
    """Flags of exploration and resets are left out, in whatever order they were given."""
    own = ("--drift_start=3", "--bandits_type=falcon", "--bandits_gamma=50", "--clients_per_round=7", "--world_seed=4")
    reset = ("--reset_window=2", "--reset=model", "--reset_when=window")
    part = _part(_played(SOFTMAX, *own, *reset, seeds=3), _played(SOFTMAX, *own[:1], *own[3:], "--bandits_type=greedy"))
    told, *commands = dynamic_regret.missing(part)
    needs = "needs the full-feedback baseline of world 0 and world 1: run these:"
    assert told == f"The dynamic regret of {part.arms[0].name} {needs}"
    assert commands == [
        "./scripts/python -m bandits.run_federated --scenario=drift --total_rounds=4 --drift_start=3 "
        "--clients_per_round=7 --world_seed=4 --bandits_type=supervised_mse "
        f"--drift_world={world} --experiment_name=digits_drift_falcon_world_{world} --seed=0 --repeat=3"
        for world in (0, 1)
    ]
    for world, line in enumerate(commands):
        words = [word for word in shlex.split(line)[3:] if not word.startswith("--repeat")]
        settings = studies.resolve(MODULE, words)
        assert (settings.drift_world, settings.world_seed, settings.bandits_type) == (world, 4, "supervised_mse")
    assert commands[0] in dynamic_regret.sections(part)[0].notes


def test_a_reset_of_a_config_file_leaves_no_command(tmp_path):
    config = tmp_path / "own.toml"
    config.write_text('reset = "model"\nreset_when = "window"\nreset_window = 2\n')
    (told,) = dynamic_regret.missing(_part(_played(SOFTMAX, f"--config={config}")))
    assert told.endswith("and --drift_world=0 and --drift_world=1.")


def test_a_run_without_a_command_is_told_with_flags():
    (run,) = _played(SOFTMAX)
    (told,) = dynamic_regret.missing(_part([dataclasses.replace(run, command="")]))
    assert told.endswith("run the same with --bandits_type=supervised_mse, and --drift_world=0 and --drift_world=1.")


def test_flags_that_need_each_other_stay_together_in_a_ceilings_command():
    noise = ("--aggregator_type=dpsgd", "--clip_norm=1", "--noise_multiplier=2")
    _, command, _ = dynamic_regret.missing(_part(_played(SOFTMAX, *noise)))
    assert set(noise) < set(shlex.split(command))


def test_ceilings_of_other_seeds_are_said_to_be_of_no_use():
    part = _part(_played(SOFTMAX), _ceiling(1.0, 0, seeds=2), _ceiling(1.0, 1, seeds=2)[1:])
    assert dynamic_regret.found(part) == []
    told = "softmax has no dynamic regret: it shares no seed with the full-feedback baseline of each environment."
    assert dynamic_regret.missing(part) == [told]
    assert told in dynamic_regret.sections(part)[0].notes


def test_a_ceiling_that_is_deployed_otherwise_is_named():
    part = _part(
        _played(SOFTMAX, "--bandits_deploy_freq=1"),
        *(_ceiling(1.0, one, f"--bandits_deploy_freq={one + 1}") for one in (0, 1)),
    )
    name = dynamic_regret.found(part)[0][0].name
    start = "Baselines with another deployment period than the configuration"
    told = f"{start}: for {name} those of world 1 (deploy 2, not 1)."
    assert told in dynamic_regret.sections(part)[0].notes


if __name__ == "__main__":
    pytest.main([__file__])
