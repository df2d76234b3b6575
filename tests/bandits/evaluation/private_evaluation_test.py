"""scripts.evaluate_policy with --private and --anytime, as programs: what is printed, and what is not."""

import contextlib
import dataclasses
import json
import shutil

import numpy as np
import pytest

from bandits.evaluation import betting, bounds, private, private_sums
from data import interaction_log
from data.errors import UsageError
from optimization.privacy import ledger, mechanisms
from scripts import evaluate_policy as command
from tests.bandits import whole_runs
from tests.bandits.evaluation.tables_of_logs import COLUMNS, by_estimator, evaluated, weighted, write_log

_COLUMNS = (*COLUMNS, "--round_column=when", "--ignore_columns=played")
_PRIVATE = ("--private", "--largest_weight=3", "--max_rows_per_client=12")
_NOISE = (*_PRIVATE, "--noise_multiplier=1")
_FILES = ("estimates.csv", "evaluation.json", "evaluation.html")


def _evaluate(folder, *flags):
    shutil.rmtree(folder / "out", ignore_errors=True)  # An earlier evaluation is never overwritten.
    return evaluated(folder / "out", f"--log={folder}/log.csv", *_COLUMNS, "--policy=uniform", *flags)


def test_with_hardly_any_noise_values_are_exact_and_in_the_unit_of_the_declared_bounds(tmp_path, capsys):
    table = write_log(tmp_path / "log.csv")
    flags = (*_PRIVATE, "--noise_multiplier=1e-10", "--clip_norm=1000", "--largest_weight=1.5")
    plain = _evaluate(tmp_path, *flags)
    weights = np.minimum(0.5 / table.p, 1.5)
    ips, snips = (weights * table.paid).mean(), (weights * table.paid).sum() / weights.sum()
    assert by_estimator(plain) == pytest.approx({"ips": ips, "snips": snips}, rel=1e-5)
    assert plain["privacy"]["epsilon"] > 1e9  # No noise, no guarantee, and it says so.
    assert plain["privacy"]["summary"] in capsys.readouterr().out
    table.assign(paid=30 - 20 * table.paid).to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(UsageError, match="--reward_bounds"):
        _evaluate(tmp_path, *flags)
    row = int(table.paid.to_numpy().argmin()) + 1
    with pytest.raises(UsageError, match=f"--reward_bounds=10,29: the reward 30 in row {row} of client 'user 0'"):
        _evaluate(tmp_path, *flags, "--reward_bounds=10,29")
    capsys.readouterr()
    found = _evaluate(tmp_path, *flags, "--reward_bounds=10,30")
    before, after = plain["estimates"][1], found["estimates"][1]
    expected = [30 - 20 * before[name] for name in ("value", "high", "low")]
    assert [after[name] for name in ("value", "low", "high")] == pytest.approx(expected, abs=1e-4)
    expected = [-20 * before[name] for name in ("bias_high", "bias_low")]
    assert [after[name] for name in ("bias_low", "bias_high")] == pytest.approx(expected, abs=1e-4)
    assert f"snips: {after['value']:.1f} (95% CI {after['low']:.1f} to {after['high']:.1f})" in capsys.readouterr().out


def test_wrong_propensities_leave_no_private_conclusion(tmp_path, capsys):
    table = write_log(tmp_path / "log.csv")
    table.assign(p=0.6 * table.p).to_csv(tmp_path / "log.csv", index=False)
    assert _evaluate(tmp_path, *_PRIVATE, "--noise_multiplier=0.1")["refusal"]["name"] == "weights"
    printed = capsys.readouterr().out
    assert printed.splitlines()[2].startswith("No conclusion about uniform. The mean of the policy's weights")
    assert "without --largest_weight, --max_rows_per_client, --noise_multiplier, --private, and must" in printed


def test_a_look_at_a_folder_that_holds_an_evaluation_is_refused_before_it_is_paid_for(tmp_path):
    write_log(tmp_path / "log.csv")
    _evaluate(tmp_path, *_NOISE)
    book = (tmp_path / "log.csv.privacy.jsonl").read_text()
    with pytest.raises(UsageError, match="--output_dir"):
        evaluated(tmp_path / "out", f"--log={tmp_path}/log.csv", *_COLUMNS, "--policy=uniform", *_NOISE)
    assert (tmp_path / "log.csv.privacy.jsonl").read_text() == book


def test_of_two_logs_with_the_same_noised_sum_the_same_is_reported(tmp_path, capsys, monkeypatch):
    """So nothing else of a log leaves: not its rows, overlap, checks, clients, choices nor plots."""
    vectors, printed = [], []
    noised = np.full(private_sums.SIZE, 0.3)
    monkeypatch.setattr(private_sums, "release", lambda *given: vectors.append(given[0]) or noised)
    for seed, rows in ((0, 12), (1, 7)):
        write_log(tmp_path / "log.csv", rows=rows, seed=seed)
        (tmp_path / "log.csv.privacy.jsonl").unlink(missing_ok=True)
        capsys.readouterr()
        _evaluate(tmp_path, *_NOISE, "--ignore_columns=warm")
        printed.append([capsys.readouterr(), *((tmp_path / "out" / name).read_bytes() for name in _FILES)])
    assert vectors[0].shape == vectors[1].shape
    assert (vectors[0] != vectors[1]).any()
    assert printed[0] == printed[1]
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(_FILES)


def _run(folder, **changes):
    settings = {"noise_multiplier": 1.0, "population": 150, "cohort": 15, "sampling": "poisson"}
    own = mechanisms.Mechanism("dpsgd", **settings | changes)
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "weights.npz").write_bytes(b"weights")
    (folder / "privacy.json").write_text(json.dumps(own.report(10)))
    return own


def _models(folder, *flags):
    (folder / "log.csv").touch()
    given = ["evaluate_policy", f"--log={folder}/log.csv", f"--policy=run:{folder}/run", *_NOISE, *flags]
    settings = command.define().parse(given)
    return private.models(settings, command.target_policies.parse(settings.policy))


def test_a_runs_model_counts_with_what_it_spent(tmp_path):
    own = _run(tmp_path / "run")
    (found,) = _models(tmp_path)
    assert (found.mechanism, found.rounds) == (own, 10)
    assert _models(tmp_path) == [found]  # The same at every look.
    (tmp_path / "run" / "model" / "weights.npz").write_bytes(b"others")
    assert _models(tmp_path)[0].what != found.what
    assert _models(tmp_path, "--policy_is_public") == []
    whole, rounds = ledger.composed([found, ledger.Spent("look", private.mechanism(150, 1.0))])
    assert private.guarantee(whole, rounds, 1, ())["apart_from"] == []
    assert whole.epsilon(rounds) > own.epsilon(10)


def test_a_run_without_a_guarantee_is_refused(tmp_path):
    _run(tmp_path / "run", noise_multiplier=0.0)
    with pytest.raises(UsageError, match="--policy_is_public"):
        _models(tmp_path)
    (tmp_path / "run" / "privacy.json").unlink()
    with pytest.raises(UsageError, match="--policy_is_public"):
        _models(tmp_path)


@pytest.mark.slow
def test_a_private_runs_policy_is_evaluated_on_its_own_log(tmp_path):
    play = whole_runs.player("--task_type=digits", "--total_rounds=4", "--bandits_deploy_freq=2", "--log_interactions")
    noise = ("--aggregator_type=dpsgd", "--noise_multiplier=1", "--clip_norm=1", "--cohort_sampling=poisson")
    run = play(tmp_path, *noise)
    limits = (f"--log={run}", "--largest_weight=5", "--max_rows_per_client=40")
    private_flags, own = (*limits, "--private", "--noise_multiplier=2"), f"--policy=run:{run}"
    found = evaluated(tmp_path / "own", *private_flags, own)["privacy"]
    assert found["epsilon"] > whole_runs.spent(run)["epsilon"]
    (printed,) = found["models"]
    assert printed.endswith(" of run run")
    ledger_file = f"--privacy_ledger={tmp_path}/ledger"
    alone = evaluated(tmp_path / "uniform", *private_flags, "--policy=uniform", ledger_file)["privacy"]
    assert alone["epsilon"] < found["epsilon"]
    assert alone["models"] == []
    with pytest.raises(UsageError, match="--anytime"):
        evaluated(tmp_path / "anytime", *limits, own, "--anytime")


def test_a_sequence_is_printed_in_the_unit_of_declared_or_recognized_bounds(tmp_path, capsys):
    table = write_log(tmp_path / "log.csv")
    anytime = ("--anytime", "--largest_weight=3", "--max_rows_per_client=1", "--nomodel", "--draws=0")
    plain = _evaluate(tmp_path, *anytime)["anytime"]
    rows = weighted(table.who.str[5:].to_numpy(np.int32), 0.5 / table.p, table.paid)
    names = [f"user {number}" for number in range(150)]
    expected = betting.sequence(*betting.observations(rows, table.when.to_numpy(), bounds.Bounds(3.0, 1), names, 0))
    for name, values in zip(expected._fields[:4], expected, strict=False):
        assert plain[name] == pytest.approx(values.tolist()), name
    table.assign(paid=2 * table.paid - 1).to_csv(tmp_path / "log.csv", index=False)
    for flags in ((), ("--reward_bounds=-1,1",)):
        found = _evaluate(tmp_path, *anytime, *flags)["anytime"]
        for name in ("estimates", "lows", "highs"):
            np.testing.assert_allclose(found[name], 2 * np.array(plain[name]) - 1, atol=1e-9)
        ends = f"95% confidence sequence {found['lows'][-1]:.1f} to {found['highs'][-1]:.1f}) after"
        assert ends in capsys.readouterr().out


@pytest.mark.parametrize(("flags", "looks"), [({}, [0, 1]), ({"drop_out": 0.1}, None)])
def test_a_log_that_is_saved_apart_from_its_run_records_how_cohorts_were_sampled(tmp_path, flags, looks):
    numbers = {"actions": np.tile([0, 1], 12), "rewards": np.linspace(0, 1, 24), "propensities": np.full(24, 0.5)}
    numbers |= {"rounds": np.tile(np.arange(1, 9), 3), "periods": np.tile(np.repeat([0, 1], 4), 3)}
    log = interaction_log.ordered(["a", "b", "c"], np.repeat([0, 1, 2], 8), None, ["0", "1"], numbers)
    config = {"flags": {"cache": "persistent", "client_selection": "uniform", **flags}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    report, saved = {betting.COHORTS: betting.cohorts(str(tmp_path))}, tmp_path / "log.parquet"
    (tmp_path / "config.json").unlink()
    interaction_log.write(dataclasses.replace(log, report=report), saved)
    anytime = (f"--log={saved}", "--policy=uniform", "--anytime", "--largest_weight=1", "--max_rows_per_client=4")
    with contextlib.nullcontext() if looks else pytest.raises(UsageError, match="--drop_out"):
        found = evaluated(tmp_path / "out", *anytime, "--nomodel", "--draws=0")
        assert found["anytime"]["looks"] == looks
