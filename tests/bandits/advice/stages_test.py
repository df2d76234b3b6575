"""When a recommendation has no runs with noise, or of clients that train alone."""

import pytest

from bandits.advice import stages


@pytest.mark.parametrize("absent", ["--availability=diurnal", "--drop_out=0.1"])
def test_no_noise_is_advised_where_its_guarantee_would_not_hold(absent):
    assert "no Poisson sample" in stages.refused_noise(("--task_type=digits", absent))
    assert stages.refused_noise(("--task_type=digits", "--drop_out=0")) == ""


def test_no_noise_is_advised_where_losses_reset_the_training():
    assert "the clients' losses" in stages.refused_noise(("--task_type=digits", "--reset=model"))
    window = ("--reset=model", "--reset_when=window", "--reset_window=20")
    assert stages.refused_noise(("--task_type=digits", *window)) == ""


def test_clients_train_alone_where_the_flags_and_their_number_allow_it():
    assert stages.refused_federation(("--task_type=digits",), 60) == ""
    assert "--reset" in stages.refused_federation(("--task_type=digits", "--reset=model"), 60)
    many = ("--task_type=digits", "--total_rounds=1000", "--clients_per_round=10")
    assert "1,000" in stages.refused_federation(many, 5000)
