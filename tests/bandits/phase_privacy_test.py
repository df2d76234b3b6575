"""Tests of bandits.phase_privacy: whose data a model knows."""

import dataclasses

import pytest

from bandits import phase_privacy
from bandits.options import phases
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization.privacy import mechanisms
from tests.bandits import whole_runs


@pytest.mark.parametrize(
    ("options", "digest"),
    [(TaskOptions("digits"), "46cefbf325199530"), (TaskOptions("synthetic", partition_clients=30), "eb86330431e1ee20")],
)
def test_a_population_keeps_its_digest(options, digest):
    assert phase_privacy.population_checksum(options, registry.load(options)) == digest


def test_the_digest_sees_what_makes_the_clients_and_nothing_else():
    options = TaskOptions("synthetic", partition_clients=5)
    task = registry.load(options)
    digest = phase_privacy.population_checksum(options, task)
    elsewhere = dataclasses.replace(options, data_dir="elsewhere", num_tags=3)
    assert phase_privacy.population_checksum(elsewhere, task) == digest
    assert phase_privacy.population_checksum(dataclasses.replace(options, partition_seed=1), task) != digest


def test_a_phase_that_releases_no_model_adds_what_it_shows_without_noise():
    options, task = whole_runs.opened("--federation=alone")
    trained = mechanisms.Mechanism("dpsgd", 1.0, 60, 20, "poisson", apart_from=("the vocabulary",))
    before = phase_privacy.Trained(trained, 10)
    (phase,) = phases(options, task)
    after = phase_privacy.of_phase(options.task, task, phase, 1, before, ("each client's rewards",))
    both = ("the vocabulary", "each client's rewards")
    assert after == phase_privacy.Trained(dataclasses.replace(trained, apart_from=both), 10)
