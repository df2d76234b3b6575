"""Predictions and exports of runs on sets of actions, whose frames have the form of the run's table."""

import json

import numpy as np
import pandas as pd
import pytest

import bandits
from data.errors import UsageError
from tests.bandits import whole_runs
from tests.bandits.evaluation import logs_of_sets
from tests.bandits.evaluation.exported import predicted

pytestmark = pytest.mark.slow

SMALL = ("--clients_per_round=5", "--total_rounds=4", "--client_learning_rate=0.1", "--bandits_deploy_freq=2")
play = whole_runs.player(*SMALL, "--bandits_type=softmax", "--bandits_temperature=0.2", "--client_column=who")
LONG = ("--task_type=tabular", "--decision_column=decision", "--reward_column=paid")
WIDE = ("--task_type=tabular", "--label_column=best", "--offered_column=items")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    log = logs_of_sets.write(folder, clients=20)
    rows, actions = np.nonzero(log.offered)
    long = log.frame.loc[rows, ["who", "warm"]].assign(decision=rows, paid=log.expected[rows, actions])
    long = long.reset_index(drop=True).join(log.actions.iloc[actions].reset_index(drop=True))
    long.to_csv(folder / "long.csv", index=False)
    best = np.where(log.offered, log.expected, -np.inf).argmax(axis=1)
    wide = log.frame[["who", "warm", "items"]].assign(best=log.actions.id[best].to_numpy())
    wide.to_csv(folder / "wide.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def wide_run(tff_worker, folder):
    """A run on rows with the ids of offered actions, whose features are in a table."""
    flags = (f"--data_file={folder}/wide.csv", *WIDE, f"--action_table={folder}/actions.csv")
    return play(folder / "wide", *flags)


@pytest.fixture(scope="module")
def run_without_features(tff_worker, folder):
    return bandits.load(play(folder / "without_features", f"--data_file={folder}/wide.csv", *WIDE))


def encoded(frame, known) -> np.ndarray:
    """Numbers and categories of a frame, encoded by hand."""
    columns = []
    for name, column in known.items():
        if "categories" in column:
            columns += [frame[name] == each for each in column["categories"]]
        else:
            columns.append((frame[name] - column["mean"]) / column["deviation"])
    return np.stack(columns, axis=1).astype(float)


def linear_scores(run, long) -> np.ndarray:
    """Scores of a linear model on rows of a frame in long form, with the columns of contexts and actions."""
    known = json.loads((run / "statistics.json").read_text())
    contexts, actions = encoded(long, known["columns"]), encoded(long, known["actions"])
    products = (contexts[:, :, np.newaxis] * actions[:, np.newaxis]).reshape(len(long), -1)
    arrays = list(whole_runs.weights(run).values())
    return (np.concatenate([contexts, actions, products], axis=1) @ arrays[0])[:, 0] + arrays[1]


def check(found, scores, decisions, low=0.0, span=1.0):
    np.testing.assert_allclose(found["predicted_reward"], low + span * scores, atol=1e-5)
    exponentials = np.exp(5 * scores)
    expected = exponentials / pd.Series(exponentials).groupby(np.asarray(decisions)).transform("sum").to_numpy()
    np.testing.assert_allclose(found["probability"], expected, atol=1e-5)


def test_a_frame_in_long_form_gets_a_row_per_action_and_new_actions_work(tff_worker, folder, tmp_path):
    run = play(tmp_path, f"--data_file={folder}/long.csv", *LONG, "--action_column=id", "--reward_bounds=-3,3")
    frame = pd.read_csv(folder / "long.csv").head(60)
    frame["id"] = [f"unseen {number}" for number in range(60)]  # Ids that no training row has.
    frame = frame.sample(frac=1, random_state=0).drop(columns=["paid"])  # Rows of a decision need not be adjacent.
    found = bandits.load(run).predict(frame)
    assert found.index.equals(frame.index)
    assert found["action"].tolist() == frame["id"].tolist()
    check(found, linear_scores(run, frame), frame["decision"], low=-3.0, span=6.0)


def test_a_frame_with_offered_ids_gets_a_row_per_offered_action(wide_run, folder):
    frame = pd.read_csv(folder / "wide.csv").head(9)[["warm", "items"]].set_axis(range(100, 109))
    frame["price"] = -99.0  # The price of an action is that of --action_table.
    found = bandits.load(wide_run).predict(frame)
    ids = frame["items"].str.split("|").explode()
    assert list(zip(found.index, found["action"], strict=True)) == list(ids.items())
    long = frame.loc[ids.index, ["warm"]].assign(id=ids.to_numpy()).merge(pd.read_csv(folder / "actions.csv"), on="id")
    assert long["id"].tolist() == ids.tolist()
    check(found, linear_scores(wide_run, long), ids.index)


def test_without_features_actions_that_are_not_offered_have_probability_0(run_without_features, folder):
    frame = pd.read_csv(folder / "wide.csv").head(9)[["warm", "items"]]
    found = run_without_features.predict(frame)["probability"]
    offered = np.array([[name in items.split("|") for name in found.columns] for items in frame["items"]])
    assert ((found.to_numpy() > 0) == offered).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)


@pytest.mark.parametrize("with_features", [True, False], ids=["features", "availability"])
def test_an_exported_model_predicts_the_same(wide_run, run_without_features, folder, tmp_path, with_features):
    run = bandits.load(wide_run) if with_features else run_without_features
    frame, actions = pd.read_csv(folder / "wide.csv").head(7)[["warm", "items"]], pd.read_csv(folder / "actions.csv")
    found, ids = run.predict(frame), frame["items"].str.split("|")
    if with_features:
        padded = pd.DataFrame(ids.tolist()).fillna("").to_numpy()
    else:
        names = found["probability"].columns
        padded = np.array([[name if name in offered else "" for name in names] for offered in ids])
    inputs = {"warm": frame["warm"].tolist(), "action: is offered": (padded != "").tolist()}
    for name in ("price", "kind"):
        values = actions.set_index("id")[name].to_dict()
        inputs[f"action: {name}"] = [[values.get(each, 0 if name == "price" else "") for each in row] for row in padded]
    (by_file,) = predicted(inputs, run.export(tmp_path / "exported"))
    expected = found["probability"].to_numpy()
    for exported in (by_file["saved probability"], by_file["lite probability"]):
        assert (exported[padded == ""] == 0).all()
        np.testing.assert_allclose(exported[padded != ""] if with_features else exported, expected, atol=1e-5)


def test_frames_without_what_is_offered_are_refused(wide_run, folder):
    run, frame = bandits.load(wide_run), pd.read_csv(folder / "wide.csv").head(3)
    with pytest.raises(UsageError, match=r"lacks columns that the run's model needs: items\."):
        run.predict(frame.drop(columns="items"))
    with pytest.raises(UsageError, match=r"'item 99' .* is not an action of --action_table"):
        run.predict(frame.assign(items="item 1|item 99"))
    with pytest.raises(UsageError, match="save the DataFrame to a file"):
        bandits.evaluate(log=frame, policy=run)
