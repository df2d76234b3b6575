"""Tests of bandits.results.dynamic_regret_page: which ceilings count, and what is told."""

import dataclasses
import pathlib
import re
import shlex

import pandas as pd
import pytest

from bandits import metrics, run_federated, studies
from bandits.results import arms, grouping, runs
from bandits.results import dynamic_regret_page as dynamic_regret
from optimization.study import frame

DRIFT = ("--scenario=drift", "--total_rounds=4")
MODULE = "bandits.run_federated"


def _runs(rewards, *arguments, seeds=1):
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
    return _runs(rewards, "--bandits_type=supervised_mse", f"--drift_world={world}", *arguments, **how)


def _part(*found) -> arms.Part:
    (part,) = grouping.parts([run for some in found for run in some])
    return part


SOFTMAX = (0.5, 0.75, 0.125, 0.25)  # The rewards change in round 3.


def test_an_arm_has_regret_to_the_ceiling_of_each_rounds_world():
    part = _part(_runs(SOFTMAX), _ceiling(0.875, 0), _ceiling(0.625, 1))
    ((arm, _, regret),) = dynamic_regret.found(part)
    assert arm.flags["bandits_type"] == "softmax"
    assert regret.total.mean == (0.875 - 0.5) + (0.875 - 0.75) + (0.625 - 0.125) + (0.625 - 0.25)
    assert dynamic_regret.missing(part) == []
    about, *told = dynamic_regret.lines([part])
    assert about.startswith(
        "run_federated: digits: dynamic regret to 2 full-feedback baselines. In each round: the final"
    )
    assert told == [
        f"  {arm.name}: total 1.375, per round 0.3438",
        "    rounds 1 to 2 (world 0): per round 0.25; in its last tenth 0.125",
        "    rounds 3 to 4 (world 1): per round 0.4375; in its last tenth 0.375",
    ]
    page = dynamic_regret.section(part)
    cells = [re.sub("<.*?>", " ", cell).split() for cell in re.findall("<td.*?</td>", page)]
    assert cells == [
        ["1"],
        ["1.375"],
        ["0.3438"],
        ["0.2500", "last", "tenth:", "0.1250"],
        ["0.4375", "last", "tenth:", "0.3750"],
    ]
    assert "Dynamic regret to 2 full-feedback baselines" in page
    assert "Rounds 3 to 4 (world 1)" in page


def test_the_supervised_learner_that_meets_the_changes_has_regret_too():
    own = _runs((0.5, 1.0, 0.0, 0.5), "--bandits_type=supervised_mse")
    ((arm, _, regret),) = dynamic_regret.found(_part(own, _ceiling(1.0, 0), _ceiling(1.0, 1)))
    assert (arm.role, regret.total.mean) == (arms.CEILING, 2.0)


@pytest.mark.parametrize("other", ["--world_seed=1", "--drift_start=2", "--clients_per_round=3", "--drift_every=2"])
def test_a_ceiling_of_another_world_or_cohort_is_none(other):
    part = _part(_runs(SOFTMAX), _ceiling(1.0, 0), _ceiling(1.0, 1, other))
    assert dynamic_regret.found(part) == []
    told, *commands = dynamic_regret.missing(part)
    assert told.endswith(" needs the full-feedback baseline of world 1: run these:")
    assert [word for word in shlex.split(commands[0]) if word.startswith("--drift_world")] == ["--drift_world=1"]
    assert len(commands) == 1


def test_a_mixture_is_said_to_be_one():
    linear = ("--reward_drift=linear", "--drift_start=2", "--drift_rounds=2")
    part = _part(_runs([0.5] * 4, *linear), _ceiling(1.0, 0, *linear), _ceiling(0.5, 1, *linear))
    _, mixed, total, *segments = dynamic_regret.lines([part])
    assert "there the regret is an upper bound" in mixed
    assert "there the regret is an upper bound" in dynamic_regret.section(part)
    assert total.endswith("total 0.75, per round 0.1875")
    assert segments[1] == "    round 2 (between worlds 0 and 1): per round 0.25; in its last tenth 0.25"


def test_a_ceiling_that_is_still_played_is_none_yet():
    begun = _runs([0.0, 1.0], "--bandits_type=supervised_mse", "--drift_world=1")
    part = _part(_runs(SOFTMAX), _ceiling(1.0, 0), begun)
    assert dynamic_regret.found(part) == []
    assert dynamic_regret.missing(part)[0].endswith("needs the full-feedback baseline of world 1: run these:")


def test_ten_segments_are_told_each():
    seasons = ("--scenario=scratch", "--reward_drift=seasonal", "--drift_period=2", "--total_rounds=12")
    ceilings = [_runs([1.0] * 12, *seasons, "--bandits_type=supervised_mse", f"--drift_world={one}") for one in (0, 1)]
    part = _part(_runs([0.5] * 12, *seasons), *ceilings)
    _, total, *segments, more = dynamic_regret.lines([part])
    assert total.endswith("total 6, per round 0.5")
    assert len(segments) == 10
    assert more == "    Segments included in the total only: 2."
    assert "Segments included in the total only: 2." in dynamic_regret.section(part)


def test_where_rewards_stay_there_is_none():
    still = ("--scenario=scratch",)
    part = _part(_runs(SOFTMAX, *still), _runs(SOFTMAX, *still, "--bandits_type=supervised_mse"), _ceiling(1.0, 0))
    assert (dynamic_regret.found(part), dynamic_regret.missing(part)) == ([], [])
    assert (dynamic_regret.section(part), dynamic_regret.lines([part])) == ("", [])


def test_missing_ceilings_are_told_once_with_commands_that_run():
    """Flags of exploration and resets are left out, in whatever order they were given."""
    own = ("--drift_start=3", "--bandits_type=falcon", "--bandits_gamma=50", "--clients_per_round=7", "--world_seed=4")
    reset = ("--reset_window=2", "--reset=model", "--reset_when=window")
    part = _part(_runs(SOFTMAX, *own, *reset, seeds=3), _runs(SOFTMAX, *own[:1], *own[3:], "--bandits_type=greedy"))
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
    assert commands[0] in dynamic_regret.section(part)


def test_the_ceiling_of_an_arm_that_begins_from_a_model_begins_from_one_too():
    told, *commands = dynamic_regret.missing(_part(_runs(SOFTMAX, "--scenario=init_shift", "--reward_drift=abrupt")))
    assert told.endswith("needs the full-feedback baseline of world 0 and world 1: run these:")
    for world, line in enumerate(commands):
        settings = studies.resolve(MODULE, shlex.split(line)[3:])
        assert (settings.scenario, settings.drift_world) == ("init_shift", world)
        assert settings.bandits_type == "supervised_mse"


def test_a_ceiling_has_no_reset_of_a_config_file_either(tmp_path):
    config = tmp_path / "own.toml"
    config.write_text('reset = "model"\nreset_when = "window"\nreset_window = 2\n')
    _, command, _ = dynamic_regret.missing(_part(_runs(SOFTMAX, f"--config={config}")))
    assert f"--config={config}" in command
    assert studies.resolve(MODULE, shlex.split(command)[3:]).reset is None


def test_a_run_without_a_command_is_told_with_flags():
    (run,) = _runs(SOFTMAX)
    (told,) = dynamic_regret.missing(_part([dataclasses.replace(run, command="")]))
    assert told.endswith("run the same with --bandits_type=supervised_mse, and --drift_world=0 and --drift_world=1.")


def test_flags_that_need_each_other_stay_together_in_a_ceilings_command():
    noise = ("--aggregator_type=dpsgd", "--clip_norm=1", "--noise_multiplier=2")
    _, command, _ = dynamic_regret.missing(_part(_runs(SOFTMAX, *noise)))
    assert set(noise) < set(shlex.split(command))


def test_ceilings_of_other_seeds_are_said_to_be_of_no_use():
    part = _part(_runs(SOFTMAX), _ceiling(1.0, 0, seeds=2), _ceiling(1.0, 1, seeds=2)[1:])
    assert (dynamic_regret.found(part), dynamic_regret.lines([part])) == ([], [])
    told = "softmax has no dynamic regret: it shares no seed with the full-feedback baseline of each environment."
    assert dynamic_regret.missing(part) == [told]
    assert told in dynamic_regret.section(part)


def test_a_ceiling_that_is_deployed_otherwise_is_named():
    part = _part(
        _runs(SOFTMAX, "--bandits_deploy_freq=1"),
        *(_ceiling(1.0, one, f"--bandits_deploy_freq={one + 1}") for one in (0, 1)),
    )
    name = dynamic_regret.found(part)[0][0].name
    start = "Baselines with another deployment period than the configuration"
    told = f"{start}: for {name} those of world 1 (deploy 2, not 1)."
    assert told in dynamic_regret.lines([part])
    assert told in dynamic_regret.section(part)


if __name__ == "__main__":
    pytest.main([__file__])
