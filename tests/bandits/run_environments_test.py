"""Whole runs in non-stationary environments: clients earn what the environment pays, and logs agree."""

import dataclasses
import json

import dp_accounting
import numpy as np
import pandas as pd
import pytest
from dp_accounting import rdp

from bandits import environments, interactions, metrics, run_federated
from data import interaction_log
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization import models
from optimization.selection import availability
from tests.bandits import whole_runs
from tests.bandits.whole_runs import assert_same, table

pytestmark = pytest.mark.slow

SMALL = ("--total_rounds=6", "--clients_per_round=4", "--bandits_deploy_freq=3", "--rounds_per_eval=2")
DRIFTS = {
    "abrupt": ("--reward_drift=abrupt", "--drift_start=2", "--drift_every=2"),
    "linear": ("--reward_drift=linear", "--drift_start=2", "--drift_rounds=4"),
    "client": ("--reward_drift=client", "--drift_start=2", "--drift_rounds=4"),
}
LATE = ("--cache=persistent", "--reward_delay=uniform")
LOGGED = ("--bandits_type=falcon", "--log_interactions")


play = whole_runs.player(*SMALL)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return play(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module", params=[*DRIFTS, "late"])
def drifting(request, tmp_path_factory):
    """A run with its log, of each kind of drift, and of one with late rewards."""
    kinds = DRIFTS | {"late": (*DRIFTS["linear"], *LATE, "--population_client_selection=0-8", "--delay_never=0.2")}
    return play(tmp_path_factory.mktemp(request.param), *kinds[request.param], *LOGGED, draws=request.param == "late")


def test_another_environment_alone_is_the_run_of_rewards_that_are_permuted_by_hand(tmp_path, monkeypatch):
    supervised = "--bandits_type=supervised_mse"
    alone = play(tmp_path / "alone", *DRIFTS["abrupt"], "--drift_environment=2", supervised)
    elsewhere = play(tmp_path, supervised)

    class Permuted(run_federated.BanditStudy):
        def open(self, options):
            task = super().open(options)
            own = environments.Drift("abrupt", environments=3).matrices(np.eye(10, dtype=np.float32))[2]
            return dataclasses.replace(task, rewards={**task.rewards, "exact": own})

    monkeypatch.setattr(run_federated, "STUDY", Permuted())
    by_hand = play(tmp_path / "by_hand", supervised)
    assert_same(alone, by_hand)
    assert (alone / "bounds.json").read_bytes() == (by_hand / "bounds.json").read_bytes()
    assert (table(alone)[metrics.ROUND_REWARD] != table(elsewhere)[metrics.ROUND_REWARD]).any()


def test_clients_earn_by_hand_what_the_environment_pays(drifting):
    found = interactions.read_run(drifting)
    log = interaction_log.read(sorted((drifting / "interactions").iterdir()))
    task = registry.load(TaskOptions("digits"))
    environments = found.options.drift.matrices(np.eye(10, dtype=np.float32)).astype(float)
    place = [task.clients.client_ids.index(name) for name in log.client_ids]
    expected = []
    for client, row, action, round_num in zip(log.clients, log.rows, log.actions, log.rounds, strict=True):
        acted_in = 1 + 3 * ((round_num - 1) // 3) if found.options.keeps_cache else round_num
        point = float(found.options.drift.at(acted_in, place[client]))
        label = task.clients.load(place[client]).labels[row]
        low, share = int(point), point % 1
        paid = (1 - share) * environments[low, label, action]
        expected.append(paid + (share * environments[low + 1, label, action] if share else 0))
    np.testing.assert_allclose(log.rewards, expected, atol=1e-6)
    by_round = pd.Series(expected).groupby(np.asarray(log.rounds)).mean()
    np.testing.assert_allclose(table(drifting)[metrics.ROUND_REWARD], by_round, atol=1e-6)


def test_a_reward_counts_from_the_round_of_its_arrival_on(tmp_path):
    """Each client's log is what of its kept cache has observed by then, by its key."""
    everyone = ("--population_client_selection=0-4", "--bandits_type=uniform", "--log_interactions")
    run = play(tmp_path, *LATE, "--delay_rounds=2", *everyone)
    kept = play(tmp_path / "kept", "--cache=persistent", *everyone)
    log, every = (interaction_log.read(sorted((one / "interactions").iterdir())) for one in (run, kept))
    assert log.client_ids == every.client_ids
    for round_num in range(1, 7):
        period, waited = divmod(round_num - 1, 3)
        for client in range(4):
            here = (every.rounds == round_num) & (every.clients == client)
            there = (log.rounds == round_num) & (log.clients == client)
            observed = environments.Delay("uniform", 2).observed(0, period, client, here.sum(), waited)
            for name in ("rows", "actions", "rewards", "propensities"):
                np.testing.assert_array_equal(getattr(log, name)[there], getattr(every, name)[here][observed])
    sizes = pd.Series(log.rounds).value_counts().sort_index().tolist()
    assert sizes[0] < sizes[1] < sizes[2] == len(every.rows) / 6 > sizes[3]
    assert table(run)[metrics.EXAMPLES].tolist() == sizes


def test_a_continued_run_meets_the_same_clients(tmp_path):
    """By day and by label, some dropping out, in a non-stationary environment, rewards late: all at once."""
    who = ("--availability=diurnal", "--availability_day=4", "--time_zones_by_label", "--drop_out=0.3")
    changes = (*who, *DRIFTS["linear"], *LATE, "--bandits_type=uniform", "--log_interactions", "--clients_per_round=20")
    whole, _ = whole_runs.stopped(play, tmp_path, *changes, after=4)
    log = interaction_log.read(sorted((whole / "interactions").iterdir()))
    task = registry.load(TaskOptions("digits"))
    found = availability.Availability("diurnal", 4, 4, by_labels=True, drop_out=0.3)
    attendance = availability.Attendance(found, found.zones(task.clients, 10), 0)
    place = np.array([task.clients.client_ids.index(name) for name in log.client_ids])
    for round_num in range(1, 7):
        came = set(place[np.unique(log.clients[log.rounds == round_num])])
        assert came <= set(np.flatnonzero(attendance.available(round_num)))
        assert 0 < len(came) < 20
    assert json.loads((whole / "bounds.json").read_text()).keys() == {"held_out", "rewards", "greedy"}


def test_who_may_be_absent_is_accounted_as_always_there(tmp_path):
    private = ("--aggregator_type=dpsgd", "--clip_norm=1", "--noise_multiplier=2", "--cohort_sampling=poisson")
    run = play(tmp_path, *private, "--availability=diurnal", "--time_zones_by_label", "--total_rounds=3")
    spent = json.loads((run / "privacy.json").read_text())
    assert spent["mechanism"]["may_be_absent"]
    accountant = rdp.RdpAccountant().compose(dp_accounting.GaussianDpEvent(2.0), 3)
    assert spent["epsilon"] == pytest.approx(accountant.get_epsilon(spent["delta"]), rel=1e-6)
    assert (
        "that nothing is learnt from when clients are available, which depends on their labels"
        in spent["epsilon_assumes"]
    )
    assert spent["guarantees"][0]["sampling"] == "none, because a client may be in every cohort"


def test_the_model_is_measured_in_the_environment_of_the_moment(plain, tmp_path, capsys):
    """Before the change it is worth what it was; after it, what its greedy actions earn then."""
    run = play(tmp_path, "--reward_drift=abrupt", "--drift_start=6")
    before, after = table(plain), table(run)
    assert after[metrics.HELD_OUT_REWARD][3] == before[metrics.HELD_OUT_REWARD][3]
    task = registry.load(TaskOptions("digits"))
    examples = task.held_out.load(0)
    weights = np.load(run / "model" / "weights.npz")
    model, features = models.of_task(task), task.normalize(examples.features)
    action = np.argmax(model.forward([weights[name] for name in weights.files], features), axis=1)
    found = environments.Drift("abrupt", start=6, environments=2).matrices(np.eye(10, dtype=np.float32))[1]
    assert after[metrics.HELD_OUT_REWARD][5] == pytest.approx(found[examples.labels, action].mean())
    printed = f"reward {after[metrics.HELD_OUT_REWARD][5]:.4f} in the last round's environment"
    assert printed in capsys.readouterr().out
