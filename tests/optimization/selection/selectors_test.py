import itertools
import math

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from optimization.selection import selectors
from optimization.selection.selectors import LocalLosses

SIZES = np.array([10, 40, 20, 5, 25])
ALL = {
    "uniform": lambda sizes, m: selectors.Uniform(sizes, m),
    "rand": lambda sizes, m: selectors.Rand(sizes, m),
    "pow_d": lambda sizes, m: selectors.PowD(sizes, m, min(2 * m, len(sizes))),
    "rpow_d": lambda sizes, m: selectors.RpowD(sizes, m, min(2 * m, len(sizes))),
    "ucb_cs": lambda sizes, m: selectors.UcbCs(sizes, m, 0.7),
    "ucb_cs_listing": lambda sizes, m: selectors.UcbCs(sizes, m, 0.7, algorithm_listing=True),
    "active_fl": lambda sizes, m: selectors.ActiveFl(sizes, m, 0.5, 0.1, 0.2),
}
# Six rounds of three clients: client -> (mean, deviation) of the loss it reports. In round 4 the cohort vanishes.
HISTORY = [{0: (2.0, 0.3)}, {1: (1.5, 0.2)}, {2: (0.7, 0.4)}, {}, {0: (1.1, 0.1), 1: (1.3, 0.25)}, {0: (0.9, 0.05)}]
SHARES = [0.5, 0.3, 0.2]


def losses(values) -> LocalLosses:
    return LocalLosses(np.array(values, float), np.full(len(values), 0.1))


def observe(selector, state, reports):
    values = np.array(list(reports.values()), float).reshape(-1, 2)
    return selector.observe(state, np.array(list(reports), int), LocalLosses(values[:, 0], values[:, 1]))


def choose(selector, state, draw):
    """Selects, after polling losses of 1 of clients with examples."""
    polled = selector.candidates(state, draw)
    polled = polled[selector.shares[polled] > 0]
    if len(polled):
        state = selector.observe_poll(state, polled, np.ones(len(polled)))
    return selector.select(state, draw)


def index_by_equations(t, client, gamma):
    """A_t(gamma, k) after round t, equations (4) to (7) term by term; None where N_t is zero."""

    def discounted(terms):
        return sum(gamma ** (t - s) * term for s, term in terms)

    rounds = range(1, t + 1)
    loss = discounted((s, HISTORY[s - 1][client][0] if client in HISTORY[s - 1] else 0.0) for s in rounds)
    count = discounted((s, float(client in HISTORY[s - 1])) for s in rounds)
    total = discounted((s, 1.0) for s in rounds)
    deviation = max(value for _, value in next(HISTORY[s - 1] for s in reversed(rounds) if HISTORY[s - 1]).values())
    if not count:
        return None
    return SHARES[client] * (loss / count + math.sqrt(2 * deviation**2 * math.log(total) / count))


@pytest.mark.parametrize("gamma", [0.7, 1.0, 0.0, 0.35])
def test_ucb_indices_equal_the_equations_in_every_round(gamma):
    selector = selectors.UcbCs([50, 30, 20], 1, gamma)
    state = selector.initial_state()
    for t, reports in enumerate(HISTORY, 1):
        state = observe(selector, state, reports)
        for client, found in enumerate(selector.indices(state)):
            expected = index_by_equations(t, client, gamma)
            assert found == (np.inf if expected is None else pytest.approx(expected, abs=1e-9))


def test_the_listing_updates_reporters_and_discounts_the_others():
    selector = selectors.UcbCs([50, 30, 20], 1, 0.7, algorithm_listing=True)
    state, listed = selector.initial_state(), [math.inf] * 3
    for t, reports in enumerate(HISTORY, 1):
        state = observe(selector, state, reports)
        for client in range(3):
            if client in reports:
                listed[client] = index_by_equations(t, client, 0.7)
        np.testing.assert_allclose(state.listed, listed, atol=1e-9)
        if np.isfinite(listed).all():
            assert selector.select(state, np.random.default_rng(t)) == [np.argmax(listed)]
        listed = [0.7 * value for value in listed]  # Line 8, after the selection.


@pytest.mark.parametrize("name", ["ucb_cs", "ucb_cs_listing", "rpow_d"])
def test_every_client_is_seen_before_any_is_seen_twice(name):
    selector = selectors.RpowD(SIZES, 1, 5) if name == "rpow_d" else ALL[name](SIZES, 1)
    state, seen = selector.initial_state(), []
    for round_num in range(5):
        seen += selector.select(state, np.random.default_rng(round_num)).tolist()
        state = selector.observe(state, np.array(seen[-1:]), losses([1.0]))
    assert sorted(seen) == [0, 1, 2, 3, 4]


def test_ties_are_broken_uniformly():
    selector = selectors.UcbCs([1] * 6, 2, 0.7)
    counts = np.zeros(6)
    for seed in range(3000):
        counts[selector.select(selector.initial_state(), np.random.default_rng(seed))] += 1
    assert scipy.stats.chisquare(counts).pvalue > 0.01


@pytest.mark.parametrize("cohort_size", [1, 3])
def test_rand_matches_the_shares_of_data(cohort_size):
    selector = selectors.Rand(SIZES, cohort_size)
    draw = np.random.default_rng(5)
    counts = np.bincount(np.concatenate([selector.select((), draw) for _ in range(4000)]), minlength=5)
    assert scipy.stats.chisquare(counts, SIZES / SIZES.sum() * counts.sum()).pvalue > 0.01


def test_candidates_are_successive_draws_without_replacement():
    selector = selectors.PowD(SIZES, 1, 2)
    draw = np.random.default_rng(6)
    pairs = {pair: 0 for pair in itertools.combinations(range(5), 2)}
    for _ in range(5000):
        pairs[tuple(sorted(selector.candidates(selector.initial_state(), draw).tolist()))] += 1
    p = SIZES / SIZES.sum()
    expected = [5000 * (p[a] * p[b] / (1 - p[a]) + p[b] * p[a] / (1 - p[b])) for a, b in pairs]
    assert scipy.stats.chisquare(list(pairs.values()), expected).pvalue > 0.01


def test_pow_d_prefers_candidates_that_answered():
    selector = selectors.PowD(SIZES, 2, 4)
    state = selector.observe_poll(selector.initial_state(), np.array([4, 2, 0]), np.array([0.1, 0.3, 0.2]))
    assert set(selector.select(state, np.random.default_rng(1))) == {2, 0}


def test_rpow_d_takes_the_largest_last_losses_of_its_candidates():
    selector = selectors.RpowD(SIZES, 2, 5)
    state = selector.observe(selector.initial_state(), np.arange(5), losses([5.0, 4.0, 3.0, 2.0, 1.0]))
    state = selector.observe(state, np.array([0, 4]), losses([0.5, 6.0]))
    assert set(selector.select(state, np.random.default_rng(1))) == {4, 1}


@pytest.mark.slow
def test_active_fl_matches_the_softmax_of_valuations():
    """One place, none of it uniform, the lower half left out: probabilities proportional to exp(alpha_2 v)."""
    sizes, means = np.array([4, 9, 16, 25]), np.array([1.0, 1.0, 1.0, 0.1])
    selector = selectors.ActiveFl(sizes, 1, 0.5, 0.5, 0.0)
    state = selector.observe(selector.initial_state(), np.arange(4), losses(means))
    draw = np.random.default_rng(8)
    counts = np.bincount([selector.select(state, draw)[0] for _ in range(4000)], minlength=4)
    weights = np.exp(0.5 * np.array([3.0, 4.0]))  # Valuations are 2, 3, 4 and 0.5.
    assert counts[[0, 3]].tolist() == [0, 0]
    assert scipy.stats.chisquare(counts[1:3], 4000 * weights / weights.sum()).pvalue > 0.01


@pytest.mark.slow
def test_active_fl_fills_its_uniform_places_with_others():
    sizes = np.array([4, 9, 16, 25])
    selector = selectors.ActiveFl(sizes, 2, 0.7, 50.0, 0.5)
    state = selector.observe(selector.initial_state(), np.arange(4), losses([1.0, 1.0, 1.0, 1.0]))
    draw = np.random.default_rng(9)
    chosen = np.array([selector.select(state, draw) for _ in range(3000)])
    assert set(chosen[:, 0]) == {3}
    assert scipy.stats.chisquare(np.bincount(chosen[:, 1], minlength=3)).pvalue > 0.01


@pytest.mark.parametrize("name", ["ucb_cs", "ucb_cs_listing", "rpow_d", "active_fl"])
def test_a_client_that_always_diverges_is_not_the_one_always_chosen(name):
    selector, draw, chosen = ALL[name]([10] * 5, 2), np.random.default_rng(0), np.zeros(5, int)
    state, cohorts = selector.initial_state(), selectors.SelectedCohorts(selector, seed=0)
    for round_num in range(200):
        cohort = choose(selector, state, draw)
        chosen[cohort] += 1
        mean = np.where(cohort == 0, np.nan, 1 + 1 / (1 + round_num))
        state = cohorts.observe(state, cohort, mean, np.where(cohort == 0, np.nan, 0.3))
    assert 1 <= chosen[0] <= 60  # Chance alone would choose it 80 times.


def test_who_was_tried_without_a_report_counts_as_tried_with_loss_0():
    nobody = (np.array([], int), losses([]))
    selector = selectors.UcbCs([10, 30], 1, gamma=0.7)
    state = selector.observe(selector.initial_state(), np.array([0]), LocalLosses(np.array([2.0]), np.array([0.5])))
    state = selector.observe(state, *nobody, np.array([1]))
    width = 0.5 * np.sqrt(2 * np.log(1.7))  # Nobody reported: the deviation stays.
    expected = [0.25 * (2 + width / np.sqrt(0.7)), 0.75 * (0 + width)]
    np.testing.assert_allclose(selector.indices(state), expected, rtol=1e-12)
    last = selectors.RpowD([10, 30], 1, 2)
    state = last.observe(last.observe(last.initial_state(), np.array([0]), losses([2.0])), *nobody, np.array([1]))
    np.testing.assert_array_equal(state, [2, 0])
    assert last.select(state, np.random.default_rng(0)).tolist() == [0]


@pytest.mark.parametrize("name", ALL)
class TestEverySelector:
    def test_the_cohort_depends_on_the_draw_alone_and_is_distinct_unless_the_selector_repeats(self, name):
        selector = ALL[name](SIZES, 3)
        for seed in range(20):
            chosen, again = (choose(selector, selector.initial_state(), np.random.default_rng(seed)) for _ in range(2))
            np.testing.assert_array_equal(chosen, again)
            assert chosen.shape == (3,)
            assert set(chosen) <= set(range(5))
            assert selector.repeats or len(set(chosen)) == 3

    def test_states_keep_shapes_and_dtypes_and_are_not_changed_in_place(self, name):
        selector = ALL[name](SIZES, 2)
        state = selector.initial_state()
        leaves = [np.asarray(leaf).copy() for leaf in tf.nest.flatten(state)]
        after = selector.observe(state, np.array([3, 0]), losses([0.5, 2.0]))
        after = selector.observe(after, np.array([], int), losses([]))
        polled = selector.candidates(after, np.random.default_rng(0))
        if len(polled):
            after = selector.observe_poll(after, polled[:1], np.array([0.2]))
        for before, untouched, leaf in zip(leaves, tf.nest.flatten(state), tf.nest.flatten(after), strict=True):
            np.testing.assert_array_equal(before, untouched)
            assert (np.shape(leaf), np.asarray(leaf).dtype) == (before.shape, before.dtype)

    def test_clients_without_examples_are_chosen_last(self, name):
        selector = ALL[name]([0, 3, 0, 8], 2)
        state = selector.initial_state()
        for seed in range(20):
            chosen = choose(selector, state, np.random.default_rng(seed))
            assert name == "uniform" or set(chosen) <= {1, 3}
            state = selector.observe(state, np.unique(chosen), losses([1.0] * len(set(chosen))))

    @pytest.mark.parametrize("cohort_size", [0, 6])
    def test_a_cohort_or_population_that_does_not_fit_is_refused(self, name, cohort_size):
        with pytest.raises(ValueError, match=f"--clients_per_round={cohort_size} must be from 1 to 5, the number"):
            ALL[name](SIZES, cohort_size)
        with pytest.raises(ValueError, match="No client has an example"):
            ALL[name]([0, 0], 1)


@pytest.mark.parametrize("make", [selectors.PowD, selectors.RpowD])
@pytest.mark.parametrize("num_candidates", [1, 6])
def test_candidates_fewer_than_the_cohort_or_more_than_all_are_refused(make, num_candidates):
    with pytest.raises(
        ValueError, match=f"--selection_candidates={num_candidates} must be from 2, the size of the cohort"
    ):
        make(SIZES, 2, num_candidates)


def test_clients_report_once_and_only_finite_losses():
    seen = []

    class Watched(selectors.Uniform):
        def observe(self, state, ids, losses, silent=()):
            seen.extend([ids, *losses, silent])
            return "after"

    cohorts = selectors.SelectedCohorts(Watched([1] * 9, 4), seed=0)
    means, deviations = np.array([0.5, np.nan, 0.25, 0.5]), np.array([0.1, 0.1, np.inf, 0.1])
    assert cohorts.observe((), np.array([7, 3, 2, 7]), means, deviations) == "after"
    assert [part.tolist() for part in seen] == [[7], [0.5], [0.1], [2, 3]]


def test_the_largest_answers_to_a_poll_are_chosen_and_silence_is_none():
    cohorts = selectors.SelectedCohorts(selectors.PowD([1] * 5, 2, 5), seed=3)
    answers = np.array([0.5, np.nan, 3.0, 2.0, np.inf])
    cohort, polled, state = cohorts.choose(cohorts.selector.initial_state(), 1, lambda ids: answers[ids])
    assert (set(cohort), set(polled)) == ({2, 3}, set(range(5)))
    assert sorted(state.losses[np.isfinite(state.losses)]) == [0.5, 2, 3]


def test_cohorts_are_drawn_from_the_seed_and_the_round():
    drawn = [
        selectors.SelectedCohorts(selectors.Uniform([1] * 99, 5), seed).choose((), round_num, pytest.fail).cohort
        for seed, round_num in ((1, 1), (1, 1), (1, 2), (2, 1))
    ]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert len({tuple(cohort) for cohort in drawn}) == 3
