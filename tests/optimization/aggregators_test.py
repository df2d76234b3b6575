import dataclasses

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_federated as tff

from data import objects
from data.errors import Failure, UsageError
from optimization import aggregators, options
from optimization.privacy import mechanisms
from optimization.study import aggregation_flags, cli
from tests.optimization.aggregations import KINDS, SHAPES, build

DELTA = tuple(np.full(shape, 0.01, np.float32) for shape in SHAPES)  # L2 norm 0.64.
ZERO = tuple(np.zeros(shape, np.float32) for shape in SHAPES)


def flat(parts) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in tf.nest.flatten(parts)])


def execute(process, state, deltas):
    return process.next(state, deltas, [1.0] * len(deltas))


def test_dp_fedavg_divides_the_sum_of_clipped_deltas_by_the_expected_cohort(tff_worker):
    aggregation, process = build("--aggregator_type=dpsgd", "--noise_multiplier=0", "--clip_norm=0.32")
    state = process.initialize()
    output = execute(process, state, [DELTA, DELTA, ZERO])
    np.testing.assert_allclose(flat(output.result), 2 * 0.005 / 4, rtol=1e-5)
    assert aggregators.clip_norm(aggregation, state, output.measurements) == 0.32
    assert aggregators.clipped_clients(output.measurements) is None


@pytest.mark.parametrize("arguments", [("--insecure_seeded_noise",), ()])
def test_noise_on_the_mean_has_deviation_noise_multiplier_times_clip_over_cohort(tff_worker, arguments):
    _, process = build("--aggregator_type=dpsgd", "--noise_multiplier=0.5", "--clip_norm=0.4", *arguments)
    noise = flat(execute(process, process.initialize(), [ZERO] * 4).result)
    low, high = scipy.stats.chi2(len(noise)).ppf([5e-5, 1 - 5e-5])
    assert low < np.square(noise).sum() / (0.5 * 0.4 / 4) ** 2 < high


def test_a_sum_without_noise_is_not_released(tff_worker):
    _, given = build(*KINDS["mf_dpftrl"])
    state = given.initialize()
    for aggregator in (state.aggregator, execute(given, state, [DELTA]).state.aggregator):
        assert np.isnan(flat(execute(given.process, aggregator, [DELTA]).result)).all()


@pytest.mark.parametrize("kind", ["dpsgd", "dpsgd_adaptive", "dpftrl", "mf_dpftrl"])
def test_seeded_noise_differs_between_trainings_and_seeds(tff_worker, kind):
    pair = ((40, 2), (80,))  # Two tensors of one size, so that a shifted stream would show.
    earlier = mechanisms.Mechanism("dpsgd", 1.0, 100, 4)
    noises = []
    for arguments in ((), ("--seed=4",)):
        for pretraining in (None, earlier):
            _, process = build(*KINDS[kind], *arguments, shapes=pair, pretraining=pretraining)
            state = process.initialize()
            for _ in range(3):
                output = execute(process, state, [tuple(np.zeros(shape, np.float32) for shape in pair)] * 4)
                state = output.state
                noises += [np.ravel(part) for part in output.result]
    correlations = np.corrcoef(noises)
    runs = np.arange(len(noises)) // 6
    assert np.abs(correlations[runs[:, np.newaxis] != runs]).max() < 0.6


def test_the_reported_clip_norm_is_the_one_that_the_round_used(tff_worker):
    aggregation, process = build("--aggregator_type=dpsgd", "--noise_multiplier=0", "--adaptive_clipping")
    state, norms = process.initialize(), []
    for _ in range(2):
        output = execute(process, state, [DELTA] * 4)
        norms.append(aggregators.clip_norm(aggregation, state, output.measurements))
        np.testing.assert_allclose(np.linalg.norm(flat(output.result)), norms[-1], rtol=1e-4)
        state = output.state
    assert norms == pytest.approx([0.1, 0.1 * np.exp(0.2 * 0.8)], rel=1e-5)


def test_a_secure_sum_is_the_clipped_mean_to_its_grid(tff_worker):
    aggregation, process = build("--aggregator_type=secure_sum", "--clip_norm=0.32")
    state = process.initialize()
    output = execute(process, state, [DELTA, ZERO])
    np.testing.assert_allclose(flat(output.result), 0.0025, atol=1e-6)
    assert aggregators.clip_norm(aggregation, state, output.measurements) == pytest.approx(0.32)
    assert aggregators.clipped_clients(output.measurements) == 1


def test_distributed_noise_adds_up_to_the_central_one(tff_worker):
    _, process = build("--aggregator_type=ddp", "--noise_multiplier=0.5", "--clip_norm=0.4")
    noise = flat(execute(process, process.initialize(), [ZERO] * 4).result)
    assert noise.std() == pytest.approx(0.5 * 0.4 / 4, rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_state_continues_bit_for_bit(tff_worker, kind):
    _, process = build(*KINDS[kind])
    template = process.initialize()
    first = execute(process, template, [DELTA] * 4).state
    leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(first)]
    for leaf, like in zip(leaves, tf.nest.flatten(template), strict=True):
        assert (leaf.shape, leaf.dtype) == (np.shape(like), np.asarray(like).dtype)
    again = tf.nest.pack_sequence_as(template, leaves)
    results = [flat(execute(process, state, [DELTA] * 4).result) for state in (first, again)]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("kind", ["dpsgd", "dpsgd_adaptive", "dpftrl", "mf_dpftrl"])
def test_an_empty_cohort_still_releases_noise(tff_worker, kind):
    aggregation, process = build(*KINDS[kind])
    output = execute(process, process.initialize(), [])
    result = flat(output.result)
    assert np.isfinite(result).all()
    assert result.std() > 0
    assert np.isfinite(aggregators.clip_norm(aggregation, output.state, output.measurements))


@pytest.mark.parametrize("kind", ["mean", "secure_sum"])
def test_without_noise_an_empty_cohort_leaves_the_state_and_has_no_result(tff_worker, kind):
    aggregation, process = build(*KINDS[kind])
    before = execute(process, process.initialize(), [DELTA] * 4).state
    output = execute(process, before, [])
    assert np.isnan(flat(output.result)).all()
    for found, expected in zip(tf.nest.flatten(output.state), tf.nest.flatten(before), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert aggregators.clip_norm(aggregation, before, output.measurements) == pytest.approx(0.1 * np.exp(0.16))


def test_the_trimmed_share_is_a_tenth_on_each_side_by_default(tff_worker):
    _, process = build("--aggregator_type=trimmed_mean", cohort=10)
    deltas = [tuple(np.full(shape, value, np.float32) for shape in SHAPES) for value in (*range(9), 1000.0)]
    for part in process.next(process.initialize(), deltas, [np.float32(1)] * 10).result:
        np.testing.assert_allclose(part, np.mean(range(1, 9)))


def of_user(value):
    aggregation = options.Aggregation(own=objects.of(value), clip_norm=None, unclip_quantile=None)
    mechanism = aggregation_flags.mechanism(aggregation, options.Cohorts(4), 100, 4096)
    delta_type = tff.to_type(tuple((np.float32, shape) for shape in SHAPES))
    process = aggregators.build(aggregation, mechanism, SHAPES).create(delta_type, tff.TensorType(np.float32))
    return process, mechanism


def quotient():
    return tff.aggregators.MeanFactory()  # NaN if all weights are 0.


def adaptive():
    estimate = tff.aggregators.PrivateQuantileEstimationProcess.no_noise(0.1, 0.5, 0.2)
    return tff.aggregators.clipping_factory(estimate, tff.aggregators.UnweightedMeanFactory())


def test_an_aggregator_of_the_users_takes_the_place_of_the_mean(tff_worker):
    process, mechanism = of_user(adaptive)
    output = process.next(process.initialize(), [DELTA, DELTA], [1.0, 3.0])
    np.testing.assert_allclose(flat(output.result), 0.01 * 0.1 / 0.64, rtol=1e-5)
    longer = process.next(output.state, [DELTA, DELTA], [1.0, 3.0])
    np.testing.assert_allclose(flat(longer.result), np.exp(0.1) * flat(output.result), rtol=1e-5)
    empty = execute(process, output.state, [])
    np.testing.assert_array_equal(tf.nest.flatten(empty.state), tf.nest.flatten(output.state))
    assert np.isnan(flat(empty.result)).all()
    summary = "Privacy: no guarantee, because the privacy of the aggregator adaptive is not known."
    assert mechanism.report(3)["summary"] == summary


def test_a_weighted_aggregator_of_the_users_gets_the_weights(tff_worker):
    process, _ = of_user(quotient)
    output = process.next(process.initialize(), [DELTA, ZERO], [1.0, 3.0])
    np.testing.assert_allclose(flat(output.result), flat(DELTA) / 4, rtol=1e-6)


def infinite():
    return tff.aggregators.UnweightedMeanFactory(value_sum_factory=tff.aggregators.SumFactory())


def test_a_result_that_is_not_finite_is_a_failure_unless_nothing_has_weight(tff_worker):
    process, _ = of_user(quotient)
    assert np.isnan(flat(process.next(process.initialize(), [DELTA, ZERO], [0.0, 0.0]).result)).all()
    process, _ = of_user(infinite)
    largest = tuple(np.full(shape, 3e38, np.float32) for shape in SHAPES)
    with pytest.raises(Failure) as caught:
        execute(process, process.initialize(), [largest, largest])
    problem = "the result of aggregator infinite is not finite, although all updates are"
    assert str(caught.value) == f"TFF's worker reports an error: assertion failed: [{problem}]."


@dataclasses.dataclass(frozen=True)
class First(tff.aggregators.UnweightedAggregationFactory):
    """The sum of the first tensor alone."""

    def create(self, value_type):
        return tff.aggregators.SumFactory().create(value_type[0])


@dataclasses.dataclass(frozen=True)
class Broken(tff.aggregators.UnweightedAggregationFactory):
    def create(self, value_type):
        raise TypeError("no such tensor")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "aggregator must be a factory of tff.aggregators"),
        (First, "aggregator must be a factory of tff.aggregators"),
        (First(), r"aggregator First\(\) fails"),
        (Broken(), r"aggregator Broken\(\) fails: TypeError: no such tensor"),
    ],
)
def test_what_is_no_aggregator_of_updates_is_refused(value, message):
    with pytest.raises(UsageError, match=message):
        of_user(value)


@pytest.mark.parametrize("arguments", [("--clip_norm=1",), ("--adaptive_clipping",)])
def test_an_aggregator_of_the_users_goes_without_clipping(arguments):
    flags = cli.FlagSet("")
    flags.group("Aggregation", options.Aggregation, options.Cohorts)
    settings = flags.parse(["test", *arguments]).with_user_values(aggregator=objects.of(quotient))
    with pytest.raises(UsageError, match="--aggregator uses updates without clipping"):
        aggregation_flags.check(settings)
