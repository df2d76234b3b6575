"""Rounds, and whole runs on small synthetic data: files, communication, resumption."""

import itertools
import pathlib

import numpy as np
import pandas as pd
import pytest

from bandits import metrics as fairness
from bandits.client_selection import experiment, metrics
from bandits.client_selection.run_client_selection import STUDY, final_table
from data import clients, keys
from data.tasks import registry
from optimization.study import frame, selector_flags
from tests.bandits import whole_runs

SMALL = ("--partition_clients=6", "--partition_seed=1", "--total_rounds=4", "--clients_per_round=2")
SMALL += ("--client_steps_per_round=5", "--rounds_per_eval=2")


def parse(folder: pathlib.Path, *arguments: str):
    argv = ["run_client_selection", f"--root_output_dir={folder}", "--experiment_name=run", *SMALL, *arguments]
    return frame.flag_set(STUDY).parse(argv)


def run_all(folder: pathlib.Path, *arguments: str) -> int:
    return frame.program(STUDY, parse(folder, *arguments))


def table(folder: pathlib.Path, name: str = "run") -> pd.DataFrame:
    return whole_runs.table(folder / name)


@pytest.fixture(scope="module")
def finished(tff_worker, tmp_path_factory):
    """A finished comparison of all selectors."""
    folder = tmp_path_factory.mktemp("finished")
    names = ",".join(selector_flags.SELECTORS)
    assert run_all(folder, f"--client_selection={names}", "--learning_rate_drops=2,3") == 0
    return folder


def test_a_comparison_leaves_complete_folders_and_a_table(finished):
    top = finished / "run"
    results = pd.read_csv(top / "results.csv")
    assert list(results["selector"]) == list(selector_flags.SELECTORS)
    assert results["global_loss"].notna().all()
    for name in selector_flags.SELECTORS:
        assert (top / name / "model" / "weights.npz").exists()
        rows = table(finished, f"run/{name}")
        assert list(rows.columns) == ["round_num", *metrics.COLUMNS]
        assert list(rows[metrics.GLOBAL_LOSS].notna()) == [False, True, False, True]
        assert list(rows[metrics.LEARNING_RATE]) == [0.05, 0.05, 0.025, 0.0125]


def test_selections_and_communication_are_counted(finished):
    for name, transfers, polls in (("ucb_cs", 4, 0), ("uniform", 4, 0), ("pow_d", 6, 4)):
        rows = table(finished, f"run/{name}")
        # Power-of-choice sends the model to four candidates, two of which send an update.
        assert rows[metrics.MODEL_TRANSFERS].tolist() == [transfers] * 4
        assert rows[metrics.LOSS_POLLS].tolist() == [polls] * 4
        assert pd.read_csv(finished / "run" / name / "private_clients.csv")["selections"].sum() == 4 * 2


def test_metrics_of_all_clients_are_those_of_the_saved_model(finished):
    folder = finished / "run" / "ucb_cs"
    task = registry.load(only_options(parse(finished)).task)
    with np.load(folder / "model" / "weights.npz") as archive:
        kernel, bias = archive["dense_0/kernel"], archive["dense_0/bias"]

    def losses(examples: clients.Examples) -> tuple[float, float]:
        logits = (examples.features @ kernel + bias).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        rows = np.arange(len(logits))
        return -log_probabilities[rows, examples.labels].mean(), (logits.argmax(axis=1) == examples.labels).mean()

    parts = [task.clients.load(client) for client in range(6)]
    expected = np.array([losses(part)[0] for part in parts])
    written = pd.read_csv(folder / "private_clients.csv")
    np.testing.assert_allclose(written["loss"], expected, rtol=1e-4)
    sizes = [len(part.labels) for part in parts]
    assert written["examples"].tolist() == sizes
    last = table(finished, "run/ucb_cs").iloc[-1]
    columns = [metrics.GLOBAL_LOSS, metrics.JAIN_INDEX, metrics.WORST_DECILE_LOSS, metrics.MEDIAN_LOSS]
    mean = np.average(expected, weights=sizes)
    values = [mean, fairness.jain_index(expected), expected.max(), np.median(expected)]
    np.testing.assert_allclose(last[columns].to_list(), values, rtol=1e-5)
    np.testing.assert_allclose(last[metrics.ACCURACY], losses(clients.pool(task.held_out, 0, 0))[1])


def test_killed_in_a_checkpoint_then_resumed_equals_uninterrupted(kill_in_a_checkpoint, finished, tmp_path):
    more = ("--client_selection=ucb_cs", "--learning_rate_drops=2,3", "--rounds_per_checkpoint=1")
    folder = (f"--root_output_dir={tmp_path}", "--experiment_name=run")
    kill_in_a_checkpoint("bandits.client_selection.run_client_selection", 3, *folder, *SMALL, *more)
    assert run_all(tmp_path, *more) == 0
    pd.testing.assert_frame_equal(table(tmp_path), table(finished, "run/ucb_cs"), check_exact=True)


def only_options(settings):
    (one,) = frame.plan(STUDY, settings)
    return STUDY.options(one)


def make_rounds(tmp_path, *arguments: str) -> experiment.SelectionRounds:
    options = only_options(parse(tmp_path, *arguments))
    return experiment.SelectionRounds(options, registry.load(options.task))


def test_the_selector_gets_the_losses_of_the_round(tff_worker, tmp_path):
    run = make_rounds(tmp_path)
    progress, row = run.run_round(run.initial_state(), 1)
    cohort = run.selected.selector.select(
        run.selected.selector.initial_state(), keys.generator(0, keys.Purpose.COHORT, 1)
    )
    assert np.flatnonzero(progress.selections).tolist() == sorted(cohort)
    assert np.flatnonzero(progress.selector.counts).tolist() == sorted(cohort)
    np.testing.assert_allclose(progress.selector.loss_sums[cohort].mean(), row[metrics.LOSS], rtol=1e-5)
    assert progress.selector.deviation > 0


def test_a_client_that_is_selected_twice_is_sent_one_model_and_reports_once(tff_worker, tmp_path):
    run = make_rounds(tmp_path, "--client_selection=rand", "--partition_clients=1", "--clients_per_round=1")
    run.selected.selector.cohort_size = 2
    progress, row = run.run_round(run.initial_state(), 1)
    assert progress.selections.tolist() == [1]
    assert row[metrics.MODEL_TRANSFERS] == 2


def test_evaluation_of_some_clients_only(tff_worker, tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "MOST_EVAL_CLIENTS", 2)
    assert run_all(tmp_path, "--total_rounds=1") == 0
    assert pd.read_csv(tmp_path / "run" / "private_clients.csv")["loss"].notna().sum() == 2


def test_the_table_has_final_values_over_seeds_and_communication_per_round():
    nan = float("nan")
    tables = []
    for selector, cohort, seed in itertools.product(("rand", "pow_d"), (1, 2), (0, 1)):
        rows = dict.fromkeys(metrics.COLUMNS, nan) | {"round_num": [1, 2, 3]}
        rows |= {metrics.GLOBAL_LOSS: [2.0, nan, 1.0 + seed], metrics.JAIN_INDEX: [0.1, nan, 0.5 + 0.1 * seed]}
        rows |= {metrics.MODEL_TRANSFERS: [2, 2, 5], metrics.LOSS_POLLS: [0, 0, 3]}
        tables.append(pd.DataFrame(rows).assign(selector=selector, cohort=cohort, seed=seed))
    summary = final_table(pd.concat(tables))
    assert sorted(summary[["cohort", "selector", "seeds"]].to_numpy().tolist()) == [
        [cohort, selector, 2] for cohort in (1, 2) for selector in ("pow_d", "rand")
    ]
    first = summary.iloc[0]
    assert first["global_loss"] == 1.5
    assert first["global_loss_deviation"] == pytest.approx(0.5**0.5)  # Of 1 and 2, with n - 1.
    assert first["jain_index"] == pytest.approx(0.55)
    assert (first["model_transfers"], first["loss_polls"]) == (3, 1)
