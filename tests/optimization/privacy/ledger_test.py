"""What several releases cost together, against dp-accounting, and the file that remembers them."""

import dataclasses
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event, pld, rdp
from dp_accounting.rdp import rdp_privacy_accountant

from data.errors import UsageError
from optimization.privacy import ledger, releases
from optimization.privacy.ledger import Spent
from optimization.privacy.mechanisms import Mechanism

_DELTA = 1e-5
_LOOK = Mechanism("dpsgd", 5.0, 1000, 1000, "cyclic", delta=_DELTA)
_MODEL = Mechanism("dpsgd", 1.0, 500, 50, "poisson", delta=1e-4)


def _accounted(*events):
    accountant = rdp.RdpAccountant()
    for event, count in events:
        accountant.compose(event, count)
    return accountant.get_epsilon(_DELTA)


_OF_LOOK = dp_accounting.GaussianDpEvent(5.0)
_OF_MODEL = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(1.0))


def test_looks_and_models_are_composed_at_the_last_delta():
    other = dataclasses.replace(_LOOK, noise_multiplier=3.0)
    spent = [Spent("model", _MODEL, 20), Spent("look", _LOOK), Spent("look", other), Spent("look", _LOOK)]
    mechanism, rounds = ledger.composed(spent)
    expected = _accounted((_OF_MODEL, 20), (_OF_LOOK, 2), (dp_accounting.GaussianDpEvent(3.0), 1))
    assert mechanism.epsilon(rounds) == pytest.approx(expected, rel=1e-9)
    assert mechanism.delta == _DELTA
    assert (mechanism.noise_multiplier, rounds) == (5.0, 2)


def test_one_release_is_itself():
    assert ledger.composed([Spent("look", _LOOK, 3)]) == (_LOOK, 3)


@pytest.mark.slow
def test_two_folds_of_clients_cost_the_larger_and_a_third_training_comes_on_top():
    folds = dataclasses.replace(
        _MODEL,
        pretraining=dataclasses.replace(_MODEL, noise_multiplier=1.5),
        pretraining_rounds=20,
        pretraining_disjoint=True,
    )
    mechanism, rounds = ledger.composed([Spent("folds", folds, 20), Spent("look", _LOOK)])
    assert mechanism.epsilon(rounds) == pytest.approx(_accounted((_OF_MODEL, 20), (_OF_LOOK, 1)), rel=1e-9)
    both, rounds = ledger.composed([Spent("folds", folds, 20), Spent("folds", folds, 21), Spent("look", _LOOK)])
    assert both.epsilon(rounds) >= _accounted((_OF_MODEL, 41), (_OF_LOOK, 1))


@pytest.mark.slow
@pytest.mark.parametrize("larger_is_last", [True, False])
def test_pld_composes_a_look_with_the_larger_fold_alone(larger_is_last):
    larger, smaller = _MODEL, dataclasses.replace(_MODEL, noise_multiplier=1.5)
    last, first = (larger, smaller) if larger_is_last else (smaller, larger)
    folds = dataclasses.replace(last, pretraining=first, pretraining_rounds=20, pretraining_disjoint=True)
    look = Spent("look", dataclasses.replace(_LOOK, accountant="pld"))
    mechanism, rounds = ledger.composed([Spent("folds", folds, 20), look])
    accountant = pld.PLDAccountant()
    accountant.compose(_OF_MODEL, 20)
    accountant.compose(_OF_LOOK)
    assert mechanism.epsilon(rounds) == pytest.approx(accountant.get_epsilon(_DELTA), rel=1e-3)


def test_trainings_by_turns_are_not_taken_for_one():
    turns = dataclasses.replace(_MODEL, sampling="cyclic")
    mechanism, rounds = ledger.composed([Spent("one", turns, 1), Spent("two", turns, 1), Spent("look", _LOOK)])
    expected = _accounted((dp_accounting.GaussianDpEvent(1.0), 2), (_OF_LOOK, 1))
    assert mechanism.epsilon(rounds) == pytest.approx(expected, rel=1e-9)


def test_hundreds_of_looks_are_counted():
    spent = [Spent("look", dataclasses.replace(_LOOK, noise_multiplier=100.0 + number)) for number in range(100)]
    mechanism, rounds = ledger.composed([*spent, *[Spent("look", _LOOK)] * 400])
    noise = np.sum(1 / (100.0 + np.arange(100)) ** 2) + 400 / 25
    assert mechanism.epsilon(rounds) == pytest.approx(
        _accounted((dp_accounting.GaussianDpEvent(noise**-0.5), 1)), rel=1e-6
    )


def test_what_has_no_guarantee_is_named():
    with pytest.raises(ValueError, match=r"^look has no guarantee, because there is no noise"):
        ledger.composed([Spent("look", dataclasses.replace(_LOOK, noise_multiplier=0.0))])


def test_a_ledger_remembers(tmp_path):
    path = tmp_path / "spent.jsonl"
    model = Spent("model", dataclasses.replace(_LOOK, pretraining=_MODEL, pretraining_rounds=3), 20)
    with ledger.opened(path) as book:
        assert book.entries == ()
        book.add([model])
        assert book.entries == (model,)
        assert path.read_text().count("\n") == 1
    with ledger.opened(path) as book:
        book.add([Spent("look", _LOOK)])
    with ledger.opened(path) as book:
        assert book.entries == (model, Spent("look", _LOOK))


@pytest.mark.parametrize("content", ["nothing\n", "{}\n", '{"what": "look", "mechanism": {}, "rounds": 1}\n', "[]\n"])
def test_what_is_no_ledger_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "spent.jsonl"
    path.write_text(content)
    with pytest.raises(UsageError, match="is no ledger that can be read"), ledger.opened(path):
        pass
    assert path.read_text() == content


def test_a_ledger_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be written"), ledger.opened(tmp_path / "none" / "spent.jsonl"):
        pass


# Choosing among runs.


POISSON = Mechanism("dpsgd", 1.0, 1000, 10, "poisson", delta=1e-5)


def test_a_poisson_number_of_runs_is_the_theorem_of_dp_accounting():
    one = releases.Gaussian(4.0).divergences
    event = dp_event.RepeatAndSelectDpEvent(dp_accounting.GaussianDpEvent(4.0), mean=12, shape=math.inf)
    accountant = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    np.testing.assert_allclose(ledger.poisson_divergences(np.tile(one, (12, 1))), accountant.compose(event).rdp)


def test_a_poisson_number_of_runs_by_hand():
    # At order 2, one run is (log 2, delta')-private, and delta' of the Gaussian is known in closed form.
    noise, runs, at = 4.0, 5, list(releases.ORDERS).index(2.0)
    one = releases.Gaussian(noise).divergences
    delta = rdp_privacy_accountant.compute_delta(releases.ORDERS, one, math.log(2))[0]
    phi = lambda x: math.erfc(-x / math.sqrt(2)) / 2  # noqa: E731
    exact = phi(0.5 / noise - noise * math.log(2)) - 2 * phi(-0.5 / noise - noise * math.log(2))
    assert exact < delta < 20 * exact
    found = ledger.poisson_divergences(np.tile(one, (runs, 1)))[at]
    assert found == pytest.approx(2 / (2 * noise**2) + runs * delta + math.log(runs))


def test_the_least_private_point_counts():
    quiet, loud = releases.Gaussian(8.0).divergences, releases.Gaussian(4.0).divergences
    found = ledger.poisson_divergences(np.array([quiet, loud, quiet]))
    np.testing.assert_array_equal(found, ledger.poisson_divergences(np.tile(loud, (3, 1))))


def test_a_grid_says_what_its_runs_cost_together():
    fixed = dataclasses.replace(POISSON, sampling="fixed", delta=1e-6)
    found = ledger.describe([(POISSON, 50), (fixed, 100)])
    event = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    whole = rdp.RdpAccountant().compose(event, 150).get_epsilon(1e-6)
    least = dp_event.RepeatAndSelectDpEvent(dp_accounting.SelfComposedDpEvent(event, 100), 2, math.inf)
    best = rdp.RdpAccountant().compose(least).get_epsilon(1e-6)
    assert f"The 2 runs together spend epsilon {whole:.3g} by RDP, at delta 1e-06 (one client added" in found
    assert "), if Poisson. A Poisson-distributed number of runs of mean 2, " in found
    assert f"would spend {best:.3g} if nothing but the best were looked at" in found


def test_a_run_without_a_guarantee_leaves_none_to_the_grid_and_a_grid_without_noise_says_nothing():
    silent = Mechanism("none", 0.0, 1000, 10)
    assert ledger.describe([(silent, 5), (silent, 5)]) == ""
    assert ledger.describe([(POISSON, 5), (silent, 5)]) == (
        "Privacy: choosing among runs on private data costs privacy. The 2 runs together guarantee nothing, because in "
        "1 of them there is no noise."
    )


def test_disjoint_trainings_cost_the_larger_at_every_order():
    both = dataclasses.replace(POISSON, pretraining=POISSON, pretraining_rounds=30, pretraining_disjoint=True)
    (own,) = POISSON.analyses
    for rounds in (10, 50):
        np.testing.assert_array_equal(both.analyses[0].divergences(rounds), own.divergences(max(rounds, 30)))
