"""What whole runs on the digits promise their clients, and whether it holds."""

import dataclasses
import json
import pathlib
import stat

import numpy as np
import pandas as pd
import pytest

from bandits import metrics
from data.errors import UsageError
from optimization.privacy import mechanisms
from optimization.study import run_folder
from tests.bandits import whole_runs
from tests.bandits.whole_runs import assert_same_model, spent, table

pytestmark = pytest.mark.slow

DPSGD = ("--aggregator_type=dpsgd", "--noise_multiplier=1", "--clip_norm=0.5")
POISSON = (*DPSGD, "--cohort_sampling=poisson")
NOISY = {
    "dpsgd": (),
    "dpftrl": ("--cohort_sampling=cyclic",),
    "mf_dpftrl": ("--mf_bands=2", "--cohort_sampling=cyclic"),
    "ddp": (),
}
play = whole_runs.player("--total_rounds=3", "--clients_per_round=4", "--bandits_deploy_freq=2", "--rounds_per_eval=0")


def noise(kind: str) -> tuple[str, ...]:
    return (f"--aggregator_type={kind}", "--noise_multiplier=1", "--clip_norm=0.5", *NOISY[kind])


def of_rounds(population: int = 60, sampling: str = "poisson", **values) -> mechanisms.Mechanism:
    return mechanisms.Mechanism("dpsgd", 1.0, population, 4, sampling, clip_norm=0.5, **values)


@pytest.mark.parametrize("kind", [*NOISY, "mean"])
def test_a_bandit_that_never_trains_adds_no_noise_and_spends_nothing(tmp_path, kind):
    own = noise(kind) if kind != "mean" else ()
    run = play(tmp_path, *own, "--scenario=init", "--init_rounds=2", "--init_clients=10", "--bandits_type=init")
    assert_same_model(run / "init", run)
    rows, before = table(run), spent(run / "init")
    assert (rows[metrics.UPDATE_NORM] == 0).all()
    assert rows[[metrics.CLIP_NORM, metrics.CLIPPED_CLIENTS, metrics.LOSS]].isna().all(axis=None)
    assert spent(run) == before
    np.testing.assert_allclose(rows[metrics.EPSILON], before["epsilon"] or np.inf)
    assert (before["epsilon"] is None) == (kind == "mean")


@pytest.mark.parametrize("kind", ["dpsgd", "mf_dpftrl"])
def test_a_public_initial_training_of_the_same_run_is_free_and_adds_no_noise(tmp_path, kind):
    initial = ("--scenario=init", "--init_rounds=2", "--init_clients=20", "--initial_model_is_public")
    run = play(tmp_path, *noise(kind), *initial, "--total_rounds=1")
    assert spent(run / "init")["epsilon"] is None
    assert spent(run)["epsilon"] > 0
    if kind == "dpsgd":
        assert spent(run)["epsilon"] == pytest.approx(of_rounds(40, "fixed").epsilon(1))


def test_a_private_run_reports_what_it_spent_and_a_resumed_one_the_same(tmp_path, capsys):
    run = play(tmp_path, *POISSON)
    assert "Privacy: epsilon" in capsys.readouterr().out
    expected = of_rounds()
    np.testing.assert_allclose(table(run)[metrics.EPSILON], [expected.epsilon(rounds) for rounds in (1, 2, 3)])
    play(tmp_path, *POISSON, "--total_rounds=4")
    assert spent(run).items() >= json.loads(json.dumps(expected.report(4))).items()


def test_training_that_went_before_is_added_to_what_was_spent(tmp_path):
    start = f"--initial_model_path={play(tmp_path / 'first', *POISSON, '--total_rounds=2')}"
    for public, rounds in (((), 3), (("--initial_model_is_public",), 1)):
        run = play(tmp_path / str(rounds), *POISSON, start, *public, "--total_rounds=1")
        np.testing.assert_allclose(table(run)[metrics.EPSILON].iloc[-1], of_rounds().epsilon(rounds))


def test_a_scenarios_two_populations_are_disjoint_and_so_in_two_steps_by_hand(tmp_path):
    rounds = ("--init_rounds=3", "--init_clients=20", "--init_server_learning_rate=0.01")
    both = spent(play(tmp_path / "both", *POISSON, "--scenario=init", *rounds, "--total_rounds=1"))
    first, second = (of_rounds(size, delta=40**-1.1) for size in (20, 40))
    larger = max(first.epsilon(3), second.epsilon(1))
    assert both["epsilon"] == pytest.approx(larger)
    first_step = ("--bandits_type=supervised_mse", "--population_client_selection=0-20")
    path = play(tmp_path / "first", *POISSON, *first_step)
    start = (*POISSON, "--total_rounds=1", f"--initial_model_path={path}")
    by_hand = spent(play(tmp_path / "second", *start, "--population_client_selection=20-60"))
    assert by_hand["epsilon"] == pytest.approx(larger)
    assert by_hand["population"] == both["population"]
    overlapping = spent(play(tmp_path / "overlapping", *start, "--population_client_selection=19-59"))
    together = dataclasses.replace(second, pretraining=first, pretraining_rounds=3)
    assert overlapping["epsilon"] == pytest.approx(together.epsilon(1))
    assert together.epsilon(1) > larger


def test_seeded_noise_guarantees_nothing_nor_does_what_is_trained_on_top_of_it(tmp_path, capsys):
    seeded = play(tmp_path / "seeded", *POISSON, "--insecure_seeded_noise")
    assert "no guarantee, because its noise comes from --seed" in capsys.readouterr().out
    second = play(tmp_path / "second", *POISSON, f"--initial_model_path={seeded}")
    assert "in the earlier training on private clients, its noise comes from --seed" in capsys.readouterr().out
    for run in (seeded, second):
        assert spent(run)["epsilon"] is None
        assert np.isinf(table(run)[metrics.EPSILON]).all()


def test_cohorts_that_hide_clients_are_secret_and_the_same_after_a_resume(tmp_path, capsys):
    longer = (*DPSGD, "--clients_per_round=15", "--total_rounds=6", "--bandits_deploy_freq=6")
    one, other = (play(tmp_path / name, *longer) for name in ("one", "other"))
    printed = capsys.readouterr().out
    assert f"Keep {one}/checkpoints secret" in printed
    assert "runs with the same seed have different cohorts" in printed
    # No model is deployed in these rounds, so that rewards differ by the cohorts alone.
    before = table(one)["bandits/round_rewards"].to_list()
    assert before != table(other)["bandits/round_rewards"].to_list()
    assert stat.S_IMODE((one / "checkpoints").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (one / "checkpoints").iterdir()} == {0o600}
    for checkpoint in (one / "checkpoints").glob("*6.npz"):
        checkpoint.unlink()  # Only that from before round 1 is left, as if the run had been killed early.
    play(tmp_path / "one", *longer)
    assert table(one)["bandits/round_rewards"].to_list() == before


def test_noise_that_the_initial_training_cannot_have_is_refused_before_anything_is_made(tmp_path):
    little = ("--aggregator_type=dpsgd", "--adaptive_clipping", "--noise_multiplier=0.5")
    with pytest.raises(UsageError, match=r"more than 0.25 on the count of unclipped clients, not 0.15"):
        play(tmp_path, *little, "--clients_per_round=20", "--scenario=init", "--init_clients=3")
    assert not list(tmp_path.iterdir())


TABLE = "site,age,color,y\n" + "".join(
    f"{site},{row},{'red' if row % 2 else 'blue'},{label}\n" for site in "abcdefgh" for row, label in enumerate("pqqr")
)


def test_statistics_of_private_clients_are_left_out_of_the_guarantee_unless_they_are_public(tmp_path, capsys):
    (tmp_path / "table.csv").write_text(TABLE)
    task = ("--task_type=tabular", f"--data_file={tmp_path}/table.csv", "--client_column=site", "--label_column=y")
    task = (*task, *POISSON, "--clients_per_round=2", "--total_rounds=1")
    private = play(tmp_path / "private", *task)
    words = "means, deviations and categories of the table's columns; the table's labels and their counts"
    assert f"apart from {words}" in capsys.readouterr().out
    assert spent(private)["mechanism"]["apart_from"] == words.split("; ")
    found = json.loads((private / "statistics.json").read_text())
    assert list(found["columns"]) == ["age", "color"]
    assert found["labels"] == {"p": 6, "q": 12, "r": 6}
    path = tmp_path / "public.json"
    path.write_text(json.dumps(found))
    public = play(tmp_path / "public", *task, f"--public_statistics={path}")
    assert "apart from" not in capsys.readouterr().out
    assert spent(public)["mechanism"]["apart_from"] == []
    assert not (public / "statistics.json").exists()
    path.write_text(json.dumps(found | {"labels": {"p": 1, "q": 1, "r": 1}}))
    with pytest.raises(UsageError, match="checksum"):
        play(tmp_path / "public", *task, f"--public_statistics={path}")


# Two groups of the 60 digits' clients take turns.
GROUPS = ("--aggregator_type=mf_dpftrl", "--cohort_sampling=cyclic_poisson", "--clients_per_round=15", "--mf_bands=2")
GROUPS += ("--target_epsilon=5", "--total_rounds=6", "--rounds_per_checkpoint=3")


@pytest.mark.parametrize("flags_of_noise", [(), ("--insecure_seeded_noise",)], ids=["secret", "seeded"])
def test_amplified_noise_for_an_epsilon_is_the_same_after_a_resume(tmp_path, capsys, flags_of_noise):
    is_seeded = bool(flags_of_noise)
    run = play(tmp_path, *GROUPS, *flags_of_noise)
    printed = capsys.readouterr()
    assert "after 6 rounds" in printed.err
    assert is_seeded or f"Keep {run}/checkpoints secret: they hold the seed of the noise" in printed.out
    before, rows, report = whole_runs.weights(run), table(run), spent(run)
    made = mechanisms.of_values(report["mechanism"])
    assert (made.sampling, made.groups, made.bands, made.rate, made.clip_norm) == ("cyclic_poisson", 2, 2, 0.5, 0.1)
    assert 4.99 < dataclasses.replace(made, voided="").epsilon(6) <= 5
    assert (report["epsilon"] is None) == is_seeded
    for checkpoint in (run / "checkpoints").glob("*6.npz"):
        checkpoint.unlink()  # As if the run had been killed after round 3.
    play(tmp_path, *GROUPS, *flags_of_noise)
    columns = [metrics.EXAMPLES, metrics.UPDATE_NORM, metrics.EPSILON]
    pd.testing.assert_frame_equal(table(run)[columns], rows[columns])
    for name, weights in whole_runs.weights(run).items():
        np.testing.assert_array_equal(weights, before[name])


def test_a_resumed_run_keeps_its_recorded_plan(tmp_path):
    cyclic = ("--aggregator_type=mf_dpftrl", "--cohort_sampling=cyclic", "--noise_multiplier=1", "--clip_norm=1")
    run = play(tmp_path, *cyclic, "--total_rounds=3")
    assert spent(run)["mechanism"]["bands"] == 3
    play(tmp_path, *cyclic, "--total_rounds=8")
    assert (spent(run)["mechanism"]["bands"], spent(run)["rounds"]) == (3, 8)


def test_a_run_with_a_target_epsilon_cannot_be_made_longer(tmp_path):
    play(tmp_path, *GROUPS)
    with pytest.raises(UsageError, match="--total_rounds was 6, is 7"):
        play(tmp_path, *GROUPS, "--total_rounds=7")


def test_a_simulation_has_the_noise_of_its_plan_and_guarantees_its_clients_nothing(tmp_path):
    planned = ("--population=100000", "--population_clients_per_round=150", "--mf_bands=auto")
    run = play(tmp_path, *GROUPS, *planned, "--insecure_seeded_noise")
    report, plan = spent(run), spent(run)["planned_population"]
    made, there = report["mechanism"], plan["mechanism"]
    assert report["epsilon"] is None
    assert 4.99 < plan["epsilon"] <= 5
    assert (there["population"], there["cohort"], there["groups"]) == (100_000, 150, there["bands"])
    assert (made["population"], made["cohort"], made["bands"]) == (60, 15, there["bands"])
    assert made["noise_multiplier"] == pytest.approx(there["noise_multiplier"] / 10, rel=1e-5)
    assert "guarantee" in report["summary"]


def test_a_round_to_which_nobody_comes_has_noise(tmp_path):
    rows = table(play(tmp_path, *GROUPS, "--clients_per_round=1", "--total_rounds=9"))
    assert (rows[metrics.EXAMPLES] == 0).any()
    assert (rows[metrics.UPDATE_NORM] > 0).all()


def classified(run: pathlib.Path) -> dict[str, run_folder.Disclosure]:
    """What each file of a run's folder discloses; an unclassified file fails, and so does a readable private one."""
    kinds = {}
    for path in filter(pathlib.Path.is_file, run.rglob("*")):
        name = path.relative_to(run)
        (kinds[str(name)],) = {
            kind for kind, patterns in run_folder.DISCLOSURES.items() if any(map(name.match, patterns))
        }
        if kinds[str(name)] is run_folder.Disclosure.PRIVATE:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    return kinds


def test_every_file_of_a_private_run_is_classified_and_none_shows_a_single_client(tmp_path):
    run = play(tmp_path, *POISSON, "--scenario=init", "--init_rounds=1", "--init_clients=20", "--rounds_per_eval=1")
    kinds = classified(run)
    private = {name for name, kind in kinds.items() if kind is run_folder.Disclosure.PRIVATE}
    assert private
    assert all(pathlib.PurePath(name).parent.name == "checkpoints" for name in private)
    assert run_folder.Disclosure.HELD_OUT not in kinds.values()  # Nobody owns the held-out digits.
    assert "metrics.csv" in spent(run)["files"][str(run_folder.Disclosure.AGGREGATE)]


@pytest.mark.parametrize(
    ("asks", "shown"),
    [
        ("--report_clients", {"private_client_evaluation.json", "private_client_rewards.json"}),
        ("--log_interactions", {"private_client_evaluation.json", "interactions/rounds_00000001_00000003.parquet"}),
    ],
)
def test_a_private_run_writes_rewards_of_participants_only_if_asked(tmp_path, asks, shown):
    kinds = classified(play(tmp_path, *DPSGD, asks))
    assert {kinds[name] for name in shown} == {run_folder.Disclosure.PRIVATE}


def test_a_private_run_hides_the_worst_tenth_of_so_few_clients_that_it_is_one(tmp_path):
    few = ("--population_client_selection=0-8", "--clients_per_round=2", "--rounds_per_eval=1")
    assert table(play(tmp_path / "private", *DPSGD, *few))[metrics.WORST_TENTH].isna().all()
    assert table(play(tmp_path / "plain", *few))[metrics.WORST_TENTH].notna().all()
