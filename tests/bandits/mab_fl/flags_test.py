"""Tests of bandits.mab_fl.flags, and of the runs that presets are."""

import json

import pytest

from bandits.mab_fl import flags, run_mab_fl, studies
from data.errors import UsageError
from optimization.study import frame

STUDY = run_mab_fl.STUDY


def plan(*arguments: str):
    return frame.plan(STUDY, frame.flag_set(STUDY).parse(["run_mab_fl", *arguments]))


def only(*arguments: str):
    (settings,) = plan(*arguments)
    return settings


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


def test_a_threshold_is_a_number_or_a_quantile():
    assert [only("--reward=binary", f"--threshold={text}").threshold for text in ("-1", "0.01", "quantile:.50")] == [
        -1,
        0.01,
        "quantile:0.5",
    ]
    assert flags.options(only("--reward=binary", "--threshold=quantile:1")).reward.threshold == "quantile:1"
    parsed = frame.flag_set(STUDY).parse(["x"])  # And from a file.
    for value in (1, 0.01, "quantile:0.5"):
        assert parsed.taken({"threshold": value}) == {"threshold": value}
    with pytest.raises(UsageError, match="threshold takes a number, or a text"):
        parsed.taken({"threshold": True})


def test_extreme_explore_measures_at_once_unless_told_otherwise():
    assert not flags.options(only("--decision_rule=extreme_explore")).delays_rewards
    assert flags.options(only("--decision_rule=bayesian_extreme_explore", "--evaluation=delayed")).delays_rewards


def test_epochs_by_round_hold_from_their_round_on():
    options = flags.options(only("--epochs_per_round=6", "--epochs_by_round=8:3,12:1"))
    assert [options.epochs_of(round_num) for round_num in (1, 7, 8, 11, 12, 15)] == [6, 6, 3, 3, 1, 1]


class TestPresets:
    def test_table_3_has_all_its_settings(self):
        settings = studies.load()["table3"].settings
        counts = {table: 0 for table in ("epsilon_greedy", "epsilon_greedy_recency", "thompson", "ucb", "ucb_recency")}
        for setting in settings:
            if setting.table in counts:
                counts[setting.table] += 1
        assert list(counts.values()) == [3, 9, 9, 3, 9]
        assert len({setting.name for setting in settings}) == len(settings) == 41

    def test_epsilon_greedy_starts_at_figure_24_s_estimates(self):
        started = {one.table: one.values.get("rule_initial_value") for one in studies.load()["table3"].settings}
        assert {name for name, value in started.items() if value == 0.05} == {
            "epsilon_greedy",
            "epsilon_greedy_recency",
        }

    @pytest.mark.parametrize("name", list(studies.load()))
    def test_every_setting_of_a_study_resolves_and_only_names_flags(self, name):
        study = studies.load()[name]
        runs = plan(f"--preset={name}")
        assert len(runs) == 10 * len(study.settings)
        assert [run.experiment_name for run in runs[:2]] == [
            f"{name}/{study.settings[0].name}/seed_{seed}" for seed in (0, 1)
        ]
        for setting, run in zip(study.settings, runs[::10], strict=True):
            assert {key: run[key] for key in setting.values if key != "repeat"} == {
                key: value for key, value in setting.values.items() if key != "repeat"
            }
            assert flags.options(run).setting == setting.name
            frame.flag_set(STUDY).parse(["x", *(f"--{key}={value}" for key, value in setting.values.items())])

    def test_one_setting_of_a_study_can_be_run(self):
        settings = plan("--preset=table3/ucb_recency_c=0.05_alpha=0.75", "--repeat=2")[1]
        assert (settings.rule_c, settings.rule_alpha, settings.seed) == (0.05, 0.75, 1)
        assert settings.experiment_name == "table3_ucb_recency_c=0.05_alpha=0.75/seed_1"
        assert flags.options(settings).setting == "ucb_recency_c=0.05_alpha=0.75"

    def test_flags_beside_a_preset_win(self):
        assert {run.total_rounds for run in plan("--preset=epochs", "--total_rounds=3")} == {3}

    def test_a_near_miss_is_told_what_there_is(self):
        with pytest.raises(UsageError, match="--preset=tabel3 is not known: did you mean table3"):
            plan("--preset=tabel3")

    def test_figures_are_drawn_of_whole_studies(self):
        study = studies.load()["hospitals"]
        names = {one.name for one in study.settings}
        assert studies.whole("hospitals/fedavg", names) == study
        assert studies.whole("hospitals/fedavg", names - {study.settings[0].name}) is None
        assert studies.whole(None, {""}) is None


def test_a_folder_records_the_target_that_the_data_fills_in_and_when_tuning_begins(tmp_path):
    arguments = (f"--root_output_dir={tmp_path}", "--num_rows=4000", "--tuning_rounds=2")
    (run,) = frame.prepare(STUDY, plan(*arguments))
    recorded = json.loads(run.folder.config_path.read_text())["flags"]
    flags_of_run = {name: value for name, value in run.settings.items() if name != "restart"}
    assert recorded == flags_of_run | {"target": "worker_2", "tuning_begins_after": 15}


def test_settings_that_share_their_participants_open_them_once(tmp_path):
    runs = frame.prepare(STUDY, plan(f"--root_output_dir={tmp_path}", "--num_rows=4000", "--repeat=2"))
    assert runs[0].data is runs[1].data
