"""Tests of `optimization.study.memory`."""

import psutil
import pytest

from data import memory as machine
from data.errors import UsageError
from optimization.study import memory

PEAKS = [  # Measured bytes of the program and its worker: model, cohort, FedKP, peak.
    (36_900_000, 2, False, 3.98e9),
    (36_900_000, 8, False, 4.45e9),
    (4_826_360, 20, True, 1.56e9),
    (4_826_360, 40, True, 1.78e9),
    (4_826_360, 100, True, 2.49e9),
    (6_653_480, 100, True, 2.73e9),
    (40, 2, False, 0.88e9),
]


@pytest.mark.parametrize(("model", "cohort", "keeps_models", "peak"), PEAKS)
def test_no_run_that_was_measured_would_be_refused_with_a_quarter_less_memory(model, cohort, keeps_models, peak):
    assert memory.needed_bytes(model, cohort, keeps_models=keeps_models) < 0.75 * peak
    assert memory.usual_bytes(model, cohort, keeps_models=keeps_models) == pytest.approx(peak, rel=0.15)


def test_a_run_is_refused_with_the_figure_and_the_remedy(monkeypatch):
    monkeypatch.setattr(machine, "available_bytes", lambda: 4_000_000_000)
    monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: [psutil.Process()])
    memory.check(4_000_000, 10, keeps_models=False)
    with pytest.raises(UsageError, match=r"400 MB needs at least 10\.5 GB .* usually 34\.9 GB, .* a larger machine"):
        memory.check(400_000_000, 10, keeps_models=False)
    memory.check(40_000_000, 8, keeps_models=True)
    # 100 clients with 2.4 copies of 40 MB, and 85 copies beside them, of which 25 are the least.
    with pytest.raises(UsageError, match=r"cohort of 100, .* 7\.3 GB .* usually 13\.9 GB.* fewer --clients"):
        memory.check(40_000_000, 100, keeps_models=True)


def test_with_remote_workers_the_program_alone_needs_memory(monkeypatch):
    monkeypatch.setattr(machine, "available_bytes", lambda: 6_000_000_000)
    monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: [])
    memory.check(400_000_000, 10, keeps_models=False)
