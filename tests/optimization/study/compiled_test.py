"""Tests of optimization.study.compiled."""

import pytest

from optimization.study import compiled


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    monkeypatch.setattr(compiled, "_kept", type(compiled._kept)())


def test_what_was_used_last_is_kept(monkeypatch):
    monkeypatch.setattr(compiled, "_MOST", 2)
    built = []
    for key in "abacab":
        assert compiled.kept(key, lambda key=key: built.append(key) or f"built {key}") == f"built {key}"
    assert built == ["a", "b", "c", "b"]


def test_runs_that_differ_in_seed_length_and_folder_have_one_key():
    settings = {"seed": 0, "total_rounds": 5, "experiment_name": "a", "client_batch_size": 16}
    other = settings | {"seed": 1, "total_rounds": 9, "experiment_name": "b"}
    assert compiled.run_key(settings, "x") == compiled.run_key(other, "x")
    assert compiled.run_key(settings, "x") != compiled.run_key(settings, "y")
    assert compiled.run_key(settings, "x") != compiled.run_key(settings | {"client_batch_size": 8}, "x")
