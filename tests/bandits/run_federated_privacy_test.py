"""What whole runs on the digits promise their clients, and whether it holds."""

import dataclasses
import json
import pathlib
import stat

import numpy as np
import pandas as pd
import pytest

from bandits import flags, metrics, run_federated
from data.errors import UsageError
from optimization.privacy import mechanisms
from optimization.study import frame

pytestmark = pytest.mark.slow

SMALL = ("--total_rounds=3", "--clients_per_round=4", "--bandits_deploy_freq=2", "--rounds_per_eval=0")
DPSGD = ("--aggregator_type=dpsgd", "--noise_multiplier=1", "--clip_norm=0.5")
POISSON = (*DPSGD, "--cohort_sampling=poisson")
NOISY = {
    "dpsgd": (),
    "dpftrl": ("--cohort_sampling=cyclic",),
    "mf_dpftrl": ("--mf_bands=2", "--cohort_sampling=cyclic"),
    "ddp": (),
}


def play(folder: pathlib.Path, *arguments: str) -> int:
    """Runs in this process, with its worker."""
    argv = ["run_federated", f"--root_output_dir={folder}", "--experiment_name=run", *SMALL, *arguments]
    return frame.program(run_federated.STUDY, frame.flag_set(run_federated.STUDY).parse(argv))


def table(folder: pathlib.Path) -> pd.DataFrame:
    return pd.read_csv(folder / "run" / "metrics.csv").drop(columns="seconds")


def spent(folder: pathlib.Path, *inside: str) -> dict:
    return json.loads((folder / "run").joinpath(*inside, "privacy.json").read_text())


def assert_same_model(first: pathlib.Path, second: pathlib.Path) -> None:
    with np.load(first / "model/weights.npz") as one, np.load(second / "model/weights.npz") as other:
        for name in one.files:
            np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("kind", [*NOISY, "mean"])
def test_a_bandit_that_never_trains_adds_no_noise_and_spends_nothing(tmp_path, kind):
    noise = ("--noise_multiplier=1", "--clip_norm=0.5", *NOISY[kind]) if kind != "mean" else ()
    scenario = ("--scenario=init", "--init_rounds=2", "--init_clients=10", "--bandits_type=init")
    assert play(tmp_path, f"--aggregator_type={kind}", *noise, *scenario) == 0
    assert_same_model(tmp_path / "run" / "init", tmp_path / "run")
    rows = table(tmp_path)
    assert (rows[metrics.UPDATE_NORM] == 0).all()
    assert rows[[metrics.CLIP_NORM, metrics.CLIPPED_CLIENTS, metrics.LOSS]].isna().all(axis=None)
    before, after = spent(tmp_path, "init"), spent(tmp_path)
    assert after == before
    np.testing.assert_allclose(rows[metrics.EPSILON], before["epsilon"] or np.inf)
    assert (before["epsilon"] is None) == (kind == "mean")


def test_a_public_model_that_stays_as_it_is_spends_nothing(tmp_path):
    assert play(tmp_path / "first", "--total_rounds=1") == 0
    start = (f"--initial_model_path={tmp_path / 'first' / 'run'}", "--initial_model_is_public")
    assert play(tmp_path / "second", "--bandits_type=init", *start) == 0
    assert table(tmp_path / "second")[metrics.EPSILON].to_list() == [0, 0, 0]
    assert spent(tmp_path / "second")["epsilon"] == 0


@pytest.mark.parametrize("kind", NOISY)
def test_a_public_initial_training_of_the_same_run_is_free_and_adds_no_noise(tmp_path, kind):
    noise = (f"--aggregator_type={kind}", "--noise_multiplier=1", "--clip_norm=0.5", *NOISY[kind])
    initial = ("--scenario=init", "--init_rounds=2", "--init_clients=20", "--initial_model_is_public")
    assert play(tmp_path, *noise, *initial, "--total_rounds=1") == 0
    assert spent(tmp_path, "init")["epsilon"] is None
    assert spent(tmp_path)["epsilon"] > 0
    if kind == "dpsgd":
        own = mechanisms.Mechanism("dpsgd", 1.0, 40, 4, clip_norm=0.5)
        assert spent(tmp_path)["epsilon"] == pytest.approx(own.epsilon(1))


def test_a_private_run_tells_what_it_spent_and_a_resumed_one_the_same(tmp_path, capsys):
    assert play(tmp_path, *POISSON) == 0
    assert "Privacy: epsilon" in capsys.readouterr().out
    expected = mechanisms.Mechanism("dpsgd", 1.0, 60, 4, "poisson", clip_norm=0.5)
    np.testing.assert_allclose(table(tmp_path)[metrics.EPSILON], [expected.epsilon(rounds) for rounds in (1, 2, 3)])
    assert play(tmp_path, *POISSON, "--total_rounds=4") == 0
    assert spent(tmp_path).items() >= json.loads(json.dumps(expected.report(4))).items()


def test_the_slower_accountant_fills_its_column_at_evaluations(tmp_path, capsys):
    assert play(tmp_path, *DPSGD, "--rounds_per_eval=2", "--accountant=pld") == 0
    expected = mechanisms.Mechanism("dpsgd", 1.0, 60, 4, clip_norm=0.5, accountant="pld")
    np.testing.assert_allclose(table(tmp_path)[metrics.EPSILON], [np.nan, expected.epsilon(2), expected.epsilon(3)])
    told = capsys.readouterr()
    assert f"Privacy: epsilon {expected.epsilon(3):.3g} by PLD, " in told.out
    assert "Warning: cohorts have a fixed size, and epsilon assumes others: give --cohort_sampling=poisson." in told.err
    assert "Warning: a population of 60 is too small to hide in: this is no guarantee." in told.err


def test_training_that_went_before_is_added_to_what_was_spent(tmp_path):
    assert play(tmp_path / "first", *POISSON, "--total_rounds=2") == 0
    start = f"--initial_model_path={tmp_path / 'first' / 'run'}"
    assert play(tmp_path / "second", *POISSON, start, "--total_rounds=1") == 0
    assert play(tmp_path / "public", *POISSON, start, "--initial_model_is_public", "--total_rounds=1") == 0
    own = mechanisms.Mechanism("dpsgd", 1.0, 60, 4, "poisson", clip_norm=0.5)
    found = [table(tmp_path / name)[metrics.EPSILON].iloc[-1] for name in ("second", "public")]
    np.testing.assert_allclose(found, [own.epsilon(3), own.epsilon(1)])


def test_a_scenarios_two_populations_are_disjoint_and_so_in_two_steps_by_hand(tmp_path):
    rounds = ("--init_rounds=3", "--init_clients=20", "--init_server_learning_rate=0.01")
    assert play(tmp_path / "both", *POISSON, "--scenario=init", *rounds, "--total_rounds=1") == 0
    first, second = (mechanisms.Mechanism("dpsgd", 1.0, size, 4, "poisson", delta=40**-1.1) for size in (20, 40))
    larger = max(first.epsilon(3), second.epsilon(1))
    assert spent(tmp_path / "both")["epsilon"] == pytest.approx(larger)
    first_step = ("--bandits_type=supervised_mse", "--population_client_selection=0-20")
    assert play(tmp_path / "first", *POISSON, *first_step) == 0
    start = (*POISSON, "--total_rounds=1", f"--initial_model_path={tmp_path / 'first' / 'run'}")
    assert play(tmp_path / "second", *start, "--population_client_selection=20-60") == 0
    assert spent(tmp_path / "second")["epsilon"] == pytest.approx(larger)
    assert spent(tmp_path / "second")["population"] == spent(tmp_path / "both")["population"]
    assert play(tmp_path / "overlapping", *start, "--population_client_selection=19-59") == 0
    together = dataclasses.replace(second, pretraining=first, pretraining_rounds=3)
    assert spent(tmp_path / "overlapping")["epsilon"] == pytest.approx(together.epsilon(1))
    assert together.epsilon(1) > larger


def test_selection_by_losses_guarantees_nothing(tmp_path, capsys):
    assert play(tmp_path, *DPSGD, "--client_selection=ucb_cs", "--non_private_selection") == 0
    assert "no guarantee, because clients are chosen by their losses" in capsys.readouterr().out
    assert spent(tmp_path)["epsilon"] is None
    assert np.isinf(table(tmp_path)[metrics.EPSILON]).all()


def test_seeded_noise_guarantees_nothing_nor_does_what_is_trained_on_top_of_it(tmp_path, capsys):
    assert play(tmp_path / "seeded", *POISSON, "--insecure_seeded_noise") == 0
    assert "no guarantee, because its noise comes from --seed" in capsys.readouterr().out
    start = f"--initial_model_path={tmp_path / 'seeded' / 'run'}"
    assert play(tmp_path / "second", *POISSON, start) == 0
    for name in ("seeded", "second"):
        assert spent(tmp_path / name)["epsilon"] is None
        assert np.isinf(table(tmp_path / name)[metrics.EPSILON]).all()
    assert "in the earlier training on private clients its noise comes from --seed" in capsys.readouterr().out


def cohorts_of(folder: pathlib.Path) -> list[int]:
    """Numbers of examples, by which cohorts of the digits can be told apart."""
    return table(folder)[metrics.EXAMPLES].to_list()


def test_cohorts_that_hide_clients_are_secret_and_the_same_after_a_resume(tmp_path, capsys):
    longer = (*DPSGD, "--clients_per_round=15", "--total_rounds=6")
    for name in ("one", "other"):
        assert play(tmp_path / name, *longer) == 0
    printed = capsys.readouterr().out
    assert "checkpoints secret: it holds the seed of the cohorts" in printed
    assert "cohorts are not drawn from --seed, and so not paired between runs of one seed" in printed
    assert cohorts_of(tmp_path / "one") != cohorts_of(tmp_path / "other")
    for checkpoint in (tmp_path / "one/run/checkpoints").glob("*6.npz"):
        checkpoint.unlink()  # Only that from before round 1 is left, as if the run had been killed early.
    before = cohorts_of(tmp_path / "one")
    assert play(tmp_path / "one", *longer) == 0
    assert cohorts_of(tmp_path / "one") == before


def test_cohorts_of_seeded_noise_come_from_the_seed(tmp_path, capsys):
    for name in ("one", "other"):
        assert play(tmp_path / name, *DPSGD, "--insecure_seeded_noise", "--clients_per_round=15") == 0
    pd.testing.assert_frame_equal(table(tmp_path / "one"), table(tmp_path / "other"))
    assert "not paired" not in capsys.readouterr().out


def test_checkpoints_are_their_owners_alone_and_said_to_be_secret(tmp_path, capsys):
    assert play(tmp_path, "--aggregator_type=dpftrl", "--noise_multiplier=1", "--clip_norm=0.5") == 0
    folder = tmp_path / "run" / "checkpoints"
    assert f"Keep {folder} secret: it holds the seed of the noise" in capsys.readouterr().out
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_noise_flags_without_any_training_are_an_error():
    arguments = ["run_federated", "--bandits_type=init", "--initial_model_path=somewhere"]
    for flag in (*DPSGD, "--insecure_seeded_noise", "--target_delta=1e-5"):
        with pytest.raises(UsageError, match=f"{flag.partition('=')[0]} has no effect with --bandits_type=init"):
            flags.resolve(frame.flag_set(run_federated.STUDY).parse([*arguments, flag]))


def test_noise_that_the_initial_training_cannot_have_is_refused_before_anything_is_made(tmp_path):
    noise = ("--aggregator_type=dpsgd", "--adaptive_clipping", "--noise_multiplier=0.5")
    with pytest.raises(UsageError, match=r"needs noise of more than 0.25 on the clipped count, not 0.15"):
        play(tmp_path, *noise, "--clients_per_round=20", "--scenario=init", "--init_clients=3")
    assert not list(tmp_path.iterdir())


TABLE = "site,age,color,y\n" + "".join(
    f"{site},{row},{'red' if row % 2 else 'blue'},{label}\n" for site in "abcdefgh" for row, label in enumerate("pqqr")
)


def test_statistics_of_private_clients_are_left_out_of_the_guarantee_unless_they_are_public(tmp_path, capsys):
    (tmp_path / "table.csv").write_text(TABLE)
    task = ("--task_type=tabular", f"--data_file={tmp_path}/table.csv", "--client_column=site", "--label_column=y")
    task = (*task, "--clients_per_round=2", "--total_rounds=1")
    assert play(tmp_path / "private", *task, *POISSON) == 0
    words = "means, deviations and categories of the table's columns; the table's labels and their counts"
    assert f"apart from {words}" in capsys.readouterr().out
    assert spent(tmp_path / "private")["mechanism"]["apart_from"] == words.split("; ")
    found = json.loads((tmp_path / "private/run/statistics.json").read_text())
    assert list(found["columns"]) == ["age", "color"]
    assert found["labels"] == {"p": 6, "q": 12, "r": 6}
    (tmp_path / "public.json").write_text(json.dumps(found))
    assert play(tmp_path / "public", *task, *POISSON, f"--public_statistics={tmp_path}/public.json") == 0
    assert "apart from" not in capsys.readouterr().out
    assert spent(tmp_path / "public")["mechanism"]["apart_from"] == []
    assert not (tmp_path / "public/run/statistics.json").exists()
    (tmp_path / "public.json").write_text(json.dumps(found | {"labels": {"p": 1, "q": 1, "r": 1}}))
    with pytest.raises(UsageError, match="the data has another checksum"):
        play(tmp_path / "public", *task, *POISSON, f"--public_statistics={tmp_path}/public.json")


def test_sizes_of_statistics_have_no_effect_where_those_are_given():
    arguments = ["run_federated", "--task_type=stackexchange_tag", "--public_statistics=file.json"]
    for flag in ("--num_tags=5", "--vocabulary_size=9"):
        with pytest.raises(UsageError, match=f"{flag.partition('=')[0]} does not go with --public_statistics"):
            flags.resolve(frame.flag_set(run_federated.STUDY).parse([*arguments, flag]))
