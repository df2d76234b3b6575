"""Tests of bandits.results.budget: the mechanism that flags or a run's folder describe."""

import json

import pytest

from bandits.results import budget
from data.errors import UsageError
from optimization.privacy import mechanisms


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--aggregator_type=dpftrl", {"kind": "dpftrl", "restart_frequency": 33}),
        ("--aggregator_type=mf_dpftrl --cohort_sampling=cyclic", {"kind": "mf_dpftrl", "bands": 33}),
        ("--aggregator_type=ddp --clip_norm=0.1 --dimension=9", {"kind": "ddp", "clip_norm": 0.1, "dimension": 9}),
        ("--target_delta=1e-5 --accountant=pld", {"kind": "dpsgd", "delta": 1e-5, "accountant": "pld"}),
    ],
)
def test_the_budget_is_that_of_a_run_with_the_same_flags(arguments, expected):
    common = ["--population=1000", "--clients_per_round=30", "--total_rounds=50", "--noise_multiplier=1"]
    found, rounds = budget.build(budget.define().parse(["privacy_budget", *common, *arguments.split()]))
    assert rounds == 50
    assert {name: getattr(found, name) for name in expected} == expected


def test_a_runs_folder_gives_its_mechanism_and_refuses_flags_that_describe_another(tmp_path):
    mechanism = mechanisms.Mechanism("dpsgd", 1.0, 1000, 20, "poisson")
    (tmp_path / "privacy.json").write_text(json.dumps(mechanism.report(50)))
    run = ["privacy_budget", f"--run={tmp_path}"]
    assert budget.build(budget.define().parse(run)) == (mechanism, 50)
    with pytest.raises(UsageError, match="--population describes a training"):
        budget.build(budget.define().parse([*run, "--population=9"]))
