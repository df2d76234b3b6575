"""scripts.evaluate_policy as a program: on tables and on a run's log."""

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
from tests.bandits.evaluation.tables_of_logs import COLUMNS, by_estimator, estimate, evaluated, write_log

PYTHON_COLUMNS = dict(flag.removeprefix("--").split("=") for flag in COLUMNS)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """The folder of a run on digits that logs its interactions."""
    root = tmp_path_factory.mktemp("runs")
    flags = (
        "--task_type=digits", "--total_rounds=5", "--clients_per_round=4", "--bandits_deploy_freq=2",
        "--bandits_temperature=0.5", "--log_interactions", f"--root_output_dir={root}", "--experiment_name=run",
    )  # fmt: skip
    frame.program(run_federated.STUDY, frame.flag_set(run_federated.STUDY).parse(["run_federated", *flags]))
    return root / "run"


class Predicting(results.Run):
    """A run that chooses blue more often in warm contexts."""

    def predict(self, frame):
        blue = np.where(frame.warm == 1, 0.75, 0.25)
        return pd.DataFrame({("probability", "blue"): blue, ("probability", "red"): 1 - blue}, index=frame.index)


def test_a_table_by_weights_alone(tmp_path, capsys):
    table = write_log(tmp_path / "log.csv")
    flags = (f"--log={tmp_path}/log.csv", *COLUMNS, "--ignore_columns=played")
    found = evaluated(tmp_path / "out", *flags, "--policy=constant:blue", "--nomodel", "--clip=3", "--draws=20")
    weights = (table.shown == "blue") / table.p
    values = by_estimator(found)
    assert list(values) == ["logged", "ips", "snips", "clipped_ips"]
    assert values["logged"] == pytest.approx(table.paid.mean())
    assert values["ips"] == pytest.approx((weights * table.paid).mean())
    assert values["snips"] == pytest.approx((weights * table.paid).sum() / weights.sum())
    assert values["clipped_ips"] == pytest.approx((weights.clip(upper=3) * table.paid).mean())
    assert by_estimator(found, "difference")["ips"] == pytest.approx(values["ips"] - values["logged"])
    assert found["overlap"]["effective_sample_size"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert found["headline"]["estimator"] == "snips"
    printed = capsys.readouterr().out
    assert printed.startswith("constant:blue earns more than the log's policy: +")
    assert f"by SNIPS: {values['snips']:.2f} (95% CI " in printed
    clipped = estimate(found, "clipped_ips")
    assert clipped["bias"] == "unknown"  # Weights of 4 are clipped to 3.
    assert all(clipped[name] is None for name in ("low", "high", "difference", "difference_low", "bootstrap_high"))
    line = next(line for line in printed.splitlines() if line.startswith("clipped IPS "))
    assert line.split()[2:] == ["clip=3", f"{values['clipped_ips']:.3g}", "(biased,", "no", "interval)"]
    assert list(values) == list(pd.read_csv(tmp_path / "out" / "estimates.csv").estimator)
    assert "data:image/png;base64," in (tmp_path / "out" / "evaluation.html").read_text()


@pytest.mark.slow
def test_policies_have_folders_of_their_own_and_no_evaluation_is_overwritten(tmp_path, monkeypatch):
    write_log(tmp_path / "log.csv")
    monkeypatch.chdir(tmp_path)
    quick = ("--nomodel", "--draws=0")

    def evaluate(policy, *flags):
        words = (f"--log={tmp_path}/log.csv", *COLUMNS, f"--policy={policy}", *flags)
        command.program(command.define().parse(["evaluate_policy", *words]))

    for policy in ("uniform", "constant:blue", "column:played"):
        evaluate(policy, *quick)
    evaluate("uniform", "--private", "--largest_weight=5", "--max_rows_per_client=20", "--noise_multiplier=9")
    written = {path.parent.name: path.read_bytes() for path in (tmp_path / "evaluation").glob("*/evaluation.json")}
    assert set(written) == {"uniform", "constant_blue", "column_played", "uniform_private"}
    with pytest.raises(UsageError, match=r"evaluation/uniform already holds estimates.csv, .*: name another folder"):
        evaluate("uniform", *quick)
    assert (tmp_path / "evaluation" / "uniform" / "evaluation.json").read_bytes() == written["uniform"]


@pytest.mark.slow
def test_a_runs_model_is_evaluated_with_any_exploration(run_folder, tmp_path):
    task = registry.load(TaskOptions(task_type="digits"))
    parts = [task.clients.load(client) for client in range(20)]
    sizes = [len(part.labels) for part in parts]
    labels = np.concatenate([part.labels for part in parts])
    actions = np.random.default_rng(0).integers(10, size=len(labels))
    columns = {"actions": actions, "rewards": actions == labels, "propensities": np.full(len(labels), 0.1)}
    columns["rows"] = np.concatenate([np.arange(size) for size in sizes])
    contexts = np.concatenate([task.normalize(part.features) for part in parts])
    names, owners = list(task.clients.client_ids[:20]), np.repeat(range(20), sizes)
    for name, features in (("log", contexts), ("bare", None)):
        log = interaction_log.ordered(names, owners, features, [*map(str, range(10))], columns)
        interaction_log.write(log, tmp_path / f"{name}.parquet")
    of_run = (f"--policy=run:{run_folder}", "--nomodel", "--draws=0")
    greedy = evaluated(tmp_path / "a", f"--log={tmp_path}/log.parquet", *of_run, "--bandits_type=greedy")
    weights = np.load(run_folder / "model" / "weights.npz")
    hidden = np.maximum(contexts.reshape(len(labels), -1) @ weights["dense_0/kernel"] + weights["dense_0/bias"], 0)
    best = (hidden @ weights["dense_1/kernel"] + weights["dense_1/bias"]).argmax(axis=1)
    expected = 10 * ((best == actions) * (actions == labels)).mean()
    assert expected > 0
    assert by_estimator(greedy)["ips"] == pytest.approx(expected)
    own = evaluated(tmp_path / "b", f"--log={tmp_path}/log.parquet", *of_run)
    assert by_estimator(own) == by_estimator(evaluated(tmp_path / "c", f"--log={tmp_path}/bare.parquet", *of_run))
    assert by_estimator(own)["ips"] != pytest.approx(expected)


@pytest.mark.slow
def test_the_log_of_a_run_gives_its_own_policy_its_mean_reward(run_folder, tmp_path):
    rows = pd.read_csv(run_folder / "metrics.csv")
    mean = np.average(rows[metrics.ROUND_REWARD], weights=rows[metrics.EXAMPLES])
    saved = tmp_path / "log.parquet"
    own = (f"--log={run_folder}", "--policy=logged", "--nomodel", "--draws=0", f"--save_log={saved}")
    found = evaluated(tmp_path / "a", *own)
    for name in ("logged", "ips", "snips"):
        assert by_estimator(found)[name] == pytest.approx(mean, abs=1e-6)
    assert found["overlap"]["largest_weight"] == 1
    by_propensities = by_estimator(evaluated(tmp_path / "b", f"--log={saved}", "--policy=logged", "--draws=0"))
    assert by_propensities["ips"] == by_propensities["logged"] == pytest.approx(mean, abs=1e-9)
    task = registry.load(TaskOptions(task_type="logged", data_file=str(saved)))
    assert task.report["rows"] == found["rows"]
    assert task.report["log"]["cohorts"]["client_selection"] == "uniform"
    findings = evaluated(tmp_path / "d", f"--log={run_folder}", f"--policy=run:{run_folder}", "--nomodel")
    (finding,) = [finding for finding in findings["findings"] if finding["name"] == "policy"]
    assert "was trained on this log, so its estimates are optimistically biased" in finding["text"]
    with pytest.raises(UsageError, match=r"rounds_\w+.parquet is only a part of a run's log: give the run's folder"):
        evaluated(tmp_path / "c", f"--log={next((run_folder / 'interactions').iterdir())}", "--policy=logged")
    with pytest.raises(UsageError, match=r"If it is a run's folder, scripts\.evaluate_policy --log="):
        registry.load(TaskOptions(task_type="logged", data_file=str(run_folder)))


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--save_log={}/link.csv", "--save_log: .*link.csv holds the log that is evaluated"),
        ("--save_log={}/interactions/rounds_00000001_00000002.parquet", "holds the log that is evaluated"),
        ("--output_dir={}", "--output_dir: .* already holds estimates.csv, .* not overwritten: name another folder"),
    ],
)
def test_the_log_itself_is_never_overwritten(tmp_path, flag, words):
    write_log(tmp_path / "estimates.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "estimates.csv")
    (tmp_path / "interactions").mkdir()
    before = (tmp_path / "estimates.csv").read_bytes()
    flags = (f"--log={tmp_path}/estimates.csv", *COLUMNS, "--policy=uniform", flag.format(tmp_path))
    with pytest.raises(UsageError, match=words):
        evaluated(tmp_path / "out", *flags)
    assert (tmp_path / "estimates.csv").read_bytes() == before


def test_from_python_a_run_chooses_by_its_own_predictions(tmp_path, capsys):
    frame = write_log(tmp_path / "log.csv").sample(frac=1, random_state=0)  # Rows are matched by their index.
    (tmp_path / "mine").mkdir()
    run = Predicting(tmp_path / "mine", frame, {"data_file": frames.PREFIX + frames.checksum(frame)}, "", {})
    more = {"ignore_columns": "played", "model": False, "draws": 0, **PYTHON_COLUMNS}
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
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / "model" / "weights.npz").touch()
    frame = write_log(tmp_path / "log.csv")
    run = Predicting(tmp_path / "run", frame, {}, "", {})
    private = {"private": True, "largest_weight": 3, "max_rows_per_client": 12, "noise_multiplier": 2, **PYTHON_COLUMNS}
    with pytest.raises(UsageError, match="give privacy_ledger"):
        bandits.evaluate(log=frame, policy="uniform", **private)
    ledger = {"privacy_ledger": str(tmp_path / "ledger")}
    with pytest.raises(UsageError, match="--policy_is_public"):  # The run has no guarantee.
        bandits.evaluate(log=frame, policy=run, **private, **ledger)
    bandits.evaluate(log=frame, policy=run, policy_is_public=True, **private, **ledger)
    assert len((tmp_path / "ledger").read_text().splitlines()) == 1
