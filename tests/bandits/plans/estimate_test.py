"""Tests of bandits.plans.estimate; `reproduce_test` runs a few rounds for one."""

import pytest

from bandits.plans import estimate, plan


def test_only_rounds_that_remain_count_including_those_of_an_initial_training(tmp_path):
    initial = [{}, {"scenario": "scratch", "init_rounds": 100}, {"scenario": "init_shift", "init_rounds": 100}]
    assert [estimate.init_rounds(settings) for settings in initial] == [0, 0, 100]
    flags = ["--total_rounds=9", "--scenario=init", "--init_rounds=4"]
    (run,) = plan.build(flags, sweeps=(), binary="run_federated").runs()
    assert estimate.remaining_rounds(run, tmp_path) == 13
    (tmp_path / run.name).mkdir(parents=True)
    (tmp_path / run.name / "metrics.csv").write_text("round_num\n1\n2\n")
    assert estimate.remaining_rounds(run, tmp_path) == 7


@pytest.mark.parametrize(
    ("binary", "arguments", "expected"),
    [
        ("run_federated", "--preset=emnist_init_softmax", "--total_rounds=4 --init_rounds=1 --random_data"),
        (
            "run_posterior",
            "--preset=mnist_alpha_1 --algorithm=fedkppa --diagnose_round=40",
            "--total_rounds=4 --burn_in_rounds=0 --diagnose_round=1 --random_data",
        ),
        ("run_mab_fl", "--task_type=heart_disease --total_rounds=2", "--total_rounds=2"),
    ],
)
def test_a_few_rounds_have_no_burn_in_and_need_no_download(binary, arguments, expected):
    (run,) = plan.build(arguments.split(), sweeps=(), binary=binary).runs()
    assert estimate.short_run_flags(run) == expected.split()


def test_the_total_time_is_that_of_all_rounds_and_names_what_is_unknown():
    one, other, unknown = ("a", 2, 100, 36.0), ("b", 2, 10, 360.0), ("c", 2, 10, "it failed")
    found = estimate.summarize([one, other], workers=2)
    assert found.is_whole
    assert found.text.splitlines() == [
        "a: 2 runs, 100 rounds of 36 s: 1.0 hours",
        "b: 2 runs, 10 rounds of 360 s: 1.0 hours",
        "In all 1.0 hours, 2 runs at a time. Starting runs, compilation and evaluation are extra.",
    ]
    text = "c: 2 runs, 10 rounds: time unknown, because it failed"
    assert estimate.summarize([unknown], workers=1) == estimate.Estimate(text, is_whole=False)
    found = estimate.summarize([one, unknown], workers=1)
    assert not found.is_whole
    assert "In all 1.0 hours, not counting the lines above whose time is unknown (1)" in found.text
