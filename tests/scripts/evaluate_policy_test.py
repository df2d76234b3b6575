"""scripts.evaluate_policy as a program: on tables and on a run's log."""

import json

import numpy as np
import pandas as pd
import pytest

import bandits
from bandits import metrics, run_federated
from data import frames, interaction_log
from data.errors import UsageError
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization.study import frame, results
from scripts import evaluate_policy as command
from tests.bandits.evaluation.tables_of_logs import COLUMNS, by_estimator, write_log


def _evaluated(folder, *flags):
    command.program(command.define().parse(["evaluate_policy", f"--output_dir={folder}", *flags]))
    return json.loads((folder / "evaluation.json").read_text())


def _estimate(found, name):
    (row,) = [row for row in found["estimates"] if row["estimator"] == name]
    return row


def test_a_table_by_weights_alone(tmp_path, capsys):
    table = write_log(tmp_path / "log.csv")
    flags = (f"--log={tmp_path}/log.csv", *COLUMNS, "--ignore_columns=played")
    found = _evaluated(tmp_path / "out", *flags, "--policy=constant:blue", "--nomodel", "--clip=3", "--draws=500")
    weights = (table.shown == "blue") / table.p
    values = by_estimator(found)
    assert list(values) == ["logged", "ips", "snips", "clipped_ips"]
    assert values["logged"] == pytest.approx(table.paid.mean())
    assert values["ips"] == pytest.approx((weights * table.paid).mean())
    assert values["snips"] == pytest.approx((weights * table.paid).sum() / weights.sum())
    assert values["clipped_ips"] == pytest.approx((weights.clip(upper=3) * table.paid).mean())
    assert by_estimator(found, "difference")["ips"] == pytest.approx(values["ips"] - values["logged"])
    assert found["overlap"]["effective_sample_size"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert found["overlap"]["largest_weight"] == 4
    assert found["headline"]["estimator"] == "snips"
    for row in found["estimates"][:3]:
        assert row["low"] < row["value"] < row["high"]
        assert row["bootstrap_low"] == pytest.approx(row["low"], abs=0.15 * (row["high"] - row["low"]))
    printed = capsys.readouterr().out
    assert printed.startswith("constant:blue earns more than the log's policy: +")
    assert f"by SNIPS: {values['snips']:.2f} (95% CI " in printed
    clipped = _estimate(found, "clipped_ips")
    assert clipped["bias"] == "unknown"  # Weights of 4 are clipped to 3.
    assert all(clipped[name] is None for name in ("low", "high", "difference", "difference_low", "bootstrap_high"))
    line = next(line for line in printed.splitlines() if line.startswith("clipped IPS "))
    assert line.split()[2:] == ["clip=3", f"{values['clipped_ips']:.3g}", "(biased,", "no", "interval)"]
    assert [row["estimator"] for row in found["estimates"]] == list(
        pd.read_csv(tmp_path / "out" / "estimates.csv").estimator
    )
    page = (tmp_path / "out" / "evaluation.html").read_text()
    assert "SNIPS" in page
    assert "data:image/png;base64," in page


def _timed(path, clients=60, rows=10):
    """A log of two equally likely actions whose better one changes halfway, on days 1 to 10 of each client."""
    generator = np.random.default_rng(0)
    day = np.tile(np.arange(1, rows + 1), clients)
    is_blue = generator.integers(2, size=clients * rows) == 1
    frame = pd.DataFrame(
        {
            "who": np.repeat([f"user {number}" for number in range(clients)], rows),
            "shown": np.where(is_blue, "blue", "red"),
            "paid": (generator.random(clients * rows) < np.where(is_blue == (day > rows / 2), 0.8, 0.2)).astype(int),
            "p": 0.5,
            "day": [f"2023-01-{each:02d}" for each in day],
        }
    )
    frame.to_csv(path, index=False)
    return frame


@pytest.mark.slow
def test_a_best_action_that_changes_halfway_is_warned_of_and_both_parts_can_be_evaluated(tmp_path, capsys):
    table = _timed(tmp_path / "log.csv")
    flags = (f"--log={tmp_path}/log.csv", *COLUMNS, "--policy=constant:blue", "--nomodel", "--draws=0")
    found = _evaluated(tmp_path / "all", *flags, "--time_column=day")
    printed = capsys.readouterr().out
    assert printed.startswith("No significant difference between constant:blue and the log's policy")
    warning, other = [finding for finding in found["findings"] if finding["name"] == "change"]
    assert warning["is_warning"]
    assert not other["is_warning"]
    assert "Warning: Significant change of the difference of constant:blue from the log" in printed
    assert "with --until=2023-01-07 and --from=2023-01-07" in printed
    late = _evaluated(tmp_path / "late", *flags, "--time_column=day", "--from=2023-01-08")
    part = table[table.day >= "2023-01-08"]
    assert late["rows"] == len(part)
    assert by_estimator(late)["snips"] == pytest.approx(part.paid[part.shown == "blue"].mean())
    assert not any(finding["is_warning"] for finding in late["findings"] if finding["name"] == "change")


def test_private_values_of_a_selection_are_those_of_the_selected_rows(tmp_path, capsys):
    table = _timed(tmp_path / "log.csv")
    table["paid"] = table.paid.astype(object).where(table.day != "2023-01-09", None)
    table.to_csv(tmp_path / "log.csv", index=False)
    bounds = ("--largest_weight=2", "--max_rows_per_client=10", "--noise_multiplier=1e-6", "--policy=constant:blue")
    selection = ("--time_column=day", "--from=2023-01-08", "--unobserved_rewards=drop")
    found = _evaluated(tmp_path / "out", f"--log={tmp_path}/log.csv", *COLUMNS, "--private", *bounds, *selection)
    part = table[(table.day >= "2023-01-08") & table.paid.notna()]
    expected = (2 * (part.shown == "blue") * part.paid).mean()
    assert by_estimator(found)["ips"] == pytest.approx(expected, abs=0.01)
    printed = capsys.readouterr().out
    assert "missing independently of the reward" in printed
    assert "changes over time. Whoever holds the data can" in printed
    assert f"{len(part):,} rows" not in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paid", "flags", "missing", "why"),
    [
        ({"red": 0, "blue": 0}, (), 3, "no logged reward differs from 0"),
        ({"red": 2, "blue": 0}, (), 2, "no logged action that the policy chooses earned a reward"),
        (
            {"red": 1, "blue": 1},
            ("--estimators=clipped_ips", "--clip=2"),
            0,
            "of ips, snips and dr, and the others are biased",
        ),
        (
            {"red": 1, "blue": 1},
            ("--action_names=green", "--policy=constant:green"),
            2,
            "chooses none of the logged actions",
        ),
    ],
)
def test_without_a_headline_the_reason_is_printed(tmp_path, capsys, paid, flags, missing, why):
    table = write_log(tmp_path / "log.csv")
    table.assign(paid=table.shown.map(paid)).to_csv(tmp_path / "log.csv", index=False)
    flags = (f"--log={tmp_path}/log.csv", *COLUMNS, "--nomodel", "--draws=0", "--policy=constant:blue", *flags)
    found = _evaluated(tmp_path / "out", *flags)
    assert found["headline"] is None
    assert sum(row["value"] is row["low"] is None for row in found["estimates"]) == missing
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith("The value of ")
    assert line.endswith(f"{why}.")


@pytest.mark.slow
def test_a_model_gives_all_estimators(tmp_path):
    write_log(tmp_path / "log.csv")
    flags = (f"--log={tmp_path}/log.csv", *COLUMNS, "--ignore_columns=played", "--policy=uniform", "--shrinkage=4")
    quick = ("--model_rounds=40", "--model_server_learning_rate=0.05", "--draws=20", "--tau=1", "--clip=2")
    found = _evaluated(tmp_path / "out", *flags, *quick)
    values = by_estimator(found)
    assert list(values) == ["logged", "ips", "snips", "clipped_ips", "dm", "dr", "switch_dr", "dros"]
    truth = 0.5 * (0.3 + 0.25) + 0.5 * 0.4
    assert abs(values["dr"] - truth) < 0.15
    assert found["headline"]["estimator"] == "dr"
    # Weights are 2 and 2/3: tau binds, the clip does not.
    assert [row["estimator"] for row in found["estimates"] if row["bias"]] == ["dm", "switch_dr", "dros"]


@pytest.mark.slow
def test_policies_have_folders_of_their_own_and_no_evaluation_is_overwritten(tmp_path, monkeypatch):
    write_log(tmp_path / "log.csv")
    monkeypatch.chdir(tmp_path)
    flags = [f"--log={tmp_path}/log.csv", *COLUMNS, "--nomodel", "--draws=0"]  # The last two not with --private.
    for policy in ("uniform", "constant:blue", "column:played"):
        command.program(command.define().parse(["evaluate_policy", *flags, f"--policy={policy}"]))
    written = {path.parent.name: path.read_bytes() for path in (tmp_path / "evaluation").glob("*/evaluation.json")}
    assert set(written) == {"uniform", "constant_blue", "column_played"}
    private = ("--private", "--largest_weight=5", "--max_rows_per_client=20", "--noise_multiplier=9")
    command.program(command.define().parse(["evaluate_policy", *flags[:-2], "--policy=uniform", *private]))
    assert (tmp_path / "evaluation" / "uniform_private" / "evaluation.json").is_file()
    with pytest.raises(UsageError, match=r"evaluation/uniform holds estimates.csv, .*: name another folder"):
        command.program(command.define().parse(["evaluate_policy", *flags, "--policy=uniform"]))
    assert (tmp_path / "evaluation" / "uniform" / "evaluation.json").read_bytes() == written["uniform"]


_INTERVALS = ("value", "low", "high", "difference", "difference_low", "difference_high")


@pytest.fixture(scope="module", params=[0.004, 0.3])
def unit_log(request, tmp_path_factory):
    """A log with rewards 0 and 1 that are rare or not, and its evaluation by all estimators."""
    folder, generator = tmp_path_factory.mktemp("unit"), np.random.default_rng(int(1000 * request.param))
    table = write_log(folder / "log.csv", clients=60, rows=20)
    table["paid"] = (generator.random(len(table)) < request.param * (1 + table.warm)).astype(float)
    table.to_csv(folder / "log.csv", index=False)
    return table, _evaluated(folder / "out", f"--log={folder}/log.csv", *COLUMNS, *_ALL)


_ALL = (
    "--policy=constant:blue", "--ignore_columns=played", "--model_rounds=5", "--draws=50", "--tau=2", "--clip=2",
    "--shrinkage=4", "--estimators=ips,snips,clipped_ips,dm,dr,switch_dr,dros",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "offset"), [(2, -1), (50, 1000), (-1, 1), (-300, 40)])
def test_rewards_and_bounds_that_are_transformed_together_change_no_conclusion(
    tmp_path, unit_log, factor, offset, capsys
):
    table, plain = unit_log
    table.assign(paid=offset + factor * table.paid).to_csv(tmp_path / "log.csv", index=False)
    low, high = sorted((offset, offset + factor))
    bounds = [f"--reward_bounds={low},{high}"] if factor not in (2, -1) else []  # Others are recognized.
    found = _evaluated(tmp_path / "out", f"--log={tmp_path}/log.csv", *COLUMNS, *_ALL, *bounds)
    assert found["reward_bounds"] == [low, high]
    assert found["headline"] == plain["headline"]
    for before, after in zip(plain["estimates"], found["estimates"], strict=True):
        if factor < 0 and before["estimator"] in ("ips", "clipped_ips"):
            continue  # They count from the lower bound.
        names = _INTERVALS if factor > 0 else [_INTERVALS[place] for place in (0, 2, 1, 3, 5, 4)]
        for name, mirrored in zip(_INTERVALS, names, strict=True):
            expected = before[mirrored]
            if expected is not None:
                expected = expected * factor + (0 if "difference" in name else offset)
                expected = pytest.approx(expected, abs=1e-4 * abs(factor))
            assert after[name] == expected, (before["estimator"], name)
        kinds = ("estimator", "parameter", "bias", "interval", "difference_interval")
        assert [after[kind] for kind in kinds] == [before[kind] for kind in kinds]
    weights = np.where(table.shown == "blue", 4, 0)
    ips = low + (high - low) * (weights * (table.paid if factor > 0 else 1 - table.paid)).mean()
    assert by_estimator(found)["ips"] == pytest.approx(ips)


def test_an_action_without_a_success_is_not_significantly_worse(tmp_path, capsys):
    table = write_log(tmp_path / "log.csv", clients=100)
    table["paid"] = np.where((table.shown == "red") & (np.arange(len(table)) % 100 == 0), 1, -1)
    table.to_csv(tmp_path / "log.csv", index=False)
    flags = (f"--log={tmp_path}/log.csv", *COLUMNS, "--policy=constant:blue", "--nomodel", "--draws=20")
    found = _evaluated(tmp_path / "out", *flags)
    printed = capsys.readouterr().out
    assert printed.startswith("No significant difference between constant:blue and the log's policy: -0.0")
    assert "Finite-sample intervals (betting, rewards from -1 to 1): " in printed
    snips = _estimate(found, "snips")
    assert (snips["interval"], snips["difference_interval"]) == ("betting", "betting")
    assert snips["value"] == snips["low"] == -1 < snips["high"] < -0.7
    table.assign(paid=3.0 * table.paid).to_csv(tmp_path / "log.csv", index=False)
    found = _evaluated(tmp_path / "unknown", *flags)
    printed = capsys.readouterr().out
    assert printed.startswith("The difference between constant:blue and the log's policy cannot be estimated. No inter")
    assert "--reward_bounds=LOW,HIGH" in printed.splitlines()[0]
    assert _estimate(found, "snips")["difference_low"] is None


@pytest.mark.slow
@pytest.mark.parametrize(("draws", "words"), [(200, "intervals come from the bootstrap"), (0, "leave out --draws=0")])
def test_few_effective_clients_have_the_bootstraps_intervals_and_a_warning(tmp_path, capsys, draws, words):
    table = write_log(tmp_path / "log.csv", clients=60)
    table[(table.who <= "user 12") | (table.index % 12 == 0)].to_csv(tmp_path / "log.csv", index=False)
    flags = (f"--log={tmp_path}/log.csv", *COLUMNS, "--policy=column:played", f"--draws={draws}")
    found = _evaluated(tmp_path / "out", *flags)
    snips = _estimate(found, "snips")
    assert (snips["low"] == snips["bootstrap_low"]) == bool(draws)
    assert snips["difference_low"] < snips["difference"] < snips["difference_high"]
    assert [finding["is_warning"] for finding in found["findings"] if finding["name"] == "few clients"] == [True]
    assert words in capsys.readouterr().out
    table = write_log(tmp_path / "log.csv")
    pd.concat([table, *[table[table.who == "user 3"]] * 90]).to_csv(tmp_path / "log.csv", index=False)
    _evaluated(tmp_path / "one", *flags)
    assert "one client dominates" in capsys.readouterr().out


@pytest.mark.slow
def test_a_runs_model_is_evaluated_with_any_exploration(tmp_path):
    flags = [
        "--task_type=digits", "--total_rounds=2", "--bandits_deploy_freq=1", "--bandits_temperature=0.5",
        f"--root_output_dir={tmp_path}", "--experiment_name=run",
    ]  # fmt: skip
    frame.program(run_federated.STUDY, frame.flag_set(run_federated.STUDY).parse(["run_federated", *flags]))
    task = registry.load(TaskOptions(task_type="digits"))
    generator = np.random.default_rng(0)
    parts = [task.clients.load(client) for client in range(20)]
    labels = np.concatenate([part.labels for part in parts])
    actions = generator.integers(10, size=len(labels))
    contexts = np.concatenate([task.normalize(part.features) for part in parts])
    log = interaction_log.ordered(
        list(task.clients.client_ids[:20]),
        np.repeat(range(20), [len(part.labels) for part in parts]),
        contexts,
        [str(number) for number in range(10)],
        {
            "actions": actions,
            "rewards": (actions == labels).astype(float),
            "propensities": np.full(len(labels), 0.1),
            "rows": np.concatenate([np.arange(len(part.labels)) for part in parts]),
        },
    )
    interaction_log.write(log, tmp_path / "log.parquet")
    interaction_log.write(interaction_log.dataclasses.replace(log, contexts=None), tmp_path / "bare.parquet")
    of_run = (f"--policy=run:{tmp_path}/run", "--nomodel", "--draws=0")
    greedy = _evaluated(tmp_path / "a", f"--log={tmp_path}/log.parquet", *of_run, "--bandits_type=greedy")
    weights = np.load(tmp_path / "run" / "model" / "weights.npz")
    hidden = np.maximum(contexts.reshape(len(labels), -1) @ weights["dense_0/kernel"] + weights["dense_0/bias"], 0)
    best = (hidden @ weights["dense_1/kernel"] + weights["dense_1/bias"]).argmax(axis=1)
    expected = 10 * ((best == actions) * (actions == labels)).mean()
    assert expected > 0
    assert by_estimator(greedy)["ips"] == pytest.approx(expected)
    own = _evaluated(tmp_path / "b", f"--log={tmp_path}/log.parquet", *of_run)
    bare = _evaluated(tmp_path / "c", f"--log={tmp_path}/bare.parquet", *of_run)
    assert by_estimator(own) == by_estimator(bare)
    assert by_estimator(own)["ips"] != pytest.approx(expected)


@pytest.mark.slow
def test_the_log_of_a_run_gives_its_own_policy_its_mean_reward(tmp_path):
    flags = [
        "--task_type=digits", "--total_rounds=5", "--clients_per_round=4", "--bandits_deploy_freq=2",
        "--bandits_temperature=0.5", "--log_interactions", f"--root_output_dir={tmp_path}", "--experiment_name=run",
    ]  # fmt: skip
    frame.program(run_federated.STUDY, frame.flag_set(run_federated.STUDY).parse(["run_federated", *flags]))
    rows = pd.read_csv(tmp_path / "run" / "metrics.csv")
    mean = np.average(rows[metrics.ROUND_REWARD], weights=rows[metrics.EXAMPLES])
    saved = tmp_path / "log.parquet"
    own = (f"--log={tmp_path}/run", "--policy=logged", "--nomodel", "--draws=0", f"--save_log={saved}")
    found = _evaluated(tmp_path / "a", *own)
    for name in ("logged", "ips", "snips"):
        assert by_estimator(found)[name] == pytest.approx(mean, abs=1e-6)
    assert found["overlap"]["largest_weight"] == 1
    by_propensities = _evaluated(tmp_path / "b", f"--log={saved}", "--policy=logged", "--draws=0")
    assert (
        by_estimator(by_propensities)["ips"] == by_estimator(by_propensities)["logged"] == pytest.approx(mean, abs=1e-9)
    )
    task = registry.load(TaskOptions(task_type="logged", data_file=str(saved)))
    assert task.report["rows"] == found["rows"]
    assert task.report["log"]["cohorts"]["client_selection"] == "uniform"
    findings = _evaluated(tmp_path / "d", f"--log={tmp_path}/run", f"--policy=run:{tmp_path}/run", "--nomodel")
    (finding,) = [finding for finding in findings["findings"] if finding["name"] == "policy"]
    assert "was trained on this log, so its estimates are optimistically biased" in finding["text"]
    with pytest.raises(UsageError, match=r"rounds_\w+.parquet is a part of a run's log: give the run's folder"):
        _evaluated(tmp_path / "c", f"--log={next((tmp_path / 'run' / 'interactions').iterdir())}", "--policy=logged")
    with pytest.raises(
        UsageError, match=r"is a folder, not a file\. If it is a run\'s, scripts\.evaluate_policy --log="
    ):
        registry.load(TaskOptions(task_type="logged", data_file=str(tmp_path / "run")))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--save_log={0}/estimates.csv",), "--save_log: .*estimates.csv holds the log that is read"),
        (("--save_log={0}/link.csv",), "--save_log: .*link.csv holds the log that is read"),
        (("--save_log={0}/interactions/rounds_00000001_00000002.parquet",), "holds the log that is read"),
        (("--output_dir={0}",), "--output_dir: .* holds estimates.csv, .* not overwritten: name another folder"),
    ],
)
def test_the_log_itself_is_never_overwritten(tmp_path, flags, words):
    write_log(tmp_path / "estimates.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "estimates.csv")
    (tmp_path / "interactions").mkdir()
    before = (tmp_path / "estimates.csv").read_bytes()
    given = [flag.format(tmp_path) for flag in flags]
    with pytest.raises(UsageError, match=words):
        _evaluated(tmp_path / "out", f"--log={tmp_path}/estimates.csv", *COLUMNS, "--policy=uniform", *given)
    assert (tmp_path / "estimates.csv").read_bytes() == before


def test_from_python_a_run_chooses_by_its_own_predictions(tmp_path, capsys):
    class Predicting(results.Run):
        def predict(self, frame):
            blue = np.where(frame.warm == 1, 0.75, 0.25)
            parts = {("probability", "blue"): blue, ("probability", "red"): 1 - blue}
            return pd.DataFrame(parts, index=frame.index)

    frame = write_log(tmp_path / "log.csv").sample(frac=1, random_state=0)  # Rows are matched by their index.
    (tmp_path / "mine").mkdir()
    run = Predicting(tmp_path / "mine", frame, {"data_file": frames.PREFIX + frames.checksum(frame)}, "", {})
    columns = dict(flag.removeprefix("--").split("=") for flag in COLUMNS)
    more = {"ignore_columns": "played", "model": False, "draws": 0, **columns}
    estimates = bandits.evaluate(log=frame, policy=run, **more).set_index("estimator").value
    blue = np.where(frame.warm == 1, 0.75, 0.25)
    chosen = np.where(frame.shown == "blue", blue, 1 - blue)
    assert estimates["ips"] == pytest.approx((chosen / frame.p * frame.paid).mean())
    printed = capsys.readouterr()
    assert "Warning: The policy is a model that was trained on this log" in printed.err
    assert "run:mine" in printed.out.splitlines()[0]
    assert "Log: the DataFrame, " in printed.out
    for words in ("policy: red", "Written", "column:policy", str(tmp_path), "/tmp"):
        assert words not in printed.out


def test_from_python_a_private_evaluation_counts_the_runs_model_and_keeps_its_ledger(tmp_path):
    class Predicting(results.Run):
        def predict(self, frame):
            return pd.DataFrame({("probability", name): [0.5] * len(frame) for name in ("blue", "red")}, frame.index)

    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / "model" / "weights.npz").touch()
    frame = write_log(tmp_path / "log.csv")
    run = Predicting(tmp_path / "run", frame, {}, "", {})
    columns = dict(flag.removeprefix("--").split("=") for flag in COLUMNS)
    private = {"private": True, "largest_weight": 3, "max_rows_per_client": 12, "noise_multiplier": 2, **columns}
    with pytest.raises(UsageError, match="give privacy_ledger"):
        bandits.evaluate(log=frame, policy="uniform", **private)
    ledger = {"privacy_ledger": str(tmp_path / "ledger")}
    with pytest.raises(UsageError, match="--policy_is_public"):  # The run has no guarantee.
        bandits.evaluate(log=frame, policy=run, **private, **ledger)
    bandits.evaluate(log=frame, policy=run, policy_is_public=True, **private, **ledger)
    assert len((tmp_path / "ledger").read_text().splitlines()) == 1


def _printed_and_written(folder, capsys, *flags):
    capsys.readouterr()
    found = _evaluated(folder, *flags)
    return capsys.readouterr().out, found


@pytest.mark.slow
def test_a_column_from_after_the_action_leaves_no_conclusion(tmp_path, capsys):
    table = write_log(tmp_path / "log.csv", clients=300)
    times = table.paid.map({1: "2025-01-02 06:07:35", 0: None})
    table.assign(converted_at=times).to_csv(tmp_path / "log.csv", index=False)
    flags = (f"--log={tmp_path}/log.csv", *COLUMNS, "--ignore_columns=played", "--policy=constant:blue", "--draws=0")
    printed, found = _printed_and_written(tmp_path / "out", capsys, *flags, "--estimators=dr")
    conclusion, reason, by_weights = printed.splitlines()[:3]
    assert conclusion == "No conclusion about constant:blue."
    assert "The features of 'converted_at' depend on the chosen action" in reason
    assert "SNIPS gives 0.5" in by_weights
    assert (found["headline"], found["has_model"]) == (None, False)
    assert "converted_at" in found["refusal"]["text"]
    assert [row["estimator"] for row in found["estimates"]] == ["logged", "ips", "snips"]
    assert "  converted_at  feature  date with times" in printed
    printed, found = _printed_and_written(tmp_path / "one", capsys, *flags, "--nomodel")
    assert printed.startswith("constant:blue earns more")  # No estimator reads the column.
    assert found["refusal"] is None


@pytest.mark.slow
def test_sets_of_actions_leave_no_conclusion_about_policies_over_all_actions(tmp_path, capsys):
    table = write_log(tmp_path / "log.csv")
    table["available"] = table.shown + np.where(table.warm, "|green", "|blue|red")
    table.to_csv(tmp_path / "log.csv", index=False)
    flags = (f"--log={tmp_path}/log.csv", *COLUMNS, "--draws=0")
    printed, found = _printed_and_written(tmp_path / "out", capsys, *flags, "--policy=uniform")
    assert printed.startswith("No conclusion about uniform.")
    assert "in column 'available'" in found["refusal"]["text"]
    assert [row["estimator"] for row in found["estimates"]] == ["logged"]
    printed, found = _printed_and_written(tmp_path / "column", capsys, *flags, "--policy=column:played")
    assert found["refusal"] is None  # The probability of the logged action is enough.
    assert "in column 'available'" in printed
    assert "--policy=column" not in printed
    assert not any(one["is_warning"] for one in found["findings"] if one["name"] in ("sets of actions", "propensities"))
