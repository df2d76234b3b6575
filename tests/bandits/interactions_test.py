"""Whole runs that log interactions: what is written is what the rounds were."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pandas as pd
import pytest

from bandits import interactions, metrics
from data import interaction_log
from data.errors import UsageError
from data.tasks import registry
from data.tasks.options import TaskOptions
from tests.bandits import deployed_policies, whole_runs

pytestmark = pytest.mark.slow

SMALL = ("--total_rounds=5", "--clients_per_round=4", "--bandits_deploy_freq=2", "--rounds_per_checkpoint=1")


play = whole_runs.player("--log_interactions", *SMALL)


def check_agrees(run: pathlib.Path) -> interaction_log.InteractionLog:
    """Asserts that a log's sums are those of the rounds; returns it as the rounds count it."""
    log = interaction_log.read(sorted((run / "interactions").iterdir()))
    for round_num, row in pd.read_csv(run / "metrics.csv").set_index("round_num").iterrows():
        here = log.rounds == round_num
        assert here.sum() == row[metrics.EXAMPLES]
        if here.any():
            # Rewards of 0 and 1: their sums are exact.
            assert log.rewards[here].sum() == pytest.approx(row[metrics.ROUND_REWARD] * here.sum(), abs=1e-9)
            # A sum in single precision.
            assert log.propensities[here].mean() == pytest.approx(row[metrics.ROUND_PROBABILITY], rel=1e-5)
    return log


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return play(tmp_path_factory.mktemp("finished"))


def _parts(run: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((run / "interactions").iterdir())}


def _assert_same(one: interaction_log.InteractionLog, other: interaction_log.InteractionLog):
    assert one.client_ids == other.client_ids
    for name in ("clients", "actions", "rewards", "propensities", "rounds", "periods", "models", "rows"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_sums_of_the_log_are_those_of_the_rounds(finished):
    log = check_agrees(finished)
    assert log.action_names == tuple(map(str, range(10)))
    assert log.periods.tolist() == ((log.rounds - 1) // 2).tolist()
    np.testing.assert_array_equal(log.models, log.periods)


def test_contexts_labels_and_rewards_are_those_of_the_clients_examples(finished):
    log, task = interactions.read_run(finished).with_contexts().log, registry.load(TaskOptions("digits"))
    examples = [task.clients.load(task.clients.client_ids.index(name)) for name in log.client_ids]
    labels = np.array([examples[client].labels[row] for client, row in zip(log.clients, log.rows, strict=True)])
    np.testing.assert_array_equal(log.rewards, log.actions == labels)
    features = [examples[client].features[row] for client, row in zip(log.clients, log.rows, strict=True)]
    np.testing.assert_array_equal(log.contexts, task.normalize(np.stack(features)))


def test_a_run_that_was_killed_writes_no_row_twice(finished, tmp_path):
    """Parts and models of rounds after the last checkpoint are there, as after a kill before a checkpoint."""
    run = shutil.copytree(finished, tmp_path / "run")
    for round_num in (4, 5):
        (run / "checkpoints" / f"round_{round_num:08d}.npz").unlink()
    torn = run / "interactions" / "rounds_00000005_00000005.parquet"
    torn.write_bytes(torn.read_bytes()[:100])
    play(tmp_path)
    assert _parts(run) == _parts(finished)
    for path in (finished / "models").iterdir():
        assert (run / "models" / path.name).read_bytes() == path.read_bytes()


def test_a_longer_run_and_other_checkpoints_give_the_same_log(finished, tmp_path):
    play(tmp_path, "--total_rounds=3", "--rounds_per_checkpoint=0")
    run = play(tmp_path, "--rounds_per_checkpoint=0")
    assert list(_parts(run)) == ["rounds_00000001_00000003.parquet", "rounds_00000004_00000005.parquet"]
    _assert_same(interactions.read_run(run).with_contexts().log, interactions.read_run(finished).with_contexts().log)


def test_without_the_flag_nothing_is_written_and_nothing_else_changes(finished, tmp_path):
    run = play(tmp_path, "--nolog_interactions")
    assert not (run / "interactions").exists()
    assert not (run / "models").exists()
    whole_runs.assert_same(run, finished)
    with pytest.raises(UsageError, match="holds no log of interactions: start its run with --log_interactions"):
        interactions.read_run(run)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--bandits_type=epsilon_greedy", "--ties=random"),
        ("--bandits_type=falcon", "--max_examples_per_client=5", "--redraw_examples"),
        ("--bandits_type=squarecb", "--bandits_deploy_delay=1", "--bandits_deploy_freq=1", "--bandits_gamma=1"),
        ("--bandits_schedule=linear", "--bandits_schedule_end=5", "--cache=persistent"),
        ("--cohort_sampling=poisson", "--clients_per_round=2"),
        ("--client_selection=pow_d",),
        ("--scenario=init", "--init_rounds=2", "--init_clients=5"),
        ("--model_aggregation=fedkp",),
    ],
)
def test_logs_agree_with_rounds_of_every_kind(tmp_path, arguments):
    run = play(tmp_path, *arguments)
    check_agrees(run)
    assert not (run / "init" / "interactions").exists()
    found = interactions.read_run(run).with_contexts()
    played = deployed_policies.probabilities(found)[np.arange(len(found.log)), found.log.actions]
    np.testing.assert_allclose(played, found.log.propensities, rtol=2e-4)


def test_a_kept_cache_is_an_interaction_once_a_period(tmp_path):
    run = play(tmp_path, "--cache=persistent", "--population_client_selection=0-5")
    every = check_agrees(run)
    once = interactions.read_run(run).with_contexts().log
    keys = list(zip(every.clients, every.periods, every.rows, strict=True))
    assert len(once) == len(set(keys)) < len(keys)
    assert once.report["repeated_rows"] == len(every) - len(once)


def test_a_private_run_says_that_its_log_is_not_protected(tmp_path, capfd):
    run = play(tmp_path, "--aggregator_type=dpsgd", "--noise_multiplier=1", "--clip_norm=1")
    privacy = json.loads((run / "privacy.json").read_text())
    assert interactions.IN_WORDS in privacy["mechanism"]["apart_from"]
    assert any(interactions.IN_WORDS in words for words in privacy["epsilon_assumes"])
    assert interactions.IN_WORDS in privacy["summary"]
    assert "Keep them secret" in capfd.readouterr().out
    assert (run / "interactions").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in (run / "interactions").iterdir())


def _with_config(run: pathlib.Path, **changed) -> None:
    path = run / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def _part(run: pathlib.Path) -> pathlib.Path:
    return run / "interactions" / "rounds_00000002_00000002.parquet"


def _with_rows(run: pathlib.Path, change) -> None:
    log = interaction_log.read(_part(run))
    interaction_log.write(dataclasses.replace(log, rows=change(log.rows)), _part(run))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda run: _part(run).unlink(), "lacks the part of the log after round 1:"),
        (lambda run: _with_rows(run, lambda rows: None), "are not parts of one log"),
        (lambda run: _with_rows(run, lambda rows: rows + 10**6), "does not belong to the run"),
        (lambda run: _with_config(run, flags=[1]), "is not readable as the configuration of a run"),
        (lambda run: _with_config(run, data_checksum="other"), "The data of .* has changed"),
    ],
    ids=["part", "column", "row", "flags", "data"],
)
def test_damage_to_a_runs_log_and_to_what_goes_with_it_is_named(finished, tmp_path, damage, message):
    run = shutil.copytree(finished, tmp_path / "run")
    damage(run)
    with pytest.raises(UsageError, match=message):
        interactions.read_run(run).with_contexts()
