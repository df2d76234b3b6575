"""Cost of several releases, against dp-accounting, and the file that records them."""

import dataclasses

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp

from data.errors import UsageError
from optimization.privacy import ledger
from optimization.privacy.ledger import Spent
from optimization.privacy.mechanisms import Mechanism

_DELTA = 1e-5
_LOOK = Mechanism("dpsgd", 5.0, 1000, 1000, "cyclic", delta=_DELTA)
_MODEL = Mechanism("dpsgd", 1.0, 500, 50, "poisson", delta=1e-4)
_LESS_EXPENSIVE = dataclasses.replace(_MODEL, noise_multiplier=1.5)


def _folds(last, first):
    return dataclasses.replace(last, pretraining=first, pretraining_rounds=20, pretraining_disjoint=True)


def _accounted(*events):
    accountant = rdp.RdpAccountant()
    for event, count in events:
        accountant.compose(event, count)
    return accountant.get_epsilon(_DELTA)


_OF_LOOK = dp_accounting.GaussianDpEvent(5.0)
_OF_MODEL = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(1.0))


def test_releases_and_models_are_composed_at_the_last_delta():
    other = dataclasses.replace(_LOOK, noise_multiplier=3.0)
    spent = [Spent("model", _MODEL, 20), Spent("look", _LOOK), Spent("look", other), Spent("look", _LOOK)]
    mechanism, rounds = ledger.composed(spent)
    expected = _accounted((_OF_MODEL, 20), (_OF_LOOK, 2), (dp_accounting.GaussianDpEvent(3.0), 1))
    assert mechanism.epsilon(rounds) == pytest.approx(expected, rel=1e-9)
    assert mechanism.delta == _DELTA
    assert (mechanism.noise_multiplier, rounds) == (5.0, 2)
    assert ledger.composed([Spent("look", _LOOK, 3)]) == (_LOOK, 3)


@pytest.mark.slow
def test_two_folds_of_clients_cost_the_larger_and_a_third_training_comes_on_top():
    folds = _folds(_MODEL, _LESS_EXPENSIVE)
    mechanism, rounds = ledger.composed([Spent("folds", folds, 20), Spent("look", _LOOK)])
    assert mechanism.epsilon(rounds) == pytest.approx(_accounted((_OF_MODEL, 20), (_OF_LOOK, 1)), rel=1e-9)
    both, rounds = ledger.composed([Spent("folds", folds, 20), Spent("folds", folds, 21), Spent("look", _LOOK)])
    assert both.epsilon(rounds) >= _accounted((_OF_MODEL, 41), (_OF_LOOK, 1))


@pytest.mark.slow
@pytest.mark.parametrize("larger_is_last", [True, False])
def test_pld_composes_a_look_with_the_larger_fold_alone(larger_is_last):
    folds = _folds(_MODEL, _LESS_EXPENSIVE) if larger_is_last else _folds(_LESS_EXPENSIVE, _MODEL)
    look = Spent("look", dataclasses.replace(_LOOK, accountant="pld"))
    mechanism, rounds = ledger.composed([Spent("folds", folds, 20), look])
    accountant = pld.PLDAccountant()
    accountant.compose(_OF_MODEL, 20)
    accountant.compose(_OF_LOOK)
    assert mechanism.epsilon(rounds) == pytest.approx(accountant.get_epsilon(_DELTA), rel=1e-3)


def test_trainings_by_turns_are_composed():
    turns = dataclasses.replace(_MODEL, sampling="cyclic")
    mechanism, rounds = ledger.composed([Spent("one", turns, 1), Spent("two", turns, 1), Spent("look", _LOOK)])
    expected = _accounted((dp_accounting.GaussianDpEvent(1.0), 2), (_OF_LOOK, 1))
    assert mechanism.epsilon(rounds) == pytest.approx(expected, rel=1e-9)


def test_hundreds_of_looks_are_counted():
    spent = [Spent("look", dataclasses.replace(_LOOK, noise_multiplier=100.0 + number)) for number in range(100)]
    mechanism, rounds = ledger.composed([*spent, *[Spent("look", _LOOK)] * 400])
    noise = (np.sum(1 / (100.0 + np.arange(100)) ** 2) + 400 / 25) ** -0.5
    assert mechanism.epsilon(rounds) == pytest.approx(_accounted((dp_accounting.GaussianDpEvent(noise), 1)), rel=1e-6)


def test_a_release_without_a_guarantee_is_named():
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
def test_a_file_that_is_no_ledger_is_refused_and_unchanged(tmp_path, content):
    path = tmp_path / "spent.jsonl"
    path.write_text(content)
    with pytest.raises(UsageError, match="is not a readable ledger"), ledger.opened(path):
        pass
    assert path.read_text() == content


def test_a_ledger_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be written"), ledger.opened(tmp_path / "none" / "spent.jsonl"):
        pass


POISSON = Mechanism("dpsgd", 1.0, 1000, 10, "poisson", delta=1e-5)


def test_a_grid_reports_the_epsilon_of_all_runs():
    fixed = dataclasses.replace(POISSON, sampling="fixed", delta=1e-6)
    found = ledger.describe([(POISSON, 50), (fixed, 100)])
    event = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    whole = rdp.RdpAccountant().compose(event, 150).get_epsilon(1e-6)
    assert f"The 2 runs together spend epsilon {whole:.3g} by RDP, at delta 1e-06 (one client added" in found
    assert found.endswith("), if Poisson.")


def test_a_grid_has_no_guarantee_if_a_run_has_none():
    silent = Mechanism("none", 0.0, 1000, 10)
    assert ledger.describe([(silent, 5), (silent, 5)]) == ""
    assert ledger.describe([(POISSON, 5), (silent, 5)]) == (
        "Privacy: choosing among runs on private data costs privacy. The 2 runs together guarantee nothing, because in "
        "1 of them there is no noise."
    )
