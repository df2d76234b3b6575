import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from optimization.privacy import dp_queries, sensitivities

SPECS = (tf.TensorSpec((40, 50)), tf.TensorSpec((1000,)))
ZEROS = tuple(tf.zeros(spec.shape) for spec in SPECS)


def flat(parts) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts])


def noised(query, rounds: int):
    """Returns each round's noised result for a sum of zeros."""
    state, results = query.initial_global_state(), []
    for _ in range(rounds):
        result, state, _ = query.get_noised_result(ZEROS, state)
        results.append(flat(result))
    return np.stack(results), state


def assert_variance(sample: np.ndarray, variance: float):
    """Two-sided chi-square test of a normal sample's variance about zero, at one in ten thousand."""
    low, high = scipy.stats.chi2(len(sample)).ppf([5e-5, 1 - 5e-5])
    assert low < np.square(sample).sum() / variance < high


@pytest.mark.parametrize(
    "make",
    [
        lambda: dp_queries.gaussian_sum(10.0, 0.0, None),
        lambda: dp_queries.gaussian_sum(10.0, 0.0, 3),
        lambda: dp_queries.tree_sum(10.0, 1.0, SPECS, noise_seed=1, max_rounds=4),
        lambda: dp_queries.NoisedSum(10.0, SPECS),
    ],
)
def test_clipping_is_to_the_norm_of_the_whole_record(make):
    query = make()
    params = query.derive_sample_params(query.initial_global_state())
    record = (tf.constant([3.0, 0.0]), tf.constant([[4.0]]))
    for factor, kept in [(1.0, 1.0), (2.0, 2.0), (2.5, 2.0), (1000.0, 2.0), (0.0, 0.0)]:
        clipped = query.preprocess_record(params, tf.nest.map_structure(lambda part, by=factor: by * part, record))
        np.testing.assert_allclose(flat(clipped), kept * np.array([3.0, 0.0, 4.0]), rtol=1e-6)


@pytest.mark.parametrize("seed", [None, 5])
def test_noise_of_a_gaussian_sum_has_the_stated_deviation(seed):
    results, _ = noised(dp_queries.gaussian_sum(2.0, 0.6, seed), 2)
    for result in results:
        assert_variance(result, 0.36)
    assert abs(np.corrcoef(results)[0, 1]) < 0.08


def test_only_equal_seeds_repeat_the_noise():
    seeded = [noised(dp_queries.gaussian_sum(1.0, 1.0, seed), 2)[0] for seed in (4, 4, 5)]
    np.testing.assert_array_equal(seeded[0], seeded[1])
    assert not np.array_equal(seeded[0], seeded[2])
    free = [noised(dp_queries.gaussian_sum(1.0, 1.0, None), 1)[0] for _ in range(2)]
    assert not np.array_equal(free[0], free[1])


ADAPTIVE = {"initial_l2_norm_clip": 1.0, "target_unclipped_quantile": 0.8, "learning_rate": 0.2}
ADAPTIVE["expected_num_records"] = 25.0


def adapt(seed, noise_multiplier, count_stddev, rounds):
    """Returns the clip norm after rounds of 25 records with log-normal norms."""
    seeds = None if seed is None else (seed, seed + 10)
    query = dp_queries.adaptive_clip_sum(
        seeds=seeds, noise_multiplier=noise_multiplier, clipped_count_stddev=count_stddev, **ADAPTIVE
    )
    draw, state, norms = np.random.default_rng(0), query.initial_global_state(), []
    for _ in range(rounds):
        params = query.derive_sample_params(state)
        sample = query.initial_sample_state((tf.TensorSpec((1,)),))
        for norm in np.exp(draw.normal(0, 0.3, 25)):
            sample = query.accumulate_record(params, sample, (tf.constant([norm], tf.float32),))
        _, state, _ = query.get_noised_result(sample, state)
        norms.append(float(state.sum_state.l2_norm_clip))
    return np.array(norms), state


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 2])
def test_the_adaptive_clip_norm_finds_the_quantile(seed):
    norms, _ = adapt(seed, 0.0, 0.0, 30)
    assert norms[-10:].mean() == pytest.approx(scipy.stats.lognorm(0.3).ppf(0.8), rel=0.1)


@pytest.mark.slow
def test_noise_of_adaptive_clipping_follows_the_clip_norm_and_the_published_split():
    total, count_stddev = 0.7, 1.25
    value = sensitivities.split_noise(total, count_stddev)
    assert value == pytest.approx((0.7**-2 - 2.5**-2) ** -0.5)
    norms, state = adapt(3, value, count_stddev, 30)
    assert float(state.sum_state.stddev) == pytest.approx(value * norms[-1], rel=1e-5)
    count = state.quantile_estimator_state.below_estimate_state.numerator_state
    assert float(count.stddev) == pytest.approx(count_stddev)
    assert norms[-10:].mean() == pytest.approx(scipy.stats.lognorm(0.3).ppf(0.8), rel=0.3)


@pytest.mark.slow
def test_tree_noise_of_the_running_sum_counts_the_bits_of_the_round():
    results, _ = noised(dp_queries.tree_sum(2.0, 0.5, SPECS, noise_seed=6, max_rounds=8), 8)
    for round_num, running in enumerate(np.cumsum(results, axis=0), 1):
        assert_variance(running, round_num.bit_count() * (2.0 * 0.5) ** 2)


@pytest.mark.slow
def test_a_restarted_tree_begins_anew():
    query = dp_queries.tfp.RestartQuery(
        dp_queries.tree_sum(1.0, 1.0, SPECS, noise_seed=6, max_rounds=3),
        dp_queries.tfp.restart_query.PeriodicRoundRestartIndicator(3),
    )
    results, _ = noised(query, 6)
    assert_variance(results[3], 1.0)
    assert_variance(results[:3].sum(axis=0), 2.0)
    assert_variance(results.sum(axis=0), 4.0)


def test_a_round_adds_the_noise_of_its_state_once():
    query = dp_queries.NoisedSum(1.0, SPECS)
    noise = tuple(tf.fill(spec.shape, 2.0) for spec in SPECS)
    result, state, _ = query.get_noised_result(noise, query.initial_global_state()._replace(noise=noise))
    np.testing.assert_array_equal(flat(result), 4.0)
    assert np.isnan(flat(query.get_noised_result(noise, state)[0])).all()


def test_a_client_adds_half_to_the_count_of_unclipped_updates_or_takes_it_away():
    # So an absent client, who adds nothing, moves it by a half, and one that replaces another by one at most.
    query = dp_queries.adaptive_clip_sum(seeds=None, noise_multiplier=1.0, clipped_count_stddev=1.0, **ADAPTIVE)
    params = query.derive_sample_params(query.initial_global_state())
    added = [
        float(tf.nest.flatten(query.preprocess_record(params, [tf.constant([norm])]))[-1]) for norm in (0.0, 0.9, 7.0)
    ]
    assert added == [0.5, 0.5, -0.5]
