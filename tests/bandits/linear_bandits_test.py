"""Tests of bandits.linear_bandits, against NumPy in float64."""

import numpy as np
import pytest
import tensorflow as tf

from bandits import linear_bandits

UNITS, ROWS, SLOTS = 3, 6, 4


def _sums(groups: int, seed: int = 0) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(groups, 20, UNITS + 1))
    gram = np.einsum("gni,gnj->gij", features, features)
    moment = np.einsum("gni,gn->gi", features, draw.normal(size=(groups, 20)))
    return {"gram": gram.astype(np.float32), "moment": moment.astype(np.float32)}


def _case(*, is_shared: bool):
    """Predictions, representation, sums, and each pair's features, estimate and V^-1, in float64."""
    draw, actions = np.random.default_rng(1), SLOTS
    shape = (ROWS, SLOTS, UNITS) if is_shared else (ROWS, UNITS)
    representation = draw.normal(size=shape).astype(np.float32)
    predicted = draw.normal(size=(ROWS, actions)).astype(np.float32)
    sums = _sums(1 if is_shared else actions)
    inverses = np.linalg.inv(sums["gram"].astype(float) + 0.5 * np.eye(UNITS + 1))
    features = np.concatenate([representation, np.ones((*shape[:-1], 1))], axis=-1)
    if is_shared:
        inverses = np.repeat(inverses, actions, axis=0)
        moments = np.repeat(sums["moment"], actions, axis=0)
    else:
        features, moments = np.repeat(features[:, np.newaxis], actions, axis=1), sums["moment"]
    theta = np.einsum("aij,aj->ai", inverses, moments)
    deviations = np.sqrt(np.einsum("nai,aij,naj->na", features, inverses, features))
    return predicted, representation, sums, predicted + np.einsum("nai,ai->na", features, theta), deviations


@pytest.mark.parametrize("is_shared", [False, True])
def test_linucb_takes_the_largest_upper_bound_of_numpy(is_shared):
    predicted, representation, sums, estimates, deviations = _case(is_shared=is_shared)
    projected = linear_bandits.project(linear_bandits.with_bias(representation), sums["gram"], sums["moment"], 0.5)
    np.testing.assert_allclose(predicted + projected.products(projected.center), estimates, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(projected.deviations(), deviations, rtol=1e-5)
    for width in (0.0, 0.3, 3.0):
        rows = linear_bandits.LinUcb(width, 0.5)(predicted, representation=representation, statistics=sums)
        np.testing.assert_array_equal(rows, np.eye(SLOTS)[np.argmax(estimates + width * deviations, axis=1)])


def test_linucb_never_takes_an_action_that_is_not_offered_and_shares_ties():
    policy, offered = linear_bandits.LinUcb(1.0), np.arange(SLOTS) > np.arange(ROWS)[:, np.newaxis] % SLOTS - 1
    zeros = {name: tf.zeros_like(each) for name, each in _sums(1).items()}
    rows = policy(tf.zeros((ROWS, SLOTS)), offered, representation=tf.ones((ROWS, SLOTS, UNITS)), statistics=zeros)
    np.testing.assert_allclose(rows, offered / offered.sum(axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("is_shared", [False, True])
def test_shares_of_lints_are_those_of_the_posterior_among_the_offered_actions(is_shared):
    predicted, representation, sums, _, _ = _case(is_shared=is_shared)
    offered = np.arange(SLOTS) != np.arange(ROWS)[:, np.newaxis] % SLOTS
    policy = linear_bandits.LinTs(0.7, 0.5, num_draws=2000, floor=0.01)
    key, draw = tf.constant([1, 2]), np.random.default_rng(3)
    rows = policy(predicted, offered, representation=representation, statistics=sums, key=key).numpy()
    features = np.concatenate([representation, np.ones((*representation.shape[:-1], 1))], axis=-1)
    covariances = np.linalg.inv(sums["gram"].astype(float) + 0.5 * np.eye(UNITS + 1))
    thetas = [
        draw.multivariate_normal(covariance @ moment, 0.7**2 * covariance, size=50_000)
        for covariance, moment in zip(covariances, sums["moment"], strict=True)
    ]
    pairs = "nai,gdi->dna" if is_shared else "ni,gdi->dng"
    sampled = predicted + np.einsum(pairs, features, np.array(thetas))
    best = np.argmax(np.where(offered, sampled, -np.inf), axis=2)
    shares = np.mean(best[..., np.newaxis] == np.arange(SLOTS), axis=0)
    expected = np.where(offered, 0.01 + (1 - 0.01 * (SLOTS - 1)) * shares, 0)
    np.testing.assert_allclose(rows, expected, atol=4 * 0.5 / np.sqrt(2000))
    assert (rows[~offered] == 0).all()
    assert rows[offered].min() >= 0.01 * (1 - 1e-6)


@pytest.mark.parametrize("is_shared", [False, True])
def test_statistics_are_sums_over_the_chosen_actions(is_shared):
    predicted, representation, _, _, _ = _case(is_shared=is_shared)
    draw = np.random.default_rng(4)
    action, target = draw.integers(SLOTS, size=ROWS).astype(np.int32), draw.normal(size=ROWS).astype(np.float32)
    sums = linear_bandits.LinUcb(1.0).statistics(representation, action, predicted, target)
    gram, moment = np.zeros(sums["gram"].shape), np.zeros(sums["moment"].shape)
    for row, chosen in enumerate(action):
        features = np.append(representation[row, chosen] if is_shared else representation[row], 1.0).astype(float)
        group = 0 if is_shared else chosen
        gram[group] += np.outer(features, features)
        moment[group] += features * (target[row] - predicted[row, chosen])
    np.testing.assert_allclose(sums["gram"], gram, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sums["moment"], moment, rtol=1e-5, atol=1e-5)


def test_a_served_model_predicts_the_estimates_and_its_sums_keep_the_policy():
    predicted, representation, sums, estimates, _ = _case(is_shared=False)
    policy = linear_bandits.LinUcb(0.8, 0.5)
    weights = np.zeros((UNITS, SLOTS), np.float32), np.zeros(SLOTS, np.float32)
    (kernel, bias), kept = policy.served(weights, {}, {name: each.astype(float) for name, each in sums.items()})
    served = predicted + representation @ kernel + bias
    np.testing.assert_allclose(served, estimates, rtol=1e-5, atol=1e-5)
    before = policy(predicted, representation=representation, statistics=sums)
    np.testing.assert_array_equal(policy(served, representation=representation, statistics=kept), before)


def test_a_singular_gram_matrix_of_large_numbers_has_a_factor():
    features = np.full((1, 50, 3), 1000.0)
    gram = np.einsum("gni,gnj->gij", features, features).astype(np.float32)
    assert np.isfinite(linear_bandits.cholesky(gram, 1e-6)).all()


# Differential privacy.


def _client_sums(clip_norm: float | None, *, is_shared: bool, rewards_from: int = 0) -> dict[str, np.ndarray]:
    predicted, representation, _, _, _ = _case(is_shared=is_shared)
    action = np.random.default_rng(4).integers(SLOTS, size=ROWS).astype(np.int32)
    target = np.random.default_rng(rewards_from).random(ROWS, np.float32)
    sums = linear_bandits.LinUcb(1.0, clip_norm=clip_norm).statistics(representation, action, predicted, target)
    return {name: each.numpy() for name, each in sums.items()}


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("norm", [0.5, 1e6])
def test_one_factor_that_does_not_depend_on_rewards_bounds_the_norm_of_a_clients_sums(is_shared, norm):
    unlimited = _client_sums(None, is_shared=is_shared)
    one, other = (_client_sums(norm, is_shared=is_shared, rewards_from=seed) for seed in (0, 1))
    np.testing.assert_array_equal(one["gram"], other["gram"])
    assert (one["moment"] != other["moment"]).any()
    total = np.sqrt(sum(np.sum(each.astype(float) ** 2) for each in one.values()))
    assert total <= norm * (1 + 1e-6)
    factor = one["gram"][..., -1, -1].sum() / unlimited["gram"][..., -1, -1].sum()
    np.testing.assert_allclose(one["gram"], factor * unlimited["gram"], rtol=1e-5, atol=1e-7)
    assert factor == pytest.approx(1) if norm > 1 else factor < 0.1


def test_residuals_under_a_limit_lie_within_the_bounds_of_rewards():
    predicted, representation = np.float32([[5, -7]]), np.zeros((1, 3), np.float32)
    policy = linear_bandits.LinUcb(1.0, clip_norm=100.0)
    residuals = [
        policy.statistics(representation, np.int32([action]), predicted, np.float32([3]))["moment"] for action in (0, 1)
    ]
    assert [float(each.numpy().sum()) for each in residuals] == [0, 1]


@pytest.mark.parametrize(("features", "predictions"), [(np.inf, 0.0), (1.0, np.nan)])
def test_features_or_predictions_that_are_not_finite_give_sums_of_zero(features, predictions):
    policy = linear_bandits.LinUcb(1.0, clip_norm=1.0)
    sums = policy.statistics(
        np.full((2, 3), features, np.float32),
        np.int32([0, 1]),
        np.full((2, 2), predictions, np.float32),
        np.float32([0, 0]),
    )
    assert not any(each.numpy().any() for each in sums.values())


@pytest.mark.parametrize("reward_noise", [0.0, 0.3])
def test_widths_cover_the_weights_under_noise_and_would_not_without_their_growth(reward_noise):
    ridge, delta, draws, noise, units = 0.1, 0.1, 500, 2.0, 4
    rng, covered, narrow = np.random.default_rng(0), 0, 0
    for _ in range(draws):
        theta = rng.normal(size=units)
        theta /= np.linalg.norm(theta)
        rows, weights = rng.normal(size=(30, units)), rng.uniform(0, 1, 30)
        rewards = rows @ theta + rng.normal(0, reward_noise, 30)
        gram = (rows.T * weights) @ rows + rng.normal(0, noise, (units, units))
        moment = (rows.T * weights) @ rewards + rng.normal(0, noise, units)
        sums = {"gram": gram[np.newaxis], "moment": moment[np.newaxis], "noise": np.float64(noise)}
        # The width without noise, by Abbasi-Yadkori et al. 2011, Theorem 2, at the same delta.
        shift, grown = linear_bandits.LinUcb(0.0, ridge, noise_delta=delta).regularized(sums)
        root = linear_bandits.cholesky(sums["gram"], shift).numpy()[0]
        assert np.isfinite(root).all()
        log_ratio = 2 * np.log(np.diag(root)).sum() - units * np.log(ridge)
        width = np.sqrt(ridge) + reward_noise * np.sqrt(2 * np.log(1 / delta) + max(log_ratio, 0))
        error = np.linalg.norm(root.T @ (np.linalg.solve(root @ root.T, moment) - theta))
        covered += error <= width + float(grown)
        narrow += error <= width
    assert covered / draws >= 1 - delta - (delta if reward_noise else 0)
    assert narrow / draws < 0.9 or reward_noise


def test_the_ridge_makes_v_positive_definite_with_the_stated_probability():
    units, groups, delta, noise = 5, 3, 0.2, 3.0
    policy = linear_bandits.LinUcb(0.0, 1e-3, noise_delta=delta)
    sums = {"moment": np.zeros((groups, units)), "noise": np.float64(noise)}
    ridge, _ = policy.regularized(sums)
    noises = np.random.default_rng(0).normal(0, noise, (3000, groups, units, units))
    smallest = np.linalg.eigvalsh((noises + np.swapaxes(noises, 2, 3)) / 2).min(axis=(1, 2))
    bound = (float(ridge) - 1e-3) / 2
    assert np.mean(smallest + 2 * bound >= bound) >= 1 - delta
    assert smallest.min() < -1e-3  # The ridge alone would not do.


def test_without_noise_ridge_and_width_are_the_given_ones():
    policy = linear_bandits.LinTs(0.7, 0.3)
    assert policy.regularized(_sums(2)) == (0.3, 0.7)
    ridge, width = policy.regularized({**_sums(2), "noise": np.float32(0)})
    assert (float(ridge), float(width)) == (pytest.approx(0.3), pytest.approx(0.7))
