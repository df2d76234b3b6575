"""Tests of what the algorithms' clients do; what their servers make of it is tested with the rounds."""

import pytest

from optimization import client_work, models
from optimization.posterior import algorithm_flags, algorithms

SGD = client_work.LocalSgd(0.1, 4, epochs=2, momentum=0.5)


def build(name: str, **values) -> algorithms.Algorithm:
    return algorithms.build(algorithm_flags.Posterior(name, **values), SGD, models.mlp(4, (), 3))


@pytest.mark.parametrize("name", ["fedpa", "fedkppa", "client_sgld"])
def test_chains_step_like_the_plain_training_of_the_burn_in(name):
    algorithm = build(name, burn_in_rounds=3, steps_per_sample=5)
    chain = algorithm.work_of(4).chain
    assert algorithm.work_of(3) == SGD
    assert (chain.learning_rate, chain.batch_size, chain.epochs, chain.momentum) == (0.1, 4, 2, 0.5)
    assert (chain.steps_per_sample, chain.langevin) == (5, name == "client_sgld")


def test_equal_options_make_equal_work_and_others_do_not():
    assert hash(build("fedpa").client_work) == hash(build("fedpa").client_work)
    assert build("fedpa").client_work == build("fedkppa").client_work != build("fedpa", shrinkage=0.2).client_work
