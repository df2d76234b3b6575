import itertools

import numpy as np

from bandits.theory import oracles, worlds


def _log(generator, runs, contexts, actions, most=30):
    counts = generator.integers(0, most, (runs, contexts, actions))
    return oracles.Log(counts, generator.binomial(counts, 0.5))


def test_the_exact_oracle_is_the_best_of_all_functions():
    generator = np.random.default_rng(0)
    rows = generator.random((2, 3, 4))
    world = worlds.one_client(rows[:, 0], rows)
    log = _log(generator, 20, 2, 4)
    found = oracles.exact(world, log)
    for run in range(20):
        losses = {}
        for choice in itertools.product(range(3), repeat=2):
            function = np.stack([rows[context, row] for context, row in enumerate(choice)])
            ones, zeros = log.successes[run], log.counts[run] - log.successes[run]
            losses[choice] = (ones * (function - 1) ** 2 + zeros * function**2).sum()
        best = min(losses, key=lambda choice: losses[choice])
        np.testing.assert_array_equal(found[run], [rows[0, best[0]], rows[1, best[1]]])


def _excess(log, predicted):
    best = oracles.means(log, predicted)
    return (log.counts * (predicted - best) ** 2).sum(axis=(1, 2)) / log.counts.sum(axis=(1, 2))


def test_an_early_stop_leaves_just_what_it_may():
    generator = np.random.default_rng(2)
    log, start = _log(generator, 10, 2, 3), generator.random((10, 2, 3))
    for fed_opt in (1e-2, 1e-4, 1e-6):
        np.testing.assert_allclose(_excess(log, oracles.StoppedEarly(fed_opt)(log, start)), fed_opt, rtol=1e-5)
    np.testing.assert_array_equal(oracles.StoppedEarly(1.0)(log, start), start)  # Little is wrong from the start.


def test_an_early_stop_learns_frequent_cells_first():
    log = oracles.Log(np.array([[[90, 10]]]), np.array([[[90, 10]]]))
    found = oracles.StoppedEarly(1e-3)(log, np.zeros((1, 1, 2)))
    np.testing.assert_allclose(found[0, 0], [1, 0.9], atol=1e-4)  # 0.1 x 0.1^2 is left.


def test_least_squares_equal_numpys():
    generator = np.random.default_rng(4)
    features, actions = generator.normal(size=(50, 3)), generator.integers(2, size=50)
    rewards = generator.random(50)
    moments = oracles.Moments.of(features, actions, rewards, 2)
    found = oracles.least_squares(moments)
    for action in range(2):
        own = actions == action
        np.testing.assert_allclose(found[:, action], np.linalg.lstsq(features[own], rewards[own], rcond=None)[0])
    fitted = np.take_along_axis(features @ found, actions[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(moments.loss(found), ((fitted - rewards) ** 2).mean())


def test_moments_of_clients_are_those_of_all_samples():
    generator = np.random.default_rng(5)
    features, actions = generator.normal(size=(4, 5, 20, 3)), generator.integers(2, size=(4, 5, 20))
    rewards = generator.random((4, 5, 20))
    by_client = oracles.Moments.of(features, actions, rewards, 2).pooled()
    together = oracles.Moments.of(features.reshape(4, 100, 3), actions.reshape(4, 100), rewards.reshape(4, 100), 2)
    for mine, others in zip(by_client, together, strict=True):
        np.testing.assert_allclose(mine, others)
