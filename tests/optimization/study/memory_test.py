"""Tests of `optimization.study.memory`."""

import psutil
import pytest

from data import memory as machine
from data.errors import UsageError
from optimization.study import memory

PEAKS = [  # Measured bytes of the program and its worker: model, cohort, FedKP, peak.
    (36_900_000, 2, False, 3.98e9),
    (36_900_000, 8, False, 4.45e9),
    (36_900_000, 8, True, 7.62e9),
    (36_900_000, 2, True, 2.89e9),
    (40, 2, False, 0.88e9),
]


@pytest.mark.parametrize(("model", "cohort", "keeps_models", "peak"), PEAKS)
def test_no_run_that_was_measured_would_be_refused_with_a_quarter_less_memory(model, cohort, keeps_models, peak):
    assert memory.needed_bytes(model, cohort, keeps_models=keeps_models) < 0.75 * peak


def test_a_run_is_refused_with_the_figure_and_the_remedy(monkeypatch):
    monkeypatch.setattr(machine, "available_bytes", lambda: 4_000_000_000)
    monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: [psutil.Process()])
    memory.check(4_000_000, 10, keeps_models=False)
    with pytest.raises(UsageError, match=r"model of 400 MB needs at least 10\.5 GB of memory, and .* a larger machine"):
        memory.check(400_000_000, 10, keeps_models=False)
    memory.check(40_000_000, 8, keeps_models=True)
    with pytest.raises(UsageError, match=r"cohort of 40, whose models .* 9\.5 GB .* fewer --clients_per_round"):
        memory.check(40_000_000, 40, keeps_models=True)
    # Beyond a message the program collects the models: 0.5 GB, 25 models of 40 MB, and 300 of them.
    with pytest.raises(UsageError, match=r"cohort of 300, whose models .* 13\.5 GB"):
        memory.check(40_000_000, 300, keeps_models=True)


def test_with_remote_workers_the_program_alone_needs_memory(monkeypatch):
    monkeypatch.setattr(machine, "available_bytes", lambda: 6_000_000_000)
    monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: [])
    memory.check(400_000_000, 10, keeps_models=False)
