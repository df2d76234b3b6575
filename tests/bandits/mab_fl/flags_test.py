"""Tests of bandits.mab_fl.flags, and of the runs that presets are."""

import collections
import json
import re

import pytest

from bandits.mab_fl import flags, run_mab_fl
from data.errors import UsageError
from optimization.study import frame

STUDY = run_mab_fl.STUDY


def plan(*arguments: str):
    return frame.plan(STUDY, frame.flag_set(STUDY).parse(["run_mab_fl", *arguments]))


def test_a_threshold_is_a_number_or_a_quantile():
    for text, expected in (("-1", -1), ("0.01", 0.01), ("quantile:.50", "quantile:0.5"), ("quantile:1", "quantile:1")):
        (settings,) = plan("--reward=binary", f"--threshold={text}")
        assert settings.threshold == flags.options(settings).reward.threshold == expected
    parsed = frame.flag_set(STUDY).parse(["x"])  # And from a file.
    for value in (1, 0.01, "quantile:0.5"):
        assert parsed.converted({"threshold": value}) == {"threshold": value}
    with pytest.raises(UsageError, match="threshold takes a number, or a text"):
        parsed.converted({"threshold": True})


def test_table_3_has_all_its_settings():
    settings = flags.load_studies()["table3"].settings
    kinds = {name: re.split("_[a-z]+=", name)[0] for name in settings}
    tables = collections.Counter(kinds.values())
    assert tables["epsilon_greedy"] == tables["ucb"] == 3
    assert tables["epsilon_greedy_recency"] == tables["thompson"] == tables["ucb_recency"] == 9
    assert len(settings) == 41
    # Epsilon-greedy starts at Figure 24's estimates.
    started = {kinds[name] for name, values in settings.items() if values.get("rule_initial_value") == 0.05}
    assert started == {"epsilon_greedy", "epsilon_greedy_recency"}


@pytest.mark.parametrize("name", list(flags.load_studies()))
def test_every_setting_of_a_study_resolves(name):
    study = flags.load_studies()[name]
    runs = plan(f"--preset={name}")
    assert len(runs) == 10 * len(study.settings)
    first = next(iter(study.settings))
    assert [run.experiment_name for run in runs[:2]] == [f"{name}/{first}/seed_{seed}" for seed in (0, 1)]
    for (setting, values), run in zip(study.settings.items(), runs[::10], strict=True):
        assert all(run[key] == value for key, value in values.items() if key != "repeat")
        assert flags.options(run).setting == setting


def test_one_setting_of_a_study_can_be_run_with_other_flags():
    settings = plan("--preset=table3/ucb_recency_c=0.05_alpha=0.75", "--repeat=2", "--total_rounds=3")[1]
    assert (settings.rule_c, settings.rule_alpha, settings.seed, settings.total_rounds) == (0.05, 0.75, 1, 3)
    assert settings.experiment_name == "table3_ucb_recency_c=0.05_alpha=0.75/seed_1"
    with pytest.raises(UsageError, match="table3"):
        plan("--preset=tabel3")


def test_a_folder_records_the_target_that_the_data_fills_in(tmp_path):
    runs = frame.prepare(STUDY, plan(f"--root_output_dir={tmp_path}", "--num_rows=4000", "--repeat=2"))
    recorded = json.loads(runs[0].folder.config_path.read_text())["flags"]
    flags_of_run = {name: value for name, value in runs[0].settings.items() if name != "restart"}
    assert recorded == flags_of_run | {"target": "worker_2"}
    assert runs[0].data is runs[1].data  # Opened once.
