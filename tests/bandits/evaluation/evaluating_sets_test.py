"""Off-policy evaluation on logs whose rows offer sets of actions, against a NumPy replica."""

import numpy as np
import pytest

from bandits.evaluation import reward_models
from data import log_table
from data.errors import UsageError
from data.schema import Schema
from scripts import evaluate_policy
from tests.bandits.evaluation import logs_of_sets
from tests.bandits.evaluation.tables_of_logs import by_estimator, evaluated, evaluated_rows

_FAST = ("--model_rounds=40", "--model_clients_per_round=20", "--model_server_learning_rate=0.05", "--draws=0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sets")


@pytest.fixture(scope="module")
def log(folder):
    return logs_of_sets.write(folder)


def _evaluated(folder, output, frame, policy="uniform", *, with_features=True):
    """Evaluates a policy on these rows without a model."""
    flags = (*logs_of_sets.flags(folder, with_features=with_features), f"--policy={policy}", "--nomodel", "--draws=0")
    return evaluated_rows(output, frame, *flags)


def target_of(log, policy: str) -> np.ndarray:
    """Probabilities of the uniform policy or of a fixed action, float64 [rows, actions]."""
    target = log.offered / log.offered.sum(axis=1, keepdims=True)
    if policy == "uniform":
        return target
    action = log.actions.id.tolist().index(policy.partition(":")[2])
    target[log.offered[:, action]] = np.eye(len(log.actions))[action]
    return target


def replica(log, target, predicted=None) -> dict[str, float]:
    """IPS, SNIPS, and DR with predicted rewards, float64 [rows, actions]."""
    rows = np.arange(len(log.frame))
    rewards, weights = log.frame.paid.to_numpy(), target[rows, log.chosen] / log.frame.p.to_numpy()
    values = {"ips": (weights * rewards).mean(), "snips": weights @ rewards / weights.sum()}
    if predicted is not None:
        missed = weights * (rewards - predicted[rows, log.chosen])
        values |= {"dm": (target * predicted).sum(axis=1).mean()}
        values |= {"dr": values["dm"] + missed.mean()}
    return values


@pytest.mark.parametrize("with_features", [True, False], ids=["features", "availability"])
@pytest.mark.parametrize("policy", ["uniform", "constant:item 3"])
def test_weighted_estimates_equal_those_of_the_replica(folder, log, tmp_path, policy, with_features):
    found = _evaluated(folder, tmp_path, log.frame, policy, with_features=with_features)
    expected = replica(log, target_of(log, policy))
    values = by_estimator(found)
    assert {name: values[name] for name in expected} == pytest.approx(expected, abs=1e-10)
    assert found["refusal"] is None


@pytest.mark.slow
@pytest.mark.parametrize("with_features", [True, False], ids=["features", "availability"])
def test_doubly_robust_estimates_equal_those_of_the_replica_and_the_model_learns(
    folder, log, tmp_path, with_features, tff_worker
):
    flags = logs_of_sets.flags(folder, with_features=with_features)
    found = evaluated(tmp_path / "out", f"--log={folder}/log.csv", *flags, "--policy=uniform", *_FAST)
    names = {name.partition("=")[0][2:]: name.partition("=")[2] for name in flags}
    read = log_table.read(f"{folder}/log.csv", Schema(**names, file_flag="--log"))
    by_slot = reward_models.predictions(evaluate_policy.define().parse(["", *_FAST]), read)
    # The log's rows are sorted by the names of clients.
    source = np.concatenate([np.flatnonzero(log.frame.who == name) for name in read.client_ids])
    predicted = np.zeros(log.offered.shape)
    columns = np.array([log.actions.id.tolist().index(name) for name in read.action_names])
    slot_actions = np.broadcast_to(read.slot_actions, by_slot.shape)
    rows, slots = np.nonzero(slot_actions >= 0)
    predicted[source[rows], columns[slot_actions[rows, slots]]] = by_slot[rows, slots]
    target = target_of(log, "uniform")
    values = by_estimator(found)
    expected = replica(log, target, predicted)
    assert {name: values[name] for name in expected} == pytest.approx(expected, abs=1e-10)
    errors = (predicted - log.expected)[log.offered]
    assert np.sqrt((errors**2).mean()) < (0.15 if with_features else 0.8) * log.expected[log.offered].std()
    truth = (target * log.expected).sum(axis=1).mean()
    assert abs(values["dr"] - truth) < 0.06


def test_output_says_what_a_fixed_action_does_where_it_is_not_offered(folder, log, tmp_path, capsys):
    _evaluated(folder, tmp_path, log.frame, "constant:item 3")
    printed = capsys.readouterr().out
    missing = (~log.offered[:, 3]).sum()
    assert f"{missing} of {len(log.frame)} rows do not offer 'item 3': there, the policy is uniform over" in printed
    size = f"{log.offered.sum(axis=1).mean():.2f}".rstrip("0")
    text = f"If every offered action was possible, this mean should be near the mean size of a row's set, {size}."
    assert text in printed


def test_private_values_are_close_to_the_replica(folder, log, tmp_path):
    bounds = ("--largest_weight=20", "--max_rows_per_client=15", "--noise_multiplier=1e-6", "--reward_bounds=-3,5")
    flags = (*logs_of_sets.flags(folder), "--policy=uniform", "--private", *bounds)
    flags += (f"--privacy_ledger={tmp_path}/ledger.jsonl", "--clip_norm=100")
    found = evaluated(tmp_path / "out", f"--log={folder}/log.csv", *flags)
    assert by_estimator(found)["snips"] == pytest.approx(replica(log, target_of(log, "uniform"))["snips"], abs=5e-3)
    assert "divided by the number of offered actions, is" in " ".join(found["sentences"])


def test_columns_of_probabilities_may_not_choose_actions_that_are_not_offered(folder, log, tmp_path):
    target = target_of(log, "uniform")
    columns = {f"pi_{name}": target[:, place] for place, name in enumerate(log.actions.id)}
    policy = f"column:{','.join(columns)}"
    found = _evaluated(folder, tmp_path, log.frame.assign(**columns), policy, with_features=False)
    assert by_estimator(found)["ips"] == pytest.approx(replica(log, target)["ips"], abs=1e-10)
    equal = log.frame.assign(**dict.fromkeys(columns, 1 / len(columns)))
    with pytest.raises(UsageError, match="chooses actions that are not offered in 600 rows"):
        _evaluated(folder, tmp_path / "other", equal, policy, with_features=False)


def test_propensities_of_a_policy_over_all_actions_are_refused(folder, log, tmp_path):
    found = _evaluated(folder, tmp_path, log.frame.assign(p=1 / len(log.actions)))
    assert found["refusal"]["name"] == "weights"
    (inverse,) = [finding for finding in found["findings"] if finding["name"] == "propensities"]
    assert inverse["is_warning"]


def test_offered_actions_that_were_never_logged_are_named(folder, log, tmp_path):
    kept = (log.frame["item"] != "item 7").to_numpy()
    found = _evaluated(folder, tmp_path, log.frame[kept])
    (support,) = [finding for finding in found["findings"] if finding["name"] == "support"]
    share = target_of(log, "uniform")[kept, 7].mean()
    assert f"does not contain 'item 7', which the policy chooses in {share:.2%} of interactions" in support["text"]
