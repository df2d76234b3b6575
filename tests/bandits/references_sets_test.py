"""Simple policies on tables and logs whose rows offer sets of actions."""

import numpy as np
import pytest

from bandits import references
from data.tasks import registry
from data.tasks.options import TaskOptions
from tests.bandits.evaluation import logs_of_sets


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def log(folder):
    """A log, and as tables: every offered action's reward in long form, and the best offered action of each row."""
    log = logs_of_sets.write(folder)
    rows, actions = np.nonzero(log.offered)
    long = log.frame.loc[rows, ["who", "warm"]].assign(decision=rows, paid=log.expected[rows, actions])
    long = long.reset_index(drop=True).join(log.actions.iloc[actions].reset_index(drop=True))
    long.to_csv(folder / "long.csv", index=False)
    best = np.where(log.offered, log.expected, -np.inf).argmax(axis=1)
    wide = log.frame.drop(columns=["item", "paid", "p"]).assign(best=log.actions.id[best].to_numpy())
    wide.to_csv(folder / "wide.csv", index=False)
    return log


def policies_of(folder, file: str, **columns) -> tuple[references.References, int]:
    kind = columns.pop("task_type", "tabular")
    task = registry.load(TaskOptions(kind, data_file=str(folder / file), client_column="who", **columns))
    return references.simple_policies(task, task.rewards["exact"]), task


def held_out(log, task) -> np.ndarray:
    """Rows of the log that are held out."""
    return np.flatnonzero(log.frame.who.isin(task.held_out.client_ids).to_numpy())


def test_a_table_of_rewards_in_long_form(folder, log):
    found, task = policies_of(folder, "long.csv", decision_column="decision", reward_column="paid", action_column="id")
    rows = held_out(log, task)
    expected, offered = log.expected[rows], log.offered[rows]
    uniform = np.where(offered, expected, 0).sum(axis=1) / offered.sum(axis=1)
    assert found.rewards[references.UNIFORM].mean == pytest.approx(uniform.mean(), abs=1e-5)
    # Rewards are linear in the features and products, so the central model finds the best action.
    best = np.where(offered, expected, -np.inf).max(axis=1)
    assert found.rewards[references.LINEAR].mean == pytest.approx(best.mean(), abs=1e-3)
    train = np.setdiff1d(np.arange(len(log.frame)), rows)
    means = np.where(log.offered[train], log.expected[train], 0).sum(axis=0), log.offered[train].sum(axis=0)
    prior = means[0].sum() / means[1].sum()
    ranking = (means[0] + 10 * prior) / (means[1] + 10)
    fixed = np.where(offered, ranking, -np.inf).argmax(axis=1)
    assert found.rewards[references.FIXED].mean == pytest.approx(expected[np.arange(len(rows)), fixed].mean(), abs=1e-5)


@pytest.mark.parametrize("with_features", [True, False], ids=["features", "availability"])
def test_a_table_with_the_right_action_and_the_offered_ones(folder, log, with_features):
    more = {"action_table": str(folder / "actions.csv")} if with_features else {}
    found, task = policies_of(folder, "wide.csv", label_column="best", offered_column="items", **more)
    sizes = log.offered[held_out(log, task)].sum(axis=1)
    assert found.rewards[references.UNIFORM].mean == pytest.approx((1 / sizes).mean(), abs=1e-6)
    assert found.linear_gain.low > 0


@pytest.mark.parametrize("with_features", [True, False], ids=["features", "availability"])
@pytest.mark.parametrize("learn_from", ["simulator", "dr"])
def test_a_log(folder, log, with_features, learn_from):
    more = {"action_table": str(folder / "actions.csv")} if with_features else {}
    columns = {"action_column": "item", "reward_column": "paid", "propensity_column": "p", "offered_column": "items"}
    found, task = policies_of(folder, "log.csv", task_type="logged", learn_from=learn_from, **columns, **more)
    rows = held_out(log, task)
    expected = np.where(log.offered[rows], log.expected[rows], 0).sum(axis=1) / log.offered[rows].sum(axis=1)
    interval = found.rewards[references.UNIFORM]
    assert interval.low - 0.02 < expected.mean() < interval.high + 0.02
    assert found.linear_gain.low > 0
    if learn_from == "simulator":
        scores = references.simulator_scores(task.held_out, task.clients)
        assert not any(score.is_contradicted for score in scores)
