"""Tests of bandits.guarantees: whose data a model knows."""

import dataclasses

import pytest

from bandits import guarantees
from data.tasks import registry
from data.tasks.options import TaskOptions


@pytest.mark.parametrize(
    ("options", "digest"),
    [
        (TaskOptions("digits"), "46cefbf325199530"),
        (TaskOptions("synthetic", partition_clients=30), "eb86330431e1ee20"),
    ],
)
def test_a_population_keeps_its_digest(options, digest):
    assert guarantees.population_checksum(options, registry.load(options)) == digest


def test_the_digest_sees_what_makes_the_clients_and_nothing_else():
    options = TaskOptions("synthetic", partition_clients=5)
    task = registry.load(options)
    digest = guarantees.population_checksum(options, task)
    assert (
        guarantees.population_checksum(dataclasses.replace(options, data_dir="elsewhere", num_tags=3), task) == digest
    )
    assert guarantees.population_checksum(dataclasses.replace(options, partition_seed=1), task) != digest
