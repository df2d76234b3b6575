"""Tests of bandits.mab_fl.flags."""

import pytest

from bandits.mab_fl import flags, studies


def resolve(*arguments: str):
    return flags.plan(flags.define().parse(["run_mab_fl", *arguments]))


def only(*arguments: str):
    chosen, _ = resolve(*arguments)
    assert len(chosen) == 1
    return chosen[0].settings


def test_defaults_are_the_thesis_generator_with_ucb():
    settings = only()
    assert (settings.num_workers, settings.num_rows) == (4, 40_000)
    assert (settings.train_fraction, settings.validation_fraction) == (0.01, 0.4)
    assert (settings.reward, settings.threshold, settings.rule_c) == ("increment", None, 0.05)
    assert settings.pretrain_epochs == settings.epochs_per_round == 6


@pytest.mark.parametrize("rule", ["thompson", "discounted_thompson", "bayesian_extreme_explore"])
def test_bayesian_rules_get_binary_rewards_with_a_threshold(rule):
    settings = only(f"--decision_rule={rule}")
    assert (settings.reward, settings.threshold) == ("binary", 0.025)


class TestPresets:
    def test_table_3_has_all_its_settings(self):
        settings = studies.load()["table3"].settings
        counts = {table: 0 for table in ("epsilon_greedy", "epsilon_greedy_recency", "thompson", "ucb", "ucb_recency")}
        for setting in settings:
            if setting.table in counts:
                counts[setting.table] += 1
        assert list(counts.values()) == [3, 9, 9, 3, 9]
        assert len({setting.name for setting in settings}) == len(settings) == 40

    @pytest.mark.parametrize("name", list(studies.load()))
    def test_every_setting_of_a_study_resolves_and_only_names_flags(self, name):
        chosen, study = resolve(f"--preset={name}")
        assert len(chosen) == len(study.settings)
        known = set(chosen[0].settings)
        for setting, one in zip(study.settings, chosen, strict=True):
            assert set(setting.values) <= known
            assert one.settings.repeat == 10
            flags.define().parse(["run_mab_fl", *(f"--{key}={value}" for key, value in setting.values.items())])

    def test_one_setting_of_a_study_can_be_run(self):
        settings = only("--preset=table3/ucb_recency_c=0.05_alpha=0.75", "--repeat=2")
        assert (settings.rule_c, settings.rule_alpha, settings.repeat) == (0.05, 0.75, 2)

    def test_flags_beside_a_preset_win(self):
        chosen, _ = resolve("--preset=epochs", "--total_rounds=3")
        assert {setting.settings.total_rounds for setting in chosen} == {3}
